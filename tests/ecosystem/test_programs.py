"""Programs of the kind that users of JAX's libraries write: under JAX and under jaxish they print the same numbers."""

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PROGRAMS = {path.stem: path for path in sorted((Path(__file__).parent / "programs").glob("*.py"))}


def libraries(path):
    """Return the packages that a program imports."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = [a.name for n in nodes if isinstance(n, ast.Import) for a in n.names]
    names += [n.module for n in nodes if isinstance(n, ast.ImportFrom) and n.module]
    return {name.partition(".")[0] for name in names}


def printed(command, folder):
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return np.array(done.stdout.split(), float)


@pytest.mark.parametrize("name", PROGRAMS)
def test_prints_what_jax_does(name, tmp_path):
    path = PROGRAMS[name]
    missing = [library for library in libraries(path) if importlib.util.find_spec(library) is None]
    if missing:
        pytest.skip(f"{missing} not installed: pip install 'jaxish[ecosystem]'")
    wanted = printed([sys.executable, str(path)], tmp_path)
    found = printed([sys.executable, "-m", "jaxish", "run", str(path)], tmp_path)
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=1e-4)
