"""jax.interpreters.pxla: what JAX keeps here, deprecated, of its runtime for many devices."""

from .._core import lazy_modules as _lazy_modules

__getattr__ = _lazy_modules.deprecated(__name__, {"thread_resources": ("jaxish._devices.meshes", "thread_resources")})
