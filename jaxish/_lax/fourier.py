"""lax.fft: Fourier transforms over the last dimensions, on torch.fft."""

import enum
from collections.abc import Sequence
from typing import Any

import torch

from .._core import dtypes, functorch
from .._core.array import Array
from .._core.promotion import convert
from . import operands as ops


class FftType(enum.IntEnum):
    """The kind of a Fourier transform: of complex values, its inverse, of real values, its inverse."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


_NO_REAL_INPUTS = (torch.float16, torch.bfloat16, torch.complex64, torch.complex128)


def fft(x: Any, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Array:
    """Return the Fourier transform of `x` over its last len(fft_lengths) dimensions.

    `fft_lengths` are the sizes of these dimensions; for IRFFT, those of the result. `TypeError` or `ValueError` for an
    unknown type, `ValueError` for other sizes.
    """
    kind = _kind(fft_type)
    t, weak = ops.operand("fft", x)
    lengths = tuple(fft_lengths)
    if kind is FftType.RFFT and t.dtype in _NO_REAL_INPUTS:
        raise ValueError(f"RFFT input must be float32 or float64, got {dtypes.TO_NUMPY[t.dtype]}")
    if t.dim() < len(lengths):
        raise ValueError(
            f"FFT input shape {tuple(t.shape)} must have at least as many input dimensions as fft_lengths {lengths}."
        )
    real = torch.float64 if t.dtype in (torch.float64, torch.complex128) else torch.float32
    wanted = real if kind is FftType.RFFT else (torch.complex128 if real is torch.float64 else torch.complex64)
    if not lengths:
        return Array(convert(t, wanted), weak and t.dtype is wanted)
    t = convert(t, wanted)
    if kind is FftType.IRFFT:
        expected = (*lengths[:-1], lengths[-1] // 2 + 1)
    else:
        expected = lengths
    if tuple(t.shape[-len(lengths) :]) != expected:
        which = "all except the last fft_length, got fft_lengths=" if kind is FftType.IRFFT else "fft_lengths "
        raise ValueError(f"{kind.name} input shape {tuple(t.shape)} minor dimensions must be equal to {which}{lengths}")
    dims = tuple(range(-len(lengths), 0))
    if not functorch.base_of(t).numel() or 0 in lengths:
        last = lengths[-1] // 2 + 1 if kind is FftType.RFFT else lengths[-1]
        complex_dtype = torch.complex128 if real is torch.float64 else torch.complex64
        dtype = real if kind is FftType.IRFFT else complex_dtype
        return Array(torch.zeros(*t.shape[:-1], last, dtype=dtype, device=t.device))
    return Array(_TRANSFORMS[kind](t, lengths, dims))


def _kind(fft_type: Any) -> FftType:
    if isinstance(fft_type, FftType):
        return fft_type
    if not isinstance(fft_type, str):
        raise TypeError(f"Unknown FFT type value '{fft_type}'")
    if fft_type.upper() not in FftType.__members__:
        raise ValueError(f"Unknown FFT type '{fft_type}'")
    return FftType[fft_type.upper()]


_TRANSFORMS = {
    FftType.FFT: torch.fft.fftn,
    FftType.IFFT: torch.fft.ifftn,
    FftType.RFFT: torch.fft.rfftn,
    FftType.IRFFT: torch.fft.irfftn,
}
