"""Convolutions of any layout, padding, dilation and grouping, on torch's convolution.

The operands are brought into torch's layout (batch, feature, space...) by views; padding that torch cannot express is
put on beforehand. What torch has no kernel for (integers, more than three spatial dimensions) is a sum of matrix
products over the positions of the window.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._core import dtypes, unsigned
from .._core.array import Array
from .._core.operations import shown_as
from .._core.promotion import convert
from .._core.symbolic_sizes import index as index_of
from .._core.symbolic_sizes import larger
from .._core.torch_modes import in_own_dtypes
from .._core.typing import ArrayLike, DTypeLike
from .._devices.shardings import NamedSharding, PartitionSpec
from . import operands as ops
from .contraction import contract
from .operands import check_same_dtypes
from .precision import PrecisionLike, compute_types
from .shapes import padded


class ConvDimensionNumbers(NamedTuple):
    """Where batch, feature and spatial dimensions stand: of lhs (N, C, ...), of rhs (O, I, ...), of the result."""

    lhs_spec: Sequence[int]
    rhs_spec: Sequence[int]
    out_spec: Sequence[int]


ConvGeneralDilatedDimensionNumbers = None | ConvDimensionNumbers | tuple[str, str, str]
Pads = Sequence[tuple[int, int]]


def conv_dimension_numbers(lhs_shape: Any, rhs_shape: Any, dimension_numbers: Any) -> ConvDimensionNumbers:
    """Return dimension numbers given as three strings such as ("NHWC", "HWIO", "NHWC"), or None, in canonical form."""
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    if len(lhs_shape) != len(rhs_shape):
        raise TypeError(
            f"convolution requires lhs and rhs ndim to be equal, got {len(lhs_shape)} and {len(rhs_shape)}."
        )
    if dimension_numbers is None:
        order = tuple(range(len(lhs_shape)))
        return ConvDimensionNumbers(order, order, order)
    if not isinstance(dimension_numbers, list | tuple):
        raise TypeError(f"convolution dimension_numbers must be tuple/list or None, got {type(dimension_numbers)}.")
    if len(dimension_numbers) != 3:
        raise TypeError(f"convolution dimension_numbers list/tuple must be length 3, got {len(dimension_numbers)}.")
    for i, letters in enumerate(dimension_numbers):
        if not isinstance(letters, str):
            raise TypeError(
                f"convolution dimension_numbers elements must be strings, got {type(letters)} at position {i}."
            )
        if len(letters) != len(lhs_shape):
            raise TypeError(
                f"convolution dimension_numbers[{i}] must have len equal to the ndim of lhs and rhs, got {len(letters)} "
                f"for lhs and rhs shapes {tuple(lhs_shape)} and {tuple(rhs_shape)}."
            )
    return ConvDimensionNumbers(*conv_general_permutations(dimension_numbers))


def conv_general_permutations(dimension_numbers: Any) -> Any:
    """Return the three permutations that bring the layouts named by strings into the order of the default ones."""
    lhs, rhs, out = dimension_numbers
    for i, (letters, (first, second)) in enumerate(
        zip((lhs, rhs, out), (("N", "C"), ("O", "I"), ("N", "C")), strict=True)
    ):
        if len(set(letters)) != len(letters):
            raise TypeError(f"convolution dimension_numbers[{i}] cannot have duplicate characters, got {letters}.")
        if first not in letters or second not in letters:
            raise TypeError(
                f"convolution dimension_numbers[{i}] must contain the characters '{first}' and '{second}', got {letters}."
            )
    space = [c for c in rhs if c not in "OI"]
    if any(set(letters) - {"N", "C"} != set(space) for letters in (lhs, out)):
        raise TypeError(
            "convolution dimension_numbers elements must each have the same set of spatial characters, got "
            f"{dimension_numbers}."
        )
    return (
        (lhs.index("N"), lhs.index("C"), *(lhs.index(c) for c in space)),
        (rhs.index("O"), rhs.index("I"), *(rhs.index(c) for c in space)),
        (out.index("N"), out.index("C"), *(out.index(c) for c in space)),
    )


def padtype_to_pads(in_shape: Any, window_shape: Any, window_strides: Any, padding: Any) -> list[tuple[int, int]]:
    """Return the padding before and after each dimension that 'SAME', 'SAME_LOWER' or 'VALID' stands for."""
    name = padding.upper() if isinstance(padding, str) else getattr(padding, "name", padding)
    if name == "VALID":
        return [(0, 0)] * len(in_shape)
    if name not in ("SAME", "SAME_LOWER"):
        raise RuntimeError(f"Unrecognized padding type: expected 'VALID', 'SAME', or 'SAME_LOWER', got {padding}.")
    pads = []
    for size, window, stride in zip(in_shape, window_shape, window_strides, strict=True):
        out = -(-index_of(size) // index_of(stride))
        total = larger((out - 1) * index_of(stride) + index_of(window) - index_of(size), 0)
        less, more = total // 2, total - total // 2
        pads.append((less, more) if name == "SAME" else (more, less))
    return pads


def dilated_size(size: int, dilation: int) -> int:
    """Return a size with dilation - 1 holes between elements."""
    return size if not size else 1 + dilation * (size - 1)


def conv_shape_tuple(
    lhs_shape: Any, rhs_shape: Any, strides: Any, pads: Any, batch_group_count: int = 1
) -> tuple[int, ...]:
    """Return the shape of a convolution of operands in the default layout."""
    space, window = tuple(lhs_shape[2:]), tuple(rhs_shape[2:])
    if isinstance(pads, str):
        pads = padtype_to_pads(space, window, strides, pads)
    if len(pads) != len(space):
        raise TypeError(f"Wrong number of explicit pads for convolution: expected {len(space)}, got {len(pads)}.")
    sizes = [
        max(0, (n + low + high - k) // s + 1) for n, (low, high), k, s in zip(space, pads, window, strides, strict=True)
    ]
    if batch_group_count > 1:
        assert lhs_shape[0] % batch_group_count == 0
    return (lhs_shape[0] // batch_group_count, rhs_shape[0], *sizes)


def conv_general_shape_tuple(
    lhs_shape: Any, rhs_shape: Any, window_strides: Any, padding: Any, dimension_numbers: Any
) -> Any:
    """Return the shape of a convolution of operands in any layout."""
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    shape = conv_shape_tuple([lhs_shape[d] for d in lhs], [rhs_shape[d] for d in rhs], window_strides, padding)
    return tuple(shape[out.index(d)] for d in range(len(out)))


def conv_transpose_shape_tuple(
    lhs_shape: Any, rhs_shape: Any, window_strides: Any, padding: Any, dimension_numbers: Any
) -> Any:
    """Return the shape of a transposed convolution of operands in any layout."""
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    left, right = [lhs_shape[d] for d in lhs], [rhs_shape[d] for d in rhs]
    if isinstance(padding, str):
        padding = [_transpose_padding(k, s, padding) for k, s in zip(right[2:], window_strides, strict=True)]
    sizes = [
        (n - 1) * s - k + 2 + sum(pad)
        for n, k, s, pad in zip(left[2:], right[2:], window_strides, padding, strict=True)
    ]
    shape = (left[0], right[0], *sizes)
    return tuple(shape[out.index(d)] for d in range(len(out)))


def conv(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Any,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Return the convolution of lhs (batch, feature, space...) with rhs (out, in, window...)."""
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, precision=precision, preferred_element_type=preferred_element_type
    )


def conv_with_general_padding(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Return the convolution of lhs (batch, feature, space...) with rhs (out, in, window...), both dilated."""
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, lhs_dilation=lhs_dilation, rhs_dilation=rhs_dilation, precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return the convolution (cross-correlation, without flipping the window) of lhs with rhs.

    `padding` is 'SAME', 'SAME_LOWER', 'VALID' or a pair (before, after) for each spatial dimension, which may be
    negative. `lhs_dilation` puts holes into lhs (a transposed convolution), `rhs_dilation` into the window. With
    feature groups each group of output features sees its own group of input features; with batch groups each
    group of the batch makes its own group of output features. `TypeError` for dtypes and ranks that differ,
    `ValueError` for sizes that do not fit.
    """
    if out_sharding is not None:
        raise NotImplementedError("conv_general_dilated does not take out_sharding; use lax.with_sharding_constraint.")
    (x, weak_x), (w, weak_w) = ops.operand("conv_general_dilated", lhs), ops.operand("conv_general_dilated", rhs)
    numbers = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    if x.dim() != w.dim():
        raise ValueError(
            "conv_general_dilated lhs and rhs must have the same number of dimensions, but got "
            f"{tuple(x.shape)} and {tuple(w.shape)}."
        )
    rank = x.dim() - 2
    given = (x, w)
    x, w = x.permute(*numbers.lhs_spec), w.permute(*numbers.rhs_spec)
    strides = tuple(map(index_of, window_strides))
    if any(s < 1 for s in strides):
        raise ValueError(f"conv_general_dilated window_strides must be positive, got {strides}.")
    if isinstance(padding, str):
        if lhs_dilation is not None and any(d != 1 for d in lhs_dilation):
            raise ValueError(
                "String padding is not implemented for transposed convolution using this op. Please either exactly "
                "specify the required padding or use conv_transpose."
            )
        if len(strides) != rank:
            raise _count_error("window_strides", rank, strides)
        window = [dilated_size(k, d) for k, d in zip(w.shape[2:], rhs_dilation or (1,) * rank, strict=True)]
        padding = padtype_to_pads(x.shape[2:], window, strides, padding)
    window = Window(
        strides, tuple((index_of(a), index_of(b)) for a, b in padding),
        tuple(map(index_of, lhs_dilation or (1,) * rank)), tuple(map(index_of, rhs_dilation or (1,) * rank)),
        index_of(feature_group_count), index_of(batch_group_count),
    )  # fmt: skip
    _check(x, w, window)
    check_same_dtypes("conv_general_dilated", x, w)
    dtype = x.dtype
    if preferred_element_type is not None:
        dtype = dtypes.to_torch(dtypes.requested_dtype(preferred_element_type, "conv_general_dilated"))
        _check_preferred(x.dtype, dtype)
    preferred = None if preferred_element_type is None else dtypes.TO_NUMPY[dtype]
    return Array(_convolved_in(*given, numbers, window, dtype, precision, preferred), weak_x and weak_w)


def _shown(
    x: Tensor, w: Tensor, numbers: ConvDimensionNumbers, window: "Window", dtype: torch.dtype, *options: Any
) -> dict[str, Any]:
    return {
        "window_strides": window.strides, "padding": window.pads, "lhs_dilation": window.lhs_dilation,
        "rhs_dilation": window.rhs_dilation, "dimension_numbers": numbers, "feature_group_count": window.feature_groups,
        "batch_group_count": window.batch_groups, "precision": options[0], "preferred_element_type": options[1],
        "out_sharding": None,
    }  # fmt: skip


@shown_as("conv_general_dilated", _shown)
def _convolved_in(
    x: Tensor, w: Tensor, numbers: ConvDimensionNumbers, window: "Window", dtype: torch.dtype, precision: Any, _: Any
) -> Tensor:
    x, w = x.permute(*numbers.lhs_spec), w.permute(*numbers.rhs_spec)
    types = compute_types(precision)
    work = _work_dtype(x.dtype, dtype)
    if types is not None and x.dtype.is_floating_point:
        x, w, work = x.to(types[0]), w.to(types[1]), types[2]
    out = convert(convolved(convert(x, work), convert(w, work), window), dtype)
    return out.permute([list(numbers.out_spec).index(d) for d in range(x.dim())])


def _work_dtype(dtype: torch.dtype, wanted: torch.dtype) -> torch.dtype:
    if dtype.is_complex:
        return dtype
    if wanted.is_complex or dtype is torch.bool:
        return wanted if wanted.is_complex else torch.float32
    if dtype.is_floating_point and dtype.itemsize == 1:
        return torch.float32
    wider = wanted.itemsize > dtype.itemsize or (wanted.is_floating_point and not dtype.is_floating_point)
    return wanted if wider else dtype


class Window(NamedTuple):
    """How a window moves over an operand in the default layout."""

    strides: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    feature_groups: int = 1
    batch_groups: int = 1


def _count_error(name: str, expected: int, got: Sequence[int]) -> ValueError:
    return ValueError(
        f"conv_general_dilated window and {name} must have the same number of dimensions, but got {expected} and {len(got)}"
    )


def _check_preferred(given: torch.dtype, wanted: torch.dtype) -> None:
    """Raise `TypeError` unless results of `wanted` can hold sums of products of `given`."""
    text = f"preferred_element_type {dtypes.TO_NUMPY[wanted]} for a convolution of {dtypes.TO_NUMPY[given]}"
    if not (given in ops.INTEGER.dtypes and wanted in ops.FLOATING.dtypes):
        for kind in (ops.INTEGER, ops.FLOATING, ops.COMPLEX):
            if given in kind.dtypes and wanted not in kind.dtypes:
                raise TypeError(
                    f"{text}: integers go to integers or floats, floats to floats, complex numbers to complex ones."
                )
        if given in ops.SIGNED.dtypes and wanted not in ops.SIGNED.dtypes:
            raise TypeError(f"{text} must have the same signedness.")
    if wanted.itemsize < given.itemsize:
        raise TypeError(f"{text} must not be narrower.")


def _check(x: Tensor, w: Tensor, window: Window) -> None:
    rank, name = x.dim() - 2, "conv_general_dilated"
    if len(window.pads) != rank:
        raise TypeError(f"Wrong number of explicit pads for convolution: expected {rank}, got {len(window.pads)}.")
    for argument, values in (
        ("window_strides", window.strides),
        ("lhs_dilation", window.lhs_dilation),
        ("rhs_dilation", window.rhs_dilation),
    ):
        if len(values) != rank:
            raise _count_error(argument, rank, values)
        if any(v < 1 for v in values):
            error = ValueError if argument == "window_strides" else TypeError
            raise error(f"{name} {argument} must be positive, got {values}.")
    for argument, count in (("feature_group_count", window.feature_groups), ("batch_group_count", window.batch_groups)):
        if count < 1:
            raise ValueError(f"{name} {argument} must be a positive integer, got {count}.")
    if window.feature_groups > 1 and window.batch_groups > 1:
        raise ValueError(
            f"At most one of batch_group_count and feature_group_count may be > 1, got {window.batch_groups} and "
            f"{window.feature_groups}."
        )
    if x.shape[1] % window.feature_groups:
        raise ValueError(
            f"{name} feature_group_count must divide lhs feature dimension size, but {window.feature_groups} does not "
            f"divide {x.shape[1]}."
        )
    if x.shape[1] // window.feature_groups != w.shape[1]:
        raise ValueError(
            f"{name} lhs feature dimension size divided by feature_group_count must equal the rhs input feature "
            f"dimension size, but {x.shape[1]} // {window.feature_groups} != {w.shape[1]}."
        )
    for argument, count in (("feature_group_count", window.feature_groups), ("batch_group_count", window.batch_groups)):
        if w.shape[0] % count:
            raise ValueError(
                f"{name} rhs output feature dimension size must be a multiple of {argument}, but {w.shape[0]} is not a "
                f"multiple of {count}."
            )
    if x.shape[0] % window.batch_groups:
        raise ValueError(
            f"{name} batch_group_count must divide lhs batch dimension size, but {window.batch_groups} does not divide "
            f"{x.shape[0]}."
        )
    for n, d, (low, high) in zip(x.shape[2:], window.lhs_dilation, window.pads, strict=True):
        if dilated_size(n, d) + low + high < 0:
            raise ValueError(
                "Negative padding is larger than the size of the corresponding dimension: got "
                f"padding={window.pads} for lhs_shape[2:]={tuple(x.shape[2:])}"
            )


def output_sizes(space: Sequence[int], window_sizes: Sequence[int], window: Window) -> list[int]:
    """Return how many positions the window takes along each spatial dimension."""
    return [
        max(0, (dilated_size(n, ld) + low + high - dilated_size(k, rd)) // s + 1)
        for n, k, s, (low, high), ld, rd in zip(
            space, window_sizes, window.strides, window.pads, window.lhs_dilation, window.rhs_dilation, strict=True
        )
    ]


@in_own_dtypes
def convolved(x: Tensor, w: Tensor, window: Window) -> Tensor:
    """Return the convolution of tensors of one dtype in the default layout."""
    if window.batch_groups > 1:
        # A group of the batch becomes a group of features.
        x = x.unflatten(0, (window.batch_groups, -1)).movedim(0, 1).flatten(1, 2)
        window = window._replace(feature_groups=window.batch_groups, batch_groups=1)
    sizes = output_sizes(x.shape[2:], w.shape[2:], window)
    shape = (x.shape[0], w.shape[0], *sizes)
    if 0 in shape or 0 in x.shape or 0 in w.shape:
        return torch.zeros(shape, dtype=x.dtype, device=x.device)
    inexact = x.dtype.is_floating_point or x.dtype.is_complex
    if not inexact or not 1 <= x.dim() - 2 <= 3:
        return unsigned.via_bits(lambda a, b: _by_positions(a, b, window, sizes), x, w)
    if all(s == 1 for s in window.strides) and any(d > 1 for d in window.lhs_dilation):
        return _transposed(x, w, window)
    if any(d > 1 for d in window.lhs_dilation) or any(a != b or a < 0 for a, b in window.pads):
        x = _spread(x, window)
        window = window._replace(pads=((0, 0),) * len(window.pads))
    return _CONVOLUTIONS[x.dim() - 3](
        x, w, None, window.strides, tuple(a for a, _ in window.pads), window.rhs_dilation, window.feature_groups
    )


_CONVOLUTIONS = (torch.conv1d, torch.conv2d, torch.conv3d)
_TRANSPOSED = (torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d)


def _spread(x: Tensor, window: Window) -> Tensor:
    """Return x with the holes and the padding that the window asks for."""
    config = [(low, high, d - 1) for (low, high), d in zip(window.pads, window.lhs_dilation, strict=True)]
    return padded(x, None, [(0, 0, 0), (0, 0, 0), *config])


def _transposed(x: Tensor, w: Tensor, window: Window) -> Tensor:
    """Return a convolution of stride 1 over an operand with holes, which torch calls transposed."""
    groups, out, inner = window.feature_groups, w.shape[0], w.shape[1]
    w = torch.flip(w, tuple(range(2, w.dim()))).reshape(groups, out // groups, inner, *w.shape[2:])
    w = w.transpose(1, 2).reshape(groups * inner, out // groups, *w.shape[3:])
    # torch's full result has padding reach = dilated window - 1 on both sides; from there, cut or pad.
    reaches = [dilated_size(k, d) - 1 for k, d in zip(w.shape[2:], window.rhs_dilation, strict=True)]
    paddings, kept = [], []
    for reach, (low, high), s, d in zip(reaches, window.pads, window.lhs_dilation, window.rhs_dilation, strict=True):
        padding = min(max(reach - low, 0), reach)
        extra = high - (reach - padding)
        if extra >= max(s, d):  # more than output_padding can give back: cut less
            padding, extra = max(0, min(padding, reach - high)), 0
        paddings.append(padding)
        kept.append(max(extra, 0))
    lengths = [
        (n - 1) * s - 2 * p + reach + e + 1
        for n, s, p, reach, e in zip(x.shape[2:], window.lhs_dilation, paddings, reaches, kept, strict=True)
    ]
    if any(n < 1 for n in lengths):
        paddings, kept = [0] * len(paddings), [0] * len(kept)
    result = _TRANSPOSED[x.dim() - 3](x, w, None, window.lhs_dilation, paddings, kept, groups, window.rhs_dilation)
    rest = [
        (low - (reach - p), high - (reach - p) - e, 0)
        for reach, p, e, (low, high) in zip(reaches, paddings, kept, window.pads, strict=True)
    ]
    return padded(result, None, [(0, 0, 0), (0, 0, 0), *rest])


def _by_positions(x: Tensor, w: Tensor, window: Window, sizes: Sequence[int]) -> Tensor:
    """Return the convolution as a sum, over the positions in the window, of products of matrices."""
    x, groups = _spread(x, window), window.feature_groups
    x = x.unflatten(1, (groups, -1))
    w = w.unflatten(0, (groups, -1))
    total = None
    for place in itertools.product(*map(range, w.shape[3:])):
        spots = tuple(
            slice(p * d, p * d + (n - 1) * s + 1, s)
            for p, d, n, s in zip(place, window.rhs_dilation, sizes, window.strides, strict=True)
        )
        # (group, batch, space..., out)
        term = contract(x[(slice(None),) * 3 + spots], w[(slice(None),) * 3 + place], ((2,), (2,), (1,), (0,)), x.dtype)
        total = term if total is None else total + term
    assert total is not None
    return total.movedim(-1, 1).movedim(2, 0).flatten(1, 2)


def conv_transpose(
    lhs: ArrayLike,
    rhs: ArrayLike,
    strides: Sequence[int],
    padding: Any,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    use_consistent_padding: bool = False,
) -> Array:
    """Return the transposed convolution, which enlarges lhs by `strides`; the default layout is ("NHWC", "HWIO").

    'SAME' and 'VALID' are read as the padding of the convolution that this is the transpose of, pairs as the padding
    of the dilated lhs, unless `use_consistent_padding`. With `transpose_kernel` rhs is that convolution's kernel:
    flipped, its features exchanged.
    """
    x, w = ops.array_of("conv_transpose", lhs), ops.array_of("conv_transpose", rhs, 1)
    if dimension_numbers is None:
        if not 2 <= x.ndim <= 5:
            raise ValueError("No 4+ dimensional dimension_number defaults.")
        space = ("", "H", "HW", "HWD")[x.ndim - 2]
        dimension_numbers = (f"N{space}C", f"{space}IO", f"N{space}C")
    numbers = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    rank = x.ndim - 2
    dilation = tuple(rhs_dilation or (1,) * rank)
    pads = padding
    if use_consistent_padding or padding in ("SAME", "VALID"):
        window = [dilated_size(w.shape[d], r) for d, r in zip(numbers.rhs_spec[2:], dilation, strict=True)]
        each = [padding] * rank if isinstance(padding, str) else padding
        pads = [_transpose_padding(k, s, p) for k, s, p in zip(window, strides, each, strict=True)]
    if transpose_kernel:
        kernel, weak = ops.operand("conv_transpose", w)
        kernel = unsigned.flip(kernel, tuple(numbers.rhs_spec[2:])) if rank else kernel
        w = Array(kernel.transpose(numbers.rhs_spec[0], numbers.rhs_spec[1]), weak)
    return conv_general_dilated(
        x, w, (1,) * rank, pads, strides, dilation, numbers, precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


def _transpose_padding(k: int, s: int, padding: Any) -> tuple[int, int]:
    """Return the padding of the dilated operand for the padding of the forward convolution."""
    if padding == "SAME":
        total = k + s - 2
        before = k - 1 if s > k - 1 else math.ceil(total / 2)
    elif padding == "VALID":
        total = k + s - 2 + max(k - s, 0)
        before = k - 1
    elif isinstance(padding, tuple):
        before, after = (k - p - 1 for p in padding)
        return before, after
    else:
        raise ValueError(f"Invalid padding mode: {padding}")
    return before, total - before
