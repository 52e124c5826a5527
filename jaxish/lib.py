"""jax.lib: the version that jaxlib would have."""

from ._core.machine import JAX_VERSION as __version__  # noqa: F401
