"""jax.experimental.shard_map: the name under which `jax.shard_map` was first known."""

import warnings
from collections.abc import Callable
from typing import Any

from .._transforms.shard_map import shard_map as _shard_map


def shard_map(
    f: Callable[..., Any], mesh: Any, in_specs: Any, out_specs: Any, check_rep: bool = True
) -> Callable[..., Any]:
    """Return `jax.shard_map(f, ...)`, with its `check_vma` under the name `check_rep`. Deprecated."""
    warnings.warn("jax.experimental.shard_map is deprecated; use jax.shard_map.", DeprecationWarning, stacklevel=2)
    return _shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_rep)
