"""The first seconds of a program: `python -m benchmarks.first [PROGRAM ...] [--seconds S] [--at-once N] [--json FILE]`.

Each figure is of a fresh process on the default tier that calls a jitted step in a loop: seconds to the first result (imports
aside), steps made in the first 1, 5 and 20 seconds of calling, the longest pause between two results and the shortest step, in
milliseconds. `steps` stands for the larger programs of `steps.py`, which are for GPUs, too.
`cold` has empty caches, `warm` what a first run left; JAX is shown with its persistent cache, which `cold` has empty.
"""

import argparse
import concurrent.futures
import importlib
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from . import per_example, steps
from .programs import _draw, training_in_scan

MARKS = (1, 5, 20)  # seconds

Step = Callable[[], Any]


def small(j: Any) -> Step:
    f = j.jit(lambda x, y: j.numpy.tanh(x * y + 1).sum() / (1 + j.numpy.abs(x).mean()))
    x, y = j.numpy.asarray(_draw(100)), j.numpy.asarray(_draw(100))
    return lambda: f(x, y)


def hundred(j: Any) -> Step:
    """100 small jitted functions, one after the other."""
    functions = [j.jit(lambda x, n=n: j.numpy.sin(x + n) * n) for n in range(100)]
    x = j.numpy.asarray(_draw(20))

    def step() -> Any:
        out = x
        for f in functions:
            out = f(out)
        return out

    return step


def _gradient(model: str, way: str, batch: int) -> Callable[[Any], Step]:
    def make(j: Any) -> Step:
        params, x, y, loss = per_example.MODELS[model](batch)
        params, x, y = j.tree.map(j.numpy.asarray, (params, x, y))
        step = j.jit(lambda params, x, y: per_example.WAYS[way](j, loss, params, x, y))
        return lambda: step(params, x, y)

    return make


PROGRAMS: dict[str, Callable[[Any], Step]] = {
    "small function": small,
    "100 small functions": hundred,
    "MLP step": _gradient("mlp", "plain", 64),
    "DP-SGD step": _gradient("mlp", "mean", 64),
    "transformer step": _gradient("transformer", "plain", 16),
    "training in scan": training_in_scan,
}
EVERY = PROGRAMS | steps.PROGRAMS


def measured(library: str, program: str, seconds: float) -> dict[str, float]:
    """Return the figures of this process."""
    j = importlib.import_module(library)
    start = time.perf_counter()
    step = EVERY[program](j)
    j.block_until_ready(step())
    begun = last = time.perf_counter()
    found, count, pause, best = {"first result": begun - start}, 1, 0.0, math.inf
    marks = [mark for mark in MARKS if mark <= seconds]
    while marks:
        j.block_until_ready(step())
        now = time.perf_counter()
        count, pause, best, last = count + 1, max(pause, now - last), min(best, now - last), now
        if now - begun >= marks[0]:
            found[f"steps in {marks.pop(0)} s"] = count
    return found | {"longest pause": pause * 1e3, "shortest step": best * 1e3}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first", description=__doc__)
    parser.add_argument(
        "programs", nargs="*", help=f"of {', '.join(EVERY)}, or steps; the first {len(PROGRAMS)} by default"
    )
    parser.add_argument("--seconds", type=float, default=MARKS[-1])
    parser.add_argument(
        "--at-once", type=int, default=1, help="programs measured beside each other, on cores of their own"
    )
    parser.add_argument("--json", type=pathlib.Path, help="file to write the figures to")
    options = parser.parse_args()
    programs = steps.PROGRAMS if options.programs == ["steps"] else options.programs or PROGRAMS
    figures = {}
    with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        for rows in pool.map(lambda program: list(_rows(program, options.seconds)), programs):
            figures |= rows
            if options.json:  # after each program: a machine may be lent for a time
                options.json.write_text(json.dumps(figures, indent=1))


def _rows(program: str, seconds: float) -> Iterator[tuple[str, dict[str, float]]]:
    """Measure a program in processes of its own, and print what was found."""
    for library in ("jax", "jaxish"):
        with tempfile.TemporaryDirectory() as folder:
            for state in ("cold", "warm"):
                try:
                    row = _in_own_process(library, program, seconds, folder)
                except subprocess.CalledProcessError as error:
                    print(f"{program:24} {library:7} {state}  ended with status {error.returncode}", flush=True)
                    continue
                text = "  ".join(f"{name} {value:,.4g}" for name, value in row.items())
                print(f"{program:24} {library:7} {state}  {text}", flush=True)
                yield f"{program}, {library}, {state}", row


def _in_own_process(library: str, program: str, seconds: float, folder: str) -> dict[str, float]:
    code = f"import json; from benchmarks.first import measured; print(json.dumps(measured({library!r}, {program!r}, {seconds})))"
    caches = {
        "JAXISH_CACHE_DIR": folder, "JAX_COMPILATION_CACHE_DIR": folder,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }  # fmt: skip
    environment = {k: v for k, v in os.environ.items() if k != "JAXISH_JIT_TIER"} | caches
    return json.loads(subprocess.check_output([sys.executable, "-c", code], env=environment, text=True))


if __name__ == "__main__":
    main()
