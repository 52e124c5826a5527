"""jax.experimental.pjit: the name under which `jax.jit` of arrays over devices was first known."""

from .._transforms.jit import jit as pjit

__all__ = ["pjit"]
