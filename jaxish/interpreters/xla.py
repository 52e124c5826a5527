"""jax.interpreters.xla: the table of classes that are arrays here, and primitives by their lowering rules."""

from .._core.foreign_arrays import plain_values as canonicalize_dtype_handlers
from .._jaxprs.lowerings import apply_primitive

__all__ = ["apply_primitive", "canonicalize_dtype_handlers"]
