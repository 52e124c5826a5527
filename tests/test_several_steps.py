"""Loops of which several steps are one graph, as on GPUs, played by the CPU: the native loops are put aside."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from oracle import agree

from jaxish._compile import native_loop
from jaxish._lax.control_flow import several_steps

X = np.random.default_rng(0).standard_normal((37, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def counted(automatic, monkeypatch):
    """Return how many steps the graphs had."""
    found: list[int] = []
    for name in ("of_scan", "of_while"):
        made = getattr(several_steps, name)
        monkeypatch.setattr(several_steps, name, lambda *given, made=made: found.append(given[-1]) or made(*given))
    monkeypatch.setattr(several_steps, "accelerator", SimpleNamespace(is_gpu=lambda device: True))
    for name in ("ready", "upcoming"):
        monkeypatch.setattr(native_loop, name, lambda *given, **options: None)
    return found


def scanned(j: Any, reverse: bool, length: int, unroll: int = 1) -> Any:
    def step(c: Any, x: Any) -> Any:
        return j.numpy.sin(c) * 0.9 + x, (c * x, x > 0, j.numpy.uint32(3) * (c > 0).astype("uint32"))

    return j.jit(lambda x: j.lax.scan(step, j.numpy.zeros(3), x, reverse=reverse, unroll=unroll))(X[:length])


@pytest.mark.parametrize("length", [0, 1, 7, 8, 37])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans(length, reverse, counted):
    agree(lambda j: scanned(j, reverse, length), rtol=1e-4, atol=1e-5)
    assert bool(counted) == (length > 1)


@pytest.mark.parametrize("reverse", [False, True])
def test_steps_that_the_program_unrolls(reverse):
    agree(lambda j: scanned(j, reverse, 37, unroll=11), rtol=1e-4, atol=1e-5)


LOOPS = {
    "gradient": lambda j: j.grad(
        lambda x: j.lax.scan(lambda c, x: (j.numpy.tanh(c + x), c * x), j.numpy.ones(3), x)[1].sum()
    )(X),
    "mapped scan": lambda j: j.vmap(lambda x: j.lax.scan(lambda c, y: (c * y + 1, c), 0.0, x))(X.T),
    "while": lambda j: j.lax.while_loop(
        lambda s: s[0] < 50,
        lambda s: (s[0] * 1.1 + 1, s[1] + 1, ~s[2], s[3] * j.numpy.uint32(3)),
        (1.0, 0, True, j.numpy.uint32(7)),
    ),
    "no step": lambda j: j.lax.while_loop(lambda x: x < 0, lambda x: x + 1, 1.0),
    "steps that would fail": lambda j: j.lax.while_loop(lambda x: x > 1e-3, lambda x: x - 1 / x * 1e-2, 1.0) > -1,
    "mapped while": lambda j: j.vmap(
        lambda x: j.lax.while_loop(lambda s: s[0] < 50, lambda s: (s[0] * 1.1 + x, s[1] + 1), (x, 0))
    )(np.arange(1, 6, dtype=np.float32)),
    "unknown bound": lambda j: j.lax.fori_loop(0, j.numpy.int32(100), lambda i, s: s * 0.5 + i, j.numpy.ones(3)),
    "nested": lambda j: j.lax.fori_loop(
        0, j.numpy.int32(5), lambda i, x: j.lax.fori_loop(0, i, lambda k, x: x * 0.9 + k, x), j.numpy.ones(2)
    ),
}


def test_effects_happen_once_for_each_step():
    def program(j: Any) -> Any:
        seen: list[int] = []

        def step(i: Any) -> Any:
            j.debug.callback(lambda i: seen.append(int(i)), i, ordered=True)
            return i + 1

        found = j.jit(lambda: j.lax.while_loop(lambda i: i < 3, step, 0))()
        j.effects_barrier()
        return found, seen

    agree(program)


@pytest.mark.parametrize("name", LOOPS)
def test_loops(name, counted):
    agree(lambda j: j.jit(lambda: LOOPS[name](j))(), rtol=1e-4, atol=1e-5)
    assert counted
