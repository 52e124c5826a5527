"""Bits as arrays: `packbits` and `unpackbits`."""

import torch
from torch import Tensor

from .._core import dtypes
from .._core.array import Array
from .._core.dimensions import canonical_axis
from .._core.promotion import convert, tensor
from .._core.typing import ArrayLike
from .._transforms.shown_calls import shown_as_jit


def _places(bitorder: str, device: torch.device) -> Tensor:
    if bitorder not in ("big", "little"):
        raise ValueError(f"'bitorder' must be either 'little' or 'big'; got {bitorder!r}")
    places = torch.arange(8, device=device)
    return 7 - places if bitorder == "big" else places


@shown_as_jit("axis", "bitorder")
def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Return the truth values along `axis` (None: of the flattened array) as the bits of uint8 numbers."""
    t = tensor("packbits", a)
    if t.is_floating_point() or t.is_complex():
        raise TypeError(f"Expected an input array of integer or boolean data type; got {dtypes.TO_NUMPY[t.dtype]}")
    places = _places(bitorder, t.device)
    bits = convert(t, torch.bool).to(torch.int64)
    if axis is None:
        bits, axis = bits.flatten(), 0
    axis = canonical_axis(axis, bits.dim())
    bits = bits.transpose(axis, -1)
    bits = torch.nn.functional.pad(bits, (0, -bits.shape[-1] % 8))
    groups = bits.reshape(*bits.shape[:-1], bits.shape[-1] // 8, 8)
    return Array((groups << places).sum(-1).to(torch.uint8).transpose(axis, -1))


@shown_as_jit("axis", "count", "bitorder")
def unpackbits(a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Array:
    """Return the bits of uint8 numbers as zeros and ones along `axis` (None: flattened), cut or filled to `count`."""
    t = tensor("unpackbits", a)
    if t.dtype is not torch.uint8:
        raise TypeError(f"Expected an input array of unsigned byte data type; got {dtypes.TO_NUMPY[t.dtype]}")
    places = _places(bitorder, t.device)
    if axis is None:
        t, axis = t.flatten(), 0
    axis = canonical_axis(axis, t.dim())
    t = t.transpose(axis, -1)
    bits = ((t.to(torch.int64).unsqueeze(-1) >> places) & 1).to(torch.uint8)
    bits = bits.reshape(*bits.shape[:-2], bits.shape[-2] * 8)
    if count is not None:
        missing = count - bits.shape[-1]
        bits = torch.nn.functional.pad(bits, (0, missing)) if missing > 0 else bits[..., :count]
    return Array(bits.transpose(axis, -1))
