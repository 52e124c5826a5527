"""jax.experimental.compilation_cache: where compiled code is kept."""

from . import compilation_cache as compilation_cache
