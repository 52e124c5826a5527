"""Covariance, counts and histograms."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from .._core import dtypes, errors
from .._core.array import Array, as_array, check_arraylike, tensor_of
from .._core.dimensions import canonical_shape, static_int
from .._core.primitive import conjugate
from .._core.promotion import convert, promote_inexact, tensor
from .._core.torch_modes import in_own_dtypes
from .._core.typing import ArrayLike, DTypeLike
from .._devices.shardings import NamedSharding, PartitionSpec
from .._lax.out_sharding import laid_over
from .._tensors.elements import GatherScatterMode, put_elements
from .._transforms.repeated import compiled_when_repeated
from .._transforms.shown_calls import shown_as_jit
from .arguments import concrete_values, int_dtype
from .creation import asarray
from .ranges import linspace
from .reductions import max as array_max
from .reductions import min as array_min
from .searching import places_in
from .ufuncs import clip


@shown_as_jit("rowvar", "bias", "ddof", "dtype")
@compiled_when_repeated
@in_own_dtypes
def cov(
    m: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
    fweights: ArrayLike | None = None, aweights: ArrayLike | None = None, dtype: DTypeLike | None = None,
) -> Array:  # fmt: skip
    """Return the covariance matrix of variables: the rows of `m` (and `y`), or the columns if not `rowvar`.

    `fweights` are integer counts of the samples, `aweights` their weights; the sums are divided by the weight less
    `ddof` (default 1, or 0 with `bias`).
    """
    given = [m] if y is None else [m, y]
    check_arraylike("cov", *given)
    found, _ = promote_inexact("cov", *given)
    for name, t in zip("my", found, strict=False):
        if t.dim() > 2:
            raise ValueError(f"{name} has more than 2 dimensions")
    if dtype is not None and not dtypes.is_inexact(dtypes.dtype_of(dtype)):
        raise ValueError(f"cov: dtype must be a subclass of float or complex; got dtype={dtype!r}")
    x = found[0] if found[0].dim() == 2 else found[0].reshape(1, found[0].numel())
    if not rowvar and found[0].dim() == 2:
        x = x.transpose(0, 1)
    if not x.shape[0]:
        return Array(x.new_zeros((0, 0)))
    if y is not None:
        other = found[1] if found[1].dim() == 2 else found[1].reshape(1, found[1].numel())
        if not rowvar and other.shape[0] != 1:
            other = other.transpose(0, 1)
        if other.shape[1] != x.shape[1]:
            shapes = [tuple(t.shape) for t in found]
            raise ValueError(f"Incompatible shapes for broadcasting: shapes={shapes}")
        x = torch.cat([x, other])
    if not x.shape[1]:
        return Array(x.new_full(() if x.shape[0] == 1 else (x.shape[0],) * 2, math.nan))
    if ddof is None:
        ddof = 0 if bias else 1
    w = _sample_weights(x.shape[1], fweights, aweights)
    if dtype is not None:
        target = dtypes.to_torch(dtypes.requested_dtype(dtype, "cov"))
        x, w = convert(x, target), None if w is None else convert(w, target)
    if w is None:
        average, factor = x.mean(1, keepdim=True), x.shape[1] - ddof
        centered = x - average
        weighted = centered
    else:
        total = w.sum()
        average = (x * w).sum(1, keepdim=True) / total
        if not ddof:
            factor = total
        elif aweights is None:
            factor = total - ddof
        else:
            factor = total - ddof * (w * torch.abs(tensor("cov", aweights))).sum() / total
        centered = x - average
        weighted = centered * w
    right = conjugate(weighted)
    return Array(((centered @ right.transpose(0, 1)) / factor).squeeze())


def _sample_weights(count: int, fweights: Any, aweights: Any) -> torch.Tensor | None:
    w = None
    for name, values in (("fweights", fweights), ("aweights", aweights)):
        if values is None:
            continue
        t = tensor("cov", values)
        if t.dim() > 1:
            raise RuntimeError(f"cannot handle multidimensional {name}")
        if t.shape[0] != count:
            raise RuntimeError(f"incompatible numbers of samples and {name}")
        if name == "fweights" and (t.is_floating_point() or t.is_complex()):
            raise TypeError("fweights must be integer.")
        w = torch.abs(t) if w is None else w * torch.abs(t)
    return w


@shown_as_jit("rowvar", "dtype")
@compiled_when_repeated
def corrcoef(x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, dtype: DTypeLike | None = None) -> Array:
    """Return the correlation coefficients of variables; arguments as in `cov`."""
    check_arraylike("corrcoef", x)
    if dtype is not None and not dtypes.is_inexact(dtypes.dtype_of(dtype)):
        raise ValueError(f"corrcoef: dtype must be a subclass of float or complex; got dtype={dtype!r}")
    c = tensor_of(cov(x, y, rowvar, dtype=dtype))
    if not c.dim():
        return Array(c / c)
    deviation = torch.sqrt(torch.diagonal(c).real if c.is_complex() else torch.diagonal(c))
    c = c / deviation.unsqueeze(1) / deviation.unsqueeze(0)
    if c.is_complex():
        return Array(torch.complex(clip(Array(c.real), -1, 1)._tensor, clip(Array(c.imag), -1, 1)._tensor))
    return clip(Array(c), -1, 1)


def bincount(
    x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0, *, length: int | None = None,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:  # fmt: skip
    """Return how often each integer 0, 1, ... occurs in the vector `x`, or the sums of the `weights` there.

    Negative values count as 0. Tracing needs `length`; larger values are then dropped.
    """
    if out_sharding is not None:
        return laid_over(out_sharding, "bincount", bincount(x, weights, minlength, length=length))
    source = as_array(x)
    t = tensor("bincount", source)
    if t.is_floating_point() or t.is_complex():
        raise TypeError(f"x argument to bincount must have an integer type; got {source.dtype}")
    if t.dim() != 1:
        raise ValueError("only 1-dimensional input supported.")
    least = static_int(minlength, "The error occurred because of argument 'minlength' of jnp.bincount: it")
    if length is None:
        advice = "The error occurred because of argument 'x' of jnp.bincount. Pass a static `length` argument."
        values = concrete_values(source, errors.ConcretizationTypeError, advice)
        length = max(least, int(values.max()) + 1 if values.size and values.max() >= 0 else int(values.size > 0))
    (length,) = canonical_shape((static_int(length, "'length' of jnp.bincount"),))
    if weights is None:
        added = torch.ones_like(t, dtype=int_dtype())
    else:
        added = tensor("bincount", weights)
        if added.shape != t.shape:
            raise ValueError("shape of weights must match shape of x.")
    place = t.to(torch.int64).clamp(min=0)
    start = torch.zeros((length,), dtype=added.dtype, device=t.device)
    return Array(put_elements(start, [place], added, "add", GatherScatterMode.FILL_OR_DROP))


def histogram_bin_edges(
    a: ArrayLike, bins: ArrayLike = 10, range: Any = None, weights: ArrayLike | None = None
) -> Array:
    """Return the edges of `bins` equal bins over `range` (default: from the least to the greatest element).

    Edges given as `bins` are returned as they are. `weights` have no influence.
    """
    if isinstance(bins, str):
        raise NotImplementedError("string values for `bins` not implemented.")
    source = as_array(a)
    check_arraylike("histogram_bin_edges", a, *([] if isinstance(bins, list | tuple) else [bins]))
    target = dtypes.to_inexact(source.dtype)
    if np.ndim(bins) == 1:
        return asarray(bins, dtype=target)
    count = static_int(bins, "bins argument of histogram_bin_edges")
    t = tensor_of(source)
    if range is None:
        range = [array_min(Array(t)), array_max(Array(t))]
    ends = asarray(range, dtype=target, device=t.device)
    if ends.shape != (2,):
        raise ValueError(f"`range` must be either None or a sequence of scalars, got {range}")
    low, high = tensor_of(ends).unbind(0)
    same = low == high
    return linspace(
        Array(torch.where(same, low - 0.5, low)), Array(torch.where(same, high + 0.5, high)), count + 1, dtype=target
    )  # pyright: ignore


def histogram(
    a: ArrayLike, bins: ArrayLike = 10, range: Any = None, weights: ArrayLike | None = None, density: bool | None = None
) -> tuple[Array, Array]:
    """Return the counts (or summed `weights`) of the elements in bins, and the bins' edges.

    With `density`, the counts are scaled so that the histogram integrates to one.
    """
    check_arraylike("histogram", a)
    if weights is None:
        (t,), _ = promote_inexact("histogram", a)
        w = torch.ones_like(t)
    else:
        check_arraylike("histogram", a, weights)
        (t, w), _ = promote_inexact("histogram", a, weights)
        if t.shape != w.shape:
            raise ValueError("weights should have the same shape as a.")
    edges = tensor_of(histogram_bin_edges(Array(t), bins, range))
    place = places_in(edges, t, True)
    place = torch.where(t == edges[-1], edges.shape[0] - 1, place).flatten()
    start = torch.zeros((edges.shape[0],), dtype=w.dtype, device=w.device)
    counts = put_elements(start, [place], w.flatten(), "add", GatherScatterMode.FILL_OR_DROP)[1:]
    if density:
        counts = counts / (edges[1:] - edges[:-1]) / counts.sum()
    return Array(counts), Array(edges)


def histogram2d(
    x: ArrayLike, y: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return the counts of the points (x, y) in bins, and the edges along both axes; see `histogramdd`."""
    check_arraylike("histogram2d", x, y)
    count = len(bins) if (hasattr(bins, "__len__") and np.ndim(bins) != 0) or isinstance(bins, list | tuple) else 1
    if count not in (1, 2):
        bins = [asarray(bins), asarray(bins)]
    sample = Array(tensor_of(asarray([x, y])).transpose(0, 1))
    counts, edges = histogramdd(sample, bins, range, weights, density)
    return counts, edges[0], edges[1]


def histogramdd(
    sample: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None, density: bool | None = None
) -> tuple[Array, list[Array]]:
    """Return the counts of points (the rows of `sample`) in bins, and a list of the edges along each axis.

    `bins` is a number, or a number or edges per axis; `range` a pair or None per axis. `weights` and `density` as in
    `histogram`.
    """
    if weights is None:
        (t,), _ = promote_inexact("histogramdd", sample)
        w = None
    else:
        (t, w), _ = promote_inexact("histogramdd", sample, weights)
        if w.shape != t.shape[:1]:
            raise ValueError("should have one weight for each sample.")
    count, rank = t.shape
    if range is not None and (len(range) != rank or any(r is not None and np.shape(r)[0] != 2 for r in range)):
        raise ValueError(
            f"For sample.shape={(count, rank)}, range must be a sequence of {rank} pairs or Nones; got {range!r}"
        )
    per_axis = list(bins) if isinstance(bins, Sequence) or np.ndim(bins) else [bins] * rank
    if len(per_axis) != rank:
        raise ValueError("should be a bin for each dimension.")
    all_edges, sizes = [], []
    place = torch.zeros((count,), dtype=torch.int64, device=t.device)
    for d, wanted in enumerate(per_axis):
        column = t[:, d]
        edges = tensor_of(histogram_bin_edges(Array(column), wanted, None if range is None else range[d]))
        index = places_in(edges, column, True)
        index = torch.where(column == edges[-1], index - 1, index)
        all_edges.append(edges)
        sizes.append(edges.shape[0] + 1)
        place = place * sizes[-1] + index
    counts = tensor_of(bincount(Array(place), None if w is None else Array(w), length=math.prod(sizes)))
    counts = counts.reshape(sizes)[(slice(1, -1),) * rank]
    if density:
        counts = counts.to(t.dtype) / counts.sum()
        for d, edges in enumerate(all_edges):
            counts = counts / (edges[1:] - edges[:-1]).reshape([-1 if i == d else 1 for i in np.arange(rank)])
    return Array(counts), [Array(e) for e in all_edges]
