"""jax.flatten_util: a pytree of arrays as one vector."""

from ._transforms.flatten_util import ravel_pytree as ravel_pytree
