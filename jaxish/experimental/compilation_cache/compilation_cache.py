"""jax.experimental.compilation_cache.compilation_cache: the cache on disk. This module only hands names on."""

from ..._core.cache import reset_cache as reset_cache
from ..._core.cache import set_cache_dir as set_cache_dir
