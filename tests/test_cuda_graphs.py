"""On a GPU: compiled functions that are recorded as CUDA graphs, and programs that never wait for the GPU unasked.

Where there is none the CPU plays it, as far as it can: a graph is a call of the function again, into the memory of its results.
"""

import contextlib
import threading
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
import torch
from oracle import agree

import jaxish
from jaxish import numpy as jnp
from jaxish._compile import background, cuda_graphs, executable, native_loop
from jaxish._core import accelerator
from jaxish._core.graph import TensorType

pytestmark = pytest.mark.usefixtures("compiled")
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")

CALLS = 6
X = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32) / 4


class PlayedGraph:
    """What torch.cuda.CUDAGraph is, on a CPU: `again` is what a replay does."""

    recording = False

    def __init__(self) -> None:
        self.again: Callable[[], object] = lambda: None

    def capture_begin(self, **options: Any) -> None:
        PlayedGraph.recording = True

    def capture_end(self) -> None:
        PlayedGraph.recording = False

    def replay(self) -> None:
        self.again()


def play_gpu(patch: pytest.MonkeyPatch) -> None:
    """Have the CPU taken for a GPU, on which nothing becomes C++."""
    nothing = lambda *given: contextlib.nullcontext()
    played = SimpleNamespace(
        CUDAGraph=PlayedGraph, is_initialized=lambda: True, is_current_stream_capturing=lambda: PlayedGraph.recording,
        synchronize=lambda: None, graph_pool_handle=lambda: None, Stream=nothing, stream=nothing, device=nothing,
    )  # fmt: skip
    patch.setattr(cuda_graphs, "torch", SimpleNamespace(**{**vars(torch), "cuda": played}))
    patch.setattr(cuda_graphs, "_current_stream", lambda index: PlayedGraph.recording)
    patch.setattr(accelerator, "is_gpu", lambda device: True)
    patch.setattr(executable.Executable, "_may_be_written", lambda self: False)
    patch.setattr(executable.Executable, "compile_pieces", lambda self, is_for_now=True: False)
    for name in ("ready", "upcoming"):
        patch.setattr(native_loop, name, lambda *given, **options: None)


@pytest.fixture
def made(monkeypatch):
    """Return the list of what is recorded, and keep it whether it is faster or not."""
    found: list[Any] = []
    if not torch.cuda.is_available():
        play_gpu(monkeypatch)

    class Kept(cuda_graphs._Recording):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            found.append(self)
            if isinstance(self._graph, PlayedGraph):
                self._results = [r.clone() for r in self._results]
                self._graph.again = lambda: [
                    r.copy_(new)
                    for r, new in zip(self._results, [n.clone() for n in self._run(*self._inputs)], strict=True)
                ]

    monkeypatch.setattr(cuda_graphs, "_Recording", Kept)
    monkeypatch.setattr(cuda_graphs, "_GAIN", np.inf)
    return found


def chain(j: Any, x: Any, y: Any) -> Any:
    for _ in range(4):
        x = j.numpy.tanh(x @ y + 0.1)
        y = j.numpy.sort(y, 0) * 0.9
    return x, {"y": y, "sum": x.sum(), "same": x}


def step(j: Any, x: Any, y: Any) -> Any:
    def loss(w):
        return j.lax.scan(lambda c, row: (j.numpy.tanh(c @ w + row), c.sum()), x[0], y)[1].sum()

    value, slope = j.value_and_grad(loss)(x)
    return x - 0.1 * slope, value


def draws(j: Any, x: Any, y: Any) -> Any:
    key = j.random.key((x[0, 0] * 1000).astype("int32"))
    return j.random.bits(key, (8,)), j.random.uniform(key, (8,)) @ x[:8], j.numpy.flip(j.random.split(key, 3))


def dtypes(j: Any, x: Any, y: Any) -> Any:
    whole = (x * 100).astype("int32").astype("uint32")
    half, complex = x.astype("bfloat16") @ y.astype("bfloat16"), j.lax.complex(x, y) @ j.lax.complex(y, x)
    return whole * j.numpy.uint32(7), half.astype("float32") > 0, complex, (x @ y).astype("int8"), x[:0], x


@pytest.mark.parametrize("function", [chain, step, draws, dtypes])
def test_values_are_those_of_each_call(made, function):
    wanted, found = (
        [f(X * (1 + n / CALLS), X.T - n / CALLS) for n in range(CALLS)]
        for f in (jax.jit(lambda *a: function(jax, *a)), jaxish.jit(lambda *a: function(jaxish, *a)))
    )
    for ours, theirs in zip(found, wanted, strict=True):  # after all calls: results are not overwritten by later ones
        for a, b in zip(jaxish.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            if jax.numpy.issubdtype(b.dtype, jax.dtypes.prng_key):
                a, b = jaxish.random.key_data(a), jax.random.key_data(b)
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=3e-4, atol=3e-4)
    assert made


@pytest.mark.parametrize("slow", [0, 3, 100])
def test_what_runs_until_it_is_compiled_is_recorded(made, slow, automatic, monkeypatch):
    waiting, timed = [], cuda_graphs._timed
    monkeypatch.setattr(background.Compiler, "submit", lambda self, found: waiting.append(found))
    times = iter([1.0] * slow)  # as where another thread has the interpreter to itself
    monkeypatch.setattr(cuda_graphs, "_timed", lambda *given: (next(times, 0.001), timed(*given)[1]))
    f, g = (j.jit(lambda x, j=j: chain(j, x, x)) for j in (jaxish, jax))
    inputs = [X * n for n in range(30)]
    for x in inputs:
        ours, theirs = f(x)[0], g(x)[0]
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=3e-4, atol=3e-4)
    assert len(made) == (slow < 20)
    (found,) = waiting
    found.compile()
    made.clear()
    for x in inputs[:3]:
        np.testing.assert_allclose(np.asarray(f(x)[0]), np.asarray(g(x)[0]), rtol=3e-4, atol=3e-4)
    assert found._meanwhile is None


def test_a_loop_that_is_all_of_a_function_is_recorded_as_a_whole(made):
    def program(j: Any) -> Any:
        f = j.jit(lambda c, xs: j.lax.scan(lambda c, x: (j.numpy.sin(c) + x, None), c, xs)[0])
        return [f(X[0] * n, X) for n in range(CALLS)]

    agree(program, rtol=1e-4, atol=1e-4)
    assert [tuple(i.shape) for i in made[0]._inputs] == [(16,), (16, 16)]


def test_what_is_tuned_at_its_first_call_is_recorded_after_that(made, monkeypatch):
    asked, tuned, used = [], set(), []
    is_at_rest = lambda: len(asked) > 4
    monkeypatch.setattr(background.Compiler, "is_busy", property(lambda self: asked.append(1) or not is_at_rest()))

    def run(x):  # what it calls is compiled, and so another function, from when the compiler is at rest
        if is_at_rest() not in tuned:
            cuda_graphs.needs_python()
        tuned.add(is_at_rest())
        return [x + 1]

    x = torch.ones(3, device="cuda" if torch.cuda.is_available() else "cpu")
    call = cuda_graphs.recorded(run, used.append, [TensorType.of(x)])
    for n in range(30):
        (found,) = (used[0] if used else call)(x * n)
        assert found.tolist() == [n + 1] * 3
    assert len(used) == len(made) == 1


def test_python_is_called_each_time(made):
    seen = []

    def host(x):
        seen.append(float(x))
        return np.float32(len(seen))

    f = jaxish.jit(lambda x: jaxish.pure_callback(host, np.float32(0), x.sum()) + jnp.sin(x @ x).sum() * 0)
    assert [float(f(jnp.full((4, 4), n))) for n in range(CALLS)] == list(range(1, CALLS + 1))
    nothing = jaxish.jit(lambda x: jaxish.pure_callback(lambda: np.float32(len(seen)), np.float32(0)) + x)
    for n in range(CALLS):
        seen.append(n)
        assert float(nothing(jnp.float32(0))) == len(seen)
    assert not made


def test_loops_of_unknown_length_go_on_as_long_as_they_should(made):
    def collatz(j: Any, n: Any) -> Any:
        return j.jit(
            lambda n: j.lax.while_loop(
                lambda s: s[0] > 1, lambda s: (j.numpy.where(s[0] % 2, 3 * s[0] + 1, s[0] // 2), s[1] + 1), (n, 0)
            )
        )(n)

    for n in (1, 27, 6, 97, 2, 871):
        agree(lambda j, n=n: collatz(j, n))


@pytest.mark.parametrize("length", [0, 1, 5, 37, 1000])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans(made, length, reverse):
    xs = np.linspace(-1, 1, length, dtype=np.float32)

    def program(j: Any) -> Any:
        f = j.jit(lambda c, xs: j.lax.scan(lambda c, x: (j.numpy.sin(c) + x, c * x), c, xs, reverse=reverse))
        return [f(float(n), xs) for n in range(CALLS)]

    agree(program, rtol=1e-4, atol=1e-4)


@on_a_gpu
def test_another_stream_and_other_threads(made):
    f, wanted = jaxish.jit(lambda x: chain(jaxish, x, x)[0]), jax.jit(lambda x: chain(jax, x, x)[0])
    inputs = [jnp.asarray(X * n) for n in range(CALLS)]
    expected = [np.asarray(wanted(X * n)) for n in range(CALLS)]
    for x in inputs:
        f(x)
    assert made
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
        aside = [np.asarray(f(x)) for x in inputs]
    found: dict[int, list[np.ndarray]] = {}
    threads = [
        threading.Thread(target=lambda n=n: found.update({n: [np.asarray(f(inputs[n])) for _ in range(20)]}))
        for n in range(CALLS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n, value in enumerate(expected):
        for result in (aside[n], *found[n]):
            np.testing.assert_allclose(result, value, rtol=1e-3, atol=1e-3)


@on_a_gpu
def test_what_fails_to_be_recorded_does_no_harm(made):
    f = jaxish.jit(lambda x: jnp.linalg.eigvalsh(x @ x.T)[-1] + jnp.sin(x).sum())
    for n in range(CALLS):
        expected = np.linalg.eigvalsh((X + n) @ (X + n).T)[-1] + np.sin(X + n).sum()
        np.testing.assert_allclose(float(f(jnp.asarray(X + n))), expected, rtol=1e-3)
    assert not made


UNASKED = {
    "arithmetic": lambda x: (x + 1) * 2 - x / 3,
    "jit": jaxish.jit(lambda x: jnp.tanh(x @ x).sum()),
    "gradient": lambda x: jaxish.grad(lambda x: (jnp.sin(x) * x).sum())(x),
    "vmap": lambda x: jaxish.vmap(jnp.dot)(x, x),
    "scan": lambda x: jaxish.lax.scan(lambda c, x: (c + x, c), x[0], x),
    "draw": lambda x: jaxish.random.normal(jaxish.random.key(0), (100,)),
    "permutation": lambda x: jaxish.random.permutation(jaxish.random.key(0), 100),
    "update": lambda x: x.at[1].set(0).at[:, 2].add(1),
    "dynamic index": lambda x: x[jnp.argmax(x[0])] + jaxish.lax.dynamic_slice(x, (jnp.int32(1), 0), (1, 16)),
    "gather": lambda x: jnp.take(x, jnp.arange(3), axis=0),
    "sort": lambda x: jnp.sort(x, 0)[::-1],
    "segments": lambda x: jaxish.ops.segment_sum(x, jnp.arange(16) // 4, 4),
    "softmax": lambda x: jaxish.nn.softmax(x, where=x > 0, axis=-1),
    "cholesky": lambda x: jnp.linalg.cholesky(x @ x.T + jnp.eye(16)),
    "where": lambda x: jnp.where(x > 0, x, 0).at[jnp.arange(16), jnp.arange(16)].mul(2),
}


@on_a_gpu
@pytest.mark.parametrize("name", UNASKED)
def test_nothing_waits_for_the_gpu(name):
    x = jnp.asarray(X)
    UNASKED[name](x)  # what is loaded and compiled at first may
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it does not find all
        torch.cuda.set_sync_debug_mode("error")
    try:
        UNASKED[name](x)
    finally:
        torch.cuda.set_sync_debug_mode("default")
