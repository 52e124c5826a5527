"""reduce_window: a reduction over every position of a moving window.

Sums and extrema of floating values run as torch's pooling; any other computation is folded over the window's
elements, one strided slice for each.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._core import narrow, selection, tree
from .._core.array import Array, tensor_of
from .._core.operations import shown_as
from .._core.promotion import convert
from .._core.symbolic_sizes import index as index_of
from . import elementwise
from . import operands as ops
from .convolution import dilated_size, padtype_to_pads
from .operands import check_shapelike
from .reductions import IDENTITIES, Combine, graph_on_scalars, is_identity
from .shapes import padded


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Return a pytree of arrays reduced together over windows by an associative `computation`.

    The window has a size, a stride (1) and a dilation (1) in every dimension. Windows start from `init_value`; padding
    ('VALID', 'SAME', 'SAME_LOWER' or pairs) and the holes of `base_dilation` add nothing. `TypeError` when the window does not fit the rank.
    """
    leaves, spec = tree.flatten(operand)
    starts, start_spec = tree.flatten(init_value)
    if spec != start_spec:
        raise ValueError(f"reduce_window: operand and init_value differ in structure: {spec} and {start_spec}")
    if not leaves:
        raise ValueError("reduce_window must have at least one operand.")
    arrays = [ops.array_of("reduce_window", x, i) for i, x in enumerate(leaves)]
    tensors = [tensor_of(a) for a in arrays]
    firsts = [
        convert(tensor_of(ops.array_of("reduce_window", s, 0, t.device)), t.dtype)
        for s, t in zip(starts, tensors, strict=True)
    ]
    if any(first.dim() for first in firsts):
        raise TypeError(
            "reduce_window expected init_values to be scalars but init_values have shapes "
            f"{[tuple(first.shape) for first in firsts]}."
        )
    rank = tensors[0].dim()
    name = "reduce_window"
    if len({t.shape for t in tensors}) > 1:
        raise ValueError(f"reduce_window operands must have equal shapes, got {[tuple(t.shape) for t in tensors]}")
    window = check_shapelike(name, "window_dimensions", tuple(window_dimensions), positive=True)
    if len(window) != rank:
        raise TypeError(
            "reduce_window got the wrong number of window_dimensions for operand: got operand shape "
            f"{tuple(tensors[0].shape)} with window_dimensions {window}."
        )
    strides, base, dilation = (
        (1,) * rank if v is None else check_shapelike(name, argument, tuple(v), positive=True)
        for argument, v in (
            ("window_strides", window_strides), ("base_dilation", base_dilation), ("window_dilation", window_dilation),
        )
    )  # fmt: skip
    for argument, values in (("window_strides", strides), ("base_dilation", base), ("window_dilation", dilation)):
        if len(values) != rank:
            raise TypeError(
                f"reduce_window got inconsistent {argument} and window_dimensions: got {argument} {values} and "
                f"window_dimensions {window}."
            )
    if isinstance(padding, str):
        reach = [dilated_size(n, d) for n, d in zip(window, dilation, strict=True)]
        padding = padtype_to_pads(tensors[0].shape, reach, strides, padding)  # JAX leaves base_dilation out here
    pads = [(index_of(a), index_of(b)) for a, b in padding]
    if len(pads) != rank:
        raise ValueError(f"reduce_window needs one padding per dimension of {rank}, got {pads}.")
    moves = Window(window, strides, tuple(pads), base, dilation)
    neutral = len(tensors) == 1 and is_identity(starts[0], computation, tensors[0].dtype)
    if neutral and computation in _FROM_IDENTITY:
        found = [_FROM_IDENTITY[computation](tensors[0], moves)]
    else:
        found = _windowed(tensors, firsts, moves, computation, spec)
    return spec.unflatten([Array(t, neutral and arrays[0]._weak) for t in found])


class Window(NamedTuple):
    """How a window moves: under the names that JAX's equations have for it."""

    window_dimensions: tuple[int, ...]
    window_strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    base_dilation: tuple[int, ...]
    window_dilation: tuple[int, ...]


def _shown(
    tensors: list[Tensor], firsts: list[Tensor], window: Window, computation: Any, spec: Any
) -> dict[str, Any] | None:
    body = graph_on_scalars(_on_tensors(computation, spec), tensors)
    return body and {**window._asdict(), "jaxpr": body, "consts": ()}


def _on_tensors(computation: Any, spec: Any) -> Combine:
    def combine(a: Sequence[Tensor], b: Sequence[Tensor]) -> list[Tensor]:
        found = computation(*(spec.unflatten([Array(t) for t in side]) for side in (a, b)))
        return [tensor_of(ops.array_of("reduce_window", x)) for x in tree.flatten(found)[0]]

    return combine


@shown_as("reduce_window", _shown)
def _windowed(tensors: list[Tensor], firsts: list[Tensor], moves: Window, computation: Any, spec: Any) -> list[Tensor]:
    return _reduced_over(tensors, firsts, moves, computation, _on_tensors(computation, spec))


def _from_identity(name: str, computation: Callable[..., Array]) -> Callable[[Tensor, Window], Tensor]:
    combine = _on_tensors(computation, tree.flatten(0)[1])

    @shown_as(name, lambda t, moves: moves._asdict())
    def run(t: Tensor, moves: Window) -> Tensor:
        return _reduced_over([t], [_identity(computation, t)], moves, computation, combine, True)[0]

    return run


_FROM_IDENTITY: dict[Any, Callable[[Tensor, Window], Tensor]] = {
    elementwise.add: _from_identity("reduce_window_sum", elementwise.add),
    elementwise.max: _from_identity("reduce_window_max", elementwise.max),
    elementwise.min: _from_identity("reduce_window_min", elementwise.min),
}


def _identity(computation: Any, like: Tensor) -> Tensor:
    return narrow.full((), IDENTITIES[computation](like.dtype), like.dtype, like.device)


def _reduced_over(
    tensors: list[Tensor], firsts: list[Tensor], moves: Window, computation: Any, combine: Combine,
    from_identity: bool = False,
) -> list[Tensor]:  # fmt: skip
    window, strides, pads, base, dilation = moves
    config = [(low, high, d - 1) for (low, high), d in zip(pads, base, strict=True)]
    holes = any(c != (0, 0, 0) for c in config)
    known = len(tensors) == 1 and computation in IDENTITIES
    # Padding does not count, as in XLA on CPU: it is the identity where that is known, else it is skipped.
    fills = [_identity(computation, tensors[0])] if known else firsts
    spread = [padded(t, f, config) for t, f in zip(tensors, fills, strict=True)]
    real = padded(torch.ones_like(tensors[0], dtype=torch.bool), None, config) if holes and not known else None
    counts = reduce_window_shape_tuple(tensors[0].shape, window, strides, pads, base, dilation)
    if len(tensors) == 1 and (pooled := _pooled(spread[0], computation, window, strides, dilation, counts)) is not None:
        return [pooled if from_identity else _beside(pooled, firsts[0], computation)]
    total: Sequence[Tensor] = [f.expand(counts) for f in firsts]
    for place in itertools.product(*map(range, window)):
        spots = tuple(
            slice(p * d, p * d + max(n - 1, 0) * s + (n > 0), s)
            for p, d, n, s in zip(place, dilation, counts, strides, strict=True)
        )
        new = combine(total, [t[spots] for t in spread])
        total = new if real is None else [selection.where(real[spots], n, t) for n, t in zip(new, total, strict=True)]
    return list(total)


def reduce_window_shape_tuple(
    operand_shape: Any,
    window_dimensions: Any,
    window_strides: Any,
    padding: Any,
    base_dilation: Any = None,
    window_dilation: Any = None,
) -> tuple[int, ...]:
    """Return the shape of a `reduce_window`: the number of window positions in each dimension."""
    rank = len(operand_shape)
    base, dilation = base_dilation or (1,) * rank, window_dilation or (1,) * rank
    return tuple(
        max(0, (dilated_size(n, b) + low + high - dilated_size(k, d)) // s + 1)
        for n, k, s, (low, high), b, d in zip(
            operand_shape, window_dimensions, window_strides, padding, base, dilation, strict=True
        )
    )


def _beside(pooled: Tensor, first: Tensor, computation: Any) -> Tensor:
    if computation is elementwise.add:
        return pooled + first
    # Where both are equal the window has the whole cotangent, as from an identity; lax.max would share it out.
    beats = first > pooled if computation is elementwise.max else first < pooled
    return torch.where(beats | torch.isnan(first), first, pooled)


_POOLED = (elementwise.add, elementwise.max, elementwise.min)
_MAXIMA = (torch.nn.functional.max_pool1d, torch.nn.functional.max_pool2d, torch.nn.functional.max_pool3d)


def _maxima(planes: Tensor, size: Sequence[int], step: Sequence[int], dilation: Sequence[int]) -> Tensor:
    """Return the windows' maxima; of large windows at every place along one dimension after the other.

    The last one first: so the first of a window's equal maxima is the same, which has the cotangent.
    """
    pool = _MAXIMA[len(size) - 1]
    if max(step) > 1 or 2 * sum(size) > math.prod(size):
        return pool(planes, list(size), list(step), 0, list(dilation))
    for dim in reversed(range(len(size))):
        along, apart = ([n if d == dim else 1 for d, n in enumerate(numbers)] for numbers in (size, dilation))
        planes = pool(planes, along, 1, 0, apart)
    return planes


def _pooled(
    t: Tensor,
    computation: Any,
    window: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    counts: Sequence[int],
) -> Tensor | None:
    """Return the windows' sums or extrema by torch's pooling, or None where it does not apply."""
    if computation not in _POOLED or t.dtype not in (torch.float32, torch.float64) or 0 in counts:
        return None
    moving = [d for d in range(t.dim()) if window[d] > 1 or strides[d] > 1]
    if not 1 <= len(moving) <= 3 or (computation is elementwise.add and any(dilation[d] > 1 for d in moving)):
        return None
    still = [d for d in range(t.dim()) if d not in moving]
    order = [*still, *moving]
    # What is last and stays where it is are channels: as they lie, torch has vectors for them, and takes a tenth of the time.
    channels = t.shape[still[-1]] if still else 1
    planes = t.permute(order).reshape(-1, channels, *(t.shape[d] for d in moving))
    size, step = [window[d] for d in moving], [strides[d] for d in moving]
    if computation is elementwise.add and len(moving) == 3:
        out = torch.nn.functional.avg_pool3d(planes, size, step, divisor_override=1)
    elif computation is elementwise.add:
        missing = [1] * (2 - len(moving))
        planes = planes.reshape(*planes.shape, *missing)
        out = torch.nn.functional.avg_pool2d(planes, size + missing, step + missing, divisor_override=1)
    else:
        negated = computation is elementwise.min
        planes = -planes if negated else planes
        out = _maxima(planes, size, step, [dilation[d] for d in moving])
        out = -out if negated else out
    out = out.reshape([counts[d] for d in order])
    return out.permute([order.index(d) for d in range(t.dim())])
