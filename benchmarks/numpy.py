"""jax.numpy on arrays of real size, eagerly and under jit."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .harness import Case

RNG = np.random.RandomState(0)
MATRIX = RNG.randn(1000, 1000).astype(np.float32)
MILLION = RNG.randn(1_000_000).astype(np.float32)
SMALL = RNG.randn(200, 200).astype(np.float32)
POSITIVE = SMALL @ SMALL.T + 200 * np.eye(200, dtype=np.float32)
INDICES = RNG.randint(0, 1_000_000, 1_000_000).astype(np.int32)
IMAGES = RNG.randn(8, 16, 32, 32).astype(np.float32)
FILTERS = RNG.randn(32, 16, 3, 3).astype(np.float32)


def _cases(name: str, function: Callable[..., Any], *inputs: np.ndarray) -> list[Case]:
    def eager(jax: Any) -> Any:
        args = [jax.numpy.asarray(a) for a in inputs]
        return lambda: function(jax, *args)

    def jitted(jax: Any) -> Any:
        args, f = [jax.numpy.asarray(a) for a in inputs], jax.jit(lambda *a: function(jax, *a))
        return lambda: f(*args)

    return [Case(f"{name}, eager", eager), Case(f"{name}, jit", jitted)]


def layernorm(jax: Any, x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / jax.numpy.sqrt(x.var(-1, keepdims=True) + 1e-5)


CASES = [
    *_cases("sum", lambda j, x: x.sum(), MATRIX),
    *_cases("sum along an axis", lambda j, x: x.sum(0), MATRIX),
    *_cases("max along an axis", lambda j, x: x.max(1), MATRIX),
    *_cases("softmax", lambda j, x: j.nn.softmax(x), MATRIX),
    *_cases("layernorm", layernorm, MATRIX),
    *_cases("sort 1M", lambda j, x: j.numpy.sort(x), MILLION),
    *_cases("cumsum 1M", lambda j, x: j.numpy.cumsum(x), MILLION),
    *_cases("matmul 1000", lambda j, x: x @ x, MATRIX),
    *_cases("einsum ij,kj,kl->il 200", lambda j, x: j.numpy.einsum("ij,kj,kl->il", x, x, x), SMALL),
    *_cases("gather 1M", lambda j, x, i: x[i], MILLION, INDICES),
    *_cases("scatter-add 1M", lambda j, x, i: j.numpy.zeros_like(x).at[i].add(x), MILLION, INDICES),
    *_cases("fft 2^18", lambda j, x: j.numpy.fft.fft(x[: 2**18]), MILLION),
    *_cases("cholesky 200", lambda j, x: j.numpy.linalg.cholesky(x), POSITIVE),
    *_cases("solve 200", lambda j, x: j.numpy.linalg.solve(x, x), POSITIVE),
    *_cases("eigh 200", lambda j, x: j.numpy.linalg.eigh(x), POSITIVE),
    *_cases("svd 200", lambda j, x: j.numpy.linalg.svd(x), SMALL),
    *_cases("conv 8 x 16 x 32 x 32", lambda j, x, w: j.lax.conv_general_dilated(x, w, (1, 1), "SAME"), IMAGES, FILTERS),
]
