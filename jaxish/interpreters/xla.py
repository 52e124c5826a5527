"""jax.interpreters.xla: the table of classes that are arrays here."""

from .._core.foreign_arrays import plain_values as canonicalize_dtype_handlers

__all__ = ["canonicalize_dtype_handlers"]
