"""What works on this machine's GPU, and how fast: `make check-gpu`, or `python tests/check_gpu.py [STEP ...]`.

For a machine with a GPU and torch for CUDA; nothing is installed. The tests' oracle is JAX on the CPU, and JAX for CUDA stands
beside the benchmarks where it is installed. One file says what was found: benchmarks/results/gpu.json.
"""

import argparse
import collections
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "gpu.json"

# Tests of the C++ compiler's code, of several devices, of files and texts that are the same everywhere.
LEFT_OUT = {
    "background", "blocks", "cache", "native_graph", "native_loop", "pieces", "progress", "random_memory", "inductor",
    "custom_partitioning", "debug_sharding", "interop_dtensor", "lax_parallel", "memory_kinds", "out_sharding",
    "random_sharding", "shard_map_derivatives", "sharding", "sharding_stages", "sharding_types", "xla_hints",
    "check", "config_options", "docs", "dropin", "dynamo", "examples", "extension_names", "house", "notebooks", "placement",
    "stress", "submodules", "threads", "torch_state", "waiting",
    "buffer_callback", "dlpack", "export", "interop_arrays", "interop_export", "jaxprs", "portable",  # the CPU's memory
}  # fmt: skip
COMPILED = ("tour", "jit", "control_flow", "custom_batching", "cuda_graphs", "kernels", "lax_contraction")


def main() -> int:
    """Run the steps named on the command line."""
    parser = argparse.ArgumentParser(prog="python tests/check_gpu.py", description=__doc__)
    parser.add_argument("steps", nargs="*", help=f"of {', '.join(STEPS)}; all by default")
    parser.add_argument("--minutes", type=float, default=20, help="that a step may take")
    options = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        print(f"torch {torch.__version__} sees no GPU here.")
        return 1
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    found["machine"] = {
        "gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda,
        "python": sys.version.split()[0], "cores": os.cpu_count(),
    }  # fmt: skip
    for name in options.steps or STEPS:
        print(f"== {name}", flush=True)
        start = time.perf_counter()
        found[name] = STEPS[name](options.minutes * 60)
        print(f"   {time.perf_counter() - start:.0f} s: {json.dumps(found[name])[:400]}", flush=True)
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(f"wrote {RESULTS}")
    return 0


def _run(*command: str, seconds: float, **environment: str) -> tuple[int, str]:
    """Return the exit status and the output of a Python program; one that takes too long is ended, with what it started."""
    given = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]), **environment}
    process = subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, env=given, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)  # pytest tells what it has found
        try:
            output, _ = process.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
    return process.returncode, output


def _tested(names: list[str], tier: str, seconds: float) -> dict[str, Any]:
    workers = ["-p", "xdist.plugin", "-n", str(min(os.cpu_count() or 1, 12)), "--dist", "worksteal"]
    several = workers if importlib.util.find_spec("xdist") else []
    files = [f"tests/test_{name}.py" for name in names]
    options = ["-p", "no:cacheprovider", "--tb=line", "-vv", "-W", "ignore:JAX plugin"]
    # Other people's plugins warn, and warnings are errors.
    environment = {"JAXISH_JIT_TIER": tier, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    status, output = _run("-m", "pytest", *several, *options, *files, seconds=seconds, **environment)
    outcomes = re.findall(
        r"^(?:\[gw\d+\] \[ *\d+%\] (\w+) )?(tests/\S+::.*?)(?: (PASSED|FAILED|SKIPPED|ERROR).*)?$", output, re.M
    )
    by_test = {test.strip(): first or last for first, test, last in outcomes if first or last}
    counts = collections.Counter(by_test.values())
    failed = sorted(test for test, outcome in by_test.items() if outcome in ("FAILED", "ERROR"))
    why = collections.Counter(re.findall(r"^(?:FAILED|ERROR) \S+::.*? - (.{1,150})", output, re.M))
    return {"ended by itself": status in (0, 1), **counts, "which failed": failed, "why": dict(why.most_common(20))}


def _direct(seconds: float) -> dict[str, Any]:
    names = [path.stem[5:] for path in sorted((ROOT / "tests").glob("test_*.py"))]
    return _tested([name for name in names if name not in LEFT_OUT], "direct", seconds)


def _compiled(seconds: float) -> dict[str, Any]:
    return _tested(list(COMPILED), "compiled", seconds)


def _demo(seconds: float) -> dict[str, Any]:
    start = time.perf_counter()
    status, output = _run("-m", "jaxish", "run", "examples/dp_sgd_digits.py", seconds=seconds)
    return {"status": status, "seconds": round(time.perf_counter() - start, 1), "last lines": output.splitlines()[-4:]}


def _benchmarks(seconds: float) -> dict[str, Any]:
    path = RESULTS.with_name("gpu-figures.json")
    groups = ("core", "control_flow", "random", "numpy", "programs")
    _run("-m", "benchmarks", *groups, "--json", str(path), seconds=seconds, XLA_PYTHON_CLIENT_PREALLOCATE="false")
    found = json.loads(path.read_text()) if path.exists() else {}
    path.unlink(missing_ok=True)
    return found


STEPS: dict[str, Callable[[float], dict[str, Any]]] = {
    "compiled": _compiled, "direct": _direct, "demo": _demo, "benchmarks": _benchmarks,
}  # fmt: skip

if __name__ == "__main__":
    sys.exit(main())
