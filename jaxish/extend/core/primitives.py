"""jax.extend.core.primitives: JAX's primitives by name."""

from ..._lax.vocabulary import of_extend as _primitives
from ..._random import extend as _of_keys  # noqa: F401  (its primitives are among them)

globals().update(_primitives())
