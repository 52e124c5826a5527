"""Reading and writing elements of a tensor at integer indices: what gather, scatter and array indexing are made of.

Both functions take one index tensor for each of the operand's leading dimensions, or of those that they are told, and mean what JAX means: an index
out of bounds is clipped, or gives a fill value (reading) and drops the update (writing). Negative indices are out of
bounds; who wants them to count from the end normalises them first.
"""

import enum
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._core import config, dtypes, functorch, graph, narrow, selection, unsigned
from .._core.dimensions import broadcast_shape, expanded
from .._core.graph import Graph, TensorType, is_plain_evaluation
from .._core.operations import is_recorded, shown_as
from .._core.primitive import Dims, Primitive, batch_front, differentiable
from . import element_updates, ordering


class GatherScatterMode(enum.Enum):
    """What a gather or scatter does with an index that is out of bounds."""

    CLIP = enum.auto()
    FILL_OR_DROP = enum.auto()
    PROMISE_IN_BOUNDS = enum.auto()
    ONE_HOT = enum.auto()

    @staticmethod
    def from_any(s: "str | GatherScatterMode | None") -> "GatherScatterMode":
        """Return the mode of this name ("clip", "fill", "drop", "promise_in_bounds", "one_hot"); None means fill.

        Raises `ValueError` for any other name.
        """
        if isinstance(s, GatherScatterMode):
            return s
        if s in _MODES:
            return _MODES[s]
        raise ValueError(f'Unknown gather mode "{s}"; expected one of {", ".join(map(repr, _MODES))}.')


_MODES = {
    None: GatherScatterMode.FILL_OR_DROP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "clip": GatherScatterMode.CLIP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
    "one_hot": GatherScatterMode.ONE_HOT,
}


class GatherDimensionNumbers(NamedTuple):
    """Which dimensions of a gather mean what: see `jax.lax.gather`."""

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """Which dimensions of a scatter mean what: see `jax.lax.scatter`."""

    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    scatter_dims_to_operand_dims: Sequence[int]
    operand_batching_dims: Sequence[int] = ()
    scatter_indices_batching_dims: Sequence[int] = ()


def _shown_gather(
    operand: Tensor, places: Tensor, mode: GatherScatterMode, fill: Any, dims: tuple[int, ...]
) -> dict[str, Any]:
    batch = places.dim() - 1
    offsets = tuple(range(batch, batch + operand.dim() - len(dims)))
    return {
        "dimension_numbers": GatherDimensionNumbers(offsets, tuple(sorted(dims)), dims),
        "slice_sizes": tuple(1 if d in dims else n for d, n in enumerate(operand.shape)),
        "unique_indices": not batch, "indices_are_sorted": not batch, "mode": mode,
        "fill_value": shown_fill(operand, mode, fill),
    }  # fmt: skip


def shown_fill(operand: Tensor, mode: GatherScatterMode, fill: Any) -> Any:
    """Return what a jaxpr says that a gather fills in: the default, where that is meant."""
    return default_fill(operand.dtype) if fill is None and mode is GatherScatterMode.FILL_OR_DROP else fill


@shown_as("gather", _shown_gather)
def _taken(operand: Tensor, places: Tensor, mode: GatherScatterMode, fill_value: Any, dims: tuple[int, ...]) -> Tensor:
    return _take_elements(_in_front(operand, dims), places.unbind(-1), mode, fill_value)


@shown_as("dynamic_slice", lambda operand, starts, sizes: {"slice_sizes": sizes})
def _window(operand: Tensor, starts: list[Any], sizes: tuple[int, ...]) -> Tensor:
    dims = [d for d, size in enumerate(sizes) if size != operand.shape[d] or size == 1]
    indices = [starts[d] for d in dims]
    return _take_elements(_in_front(operand, dims), indices, GatherScatterMode.CLIP).reshape(sizes)


def _shown_scatter(
    operand: Tensor, places: Tensor, updates: Tensor, combine: str, mode: GatherScatterMode, unique: bool,
    dims: tuple[int, ...],
) -> dict[str, Any]:  # fmt: skip
    batch = places.dim() - 1
    numbers = ScatterDimensionNumbers(tuple(range(batch, updates.dim())), tuple(sorted(dims)), dims)
    return _scatter_params(operand, combine, numbers, mode, not batch, unique or not batch)


def _scatter_params(
    operand: Tensor, combine: str, numbers: ScatterDimensionNumbers, mode: Any, is_sorted: bool, unique: bool
) -> dict[str, Any]:
    of_two = None if combine == "set" else _combination(combine, TensorType((), operand.dtype, operand.device))
    return {
        "dimension_numbers": numbers, "indices_are_sorted": is_sorted, "unique_indices": unique, "mode": mode,
        "update_jaxpr": of_two, "update_consts": (),
    }  # fmt: skip


@functools.cache
def _combination(combine: str, type: TensorType) -> Graph:
    """Return the graph of what a scatter makes of an element and an update."""
    return graph.trace(lambda *pair: [COMBINE[combine](*pair)], [type, type]).graph


COMBINE = {"add": unsigned.add, "mul": unsigned.mul, "min": ordering.minimum, "max": ordering.maximum}


def _written(
    operand: Tensor, places: Tensor, updates: Tensor, combine: str, mode: Any, unique: bool, dims: tuple[int, ...]
) -> Tensor:
    return _put_along(operand, places.unbind(-1), updates, combine, mode, unique, dims)


def _in_front(tensor: Tensor, dims: Sequence[int]) -> Tensor:
    front = tuple(range(len(dims)))
    return tensor if tuple(dims) == front else tensor.movedim(tuple(dims), front)


def _back(tensor: Tensor, dims: Sequence[int]) -> Tensor:
    front = tuple(range(len(dims)))
    return tensor if tuple(dims) == front else tensor.movedim(front, tuple(dims))


def _shown_window(
    operand: Tensor, places: Tensor, updates: Tensor, combine: str, mode: Any, inserted: Any, dims: Any, write: Any
) -> dict[str, Any]:
    numbers = ScatterDimensionNumbers(tuple(range(updates.dim())), inserted, dims)
    return _scatter_params(operand, combine, numbers, mode, True, True)


def _window_written(operand: Tensor, places: Tensor, updates: Tensor, *how: Any) -> Tensor:
    *_, write = how
    return write(operand, places, updates)


def _named(shown: Callable[..., dict[str, Any]], function: Callable[..., Tensor]) -> dict[str, Callable[..., Tensor]]:
    return {
        combine: shown_as("scatter" if combine == "set" else f"scatter-{combine}", shown)(function)
        for combine in ("set", *COMBINE)
    }


_SHOWN, _SHOWN_WINDOWS = _named(_shown_scatter, _written), _named(_shown_window, _window_written)


def put_window(
    operand: Tensor, starts: dict[int, int | Tensor], inserted: tuple[int, ...], shape: tuple[int, ...], updates: Tensor,
    combine: str, mode: GatherScatterMode, write: Callable[[Tensor, Tensor, Tensor], Tensor],
) -> Tensor:  # fmt: skip
    """Return `write(operand, starts as a vector, updates)`, which a jaxpr shows as the scatter of a single window.

    The window begins at `starts`, by dimension, and covers the others; its `shape` lacks the dimensions `inserted`.
    """
    scalars = [s if isinstance(s, Tensor) else torch.full((), s, device=operand.device) for s in starts.values()]
    places, updates = _stacked(scalars), expanded(updates, shape)
    return _SHOWN_WINDOWS[combine](operand, places, updates, combine, mode, inserted, tuple(starts), write)


def _stacked(indices: Sequence[Tensor]) -> Tensor:
    """Return index arrays as the last dimension of one, as lax.gather takes them."""
    dtype = torch.int64 if config.enable_x64.value else torch.int32
    columns = [i.to(dtype).unsqueeze(-1) for i in torch.broadcast_tensors(*indices)]
    return columns[0] if len(columns) == 1 else torch.cat(columns, -1)


def take_elements(
    operand: Tensor, indices: Sequence[Tensor], mode: GatherScatterMode, fill_value: Any = None,
    dims: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """Return the elements (or slices over the trailing dimensions) of `operand` at `indices`.

    `indices` are integer tensors, broadcast against each other, one for each of the leading dimensions; the result
    has the shape of the broadcast indices followed by the trailing dimensions. In mode FILL_OR_DROP, what is out of
    bounds gives `fill_value` (None: NaN, the least signed or greatest unsigned integer, True); in the other modes the
    indices are clipped. In mode PROMISE_IN_BOUNDS the cotangent of what is out of bounds is dropped.
    Raises `TypeError` for elements of a dimension that has none, unless there are none in the result.
    """
    if not indices:
        return operand
    dims = range(len(indices)) if dims is None else dims
    if graph.tracing and is_recorded() and not isinstance(fill_value, Tensor):
        dims = tuple(dims)
        if mode is not GatherScatterMode.FILL_OR_DROP and all(i.dtype is torch.int32 and not i.dim() for i in indices):
            starts = [indices[dims.index(d)] if d in dims else 0 for d in range(operand.dim())]
            sizes = tuple(1 if d in dims else n for d, n in enumerate(operand.shape))
            return _window(operand, starts, sizes).squeeze(dims)
        return _taken(operand, _stacked(indices), mode, fill_value, dims)
    return _take_elements(_in_front(operand, dims), indices, mode, fill_value)


def _take_elements(
    operand: Tensor, indices: Sequence[Tensor], mode: GatherScatterMode, fill_value: Any = None
) -> Tensor:
    sizes = operand.shape[: len(indices)]
    place = _known_place(indices, sizes)
    if place is not None:
        return operand[place]
    if 0 in sizes:
        shape = (*broadcast_shape(*(i.shape for i in indices)), *operand.shape[len(indices) :])
        if 0 not in shape:
            raise TypeError(
                f"Slice size at index {sizes.index(0)} in gather op is out of range, must be within [0, 0 + 1), got 1."
            )
        return operand.new_empty(shape)
    places = [_index_dtype(i).clamp(0, n - 1) for i, n in zip(indices, sizes, strict=True)]
    found = unsigned.via_bits(lambda t: elements_at(t, places), operand)
    if mode is GatherScatterMode.PROMISE_IN_BOUNDS and differentiable(operand.dtype) and not is_plain_evaluation():
        return found if _known_inside(indices, sizes) else drop_cotangents(found, _inside(indices, sizes))
    if mode is not GatherScatterMode.FILL_OR_DROP:
        return found
    inside = _inside(indices, sizes)
    fill = default_fill(operand.dtype) if fill_value is None else fill_value
    if not isinstance(fill, Tensor):
        fill = narrow.full((), fill, operand.dtype, operand.device)
    return selection.where(inside[(..., *(None,) * (operand.dim() - len(indices)))], found, fill)


def drop_cotangents(found: Tensor, inside: Tensor) -> Tensor:
    """Return `found`, whose cotangents are zero where `inside`, given for its leading dimensions, is False."""
    return _DROP_COTANGENTS(found, inside[(..., *(None,) * (found.dim() - inside.dim()))])[0]


def put_elements(
    operand: Tensor,
    indices: Sequence[Tensor],
    updates: Tensor,
    combine: str,
    mode: GatherScatterMode,
    unique: bool = False,
    dims: Sequence[int] | None = None,
) -> Tensor:
    """Return `operand` with `updates` combined into it at `indices`, which mean what they mean to `take_elements`.

    `combine` is "set", "add", "mul", "min" or "max"; `updates`, of the operand's dtype, is broadcast to the shape
    that `take_elements` would return. Updates out of bounds are dropped, in mode CLIP moved to the nearest element.
    Where an element is set more than once the last update wins, in derivatives too. `unique` promises that no
    element is updated twice.
    """
    count = len(indices)
    batch = indices[0].shape if count == 1 else broadcast_shape(*(i.shape for i in indices))
    number = math.prod(batch)
    if not number or 0 in operand.shape:
        return operand
    dims = range(count) if dims is None else dims
    if graph.tracing and is_recorded():
        places = _stacked(indices)
        updates = expanded(updates, (*batch, *(n for d, n in enumerate(operand.shape) if d not in dims)))
        return _SHOWN[combine](operand, places, updates, combine, mode, unique, tuple(dims))
    return _put_along(operand, indices, updates, combine, mode, unique, dims)


def _put_along(
    operand: Tensor, indices: Sequence[Tensor], updates: Tensor, combine: str, mode: Any, unique: bool,
    dims: Sequence[int],
) -> Tensor:  # fmt: skip
    """Do as `put_elements` along these dimensions."""
    before = dims[0]
    lie_together = list(dims) == list(range(before, before + len(dims)))
    if not (
        before and operand.numel() >= _LARGE and lie_together and (graph.tracing or _are_few(indices, operand, dims))
    ):
        return _back(_put_elements(_in_front(operand, dims), indices, updates, combine, mode, unique), dims)
    batch = broadcast_shape(*(i.shape for i in indices))
    rest = [n for d, n in enumerate(operand.shape) if d not in dims]
    updates = expanded(updates, (*batch, *rest)).movedim(
        tuple(range(len(batch), len(batch) + before)), tuple(range(before))
    )
    return _put_elements(operand, indices, updates, combine, mode, unique, before)


# Of a large tensor that is copied with another dimension in front, the copy takes most of the time. Updates where they lie
# take less if they are compiled, or of one in so many elements. Small ones may be rows that a loop updates in place.
_LARGE, _FEW_OF = 1 << 16, 4


def _are_few(indices: Sequence[Tensor], operand: Tensor, dims: Sequence[int]) -> bool:
    updates = math.prod(broadcast_shape(*(i.shape for i in indices)))
    return _FEW_OF * updates <= math.prod(operand.shape[d] for d in dims)


def _put_elements(
    operand: Tensor, indices: Sequence[Tensor], updates: Tensor, combine: str, mode: GatherScatterMode, unique: bool,
    before: int = 0,
) -> Tensor:  # fmt: skip
    """Do as `put_elements` along the first dimensions, but for those `before`, which begin the updates, too."""
    count = len(indices)
    sizes, rest = operand.shape[before : before + count], operand.shape[before + count :]
    batch = indices[0].shape if count == 1 else broadcast_shape(*(i.shape for i in indices))
    lanes, rows = math.prod(operand.shape[:before]), math.prod(sizes)
    number = lanes * math.prod(batch)
    inside = _known_inside(indices, sizes)
    repeats = combine == "set" and not unique and math.prod(batch) > 1
    adds = combine == "add" and (len(rest) > 0 or number < _MANY)
    sets = combine == "set" and not (repeats and functorch.peek_interpreter_stack())
    if inside and not before and (adds or sets):
        return _put_directly(operand, indices, updates, combine == "add")
    drop = not inside and mode is GatherScatterMode.FILL_OR_DROP
    if not inside and not drop:
        indices = [_index_dtype(i).clamp(0, n - 1) for i, n in zip(indices, sizes, strict=True)]
    places = _linear(indices, sizes)
    if before:
        places = places + rows * torch.arange(lanes, device=places.device).reshape(lanes, *(1,) * len(batch))
    if drop:
        places = torch.where(_inside(indices, sizes), places, lanes * rows)
    flat = operand.reshape(lanes * rows, *rest)
    places = places.expand((lanes, *batch) if before else batch).reshape(number)
    updates = updates.expand((*operand.shape[:before], *batch, *rest)).reshape(number, *rest)
    put = element_updates.put(combine, drop, unique or math.prod(batch) == 1, narrow.wide_dtype(flat.dtype))
    via = unsigned.via_order if combine in ("min", "max") else unsigned.via_bits
    if flat.dtype in dtypes.NARROW:
        via = narrow.via_wide
    out = via(put, flat, places, updates)
    return out.reshape(operand.shape)


def put_slice(operand: Tensor, update: Tensor, dim: int, start: int, stop: int, step: int = 1) -> Tensor:
    """Return `operand` with `update` at fixed positions along one dimension; the positions are in bounds."""
    if operand.is_complex():
        return _put_complex_slice(operand, update, dim, start, stop, step)
    # The batching rule of slice_scatter is a scatter, which torch has for signed integers only.
    return unsigned.via_bits(lambda o, u: torch.slice_scatter(o, u, dim, start, stop, step), operand, update)


def _put_complex_slice(operand: Tensor, update: Tensor, dim: int, start: int, stop: int, step: int) -> Tensor:
    # torch refuses to differentiate slice_scatter of complex numbers.
    if step == 1:
        after = max(stop, start)
        parts = operand.narrow(dim, 0, start), update, operand.narrow(dim, after, operand.shape[dim] - after)
        return torch.cat([p for p in parts if p.shape[dim]] or [operand], dim)
    places = torch.arange(start, stop, step, device=operand.device)
    return operand.movedim(dim, 0).index_put((places,), update.movedim(dim, 0)).movedim(0, dim)


_MANY = 64  # updates of single elements, for which scatter_add is faster than index_put


def _put_directly(operand: Tensor, indices: Sequence[Tensor], updates: Tensor, accumulate: bool) -> Tensor:
    if operand.dtype in unsigned.SIGNED:
        return unsigned.via_bits(lambda o, u: _put_directly(o, indices, u, accumulate), operand, updates)
    return operand.index_put(tuple(map(_index_dtype, indices)), updates, accumulate)


def default_fill(dtype: torch.dtype) -> Any:
    """Return what reading out of bounds gives: NaN, the least signed or greatest unsigned integer, True."""
    if dtypes.is_inexact_tensor(dtype):
        return float("nan")
    if dtype is torch.bool:
        return True
    return dtypes.integer_bounds(dtype).min or dtypes.integer_bounds(dtype).max


def has_cheap_value(tensor: Tensor) -> bool:
    """Tell whether the values of `tensor` can be looked at for less than an operator costs."""
    return (
        tensor.is_cpu
        and not (graph.tracing and graph.current_trace() is not None)
        and not functorch.is_functorch_wrapped_tensor(tensor)
        and not isinstance(tensor, graph.FakeTensor)
    )


def _known_place(indices: Sequence[Tensor], sizes: Sequence[int]) -> tuple[int, ...] | None:
    """Return scalar indices as numbers, if they can be had at no cost and are in bounds."""
    place = []
    for index, size in zip(indices, sizes, strict=True):
        if index.dim() or not has_cheap_value(index):
            return None
        number = int(index)
        if not 0 <= number < size:
            return None
        place.append(number)
    return tuple(place)


def _known_inside(indices: Sequence[Tensor], sizes: Sequence[int]) -> bool:
    for index, size in zip(indices, sizes, strict=True):
        if not has_cheap_value(index):
            return False
        if index.numel() == 1:
            if not 0 <= int(index) < size:
                return False
        elif index.numel():
            least, greatest = torch.aminmax(_index_dtype(index))
            if int(least) < 0 or int(greatest) >= size:
                return False
    return True


def _index_dtype(index: Tensor) -> Tensor:
    # torch_xla wants indices of one dtype, and torch's batching rules add some of int64.
    kept = index.dtype is torch.int64 or (index.dtype is torch.int32 and index.device.type != "xla")
    return index if kept else index.to(torch.int64)


def elements_at(operand: Tensor, places: Sequence[Tensor]) -> Tensor:
    """Return the elements at integer indices that are in bounds, for the leading dimensions of any but an unsigned tensor."""
    if any(p.dim() for p in places):
        return operand[tuple(places)] if len(places) == 1 else operand[torch.broadcast_tensors(*places)]
    # torch reads the value of a scalar index, which a traced or batched one does not have.
    return operand[tuple(p.reshape(1) for p in places)].squeeze(0)


def slices_at(tensor: Tensor, dims: Sequence[int], places: Sequence[Tensor]) -> Tensor:
    """Return the slices along some dimensions, in ascending order, at vectors of indices that are in bounds."""
    return _SlicesAt(tuple(dims))(tensor, *places)[0]


class _SlicesAt(Primitive):
    """What `index_select` takes along several dimensions.

    torch's batching rule for indices that differ repeats the tensor for each, and so does its derivative.
    """

    __name__ = "slices_at"

    def __init__(self, dims: tuple[int, ...]) -> None:
        self.dims = dims

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        tensor, *places = inputs
        sizes = list(tensor.shape)
        for d, at in zip(self.dims, places, strict=True):
            sizes[d] = at.shape[0]
        return [TensorType(tuple(sizes), tensor.dtype, tensor.device)]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        tensor, *places = inputs
        for d, at in zip(self.dims, places, strict=True):
            tensor = unsigned.via_bits(lambda t, d=d, at=at: t.index_select(d, at), tensor)
        return [tensor]

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        tensor, *places = inputs
        if dims[0] is not None:
            tensor = tensor.movedim(dims[0], 0)
        if all(d is None for d in dims[1:]):
            return _SlicesAt(tuple(d + 1 for d in self.dims))(tensor, *places), [0]
        count = len(places)
        lanes = [batch_front(at, d, size) for at, d in zip(places, dims[1:], strict=True)]
        index = [at.reshape(size, *(-1 if i == k else 1 for i in range(count))) for k, at in enumerate(lanes)]
        own = self.dims
        if dims[0] is not None:
            index.insert(0, torch.arange(size, device=tensor.device).reshape(size, *(1,) * count))
            own = (0, *(d + 1 for d in own))
        found = unsigned.via_bits(lambda t: elements_at(_in_front(t, own), index), tensor)
        return [found.movedim(tuple(range(1, count + 1)), tuple(d + 1 for d in self.dims))], [0]

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        moved = tangents[0]
        assert moved is not None
        return [*self(moved, *primals[1:])]

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        (tensor, *places), (found,) = primals, cotangents
        assert found is not None
        for d, at in reversed(list(zip(self.dims, places, strict=True))):
            sizes = [tensor.shape[d] if k == d else n for k, n in enumerate(found.shape)]
            found = found.new_zeros(sizes).index_add(d, at, found)
        return [found, *(None for _ in places)]


def _inside(indices: Sequence[Tensor], sizes: Sequence[int]) -> Tensor:
    found = None
    for index, size in zip(indices, sizes, strict=True):
        index = _index_dtype(index)
        inside = (index >= 0) & (index < size)
        found = inside if found is None else found & inside
    assert found is not None
    return found


def _linear(indices: Sequence[Tensor], sizes: Sequence[int]) -> Tensor:
    linear = indices[0].to(torch.int64)
    for index, size in zip(indices[1:], sizes[1:], strict=True):
        linear = linear * size + index.to(torch.int64)
    return linear


class _DropCotangents(Primitive):
    """The identity of its first operand, with the transpose of multiplying by its second, a mask.

    That is JAX's derivative of a read whose index was promised to be in bounds: forward mode clips the index as the
    read itself does, reverse mode is a scatter, which drops what is out of bounds.
    """

    __name__ = "drop_cotangents"

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(inputs[0])]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return [inputs[0]]

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        return self(*(batch_front(t, d, size) for t, d in zip(inputs, dims, strict=True))), [0]

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        return [tangents[0] if tangents[0] is None else self(tangents[0], primals[1])[0]]

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        cotangent = cotangents[0]
        return [None if cotangent is None else torch.where(primals[1], cotangent, torch.zeros_like(cotangent)), None]


_DROP_COTANGENTS = _DropCotangents()
