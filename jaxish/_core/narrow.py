"""Numbers of less than eight bits, and 8-bit floats: torch stores them and has hardly an operator for them.

Each element takes a byte, as in JAX on the CPU. Integers lie in it as int8 or uint8, floats as ml_dtypes codes them. Where
torch has no dtype of a float, one that says nothing but a width stands for it (`dtypes.STAND_INS`).

What computes is a wider dtype, operator by operator, and what comes out is rounded, or wrapped around, at once: XLA's
meaning. Arrays that are not narrow pay nothing for it. In a trace, `Trace` asks `on_wide`, so that graphs hold operators on
the wider dtype and conversions only. Outside of traces a narrow tensor is a `Narrow`, whose dispatch asks it; `marked` makes
one, where tensors come from the host, from `Conversion` and from graphs.

torch, to 2.13: the dtypes below a byte are views of uint8, without kernels that copy, fill or compare.
"""

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from . import dtypes, graph, levels
from .graph import TensorType
from .primitive import Dims, Primitive

aten = torch.ops.aten

_BITS = {dtypes.TO_TORCH[d]: dtypes.iinfo(d).bits for d in dtypes.SMALL_INTEGERS}
# torch means something else by these: bytes of bits, and two numbers in a byte.
OURS = frozenset({torch.float4_e2m1fn_x2, *dtypes.STAND_INS.values()})
_CODED = OURS | {torch.float8_e8m0fnu}


def _dispatched(cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    plain = tree_map_only(Narrow, unmarked, (args, kwargs or {}))
    return tree_map_only(Tensor, marked, on_wide(func, *plain))


class Narrow(Tensor):
    """A tensor of a narrow dtype outside of traces."""

    __torch_function__: Any = torch._C._disabled_torch_function_impl
    __torch_dispatch__: Any = classmethod(_dispatched)


def marked(tensor: Tensor) -> Tensor:
    """Return a plain tensor of a narrow dtype as one that computes; others as they are."""
    if tensor.dtype not in dtypes.NARROW or type(tensor) is not Tensor or levels.is_tracer(tensor):
        return tensor
    return torch.Tensor._make_subclass(Narrow, tensor)


def unmarked(tensor: Tensor) -> Tensor:
    """Return a narrow tensor as torch's own, which others know."""
    with torch._C._DisableTorchDispatch():  # else it is an operator on a narrow tensor
        return tensor.as_subclass(Tensor)


def marks(function: Callable[..., Sequence[Tensor]]) -> Callable[..., Sequence[Tensor]]:
    """Return a function of tensors with its narrow results marked."""
    return lambda *tensors: [*map(marked, function(*tensors))]


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which operators on a narrow one compute; others as they are."""
    if dtype not in dtypes.NARROW:
        return dtype
    if dtype in _BITS:
        return torch.int8 if dtype.is_signed else torch.uint8
    return torch.float32


def full(shape: Sequence[int], value: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a tensor filled with a number that `wide_dtype(dtype)` holds."""
    if dtype not in dtypes.NARROW:
        # torch.full calls two operators, the second of which detaches what the first made: a trace records both.
        make = torch.ops.aten.full.default if graph.tracing else torch.full
        return make(shape, value, dtype=dtype, device=device)
    return narrowed(torch.full(shape, value, dtype=wide_dtype(dtype), device=device), dtype)


# ------------------------------------------------------------------------------------------------------- conversion


def widened(tensor: Tensor) -> Tensor:
    """Return the values of a narrow tensor in the dtype that computes; other tensors as they are."""
    if tensor.dtype not in dtypes.NARROW:
        return tensor
    return Conversion(wide_dtype(tensor.dtype))(tensor)[0]


def _widened(tensor: Tensor) -> Tensor:
    dtype = tensor.dtype
    if dtype in _BITS:
        return aten.view.dtype(tensor, wide_dtype(dtype))
    if dtype in _CODED:
        codes = aten.view.dtype(tensor, torch.uint8)
        return _values_of(dtype).to(tensor.device)[codes.to(torch.int64)]
    return tensor.to(torch.float32)


def _narrowed(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Return integers wrapped around, or floats rounded, to a narrow dtype."""
    if dtype in _BITS:
        unused = 8 - _BITS[dtype]
        wrapped = (tensor << unused) >> unused if dtype.is_signed else tensor & (255 >> unused)
        return aten.view.dtype(wrapped.contiguous(), dtype)
    if dtype in _CODED:
        return aten.view.dtype(_codes_of(tensor, dtype), dtype)
    if dtype is torch.float8_e4m3fn:  # XLA overflows to NaN, torch saturates
        tensor = torch.where(tensor.abs() > 464, torch.nan, tensor)
    return aten._to_copy.default(tensor, dtype=dtype)


@cache
def _values_of(dtype: torch.dtype) -> Tensor:
    kind = dtypes.TO_NUMPY[dtype]
    codes = np.arange(256, dtype=np.uint8) & np.uint8((1 << ml_dtypes.finfo(kind).bits) - 1)
    with graph.suspended():
        return torch.from_numpy(codes.view(kind).astype(np.float32))


@cache
def _rounding(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Return the bounds between positive values, the codes of values, and those of 0, -0 and NaN.

    A bound is the greatest number that is rounded down: halfway between two values, where the lower one's code is even.
    """
    kind = dtypes.TO_NUMPY[dtype]
    info = ml_dtypes.finfo(kind)
    greatest = int(np.array(info.max, kind).view(np.uint8))
    values = np.arange(greatest + 1, dtype=np.uint8).view(kind).astype(np.float64)
    beyond = 2 * values[-1] if info.nmant == 0 else 2 * values[-1] - values[-2]
    halves = ((values + np.append(values[1:], beyond)) / 2).astype(np.float32)
    with np.errstate(all="ignore"):
        rounds_up = halves.astype(kind).view(np.uint8) != np.arange(greatest + 1)
        bounds = np.where(rounds_up, np.nextafter(halves, np.float32(0)), halves)
        # What lies between these, of either sign, with infinity behind them.
        between = np.append(values, np.inf).astype(np.float32)
        codes = np.stack([between, -between]).astype(kind).view(np.uint8)
        none = np.array(np.nan, np.float32).astype(kind).view(np.uint8)
    with graph.suspended():
        return torch.from_numpy(bounds), torch.from_numpy(codes.reshape(-1)), torch.from_numpy(none)


def _codes_of(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    bounds, codes, none = (t.to(tensor.device) for t in _rounding(dtype))
    single = tensor.to(torch.float32)
    place = torch.bucketize(single.abs(), bounds)
    found = codes[torch.where(torch.signbit(single), place + len(bounds) + 1, place)]
    if dtype is torch.float8_e8m0fnu:
        found = torch.where(single == 0, none, found)
    return torch.where(torch.isnan(single), none, found)


class Conversion(Primitive):
    """Conversion of a narrow tensor to the dtype that computes with it, and back."""

    __name__ = "convert_element_type"
    is_elementwise = True

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def equation(self) -> tuple[Any, dict[str, Any]]:
        return self.__name__, {"new_dtype": dtypes.TO_NUMPY[self.dtype], "weak_type": False, "sharding": None}

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        (tensor,) = inputs
        return [TensorType(tuple(tensor.shape), self.dtype, tensor.device)]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        tensor = unmarked(inputs[0]) if type(inputs[0]) is Narrow else inputs[0]
        return [marked(_narrowed(tensor, self.dtype)) if self.dtype in dtypes.NARROW else _widened(tensor)]

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        if levels.has_derivative(inputs[0]):
            check_differentiable(self.dtype)
        return super().__call__(*inputs)

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        return self(*inputs), list(dims)

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        return [None if t is None else self(t)[0] for t in tangents]

    def vjp(self, primals: Any, results: Any, cotangents: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        back = Conversion(primals[0].dtype)
        return [None if c is None else back(c)[0] for c in cotangents]


def check_differentiable(dtype: torch.dtype) -> None:
    """Raise `NotImplementedError` for a float that torch takes for something else, and lets no derivative through."""
    if dtype in dtypes.STAND_INS.values():
        raise NotImplementedError(
            f"Derivatives with respect to values of {dtypes.TO_NUMPY[dtype]} are not supported: torch has no such floating "
            "dtype. Convert to float8_e4m3fn or bfloat16 instead, or stop the gradient by jax.lax.stop_gradient."
        )


def narrowed(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a tensor of `wide_dtype(dtype)` converted to the narrow `dtype`, under any transformation."""
    trace = graph.current_trace() if graph.tracing else None
    if trace is not None:
        trace.has_narrow = True
        if dtype in dtypes.TORCH_FLOATS:
            return _narrowed(tensor, dtype)
    return Conversion(dtype)(tensor)[0]


def _converted(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert beneath all transformations; torch's own floats by torch's operators, which compilers know."""
    if dtype in dtypes.TORCH_FLOATS:
        return _narrowed(tensor, dtype)
    if tensor.dtype in dtypes.TORCH_FLOATS:
        return aten._to_copy.default(tensor, dtype=dtype)
    return Conversion(dtype)(tensor)[0]


def via_wide(operation: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Apply an operation to tensors of one narrow dtype by way of the wider one."""
    return narrowed(operation(*map(widened, tensors)), tensors[0].dtype)


def via_codes(operation: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Apply an operation to small integers of one dtype by way of their bits, read as unsigned."""
    unused = 8 - bits(tensors[0].dtype)
    codes = (widened(t).view(torch.uint8) & (255 >> unused) for t in tensors)
    found = operation(*codes).view(wide_dtype(tensors[0].dtype))
    return narrowed(found, tensors[0].dtype)


# ------------------------------------------------------------------------------------------------------------- bits


def bits(dtype: torch.dtype) -> int:
    """Return how many bits an element of `dtype` has."""
    return dtypes.itemsize_bits(dtypes.TO_NUMPY[dtype])


def reread(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the bits of a tensor read as `dtype`, which divide its last axis anew."""
    tensor = tensor.contiguous()
    if not {tensor.dtype, dtype} & dtypes.NARROW:
        return tensor.view(dtype)
    codes, unit = tensor.view(torch.uint8), bits(tensor.dtype)
    if unit < 8:
        codes = _regrouped(codes & ((1 << unit) - 1), unit, min(bits(dtype), 8))
    elif bits(dtype) < 8:
        codes = _regrouped(codes, 8, bits(dtype))
    if dtype not in dtypes.NARROW:
        return codes.contiguous().view(dtype)
    if dtype in _BITS:
        return narrowed(codes.view(wide_dtype(dtype)), dtype)
    values = _values_of(dtype).to(codes.device)[codes.to(torch.int64)]
    return narrowed(values, dtype)


def _regrouped(codes: Tensor, old: int, new: int) -> Tensor:
    """Return bytes that hold `old` bits each as bytes that hold `new` bits each, the lowest first."""
    if old == new:
        return codes
    if old > new:
        shifts = torch.arange(0, old, new, device=codes.device, dtype=torch.uint8)
        return ((codes.unsqueeze(-1) >> shifts) & ((1 << new) - 1)).flatten(-2)
    shifts = torch.arange(0, new, old, device=codes.device, dtype=torch.uint8)
    parts = codes.unflatten(-1, (-1, new // old)) << shifts
    return parts.sum(-1, dtype=torch.uint8)


# -------------------------------------------------------------------------------------------------------- operators

# What moves elements does so with their bits: views, and these.
_MOVES = {
    aten.clone, aten.index, aten.index_select, aten.gather, aten.cat, aten.stack, aten.flip, aten.roll, aten._unsafe_view,
    aten.repeat, aten.copy_, aten.take,
}  # fmt: skip
_CONVERSIONS = {aten._to_copy, aten.to}
# These tell of bits and shapes only.
AS_THEY_ARE = {aten.view.dtype, aten.is_same_size.default, aten._has_same_storage_numel.default}


def on_wide(func: Any, args: Any, kwargs: Any) -> Any:
    """Call an operator of torch on narrow tensors, or one that makes them, by what torch can compute."""
    if func in AS_THEY_ARE:
        return func(*args, **kwargs)
    if func.overloadpacket is aten.to:
        return func.decompose(*args, **kwargs)
    narrow = next(iter(_narrow_in((args, kwargs))))
    if func is aten._to_copy.default:
        return _copied(args[0], kwargs)
    if func.overloadpacket in _MOVES or func.is_view:
        return _moved(func, args, kwargs, narrow)
    wanted, wide = kwargs.get("dtype") or narrow, wide_dtype(narrow)
    found = func(*_on_wide(args), **_on_wide(kwargs))
    if func._schema.is_mutable:
        return _moved(aten.copy_.default, (args[0], _converted(found, narrow)), {}, narrow)
    if wanted is not narrow:
        return found
    return tree_map_only(Tensor, lambda t: _converted(t, narrow) if t.dtype is wide else t, found)


def _narrow_in(values: Any) -> set[torch.dtype]:
    found = (getattr(v, "dtype", v) for v in tree_leaves(values))
    return {d for d in found if isinstance(d, torch.dtype) and d in dtypes.NARROW}


def is_about(func: Any, args: Any, kwargs: Any) -> bool:
    """Tell whether `on_wide` has to compute an operator in a trace."""
    if func in AS_THEY_ARE:
        return False
    found = _narrow_in((args, kwargs))
    return bool(found - dtypes.TORCH_FLOATS if func.overloadpacket in _CONVERSIONS else found)


def _on_wide_tensor(tensor: Tensor) -> Tensor:
    return _converted(tensor, wide_dtype(tensor.dtype)) if tensor.dtype in dtypes.NARROW else tensor


def _on_wide(values: Any) -> Any:
    values = tree_map_only(Tensor, _on_wide_tensor, values)
    return tree_map_only(torch.dtype, wide_dtype, values)


def _moved(func: Callable[..., Any], args: Any, kwargs: Any, narrow: torch.dtype) -> Any:
    def codes(tensor: Tensor) -> Tensor:
        return aten.view.dtype(tensor, torch.uint8) if tensor.dtype is narrow else tensor

    found = func(*tree_map_only(Tensor, codes, args), **tree_map_only(Tensor, codes, kwargs))
    return tree_map_only(Tensor, lambda t: aten.view.dtype(t, narrow) if t.dtype is torch.uint8 else t, found)


def _copied(tensor: Tensor, options: dict[str, Any]) -> Tensor:
    dtype = options.get("dtype") or tensor.dtype
    others = {k: v for k, v in options.items() if k != "dtype"}
    if dtype is tensor.dtype:
        return aten.view.dtype(aten._to_copy.default(aten.view.dtype(tensor, torch.uint8), **others), dtype)
    copy = aten._to_copy.default(_on_wide_tensor(tensor), dtype=wide_dtype(dtype), **others)
    return _converted(copy, dtype) if dtype in dtypes.NARROW else copy


graph.narrow_rules = sys.modules[__name__]
