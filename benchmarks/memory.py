"""The memory that a draw takes at its peak, as a multiple of its result: `python -m benchmarks.memory [--json FILE]`.

Each figure is of a fresh process: the growth of its peak resident memory over the second call, divided by the bytes of
the result. Both libraries draw 4,000,000 numbers; a multiple of 1 is the result alone.
"""

import argparse
import ctypes
import importlib
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

COUNT = 4_000_000
DRAWS: dict[str, Any] = {
    "bits": lambda j, k, n: j.random.bits(k, (n,)),
    "uniform": lambda j, k, n: j.random.uniform(k, (n,)),
    "normal": lambda j, k, n: j.random.normal(k, (n,)),
    "randint": lambda j, k, n: j.random.randint(k, (n,), 0, 100),
    "permutation": lambda j, k, n: j.random.permutation(k, n),
    "categorical": lambda j, k, n: j.random.categorical(k, j.numpy.zeros(10), shape=(n,)),
    "gamma": lambda j, k, n: j.random.gamma(k, 2.0, (n,)),
    "poisson": lambda j, k, n: j.random.poisson(k, 3.0, (n,)),
    "split": lambda j, k, n: j.random.key_data(j.random.split(k, n // 2)),
}


def multiple(library: str, name: str, jitted: bool) -> float:
    """Return the multiple for a draw in this process."""
    jax = importlib.import_module(library)
    key, draw = jax.random.key(0), DRAWS[name]

    def run(key: Any) -> Any:
        return draw(jax, key, COUNT)

    call = jax.jit(run).lower(key).compile() if jitted else run
    jax.block_until_ready(call(key))  # what compiles does so before the measured call
    ctypes.CDLL(None).malloc_trim(0)
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = _status("VmRSS")
    result = jax.block_until_ready(call(key))
    return (_status("VmHWM") - before) / result.nbytes


def _status(field: str) -> int:
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--json", type=pathlib.Path, help="file to write the figures to")
    options = parser.parse_args()
    figures = {}
    print(f"{'':24} {'jax':>7} {'jaxish':>7}   of the result's bytes")
    for name in DRAWS:
        for how in ("eager", "jit"):
            found = [_in_fresh_process(library, name, how) for library in ("jax", "jaxish")]
            figures[f"{name}, {how}"] = dict(zip(("jax", "jaxish"), found, strict=True))
            print(f"{name + ', ' + how:24} {found[0]:7.2f} {found[1]:7.2f}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


def _in_fresh_process(library: str, name: str, how: str) -> float:
    code = f"from benchmarks import memory; print(memory.multiple({library!r}, {name!r}, {how == 'jit'}))"
    environment = os.environ | {"JAXISH_JIT_TIER": "compiled"}
    return float(subprocess.check_output([sys.executable, "-c", code], env=environment, text=True).split()[-1])


if __name__ == "__main__":
    main()
