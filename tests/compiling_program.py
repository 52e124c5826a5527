"""A program for the tests of the cache: one fused graph and one loop, against NumPy, on the tier of the environment.

On the default tier it goes on until both run compiled. It prints the environment's variables that torch sets.
"""

import os
import time

import numpy as np

import jaxish
import jaxish.lax
import jaxish.numpy as jnp
from jaxish._compile import executable, piecewise
from jaxish._core import config

x = np.linspace(0, 1, 100_000, dtype=np.float32)  # more than arrays that are written out have
piecewise.LEAST_IN_ROWS = 2  # so that loops over arrays of this size are never enough
fused = jaxish.jit(lambda x: jnp.sin(x) * 2 + jnp.cos(x))
loop = jaxish.jit(lambda c: jaxish.lax.scan(lambda c, _: (c * 1.5 + 1, c), c, None, length=5))


def check():
    np.testing.assert_allclose(fused(x), np.sin(x) * 2 + np.cos(x), atol=1e-6)
    carry, before = loop(1.0)
    steps = [1.0]
    for _ in range(5):
        steps.append(steps[-1] * 1.5 + 1)
    np.testing.assert_allclose([*before, carry], steps, rtol=1e-6)


def runs_compiled(jitted):
    (program,) = jitted._programs.values()
    found = executable.of(program.closed.graph)
    return found._is_compiled or found.run.__name__ == "written"


check()
deadline = time.monotonic() + 120
while config.jit_tier.value == "auto" and not (runs_compiled(fused) and runs_compiled(loop)):
    assert time.monotonic() < deadline, "nothing was compiled in the background"
    check()
    time.sleep(0.05)
check()
print(
    "compiled" if runs_compiled(fused) else "direct",
    [name for name in os.environ if "TRITON" in name or "INDUCTOR" in name],
)
