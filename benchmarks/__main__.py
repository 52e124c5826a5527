"""The command line: run groups of cases, print a table, write the figures as JSON."""

import argparse
import dataclasses
import json
import os
import pathlib
import platform
import subprocess
import sys

GROUPS = ("core", "control_flow", "programs", "numpy", "random", "scipy")


def main() -> int:
    """Run the benchmarks named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("groups", nargs="*", help=f"of {', '.join(GROUPS)}; all by default")
    parser.add_argument("--json", type=pathlib.Path, help="file to write the figures to")
    parser.add_argument("--only", default="", help="run the cases whose name contains this")
    options = parser.parse_args()
    os.environ["JAXISH_JIT_TIER"] = "compiled"
    import importlib

    import jax
    import torch

    import jaxish

    from .harness import measure

    device = jaxish.devices()[0]
    if device.platform == "gpu":
        torch.set_float32_matmul_precision("high")  # TF32, in which JAX multiplies on GPUs by default
    machine = {
        "processor": _processor(),
        "device": device.device_kind,
        "torch": torch.__version__,
        "jax": jax.__version__,
    }
    print(f"jaxish {jaxish.__version__}, {', '.join(f'{k} {v}' for k, v in machine.items())}")
    print(f"{'':44} {'jax us':>11} {'jaxish us':>11} {'ratio':>7} {'target':>7}")
    results = {}
    for group in options.groups or GROUPS:
        print(group)
        for case in importlib.import_module(f"benchmarks.{group}").CASES:
            if options.only not in case.name:
                continue
            try:
                figure = measure(case, jax, jaxish)
            except Exception as error:
                print(f"  {case.name:42} {type(error).__name__}: {str(error)[:100]}")
                continue
            results[f"{group}: {case.name}"] = dataclasses.asdict(figure)
            if options.json:  # after each case: a machine may be lent for a time
                options.json.write_text(json.dumps({"machine": machine, "figures": results}, indent=1))
            target = "" if figure.target is None else f"{figure.target:7.2f}"
            print(
                f"  {figure.name:42} {figure.jax:11.2f} {figure.jaxish:11.2f} {figure.ratio:7.2f} {target:>7}",
                flush=True,
            )
    if not options.groups or "core" in options.groups:
        results["core: import"] = import_times()
    if options.json:
        options.json.write_text(json.dumps({"machine": machine, "figures": results}, indent=1))
        print(f"wrote {options.json}")
    return 0


def import_times() -> dict[str, float]:
    """Print and return how long `import jaxish` takes after `import torch`, best of several fresh processes."""
    code = "import torch, time; start = time.perf_counter(); import jaxish; print(time.perf_counter() - start)"
    # With bytecode on disk, as installed packages have it.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    seconds = min(float(subprocess.check_output([sys.executable, "-c", code], env=environment)) for _ in range(5))
    print(f"  {'import jaxish, over import torch':42} {'':11} {seconds * 1e6:11.0f} {'':7} {'0.15 s':>7}")
    return {"jaxish": seconds * 1e6}


def _processor() -> str:
    info = pathlib.Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        return f"{names[0]} x {os.cpu_count()}" if names else platform.processor()
    return platform.processor()


if __name__ == "__main__":
    sys.exit(main())
