"""Poisson and binomial samples: numbers of events, by inversion for small means and by rejection for large ones.

Knuth's multiplication and Hörmann, "The transformed rejection method for generating Poisson random variables" (1993),
for the Poisson distribution; geometric gaps (Devroye 1986) and Hörmann, "The generation of binomial random variables"
(1993), for the binomial one. A round draws for all elements of an array, from one key; rounds go on until the last
element has its sample, and until then an accepted element may be replaced by another. So it is in JAX, and so the
samples depend on the whole array. A batch of arrays does its rounds together; each stops for itself.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._backends import structured
from .._core import dtypes
from .._core.array import Array, as_array, check_arraylike, tensor_of
from .._core.graph import TensorType
from .._core.primitive import Dims, Primitive
from .._core.promotion import convert
from ..lax import control_flow
from ..lax import xla_arithmetic as xla
from . import lanes
from .arguments import check_shape, float_dtype, int_dtype, parameter, refuse_out_sharding, sample_shape, static_shape
from .draws import Bits, Sampler
from .generators import PRNGImpl, threefry_prng_impl
from .keys import KeyArray, check_key
from .uniforms import bits_per_float, unit


class _Rounds(Primitive):
    """Samples for keys (*batch, words) and parameters (*batch, count), by a function of (impl, keys, *parameters).

    The function takes one batch dimension. Counts have no derivative.
    """

    def __init__(self, name: str, function: Callable[..., Tensor], impl: PRNGImpl, dtype: torch.dtype) -> None:
        self.__name__ = name
        self.function, self.impl, self.dtype = function, impl, dtype

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType(tuple(inputs[1].shape), self.dtype, inputs[1].device)]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        keys, *parameters = inputs
        count = parameters[0].shape[-1]
        flat = [p.reshape(-1, count) if count else p.reshape(1, 0) for p in parameters]
        if not parameters[0].numel():
            return [torch.empty(parameters[0].shape, dtype=self.dtype, device=keys.device)]
        drawn = self.function(self.impl, keys.reshape(-1, keys.shape[-1]), *flat, self.dtype)
        return [drawn.reshape(parameters[0].shape)]

    def lower(self, *inputs: Tensor) -> list[Tensor]:
        return structured.call(self, f"{self.__name__}:{self.impl.name}:{self.dtype}", inputs)

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        fronted = [
            (t.unsqueeze(0).expand(size, *t.shape) if d is None else t.movedim(d, 0)).contiguous()
            for t, d in zip(inputs, dims, strict=True)
        ]
        return self(*fronted), [0]

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        return [None]

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        return [None] * len(primals)


def _rounds(
    impl: PRNGImpl, keys: Tensor, state: list[Tensor], constants: Sequence[Tensor], limit: float,
    body: Callable[[Tensor, list[Tensor], list[Tensor]], tuple[Tensor, list[Tensor]]],
    unfinished: Callable[[list[Tensor], list[Tensor]], Tensor],
) -> list[Tensor]:  # fmt: skip
    """Return the state (lanes, count) after the rounds `body(keys, state, constants)` that each lane needs."""
    done = 0
    active = torch.arange(keys.shape[0], device=keys.device)
    working, held = list(state), list(constants)
    while done < limit:
        going = unfinished(working, held).any(-1)
        if not bool(going.all()):
            state = [s.index_copy(0, active, w) for s, w in zip(state, working, strict=True)]
            active, keys = active[going], keys.view(torch.int32)[going].view(torch.uint32)
            working, held = [w[going] for w in working], [h[going] for h in held]
            if not active.numel():
                return state
        keys, working = body(keys, working, held)
        done += 1
    return [s.index_copy(0, active, w) for s, w in zip(state, working, strict=True)]


# Poisson


def _poisson(impl: PRNGImpl, keys: Tensor, lam: Tensor, dtype: torch.dtype) -> Tensor:
    small = torch.isnan(lam) | (lam < 10)
    limit = torch.iinfo(dtype).max
    result = torch.zeros(lam.shape, dtype=dtype, device=lam.device)
    if bool(small.any()):
        result = _poisson_small(impl, keys, torch.where(small, lam, 0.0), dtype, limit)
    if not bool(small.all()):
        result = torch.where(small, result, _poisson_large(impl, keys, torch.where(small, 1e5, lam), dtype, limit))
    return torch.where(lam == 0, torch.zeros_like(result), result)


def _poisson_small(impl: PRNGImpl, keys: Tensor, lam: Tensor, dtype: torch.dtype, limit: int) -> Tensor:
    def body(keys: Tensor, state: list[Tensor], held: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        keys, own = lanes.split(impl, keys, 2)
        return keys, lanes.drawn(impl, _multiplied(dtype), [own], lam.shape[-1], *state, *held)

    start = [torch.zeros(lam.shape, dtype=dtype, device=lam.device), torch.zeros_like(lam)]
    return _rounds(impl, keys, start, [lam], limit, body, lambda state, held: state[1] > -held[0])[0] - 1


@functools.cache
def _multiplied(dtype: torch.dtype) -> Sampler:
    def step(raw: Tensor, k: Tensor, log_product: Tensor, lam: Tensor) -> tuple[Tensor, Tensor]:
        return torch.where(log_product > -lam, k + 1, k), log_product + xla.log(unit(raw, torch.float32))

    return Sampler(f"poisson_multiplied_{dtype}", step, (dtype, torch.float32))


def _poisson_large(impl: PRNGImpl, keys: Tensor, lam: Tensor, dtype: torch.dtype, limit: int) -> Tensor:
    log_lam = xla.log(lam)
    b = xla.fma(xla.sqrt(lam), 2.53, 0.931)
    a = xla.fma(b, 0.02483, -0.059)
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def body(keys: Tensor, state: list[Tensor], held: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        keys, *own = lanes.split(impl, keys, 3)
        return keys, lanes.drawn(impl, _PROPOSED_POISSON, own, lam.shape[-1], *state, *held)

    start = [torch.full_like(lam, -1), torch.zeros(lam.shape, dtype=torch.bool, device=lam.device)]
    held = [lam, log_lam, a, b, inverse_alpha, v_r]
    return convert(_rounds(impl, keys, start, held, limit, body, lambda state, held: ~state[1])[0], dtype)


def _propose_poisson(
    raw_u: Tensor, raw_v: Tensor, found: Tensor, accepted: Tensor,
    lam: Tensor, log_lam: Tensor, a: Tensor, b: Tensor, inverse_alpha: Tensor, v_r: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    u, v = unit(raw_u, torch.float32) - 0.5, unit(raw_v, torch.float32)
    shifted = 0.5 - u.abs()
    k = torch.floor(xla.fma(2 * a / shifted + b, u, lam) + 0.43)
    s = xla.log(v * inverse_alpha / (a / (shifted * shifted) + b))
    t = xla.fma(k, log_lam, -lam) - _log_factorial(k)
    rejected = (k < 0) | ((shifted < 0.013) & (v > shifted))
    accept = ((shifted >= 0.07) & (v <= v_r)) | (~rejected & (s <= t))
    return torch.where(accept, k, found), accepted | accept


_TWO_KEYS = (Bits(32, key=0), Bits(32, key=1))
_PROPOSED_POISSON = Sampler("poisson_proposed", _propose_poisson, (torch.float32, torch.bool), _TWO_KEYS)


# Lanczos's approximation with g = 7, as XLA has it.
_LANCZOS = (
    676.520368121885098567009190444019, -1259.13921672240287047156078755283, 771.3234287776530788486528258894,
    -176.61502916214059906584551354, 12.507343278686904814458936853, -0.13857109526572011689554707,
    9.984369578019570859563e-6, 1.50563273514931155834e-7,
)  # fmt: skip


def _log_factorial(k: Tensor) -> Tensor:
    """Return log(k!) as XLA computes it, for k of 0 and more."""
    total = torch.full_like(k, 0.99999999999980993227684700473478)
    for i, coefficient in enumerate(_LANCZOS):
        total = total + coefficient / (k + (i + 1))
    log_t = xla.log1p(k * float(np.float32(1 / 7.5))) + math.log(7.5)
    power = (k + 0.5) - (k + 7.5) / log_t
    return xla.fma(power, log_t, math.log(2 * math.pi) / 2) + xla.log(total)


def poisson(key: Any, lam: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Return samples of the Poisson distribution of mean `lam`, which broadcasts to `shape`, in an integer `dtype`.

    NaN gives -1. Raises `NotImplementedError` for keys other than threefry's.
    """
    refuse_out_sharding("poisson", out_sharding)
    typed, _ = check_key("poisson", key)
    found = int_dtype("poisson", dtype)
    if typed._impl is not threefry_prng_impl:
        raise NotImplementedError(f"`poisson` is only implemented for the threefry2x32 RNG, not {typed._impl}")
    mean = parameter("poisson", lam, torch.float32)
    sizes = sample_shape("poisson", shape, mean)
    draw = _Rounds("poisson", _poisson, typed._impl, dtypes.to_torch(found))
    return Array(draw(tensor_of(typed), mean.detach().expand(sizes).reshape(-1))[0].reshape(sizes))


# Binomial


def _binomial(impl: PRNGImpl, keys: Tensor, count: Tensor, odds: Tensor, dtype: torch.dtype) -> Tensor:
    below_half = odds < 0.5
    q = torch.where(below_half, odds, 1.0 - odds)
    bad_count, infinite = torch.isnan(count) | (count < 0), torch.isinf(count)
    bad_odds = torch.isnan(q) | (q < 0)
    held = torch.where(bad_odds, 0.01, q)
    inverted = bad_count | (count * held <= 10.0)
    whole = torch.floor(count)
    limit = torch.finfo(dtype).max
    samples = torch.zeros(count.shape, dtype=dtype, device=count.device)
    if bool(inverted.any()):
        samples = _binomial_small(impl, keys, torch.where(inverted, whole, 0.0), held, limit).to(dtype)
    if not bool(inverted.all()):
        large = torch.where(inverted, 1e4, whole), torch.where(inverted, 0.5, held)
        samples = torch.where(inverted, samples, _binomial_large(impl, keys, *large, limit).to(dtype))
    invalid = bad_odds | bad_count
    samples = torch.where(invalid, torch.nan, samples)
    samples = torch.where(infinite & ~invalid, torch.inf, samples)
    return torch.where(below_half | bad_count | torch.isnan(q) | infinite, samples, whole.to(dtype) - samples)


def _binomial_small(impl: PRNGImpl, keys: Tensor, count: Tensor, odds: Tensor, limit: float) -> Tensor:
    def body(keys: Tensor, state: list[Tensor], held: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        own, keys = lanes.split(impl, keys, 2)
        return keys, lanes.drawn(impl, _gaps(count.dtype), [own], count.shape[-1], *state, *held)

    start = [torch.zeros_like(odds), torch.zeros_like(odds)]
    held = [count, xla.log1p(-odds)]
    return _rounds(impl, keys, start, held, limit, body, lambda state, held: state[1] <= held[0])[0] - 1


@functools.cache
def _gaps(dtype: torch.dtype) -> Sampler:
    def step(raw: Tensor, number: Tensor, total: Tensor, count: Tensor, log_miss: Tensor) -> tuple[Tensor, Tensor]:
        gap = torch.ceil(xla.log(unit(raw, dtype)) / log_miss)
        return torch.where(total <= count, number + 1, number), total + gap

    return Sampler(f"binomial_gaps_{dtype}", step, (dtype, dtype), (Bits(bits_per_float(dtype)),))


_STIRLING = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
    0.0138761288230707, 0.0118967099458917, 0.010411265261972, 0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


def _stirling_tail(k: Tensor) -> Tensor:
    """Return log(k!) minus Stirling's approximation of it."""
    held = k.clamp(0.0, 9.0)
    square = (held + 1) * (held + 1)
    series = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (held + 1)
    table = torch.full_like(k, _STIRLING[-1])
    for number, value in reversed([*enumerate(_STIRLING)]):
        table = torch.where(held < number + 1, value, table)
    return torch.where(k <= 9, table, series)


def _binomial_large(impl: PRNGImpl, keys: Tensor, count: Tensor, odds: Tensor, limit: float) -> Tensor:
    deviation = xla.sqrt(count * odds * (1 - odds))
    b = xla.fma(deviation, 2.53, 1.15)
    a = xla.fma(odds, 0.01, xla.fma(b, 0.0248, -0.0873))
    centre = xla.fma(count, odds, 0.5)
    v_r = 0.92 - 4.2 / b
    ratio = odds / (1 - odds)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = torch.floor((count + 1) * odds)

    def body(keys: Tensor, state: list[Tensor], held: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        keys, *own = lanes.split(impl, keys, 3)
        return keys, lanes.drawn(impl, _proposed_binomial(count.dtype), own, count.shape[-1], *state, *held)

    start = [torch.full_like(odds, -1), torch.zeros(odds.shape, dtype=torch.bool, device=odds.device)]
    held = [count, a, b, centre, v_r, ratio, alpha, mode]
    return _rounds(impl, keys, start, held, limit, body, lambda state, held: ~state[1])[0]


@functools.cache
def _proposed_binomial(dtype: torch.dtype) -> Sampler:
    def step(
        raw_u: Tensor, raw_v: Tensor, found: Tensor, accepted: Tensor, count: Tensor, a: Tensor, b: Tensor,
        centre: Tensor, v_r: Tensor, ratio: Tensor, alpha: Tensor, mode: Tensor,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        u, v = unit(raw_u, dtype) - 0.5, unit(raw_v, dtype)
        shifted = 0.5 - u.abs()
        k = torch.floor(xla.fma(2 * a / shifted + b, u, centre))
        rejected = (k < 0) | (k > count)
        level = xla.log(v * alpha / (a / (shifted * shifted) + b))
        bound = (
            (mode + 0.5) * xla.log((mode + 1) / (ratio * (count - mode + 1)))
            + (count + 1) * xla.log((count - mode + 1) / (count - k + 1))
            + (k + 0.5) * xla.log(ratio * (count - k + 1) / (k + 1))
            + _stirling_tail(mode)
            + _stirling_tail(count - mode)
            - _stirling_tail(k)
            - _stirling_tail(count - k)
        )
        accept = ((shifted >= 0.07) & (v <= v_r)) | (~rejected & (level <= bound))
        return torch.where(accept, k, found), accepted | accept

    width = bits_per_float(dtype)
    return Sampler(f"binomial_proposed_{dtype}", step, (dtype, torch.bool), (Bits(width, key=0), Bits(width, key=1)))


def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Return how many of `n` trials of probability `p` succeed, in a floating `dtype`; n and p broadcast to `shape`.

    NaN where n is negative or p is no probability. Raises `ValueError` for other dtypes.
    """
    typed, _ = check_key("binomial", key)
    check_arraylike("binomial", n, p)
    found = float_dtype("binomial", dtype)
    sizes = sample_shape("binomial", None if shape is None else static_shape(shape), n, p)
    return Array(_binomial_samples(typed, n, p, sizes, dtypes.to_torch(found)))


def _binomial_samples(key: KeyArray, n: Any, p: Any, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    inner = dtypes.to_torch(dtypes.to_inexact(as_array(p).dtype))
    count, odds = (parameter("binomial", x, inner).detach().expand(shape).reshape(-1) for x in (n, p))
    draw = _Rounds("binomial", _binomial, key._impl, dtype)
    return draw(tensor_of(key), count, odds)[0].reshape(shape)


def multinomial(key: Any, n: Any, p: Any, *, shape: Any = None, dtype: Any = None, unroll: int | bool = 1) -> Array:
    """Return how `n` trials fall into the categories of `p`, probabilities along the last axis.

    `shape` is that of the result, p's by default; n broadcasts to it without the last axis. `unroll` is that of
    `lax.scan`, which goes through the categories.
    """
    typed, _ = check_key("multinomial", key)
    check_arraylike("multinomial", n, p)
    common = dtypes.promote(*((as_array(x).dtype, as_array(x).weak_type) for x in (n, p)))[0]
    inner = dtypes.to_torch(dtypes.to_inexact(common))
    trials, odds = parameter("multinomial", n, inner), parameter("multinomial", p, inner)
    sizes = tuple(odds.shape) if shape is None else static_shape(shape)
    check_shape("multinomial", sizes[:-1], tuple(trials.shape))
    trials, odds = trials.expand(sizes[:-1]), odds.expand(sizes).movedim(-1, 0)
    remaining = odds.flip(0).cumsum(0).flip(0)
    ratios = odds / torch.where(remaining == 0, 1, remaining)
    keys = KeyArray(typed._impl.split(tensor_of(typed), (ratios.shape[0],)), typed._impl)

    def fall(remainder: Array, x: Any) -> tuple[Array, Array]:
        ratio, own = x
        left = tensor_of(remainder)
        odds = tensor_of(ratio).clamp(0, 1)
        count = _binomial_samples(own, Array(left), Array(odds), tuple(left.shape), left.dtype)
        return Array(left - count), Array(count)

    counts = control_flow.scan(fall, Array(trials.contiguous()), (Array(ratios), keys), unroll=unroll)[1]
    target = (
        dtypes.to_torch(dtypes.requested_dtype(np.float64 if dtype is None else dtype, "multinomial"))
        if dtype is not None
        else inner
    )
    return Array(convert(tensor_of(counts).movedim(0, -1), target))
