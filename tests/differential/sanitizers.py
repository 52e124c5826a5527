"""Native loops built with GCC's sanitizers of memory and undefined behaviour, run in a process of their own.

`python tests/differential/sanitizers.py LANES [WAY ...]` is that process: it runs every operator, and loops over every
operation in these ways (tiers.py). It ends with an error where something is found.
"""

import os
import subprocess
import sys

FLAGS = ["-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all", "-O1", "-g"]


def in_a_process(lanes: int, *ways: str) -> subprocess.CompletedProcess[str]:
    """Run loops in a process that can load such libraries."""
    # libstdc++ too, or the sanitizer does not find what throws.
    libraries = [
        subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in ("libasan.so", "libstdc++.so")
    ]
    environment = {**os.environ, "LD_PRELOAD": " ".join(libraries), "ASAN_OPTIONS": "detect_leaks=0"}
    command = [sys.executable, __file__, str(lanes), *ways]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def _run(lanes: int, ways: list[str]) -> int:
    import emitted
    import numpy as np
    import tiers
    import values
    from cases import DTYPES
    from programs import every

    import jaxish
    from jaxish._compile import loop_compiler
    from jaxish._compile.loop_operators import COMPUTED_WITH

    loop_compiler.extra_flags += FLAGS
    count = 0
    for dtype in COMPUTED_WITH:
        name = str(dtype).removeprefix("torch.")
        count += emitted.check(dtype, lanes, np.random.default_rng(0))[0]
        operands = values.lanes(name, lanes, np.random.default_rng(0))
        for way in ways if name in DTYPES else ():
            batch = [p for p in every(name) if tiers.is_native(p, operands)]
            for start in range(0, len(batch), 32):
                with tiers.tier("compiled"):
                    found = getattr(tiers, way)(jaxish, batch[start : start + 32], operands)
                count += sum(r.size for r in found)
    return count


if __name__ == "__main__":
    import warnings

    import jax

    import jaxish

    for library in (jax, jaxish):
        library.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    print(_run(int(sys.argv[1]), sys.argv[2:]), "cases under sanitizers")
