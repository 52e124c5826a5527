"""Arrays of other libraries, whose memory is shared by DLPack."""

from typing import Any

import numpy as np
import torch

from .._core import dtypes
from .._core.array import Array, tensor_of
from .._core.typing import DTypeLike
from .._devices import devices
from .._devices.shardings import Sharding
from .._transforms.placement import device_put

_KINDS = {1: "CPU", 2: "CUDA", 3: "CUDA host memory"}  # DLPack's device types that torch reads as JAX does
_SUPPORTED = {
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128",
}  # fmt: skip


def is_supported_dtype(dtype: DTypeLike) -> bool:
    """Tell whether arrays of this dtype can be handed over. Raises `TypeError` for None."""
    if dtype is None:
        raise TypeError(f"Expected a string or dtype-like object; got {dtype=}")
    return np.dtype(dtype).name in _SUPPORTED


def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Array:
    """Return an array that shares the memory of an object with `__dlpack__` and `__dlpack_device__`.

    It is copied if `copy` says so, if it is to be on another device (a `Device`, or a sharding of one), and if it has 64-bit
    elements while those are off. An array that shares memory must not be written into from outside.
    Raises `ValueError` where `copy=False` and another device is asked for, `TypeError` for other objects and devices.
    """
    if isinstance(device, Sharding):
        if len(device.device_set) > 1:
            raise ValueError(
                "from_dlpack can only unpack a dlpack tensor onto a singular device, but a Sharding with "
                f"{len(device.device_set)} devices was provided."
            )
        (device,) = device.device_set
    if not hasattr(external_array, "__dlpack__") or not hasattr(external_array, "__dlpack_device__"):
        raise TypeError("The array passed to from_dlpack must have __dlpack__ and __dlpack_device__ methods.")
    kind = int(external_array.__dlpack_device__()[0])
    if kind not in _KINDS:
        raise TypeError(
            f"Array passed to from_dlpack is on unsupported device type (DLDeviceType: {kind}, array: {external_array}"
        )
    found = tensor_of(external_array) if isinstance(external_array, Array) else torch.from_dlpack(external_array)
    source = devices.of(found)
    moves = device is not None and device != source
    if moves and copy is False:
        raise ValueError(
            f"Specified device={device} which requires a copy since the source device is {source!r}, however copy=False. "
            "Set copy=True or copy=None to perform the requested operation."
        )
    wanted = dtypes.to_torch(dtypes.canonicalize_dtype(dtypes.TO_NUMPY[found.dtype]))
    result = Array(found.to(wanted, copy=bool(copy)))
    return result if device is None else device_put(result, device)
