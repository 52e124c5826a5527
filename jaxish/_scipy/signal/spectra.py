"""Spectra of signals by Fourier transforms of overlapping segments, and the way back."""

import operator
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..._core import dtypes, selection
from ..._core.array import Array, from_numpy, tensor_of
from ..._core.dimensions import broadcast_shape, canonical_axis, static_int
from ..._core.primitive import conjugate
from ..._core.promotion import convert, promote_inexact, tensor
from ..._core.typing import ArrayLike
from ..._numpy.padding import pad
from ..._numpy.quantiles import median
from .trends import detrend as _without_trend

Window = str | tuple[Any, ...] | ArrayLike

# How a signal goes on beyond its ends: arguments of `jnp.pad`.
_BOUNDARIES = {
    "even": {"mode": "reflect"},
    "odd": {"mode": "reflect", "reflect_type": "odd"},
    "constant": {"mode": "edge"},
    "zeros": {"mode": "constant"},
    None: None,
}


class _Segments(NamedTuple):
    """How a signal is cut: windows of `size` samples that overlap, each transformed as `points` samples."""

    window: Tensor
    size: int
    overlap: int
    points: int

    @property
    def step(self) -> int:
        return self.size - self.overlap


def _named_window(window: Any, size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    if window == "hann":  # without the time that importing scipy.signal takes
        values = np.sin(np.linspace(0, np.pi, size, endpoint=False)) ** 2 if size > 1 else np.ones(1)
    else:
        from scipy.signal import get_window

        values = get_window(window, size)
    return from_numpy(np.asarray(values), device).to(dtype)


def _segments(t: Tensor, length: int, window: Window, nperseg: Any, noverlap: Any, nfft: Any) -> _Segments:
    """Return how to cut a signal of this length, of the dtype and on the device of `t`."""
    size = None if nperseg is None else static_int(nperseg, "nperseg of windowed-FFT")
    if size is not None and size < 1:
        raise ValueError("nperseg must be a positive integer")
    if isinstance(window, str | tuple):
        if size is not None and size > length:
            warnings.warn(f"nperseg={size} is greater than input_length={length}, using nperseg={length}", stacklevel=4)
        size = length if size is None else min(size, length)
        values = _named_window(window, size, t.dtype, t.device)
    else:
        values = convert(tensor("windowed-FFT", window, Array(t)), t.dtype)
        if values.dim() != 1:
            raise ValueError("window must be 1-D")
        if length < len(values):
            raise ValueError("window is longer than input signal")
        if size is not None and size != len(values):
            raise ValueError("value specified for nperseg is different from length of window")
        size = len(values)
    overlap = size // 2 if noverlap is None else static_int(noverlap, "noverlap of windowed-FFT")
    points = size if nfft is None else static_int(nfft, "nfft of windowed-FFT")
    return _Segments(values, size, overlap, points)


def _detrending(kind: Any, axis: int) -> Callable[[Tensor], Tensor]:
    if isinstance(kind, str):
        return lambda t: tensor_of(_without_trend(Array(t), type=kind))
    if callable(kind):
        function: Callable[..., Any] = kind
        return lambda t: tensor_of(function(Array(t.movedim(axis, -1)))).movedim(-1, axis)
    if kind:
        raise ValueError(f"Unsupported detrend type: {kind}")
    return lambda t: t


def _spectra(
    x: Any, y: Any, fs: Any, window: Window, nperseg: Any, noverlap: Any, nfft: Any, detrend: Any,
    return_onesided: bool, scaling: str, axis: Any, boundary: str | None, padded: bool, squared: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return frequencies, times and the transforms of the segments of x; or `squared`, their products with those of y.

    The transforms have the frequencies along `axis` and the segments along a new last axis.
    """
    if boundary not in _BOUNDARIES:
        raise ValueError(f"Unknown boundary option '{boundary}', must be one of: {list(_BOUNDARIES)}")
    signals, _ = promote_inexact("spectral_helper", *([x] if y is None else [x, y]))
    signals = [t.float() if t.dtype.itemsize == 2 else t for t in signals]
    first = signals[0]
    axis = canonical_axis(operator.index(axis), first.dim())
    if signals[-1].dim() != first.dim():
        raise ValueError(f"two-arguments must have the same rank ({first.dim()} vs {signals[-1].dim()}).")
    try:
        outer = broadcast_shape(*([n for d, n in enumerate(t.shape) if d != axis] for t in signals))
    except ValueError as error:
        raise ValueError("x and y cannot be broadcast together.") from error
    cut = _segments(first, first.shape[axis], window, nperseg, noverlap, nfft)
    number, real = _complex_and_real(first.dtype)
    if not all(t.numel() for t in signals):
        shape = [*outer[:axis], 0, *outer[axis:]]
        types = real, real, real if squared and y is None else number
        return tuple(first.new_zeros(shape, dtype=dtype) for dtype in types)  # pyright: ignore
    if cut.points < cut.size:
        raise ValueError("nfft must be greater than or equal to nperseg.")
    if cut.overlap >= cut.size:
        raise ValueError("noverlap must be less than nperseg.")
    if return_onesided and first.is_complex():
        warnings.warn("Input data is complex, switching to return_onesided=False", stacklevel=4)
        return_onesided = False
    length = max(t.shape[axis] for t in signals)
    signals = [_extended(t.movedim(axis, -1), length, cut, boundary, padded) for t in signals]
    without_trend = _detrending(detrend, axis)
    transform = torch.fft.rfft if return_onesided else torch.fft.fft
    parts = [
        transform(without_trend(_cut(t, cut.size, cut.step)) * cut.window, cut.points).movedim(-1, axis)
        for t in signals
    ]
    rate = convert(tensor("spectral_helper", fs, Array(first)), real)
    scale = _scale(cut.window, rate, scaling)
    found = conjugate(parts[0]) * parts[-1] * scale if squared else parts[0] * torch.sqrt(scale)
    if return_onesided and squared:
        found = _with_negative_frequencies(found, axis, cut.points)
    if squared and y is None:
        found = found.real
    middle = cut.size / 2
    places = torch.arange(parts[0].shape[-1], dtype=real, device=first.device) * cut.step + middle
    times = places / rate - (0 if boundary is None else middle / rate)
    return _frequencies(cut.points, return_onesided, rate), times, found


def _complex_and_real(dtype: torch.dtype) -> tuple[torch.dtype, torch.dtype]:
    number = dtypes.to_torch(dtypes.to_complex(dtypes.TO_NUMPY[dtype]))
    return number, number.to_real()


def _extended(t: Tensor, length: int, cut: _Segments, boundary: str | None, padded: bool) -> Tensor:
    """Return signals with zeros behind up to `length`, then goes on at both ends, then up to whole segments."""
    t = torch.nn.functional.pad(t, (0, length - t.shape[-1]))
    options: Any = _BOUNDARIES[boundary]
    if options is not None:
        if boundary == "odd" and cut.size // 2 > length - 1:
            raise ValueError(
                f"The extension length n ({cut.size // 2}) is too big. It must not exceed x.shape[axis]-1, which is "
                f"{length - 1}."
            )
        t = tensor_of(pad(Array(t), [(0, 0)] * (t.dim() - 1) + [(cut.size // 2,) * 2], **options))
    if padded:
        t = torch.nn.functional.pad(t, (0, (cut.size - t.shape[-1]) % cut.step % cut.size))
    return t


def _scale(window: Tensor, rate: Tensor, scaling: str) -> Tensor:
    if scaling == "density":
        return 1 / (rate * (window * window).sum())
    if scaling == "spectrum":
        return 1 / torch.square(window.sum())
    raise ValueError(f"Unknown scaling: {scaling}")


def _with_negative_frequencies(t: Tensor, axis: int, points: int) -> Tensor:
    """Return spectra of real signals with the power of each negative frequency at the positive one."""
    size = t.shape[axis]
    count = torch.full((size,), 2, dtype=t.dtype.to_real(), device=t.device)
    place = torch.arange(size, device=t.device)
    alone = (place == 0) | (2 * place == points)
    return t * selection.where(alone, 1.0, count).reshape([size if d == axis else 1 for d in range(t.dim())])


def _frequencies(points: int, onesided: bool, rate: Tensor) -> Tensor:
    place = torch.arange(points // 2 + 1 if onesided else points, dtype=rate.dtype, device=rate.device)
    if not onesided:
        place = selection.where(place > (points - 1) // 2, place - points, place)
    return place * rate / points


def stft(
    x: ArrayLike, fs: ArrayLike = 1.0, window: Window = "hann", nperseg: int = 256, noverlap: int | None = None,
    nfft: int | None = None, detrend: Any = False, return_onesided: bool = True, boundary: str | None = "zeros",
    padded: bool = True, axis: int = -1,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return frequencies, times and the short-time Fourier transform of `x` along `axis`, times last.

    Segments of `nperseg` samples overlap by `noverlap` (default: half) and are multiplied by the window, a name of
    SciPy's or an array. `detrend` is "constant", "linear", a function of the segments or False; `boundary` ("even",
    "odd", "constant", "zeros" or None) says how the signal goes on beyond its ends.
    """
    found = _spectra(
        x,
        None,
        fs,
        window,
        nperseg,
        noverlap,
        nfft,
        detrend,
        return_onesided,
        "spectrum",
        axis,
        boundary,
        padded,
        False,
    )
    return tuple(map(Array, found))  # pyright: ignore


def csd(
    x: ArrayLike, y: ArrayLike | None, fs: ArrayLike = 1.0, window: Window = "hann", nperseg: int | None = None,
    noverlap: int | None = None, nfft: int | None = None, detrend: Any = "constant", return_onesided: bool = True,
    scaling: str = "density", axis: int = -1, average: str = "mean",
) -> tuple[Array, Array]:  # fmt: skip
    """Return frequencies and the cross spectral density of x and y (None: x) along `axis` by Welch's method.

    `scaling` is "density" or "spectrum"; the segments' spectra are averaged by their "mean" or "median". The other
    arguments are those of `stft`.
    """
    frequencies, _, found = _spectra(
        x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, None, False, True
    )
    if found.dim() >= 2 and found.numel():
        found = _averaged(found, average) if found.shape[-1] > 1 else found.squeeze(-1)
    return Array(frequencies), Array(found)


def _averaged(t: Tensor, average: str) -> Tensor:
    if average == "mean":
        return t.mean(-1)
    if average != "median":
        raise ValueError(f'average must be "median" or "mean", got {average}')
    # The median of chi-squared variables of two degrees of freedom is below their mean: the alternating harmonic sum.
    number = np.arange(1, t.shape[-1] + 1 - (t.shape[-1] + 1) % 2)
    bias = ((-1.0) ** (number + 1) / number).sum()
    parts = [t.real, t.imag] if t.is_complex() else [t]
    middles = [tensor_of(median(Array(part), -1)) / bias for part in parts]
    return torch.complex(*middles) if t.is_complex() else middles[0]


def welch(
    x: ArrayLike, fs: ArrayLike = 1.0, window: Window = "hann", nperseg: int | None = None,
    noverlap: int | None = None, nfft: int | None = None, detrend: Any = "constant", return_onesided: bool = True,
    scaling: str = "density", axis: int = -1, average: str = "mean",
) -> tuple[Array, Array]:  # fmt: skip
    """Return frequencies and the power spectral density of x by Welch's method; arguments as in `csd`."""
    return csd(
        x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average
    )  # fmt: skip


def istft(
    Zxx: ArrayLike, fs: ArrayLike = 1.0, window: Window = "hann", nperseg: int | None = None,
    noverlap: int | None = None, nfft: int | None = None, input_onesided: bool = True, boundary: bool = True,
    time_axis: int = -1, freq_axis: int = -2,
) -> tuple[Array, Array]:  # fmt: skip
    """Return times and the signal whose short-time Fourier transform is Zxx, by weighted overlap and addition.

    `boundary` says that the signal was extended at its ends. The other arguments are those given to `stft`.
    """
    t = tensor("istft", Zxx)
    if t.dim() < 2:
        raise ValueError("Input stft must be at least 2d!")
    frequency, time = canonical_axis(freq_axis, t.dim()), canonical_axis(time_axis, t.dim())
    if frequency == time:
        raise ValueError("Must specify differing time and frequency axes!")
    t = convert(t, _complex_and_real(t.dtype)[0]).movedim((frequency, time), (-1, -2))
    default = 2 * (t.shape[-1] - 1) if input_onesided else t.shape[-1]
    size = static_int(nperseg or default, "nperseg: segment length of STFT")
    if size < 1:
        raise ValueError("nperseg must be a positive integer")
    is_odd = input_onesided and size == default + 1
    points = default + is_odd if nfft is None else static_int(nfft, "nfft of STFT")
    if points < size:
        raise ValueError(f"FFT length ({points}) must be longer than nperseg ({size}).")
    overlap = static_int(noverlap or size // 2, "noverlap of STFT")
    if overlap >= size:
        raise ValueError("noverlap must be less than nperseg.")
    back = torch.fft.irfft if input_onesided else torch.fft.ifft
    parts = back(t, nfft)[..., :size]
    if isinstance(window, str | tuple):
        values = _named_window(window, size, parts.dtype, t.device)
    else:
        values = tensor("istft", window, Array(t))
        if values.dim() != 1:
            raise ValueError("window must be 1-D")
        if len(values) != size:
            raise ValueError(f"window must have length of {size}")
    if parts.shape[-1] != size:
        raise TypeError(f"segments of {parts.shape[-1]} samples do not take a window of {size}")
    weights = (values * values).expand(parts.shape[-2], size)
    found = _added(parts * values.sum() * values, size - overlap)
    norm = _added(weights, size - overlap)
    if boundary:
        found, norm = (s[..., size // 2 : s.shape[-1] - size // 2] for s in (found, norm))
    found = found / selection.where(norm.real > 1e-10, norm, 1.0)
    if found.dim() > 1:
        found = found.movedim(-1, time - (frequency < time))
    rate = tensor("istft", fs, Array(t))
    times = torch.arange(found.shape[0], dtype=found.dtype.to_real(), device=t.device) / rate
    return Array(times), Array(found)


def _places(count: int, size: int, step: int, device: torch.device) -> Tensor:
    """Return where the samples of segments are in the signal, segment after segment."""
    starts = torch.arange(count, device=device) * step
    return (starts[:, None] + torch.arange(size, device=device)).reshape(-1)


def _cut(t: Tensor, size: int, step: int) -> Tensor:
    """Return segments [..., segment, sample] of signals. (Going back through `Tensor.unfold` has no batching rule.)"""
    count = (t.shape[-1] - size) // step + 1
    return t.index_select(-1, _places(count, size, step, t.device)).unflatten(-1, (count, size))


def _added(parts: Tensor, step: int) -> Tensor:
    """Return segments [..., segment, sample], each `step` after the one before, added up."""
    count, size = parts.shape[-2:]
    out = parts.new_zeros([*parts.shape[:-2], (count - 1) * step + size])
    return out.index_add(-1, _places(count, size, step, parts.device), parts.flatten(-2))
