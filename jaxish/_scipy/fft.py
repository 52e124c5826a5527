"""jax.scipy.fft: discrete cosine transforms of the second type and their inverses, by Fourier transforms.

The transform of n points is one Fourier transform of n points: of the elements at even places, then those at odd places
backwards (Makhoul, A fast cosine transform in one and two dimensions, 1980).
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._core.array import Array
from .._core.dimensions import canonical_axes, canonical_axis
from .._core.promotion import convert, tensor
from .._core.symbolic_sizes import index as index_of
from .._core.typing import ArrayLike


def _operand(function: str, x: Any, type: int, norm: str | None) -> Tensor:
    t = tensor(function, x)
    if type != 2:
        raise NotImplementedError("Only DCT type 2 is implemented.")
    if norm not in (None, "backward", "ortho"):
        raise ValueError(f"jax.scipy.fft.{function}: norm={norm!r} is not implemented")
    is_long = t.dtype in (torch.float64, torch.complex128)
    wide = torch.float64 if is_long else torch.float32
    return convert(t, wide.to_complex() if t.is_complex() else wide)


def _resized(t: Tensor, axis: int, size: int) -> Tensor:
    """Return `t` cut or filled with zeros to `size` along `axis`."""
    missing = size - t.shape[axis]
    if missing <= 0:
        return t.narrow(axis, 0, size)
    return torch.nn.functional.pad(t, (0, 0) * (t.dim() - axis - 1) + (0, missing))


def _turn(size: int, t: Tensor, sign: int) -> Tensor:
    """Return exp(sign i pi k / 2 size) for k below `size`."""
    angle = torch.arange(size, dtype=t.dtype, device=t.device) * (sign * math.pi / (2 * size))
    return torch.complex(torch.cos(angle), torch.sin(angle))


def _lengths(size: int, t: Tensor) -> Tensor:
    """Return by what the orthonormal transform divides: the lengths of the cosines, doubled."""
    lengths = torch.full((size,), math.sqrt(2 * size), dtype=t.dtype, device=t.device)
    return torch.where(torch.arange(size, device=t.device) == 0, math.sqrt(4 * size), lengths)


def _forward(t: Tensor, norm: str | None) -> Tensor:
    """Return the transform of real numbers along the last axis."""
    size = t.shape[-1]
    evens_then_odds = torch.cat([t[..., ::2], torch.flip(t[..., 1::2], (-1,))], -1)
    found = 2 * (torch.fft.fft(evens_then_odds) * _turn(size, t, -1)).real
    return found / _lengths(size, t) if norm == "ortho" else found


def _inverse(t: Tensor, norm: str | None) -> Tensor:
    """Return the inverse transform of real numbers along the last axis."""
    size = t.shape[-1]
    if norm == "ortho":
        t = t * _lengths(size, t)
    backwards = torch.cat([torch.zeros_like(t[..., :1]), torch.flip(t[..., 1:], (-1,))], -1)
    spectrum = torch.complex(t, -backwards) * _turn(size, t, 1) / 2
    found = torch.fft.ifft(spectrum).real
    half = (size + 1) // 2
    odds = torch.nn.functional.pad(torch.flip(found[..., half:], (-1,)), (0, half - size // 2))
    return torch.stack([found[..., :half], odds], -1).flatten(-2)[..., :size]


_Transform = Callable[[Tensor, str | None], Tensor]


def _along(transform: _Transform, t: Tensor, axis: int, size: int | None, norm: str | None) -> Tensor:
    if t.is_complex():
        return torch.complex(*(_along(transform, part, axis, size, norm) for part in (t.real, t.imag)))
    t = _resized(t, axis, t.shape[axis] if size is None else size).movedim(axis, -1)
    return transform(t, norm).movedim(-1, axis)


def _one(function: str, transform: _Transform, x: Any, type: int, n: Any, axis: int, norm: str | None) -> Array:
    t = _operand(function, x, type, norm)
    place = canonical_axis(axis, t.dim())
    return Array(_along(transform, t, place, None if n is None else index_of(n), norm))


def _many(function: str, transform: _Transform, x: Any, type: int, s: Any, axes: Any, norm: str | None) -> Array:
    t = _operand(function, x, type, norm)
    sizes = None if s is None else [index_of(n) for n in (s if isinstance(s, Iterable) else [s])]
    if sizes is not None and len(sizes) > t.dim():
        raise ValueError(f"s must have at most x.ndim ({t.dim()}) elements, got {len(sizes)}")
    if axes is None and sizes is not None:
        axes = range(t.dim() - len(sizes), t.dim())
    places = canonical_axes(axes, t.dim())
    for axis, size in zip(places, sizes or [None] * len(places), strict=True):
        t = _along(transform, t, axis, size, norm)
    return Array(t)


def dct(x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the discrete cosine transform along `axis`, of `n` points (cut or filled with zeros).

    `norm` is None or "backward" (twice the sums of products with cosines), or "ortho".
    """
    return _one("dct", _forward, x, type, n, axis, norm)


def dctn(
    x: ArrayLike, type: int = 2, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:  # fmt: skip
    """Return the discrete cosine transform along several axes (None: all, or the last ones of `s`), of sizes `s`."""
    return _many("dctn", _forward, x, type, s, axes, norm)


def idct(x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Invert `dct`."""
    return _one("idct", _inverse, x, type, n, axis, norm)


def idctn(
    x: ArrayLike, type: int = 2, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:  # fmt: skip
    """Invert `dctn`."""
    return _many("idctn", _inverse, x, type, s, axes, norm)
