"""jax.ops: sums, products and extrema of the rows of an array that belong together."""

from collections.abc import Callable
from typing import Any

import torch

from .._core import narrow
from .._core.array import Array, as_array, check_arraylike, tensor_of
from .._core.errors import ConcretizationTypeError
from .._core.symbolic_sizes import index as index_of
from .._core.typing import ArrayLike
from .._lax.out_sharding import laid_over
from .._tensors.ordering import highest, lowest
from . import reductions
from .arguments import concrete_values
from .index_update import refuse_booleans
from .indexing import mode_of, put_index


def _segmented(
    function: str, combine: str, identity: Callable[[torch.dtype], Any], reduce: Callable[..., Array], data: ArrayLike,
    segment_ids: ArrayLike, num_segments: int | None, unique: bool, bucket_size: int | None, mode: Any,
    out_sharding: Any,
) -> Array:  # fmt: skip
    check_arraylike(function, data, segment_ids)
    rows, ids = tensor_of(as_array(data)), as_array(segment_ids)
    refuse_booleans(combine, rows.dtype)
    if num_segments is None:
        numbers = concrete_values(ids, ConcretizationTypeError, f"{function}: give num_segments under jit and vmap.")
        num_segments = int(numbers.max()) + 1
    count = index_of(num_segments)
    if count < 0:
        raise ValueError(f"{function}: num_segments must be non-negative, got {count}.")
    index: Any = ids
    size = [count, *rows.shape[1:]]
    if bucket_size is not None:
        size.insert(0, -(-ids.size // bucket_size))
        position = torch.arange(ids.shape[0], device=rows.device)
        index = (Array(position // bucket_size, False), ids)
    start = narrow.full(size, identity(rows.dtype), rows.dtype, rows.device)
    found = Array(put_index(start, index, rows, combine, mode_of(mode), unique, wrap=False), False)
    whole = found if bucket_size is None else reduce(found, axis=0).astype(found.dtype)
    return laid_over(out_sharding, function, whole)


def segment_sum(
    data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None, indices_are_sorted: bool = False,
    unique_indices: bool = False, bucket_size: int | None = None, mode: Any = None, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """Return the sums of the rows of `data` with the same segment number, an array of `num_segments` rows.

    Rows whose number is negative, or not below `num_segments`, are left out. `num_segments` is by default one more
    than the largest number, which has to be concrete then. `bucket_size` rows at a time are summed on their own, which
    is more accurate. `indices_are_sorted` and `unique_indices` are promises that may make it faster.
    """
    return _segmented(
        "segment_sum", "add", lambda _: 0, reductions.sum, data, segment_ids, num_segments, unique_indices, bucket_size,
        mode, out_sharding,
    )  # fmt: skip


def segment_prod(
    data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None, indices_are_sorted: bool = False,
    unique_indices: bool = False, bucket_size: int | None = None, mode: Any = None, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """Return the products of the rows of `data` with the same segment number; 1 for none. See `segment_sum`."""
    return _segmented(
        "segment_prod", "mul", lambda _: 1, reductions.prod, data, segment_ids, num_segments, unique_indices,
        bucket_size, mode, out_sharding,
    )  # fmt: skip


def segment_max(
    data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None, indices_are_sorted: bool = False,
    unique_indices: bool = False, bucket_size: int | None = None, mode: Any = None, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """Return the greatest of the rows of `data` with the same segment number; the dtype's least value for none."""
    return _segmented(
        "segment_max", "max", lowest, reductions.max, data, segment_ids, num_segments, unique_indices, bucket_size,
        mode, out_sharding,
    )  # fmt: skip


def segment_min(
    data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None, indices_are_sorted: bool = False,
    unique_indices: bool = False, bucket_size: int | None = None, mode: Any = None, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """Return the least of the rows of `data` with the same segment number; the dtype's greatest value for none."""
    return _segmented(
        "segment_min", "min", highest, reductions.min, data, segment_ids, num_segments, unique_indices, bucket_size,
        mode, out_sharding,
    )  # fmt: skip
