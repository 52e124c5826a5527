"""jax.image: images in other sizes, scaled and moved, by resampling along one dimension after another.

A new pixel is a weighted sum of old ones. A method is the weight of an old pixel by its distance from where the new
one's centre falls; `_weights` makes a matrix of them for a dimension.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ._core import unsigned
from ._core.array import Array, as_array, check_arraylike, scalar_tensor
from ._core.dimensions import canonical_axis, canonical_shape
from ._core.extended import moves_elements
from ._core.promotion import promote_inexact, tensor
from ._core.typing import ArrayLike
from ._lax.contraction import contract
from ._lax.precision import Precision, PrecisionLike, compute_types
from ._numpy.arguments import float_dtype
from ._transforms.repeated import compiled_when_repeated


class ResizeMethod(enum.Enum):
    """How `resize` and `scale_and_translate` find a pixel between others.

    NEAREST takes the nearest pixel, LINEAR interpolates linearly, CUBIC by Keys' cubic kernel, LANCZOS3 and LANCZOS5
    by Lanczos kernels of radius 3 and 5. CUBIC_PYTORCH is what torch computes: without antialiasing, another cubic
    kernel, with the pixels at the edge repeated. AREA is the mean over the area of the new pixel.
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> "ResizeMethod":
        """Return the method of a name, such as "bilinear"; raise `ValueError` if there is none."""
        if s not in _NAMES:
            raise ValueError(f'Unknown resize method "{s}"; there are {", ".join(_NAMES)}.')
        return _NAMES[s]


_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    "linear": ResizeMethod.LINEAR,
    "bilinear": ResizeMethod.LINEAR,
    "trilinear": ResizeMethod.LINEAR,
    "triangle": ResizeMethod.LINEAR,
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    "cubic": ResizeMethod.CUBIC,
    "bicubic": ResizeMethod.CUBIC,
    "tricubic": ResizeMethod.CUBIC,
    "cubic-pytorch": ResizeMethod.CUBIC_PYTORCH,
    "bicubic-pytorch": ResizeMethod.CUBIC_PYTORCH,
    "area": ResizeMethod.AREA,
}


@compiled_when_repeated
def resize(
    image: ArrayLike, shape: Sequence[int], method: str | ResizeMethod, antialias: bool = True,
    precision: PrecisionLike = Precision.HIGHEST,
) -> Array:  # fmt: skip
    """Return `image` resampled to `shape`, which has a size for each dimension, those of batches and channels too.

    With `antialias`, kernels are widened where a dimension gets smaller. The result is floating, but for the nearest
    pixels, which keep their dtype. `precision` is that of the matrix products. Raises `ValueError` for a shape of
    another rank and an unknown method.
    """
    image, sizes, method = _checked("resize", image, shape, method)
    if method is ResizeMethod.NEAREST:
        return _nearest(image, sizes)
    (x,), weak = promote_inexact("resize", image)
    weights = {}
    for axis, (old, new) in enumerate(zip(x.shape, sizes, strict=True)):
        if old != new:
            step = scalar_tensor(1 / (new / old) if new else 1.0, float_dtype(), x.device)
            weights[axis] = _weights(method, antialias, old, new, step, torch.zeros_like(step))
    return _resampled(x, weak, weights, precision)


def scale_and_translate(
    image: ArrayLike, shape: Sequence[int], spatial_dims: Sequence[int], scale: ArrayLike, translation: ArrayLike,
    method: str | ResizeMethod, antialias: bool = True, precision: PrecisionLike = Precision.HIGHEST,
) -> Array:  # fmt: skip
    """Return `image` with what is at x along `spatial_dims[i]` brought to `x * scale[i] + translation[i]`.

    Centres of pixels are at halves. Pixels that come from outside of the image are zero. The result has the sizes
    that `shape` gives for `spatial_dims`, and the image's for the others. It has derivatives in the image, `scale` and
    `translation`. `antialias` and `precision` are those of `resize`. Raises `ValueError` for a shape of another rank,
    and for a method that is unknown or NEAREST.
    """
    image, sizes, method = _checked("scale_and_translate", image, shape, method)
    if method is ResizeMethod.NEAREST:
        raise ValueError("scale_and_translate does not support nearest neighbours; use resize.")
    axes = [canonical_axis(d, image.ndim) for d in spatial_dims]
    check_arraylike("scale_and_translate", image, scale, translation)
    (scales, shifts), _ = promote_inexact("scale_and_translate", scale, translation)
    for name, found in (("scale", scales), ("translation", shifts)):
        if not found.dim():
            raise TypeError(f"scale_and_translate: {name} must have an element for each of spatial_dims, got a scalar.")
        assert tuple(found.shape) == (len(axes),), f"{name} has shape {tuple(found.shape)} for {len(axes)} spatial_dims"
    if len(set(axes)) < len(axes):
        raise ValueError(f"duplicate value in 'spatial_dims': {tuple(axes)}")
    (x,), weak = promote_inexact("scale_and_translate", image)
    weights = {}
    for axis, factor, shift in zip(axes, scales.unbind(), shifts.unbind(), strict=True):
        step = 1 / factor
        weights[axis] = _weights(method, antialias, x.shape[axis], sizes[axis], step, shift * step)
    return _resampled(x, weak, weights, precision)


def _checked(
    function: str, image: ArrayLike, shape: Sequence[int], method: str | ResizeMethod
) -> tuple[Array, tuple[int, ...], ResizeMethod]:
    check_arraylike(function, image)
    array, sizes = as_array(image), canonical_shape(shape)
    if len(sizes) != array.ndim:
        raise ValueError(
            f"{function}: shape must have length equal to the number of dimensions of image; {sizes} vs {array.shape}"
        )
    found = ResizeMethod.from_string(method) if isinstance(method, str) else method
    assert isinstance(found, ResizeMethod), f"method must be a string or a ResizeMethod, got {method!r}"
    return array, sizes, found


@moves_elements(0)
def _nearest(image: Array, sizes: tuple[int, ...]) -> Array:
    x = tensor("resize", image)
    for axis, (old, new) in enumerate(zip(x.shape, sizes, strict=True)):
        if old == new:
            continue
        if not old:
            raise TypeError(f"resize: dimension {axis} has no pixels to take")
        step = float(np.float32(old) * (1 / np.float32(max(new, 1))))  # rounded twice, as by XLA: decides ties
        centres = (torch.arange(new, dtype=torch.float32, device=x.device) + 0.5) * step
        source = centres.floor().to(torch.int32).clamp(max=old - 1)  # beyond 2**23 pixels centres are rounded up
        x = unsigned.via_bits(partial(torch.index_select, dim=axis, index=source), x)
    return Array(x, image.weak_type)


def _resampled(x: Tensor, weak: bool, weights: Mapping[int, Tensor], precision: PrecisionLike) -> Array:
    """Return the products of `x` and the matrices (old size, new size) of some axes, shrinking first."""
    types = compute_types(precision)
    for axis in sorted(weights, key=lambda axis: weights[axis].shape[1] / max(weights[axis].shape[0], 1)):
        matrix = weights[axis].to(x.dtype)
        x = contract(matrix, x, ((0,), (axis,), (), ()), x.dtype, types).movedim(0, axis)
    return Array(x, weak and not weights)


# ------------------------------------------------------------------------------------------------------------- weights

_LEAST_TOTAL = 1000 * torch.finfo(torch.float32).eps  # of the weights of a new pixel, below which it is zero


def _weights(method: ResizeMethod, antialias: bool, old: int, new: int, step: Tensor, shift: Tensor) -> Tensor:
    """Return the weights (old, new) of the old pixels of a row in the new ones, `step` old pixels apart."""
    start = torch.arange(new, dtype=step.dtype, device=step.device) * step - shift
    centre = (torch.arange(new, dtype=step.dtype, device=step.device) + 0.5) * step - shift - 0.5
    counted = (centre >= -0.5) & (centre <= old - 0.5)
    pixels = torch.arange(old, dtype=step.dtype, device=step.device).unsqueeze(1)
    if method is ResizeMethod.AREA:
        weights = _positive(torch.minimum(start + step, pixels + 1) - torch.maximum(start, pixels))
    elif method is ResizeMethod.CUBIC_PYTORCH and not antialias:
        weights, counted = _with_repeated_edges(old, centre), torch.ones_like(counted)
    else:
        width = torch.maximum(step, torch.ones_like(step)) if antialias else 1
        weights = _KERNELS[method]((centre - pixels).abs() / width)
    total = weights.sum(0)
    counted = counted & (total.abs() > _LEAST_TOTAL)
    return torch.where(counted, weights / torch.where(counted, total, 1), 0)


def _with_repeated_edges(old: int, centre: Tensor) -> Tensor:
    pixels = torch.arange(-2, old + 2, device=centre.device)
    weights = _cubic(-0.75, (centre - pixels.to(centre.dtype).unsqueeze(1)).abs())
    return weights.new_zeros(old, len(centre)).index_add(0, pixels.clamp(0, old - 1), weights)


def _positive(x: Tensor) -> Tensor:
    return torch.maximum(x, torch.zeros_like(x))  # clamp has another slope at zero, which JAX has not


def _triangle(distance: Tensor) -> Tensor:
    return _positive(1 - distance)


def _cubic(slope: float, x: Tensor) -> Tensor:
    """Return Keys' kernel: cubic pieces up to 1 and 2, with this slope where they meet."""
    near = ((slope + 2) * x - (slope + 3)) * x * x + 1
    far = slope * (((x - 5) * x + 8) * x - 4)
    return torch.where(x < 1, near, torch.where(x < 2, far, 0))


def _lanczos(radius: int, x: Tensor) -> Tensor:
    apart = x > 1e-3  # closer, sin loses its digits in float32
    safe = torch.where(apart, x, 1)
    return torch.where(x > radius, 0, torch.where(apart, torch.sinc(safe) * torch.sinc(safe / radius), 1))


_KERNELS: Mapping[ResizeMethod, Callable[[Tensor], Any]] = {
    ResizeMethod.LINEAR: _triangle,
    ResizeMethod.CUBIC: partial(_cubic, -0.5),
    ResizeMethod.CUBIC_PYTORCH: partial(_cubic, -0.5),
    ResizeMethod.LANCZOS3: partial(_lanczos, 3),
    ResizeMethod.LANCZOS5: partial(_lanczos, 5),
}
