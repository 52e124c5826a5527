"""Gamma samples, by rejection, and the distributions made of them.

Marsaglia and Tsang, "A simple method for generating gamma variables" (2000), with JAX's choice of keys: every element
has a key of its own, and takes as many rounds as it needs. The sampler is one structured primitive, whose derivative in
the shape parameter is implicit: that of the sample at a fixed quantile (`lax.random_gamma_grad`).
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._compile.kernels import FEW_BLOCKS, Kernel
from .._compile.lowering import is_lowering, while_loop
from .._compile.structured import Opaque
from .._core import dtypes
from .._core.array import Array, as_array, tensor_of
from .._core.boxes import Box
from .._core.graph import TensorType
from .._core.operations import Keys, shown_as
from .._core.primitive import Dims, batch_front
from .._core.target import Target
from .._core.typing import ArrayLike, DTypeLike, Shape
from .._devices.shardings import NamedSharding, PartitionSpec
from .._jaxprs.primitive import define
from .._lax.special import gamma_slope
from .._tensors import xla_arithmetic as xla
from . import lanes
from .arguments import (
    check_castable,
    float_dtype,
    parameter,
    sample_shape,
)
from .draws import as_rows, grid_of
from .generators import PRNGImpl
from .key_array import KeyArray
from .key_dtype import KeyDType
from .keys import check_key, several
from .sharded import takes_out_sharding
from .uniforms import normal_sampler, real_normal, unit_sampler


class RandomGamma(Opaque):
    """Samples for keys (*batch, words) and shape parameters (*batch, count); their logarithms with `log_space`.

    With `total` they are a part of so many samples, and a third input says which ones (`draws.positions_in`).
    """

    __name__ = "random_gamma"

    def __init__(self, impl: PRNGImpl, log_space: bool, total: int | None = None) -> None:
        self.impl, self.log_space, self.total = impl, log_space, total

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(inputs[1])]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        keys, alphas, *grid = inputs
        count = alphas.shape[-1]
        if not alphas.numel():
            return [torch.empty_like(alphas)]
        flat, words = alphas.reshape(-1, count), keys.reshape(-1, keys.shape[-1])
        samples = torch.empty_like(flat)
        made = None if lanes.are_together(self.impl) else self._spread(words, count, slice(0, count), grid)
        for rows, part in lanes.blocks(flat.shape[0], count):
            own = self._spread(words[rows], count, part, grid) if made is None else made[rows, part]
            samples[rows, part] = _gammas(self.impl, own, flat[rows, part], self.log_space)
        return [samples.reshape(alphas.shape)]

    def spelled_out(self, target: Target, *inputs: Tensor) -> list[Tensor]:
        keys, alphas, *grid = inputs
        count = alphas.shape[-1]
        if not alphas.numel():
            return [torch.empty_like(alphas)]
        flat, words = alphas.reshape(-1, count), keys.reshape(-1, keys.shape[-1])
        own = self._spread(words, count, slice(0, count), grid)
        return [_gammas(self.impl, own, flat, self.log_space).reshape(alphas.shape)]

    def _spread(self, words: Tensor, count: int, part: slice, grid: Sequence[Tensor]) -> Tensor:
        """Return the keys of a part of the `count` samples of each lane: (lanes, samples, words)."""
        if lanes.are_together(self.impl):
            return lanes.spread(self.impl, words, self.total or count, part, *grid)
        return torch.func.vmap(lambda k: self.impl.split(k, (count,)))(words)[:, part]

    def part(self, index: int, box: Box, types: Sequence[TensorType]) -> Any:
        keys, alphas = types[:2]
        outer, inner = box.split(len(alphas.shape) - 1)
        count = alphas.shape[-1]
        same = math.prod(inner.shape) == count and outer.shape == alphas.shape[:-1]
        if self.total is not None or not same or not lanes.are_together(self.impl):
            return None

        def run(keys: Tensor, part: Tensor) -> Tensor:
            grid = grid_of(inner, keys.device)
            return RandomGamma(self.impl, self.log_space, count)(keys, as_rows(part, alphas, inner), grid)[0]

        return [outer.joined(Box.whole(keys.shape[-1:])), box], run

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        return self(*(batch_front(t, d, size) for t, d in zip(inputs, dims, strict=True))), [0]

    def _slope(self, alpha: Tensor, sample: Tensor) -> Tensor:
        if not self.log_space:
            return gamma_slope(alpha, sample)
        sample = torch.exp(sample)
        sample = torch.where(sample == 0, torch.finfo(sample.dtype).tiny, sample)
        return gamma_slope(alpha, sample) / sample

    def pushed(
        self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]
    ) -> tuple[Sequence[Tensor], Sequence[Tensor | None]]:
        tangent, results = tangents[1], self(*primals)
        return results, [None if tangent is None else tangent * self._slope(primals[1], results[0])]

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        cotangent = cotangents[0]
        slope = None if cotangent is None else cotangent * self._slope(primals[1], results[0])
        return [None, slope, *(None for _ in primals[2:])]


def _gammas(impl: PRNGImpl, keys: Tensor, alphas: Tensor, log_space: bool) -> Tensor:
    """Return samples for shape parameters, each with a key of its own: keys (*shape, words)."""
    shape, alphas = alphas.shape, alphas.reshape(-1)
    own = lanes.words_of(keys.reshape(-1, keys.shape[-1]))
    (words,), (d, c, uniforms) = lanes.run(impl, _prepare, own, alphas)
    v = (_accepted_together if is_lowering() else _accepted)(impl, words, d, c)
    return (_LOGARITHMS if log_space else _SAMPLES)(alphas.shape[0], alphas, d, v, uniforms)[0].reshape(shape)


def _prepare(draws: lanes.Draws, keys: lanes.Words, alpha: Tensor) -> tuple[list[lanes.Words], list[Tensor]]:
    keys, boost_keys = draws.split(keys, 2)
    d = torch.where(alpha >= 1, alpha, alpha + 1) - (1.0 / 3.0)
    c = torch.rsqrt(d.double()).to(alpha.dtype) * (1.0 / 3.0)
    return [keys], [d, c, draws.sample(unit_sampler(alpha.dtype), boost_keys)]


def _propose(draws: lanes.Draws, keys: lanes.Words, c: Tensor) -> tuple[list[lanes.Words], list[Tensor]]:
    """Return normals x and v = 1 + c x, and whether v is not positive, so that another one is to be drawn."""
    keys, own = draws.split(keys, 2)
    x = draws.sample(normal_sampler(c.dtype), own)
    v = xla.fma(x, c, 1.0)
    return [keys], [x, v, v <= 0]


def _judge(x: Tensor, v: Tensor, u: Tensor, d: Tensor) -> list[Tensor]:
    """Return v cubed, and whether it is rejected."""
    square, cube = x * x, v * v * v
    bound = xla.fma(d, (1.0 - cube) + xla.log(cube), square * 0.5)
    return [cube, (u >= xla.fma(square * square, -0.0331, 1.0)) & (xla.log(u) >= bound)]


def _round(draws: lanes.Draws, keys: lanes.Words, d: Tensor, c: Tensor) -> tuple[list[lanes.Words], list[Tensor]]:
    keys, normal_keys, uniform_keys = draws.split(keys, 3)
    (normal_keys,), (x, v, negative) = _propose(draws, normal_keys, c)
    u = draws.sample(unit_sampler(d.dtype), uniform_keys)
    return [keys, normal_keys], [*_judge(x, v, u, d), u, negative]


def _finish(alpha: Tensor, d: Tensor, v: Tensor, uniforms: Tensor) -> list[Tensor]:
    boost = torch.where(alpha >= 1, 1.0, torch.pow(1 - uniforms, 1.0 / alpha))
    return [d * v * boost]


def _finish_logarithms(alpha: Tensor, d: Tensor, v: Tensor, uniforms: Tensor) -> list[Tensor]:
    logs = xla.log1p(-uniforms)
    boost = torch.where((alpha >= 1) | (logs == 0), 0.0, logs * (1.0 / alpha))
    return [xla.log(d) + xla.log(v) + boost]


def _kernel(function: Any) -> Kernel:
    return Kernel(lambda positions, *rows: function(*rows), shared=0, blocks=FEW_BLOCKS)


_JUDGED, _SAMPLES, _LOGARITHMS = map(_kernel, (_judge, _finish, _finish_logarithms))


def _accepted(impl: PRNGImpl, keys: lanes.Words, d: Tensor, c: Tensor) -> Tensor:
    """Return the accepted V of each lane; lanes drop out as soon as they have one."""
    found = torch.ones_like(d)
    active = torch.arange(d.shape[0], device=d.device)
    while active.numel():
        (keys, normal_keys), (cube, rejected, u, negative) = lanes.run(impl, _round, keys, d, c)
        again = negative.nonzero().squeeze(1)
        if again.numel():
            x, v = _positive(impl, [k[again] for k in normal_keys], c[again])
            redone = _JUDGED(again.numel(), x, v, u[again], d[again])
            cube[again], rejected[again] = redone
        found[active] = cube
        left = rejected.nonzero().squeeze(1)
        active, keys, d, c = active[left], [k[left] for k in keys], d[left], c[left]
    return found


def _accepted_together(impl: PRNGImpl, keys: lanes.Words, d: Tensor, c: Tensor) -> Tensor:
    """Return what `_accepted` does, all lanes going on until the last one has its V."""

    def step(active: Tensor, found: Tensor, *rest: Tensor) -> list[Tensor]:
        words, (d, c) = rest[:-2], rest[-2:]
        (words, normal_keys), (cube, rejected, u, negative) = lanes.run(impl, _round, words, d, c)
        x, v = _positive_together(impl, normal_keys, active & negative, c)
        redone, rejected_again = _JUDGED(d.shape[0], x, v, u, d)
        accepted = active & ~torch.where(negative, rejected_again, rejected)
        return [active & ~accepted, torch.where(accepted, torch.where(negative, redone, cube), found), *words]

    start = [torch.ones_like(d, dtype=torch.bool), torch.ones_like(d), *keys]
    return while_loop(lambda active, *_: active.any(), step, start, [d, c])[1]


def _positive_together(impl: PRNGImpl, keys: lanes.Words, wanted: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Return what `_positive` does for the lanes that are wanted."""

    def step(active: Tensor, x: Tensor, v: Tensor, *rest: Tensor) -> list[Tensor]:
        words, c = rest[:-1], rest[-1]
        (words,), (new_x, new_v, negative) = lanes.run(impl, _propose, words, c)
        return [active & negative, torch.where(active, new_x, x), torch.where(active, new_v, v), *words]

    start = [wanted, torch.zeros_like(c), torch.zeros_like(c), *keys]
    _, x, v, *_ = while_loop(lambda active, *_: active.any(), step, start, [c])
    return x, v


def _positive(impl: PRNGImpl, keys: lanes.Words, c: Tensor) -> tuple[Tensor, Tensor]:
    """Return normals x and v = 1 + c x of each lane, drawn until v is positive."""
    xs, vs = torch.zeros_like(c), torch.zeros_like(c)
    active = torch.arange(c.shape[0], device=c.device)
    while active.numel():
        (keys,), (x, v, negative) = lanes.run(impl, _propose, keys, c)
        xs[active], vs[active] = x, v
        again = negative.nonzero().squeeze(1)
        active, keys, c = active[again], [k[again] for k in keys], c[again]
    return xs, vs


def gamma_tensor(key: KeyArray, alpha: Tensor, shape: tuple[int, ...], log_space: bool) -> Tensor:
    """Return gamma samples, or their logarithms, for a shape parameter that broadcasts to `shape`."""
    return _drawn(tensor_of(key), alpha.expand(shape), key._impl, log_space)


@shown_as(
    "random_gamma",
    lambda key, alpha, impl, log_space: {"log_space": log_space},
    lambda key, alpha, impl, log_space: Keys(taken=KeyDType(impl)),
)
def _drawn(key: Tensor, alpha: Tensor, impl: PRNGImpl, log_space: bool) -> Tensor:
    return RandomGamma(impl, log_space)(key, alpha.reshape(-1))[0].reshape(alpha.shape)


define(
    "random_gamma",
    lambda key, a, *, log_space: Array(
        gamma_tensor(check_key("gamma", key)[0], tensor_of(as_array(a)), as_array(a).shape, log_space)
    ),
)


@takes_out_sharding
def gamma(
    key: ArrayLike,
    a: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return samples of the gamma distribution of rate 1 and shape parameter `a`, which broadcasts to `shape`.

    Differentiable in `a`. Raises `ValueError` for dtypes that are not floating and shapes that do not broadcast.
    """
    return _gamma("gamma", key, a, shape, dtype, False)


@takes_out_sharding
def loggamma(
    key: ArrayLike,
    a: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return logarithms of gamma samples, which do not underflow for small `a`; else like `gamma`."""
    return _gamma("loggamma", key, a, shape, dtype, True)


def _gamma(name: str, key: Any, a: Any, shape: Any, dtype: Any, log_space: bool) -> Array:
    typed, _ = check_key(name, key)
    target = dtypes.to_torch(float_dtype("gamma", dtype))
    alpha = parameter("gamma", a, target, typed)
    return Array(gamma_tensor(typed, alpha, sample_shape("gamma", shape, alpha), log_space))


@takes_out_sharding
def beta(
    key: ArrayLike,
    a: ArrayLike,
    b: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return samples of the beta distribution with parameters `a` and `b`, which broadcast to `shape`."""
    typed, target, sizes = _made_of_gammas("beta", key, shape, dtype, a, b)
    key_a, key_b = several(typed, 2)
    log_a = gamma_tensor(key_a, parameter("beta", a, target, typed), sizes, True)
    log_b = gamma_tensor(key_b, parameter("beta", b, target, typed), sizes, True)
    top = torch.maximum(log_a, log_b)
    scaled_a, scaled_b = xla.exp(log_a - top), xla.exp(log_b - top)
    return Array(scaled_a / (scaled_a + scaled_b))


@takes_out_sharding
def chisquare(
    key: ArrayLike,
    df: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return samples of the chi-square distribution with `df` degrees of freedom, which broadcast to `shape`."""
    typed, target, sizes = _made_of_gammas("chisquare", key, shape, dtype, df)
    return Array(_chisquare(typed, parameter("chisquare", df, target, typed), sizes))


def _chisquare(key: KeyArray, df: Tensor, shape: tuple[int, ...]) -> Tensor:
    return xla.exp(gamma_tensor(key, df / 2, shape, True)) * 2


@takes_out_sharding
def f(
    key: ArrayLike,
    dfnum: ArrayLike,
    dfden: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return samples of the F distribution: a ratio of two chi-squares, each by its degrees of freedom."""
    typed, target, sizes = _made_of_gammas("f", key, shape, dtype, dfnum, dfden)
    above, below = parameter("f", dfnum, target, typed), parameter("f", dfden, target, typed)
    key_below, key_above = several(typed, 2)
    numerator, denominator = _chisquare(key_above, above, sizes), _chisquare(key_below, below, sizes)
    return Array((numerator / above) / (denominator / below))


@takes_out_sharding
def t(
    key: ArrayLike,
    df: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return samples of Student's t distribution with `df` degrees of freedom, which broadcast to `shape`."""
    typed, target, sizes = _made_of_gammas("t", key, shape, dtype, df)
    normal_key, gamma_key = several(typed, 2)
    half = parameter("t", df, target, typed) / 2
    g = gamma_tensor(gamma_key, half, sizes, False)
    return Array(real_normal(normal_key, sizes, target) * torch.sqrt(half / g))


@takes_out_sharding
def dirichlet(
    key: ArrayLike,
    alpha: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return samples of the Dirichlet distribution: vectors along the last axis of `alpha`, which sum to 1.

    `shape` is that of the samples without the last axis. Raises `ValueError` for a scalar alpha.
    """
    typed, _ = check_key("dirichlet", key)
    target = dtypes.to_torch(float_dtype("dirichlet", dtype))
    weights = parameter("dirichlet", alpha, target, typed)
    if not weights.dim():
        raise ValueError("dirichlet requires alpha.ndim >= 1, got alpha.ndim == 0")
    sizes = sample_shape("dirichlet", shape, weights[..., 0] if weights.shape[-1] else np.empty(weights.shape[:-1]))
    logs = gamma_tensor(typed, weights, (*sizes, weights.shape[-1]), True)
    if not weights.shape[-1]:
        return Array(logs)
    raised = xla.exp(logs - logs.detach().amax(-1, keepdim=True))
    return Array(raised / raised.sum(-1, keepdim=True))


def _made_of_gammas(
    name: str, key: Any, shape: Any, dtype: Any, *values: Any
) -> tuple[KeyArray, torch.dtype, tuple[int, ...]]:
    typed, _ = check_key(name, key)
    found = float_dtype(name, dtype)
    check_castable(name, found, *values)
    return typed, dtypes.to_torch(found), sample_shape(name, shape, *values)
