"""Poisson and binomial samples: numbers of events, by inversion for small means and by rejection for large ones.

Knuth's multiplication and Hörmann, "The transformed rejection method for generating Poisson random variables" (1993),
for the Poisson distribution; geometric gaps (Devroye 1986) and Hörmann, "The generation of binomial random variables"
(1993), for the binomial one. A round draws for all elements of an array, from one key; rounds go on until the last
element has its sample, and until then an accepted element may be replaced by another. So it is in JAX, and so the
samples depend on the whole array. A batch of arrays does its rounds together; each stops for itself.

Long arrays go block by block, so that little but the samples is in memory: each block until it is done; then, where
another block took more rounds, the rest of them.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._compile.lowering import while_loop
from .._compile.structured import Opaque
from .._core import dtypes
from .._core.array import Array, as_array, check_arraylike, tensor_of
from .._core.dimensions import broadcast_shape
from .._core.extended import refuse
from .._core.graph import TensorType
from .._core.primitive import Dims, Undifferentiated, batch_front
from .._core.promotion import convert
from .._core.target import Target
from .._core.typing import ArrayLike, DTypeLike, Shape
from .._devices.shardings import NamedSharding, PartitionSpec
from .._lax import control_flow
from .._tensors import xla_arithmetic as xla
from . import lanes
from .arguments import check_shape, count_dtype, float_dtype, parameter, sample_shape, static_shape
from .draws import Bits, Draw, Sampler
from .generators import PRNGImpl, threefry_prng_impl
from .key_array import KeyArray
from .keys import check_key
from .primitives import random_split
from .sharded import takes_out_sharding
from .uniforms import bits_per_float, unit


@dataclass(frozen=True)
class _Course:
    """The rounds that make a block of samples: a state (lanes, count) and constants (lanes, 1 or count) go into each."""

    sampler: Sampler
    state: list[Tensor]
    constants: list[Tensor]
    unfinished: Callable[[list[Tensor], list[Tensor]], Tensor]
    next_key: int = 0  # which of the keys that a round splits its own into is that of the next one


class _Rounds(Undifferentiated, Opaque):
    """`count` samples for keys (*batch, words) and parameters (*batch, 1 or count). They have no derivative."""

    def __init__(self, impl: PRNGImpl, dtype: torch.dtype, count: int) -> None:
        self.impl, self.dtype, self.count = impl, dtype, count

    @property
    def limit(self) -> float:
        """How many rounds there are at most."""
        raise NotImplementedError

    def inverted(self, *parameters: Tensor) -> Tensor:
        """Return which samples come by inversion; the others come by rejection."""
        raise NotImplementedError

    def inversion(self, shape: tuple[int, ...], inverted: Tensor, *parameters: Tensor) -> _Course:
        """Return the rounds of those that come by inversion. Its state is first the sample and one, and stays at it."""
        raise NotImplementedError

    def rejection(self, shape: tuple[int, ...], inverted: Tensor, *parameters: Tensor) -> _Course:
        """Return the rounds of the others. Its state is the sample, and whether there is one: the last one counts."""
        raise NotImplementedError

    def finished(self, found: Tensor, *parameters: Tensor) -> Tensor:
        """Return the samples, of the result's dtype, for what the rounds have found."""
        raise NotImplementedError

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        shapes = {x.shape[:-1] for x in inputs}
        batch = shapes.pop() if len(shapes) == 1 else broadcast_shape(*shapes)
        return [TensorType((*batch, self.count), self.dtype, inputs[0].device)]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        (type,) = self.out_types(*inputs)
        samples = torch.empty(type.shape, dtype=type.dtype, device=type.device)
        if not samples.numel():
            return [samples]
        keys, *parameters = (x.expand(*type.shape[:-1], x.shape[-1]).reshape(-1, x.shape[-1]) for x in inputs)
        flat = samples.view(-1, self.count)
        for rows, blocks in itertools.groupby(self._blocks(len(flat)), lambda block: block[0]):
            self._fill(flat[rows], keys[rows], [p[rows] for p in parameters], [part for _, part in blocks])
        return [samples]

    def spelled_out(self, target: Target, *inputs: Tensor) -> list[Tensor]:
        (type,) = self.out_types(*inputs)
        keys, *parameters = (x.expand(*type.shape[:-1], x.shape[-1]).reshape(-1, x.shape[-1]) for x in inputs)
        inverted, shape = self.inverted(*parameters), (keys.shape[0], self.count)
        (first, _) = self._until_all_done(self.inversion(shape, inverted, *parameters), keys)
        (second, _) = self._until_all_done(self.rejection(shape, inverted, *parameters), keys)
        samples = torch.where(inverted, self.finished(first - 1, *parameters), self.finished(second, *parameters))
        return [samples.reshape(type.shape)]

    def _until_all_done(self, course: _Course, keys: Tensor) -> list[Tensor]:
        """Return the state after the rounds that each lane needs, in one loop of all lanes."""
        states, chain, whole = len(course.state), _Keys(self.impl, False), slice(0, self.count)
        limit = min(self.limit, torch.iinfo(torch.int64).max)

        def lanes_left(values: Sequence[Tensor]) -> Tensor:
            return course.unfinished(list(values[:states]), list(values[states:])).any(-1, keepdim=True)

        def going(done: Tensor, words: Tensor, *values: Tensor) -> Tensor:
            return lanes_left(values).any() & (done < limit)

        def step(done: Tensor, words: Tensor, *values: Tensor) -> list[Tensor]:
            old, held = list(values[:states]), list(values[states:])
            # The number of the round matters where rounds are kept, which they are not.
            keys, new = self._round(course, chain, 0, words.view(torch.uint32), whole, old, held)
            left = lanes_left(values)
            kept = [torch.where(left, n, o) for n, o in zip(new, old, strict=True)]
            return [done + 1, keys.view(torch.int32), *kept]

        done = torch.zeros((), dtype=torch.int64, device=keys.device)
        return while_loop(going, step, [done, keys.view(torch.int32), *course.state], course.constants)[2:]

    def _blocks(self, rows: int) -> Iterable[tuple[slice, slice]]:
        # Other generators draw for a whole array only.
        if lanes.are_together(self.impl):
            return lanes.blocks(rows, self.count)
        return [(slice(0, rows), slice(0, self.count))]

    def _fill(self, samples: Tensor, keys: Tensor, parameters: list[Tensor], parts: list[slice]) -> None:
        """Fill in the samples (lanes, count) of some lanes, of a single one where there are several parts."""

        def pieces() -> Iterator[tuple[slice, Tensor, Tensor, list[Tensor]]]:
            for part in parts:
                own = [p if p.shape[-1] == 1 else p[:, part] for p in parameters]
                yield part, samples[:, part], self.inverted(*own), own

        rejected = False
        chain = _Keys(self.impl, len(parts) > 1)
        for part, block, inverted, own in pieces():
            rejected |= not bool(inverted.all())
            if bool(inverted.any()):
                course = self.inversion(block.shape, inverted, *own)
                (found, _), _ = self._to_the_end(course, chain, keys, part)
                block.copy_(self.finished(found - 1, *own))
        if not rejected:
            return
        chain = _Keys(self.impl, len(parts) > 1)
        rounds = []
        for part, block, inverted, own in pieces():
            course = self.rejection(block.shape, inverted, *own)
            (found, _), done = self._to_the_end(course, chain, keys, part)
            block.copy_(torch.where(inverted, block, self.finished(found, *own)))
            rounds.append(done)
        for done, (part, block, inverted, own) in zip(rounds, pieces(), strict=True):
            if done < max(rounds) and not bool(inverted.all()):
                course = self.rejection(block.shape, inverted, *own)
                found, again = self._further(course, chain, keys, part, range(done, max(rounds)))
                block.copy_(torch.where(again & ~inverted, self.finished(found, *own), block))

    def _to_the_end(self, course: _Course, chain: "_Keys", keys: Tensor, part: slice) -> tuple[list[Tensor], int]:
        """Return the state after the rounds that each lane needs, and how many were done."""
        active = torch.arange(keys.shape[0], device=keys.device)
        state, working, held = course.state, list(course.state), list(course.constants)
        done = 0
        while done < self.limit:
            going = course.unfinished(working, held).any(-1)
            if not bool(going.all()):
                state = [s.index_copy(0, active, w) for s, w in zip(state, working, strict=True)]
                active, keys = active[going], keys.view(torch.int32)[going].view(torch.uint32)
                working, held = [w[going] for w in working], [h[going] for h in held]
                if not active.numel():
                    return state, done
            keys, working = self._round(course, chain, done, keys, part, working, held)
            done += 1
        return [s.index_copy(0, active, w) for s, w in zip(state, working, strict=True)], done

    def _further(self, course: _Course, chain: "_Keys", keys: Tensor, part: slice, numbers: range) -> list[Tensor]:
        """Return the state after the rounds of these numbers."""
        state = course.state
        for number in numbers:
            keys, state = self._round(course, chain, number, keys, part, state, course.constants)
        return state

    def _round(
        self, course: _Course, chain: "_Keys", number: int, keys: Tensor, part: slice,
        state: list[Tensor], constants: list[Tensor],
    ) -> tuple[Tensor, list[Tensor]]:  # fmt: skip
        keys, own = chain.split(number, keys, len(course.sampler.bits), course.next_key)
        count = part.stop - part.start
        if count == self.count:
            return keys, lanes.drawn(self.impl, course.sampler, own, count, *state, *constants)
        start = torch.full((1,), part.start, dtype=torch.int64, device=keys.device)
        words = torch.cat([k.view(torch.int32) for k in own])
        drawn = Draw(course.sampler, count, self.count)(words, start, *(x[0] for x in (*state, *constants)))
        return keys, [x.unsqueeze(0) for x in drawn]

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        fronted = [t.unsqueeze(0) if d is None else batch_front(t, d, size) for t, d in zip(inputs, dims, strict=True)]
        return self(*fronted), [0]


class _Keys:
    """The keys of one round after the other, which are kept where several blocks need them."""

    def __init__(self, impl: PRNGImpl, kept: bool) -> None:
        self._impl = impl
        self._kept: list[tuple[Tensor, list[Tensor]]] | None = [] if kept else None

    def split(self, number: int, keys: Tensor, count: int, next_key: int) -> tuple[Tensor, list[Tensor]]:
        """Return the keys that the round of this number leaves, and the `count` ones that it draws with."""
        if self._kept is not None and number < len(self._kept):
            return self._kept[number]
        made = lanes.split(self._impl, keys, count + 1)
        found = made.pop(next_key), made
        if self._kept is not None:
            self._kept.append(found)
        return found


# Poisson


class _Poisson(_Rounds):
    """Samples of the Poisson distribution, of a mean."""

    __name__ = "poisson"

    @property
    def limit(self) -> float:
        return torch.iinfo(self.dtype).max

    def inverted(self, *parameters: Tensor) -> Tensor:
        (lam,) = parameters
        return torch.isnan(lam) | (lam < 10)

    def inversion(self, shape: tuple[int, ...], inverted: Tensor, *parameters: Tensor) -> _Course:
        lam = torch.where(inverted, parameters[0], 0.0)
        state = [torch.zeros(shape, dtype=self.dtype, device=lam.device), lam.new_zeros(shape)]
        return _Course(_multiplied(self.dtype), state, [lam], lambda state, held: state[1] > -held[0])

    def rejection(self, shape: tuple[int, ...], inverted: Tensor, *parameters: Tensor) -> _Course:
        lam = torch.where(inverted, 1e5, parameters[0])
        root = xla.sqrt(lam)
        b = xla.fma(root, 2.53, 0.931)
        a = xla.fma(b, 0.02483, -0.059)
        # b - 3.4 and b - 2, by one rounding: XLA adds the two constants.
        inverse_alpha = 1.1239 + xla.quotient(1.1328, xla.fma(root, 2.53, _difference(0.931, 3.4)))
        v_r = 0.9277 - xla.quotient(3.6224, xla.fma(root, 2.53, _difference(0.931, 2.0)))
        constants = [lam, xla.log(lam), a, b, inverse_alpha, v_r]
        return _Course(_PROPOSED_POISSON, _none_yet(lam, shape), constants, lambda state, held: ~state[1])

    def finished(self, found: Tensor, *parameters: Tensor) -> Tensor:
        return convert(torch.where(parameters[0] == 0, torch.zeros_like(found), found), self.dtype)


def _difference(a: float, b: float) -> float:
    return float(np.float32(a) - np.float32(b))


def _none_yet(like: Tensor, shape: tuple[int, ...]) -> list[Tensor]:
    return [like.new_full(shape, -1), torch.zeros(shape, dtype=torch.bool, device=like.device)]


@functools.cache
def _multiplied(dtype: torch.dtype) -> Sampler:
    def step(raw: Tensor, k: Tensor, log_product: Tensor, lam: Tensor) -> tuple[Tensor, Tensor]:
        return torch.where(log_product > -lam, k + 1, k), log_product + xla.log(unit(raw, torch.float32))

    return Sampler(f"poisson_multiplied_{dtype}", step, (dtype, torch.float32))


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
        total = total + xla.quotient(coefficient, k + (i + 1))
    log_t = xla.log1p(k * float(np.float32(1 / 7.5))) + math.log(7.5)
    power = (k + 0.5) - (k + 7.5) / log_t
    return xla.fma(power, log_t, math.log(2 * math.pi) / 2) + xla.log(total)


@takes_out_sharding
def poisson(
    key: ArrayLike,
    lam: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return samples of the Poisson distribution of mean `lam`, which broadcasts to `shape`, in an integer `dtype`.

    NaN gives -1. Raises `NotImplementedError` for keys other than threefry's.
    """
    typed, _ = check_key("poisson", key)
    found = count_dtype("poisson", dtype)
    if typed._impl is not threefry_prng_impl:
        raise NotImplementedError(f"`poisson` is only implemented for the threefry2x32 RNG, not {typed._impl}")
    mean = parameter("poisson", lam, torch.float32, typed)
    sizes = sample_shape("poisson", shape, mean)
    target = dtypes.to_torch(found)
    # torch does not add wide unsigned integers.
    wide = target in (torch.uint16, torch.uint32, torch.uint64)
    draw = _Poisson(typed._impl, torch.int64 if wide else target, math.prod(sizes))
    samples = draw(tensor_of(typed), _row(mean, sizes))[0].reshape(sizes)
    if wide:
        samples = samples.clamp(max=min(torch.iinfo(target).max, 2**63 - 1))
    return Array(convert(samples, target))


def _row(parameter: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return a parameter as a row of one number, or of as many as there are samples."""
    held = parameter.detach()
    return held.reshape(1) if held.numel() == 1 else held.expand(shape).reshape(-1)


# Binomial


class _Binomial(_Rounds):
    """Samples of the binomial distribution, of a number of trials and a probability."""

    __name__ = "binomial"

    @property
    def limit(self) -> float:
        return torch.finfo(self.dtype).max

    def inverted(self, *parameters: Tensor) -> Tensor:
        count, odds = parameters
        return ~(count >= 0) | (count * _lower(odds) <= 10.0)

    def inversion(self, shape: tuple[int, ...], inverted: Tensor, *parameters: Tensor) -> _Course:
        count, odds = torch.where(inverted, torch.floor(parameters[0]), 0.0), _lower(parameters[1])
        state = [odds.new_zeros(shape), odds.new_zeros(shape)]
        constants = [count, xla.log1p(-odds)]
        return _Course(_gaps(odds.dtype), state, constants, lambda state, held: state[1] <= held[0], next_key=1)

    def rejection(self, shape: tuple[int, ...], inverted: Tensor, *parameters: Tensor) -> _Course:
        count = torch.where(inverted, 1e4, torch.floor(parameters[0]))
        odds = torch.where(inverted, 0.5, _lower(parameters[1]))
        deviation = xla.sqrt(count * odds * (1 - odds))
        b = xla.fma(deviation, 2.53, 1.15)
        a = xla.fma(odds, 0.01, xla.fma(b, 0.0248, -0.0873))
        centre = xla.fma(count, odds, 0.5)
        alpha = (2.83 + xla.quotient(5.1, b)) * deviation
        mode = torch.floor((count + 1) * odds)
        constants = [count, a, b, centre, 0.92 - xla.quotient(4.2, b), odds / (1 - odds), alpha, mode]
        return _Course(_proposed_binomial(odds.dtype), _none_yet(odds, shape), constants, lambda state, held: ~state[1])

    def finished(self, found: Tensor, *parameters: Tensor) -> Tensor:
        count, odds = parameters
        bad_count, infinite = ~(count >= 0), torch.isinf(count)
        invalid = bad_count | ~((odds >= 0) & (odds <= 1))
        samples = torch.where(invalid, torch.nan, found.to(self.dtype))
        samples = torch.where(infinite & ~invalid, torch.inf, samples)
        kept = (odds < 0.5) | bad_count | torch.isnan(odds) | infinite
        return torch.where(kept, samples, torch.floor(count).to(self.dtype) - samples)


def _lower(odds: Tensor) -> Tensor:
    """Return the probability of the less likely outcome; 0.01 for what is no probability."""
    lower = torch.where(odds < 0.5, odds, 1.0 - odds)
    return torch.where(lower >= 0, lower, 0.01)


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
    series = (1.0 / 12 - (1.0 / 360 - xla.quotient(1.0 / 1260, square)) / square) / (held + 1)
    table = torch.full_like(k, _STIRLING[-1])
    for number, value in reversed([*enumerate(_STIRLING)]):
        table = torch.where(held < number + 1, value, table)
    return torch.where(k <= 9, table, series)


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


def binomial(
    key: ArrayLike, n: ArrayLike, p: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None
) -> Array:
    """Return how many of `n` trials of probability `p` succeed, in a floating `dtype`; n and p broadcast to `shape`.

    NaN where n is negative or p is no probability. Raises `ValueError` for other dtypes.
    """
    typed, _ = check_key("binomial", key)
    check_arraylike("binomial", n, p)
    refuse("binomial", (p,))
    found = float_dtype("binomial", dtype)
    sizes = sample_shape("binomial", None if shape is None else static_shape(shape), n, p)
    return Array(_binomial_samples(typed, n, p, sizes, dtypes.to_torch(found)))


def _binomial_samples(key: KeyArray, n: Any, p: Any, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    inner = dtypes.to_torch(dtypes.to_inexact(as_array(p).dtype))
    count, odds = (_row(parameter("binomial", x, inner, key), shape) for x in (n, p))
    draw = _Binomial(key._impl, dtype, math.prod(shape))
    return draw(tensor_of(key), count, odds)[0].reshape(shape)


def multinomial(
    key: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    *,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    unroll: int | bool = 1,
) -> Array:
    """Return how `n` trials fall into the categories of `p`, probabilities along the last axis.

    `shape` is that of the result, p's by default; n broadcasts to it without the last axis. `unroll` is that of
    `lax.scan`, which goes through the categories.
    """
    typed, _ = check_key("multinomial", key)
    check_arraylike("multinomial", n, p)
    common = dtypes.promote(*((as_array(x).dtype, as_array(x).weak_type) for x in (n, p)))[0]
    inner = dtypes.to_torch(dtypes.to_inexact(common))
    trials, odds = parameter("multinomial", n, inner, typed), parameter("multinomial", p, inner, typed)
    sizes = tuple(odds.shape) if shape is None else static_shape(shape)
    check_shape("multinomial", sizes, tuple(odds.shape))
    check_shape("multinomial", sizes[:-1], tuple(trials.shape))
    trials, odds = trials.expand(sizes[:-1]), odds.expand(sizes).movedim(-1, 0)
    remaining = odds.flip(0).cumsum(0).flip(0)
    ratios = odds / torch.where(remaining == 0, 1, remaining)
    keys = KeyArray(random_split(tensor_of(typed), typed._impl, (ratios.shape[0],)), typed._impl)

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
