"""Convolutions and correlations of arrays with the same number of dimensions, directly and by Fourier transforms."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch

from ..._core.array import Array, tensor_of
from ..._core.dimensions import canonical_axis, each_of
from ..._core.promotion import promote_inexact
from ..._core.typing import ArrayLike
from ..._lax.convolution import conv_general_dilated
from ..._lax.precision import PrecisionLike
from ..._numpy.manipulation import flip, shape
from ..._numpy.parts import conjugate

_MODES = ("full", "same", "valid")
_SHORT = 16  # numbers, of which every transform is fast


def _starts(full: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """Return where the middle `wanted` elements of `full` ones begin, along each axis."""
    return [(n - m) // 2 for n, m in zip(full, wanted, strict=True)]


def _is_within(x: Sequence[int], y: Sequence[int]) -> bool:
    return all(m <= n for m, n in zip(x, y, strict=True))


def _direct(in1: Any, in2: Any, mode: str, precision: PrecisionLike) -> Array:
    if mode not in _MODES:
        raise ValueError("mode must be one of ['full', 'same', 'valid']")
    first, second = shape(in1), shape(in2)
    if len(first) != len(second):
        raise ValueError("in1 and in2 must have the same number of dimensions")
    if not math.prod(first) or not math.prod(second):
        raise ValueError(f"zero-size arrays not supported in convolutions, got shapes {first} and {second}.")
    (x, window), weak = promote_inexact("convolve", in1, in2)
    if _is_within(first, second):
        x, window = window, x
    elif not _is_within(second, first):
        raise ValueError("One input must be smaller than the other in every dimension.")
    full = [m + n - 1 for m, n in zip(first, second, strict=True)]
    sizes = {
        "full": full, "same": first, "valid": [m - n + 1 for m, n in zip(x.shape, window.shape, strict=True)]
    }[mode]  # fmt: skip
    # Before the first element of the full result, the window overlaps with one element.
    before = [n - 1 - start for n, start in zip(window.shape, _starts(full, sizes), strict=True)]
    padding = [
        (low, size + n - 1 - m - low)
        for low, size, m, n in zip(before, sizes, x.shape, window.shape, strict=True)
    ]  # fmt: skip
    turned = torch.flip(window, tuple(range(window.dim())))
    found = conv_general_dilated(
        Array(x[None, None], weak), Array(turned[None, None], weak), [1] * x.dim(), padding, precision=precision
    )
    return Array(tensor_of(found)[0, 0], weak)


def fftconvolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: Sequence[int] | None = None) -> Array:
    """Return the convolution by Fourier transforms, along `axes` (None: all); along the others pairwise.

    `mode` is "full", "same" (the middle part, as large as in1) or "valid" (whole overlaps only).
    """
    (x, y), weak = promote_inexact("fftconvolve", in1, in2)
    if x.dim() != y.dim():
        raise ValueError("in1 and in2 should have the same dimensionality")
    if mode not in _MODES:
        raise ValueError("mode must be one of ['same', 'full', 'valid']")
    dims = sorted({canonical_axis(d, x.dim()) for d in (range(x.dim()) if axes is None else each_of(axes))})
    if any(m != n for d, (m, n) in enumerate(zip(x.shape, y.shape, strict=True)) if d not in dims):
        raise ValueError(
            f"mapped axes must have same shape; got in1.shape={tuple(x.shape)} in2.shape={tuple(y.shape)} axes={axes}"
        )
    first, second = [x.shape[d] for d in dims], [y.shape[d] for d in dims]
    if mode == "valid" and not _is_within(second, first):
        if not _is_within(first, second):
            raise ValueError(
                "For 'valid' mode, One input must be at least as large as the other in every dimension."
            )  # fmt: skip
        first, second = second, first
    full = [m + n - 1 for m, n in zip(first, second, strict=True)]
    sizes = {"full": full, "same": first, "valid": [m - n + 1 for m, n in zip(first, second, strict=True)]}[mode]
    if any(size > n for size, n in zip(sizes, full, strict=True)):
        raise TypeError(f"There is no valid part of shapes {tuple(x.shape)} and {tuple(y.shape)}.")
    if all(1 in pair for pair in zip(first, second, strict=True)):
        found = x * y
    else:
        weak = False
        x, y = (t.float() if t.dtype.itemsize == 2 else t for t in (x, y))
        forward, back = (torch.fft.fftn, torch.fft.ifftn) if x.is_complex() else (torch.fft.rfftn, torch.fft.irfftn)
        padded = [_fast_size(n) for n in full]
        found = back(forward(x, padded, dims) * forward(y, padded, dims), padded, dims)
    for d, start, size in zip(dims, _starts(full, sizes), sizes, strict=True):
        found = found.narrow(d, start, size)
    return Array(found, weak)


def _fast_size(size: int) -> int:
    """Return a size from this one on of which transforms are fast: of 16,511 = 11 x 19 x 79 they take ten times as long."""
    if size <= _SHORT:
        return size
    return next(n for n in itertools.count(-(-size // 4) * 4, 4) if _has_small_factors(n))


def _has_small_factors(n: int) -> bool:
    """Tell whether a number has no prime factors over 7."""
    for prime in (2, 3, 5, 7):
        while n % prime == 0:
            n //= prime
    return n == 1


def convolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto", precision: PrecisionLike = None
) -> Array:
    """Return the convolution of two arrays, one of which is nowhere larger than the other.

    `mode` is "full", "same" (the middle part, as large as in1) or "valid" (whole overlaps only); `method` is "direct"
    ("auto") or "fft".
    """
    if method in ("direct", "auto"):
        return _direct(in1, in2, mode, precision)
    if method == "fft":
        return fftconvolve(in1, in2, mode)
    raise ValueError(f"Got {method=}; expected 'auto', 'fft', or 'direct'.")


def correlate(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto", precision: PrecisionLike = None
) -> Array:
    """Return the cross-correlation: the convolution of in1 with in2 conjugated and reversed."""
    return convolve(in1, flip(conjugate(in2)), mode, method, precision)


def _check_2d(function: str, in1: Any, in2: Any, boundary: str, fillvalue: float) -> None:
    if boundary != "fill" or fillvalue != 0:
        raise NotImplementedError(f"{function}() only supports boundary='fill', fillvalue=0")
    if len(shape(in1)) != 2 or len(shape(in2)) != 2:
        raise ValueError(f"{function}() only supports 2-dimensional inputs.")


def convolve2d(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", boundary: str = "fill", fillvalue: float = 0,
    precision: PrecisionLike = None,
) -> Array:  # fmt: skip
    """Return the convolution of two matrices, with zeros around them; `mode` as in `convolve`."""
    _check_2d("convolve2d", in1, in2, boundary, fillvalue)
    return _direct(in1, in2, mode, precision)


def correlate2d(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", boundary: str = "fill", fillvalue: float = 0,
    precision: PrecisionLike = None,
) -> Array:  # fmt: skip
    """Return the cross-correlation of two matrices, with zeros around them; `mode` as in `convolve`.

    Like SciPy's, the valid part is conjugated when in1 is the smaller one.
    """
    _check_2d("correlate2d", in1, in2, boundary, fillvalue)
    found = flip(_direct(flip(in1), conjugate(in2), mode, precision))
    smaller = _is_within(shape(in1), shape(in2)) and shape(in1) != shape(in2)
    return conjugate(found) if mode == "valid" and smaller else found
