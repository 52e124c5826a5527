"""From the arguments of a function to tensors of one dtype: the front door of every jax.numpy and lax function.

`tensors` converts without promotion, `promote` to the arguments' common dtype, `promote_inexact` to a floating or
complex one. Each raises `TypeError` naming the function for what is no array or scalar, and returns the weak flag
that the result has.
"""

import math
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import config, dtypes, graph, narrow, selection
from .array import Array, as_array, check_arraylike, device_of, is_arraylike, scalar_tensor, tensor_of
from .dtypes import TO_NUMPY, TO_TORCH
from .extended import refuse
from .operations import is_recorded, shown_as


def tensors(function: str, *args: Any) -> list[Tensor]:
    """Return the tensors of `args`, dtypes as they are."""
    return [tensor_of(x) if type(x) is Array else _converted(function, i, x, args) for i, x in enumerate(args)]


def tensor(function: str, x: Any, *beside: Any) -> Tensor:
    """Return the tensor of `x`, its dtype as it is; a number lies where the arrays in `beside` lie."""
    return tensor_of(x) if type(x) is Array else _converted(function, 0, x, (x, *beside))


def _converted(function: str, position: int, x: Any, args: tuple[Any, ...]) -> Tensor:
    refuse(function, (x,))
    if not is_arraylike(x):
        check_arraylike(function, *[0] * position, x)
    return tensor_of(as_array(x, device_of(*args)))


def promote(function: str, *args: Any) -> tuple[list[Tensor], bool]:
    """Return tensors of the common dtype of `args`, and whether that is weak."""
    alike = _alike(args)
    if alike is not None:
        return alike
    args, dtype, weak = _common(function, args)
    return _casts(args, TO_TORCH[dtype], device_of(*args), weak), weak


def _alike(args: tuple[Any, ...]) -> tuple[list[Tensor], bool] | None:
    """Return arrays of one type as they are, None for other arguments."""
    first = args[0]
    if type(first) is Array and all(type(x) is Array for x in args):
        dtype = first._tensor.dtype
        if all(x._tensor.dtype is dtype for x in args) and len({x._weak for x in args}) == 1:
            weak = first._weak and (dtype is not torch.bool or len(args) == 1)
            return ([graph.lift(x._tensor) for x in args] if graph.tracing else [x._tensor for x in args]), weak
    return None


def _common(function: str, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], np.dtype, bool]:
    if not all(map(_is_plain, args)):
        check_arraylike(function, *args)
        refuse(function, args)
        device = device_of(*args)
        args = tuple(x if _is_plain(x) else as_array(x, device) for x in args)
    dtype, weak = dtypes.promote(*map(_lattice_type, args))
    return args, dtype, weak


def _lattice_type(x: Any) -> dtypes.LatticeType:
    return (TO_NUMPY[x._tensor.dtype], x._weak) if type(x) is Array else dtypes.lattice_type(x)


def promote_inexact(function: str, *args: Any) -> tuple[list[Tensor], bool]:
    """Return tensors of the common dtype of `args`, integers and booleans made floating, and whether it is weak."""
    alike = _alike(args)
    if alike is not None and dtypes.is_inexact_tensor(alike[0][0].dtype):
        return alike
    args, common, weak = _common(function, args)
    return _casts(args, TO_TORCH[dtypes.to_inexact(common)], device_of(*args), weak), weak


def _casts(args: tuple[Any, ...], dtype: torch.dtype, device: torch.device, weak: bool) -> list[Tensor]:
    if graph.tracing and is_recorded():
        return [shown(x, dtype, weak) if isinstance(x, Array) else cast(x, dtype, device) for x in args]
    return [cast(x, dtype, device) for x in args]


def shown(x: Array, dtype: torch.dtype, weak: bool = False) -> Tensor:
    """Return an array converted to a dtype; jaxprs show that where only its weak type changes, too."""
    unchanged = x._tensor.dtype is dtype and x._weak is weak
    return tensor_of(x) if unchanged else _converted_to(tensor_of(x), dtype, weak)


def _is_plain(x: Any) -> bool:
    kind = type(x)
    return kind is Array or kind is float or kind is int or kind is bool or kind is complex


def cast(x: Any, dtype: torch.dtype, device: torch.device | None = None) -> Tensor:
    """Return an Array, or a Python scalar on `device`, as a tensor of `dtype`; integers that it cannot hold wrap around."""
    if isinstance(x, Array):
        return convert(tensor_of(x), dtype)
    if type(x) is int:
        x = _wrapped(x, dtype)
    elif dtype.is_complex is False and type(x) is complex:
        x = x.real
    return scalar_tensor(x, dtype, device)


def _wrapped(value: int, dtype: torch.dtype) -> int:
    if dtype is torch.bool or dtypes.is_inexact_tensor(dtype):
        return value
    bounds = dtypes.integer_bounds(dtype)
    return (value - bounds.min) % (bounds.max - bounds.min + 1) + bounds.min


def check_fits(value: int, dtype: torch.dtype) -> None:
    """Raise `OverflowError` when an integer dtype cannot hold the Python integer `value`."""
    if dtype is torch.bool or dtype in dtypes.NARROW or dtypes.is_inexact_tensor(dtype):
        return  # as in JAX, small integers wrap around
    bounds = dtypes.integer_bounds(dtype)
    if not bounds.min <= value <= bounds.max:
        raise OverflowError(f"Python integer {value} out of bounds for {TO_NUMPY[dtype]}")


def convert(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Return `tensor` converted to `dtype` as JAX converts: bool by comparison with zero, complex to real by .real,
    floating to integer with saturation at the bounds and NaN to zero."""
    source = tensor.dtype
    if source is dtype:
        return tensor
    if source in dtypes.NARROW:
        return convert(narrow.widened(tensor), dtype)
    if dtype in dtypes.NARROW:
        return _to_narrow(tensor, dtype)
    if dtype is torch.bool:
        return tensor != 0 if source not in _UNORDERED else tensor.to(torch.int64) != 0
    if source.is_complex and not dtype.is_complex:
        return convert(tensor.real, dtype)
    if source.is_floating_point and not dtype.is_floating_point and not dtype.is_complex:
        return _float_to_int(tensor, dtype)
    if source is torch.uint64 and (dtype.is_floating_point or dtype.is_complex):
        signed = tensor.view(torch.int64)
        # torch converts uint64 by way of int64; the upper half is converted as half the value, odd bit kept.
        half = ((signed >> 1) & 0x7FFFFFFFFFFFFFFF) | (signed & 1)
        return torch.where(signed < 0, half.to(dtype) * 2, signed.to(dtype))
    return tensor.to(dtype)


def _conversion(tensor: Tensor, dtype: torch.dtype, weak: bool = False) -> dict[str, Any]:
    return {"new_dtype": TO_NUMPY[dtype], "weak_type": weak, "sharding": None}


@shown_as("convert_element_type", _conversion)
def _converted_to(tensor: Tensor, dtype: torch.dtype, weak: bool) -> Tensor:
    return convert(tensor, dtype)


@shown_as("convert_element_type", _conversion)
def _to_narrow(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    tensor = tensor.real if tensor.is_complex() else tensor
    wide = narrow.wide_dtype(dtype)
    if tensor.dtype.is_floating_point and not wide.is_floating_point:
        bounds = dtypes.integer_bounds(dtype)
        tensor = tensor.clamp(bounds.min, bounds.max)
    return narrow.narrowed(convert(tensor, wide), dtype)


_UNORDERED = (torch.uint16, torch.uint32, torch.uint64)


@shown_as("convert_element_type", _conversion)
def _float_to_int(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    # C leaves out-of-range conversions undefined; XLA saturates.
    info = torch.iinfo(dtype)
    if tensor.dtype.itemsize <= 4 and (dtype.itemsize < 4 or dtype is torch.int32):
        return _single_to_int(tensor.float(), dtype, info)
    wide = tensor.double() if dtype.itemsize >= 4 else tensor
    wide = torch.nan_to_num(wide, nan=0.0, posinf=float("inf"), neginf=float("-inf"))
    if dtype.itemsize < 8:
        return wide.clamp(info.min, info.max).to(torch.int64).to(dtype)
    if dtype is torch.int64:
        top = wide >= 2.0**63
        return torch.where(top, info.max, wide.clamp(min=-(2.0**63)).masked_fill(top, 0).to(torch.int64))
    high = wide >= 2.0**63
    low_part = torch.where(high, wide - 2.0**63, wide).clamp(0, 2.0**63 - 1024).to(torch.int64)
    bits = torch.where(high, low_part | torch.iinfo(torch.int64).min, low_part)
    return torch.where(wide >= 2.0**64, -1, bits).view(torch.uint64)


def _single_to_int(x: Tensor, dtype: torch.dtype, info: torch.iinfo) -> Tensor:
    # The greatest int32 is no float32: what is at least 2**31 becomes it afterwards.
    if type(x) is Tensor and selection.is_plain(x):  # large arrays are new as seldom as can be
        held = torch.nan_to_num(x, nan=0.0, posinf=math.inf, neginf=-math.inf).clamp_(
            info.min, min(info.max, 2**31 - 128)
        )
        if dtype is not torch.int32:
            return held.to(torch.int32).to(dtype) if dtype in _UNORDERED else held.to(dtype)
        is_above = x >= 2.0**31
        held = held.to(torch.int32)
        return held.masked_fill_(is_above, info.max) if is_above.any() else held
    held = selection.where(x != x, 0.0, x).clamp(info.min, min(info.max, 2**31 - 128)).to(torch.int32)
    return (selection.where(x >= 2.0**31, info.max, held) if dtype is torch.int32 else held).to(dtype)


def check_rank_promotion(function: str, *args: Tensor) -> None:
    """Warn or raise, as `jax_numpy_rank_promotion` says, when tensors of different nonzero ranks meet."""
    mode = config.numpy_rank_promotion.value
    if mode == "allow" or len({t.dim() for t in args if t.dim()}) < 2:
        return
    shapes = " ".join(str(tuple(t.shape)) for t in args)
    more = "https://docs.jax.dev/en/latest/rank_promotion_warning.html"
    if mode == "raise":
        raise ValueError(
            f"Operands could not be broadcast together for {function} on shapes {shapes} and with the config option "
            f"jax_numpy_rank_promotion='raise'. For more information, see {more}. Reshape the operands to equal ranks."
        )
    warnings.warn(
        f"Following NumPy automatic rank promotion for {function} on shapes {shapes}. Set the jax_numpy_rank_promotion "
        f"config option to 'allow' to disable this warning; for more information, see {more}.",
        stacklevel=3,
    )


def numpy_dtype(tensor: Tensor) -> np.dtype:
    """Return the NumPy dtype of a tensor."""
    return TO_NUMPY[tensor.dtype]
