"""gather and scatter with full dimension numbers.

Both read the last dimension of the indices as vectors: the position, in some operand dimensions, of a window. Here
every operand dimension that is indexed gets one integer tensor, over the batch dimensions of the indices and over the
window's extent in the indexed dimensions, and `element_access` does the rest. Dimensions that windows cover whole
stay trailing slices.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._core import dtypes, narrow, selection, unsigned
from .._core.array import Array, as_array, tensor_of
from .._core.dimensions import broadcast_shape
from .._core.extended import moves_elements
from .._core.graph import is_plain_evaluation
from .._core.operations import shown_as
from .._core.primitive import differentiable
from .._core.promotion import convert
from .._core.typing import ArrayLike
from .._tensors.elements import GatherDimensionNumbers as GatherDimensionNumbers
from .._tensors.elements import GatherScatterMode, default_fill, drop_cotangents, elements_at, put_elements, shown_fill
from .._tensors.elements import ScatterDimensionNumbers as ScatterDimensionNumbers
from . import operands as ops
from .operands import check_same_dtypes, check_shapelike


class _Windows(NamedTuple):
    """Where windows lie in an operand: `indexed` dimensions have index tensors, the `covered` ones are taken whole.

    The index tensors have the batch shape followed by one dimension for each indexed dimension that windows keep.
    """

    indexed: list[int]
    covered: list[int]
    places: list[Tensor]
    inside: Tensor
    batch: tuple[int, ...]
    kept: list[int]  # indexed dimensions that windows keep


def _windows(
    shape: Sequence[int], indices: Tensor, index_map: Sequence[int], sizes: Sequence[int], dropped: Sequence[int],
    batching: Sequence[int], indices_batching: Sequence[int], clip: bool,
) -> _Windows:  # fmt: skip
    batch = tuple(indices.shape[:-1])
    inner = [d for d in range(len(shape)) if d not in index_map and d not in batching]
    covered = [d for d in inner if sizes[d] == shape[d] and d not in dropped]
    indexed = [*batching, *index_map, *(d for d in inner if d not in covered)]
    kept = sorted(d for d in indexed if d not in dropped and d not in batching)
    starts: dict[int, Tensor] = {}
    inside = torch.ones((), dtype=torch.bool, device=indices.device)
    for d in indexed:
        if d in batching:
            along = indices_batching[list(batching).index(d)]
            line = torch.arange(shape[d], device=indices.device)
            starts[d] = line.reshape([-1 if i == along else 1 for i in range(len(batch))])
        elif d in index_map:
            start = indices[..., list(index_map).index(d)]
            room = shape[d] - sizes[d]
            inside = inside & (start >= 0) & (start <= room)
            starts[d] = start.clamp(0, max(room, 0)) if clip else start
        else:
            starts[d] = torch.zeros((), dtype=torch.int64, device=indices.device)
    places = []
    for d in indexed:
        start = starts[d].expand(batch).reshape(*batch, *(1,) * len(kept)) if starts[d].dim() else starts[d]
        if d in kept:
            line = torch.arange(sizes[d], device=indices.device)
            start = start + line.reshape([-1 if k == d else 1 for k in kept])
        places.append(start)
    if places:
        shape = (*batch, *(1,) * len(kept))
        places[0] = places[0].expand(broadcast_shape(places[0].shape, shape))
    return _Windows(indexed, covered, places, inside, batch, kept)


def _integer_indices(name: str, indices: Any) -> Tensor:
    tensor = tensor_of(ops.array_of(name, indices, 1))
    if tensor.dtype not in ops.INTEGER.dtypes:
        raise ValueError(f"{name} indices must have an integer dtype, got {dtypes.TO_NUMPY[tensor.dtype]}.")
    if not tensor.dim():
        raise TypeError(f"{name} indices must have at least one dimension, whose vectors are positions; got a scalar.")
    return tensor.to(torch.int64)


@moves_elements(0)
def gather(
    operand: ArrayLike,
    start_indices: ArrayLike,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
) -> Array:
    """Return windows of `slice_sizes` of `operand` at positions `start_indices`.

    A window that does not lie within the operand is moved into it (modes "clip" and "promise_in_bounds", the default)
    or filled with `fill_value` ("fill"). `unique_indices` and `indices_are_sorted` are promises that nothing here
    needs. `TypeError` when dimensions and sizes do not fit.
    """
    t, weak = ops.operand("gather", operand)
    indices = _integer_indices("gather", start_indices)
    how = _mode("promise_in_bounds" if mode is None else mode)
    numbers = GatherDimensionNumbers(*(tuple(d) for d in dimension_numbers))
    sizes = check_shapelike("gather", "slice_sizes", tuple(slice_sizes))
    _check_gather(t, indices, numbers, sizes)
    return Array(_gathered(t, indices, numbers, sizes, how, fill_value, unique_indices, indices_are_sorted), weak)


def _shown_gather(
    t: Tensor, indices: Tensor, numbers: Any, sizes: Any, how: Any, fill: Any, *flags: bool
) -> dict[str, Any]:
    return {
        "dimension_numbers": numbers, "slice_sizes": sizes, "unique_indices": flags[0], "indices_are_sorted": flags[1],
        "mode": how, "fill_value": shown_fill(t, how, fill),
    }  # fmt: skip


@shown_as("gather", _shown_gather)
def _gathered(
    t: Tensor, indices: Tensor, numbers: GatherDimensionNumbers, sizes: tuple[int, ...], how: GatherScatterMode,
    fill_value: Any, *promises: bool,
) -> Tensor:  # fmt: skip
    dropped = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    windows = _windows(
        t.shape, indices, numbers.start_index_map, sizes, dropped, numbers.operand_batching_dims,
        numbers.start_indices_batching_dims, clip=True,
    )  # fmt: skip
    found = _window_values(t, windows)
    if how is GatherScatterMode.PROMISE_IN_BOUNDS and differentiable(t.dtype) and not is_plain_evaluation():
        found = drop_cotangents(found, windows.inside.expand(windows.batch))
    if how is GatherScatterMode.FILL_OR_DROP:
        fill = default_fill(t.dtype) if fill_value is None else fill_value
        if hasattr(fill, "shape"):
            value = convert(tensor_of(as_array(fill)), t.dtype)
        else:
            value = narrow.full((), fill, t.dtype, t.device)
        inside = windows.inside[(..., *(None,) * (found.dim() - windows.inside.dim()))]
        found = selection.where(inside, found, value)
    return _batch_dims_out(found, windows, dropped, t.dim(), numbers.offset_dims)


def _mode(mode: Any) -> GatherScatterMode:
    how = GatherScatterMode.from_any(mode)
    if how is GatherScatterMode.ONE_HOT:
        raise NotImplementedError("Mode 'one_hot' is a layout hint for TPUs that is not implemented; use mode 'fill'.")
    return how


def _window_values(t: Tensor, windows: _Windows) -> Tensor:
    """Return the windows' elements: batch dimensions, kept indexed ones, covered ones."""
    t = t.permute(*windows.indexed, *windows.covered) if t.dim() else t
    if not windows.indexed:
        return t.expand(*windows.batch, *t.shape)
    return unsigned.via_bits(lambda x: elements_at(x, windows.places), t)


def _batch_dims_out(
    found: Tensor, windows: _Windows, dropped: Sequence[int], rank: int, offset_dims: Sequence[int]
) -> Tensor:
    """Return (batch, kept, covered) in the order of the result: windows at `offset_dims`, batch in between."""
    held = [d for d in range(rank) if d not in dropped]
    order = [*windows.kept, *windows.covered]
    batch = iter(range(len(windows.batch)))
    offsets = dict(zip(offset_dims, held, strict=True))
    source = [len(windows.batch) + order.index(offsets[i]) if i in offsets else next(batch) for i in range(found.dim())]
    return found.permute(source) if source else found


def _check_gather(t: Tensor, indices: Tensor, numbers: GatherDimensionNumbers, sizes: Sequence[int]) -> None:
    dropped = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    rank = len(numbers.offset_dims) + indices.dim() - 1
    _check_order("gather", "offset_dims", numbers.offset_dims)
    for i, d in enumerate(numbers.offset_dims):
        if not 0 <= d < rank:
            raise TypeError(
                f"Offset dimension {i} in gather op is out of bounds; got {d}, but should have been in [0, {rank})"
            )
    _check_map("Gather", "start_index_map", numbers.start_index_map, t, indices)
    _check_dims("gather", "collapsed_slice_dims", numbers.collapsed_slice_dims, t.dim())
    _check_batching(
        "gather", t, indices, numbers.operand_batching_dims,
        ("start_indices_batching_dims", numbers.start_indices_batching_dims),
        [("collapsed_slice_dims", numbers.collapsed_slice_dims), ("start_index_map", numbers.start_index_map)],
    )  # fmt: skip
    if len(sizes) != t.dim():
        raise TypeError(
            f"Gather op must have one slice size for every input dimension; got: len(slice_sizes)={len(sizes)}, "
            f"input_shape.rank={t.dim()}"
        )
    if len(sizes) != len(numbers.offset_dims) + len(dropped):
        raise TypeError(
            "All components of the offset index in a gather op must either be a offset dimension or explicitly "
            f"collapsed/batching; got len(slice_sizes)={len(sizes)}, output_slice_sizes={numbers.offset_dims}, "
            f"collapsed_slice_dims={numbers.collapsed_slice_dims}, operand_batching_dims={numbers.operand_batching_dims}."
        )
    for d, (n, bound) in enumerate(zip(sizes, t.shape, strict=True)):
        if n > bound and indices.shape[:-1].numel():
            raise TypeError(
                f"Slice size at index {d} in gather op is out of range, must be within [0, {bound} + 1), got {n}."
            )
    for d in dropped:
        if sizes[d] > 1:
            raise TypeError(
                f"Gather op can only collapse slice dims with bound 1, but bound is {sizes[d]} for index {d}."
            )


def _check_order(name: str, what: str, dims: Sequence[int]) -> None:
    if list(dims) != sorted(dims):
        raise TypeError(f"{what} in {name} op must be sorted; got {tuple(dims)}")
    _check_unique(name, what, dims)


def _check_unique(name: str, what: str, dims: Sequence[int]) -> None:
    if len(set(dims)) != len(tuple(dims)):
        raise TypeError(f"{what} in {name} op must not repeat; got: {tuple(dims)}.")


def _check_range(name: str, what: str, dims: Sequence[int], rank: int) -> None:
    for d in dims:
        if not 0 <= d < rank:
            raise TypeError(f"Invalid {what} set in {name} op; valid range is [0, {rank}); got: {d}.")


def _check_dims(name: str, what: str, dims: Sequence[int], rank: int) -> None:
    _check_order(name, what, dims)
    _check_range(name, what, dims, rank)


def _check_map(title: str, what: str, dims: Sequence[int], t: Tensor, indices: Tensor) -> None:
    """Check which dimensions of the operand the parts of an index are positions in."""
    if len(dims) != indices.shape[-1]:
        raise TypeError(
            f"{title} op has {len(dims)} elements in {what} and the bound of dimension "
            f"index_vector_dim={indices.dim() - 1} of indices is {indices.shape[-1]}. These two numbers must be equal."
        )
    for i, d in enumerate(dims):
        if not 0 <= d < t.dim():
            mapping = what if title == "Gather" else f"{what} mapping"
            raise TypeError(f"Invalid {mapping}; domain is [0, {t.dim()}), got: {i}->{d}.")
    _check_unique(title.lower(), what, dims)


def _check_batching(
    name: str, t: Tensor, indices: Tensor, operand_dims: Sequence[int], index_dims: tuple[str, Sequence[int]],
    others: Sequence[tuple[str, Sequence[int]]],
) -> None:  # fmt: skip
    """Check the dimensions that are batched in the operand and in the indices, and are none of the `others`."""
    title, (index_name, along) = name.capitalize(), index_dims
    _check_dims(name, "operand_batching_dims", operand_dims, t.dim())
    for what, dims in others:
        if not set(dims).isdisjoint(operand_dims):
            raise TypeError(
                f"{what} and operand_batching_dims in {name} op must be disjoint; got: {tuple(dims)} and "
                f"{tuple(operand_dims)}."
            )
    _check_unique(name, index_name, along)
    _check_range(name, index_name, along, indices.dim())
    if indices.dim() - 1 in along:
        raise TypeError(
            f"{title} op cannot have the index vector dimension as a batching dimension; got {tuple(along)}."
        )
    if len(operand_dims) != len(along):
        raise TypeError(
            f"{title} op requires equal numbers of operand_batching_dims and {index_name}, got {tuple(operand_dims)} and "
            f"{tuple(along)}."
        )
    shapes = tuple(t.shape[d] for d in operand_dims), tuple(indices.shape[d] for d in along)
    if shapes[0] != shapes[1]:
        raise TypeError(
            f"{title} op requires operand batching dimensions and indices batching dimensions to have the same shape, got "
            f"{shapes[0]} and {shapes[1]}."
        )


def _scatter(
    name: str, combine: str, operand: Any, scatter_indices: Any, updates: Any, numbers: ScatterDimensionNumbers,
    mode: Any, unique: bool,
) -> Array:  # fmt: skip
    t, weak = ops.operand(name, operand, ops.NUMBER if combine in ("add", "mul") else ops.ANY)
    u, update_weak = ops.operand(name, updates)
    indices = _integer_indices(name, scatter_indices)
    how = _mode(mode)
    check_same_dtypes(name, t, u)
    windows, u = _scatter_windows(t, indices, u, numbers, how is GatherScatterMode.CLIP)
    order = [*windows.indexed, *windows.covered]
    target = t.permute(order) if order else t
    if not windows.indexed:
        places = [torch.zeros(windows.batch, dtype=torch.int64, device=t.device)]
        target = target.unsqueeze(0)
    else:
        places = windows.places
        if how is not GatherScatterMode.CLIP:
            # A window that sticks out is dropped whole.
            inside = windows.inside
            if inside.dim():
                inside = inside[(..., *(None,) * len(windows.kept))]
            places = [torch.where(inside, places[0], -1), *places[1:]]
    out = put_elements(target, places, u, combine, GatherScatterMode.FILL_OR_DROP, unique)
    out = out.squeeze(0) if not windows.indexed else out
    return Array(out.permute([order.index(d) for d in range(t.dim())]) if order else out, weak and update_weak)


def _scatter_windows(
    t: Tensor, indices: Tensor, u: Tensor, numbers: ScatterDimensionNumbers, clip: bool
) -> tuple[_Windows, Tensor]:
    """Return the windows, and the updates with their dimensions as (batch, kept indexed, covered)."""
    numbers = ScatterDimensionNumbers(*(tuple(d) for d in numbers))
    dropped = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    held = [d for d in range(t.dim()) if d not in dropped]
    _check_scatter(t, indices, u, numbers, held)
    sizes = [1] * t.dim()
    for d, along in zip(held, numbers.update_window_dims, strict=True):
        sizes[d] = u.shape[along]
    windows = _windows(
        t.shape, indices, numbers.scatter_dims_to_operand_dims, sizes, dropped, numbers.operand_batching_dims,
        numbers.scatter_indices_batching_dims, clip,
    )  # fmt: skip
    source = dict(zip(held, numbers.update_window_dims, strict=True))
    batch = [d for d in range(u.dim()) if d not in numbers.update_window_dims]
    u = u.permute([*batch, *(source[d] for d in (*windows.kept, *windows.covered))]) if u.dim() else u
    return windows, u


def _check_scatter(t: Tensor, indices: Tensor, u: Tensor, numbers: ScatterDimensionNumbers, held: list[int]) -> None:
    expected = len(numbers.update_window_dims) + indices.dim() - 1
    if u.dim() != expected:
        raise TypeError(f"Updates tensor must be of rank {expected}; got {u.dim()}.")
    _check_dims("scatter", "update_window_dims", numbers.update_window_dims, u.dim())
    _check_dims("scatter", "inserted_window_dims", numbers.inserted_window_dims, t.dim())
    _check_batching(
        "scatter", t, indices, numbers.operand_batching_dims,
        ("scatter_indices_batching_dims", numbers.scatter_indices_batching_dims),
        [
            ("inserted_window_dims", numbers.inserted_window_dims),
            ("scatter_dims_to_operand_dims", numbers.scatter_dims_to_operand_dims),
        ],
    )  # fmt: skip
    if len(held) != len(numbers.update_window_dims):
        window = t.dim() - len(held) + len(numbers.update_window_dims)
        raise TypeError(f"Scatter op has window of size {window}; doesn't match operand of rank {t.dim()}.")
    _check_map("Scatter", "scatter_dims_to_operand_dims", numbers.scatter_dims_to_operand_dims, t, indices)
    for d, along in zip(held, numbers.update_window_dims, strict=True):
        if u.shape[along] > t.shape[d]:
            raise TypeError(
                f"Bounds of the window dimensions of updates must not exceed the bounds of the corresponding dimensions "
                f"of operand. For dimension {along}, updates bound is {u.shape[along]}, operand bound is {t.shape[d]}."
            )
    batch = [n for d, n in enumerate(u.shape) if d not in numbers.update_window_dims]
    if batch != list(indices.shape[:-1]):
        raise TypeError(
            "Bounds of the scatter dimensions of updates must be the same as the bounds of the corresponding dimensions "
            f"of scatter indices; updates have {tuple(batch)}, indices {tuple(indices.shape[:-1])}."
        )


@moves_elements(0, 2, updates=True)
def scatter(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Return `operand` with windows overwritten by `updates` at positions `scatter_indices`.

    A window that does not lie within the operand is dropped, in mode "clip" moved into it. `unique_indices`
    promises that no element is updated twice; `indices_are_sorted` is a promise that nothing here needs. A place
    that is written twice keeps the last update. `TypeError` when dtypes, dimensions or sizes do not fit.
    """
    return _scatter("scatter", "set", operand, scatter_indices, updates, dimension_numbers, mode, unique_indices)


def scatter_add(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Return `operand` with `updates` added to windows at positions `scatter_indices`.

    A window that does not lie within the operand is dropped, in mode "clip" moved into it. `unique_indices`
    promises that no element is updated twice; `indices_are_sorted` is a promise that nothing here needs.
    `TypeError` for booleans. `TypeError` when dtypes, dimensions or sizes do not fit.
    """
    return _scatter("scatter_add", "add", operand, scatter_indices, updates, dimension_numbers, mode, unique_indices)


def scatter_mul(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Return `operand` with windows multiplied by `updates` at positions `scatter_indices`.

    A window that does not lie within the operand is dropped, in mode "clip" moved into it. `unique_indices`
    promises that no element is updated twice; `indices_are_sorted` is a promise that nothing here needs.
    `TypeError` for booleans. Repeated updates have a derivative as well, where JAX raises; batched (vmap) they have
    none. `TypeError` when dtypes, dimensions or sizes do not fit.
    """
    return _scatter("scatter_mul", "mul", operand, scatter_indices, updates, dimension_numbers, mode, unique_indices)


def scatter_min(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Return `operand` with windows lowered to `updates` where these are less at positions `scatter_indices`.

    A window that does not lie within the operand is dropped, in mode "clip" moved into it. `unique_indices`
    promises that no element is updated twice; `indices_are_sorted` is a promise that nothing here needs.
    `TypeError` when dtypes, dimensions or sizes do not fit.
    """
    return _scatter("scatter_min", "min", operand, scatter_indices, updates, dimension_numbers, mode, unique_indices)


def scatter_max(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Return `operand` with windows raised to `updates` where these are greater at positions `scatter_indices`.

    A window that does not lie within the operand is dropped, in mode "clip" moved into it. `unique_indices`
    promises that no element is updated twice; `indices_are_sorted` is a promise that nothing here needs.
    `TypeError` when dtypes, dimensions or sizes do not fit.
    """
    return _scatter("scatter_max", "max", operand, scatter_indices, updates, dimension_numbers, mode, unique_indices)


def scatter_sub(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Return `operand` with `updates` subtracted from windows at positions `scatter_indices`, as `scatter_add` adds."""
    u, weak = ops.operand("scatter_sub", updates, ops.NUMBER)
    negated = Array(unsigned.neg(u), weak)
    return _scatter("scatter_sub", "add", operand, scatter_indices, negated, dimension_numbers, mode, unique_indices)


def scatter_apply(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    func: Callable[[Array], Array],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Return `operand` with `func` (elementwise, of scalars) applied to the elements of windows at `scatter_indices`.

    `update_shape` is the shape that updates would have. An element in two windows has `func` applied once.
    """
    t, weak = ops.operand("scatter_apply", operand)
    indices = _integer_indices("scatter_apply", scatter_indices)
    dummy = torch.zeros((), dtype=t.dtype, device=t.device).expand(tuple(update_shape))
    windows, _ = _scatter_windows(t, indices, dummy, dimension_numbers, clip=True)
    values = tensor_of(ops.array_of("scatter_apply", func(Array(_window_values(t, windows)))))
    dropped = [*dimension_numbers.inserted_window_dims, *dimension_numbers.operand_batching_dims]
    updates = _batch_dims_out(values, windows, dropped, t.dim(), dimension_numbers.update_window_dims)
    return _scatter(
        "scatter_apply", "set", operand, scatter_indices, Array(updates, weak), dimension_numbers, mode, unique_indices
    )
