"""`pad`: arrays extended at their edges."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import dtypes, errors, unsigned
from .._core.array import Array, is_abstract, is_weak, tensor_of
from .._core.extended import moves_elements
from .._core.promotion import convert, tensor
from .._core.typing import ArrayLike
from .._lax.shapes import padded
from .creation import asarray
from .quantiles import median
from .ranges import linspace
from .reductions import max as array_max
from .reductions import mean as array_mean
from .reductions import min as array_min
from .rounding import round
from .vectorization import apply_along_axis

_OPTIONS = {
    "constant": {"constant_values"}, "edge": set(), "empty": set(), "wrap": set(), "linear_ramp": {"end_values"},
    "maximum": {"stat_length"}, "mean": {"stat_length"}, "median": {"stat_length"}, "minimum": {"stat_length"},
    "reflect": {"reflect_type"}, "symmetric": {"reflect_type"},
}  # fmt: skip


_MOVING = ("edge", "reflect", "symmetric", "wrap")


def pad(array: ArrayLike, pad_width: Any, mode: str | Callable[..., Any] = "constant", **kwargs: Any) -> Array:
    """Return `array` with elements added before and behind along each axis.

    `pad_width` is a number, a pair, or a pair per axis. `mode` says what is added:
    "constant" (`constant_values`), "edge", "empty", "linear_ramp" (`end_values`), "maximum", "mean", "median",
    "minimum" (`stat_length`), "reflect", "symmetric" (`reflect_type`), "wrap", or a function as in NumPy.
    """
    moves = mode in _MOVING and not kwargs
    return (_moved if moves else _padded)(array, pad_width, mode, kwargs)


def _padded(array: ArrayLike, pad_width: Any, mode: str | Callable[..., Any], kwargs: dict[str, Any]) -> Array:
    source = Array(tensor("pad", array), is_weak(array))
    widths = _widths(pad_width, source.ndim)
    if callable(mode):
        return _pad_by_function(source, widths, mode, kwargs)
    if mode not in _OPTIONS:
        raise NotImplementedError(f"Unimplemented padding mode '{mode}' for np.pad.")
    wrong = set(kwargs) - _OPTIONS[mode]
    if wrong:
        raise ValueError(f"Unsupported keyword arguments for mode '{mode}': {wrong}")
    if any(w < 0 for pair in widths for w in pair):
        raise ValueError("index can't contain negative values")
    if not source.ndim:
        return source
    t = tensor_of(source)
    if mode in ("constant", "empty"):
        return Array(_constant(t, widths, kwargs.get("constant_values", 0)), source._weak)
    for axis, pair in enumerate(widths):
        if not any(pair) and mode != "linear_ramp":
            continue
        if not t.shape[axis]:
            if any(pair):
                raise ValueError(f"Cannot apply '{mode}' padding to empty axis")
            continue
        t = _EXTEND[mode](t, axis, pair, source.ndim, mode, kwargs)
    return Array(t, source._weak)


_moved = moves_elements(0)(_padded)


def _widths(pad_width: Any, ndim: int) -> list[tuple[int, int]]:
    if isinstance(pad_width, dict):
        raise TypeError("`pad_width` must be of integral type; give a pair per axis in place of a dict.")
    pairs = _pairs(pad_width, ndim, "pad_width")
    found = []
    for pair in pairs:
        if any(isinstance(w, float | np.floating) for w in pair):
            raise TypeError("`pad_width` must be of integral type.")
        found.append(tuple(int(w) for w in pair))
    return found


def _pairs(values: Any, ndim: int, name: str) -> list[tuple[Any, Any]]:
    if isinstance(values, Array):
        if is_abstract(values):
            raise errors.tracer_error(errors.ConcretizationTypeError, values.shape, f"{name} argument of jnp.pad.")
        values = np.asarray(values)
    try:
        table = np.asarray(values)
    except ValueError:
        raise TypeError(f"`{name}` entries must be the same shape: {values}") from None
    if table.shape not in ((ndim, 2), (1, 2), (2,), (1,), ()):
        raise ValueError(
            f"jnp.pad: {name} with nd={ndim} has unsupported shape {table.shape}. Valid shapes are ({ndim}, 2), "
            "(1, 2), (2,), (1,), or ()."
        )
    table = np.broadcast_to(table, (ndim, 2))
    return [tuple(row) for row in table.tolist()]  # pyright: ignore


def _joined(before: Tensor | None, t: Tensor, behind: Tensor | None, axis: int) -> Tensor:
    return torch.cat([p for p in (before, t, behind) if p is not None and p.shape[axis]], axis)


def _constant(t: Tensor, widths: list[tuple[int, int]], values: Any) -> Tensor:
    if type(values) in (bool, int, float) and str(values) in ("0", "0.0", "False") and t.dtype not in dtypes.NARROW:
        return padded(t, None, [(*pair, 0) for pair in widths])
    fill = convert(tensor_of(asarray(values, device=t.device)), t.dtype)
    if fill.dim() == 1 and fill.shape[0] not in (1, 2):
        raise ValueError(f"jnp.pad: constant_values has unsupported shape {tuple(fill.shape)}.")
    fill = fill.broadcast_to(t.dim(), 2)
    for axis, (before, behind) in enumerate(widths):
        if not before and not behind:
            continue

        def block(count: int, value: Tensor, axis: int = axis) -> Tensor:
            return value.expand([count if d == axis else n for d, n in enumerate(t.shape)])  # noqa: B023

        t = torch.cat([block(before, fill[axis, 0]), t, block(behind, fill[axis, 1])], axis)
    return t


def _edge(t: Tensor, axis: int, pair: tuple[int, int], ndim: int, mode: str, options: Any) -> Tensor:
    def repeated(part: Tensor, count: int) -> Tensor:
        return part.expand([count if d == axis else n for d, n in enumerate(t.shape)])

    last = t.narrow(axis, t.shape[axis] - 1, 1)
    return torch.cat([repeated(t.narrow(axis, 0, 1), pair[0]), t, repeated(last, pair[1])], axis)


def _by_places(t: Tensor, axis: int, places: np.ndarray) -> Tensor:
    runs = list(itertools.islice(_runs(places.tolist()), _MOST_RUNS + 1))
    if len(runs) <= _MOST_RUNS:
        return unsigned.via_bits(lambda x: torch.cat([_run(x, axis, *run) for run in runs], axis), t)
    index = torch.tensor(places, device=t.device)
    return unsigned.via_bits(lambda x: torch.index_select(x, axis, index), t)


_MOST_RUNS = 8  # beyond, looking up each place is shorter


def _runs(places: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last places of runs that count up or down by one."""
    start = 0
    while start < len(places):
        end, step = start, places[min(start + 1, len(places) - 1)] - places[start]
        while abs(step) == 1 and end + 1 < len(places) and places[end + 1] == places[end] + step:
            end += 1
        yield places[start], places[end]
        start = end + 1


def _run(t: Tensor, axis: int, first: int, last: int) -> Tensor:
    part = t.narrow(axis, min(first, last), abs(last - first) + 1)
    return part if first <= last else part.flip(axis)


def _wrap(t: Tensor, axis: int, pair: tuple[int, int], ndim: int, mode: str, options: Any) -> Tensor:
    n = t.shape[axis]
    return _by_places(t, axis, np.arange(-pair[0], n + pair[1]) % n)


def _mirror(t: Tensor, axis: int, pair: tuple[int, int], ndim: int, mode: str, options: Any) -> Tensor:
    kind = options.get("reflect_type", "even")
    if kind not in ("even", "odd"):
        raise ValueError(f"reflect_type must be 'even' or 'odd'; got {kind!r}")
    n = t.shape[axis]
    skip = 1 if mode == "reflect" and n > 1 else 0
    if kind == "even":
        cycle = 2 * (n - skip)
        places = np.arange(-pair[0], n + pair[1]) % cycle
        return _by_places(t, axis, np.where(places < n, places, cycle - places - (1 - skip)))
    for before, missing in ((True, pair[0]), (False, pair[1])):
        edge = t.narrow(axis, 0, 1) if before else t.narrow(axis, t.shape[axis] - 1, 1)
        while missing > 0:
            count = min(missing, n - skip)
            missing -= count
            start = skip if before else t.shape[axis] - count - skip
            part = unsigned.sub(unsigned.add(edge, edge), unsigned.flip(t.narrow(axis, start, count), (axis,)))
            if n > 1:
                edge = part.narrow(axis, 0 if before else count - 1, 1)
            t = torch.cat([part, t] if before else [t, part], axis)
    return t


def _ramp(t: Tensor, axis: int, pair: tuple[int, int], ndim: int, mode: str, options: Any) -> Tensor:
    ends = _pairs(options.get("end_values", 0), ndim, "end_values")[axis]
    dtype = dtypes.TO_NUMPY[t.dtype]

    def ramp(end: Any, edge: Tensor, count: int) -> Tensor:
        return tensor_of(linspace(end, Array(edge), count, endpoint=False, dtype=dtype, axis=axis))  # pyright: ignore

    before = ramp(ends[0], t.select(axis, 0), pair[0])
    behind = ramp(ends[1], t.select(axis, t.shape[axis] - 1), pair[1])
    return torch.cat([before, t, unsigned.flip(behind, (axis,))], axis)


def _statistic(t: Tensor, axis: int, pair: tuple[int, int], ndim: int, mode: str, options: Any) -> Tensor:
    statistic: Any = {"maximum": array_max, "minimum": array_min, "mean": array_mean, "median": median}[mode]
    lengths = options.get("stat_length")
    n = t.shape[axis]
    counts = (n, n) if lengths is None else _pairs(lengths, ndim, "stat_length")[axis]
    if 0 in counts:
        raise ValueError("stat_length of 0 yields no value for padding")
    if min(counts) < 0:
        raise ValueError("index can't contain negative values")

    def value(part: Tensor, count: int) -> Tensor:
        found = statistic(Array(part), axis=axis, keepdims=True)
        if not (t.is_floating_point() or t.is_complex()):
            found = round(found)
        return convert(found._tensor, t.dtype).expand([count if d == axis else m for d, m in enumerate(t.shape)])

    first, last = (min(int(c), n) for c in counts)
    return torch.cat(
        [value(t.narrow(axis, 0, first), pair[0]), t, value(t.narrow(axis, n - last, last), pair[1])], axis
    )


_EXTEND: dict[str, Callable[..., Tensor]] = {
    "edge": _edge, "wrap": _wrap, "reflect": _mirror, "symmetric": _mirror, "linear_ramp": _ramp,
    "maximum": _statistic, "minimum": _statistic, "mean": _statistic, "median": _statistic,
}  # fmt: skip


def _pad_by_function(source: Array, widths: list[tuple[int, int]], function: Callable[..., Any], options: Any) -> Array:
    padded = Array(_constant(tensor("pad", source), widths, 0), is_weak(source))
    for axis, pair in enumerate(widths):
        padded = apply_along_axis(function, axis, padded, pair, axis, options)
    return padded
