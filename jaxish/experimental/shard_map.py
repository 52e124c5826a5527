"""jax.experimental.shard_map: the name under which `jax.shard_map` was first known."""

from .._transforms.shard_map import experimental_shard_map as shard_map

__all__ = ["shard_map"]
