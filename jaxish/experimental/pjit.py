"""jax.experimental.pjit: the name under which `jax.jit` of arrays over devices was first known."""

from .._core import lazy_modules as _lazy_modules

__getattr__ = _lazy_modules.deprecated(
    __name__,
    {"pjit": ("jaxish._transforms.jit", "jit")},
    {"pjit": "jax.experimental.pjit.pjit has been deprecated. Please use `jax.jit` instead."},
)
