"""The measuring: one program, written against the JAX API, timed under both libraries in turn.

Each case is a function of the library that sets up its data and returns a thunk to be timed. The thunks of both
libraries run in turn, several rounds each; the figure of a library is its best round, since noise only adds.
"""

import gc
import statistics
import time
from collections.abc import Callable
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
    thunks = {library.__name__: _ready(case.make(library), library) for library in (jax, jaxish)}
    counts = {name: _calls_per_round(thunk) for name, thunk in thunks.items()}
    rounds: dict[str, list[float]] = {name: [] for name in thunks}
    gc.collect()
    gc.disable()
    try:
        for _ in range(ROUNDS):
            for name, thunk in thunks.items():
                rounds[name].append(_time(thunk, counts[name]) / counts[name] * 1e6)
    finally:
        gc.enable()
    ratios = [b / a for a, b in zip(rounds["jax"], rounds["jaxish"], strict=True)]
    best = {name: min(times) for name, times in rounds.items()}
    spread = max(ratios) - min(ratios)
    return Figure(case.name, best["jax"], best["jaxish"], statistics.median(ratios), spread, case.target)


def _ready(thunk: Callable[[], Any], library: Any) -> Callable[[], None]:
    """Return the thunk with waiting for its result, called often enough to be compiled."""
    wait = library.block_until_ready

    def run() -> None:
        wait(thunk())

    for _ in range(3):
        run()
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
