"""`jaxish_show_compiles` tells on standard error what is being compiled, and how that came out. Each program starts with an empty cache."""

import os
import re
import subprocess
import sys

HEAD = """
import time, jaxish as jax, jaxish.numpy as jnp
from jaxish._compile import background

def wave(x):
    return jnp.sin(x) * jnp.cos(x) + 1

def waited():
    deadline = time.monotonic() + 100
    while background.compiler().is_busy:
        assert time.monotonic() < deadline
        time.sleep(0.05)
"""
LOOP = "jax.jit(lambda x: jax.lax.fori_loop(0, 10, lambda i, x: jnp.sin(x) + 1, x))(jnp.ones(200000))"


def told(tmp_path, program, tier, shown="1"):
    """Return the lines that a program writes on standard error, without times."""
    variables = {"JAXISH_JIT_TIER": tier, "JAXISH_SHOW_COMPILES": shown, "JAXISH_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", HEAD + program],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return [re.sub(r", after \d+\.\d s$", "", line).removeprefix("jaxish: ") for line in done.stderr.splitlines()]


def test_what_compiles_in_the_background_is_told_by_the_name_of_its_function(tmp_path):
    found = told(tmp_path, "f = jax.jit(wave)\nfor _ in range(3): f(jnp.ones(200000))\nwaited()", "auto")
    assert found == ["compiling wave", "wave runs compiled"]


def test_small_functions_are_told_of(tmp_path):
    program = "from jaxish._compile import loop_compiler\nf = jax.jit(wave)\nwhile not loop_compiler._loaded: f(1.0)"
    assert told(tmp_path, program, "auto") == ["compiling wave", "wave runs compiled"]


def test_loops_are_told_of(tmp_path):
    assert told(tmp_path, LOOP, "compiled")[:2] == ["compiling a loop", "a loop runs compiled"]


def test_nothing_is_told_unless_it_is_asked_for(tmp_path):
    assert not told(tmp_path, LOOP, "compiled", shown="0")


def test_code_that_cannot_be_compiled_is_told_of(tmp_path):
    program = """
def broken(module, inputs):
    raise RuntimeError("no code")
from jaxish._compile import registry
import torch
torch._dynamo.register_backend(broken, name="broken")
jax.config.update("jaxish_backend", "broken")
try:
    jax.jit(wave)(1.0)
except Exception:
    pass
"""
    assert told(tmp_path, program, "compiled")[:2] == ["compiling wave", "wave could not be compiled"]
