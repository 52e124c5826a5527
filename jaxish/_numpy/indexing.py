"""Indexing: NumPy's rules, basic and advanced in every mix, for reading (`x[...]`) and updating (`x.at[...]`).

An index is read once into a `Plan`: a view of the operand (integers and slices, new axes, reversals), then index
arrays over some axes of that view. A reading takes the view and then the elements; an update does the same, puts the
new elements in, and writes the view back. Indices out of bounds are clipped where they are read and dropped where
they are written, unless a mode says otherwise; index values may be traced, shapes may not.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import dtypes, errors, functorch, graph, unsigned
from .._core.array import Array, default_torch_device, from_numpy, is_abstract, tensor_of
from .._core.dimensions import broadcast_shape, expanded
from .._core.operations import is_recorded
from .._core.promotion import convert
from .._core.symbolic_sizes import index as index_of
from .._core.symbolic_sizes import is_size, is_whole, larger, slice_bounds, steps_between
from .._tensors.elements import COMBINE, GatherScatterMode, put_elements, put_slice, put_window, take_elements
from .creation import asarray
from .dynamic_index import Slice, windows_of

_FULL = slice(None)


@dataclass
class Plan:
    """What an index means for an operand of a given shape.

    `basic` indexes the operand's dimensions (an index array's dimension by a full slice); `new` are the dimensions
    then inserted, of which `none` remain; `flips` are then reversed; `arrays` index dimensions of the result of all
    that. Their broadcast dimensions stand at `position` of the final result. `empty` says that a fixed index is out
    of bounds, so that an update is dropped.
    """

    basic: list[Any] = field(default_factory=list)
    new: list[int] = field(default_factory=list)
    none: list[int] = field(default_factory=list)
    flips: list[int] = field(default_factory=list)
    arrays: list[tuple[int, Tensor]] = field(default_factory=list)
    position: int = 0
    dropped: bool = False

    def starts(self) -> dict[int, int | Tensor] | None:
        """Return where the one window begins that the index selects, for all dimensions that it does not cover.

        None for an index that is not one window of neighbours.
        """
        if self.new or self.flips or any(i.dim() for _, i in self.arrays):
            return None
        kept = [d for d, b in enumerate(self.basic) if type(b) is not int]
        found: dict[int, Any] = {kept[at]: index for at, index in self.arrays}
        for dim, entry in enumerate(self.basic):
            if type(entry) is int:
                found[dim] = entry
            elif entry is not _FULL:
                if type(entry) is torch.SymInt or entry.step not in (None, 1):
                    return None
                found[dim] = entry.start
        return dict(sorted(found.items()))

    def view(self, t: Tensor) -> Tensor:
        """Return the part of `t` that the basic indices select, a view of its memory."""
        for dim, place in reversed(list(enumerate(self.basic))):
            if type(place) is torch.SymInt:  # torch's indexing makes a number of it
                t = t.select(dim, place)
        basic = tuple(b for b in self.basic if type(b) is not torch.SymInt)
        if any(b is not _FULL for b in basic):
            t = t[basic]
        for dim in self.new:
            t = t.unsqueeze(dim)
        return unsigned.flip(t, self.flips) if self.flips else t


def _wrong_index(index: Any) -> Exception:
    """Return the error for an object that cannot be an index, or part of one."""
    if isinstance(index, str):
        return TypeError(f"JAX does not support string indexing; got idx={index!r}")
    if isinstance(index, float | complex | np.generic):
        return TypeError(f"Indexer must have integer or boolean type, got indexer with type {np.dtype(type(index))}")
    return IndexError(
        "only integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and integer or boolean arrays are valid "
        f"indices. Got {index}{errors.way_from_torch(index)}"
    )


def _as_item(index: Any) -> Any:
    """Return an index entry as None, Ellipsis, a slice, an int, a bool, an integer Tensor or a boolean mask."""
    if index is None or index is Ellipsis or isinstance(index, slice | bool | np.bool_):
        return bool(index) if isinstance(index, np.bool_) else index
    if isinstance(index, int | np.integer | torch.SymInt):
        return index_of(index)
    if isinstance(index, Array):
        return _array_item(index)
    if isinstance(index, np.ndarray):
        return _numpy_item(index)
    if isinstance(index, list | tuple):
        if not index:
            return torch.zeros(0, dtype=torch.int64, device=default_torch_device())
        return _array_item(asarray(index))
    if hasattr(index, "__jax_array__"):
        return _array_item(index.__jax_array__())
    raise _wrong_index(index)


def _array_item(index: Array) -> Any:
    dtype = index._tensor.dtype
    if dtype is torch.bool:
        return index._concrete(errors.NonConcreteBooleanIndexError)
    if dtype.is_floating_point or dtype.is_complex:
        raise TypeError(f"Indexer must have integer or boolean type, got indexer with type {index.dtype}")
    return tensor_of(index)


def _numpy_item(index: np.ndarray) -> Any:
    if index.dtype == np.bool_:
        return torch.from_numpy(np.array(index)) if not graph.tracing else from_numpy(index)
    if index.dtype.kind not in "iu":
        raise TypeError(f"Indexer must have integer or boolean type, got indexer with type {index.dtype}")
    return from_numpy(index if index.dtype.kind == "u" else index.astype(np.int64))


def _entries(index: Any, ndim: int) -> list[Any]:
    """Return the entries of an index, masks made index arrays, the ellipsis kept."""
    if not isinstance(index, tuple):
        if isinstance(index, list):
            raise TypeError(
                "Using a non-tuple sequence for multidimensional indexing is not allowed; use `arr[array(seq)]` or "
                "`arr[tuple(seq)]` instead of `arr[seq]`."
            )
        index = (index,)
    items = [_as_item(i) for i in index]
    if sum(i is Ellipsis for i in items) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    consumed = sum(_consumed(i) for i in items)
    if consumed > ndim:
        raise IndexError(f"Too many indices: array is {ndim}-dimensional, but {consumed} were indexed")
    return items


def _is_mask(item: Any) -> bool:
    return isinstance(item, Tensor) and item.dtype is torch.bool


def _consumed(item: Any) -> int:
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    return item.dim() if _is_mask(item) else 1


def _expand_masks(items: list[Any], shape: Sequence[int]) -> list[Any]:
    out, dim = [], 0
    consumed = sum(map(_consumed, items))
    for position, item in enumerate(items):
        if item is Ellipsis:
            dim += len(shape) - consumed
        if _is_mask(item):
            rank = item.dim()
            wanted = tuple(shape[dim : dim + rank])
            if any(m not in (0, n) for m, n in zip(item.shape, wanted, strict=True)):
                raise IndexError(
                    f"boolean index did not match shape of indexed array in index {position}: got "
                    f"{tuple(item.shape)}, expected {wanted}"
                )
            if not rank:
                out.append(_truth(item))
            else:
                out.extend(places_of_true(item))
            dim += rank
            continue
        dim += _consumed(item)
        out.append(item)
    return out


def _truth(mask: Tensor) -> bool:
    with graph.outside_traces():
        return bool(mask)


def places_of_true(mask: Tensor) -> tuple[Tensor, ...]:
    with graph.outside_traces():
        return mask.nonzero(as_tuple=True)


def _check_slice(entry: slice) -> None:
    for part in (entry.start, entry.stop, entry.step):
        if isinstance(part, Array) and is_abstract(part):
            raise IndexError(
                f"Slice entries must be static integers. Got {entry}, whose entries are traced. Use "
                "lax.dynamic_slice, or jnp.where with a mask of positions."
            )


def _make_plan(
    index: Any, shape: Sequence[int], wrap: bool, clip: bool, fill: bool, device: torch.device, puts: bool = False
) -> Plan:
    """Read an index for an operand of this shape.

    `wrap` lets negative indices count from the end. Fixed integers out of bounds are clipped with `clip`, made index
    arrays with `fill`, and otherwise noted in `dropped`. With `puts` fixed integers beside index arrays are such, too:
    elements are set where they are, not in a part that is copied.
    """
    ndim = len(shape)
    items = _expand_masks(_entries(index, ndim), shape)
    advanced = [i for i, item in enumerate(items) if isinstance(item, Tensor) or type(item) is int]
    has_arrays = any((isinstance(i, Tensor) and i.dim()) or isinstance(i, bool) for i in items)
    contiguous = all(b - a == 1 for a, b in itertools.pairwise(advanced))
    puts = puts and any(isinstance(i, Tensor) for i in items)
    missing = ndim - sum(map(_consumed, items))
    expanded: list[Any] = []
    for item in items:
        expanded.extend([_FULL] * missing if item is Ellipsis else [item])
    if not any(item is Ellipsis for item in items):
        expanded.extend([_FULL] * missing)

    plan = Plan()
    dim = 0  # of the operand
    out = 0  # of the view
    rest = 0  # of the result, its index arrays' dimensions left out
    first: int | None = None
    for item in expanded:
        if item is None:
            plan.new.append(out)
            plan.none.append(out)
            out, rest = out + 1, rest + 1
        elif isinstance(item, slice):
            _basic_slice(plan, item, shape[dim], out)
            dim, out, rest = dim + 1, out + 1, rest + 1
        elif isinstance(item, bool):
            plan.new.append(out)
            plan.arrays.append((out, torch.zeros(int(item), dtype=torch.int64, device=device)))
            first = rest if first is None else first
            out += 1
        else:
            first = rest if first is None else first
            size = shape[dim]
            if not size and not (isinstance(item, Tensor) and item.dim()):
                raise IndexError(f"index is out of bounds for axis {dim} with size 0")
            if is_size(item):
                item = _fixed(plan, item, size, wrap, clip, fill, device)  # pyright: ignore
            elif wrap and item.dtype.is_signed:
                item = _wrapped(item, size)
            if puts and type(item) is int:
                item = torch.full((), item, dtype=torch.int64, device=device)
            if is_size(item):
                plan.basic.append(item)
            else:
                plan.basic.append(_FULL)
                plan.arrays.append((out, item if item.device == device else item.to(device)))
                out += 1
            dim += 1
    plan.position = 0 if not has_arrays or not contiguous or first is None else first
    return plan


def _wrapped(index: Tensor, size: int) -> Tensor:
    if index.dtype.itemsize < 4:
        index = index.to(torch.int32)
    return torch.where(index < 0, index + size, index)


def _fixed(plan: Plan, i: int, size: int, wrap: bool, clip: bool, fill: bool, device: torch.device) -> Any:
    at = i + size if wrap and i < 0 else i
    if 0 <= at < size:
        return at
    if fill or (graph.tracing and is_recorded()):  # a jaxpr shows the index as it is
        return torch.full((), at, dtype=torch.int64, device=device)
    plan.dropped = plan.dropped or not clip
    return min(max(at, 0), size - 1)


def _basic_slice(plan: Plan, item: slice, size: int, out: int) -> None:
    if item is _FULL:
        plan.basic.append(_FULL)
        return
    _check_slice(item)
    start, stop, step = slice_bounds(item, size)
    if step > 0:
        plan.basic.append(
            _FULL if step == 1 and is_whole(start, stop, size) else slice(start, larger(start, stop), step)
        )
        return
    count = steps_between(start, stop, step)
    plan.flips.append(out)
    plan.basic.append(slice(start + (count - 1) * step, start + 1, -step) if count else slice(0, 0, 1))


# ---------------------------------------------------------------------------------------------------------- reading


def take_index(
    t: Tensor, index: Any, mode: GatherScatterMode | None = None, fill_value: Any = None, wrap: bool = True
) -> Tensor:
    """Return `t[index]`. A mode of None clips; the cotangent of what an index array reads out of bounds is dropped."""
    windows = windows_of(t, index)
    if windows is not None:
        return take_index(windows.read(t), windows.index, mode, fill_value, wrap)
    fill = mode is GatherScatterMode.FILL_OR_DROP
    plan = _make_plan(index, t.shape, wrap, not fill, fill, t.device)
    if mode is None:
        arrays = any(i.dim() for _, i in plan.arrays)
        mode = GatherScatterMode.PROMISE_IN_BOUNDS if arrays else GatherScatterMode.CLIP
    return _read(t, plan, mode, fill_value)


def _read(t: Tensor, plan: Plan, mode: GatherScatterMode, fill_value: Any = None) -> Tensor:
    view = plan.view(t)
    if not plan.arrays:
        return view
    dims = [d for d, _ in plan.arrays]
    indices = [i for _, i in plan.arrays]
    broadcast_shape(*(i.shape for i in indices))  # raises for shapes that do not go together
    found = take_elements(view, indices, mode, fill_value, dims)
    return _move_front(found, _batch_rank(indices), plan.position)


def _batch_rank(indices: Sequence[Tensor]) -> int:
    return max(i.dim() for i in indices)


def _move_front(t: Tensor, count: int, position: int) -> Tensor:
    if not position or not count:
        return t
    return t.movedim(list(range(count)), list(range(position, position + count)))


def getitem(self: Array, index: Any) -> Array:
    """Return the elements at `index`, by NumPy's rules; what is out of bounds is clipped."""
    if not graph.tracing:
        t = self._tensor
        if type(index) is int:
            if t.dim() and -t.shape[0] <= index < t.shape[0]:
                return Array(t[index], self._weak)
        elif type(index) is slice and t.dim() and (index.step is None or index.step == 1):
            if type(index.start) in _PLAIN and type(index.stop) in _PLAIN:
                return Array(t[index], self._weak)
        elif type(index) is tuple and len(index) <= t.dim() and _is_basic(index, t.shape):
            return Array(t[index], self._weak)
        elif type(index) is Array and t.dim() and functorch.peek_interpreter_stack() is None:
            place = index._tensor
            if not place.dim() and place.is_cpu and is_integer(place.dtype) and t.shape[0]:
                number, n = int(place), t.shape[0]
                number = number + n if number < 0 and place.dtype.is_signed else number
                return Array(t[min(max(number, 0), n - 1)], self._weak)
    return Array(take_index(tensor_of(self), index), self._weak)


_PLAIN = (int, type(None))


def _is_basic(index: tuple[Any, ...], shape: Sequence[int]) -> bool:
    """Tell whether torch reads an index as JAX does: integers in bounds, and slices that run forward."""
    for entry, n in zip(index, shape, strict=False):
        kind = type(entry)
        if kind is int:
            if not -n <= entry < n:
                return False
        elif (
            kind is not slice
            or entry.step not in _FORWARD
            or type(entry.start) not in _PLAIN
            or type(entry.stop) not in _PLAIN
        ):
            return False
    return True


_FORWARD = (None, 1, 2)


# --------------------------------------------------------------------------------------------------------- updating


def put_index(
    t: Tensor, index: Any, values: Tensor, combine: str, mode: GatherScatterMode | None = None, unique: bool = False,
    wrap: bool = True,
) -> Tensor:  # fmt: skip
    """Return `t` with `values` (of its dtype) combined into it at `index`. A mode of None drops.

    `combine` is "set", "add", "mul", "min" or "max". Raises `ValueError` for values that do not broadcast.
    """
    windows = windows_of(t, index)
    if windows is not None:
        windows = windows.clipped() if mode is GatherScatterMode.CLIP else windows
        part = put_index(windows.read(t), windows.index, values, combine, mode, unique, wrap)
        return windows.written(t, part)
    shows = graph.tracing and is_recorded()
    plan = _make_plan(index, t.shape, wrap, mode is GatherScatterMode.CLIP, False, t.device, not shows)
    if shows and (starts := plan.starts()):
        return _put_window(t, plan, starts, values, combine, mode or GatherScatterMode.FILL_OR_DROP)
    return _put(t, plan, values, combine, mode, unique)


def may_repeat(index: Any) -> bool:
    """Tell whether an index may select an element more than once: it has an index array of several elements, or what may be one."""
    entries = index if isinstance(index, tuple) else (index,)
    return not all(e.size <= 1 if isinstance(e, Array | np.ndarray) else isinstance(e, _SINGLE) for e in entries)


_SINGLE = (int, np.integer, np.bool_, slice, Slice, type(None), type(Ellipsis))


def _put(t: Tensor, plan: Plan, values: Tensor, combine: str, mode: GatherScatterMode | None, unique: bool) -> Tensor:
    if not plan.arrays:
        view = plan.view(t)
        if not view.numel():
            return t  # whatever the values' shape, as JAX has it
        values = expanded(values, tuple(view.shape))
        if plan.dropped:
            return t
        new = values if combine == "set" else COMBINE[combine](view, values)
        return _write_back(t, plan, new)
    dims = [d for d, _ in plan.arrays]
    indices = [i for _, i in plan.arrays]
    view = plan.view(t)
    batch = broadcast_shape(*(i.shape for i in indices))
    rest = [n for d, n in enumerate(view.shape) if d not in dims]
    result = (*rest[: plan.position], *batch, *rest[plan.position :])
    if 0 in result:
        return t
    if not (graph.tracing and is_recorded()) or plan.position:  # a jaxpr shows the places before the updates
        values = expanded(values, result)
    if plan.dropped:
        return t
    if plan.position and batch:
        places = list(range(plan.position, plan.position + len(batch)))
        values = values.movedim(places, list(range(len(batch))))
    if _are_few(t, plan, math.prod(result)):
        return _put_in_slices(t, plan, indices, dims, values, len(batch), combine, mode, unique)
    new = put_elements(view, indices, values, combine, mode or GatherScatterMode.FILL_OR_DROP, unique, dims)
    return _write_back(t, plan, new)


_FEW = 4  # times the elements that are set are no more than there are


def _are_few(t: Tensor, plan: Plan, number: int) -> bool:
    """Tell whether elements in slices are so few that they are set one by one in a graph, and the rest is not copied."""
    plain = all(type(b) is slice and type(b.start) in _PLAIN and type(b.stop) in _PLAIN for b in plan.basic)
    if not plain or plan.new or plan.flips or all(b is _FULL for b in plan.basic):
        return False
    return graph.tracing and not is_recorded() and number * _FEW <= t.numel()


def _put_in_slices(
    t: Tensor, plan: Plan, indices: Sequence[Tensor], dims: Sequence[int], values: Tensor, rank: int, combine: str,
    mode: GatherScatterMode | None, unique: bool,
) -> Tensor:  # fmt: skip
    """Combine `values`, whose first `rank` dimensions are those of the index arrays, into `t`, where slices are index arrays."""
    sliced = [d for d, b in enumerate(plan.basic) if b is not _FULL]
    rest = [d for d in range(t.dim()) if d not in dims]
    values = values.movedim([rank + rest.index(d) for d in sliced], list(range(rank, rank + len(sliced))))
    positions = [torch.arange(*plan.basic[d].indices(t.shape[d]), device=t.device) for d in sliced]
    indices = [i.reshape(*i.shape, *[1] * len(sliced)) for i in indices]
    indices += [p.reshape(-1, *[1] * after) for after, p in enumerate(reversed(positions))][::-1]
    mode = mode or GatherScatterMode.FILL_OR_DROP
    return put_elements(t, indices, values, combine, mode, unique, [*dims, *sliced])


def _put_window(
    t: Tensor, plan: Plan, starts: dict[int, Any], values: Tensor, combine: str, mode: GatherScatterMode
) -> Tensor:
    """Combine values into a single window of `t`, as one equation of a jaxpr."""
    inserted = tuple(d for d in starts if type(plan.basic[d]) is int or isinstance(starts[d], Tensor))
    traced = [list(starts).index(d) for d in starts if isinstance(starts[d], Tensor)]

    def write(t: Tensor, places: Tensor, values: Tensor) -> Tensor:
        arrays = [(d, places[at]) for (d, _), at in zip(plan.arrays, traced, strict=True)]
        return _put(t, replace(plan, arrays=arrays), values, combine, mode, True)

    shape = tuple(
        len(range(*b.indices(n))) for d, (b, n) in enumerate(zip(plan.basic, t.shape, strict=True)) if d not in inserted
    )
    return put_window(t, starts, inserted, shape, values, combine, mode, write)


def set_plainly(t: Tensor, index: Any, value: Any) -> Tensor | None:
    """Return `t` with `value` set at a basic index, if nothing stands in the way of doing it in place on a copy."""
    if graph.tracing or functorch.peek_interpreter_stack() is not None:
        return None
    entries = index if type(index) is tuple else (index,)
    if len(entries) > t.dim() or not _is_basic(entries, t.shape):
        return None
    if type(value) is Array:
        value = value._tensor
        if value.dtype is not t.dtype or value.dim() > t.dim() - sum(type(e) is int for e in entries):
            return None
    elif not (t.dtype.is_floating_point and t.dtype.itemsize >= 4 and type(value) in (int, float)):
        return None
    out = t.clone()
    try:
        out[index] = value
    except RuntimeError:
        return None
    return out


def _write_back(t: Tensor, plan: Plan, view: Tensor) -> Tensor:
    """Return `t` with the part that `plan` selects replaced by `view`."""
    if plan.flips:
        view = torch.flip(view, plan.flips)
    for dim in reversed(plan.new):
        view = view.squeeze(dim)
    if all(b is _FULL for b in plan.basic):
        return view.clone() if view.dim() and view._is_view() and not graph.tracing else view
    if graph.tracing or functorch.peek_interpreter_stack() is not None:
        return _scattered(t, plan.basic, view, 0)
    out = t.clone()
    out[tuple(plan.basic)] = view
    return out


def _scattered(t: Tensor, basic: Sequence[Any], view: Tensor, dim: int) -> Tensor:
    """Replace the part of `t` at `basic`, entries of the dimensions from `dim` on, by operators without side effects."""
    while basic and basic[0] is _FULL:
        basic, dim = basic[1:], dim + 1
    if not basic:
        return view
    entry, others = basic[0], basic[1:]
    if type(entry) is int:
        part = view if all(b is _FULL for b in others) else _scattered(t.select(dim, entry), others, view, dim)
        # Not select_scatter: its batching rule (torch 2.9 to 2.13) is a scatter that writes each element once for every
        # row, and in reverse mode hands the element the cotangents of all of them.
        return put_slice(t, part.unsqueeze(dim), dim, entry, entry + 1)
    if all(b is _FULL for b in others):
        part = view
    else:
        part = _scattered(t[(_FULL,) * dim + (entry,)], others, view, dim + 1)
    return put_slice(t, part, dim, entry.start, entry.stop, entry.step or 1)


def fill_of(fill_value: Any, like: Tensor) -> Any:
    """Return a `fill_value` argument as a tensor of the dtype of `like` and beside it, None as it is. Raises `ValueError` for non-scalars."""
    if fill_value is None:
        return None
    filler = tensor_of(asarray(fill_value, device=like.device))
    if filler.dim():
        raise ValueError("fill_value argument to indexed get() must be a scalar")
    return convert(filler, like.dtype)


def mode_of(mode: Any) -> GatherScatterMode | None:
    """Return the mode that a `mode=` argument names, None as it is."""
    return None if mode is None else GatherScatterMode.from_any(mode)


def is_integer(dtype: torch.dtype) -> bool:
    """Tell whether a torch dtype can be that of an index."""
    return dtypes.TO_NUMPY[dtype].kind in "iu"
