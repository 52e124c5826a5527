"""jax.extend.core.primitives: JAX's primitives by name."""

from ..._lax.vocabulary import of_extend as _primitives

globals().update(_primitives())
