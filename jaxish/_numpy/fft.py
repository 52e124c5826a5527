"""jax.numpy.fft: discrete Fourier transforms, by torch.fft."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._core import dtypes, functorch
from .._core.array import Array, check_arraylike
from .._core.dimensions import canonical_axes, canonical_axis, static_int
from .._core.promotion import convert, promote_inexact, tensor
from .._core.symbolic_sizes import index as index_of
from .._core.typing import ArrayLike, DTypeLike, Shape
from .arguments import Axis, dtype_or, float_dtype, placed, torch_device
from .manipulation import reshape, roll, shape

_NORMS = {None: "backward", "backward": "backward", "ortho": "ortho", "forward": "forward"}


def _operand(function: str, a: Any) -> Tensor:
    check_arraylike(f"jnp.fft.{function}", a)
    (t,), _ = promote_inexact(function, a)
    return t


def _wide(function: str, t: Tensor, real: bool) -> Tensor:
    if real and t.is_complex():
        raise ValueError(f"only real valued inputs supported for {function}; got {dtypes.TO_NUMPY[t.dtype]}")
    if t.dtype.itemsize > 2 or t.is_complex():
        return t
    if real:
        raise ValueError(
            f"{function} takes float32 or float64, and got {dtypes.TO_NUMPY[t.dtype]}. Convert it by astype."
        )
    return t.to(torch.float32)


def _norm(function: str, norm: str | None) -> str:
    if not isinstance(norm, str | None) or norm not in _NORMS:
        raise ValueError(f'jax.numpy.fft.{function} only supports norm ["backward", "ortho", "forward"], got {norm}')
    return _NORMS[norm]


def _one(
    function: str, transform: Callable[..., Tensor], a: Any, n: int | None, axis: Any, norm: str | None, real: bool
) -> Array:
    t = _operand(function, a)
    if isinstance(axis, tuple | list):
        raise ValueError(
            f"jax.numpy.fft.{function} does not support multiple axes. Please use jax.numpy.fft.{function}n."
        )
    if axis is None:
        raise ValueError(f"jax.numpy.fft.{function} does not support axis=None.")
    if n is not None and index_of(n) < 1:
        raise ValueError(f"Shape should be positive, got {[n]}.")
    (place,) = canonical_axes(axis, t.dim(), error=IndexError if "hfft" in function else ValueError)
    t = _wide(function, t, real)
    return Array(_transformed(transform, t, n, place, _norm(function, norm)))


def _transformed(transform: Callable[..., Tensor], t: Tensor, sizes: Any, axes: Any, norm: str) -> Tensor:
    if functorch.base_of(t).numel():
        return transform(t, sizes, axes, norm)
    # MKL refuses a batch of none: what the transform of a batch of two would be, without its elements.
    with torch.device("meta"):
        like = transform(torch.empty([n or 2 for n in t.shape], dtype=t.dtype, device="meta"), sizes, axes, norm)
    changed = {d % t.dim() for d in ([axes] if isinstance(axes, int) else axes)}
    shape = [n if d in changed and (t.shape[d] or sizes) else t.shape[d] for d, n in enumerate(like.shape)]
    return t.new_zeros(shape, dtype=like.dtype)


def _many(
    function: str,
    transform: Callable[..., Tensor],
    a: Any,
    s: Any,
    axes: Any,
    norm: str | None,
    real: bool,
    rank: int | None,
) -> Array:
    t = _operand(function, a)
    if rank is not None and (axes is None or len(axes) != rank):
        raise ValueError(f"jax.numpy.fft.{function} only supports {rank} axes. Got axes = {axes!r}.")
    if s is not None and any(static_int(n, "s") < 1 for n in s):
        raise ValueError(f"Shape should be positive, got {list(s)}.")
    if s is not None and axes is not None and len(tuple(s)) != len(tuple(axes)):
        raise ValueError(f"Shape and axes must have the same length; got s={s}, axes={axes}.")
    if axes is not None:
        places = tuple(canonical_axis(d, t.dim()) for d in axes)
        if len(set(places)) < len(places):
            raise ValueError(f"jax.numpy.fft.{function} does not support repeated axes. Got axes {list(axes)}.")
    else:
        count = t.dim() if s is None else len(tuple(s))
        if count > t.dim():
            raise ValueError(
                f"jax.numpy.fft.{function} has more sizes, {s}, than its operand of shape {tuple(t.shape)} has axes."
            )
        places = tuple(range(t.dim() - count, t.dim()))
    kind = _norm(function, norm)
    if not places and not (real and t.is_complex()):
        return Array(t if real else t.to(dtypes.TO_TORCH[dtypes.to_complex(dtypes.TO_NUMPY[t.dtype])]))
    t = _wide(function, t, real)
    halved = transform in (torch.fft.rfftn, torch.fft.irfftn)
    # Axes may come in any order, but for the one that is halved: torch 2.9 gets the strides of a traced result wrong if they descend.
    count = len(places) - halved
    order = [*sorted(range(count), key=places.__getitem__), *range(count, len(places))]
    sizes = None if s is None else tuple(tuple(s)[i] for i in order)
    return Array(_transformed(transform, t, sizes, tuple(places[i] for i in order), kind))


def fft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the Fourier transform along `axis`, of `n` points (cut or filled with zeros).

    `norm` scales: "backward" (None) nothing, "ortho" by 1/sqrt(n), "forward" by 1/n.
    """
    return _one("fft", torch.fft.fft, a, n, axis, norm, False)


def ifft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the inverse Fourier transform along `axis`; arguments as in `fft`."""
    return _one("ifft", torch.fft.ifft, a, n, axis, norm, False)


def rfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the nonnegative frequencies of the transform of real numbers; arguments as in `fft`."""
    return _one("rfft", torch.fft.rfft, a, n, axis, norm, True)


def irfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Invert `rfft` to `n` real numbers (default: an even number)."""
    return _one("irfft", torch.fft.irfft, a, n, axis, norm, False)


def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the real transform of a Hermitian-symmetric signal given by its first half."""
    return _one("hfft", torch.fft.hfft, a, n, axis, norm, False)


def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Invert `hfft`."""
    return _one("ihfft", torch.fft.ihfft, a, n, axis, norm, True)


def fftn(a: ArrayLike, s: Shape | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Array:
    """Return the Fourier transform along several axes (None: all, or the last ones of `s`), of sizes `s`."""
    return _many("fftn", torch.fft.fftn, a, s, axes, norm, False, None)


def ifftn(a: ArrayLike, s: Shape | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Array:
    """Invert `fftn`."""
    return _many("ifftn", torch.fft.ifftn, a, s, axes, norm, False, None)


def rfftn(a: ArrayLike, s: Shape | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Array:
    """Return the transform of real numbers along several axes, nonnegative frequencies only along the last one."""
    return _many("rfftn", torch.fft.rfftn, a, s, axes, norm, True, None)


def irfftn(a: ArrayLike, s: Shape | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Array:
    """Invert `rfftn`."""
    return _many("irfftn", torch.fft.irfftn, a, s, axes, norm, False, None)


def fft2(a: ArrayLike, s: Shape | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Array:
    """Return the Fourier transform along two axes."""
    return _many("fft2", torch.fft.fftn, a, s, axes, norm, False, 2)


def ifft2(a: ArrayLike, s: Shape | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Array:
    """Invert `fft2`."""
    return _many("ifft2", torch.fft.ifftn, a, s, axes, norm, False, 2)


def rfft2(a: ArrayLike, s: Shape | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Array:
    """Return the transform of real numbers along two axes."""
    return _many("rfft2", torch.fft.rfftn, a, s, axes, norm, True, 2)


def irfft2(a: ArrayLike, s: Shape | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Array:
    """Invert `rfft2`."""
    return _many("irfft2", torch.fft.irfftn, a, s, axes, norm, False, 2)


def _frequencies(function: str, n: int, d: Any, dtype: DTypeLike | None, device: Any, count: range) -> Array:
    if isinstance(n, tuple | list):
        raise ValueError(f"The n argument of jax.numpy.fft.{function} only takes an int. Got n = {list(n)}.")
    if isinstance(d, tuple | list):
        raise ValueError(f"The d argument of jax.numpy.fft.{function} only takes a single value. Got d = {list(d)}.")
    target = float_dtype() if dtype is None else dtype_or(dtype, function, float)
    place = torch_device(device)
    steps = torch.arange(count.start, count.stop, device=place).to(target)
    return Array(steps / (convert(tensor(function, d), target) * n))


def fftfreq(n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: Any = None) -> Array:
    """Return the frequencies of `fft` of `n` points with spacing `d`: positive ones first."""
    count = static_int(n, "n argument of jax.numpy.fft.fftfreq") if not isinstance(n, tuple | list) else 1
    half = (count - 1) // 2 + 1
    found = _frequencies("fftfreq", n, d, dtype, device, range(-(count // 2), half))._tensor
    return placed(Array(torch.roll(found, half, 0)), device)


def rfftfreq(n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: Any = None) -> Array:
    """Return the frequencies of `rfft` of `n` points with spacing `d`."""
    count = static_int(n, "n argument of jax.numpy.fft.rfftfreq") if not isinstance(n, tuple | list) else 1
    return placed(_frequencies("rfftfreq", n, d, dtype, device, range(0, count // 2 + 1)), device)


def _shifted(function: str, x: Any, axes: Axis, sign: int) -> Array:
    check_arraylike(function, x)
    sizes = shape(x)
    places = canonical_axes(axes, len(sizes), error=IndexError)
    shifts = tuple(sizes[d] // 2 if sign > 0 else -(sizes[d] // 2) for d in places)
    return roll(x, shifts, places) if places else reshape(x, sizes)


def fftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """Return `x` with the zero frequency moved to the middle of `axes` (None: of all)."""
    return _shifted("fftshift", x, axes, 1)  # pyright: ignore


def ifftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """Invert `fftshift`."""
    return _shifted("ifftshift", x, axes, -1)  # pyright: ignore
