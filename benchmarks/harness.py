"""The measuring: one program, written against the JAX API, timed under both libraries in turn.

Each case is a function of the library that sets up its data and returns a thunk to be timed. The thunks of both
libraries run in turn, several rounds each; the figure of a library is its best round, since noise only adds.
"""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

ROUNDS = 7
SECONDS_PER_ROUND = 0.05


@dataclass(frozen=True)
class Case:
    """One thing to time: its name, how to make the thunk, and the ratio to JAX that we aim at."""

    name: str
    make: Callable[[Any], Callable[[], Any]]
    target: float | None = None


@dataclass(frozen=True)
class Figure:
    """The times of one case in microseconds, and their ratio."""

    name: str
    jax: float
    jaxish: float
    ratio: float
    spread: float
    target: float | None


def measure(case: Case, jax: Any, jaxish: Any) -> Figure:
    """Time a case under both libraries."""
    rounds = dict(zip(("jax", "jaxish"), rounds_of([_waited(case.make(j), j) for j in (jax, jaxish)]), strict=True))
    ratios = [b / a for a, b in zip(rounds["jax"], rounds["jaxish"], strict=True)]
    best = {name: min(times) for name, times in rounds.items()}
    spread = max(ratios) - min(ratios)
    return Figure(case.name, best["jax"], best["jaxish"], statistics.median(ratios), spread, case.target)


def rounds_of(thunks: Sequence[Callable[[], Any]]) -> list[list[float]]:
    """Return the times of each thunk in microseconds, a round after another; they run in turn, once they are compiled."""
    for thunk in thunks:
        for _ in range(3):
            thunk()
    counts = [_calls_per_round(thunk) for thunk in thunks]
    rounds: list[list[float]] = [[] for _ in thunks]
    gc.collect()
    gc.disable()
    try:
        for _ in range(ROUNDS):
            for times, thunk, count in zip(rounds, thunks, counts, strict=True):
                times.append(_time(thunk, count) / count * 1e6)
    finally:
        gc.enable()
    return rounds


def _waited(thunk: Callable[[], Any], library: Any) -> Callable[[], None]:
    """Return the thunk with waiting for its result."""
    wait = library.block_until_ready

    def run() -> None:
        wait(thunk())

    return run


def _calls_per_round(thunk: Callable[[], None]) -> int:
    count = 1
    while (seconds := _time(thunk, count)) < SECONDS_PER_ROUND / 4:
        count *= 4
    return max(1, round(count * SECONDS_PER_ROUND / max(seconds, 1e-9)))


def _time(thunk: Callable[[], None], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        thunk()
    return time.perf_counter() - start
