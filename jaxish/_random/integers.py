"""Integers, booleans, and choices: randint, bernoulli, permutation, choice, categorical and what is made of them."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import dtypes, errors, graph, selection, unsigned
from .._core.array import Array, as_array, check_arraylike, number_in, tensor_of
from .._core.dimensions import canonical_axis, canonical_shape
from .._core.extended import ExtendedArray, refuse
from .._core.operations import is_recorded
from .._core.promotion import convert
from .._core.typing import ArrayLike, DTypeLike, Shape
from .._devices.shardings import NamedSharding, PartitionSpec
from .._lax.control_flow import associative_scan
from .._lax.sorting import top_k
from .._numpy.creation import astype, zeros
from .._numpy.manipulation import iscomplexobj, reshape
from .._numpy.searching import searchsorted
from .._numpy.selection import take
from .._tensors import xla_arithmetic as xla
from .arguments import check_shape, check_width, int_dtype, sample_shape, shape_of, static_shape
from .draws import Bits, Sampler, draw
from .gumbels import gumbel_mode, gumbel_sampler, gumbel_tensor
from .key_array import KeyArray
from .keys import check_key, several, split_keys
from .parts import highest
from .sharded import takes_out_sharding
from .shuffles import permuted, random_order, shuffled
from .uniforms import bits_per_float, random_bits, unit, unit_uniform

# Integers of a range


@takes_out_sharding
def randint(
    key: ArrayLike,
    shape: Shape,
    minval: ArrayLike,
    maxval: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return integers in [minval, maxval) of an integer `dtype`; the bounds broadcast to `shape`.

    Where maxval is not above minval, the result is minval. Raises `TypeError` for other dtypes, `ValueError` for
    bounds that do not broadcast.
    """
    typed, _ = check_key("randint", key)
    found, sizes = int_dtype("randint", dtype), static_shape(shape)
    if not dtypes.issubdtype(found, np.integer):
        raise TypeError(f"randint only accepts integer dtypes, got {found}")
    return Array(integers_between(typed, sizes, minval, maxval, found))


def integers_between(key: KeyArray, shape: tuple[int, ...], minval: Any, maxval: Any, dtype: Any) -> Tensor:
    """Return integers in [minval, maxval)."""
    check_arraylike("randint", minval, maxval)
    check_shape("randint", shape, shape_of(minval), shape_of(maxval))
    target, device = dtypes.to_torch(dtype), key._tensor.device
    if _are_last_bits(minval, maxval, dtype) and not (graph.tracing and is_recorded()):
        span = [torch.tensor(n, dtype=torch.int32, device=device) for n in (maxval - minval - 1, minval)]
        return convert(draw(_LAST_BITS, key._impl, split_keys(key, 2), shape, *span), target)
    if _is_word(minval) and _is_word(maxval) and dtype.itemsize <= 4 and not graph.tracing:
        span = [torch.tensor(n, dtype=t, device=device) for n, t in _constant_span(minval, maxval, dtype)]
    else:
        minval, maxval = (as_array(_real("randint", b), device) for b in (minval, maxval))
        if dtype.itemsize == 8:
            return _draw_64(key, shape, *_bounds_64(minval, maxval, target))
        span = _span(minval, maxval, np.iinfo(dtype))
    offsets = draw(_OFFSETS, key._impl, split_keys(key, 2), shape, *span)
    return convert(offsets.view(target) if dtype.itemsize == 4 else offsets, target)


def _are_last_bits(minval: Any, maxval: Any, dtype: np.dtype) -> bool:
    """Tell whether offsets are the last bits of words: 2**16, by which JAX takes the other words into them, is a multiple of them."""
    if type(minval) is not int or type(maxval) is not int or dtype.itemsize > 4:
        return False
    info, span = np.iinfo(dtype), maxval - minval
    is_inside = max(info.min, -(2**31)) <= minval and maxval <= min(info.max, 2**31 - 1)
    return is_inside and 0 < span <= 2**16 and not span & (span - 1)


def _is_word(bound: Any) -> bool:
    return type(bound) is int and bound.bit_length() < 32


def _real(function: str, bound: Any) -> Any:
    """Return a bound; the real part of a complex one, with a warning."""
    refuse(function, (bound,))
    return astype(bound, int) if iscomplexobj(bound) else bound


def _wide(bound: Array) -> Tensor:
    tensor = tensor_of(bound)
    if tensor.dtype is torch.uint64:
        signed = tensor.view(torch.int64)
        return torch.where(signed < 0, torch.iinfo(torch.int64).max, signed)
    return (
        convert(convert(tensor, dtypes.to_torch(dtypes.canonicalize_dtype(np.int64))), torch.int64)
        if _is_inexact(tensor)
        else tensor.to(torch.int64)
    )


def _is_inexact(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _span(minval: Array, maxval: Array, info: np.iinfo) -> tuple[Tensor, Tensor, Tensor]:
    """Return how many values there are (as float64; 0 for all 2**32), 2**32 modulo that, and the first one's bits."""
    low, high = _wide(minval), _wide(maxval)
    if info.bits < 32:
        # These are drawn as int32, in which the upper bound cannot be out of range.
        low, high = low.clamp(int(info.min), int(info.max)), high.clamp(int(info.min), int(info.max) + 1)
        info = np.iinfo(np.int32)
    beyond = high > int(info.max)
    low, high = (t.clamp(int(info.min), int(info.max)) for t in (low, high))
    empty = high <= low
    span = torch.where(empty, 1, high - low) + (beyond & ~empty).to(torch.int64)
    span = span & 0xFFFFFFFF
    divisor = torch.where(span == 0, 2**62, span)
    half = torch.remainder(torch.full_like(span, 2**16), divisor)
    return span.double(), torch.remainder((half * half) & 0xFFFFFFFF, divisor).to(torch.int32), low.to(torch.int32)


@functools.lru_cache(maxsize=256)
def _constant_span(minval: int, maxval: int, dtype: np.dtype) -> list[tuple[float, torch.dtype]]:
    # It takes 0.1 ms, operator by operator.
    low, high = (as_array(b, torch.device("cpu")) for b in (minval, maxval))
    return [(t.item(), t.dtype) for t in _span(low, high, np.iinfo(dtype))]


def _offset(high: Tensor, low: Tensor, span: Tensor, multiplier: Tensor, start: Tensor) -> Tensor:
    """Return start + (high * 2**32 + low) modulo span, as JAX wraps it around."""
    mixed = _word(_modulo(high, span)) * multiplier + _word(_modulo(low, span))
    return start + _word(_modulo(mixed, span))


def _modulo(word: Tensor, span: Tensor) -> Tensor:
    # In float64 words are exact and so is the rounded-down quotient: the division of integers is not vectorised.
    value = word.double() + torch.where(word < 0, 2.0**32, 0.0)
    return torch.where(span == 0, value, value - torch.floor(value / span) * span)


def _word(value: Tensor) -> Tensor:
    return (value - torch.where(value >= 2.0**31, 2.0**32, 0.0)).to(torch.int32)


_LAST_BITS = Sampler("last_bits", lambda low, mask, start: start + (low & mask), (torch.int32,), (Bits(32, key=1),))
_OFFSETS = Sampler("randint", _offset, (torch.int32,), (Bits(32, key=0), Bits(32, key=1)))


def _bounds_64(minval: Array, maxval: Array, target: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Return lower bound, number of values and 2**64 modulo that, as tensors of `target`, uint64 and uint64."""
    low, high = (_clipped(tensor_of(b), target) for b in (minval, maxval))
    span = unsigned.sub(high, low).view(torch.int64).view(torch.uint64)
    # An upper bound above the greatest integer occurs for int64 only, given as uint64.
    source = tensor_of(maxval)
    beyond = (
        (source.view(torch.int64) < 0)
        if source.dtype is torch.uint64 and target is torch.int64
        else torch.zeros_like(source, dtype=torch.bool)
    )
    empty = unsigned.le(high, low)
    one = torch.ones_like(span.view(torch.int64)).view(torch.uint64)
    span = selection.where(empty, one, span)
    span = selection.where(beyond & ~empty, unsigned.add(span, one), span)
    half = unsigned.rem(unsigned.mul(one, torch.full_like(one.view(torch.int64), 2**32).view(torch.uint64)), span)
    return low, span, unsigned.rem(unsigned.mul(half, half), span)


def _clipped(bound: Tensor, target: torch.dtype) -> Tensor:
    if _is_inexact(bound):
        bound = convert(bound, torch.int64)
    if bound.dtype is target:
        return bound
    if target is torch.uint64:
        return (
            bound.clamp(min=0).to(torch.int64).view(torch.uint64)
            if bound.dtype not in unsigned.SIGNED
            else convert(bound, target)
        )
    if bound.dtype is torch.uint64:
        signed = bound.view(torch.int64)
        return torch.where(signed < 0, torch.iinfo(torch.int64).max, signed)
    return bound.to(torch.int64)


def _draw_64(key: KeyArray, shape: tuple[int, ...], low: Tensor, span: Tensor, multiplier: Tensor) -> Tensor:
    higher, lower = (random_bits(k, 64, shape) for k in several(key, 2))
    span, multiplier = (t.view(torch.int64).expand(shape).contiguous().view(torch.uint64) for t in (span, multiplier))
    offset = unsigned.add(unsigned.mul(unsigned.rem(higher, span), multiplier), unsigned.rem(lower, span))
    return (low.view(torch.int64) + unsigned.rem(offset, span).view(torch.int64)).view(low.dtype)


# Booleans


@takes_out_sharding
def bernoulli(
    key: ArrayLike,
    p: ArrayLike = 0.5,
    shape: Shape | None = None,
    mode: str = "low",
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return booleans that are True with probability `p`, which is floating and broadcasts to `shape`.

    `mode` "high" uses twice the bits, for small p. Raises `TypeError` for other dtypes, `ValueError` for other modes.
    """
    if mode not in ("high", "low"):
        raise ValueError(f"got mode={mode!r}, expected 'high' or 'low'")
    typed, _ = check_key("bernoulli", key)
    check_arraylike("bernoulli", p)
    odds = tensor_of(as_array(p))
    if not odds.is_floating_point():
        raise TypeError(f"bernoulli probability `p` must have a floating dtype, got {dtypes.TO_NUMPY[odds.dtype]}.")
    check_width("bernoulli", odds.dtype)
    sizes = sample_shape("bernoulli", shape, odds)
    return Array(draw(_bernoulli_sampler(odds.dtype, mode), typed._impl, tensor_of(typed), sizes, odds.detach()))


@functools.cache
def _bernoulli_sampler(dtype: torch.dtype, mode: str) -> Sampler:
    width = bits_per_float(dtype)
    if mode == "low":
        return Sampler(f"bernoulli_{dtype}", lambda raw, p: unit(raw, dtype) < p, (torch.bool,), (Bits(width),))
    fraction = 2.0 ** -dtypes.finfo(dtypes.TO_NUMPY[dtype]).nmant

    def run(first: Tensor, second: Tensor, p: Tensor) -> Tensor:
        return unit(second, dtype) * fraction < p - unit(first, dtype)

    return Sampler(f"bernoulli_high_{dtype}", run, (torch.bool,), (Bits(width, 2),))


@takes_out_sharding
def rademacher(
    key: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return -1 and 1, each with probability one half, in any numeric `dtype` (the default integer without one)."""
    typed, _ = check_key("rademacher", key)
    found = int_dtype("rademacher", dtype)
    return Array(signs(typed, static_shape(shape), dtypes.to_torch(found)))


def signs(key: KeyArray, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return -1 and 1, each with probability one half."""
    width = 8 * np.dtype(dtypes.canonicalize_dtype(np.float64)).itemsize
    return convert(draw(_sign_sampler(width), key._impl, tensor_of(key), shape), dtype)


@functools.cache
def _sign_sampler(width: int) -> Sampler:
    # A uniform made of these bits is below one half where the first of them is 0.
    return Sampler(
        f"signs{width}", lambda raw: ((raw >> (width - 1)) | 1).to(torch.int32), (torch.int32,), (Bits(width),)
    )


# Orders and choices


@takes_out_sharding
def permutation(
    key: ArrayLike,
    x: ArrayLike,
    axis: int = 0,
    independent: bool = False,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return `x` with its slices along `axis` in random order; for an integer x, a permutation of range(x).

    With `independent`, each vector along the axis gets an order of its own. Raises `TypeError` for a scalar that is
    no integer, `ConcretizationTypeError` for a traced one.
    """
    typed, _ = check_key("permutation", key)
    check_arraylike("permutation", x)
    array = as_array(x)
    axis = canonical_axis(axis, array.ndim or 1)
    if not array.ndim:
        if not dtypes.issubdtype(array.dtype, np.integer):
            raise TypeError("x must be an integer or at least 1-dimensional")
        return Array(random_order(typed, _count(x, "argument x of jax.random.permutation()")))
    if isinstance(array, ExtendedArray) and not independent:
        return take(array, Array(random_order(typed, array.shape[axis])), axis)
    refuse("permutation", (array,))
    mix = shuffled if independent else permuted
    return Array(mix(typed, tensor_of(array), axis), array.weak_type)


def _count(number: Any, what: str) -> int:
    if isinstance(number, int | np.integer):
        return int(number)
    refuse("choice", (number,))
    return int(number_in(as_array(number)._concrete(errors.ConcretizationTypeError, what)))


def choice(
    key: ArrayLike,
    a: ArrayLike,
    shape: Shape = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
    mode: str | None = None,
) -> Array:
    """Return random slices of `a` along `axis`, as many as `shape` says; for an integer a, elements of range(a).

    `p` gives their probabilities, all equal by default. Raises `ValueError` where there is nothing to choose from, or
    not enough without replacement, or p does not fit; `TypeError` for a shape that is no sequence.
    """
    typed, _ = check_key("choice", key)
    if not isinstance(shape, Sequence):
        raise TypeError(f"shape argument of jax.random.choice must be a sequence, got {shape}")
    sizes = canonical_shape(shape)
    check_arraylike("choice", a)
    array = as_array(a, typed._tensor.device)
    if array.ndim:
        axis = canonical_axis(axis, array.ndim)
        count = array.shape[axis]
    else:
        count = _count(a, "The error occurred in jax.random.choice()")
    draws = math.prod(sizes)
    if not draws:
        return zeros(sizes, array.dtype)
    if count <= 0:
        raise ValueError("a must be greater than 0 unless no samples are taken")
    if not replace and draws > count:
        raise ValueError(
            f"Cannot take a larger sample (size {draws}) than population (size {count}) when 'replace=False'"
        )
    if p is None and not replace:
        axis = canonical_axis(axis, array.ndim or 1)
        if array.ndim and not isinstance(array, ExtendedArray):
            result = Array(permuted(typed, tensor_of(array), axis, draws), array.weak_type)
            return reshape(result, (*array.shape[:axis], *sizes, *array.shape[axis + 1 :]))
        chosen = Array(random_order(typed, count, draws))
    else:
        chosen = _chosen(typed, sizes, count, replace, p, draws, mode)
    chosen = reshape(chosen, sizes)
    return take(array, chosen, axis) if array.ndim else chosen


def _chosen(
    key: KeyArray, shape: tuple[int, ...], count: int, replace: bool, p: Any, draws: int, mode: str | None
) -> Array:
    integer = dtypes.canonicalize_dtype(np.int64)
    if p is None:
        return Array(integers_between(key, shape, 0, count, integer))
    check_arraylike("choice", p)
    odds = as_array(p)
    odds = Array(convert(tensor_of(odds), dtypes.to_torch(dtypes.to_inexact(odds.dtype))))
    if odds.shape != (count,):
        raise ValueError(
            "p must be None or a 1D vector with the same size as a.shape[axis]. "
            f"p has shape {odds.shape} and a.shape[axis] is {count}."
        )
    if replace:
        # In the order in which XLA sums on the CPU.
        sums = associative_scan(lambda x, y: Array(tensor_of(x) + tensor_of(y)), odds)
        u = unit_uniform(key, shape, odds._tensor.dtype)
        return searchsorted(sums, Array(tensor_of(sums)[-1] * (1 - u))).astype(int)
    scores = gumbel_tensor(key, (count,), odds._tensor.dtype, gumbel_mode(mode)) + xla.log(tensor_of(odds))
    return Array(convert(tensor_of(top_k(Array(scores), draws)[1]), dtypes.to_torch(integer)))


@takes_out_sharding
def categorical(
    key: ArrayLike, logits: ArrayLike, axis: int = -1, shape: Shape | None = None, replace: bool = True,
    mode: str | None = None,
    *, out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:  # fmt: skip
    """Return indices along `axis`, drawn with probabilities proportional to exp(logits).

    `shape` ends in the shape of the logits without that axis; its leading part counts samples, drawn with or without
    replacement. Raises `ValueError` for shapes that do not fit, or more samples than categories without replacement.
    """
    typed, _ = check_key("categorical", key)
    check_arraylike("categorical", logits)
    scores = tensor_of(as_array(logits))
    dim = canonical_axis(axis, scores.dim())
    batch = (*scores.shape[:dim], *scores.shape[dim + 1 :])
    sizes = batch if shape is None else static_shape(shape)
    check_shape("categorical", sizes, tuple(batch))
    if replace and not scores.shape[dim]:
        raise ValueError("categorical: attempt to get argmax of an empty sequence. The logits have no categories.")
    if not scores.is_floating_point():
        raise ValueError(f"dtype argument to `gumbel` must be a float dtype, got {dtypes.TO_NUMPY[scores.dtype]}")
    check_width("categorical", scores.dtype)
    prefix = sizes[: len(sizes) - len(batch)]
    integer = dtypes.to_torch(dtypes.canonicalize_dtype(np.int64))
    chosen = gumbel_mode(mode)
    if replace:
        inner = list(sizes[len(sizes) - len(batch) :])
        inner.insert(dim, scores.shape[dim])
        noise = (math.prod(prefix), *inner)
        sampler = gumbel_sampler(scores.dtype, chosen)
        found = highest(sampler, typed._impl, tensor_of(typed), noise, scores.detach(), dim + 1, integer)
        return Array(found.reshape(sizes))
    scores = scores + gumbel_tensor(typed, tuple(scores.shape), scores.dtype, chosen)
    count = math.prod(prefix)
    if count > scores.shape[dim]:
        raise ValueError(
            f"Number of samples without replacement ({count}) cannot exceed number of categories ({scores.shape[dim]})."
        )
    indices = tensor_of(top_k(Array(scores.movedim(dim, -1)), count)[1])
    return Array(indices.movedim(-1, 0).reshape(sizes).to(integer))
