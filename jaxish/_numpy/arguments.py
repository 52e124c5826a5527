"""Arguments that many jax.numpy functions share: `out`, `dtype`, `device`."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import dtypes, selection
from .._core.array import Array, default_torch_device, scalar_tensor, tensor_of, to_numpy
from .._core.promotion import check_rank_promotion, convert, promote, promote_inexact
from .._core.typing import ArrayLike, DTypeLike
from .._devices import laid
from .._devices.constraint import given_as, sharding_given
from .._devices.devices import Device
from .._devices.shardings import says_nothing
from .._lax.elementwise import warn_complex_to_real
from .._transforms.placement import device_put

Axis = None | int | tuple[int, ...]


def promote_dtypes(*args: ArrayLike) -> list[Array]:
    """Return the arguments as arrays of their common dtype."""
    tensors, weak = promote("promote_dtypes", *args)
    return [Array(t, weak) for t in tensors]


def promote_dtypes_inexact(*args: ArrayLike) -> list[Array]:
    """Return the arguments as arrays of their common dtype, a floating or complex one."""
    tensors, weak = promote_inexact("promote_dtypes_inexact", *args)
    return [Array(t, weak) for t in tensors]


def promote_dtypes_complex(*args: ArrayLike) -> list[Array]:
    """Return the arguments as arrays of a complex dtype in which there is their common one."""
    return [
        Array(convert(tensor_of(a), dtypes.to_torch(dtypes.to_complex(a.dtype))), a.weak_type)
        for a in promote_dtypes(*args)
    ]


def no_out(function: str, out: None) -> None:
    """Raise `NotImplementedError` when an output array is given: arrays are immutable."""
    if out is not None:
        raise NotImplementedError(
            f"The 'out' argument to jnp.{function} is not supported: arrays are immutable. Use the returned array."
        )


def torch_device(device: Any) -> torch.device:
    """Return the torch device on which to make an array for a `device=` argument, before `placed` lays it out."""
    if device is None:
        return default_torch_device()
    if isinstance(device, torch.device):
        return device
    return device.torch_device if isinstance(device, Device) else default_torch_device()


def placed(array: Array, device: Any) -> Array:
    """Return an array where a `device=` argument of the user's says: on a device, or as a sharding tells.

    A torch device, which functions here give one another, is where the array is. Raises `ValueError` for what is no device.
    """
    return array if says_nothing(device) or isinstance(device, torch.device) else device_put(array, device)


def laid_out_like(result: Array, x: Any) -> Array:
    """Return an array just made, which has the shape of `x`, as lying over devices in the way that `x` does."""
    sharding = sharding_given(x) if isinstance(x, Array) else getattr(x, "sharding", None)
    return result if laid.sharding_of(result._tensor) is not None else given_as(result, sharding)


def dtype_or(dtype: DTypeLike | None, function: str, default: Any) -> torch.dtype:
    """Return the torch dtype of a `dtype=` argument, or of `default` (a NumPy dtype) when it is None."""
    if dtype is None:
        return dtypes.to_torch(dtypes.canonicalize_dtype(default))
    return dtypes.to_torch(dtypes.requested_dtype(dtype, function))


def with_number(x: Any, y: Any) -> tuple[Tensor, Tensor] | None:
    """Return tensors for a strongly typed array and a Python number that takes its dtype, None for other arguments.

    A short way past promotion for the commonest mixture of types.
    """
    if type(x) is Array:
        number = _like(y, x)
        return None if number is None else (tensor_of(x), number)
    if type(y) is Array:
        number = _like(x, y)
        return None if number is None else (number, tensor_of(y))
    return None


def _like(number: Any, array: Array) -> Tensor | None:
    kind, tensor = type(number), array._tensor
    dtype = tensor.dtype
    if array._weak:
        return None
    if kind is int and -0x80000000 <= number < 0x80000000:
        return scalar_tensor(number, dtype, tensor.device) if dtype in _HOLD_INT32 else None
    return scalar_tensor(number, dtype, tensor.device) if kind is float and dtype in _FLOATS else None


_FLOATS = frozenset({torch.float32, torch.float64})
_HOLD_INT32 = _FLOATS | {torch.int32, torch.int64}


def pair(function: str, x1: Any, x2: Any) -> tuple[Tensor, Tensor, bool]:
    """Return two operands as tensors of their common dtype and whether it is weak, their shapes checked."""
    fast = with_number(x1, x2)
    if fast is not None:
        return *fast, False
    (a, b), weak = promote(function, x1, x2)
    if a.dim() != b.dim():
        check_rank_promotion(function, a, b)
    check_shapes(function, a, b)
    return a, b, weak


def pair_inexact(function: str, x1: Any, x2: Any) -> tuple[Tensor, Tensor, bool]:
    """Return two operands as tensors of a common floating or complex dtype and whether it is weak."""
    (a, b), weak = promote_inexact(function, x1, x2)
    if a.dim() != b.dim():
        check_rank_promotion(function, a, b)
    check_shapes(function, a, b)
    return a, b, weak


def check_shapes(function: str, a: Tensor, b: Tensor) -> None:
    """Raise as JAX does for shapes that do not broadcast: `TypeError` for equal ranks, else `ValueError`."""
    if not a.dim() or not b.dim():
        return
    # Tuples of two lengths would compare their first sizes, which may be symbols.
    if a.dim() == b.dim() and a.shape == b.shape:
        return
    for m, n in zip(reversed(a.shape), reversed(b.shape), strict=False):
        if m != n and m != 1 and n != 1:
            raise _incompatible(function, tuple(a.shape), tuple(b.shape))


# The primitives that jax.numpy's functions are, by which JAX tells of operands of equal ranks.
_PRIMITIVES = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "remainder": "rem", "mod": "rem",
    "fmod": "rem", "power": "pow", "float_power": "pow", "maximum": "max", "minimum": "min", "arctan2": "atan2",
    "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
    "logical_and": "and", "logical_or": "or", "logical_xor": "xor", "bitwise_and": "and", "bitwise_or": "or",
    "bitwise_xor": "xor", "left_shift": "shift_left", "right_shift": "shift_right_arithmetic",
}  # fmt: skip

# These give their operands one shape before they compute.
_BROADCAST_FIRST = {"copysign", "gcd", "heaviside", "lcm"}


def _incompatible(function: str, a: tuple[int, ...], b: tuple[int, ...]) -> Exception:
    if len(a) != len(b) or function in _BROADCAST_FIRST:
        return ValueError(f"Incompatible shapes for broadcasting: shapes={[a, b]}")
    return TypeError(f"{_PRIMITIVES.get(function, function)} got incompatible shapes for broadcasting: {a}, {b}.")


def selected(mask: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return `a` where the mask is True, else `b`. Raises `ValueError` for shapes that do not broadcast."""
    try:
        return selection.where(mask, a, b)
    except RuntimeError:
        shapes = [tuple(t.shape) for t in ((mask, a, b) if mask.dim() else (a, b))]
        raise ValueError(f"Incompatible shapes for broadcasting: shapes={shapes}") from None


def without_strong_arrays(*args: Any) -> bool:
    """Tell whether all of `args` are Python numbers or weakly typed arrays.

    Functions that JAX makes of several operations lose the weak type of a boolean array beside a number.
    """
    return all(getattr(x, "weak_type", True) and not isinstance(x, np.ndarray | np.generic) for x in args)


def converted(t: Tensor, dtype: torch.dtype) -> Tensor:
    """Return `t` converted to a dtype that the user asked for, with a warning where imaginary parts are dropped."""
    if t.is_complex() and not dtype.is_complex:
        warn_complex_to_real()
        t = t if dtype is torch.bool else t.real
    return convert(t, dtype)


def int_dtype() -> torch.dtype:
    """Return the default integer dtype: int64 under `jax_enable_x64`, else int32."""
    return dtypes.TO_TORCH[dtypes.canonicalize_dtype(np.int64)]


def float_dtype() -> torch.dtype:
    """Return the default floating dtype: float64 under `jax_enable_x64`, else float32."""
    return dtypes.TO_TORCH[dtypes.canonicalize_dtype(np.float64)]


def indices(tensor: Tensor) -> Array:
    """Return int64 positions, as torch gives them, in the default integer dtype."""
    return Array(tensor.to(int_dtype()))


def concrete_values(x: Any, error: type[Exception], detail: str = "") -> np.ndarray:
    """Return the values of an argument that must be known while tracing, for decisions about shapes."""
    return to_numpy(x._concrete(error, detail)) if isinstance(x, Array) else np.asarray(x)
