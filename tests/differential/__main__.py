"""`make fuzz`: compare JAX, direct, compiled and native loops over operators and drawn programs, and count the cases.

    python tests/differential [--cases 1000000] [--seed 0] [--minutes 30] [--sanitize]

What a case is stands in agreement.py. First every operation is tried on every dtype, then programs of several are
drawn until there are enough cases of them or no time is left. `--sanitize` runs native loops only, built with GCC's sanitizers
of memory and of undefined behaviour. The exit status is 1 where something differs; each difference prints the program
and a lane.
"""

import argparse
import logging
import os
import time
import warnings
from collections.abc import Iterator

os.environ.setdefault("JAXISH_JIT_TIER", "direct")

import agreement
import emitted
import jax
import numpy as np
import sanitizers
import tiers
import values
from cases import DTYPES
from programs import Program, draw_program, every

import jaxish
from jaxish._compile.loop_operators import COMPUTED_WITH

# How many lanes and programs a batch has. Reading and writing by index runs step by step, and each program of the
# last two is a loop of its own.
SIZES = {
    tiers.whole: (4096, 16), tiers.indexed: (4096, 16), tiers.captured: (512, 8), tiers.batched: (1024, 12),
    tiers.carried: (256, 8), tiers.repeated: (256, 6), tiers.chosen: (256, 9),
}  # fmt: skip


def singles(random: np.random.Generator) -> Iterator[tuple[agreement.Way, list[Program], tiers.Lanes]]:
    """Return the batches that try every operation once, as a whole and in a scan."""
    for dtype in DTYPES:
        lanes = values.lanes(dtype, 8192, random)
        for batch in agreement.groups(every(dtype), lanes, 24):
            for way in (tiers.whole, tiers.indexed):
                yield way, batch, lanes


def drawn(random: np.random.Generator) -> Iterator[tuple[agreement.Way, list[Program], tiers.Lanes]]:
    """Return batches of drawn programs without end."""
    draw = lambda below: int(random.integers(below))
    while True:
        for way, (lanes, count) in SIZES.items():
            dtype = DTYPES[draw(len(DTYPES))]
            programs = [draw_program(dtype, draw, 1 + draw(3)) for _ in range(count)]
            if way in (tiers.repeated, tiers.chosen):
                programs[0] = draw_program(dtype, draw, 2, "b")
            yield way, programs, values.lanes(dtype, lanes, random)


def fuzz(cases: int, seed: int, minutes: float) -> int:
    """Compare every operation, then this many cases of drawn programs; return how many programs differed."""
    random, start = np.random.default_rng(seed), time.monotonic()
    counts, tried, failed = {"operators": 0, "singles": 0, "drawn": 0}, 0, 0
    for dtype in COMPUTED_WITH:
        found, failures, _ = emitted.check(dtype, 8192, random)
        counts["operators"], failed = counts["operators"] + found, failed + len(failures)
        print(*failures, sep="\n", end="\n" * bool(failures))
    for source in (singles, drawn):
        for way, programs, lanes in source(random):
            if counts["drawn"] >= cases or time.monotonic() - start > 60 * minutes:
                break
            found, failures = agreement.compare(way, programs, lanes)
            counts[source.__name__] += found
            tried, failed = tried + len(programs), failed + len(failures)
            for failure in failures:
                print(failure, flush=True)
    took = time.monotonic() - start
    print(
        f"{sum(counts.values())} cases in {took:.0f} s, seed {seed}: {counts['operators']} of native loops' operators, "
        f"{counts['singles']} of single operations, {counts['drawn']} of drawn programs; {tried} programs; "
        f"{failed} differences"
    )
    return failed


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="tests/differential", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=1_000_000, help="of drawn programs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--lanes", type=int, default=4096, help="per operation, under sanitizers")
    parser.add_argument("--sanitize", action="store_true")
    given = parser.parse_args()
    for configuration in (jax.config, jaxish.config):
        configuration.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    logging.getLogger("jaxish").setLevel(logging.WARNING)
    if not given.sanitize:
        return 1 if fuzz(given.cases, given.seed, given.minutes) else 0
    done = sanitizers.in_a_process(given.lanes, "indexed", "batched")
    print(done.stdout + done.stderr, end="")
    return done.returncode


if __name__ == "__main__":
    raise SystemExit(main())
