"""Windows of a convolution as features, and convolutions whose kernel differs from place to place."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from .._core.array import Array, tensor_of
from .._core.typing import ArrayLike
from . import operands as ops
from .contraction import contract
from .convolution import conv_dimension_numbers, conv_general_dilated
from .precision import PrecisionLike


def conv_general_dilated_patches(
    lhs: ArrayLike,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Array:
    """Return, at each window position, the elements under the window as features: channel by channel, row-major."""
    t, weak = ops.operand("conv_general_dilated_patches", lhs)
    window = tuple(filter_shape)
    numbers = conv_dimension_numbers(t.shape, (1,) * t.dim(), dimension_numbers)
    channels, size = t.shape[numbers.lhs_spec[1]], math.prod(window)
    # A kernel of unit vectors copies each element of the window into a feature of its own.
    units = torch.eye(size, dtype=torch.int32, device=t.device).to(t.dtype).reshape(size, 1, *window)
    units = units.repeat(channels, *(1,) * (len(window) + 1))
    kernel = units.permute([list(numbers.rhs_spec).index(d) for d in range(t.dim())])
    return conv_general_dilated(
        Array(t, weak), Array(kernel), window_strides, padding, lhs_dilation, rhs_dilation, numbers,
        feature_group_count=channels, precision=precision, preferred_element_type=preferred_element_type,
    )  # fmt: skip


def conv_general_dilated_local(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Any,
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: PrecisionLike = None,
) -> Array:
    """Return a convolution with a kernel of its own at each position.

    rhs has the out features, the channels times the window's size, and the positions as its dimensions, in the order
    of `dimension_numbers`.
    """
    x, w = ops.array_of("conv_general_dilated_local", lhs), ops.array_of("conv_general_dilated_local", rhs, 1)
    numbers = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    patches = conv_general_dilated_patches(
        x, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation,
        numbers._replace(out_spec=numbers.lhs_spec), precision,
    )  # fmt: skip
    p, kernel = tensor_of(patches), tensor_of(w)
    _, channel, *space = numbers.lhs_spec
    _, inner, *positions = numbers.rhs_spec
    # The result's dimensions are (positions..., batch, out).
    out = contract(p, kernel, ((channel,), (inner,), tuple(space), tuple(positions)), p.dtype)
    rank = len(space)
    source = {numbers.out_spec[0]: rank, numbers.out_spec[1]: rank + 1}
    source.update({d: i for i, d in enumerate(numbers.out_spec[2:])})
    return Array(out.permute([source[d] for d in range(rank + 2)]), patches._weak and w._weak)
