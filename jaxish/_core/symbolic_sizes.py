"""Sizes that are symbols: torch's SymInts, which stand for sizes while a function is exported for symbolic shapes.

Traces within `symbols_of` make fakes that may have such sizes. torch notes what the program asks of them, as guards. What
integers are asked for elsewhere, `index` hands on as a symbol; `operator.index` would make a number of it.

torch refuses to hash symbols, since they are compared by guards. Here those of one formula have one hash, so that only equal
ones are compared, and signatures with symbols can be looked up (torch 2.9 to 2.13).
"""

import operator
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._meta_registrations import calc_conv_nd_return_shape
from torch._subclasses.fake_tensor import FakeTensorMode


class _State(threading.local):
    environment: Any = None


_state = _State()


def environment() -> Any:
    """Return torch's ShapeEnv that is in force in this thread, None where there are no symbols."""
    return _state.environment


@contextmanager
def symbols_of(shape_env: Any) -> Iterator[None]:
    """Within this context manager, traces of this thread know the symbols of a ShapeEnv."""
    from torch.fx.experimental import _config as settings

    patch: Any = settings.patch  # pyright: ignore

    torch.SymInt.__hash__ = _hash  # pyright: ignore
    before, _state.environment = _state.environment, shape_env
    try:
        # Without guards for sizes of one in torch's own bookkeeping of strides, which does not change what is computed.
        with patch(backed_size_oblivious=True), warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", "Raw Sym", UserWarning
            )  # that graphs hold symbols, which records are made of
            yield
    finally:
        _state.environment = before


def _hash(symbol: Any) -> int:
    node = symbol.node
    return hash(node.nested_int()) if node.is_nested_int() else hash((id(node.shape_env), node.expr))


def blank(shape: Sequence[Any], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return a tensor without values, of which only the type counts: a fake one where there are symbols in the shape."""
    if all(type(n) is int for n in shape):
        return torch.empty(tuple(shape), dtype=dtype, device=device)
    with FakeTensorMode(shape_env=environment()):
        return torch.empty(tuple(shape), dtype=dtype, device=device)


def index(value: Any) -> Any:
    """Return an integer-like value as an int, a symbol as it is. Raises `TypeError` for what is neither."""
    return value if type(value) is torch.SymInt else operator.index(value)


def is_size(value: Any) -> bool:
    """Tell whether a value is an int or a symbol."""
    return type(value) is int or type(value) is torch.SymInt


def is_whole(start: Any, stop: Any, size: Any) -> bool:
    """Tell whether a slice from `start` to `stop` takes all, which is not asked of symbols that may be so."""
    if type(start) is type(stop) is type(size) is int:
        return start == 0 and stop == size
    return _is_known(start == 0) and _is_known(stop == size)


def larger(first: Any, second: Any) -> Any:
    """Return the larger of two sizes, a formula where that is not known of symbols."""
    return _extremum(first, second, torch.sym_max, lambda x, y: x >= y)


def smaller(first: Any, second: Any) -> Any:
    """Return the smaller of two sizes, a formula where that is not known of symbols."""
    return _extremum(first, second, torch.sym_min, lambda x, y: x <= y)


def _extremum(first: Any, second: Any, formula: Callable[..., Any], wins: Callable[[Any, Any], Any]) -> Any:
    if _is_known(wins(first, second)):
        return first
    return second if _is_known(wins(second, first)) else formula(first, second)


def _is_known(condition: Any) -> bool:
    if type(condition) is bool:
        return condition
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return statically_known_true(condition)


def slice_bounds(item: slice, size: Any) -> tuple[Any, Any, Any]:
    """Return what `item.indices(size)` does, with symbols where there are any."""
    if not any(type(n) is torch.SymInt for n in (size, item.start, item.stop, item.step)):
        return item.indices(size)
    step = 1 if item.step is None else index(item.step)
    low, high = (0, size) if step > 0 else (-1, size - 1)

    def bound(given: Any, default: Any) -> Any:
        if given is None:
            return default
        place = index(given)
        return smaller(larger(place + size if place < 0 else place, low), high)

    return bound(item.start, low if step > 0 else high), bound(item.stop, high if step > 0 else low), step


def steps_between(start: Any, stop: Any, step: Any) -> Any:
    """Return `len(range(start, stop, step))`, with symbols where there are any."""
    return max(0, (stop - start + step - (1 if step > 0 else -1)) // step)


def fake_results(func: Any, args: Any) -> Any:
    """Return the results of one of `ASKING` for fakes with symbols.

    torch's own rules for these ask which kernel will run, which makes numbers of the symbols.
    """
    if func is torch.ops.aten.constant_pad_nd.default:
        operand, pads, *_ = args
        sizes = list(operand.shape)
        for place, (low, high) in enumerate(zip(pads[::2], pads[1::2], strict=True)):
            sizes[-1 - place] = sizes[-1 - place] + low + high
        return operand.new_empty(sizes)
    if func is torch.ops.aten.convolution.default:
        operand, weight, _, stride, padding, dilation, transposed, output_padding, groups = args
        outer = output_padding if transposed else None
        shape = calc_conv_nd_return_shape(operand, weight, stride, padding, dilation, transposed, groups, outer)
        return operand.new_empty(shape)
    cotangent, operand, weight, bias_sizes, *_, mask = args
    shapes = (operand.shape, weight.shape, bias_sizes)
    return tuple(cotangent.new_empty(s) if m else None for s, m in zip(shapes, mask, strict=True))


ASKING = {
    torch.ops.aten.constant_pad_nd.default, torch.ops.aten.convolution.default,
    torch.ops.aten.convolution_backward.default,
}  # fmt: skip
