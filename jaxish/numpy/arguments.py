"""Arguments that many jax.numpy functions share: `out`, `dtype`, `device`, `out_sharding`."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import dtypes
from .._core.array import Array, default_torch_device, to_numpy

ArrayLike = Array | np.ndarray | np.generic | bool | int | float | complex
DTypeLike = Any
Axis = None | int | tuple[int, ...]


def no_out(function: str, out: None) -> None:
    """Raise `NotImplementedError` when an output array is given: arrays are immutable."""
    if out is not None:
        raise NotImplementedError(
            f"The 'out' argument to jnp.{function} is not supported: arrays are immutable. Use the returned array."
        )


def no_sharding(function: str, out_sharding: Any) -> None:
    """Raise `NotImplementedError` when an output sharding is given."""
    if out_sharding is not None:
        raise NotImplementedError(
            f"The 'out_sharding' argument to jnp.{function} is not supported. Use jax.lax.with_sharding_constraint."
        )


def torch_device(device: Any) -> torch.device:
    """Return the torch device that a `device=` argument means; None is the default device."""
    if device is None:
        return default_torch_device()
    if isinstance(device, torch.device):
        return device
    own = getattr(device, "torch_device", None)
    if isinstance(own, torch.device):
        return own
    raise NotImplementedError(f"device={device!r}: give a jax Device, or place the array with jax.device_put.")


def dtype_or(dtype: DTypeLike, function: str, default: Any) -> torch.dtype:
    """Return the torch dtype of a `dtype=` argument, or of `default` (a NumPy dtype) when it is None."""
    if dtype is None:
        return dtypes.to_torch(dtypes.canonicalize_dtype(default))
    return dtypes.to_torch(dtypes.requested_dtype(dtype, function))


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
