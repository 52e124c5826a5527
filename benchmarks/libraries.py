"""JAX's libraries: `python -m benchmarks.libraries [CASE ...] [--rounds N] [--json FILE]`.

A library imported for jaxish computes by jaxish alone, so each figure is of a process of its own: one for JAX, one for jaxish with
empty caches, on the default tier. Both make their first call, and calls until nothing is being compiled any more; then they are timed
in turn, a round after another. The first call is the best of `--starts` pairs of processes. Geometric means end the table.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .harness import SECONDS_PER_ROUND

LIBRARIES = ("jax", "jaxish")
WIDTHS = ("16.1f", "9.1f", "7.2f", "14.3f", "9.3f", "7.2f")
SETTLING = (2.0, 180.0)  # seconds: calls for at least so long, and for no longer

Call = Callable[[], Any]


def _draw(*shape: int, scale: float = 1.0) -> np.ndarray:
    return scale * np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


# -- the cases: each sets up its data and returns what is called; libraries are imported where `import jax` is settled


def _adam(wrapper: Callable[[Any], Any]) -> Call:
    import optax
    from jax import numpy as jnp

    shapes = [(32, 64), (64,), (64, 32), (32,)]  # as those of a transformer's layers repeat
    params = {f"array {i}": jnp.asarray(_draw(*shapes[i % 4])) for i in range(100)}
    optimizer = optax.adam(1e-3)
    state = optimizer.init(params)

    @wrapper
    def step(params: Any, state: Any) -> Any:
        updates, state = optimizer.update(params, state, params)
        return optax.apply_updates(params, updates), state

    return lambda: step(params, state)


def adam_eagerly() -> Call:
    return _adam(lambda step: step)


def adam_jitted() -> Call:
    import jax

    return _adam(jax.jit)


def linen_mlp() -> Call:
    import jax
    import optax
    from flax import linen as nn
    from flax.training import train_state

    class Network(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            for width in (256, 256):
                x = nn.relu(nn.Dense(width)(x))
            return nn.Dense(10)(x)

    network, x, y = Network(), jax.numpy.asarray(_draw(64, 128)), jax.numpy.arange(64) % 10
    params = network.init(jax.random.key(0), x)
    state = train_state.TrainState.create(apply_fn=network.apply, params=params, tx=optax.adam(1e-3))

    @jax.jit
    def step(state: Any, x: Any, y: Any) -> Any:
        def loss(params: Any) -> Any:
            return optax.softmax_cross_entropy_with_integer_labels(state.apply_fn(params, x), y).mean()

        value, gradient = jax.value_and_grad(loss)(state.params)
        return state.apply_gradients(grads=gradient), value

    return lambda: step(state, x, y)


def nnx_mlp() -> Call:
    import jax
    import optax
    from flax import nnx

    class Network(nnx.Module):
        def __init__(self, rngs: Any) -> None:
            self.layers = nnx.List([nnx.Linear(128, 256, rngs=rngs), nnx.Linear(256, 256, rngs=rngs)])
            self.out = nnx.Linear(256, 10, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            for layer in self.layers:
                x = nnx.relu(layer(x))
            return self.out(x)

    return _nnx_step(
        Network(nnx.Rngs(0)), jax.numpy.asarray(_draw(64, 128)), jax.numpy.arange(64) % 10, optax.adam(1e-3)
    )


def nnx_transformer() -> Call:
    """Two layers of width 64, four heads, with dropout; 8 sequences of 32 tokens."""
    import jax
    import optax
    from flax import nnx

    class Block(nnx.Module):
        def __init__(self, rngs: Any) -> None:
            self.attention = nnx.MultiHeadAttention(4, 64, decode=False, rngs=rngs)
            self.norms = nnx.List([nnx.LayerNorm(64, rngs=rngs) for _ in range(2)])
            self.up, self.down = nnx.Linear(64, 256, rngs=rngs), nnx.Linear(256, 64, rngs=rngs)
            self.dropout = nnx.Dropout(0.1, rngs=rngs)

        def __call__(self, x: Any, mask: Any) -> Any:
            x = x + self.dropout(self.attention(self.norms[0](x), mask=mask))
            return x + self.dropout(self.down(nnx.gelu(self.up(self.norms[1](x)))))

    class Network(nnx.Module):
        def __init__(self, rngs: Any) -> None:
            self.symbols, self.places = nnx.Embed(100, 64, rngs=rngs), nnx.Embed(32, 64, rngs=rngs)
            self.blocks = nnx.List([Block(rngs) for _ in range(2)])
            self.norm, self.out = nnx.LayerNorm(64, rngs=rngs), nnx.Linear(64, 100, rngs=rngs)

        def __call__(self, tokens: Any) -> Any:
            x = self.symbols(tokens) + self.places(jax.numpy.arange(tokens.shape[1]))
            mask = nnx.make_causal_mask(tokens)
            for block in self.blocks:
                x = block(x, mask)
            return self.out(self.norm(x))

    tokens = jax.numpy.asarray(np.random.default_rng(0).integers(0, 100, (8, 33)))
    return _nnx_step(Network(nnx.Rngs(0)), tokens[:, :-1], tokens[:, 1:], optax.adamw(1e-3))


def _nnx_step(network: Any, x: Any, y: Any, transform: Any) -> Call:
    import optax
    from flax import nnx

    optimizer = nnx.Optimizer(network, transform, wrt=nnx.Param)

    @nnx.jit
    def step(network: Any, optimizer: Any, x: Any, y: Any) -> Any:
        def loss(network: Any) -> Any:
            return optax.softmax_cross_entropy_with_integer_labels(network(x), y).mean()

        value, gradient = nnx.value_and_grad(loss)(network)
        optimizer.update(network, gradient)
        return value

    return lambda: step(network, optimizer, x, y)


def haiku_lstm() -> Call:
    """The gradient of an LSTM of 64 over 50 steps of 8 sequences."""
    import haiku as hk
    import jax

    def unrolled(x: Any) -> Any:
        core = hk.LSTM(64)
        outputs, _ = hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))
        return hk.Linear(1)(outputs[-1])

    network, x = hk.without_apply_rng(hk.transform(unrolled)), jax.numpy.asarray(_draw(50, 8, 16))
    params = network.init(jax.random.key(0), x)
    gradient = jax.jit(jax.value_and_grad(lambda params, x: (network.apply(params, x) ** 2).mean()))
    return lambda: gradient(params, x)


def equinox_call() -> Call:
    """A module of 100 leaves through filter_jit."""
    import equinox as eqx
    import jax

    keys = jax.random.split(jax.random.key(0), 50)
    network = eqx.nn.Sequential([eqx.nn.Linear(8, 8, key=key) for key in keys])
    call, x = eqx.filter_jit(lambda network, x: network(x)), jax.numpy.asarray(_draw(8))
    return lambda: call(network, x)


def _lineax(wrapper: Callable[[Any], Any]) -> Call:
    import lineax as lx
    from jax import numpy as jnp

    x = _draw(20, 20)
    matrix, vector = jnp.asarray(x @ x.T + 20 * np.eye(20, dtype=np.float32)), jnp.asarray(_draw(20))
    solve = wrapper(lambda matrix, vector: lx.linear_solve(lx.MatrixLinearOperator(matrix), vector).value)
    return lambda: solve(matrix, vector)


def lineax_eagerly() -> Call:
    return _lineax(lambda solve: solve)


def lineax_jitted() -> Call:
    import jax

    return _lineax(jax.jit)


def optimistix_fit() -> Call:
    """Two rates of decay fitted by Levenberg and Marquardt's method."""
    import jax
    import optimistix as optx
    from jax import numpy as jnp

    times = jnp.linspace(0.0, 2.0, 50)
    wanted = jnp.exp(-times) + 0.5 * jnp.exp(-3 * times)
    solver = optx.LevenbergMarquardt(rtol=1e-5, atol=1e-5)

    @jax.jit
    def fit(start: Any, wanted: Any) -> Any:
        def residuals(rates: Any, _: Any) -> Any:
            return jnp.exp(-rates[0] * times) + 0.5 * jnp.exp(-rates[1] * times) - wanted

        return optx.least_squares(residuals, solver, start, throw=False).value

    start = jnp.array([0.5, 1.5])
    return lambda: fit(start, wanted)


def jaxopt_lbfgs() -> Call:
    import jaxopt
    from jax import numpy as jnp

    features = jnp.asarray(_draw(200, 10))
    labels = jnp.asarray(features @ jnp.asarray(_draw(10)) > 0, jnp.float32)

    def loss(w: Any, features: Any, labels: Any) -> Any:
        logits = features @ w
        return jnp.mean(jnp.logaddexp(0.0, logits) - labels * logits) + 0.05 * jnp.sum(w**2)

    solver, start = jaxopt.LBFGS(fun=loss, maxiter=50, tol=1e-4), jnp.zeros(10)
    return lambda: solver.run(start, features, labels).params


CASES: dict[str, Callable[[], Call]] = {
    "optax adam, 100 arrays, eager": adam_eagerly,
    "optax adam, 100 arrays, jit": adam_jitted,
    "flax linen mlp step": linen_mlp,
    "flax nnx mlp step": nnx_mlp,
    "flax nnx transformer step": nnx_transformer,
    "haiku lstm, gradient": haiku_lstm,
    "equinox filter_jit, 100 leaves": equinox_call,
    "lineax solve, eager": lineax_eagerly,
    "lineax solve, jit": lineax_jitted,
    "optimistix least squares, jit": optimistix_fit,
    "jaxopt lbfgs run": jaxopt_lbfgs,
}


# -- a process of one library, told by lines what to do


def serve(library: str, case: str) -> None:
    """Print the seconds of the first call, then those per call of a round for each line of input."""
    if library == "jaxish":
        from jaxish import dropin

        dropin.install()
    import jax

    call = CASES[case]()
    wait = jax.block_until_ready
    start = time.perf_counter()
    wait(call())
    print(time.perf_counter() - start, flush=True)
    count = 1
    for _ in sys.stdin:
        if count == 1:
            _settle(library, lambda: wait(call()))
            count = max(1, round(SECONDS_PER_ROUND / max(min(_per_call(call, wait, 1) for _ in range(3)), 1e-6)))
        print(_per_call(call, wait, count), flush=True)


def _per_call(call: Call, wait: Callable[[Any], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        wait(call())
    return (time.perf_counter() - start) / count


def _settle(library: str, call: Call) -> None:
    least, most = (time.perf_counter() + seconds for seconds in SETTLING)
    while (now := time.perf_counter()) < least or (library == "jaxish" and _is_compiling() and now < most):
        call()


def _is_compiling() -> bool:
    from jaxish._compile.background import compiler

    return compiler().is_busy


class Process:
    """A process that makes a case's calls under one library; its first has been made."""

    def __init__(self, library: str, case: str) -> None:
        self.caches = tempfile.TemporaryDirectory()
        environment = {k: v for k, v in os.environ.items() if k != "JAXISH_JIT_TIER"}
        environment |= {"JAXISH_CACHE_DIR": self.caches.name, "JAX_PLATFORMS": "cpu"}
        code = f"from benchmarks.libraries import serve; serve({library!r}, {case!r})"
        command = [sys.executable, "-c", code]
        self.process = subprocess.Popen(
            command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.first = self._answer()

    def round(self) -> float:
        """Return the seconds that a call takes in another round; before the first it settles."""
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self._answer()

    def end(self) -> None:
        """End the process, throw its caches away."""
        self.process.communicate()
        self.caches.cleanup()

    def _answer(self) -> float:
        assert self.process.stdout
        return float(self.process.stdout.readline() or "nan")


def figure(case: str, starts: int, rounds: int) -> dict[str, float]:
    """Return the best first calls and steady calls of both libraries, in milliseconds, and their ratios."""
    firsts: dict[str, list[float]] = {library: [] for library in LIBRARIES}
    for left in reversed(range(starts)):
        pair = {library: Process(library, case) for library in LIBRARIES}
        for library, process in pair.items():
            firsts[library].append(process.first)
        steady = [[process.round() for process in pair.values()] for _ in range(0 if left else rounds)]
        for process in pair.values():
            process.end()
    first, later = [min(firsts[library]) for library in LIBRARIES], [min(times) for times in zip(*steady, strict=True)]
    return {
        **{f"{library} first": seconds * 1e3 for library, seconds in zip(LIBRARIES, first, strict=True)},
        "first ratio": first[1] / first[0],
        **{f"{library} steady": seconds * 1e3 for library, seconds in zip(LIBRARIES, later, strict=True)},
        "steady ratio": statistics.median(b / a for a, b in steady),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.libraries", description=__doc__)
    parser.add_argument("cases", nargs="*", help="those whose names contain one of these; all by default")
    parser.add_argument("--starts", type=int, default=3, help="pairs of processes whose first calls are timed")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of steady calls")
    parser.add_argument("--json", type=pathlib.Path, help="file to write the figures to")
    options = parser.parse_args()
    print(
        f"{'milliseconds':32}{'first call: jax':>16}{'jaxish':>9}{'ratio':>7}{'steady: jax':>14}{'jaxish':>9}{'ratio':>7}"
    )
    figures: dict[str, dict[str, float]] = {}
    for case in CASES:
        if not options.cases or any(text in case for text in options.cases):
            row = figures[case] = figure(case, options.starts, options.rounds)
            numbers = [f"{value:{width}}" for value, width in zip(row.values(), WIDTHS, strict=True)]
            print(f"{case:32}{''.join(numbers)}", flush=True)
    for ratio in ("first ratio", "steady ratio"):
        print(f"{ratio}: {statistics.geometric_mean(row[ratio] for row in figures.values()):.2f}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
