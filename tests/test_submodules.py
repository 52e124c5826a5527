"""What `import jax` makes reachable by attributes alone is reachable here, in a process that imported nothing else."""

import subprocess
import sys
import typing

import numpy as np
import pytest
from oracle import agree

WALK = """
import importlib, sys, types
package = importlib.import_module(sys.argv[1])
todo, found = [package], []
while todo:
    module = todo.pop()
    for name, value in vars(module).items():
        path = f"{module.__name__}.{name}"
        if isinstance(value, types.ModuleType) and value.__name__ == path and not name.startswith("_"):
            todo.append(value)
            found.append(path)
print(*found)
"""
UNREACHED = """
import functools, importlib, importlib.util, sys

def reached(path):
    try:
        return functools.reduce(getattr, path.split(".")[1:], sys.modules["jaxish"])
    except AttributeError:
        return None

def exists(path):
    try:
        return importlib.util.find_spec(path)
    except ModuleNotFoundError:
        return None

importlib.import_module(sys.argv[1])
print(*filter(exists, [path for path in sys.argv[2:] if not reached(path)]))
"""


def run(program, *args):
    done = subprocess.run([sys.executable, "-c", program, *args], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize("package", ["jax", "jax.extend"])
def test_submodules_that_jax_makes_reachable(package):
    wanted = [path.replace("jax", "jaxish", 1) for path in run(WALK, package)]
    assert len(wanted) >= 10
    assert run(UNREACHED, package.replace("jax", "jaxish"), *wanted) == []


def test_annotations_are_joined_with_names_of_classes():
    def program(j):
        kinds = j.typing.ArrayLike, j.typing.DTypeLike
        joined = [typing.get_args(kind | "Quantity")[-1] for kind in kinds] + [
            typing.get_args("Quantity" | kind)[0] for kind in kinds
        ]
        return (
            [name.__forward_arg__ == "Quantity" for name in joined],
            [typing.get_origin(kind) is typing.Union for kind in kinds],
            [isinstance(x, kinds[0]) for x in (j.numpy.ones(1), np.ones(1), 1.5, "a", [1])],
        )

    agree(program)
