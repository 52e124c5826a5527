"""jax.experimental.shard_map: the name under which `jax.shard_map` was first known."""

from .._core import lazy_modules as _lazy_modules

__getattr__ = _lazy_modules.deprecated(
    __name__,
    {"shard_map": ("jaxish._transforms.shard_map", "experimental_shard_map")},
    {"shard_map": "jax.experimental.shard_map is deprecated in v0.8.0. Used jax.shard_map instead."},
)
