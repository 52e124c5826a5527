"""The house: who may import whom, and what the public paths show."""

import ast
import graphlib
import importlib
import importlib.util
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import jaxish
from jaxish._core import additions

ROOT = Path(jaxish.__file__).parent

# The table in docs/architecture.md. Floors of the same number do not import each other. What looks at the faces is above them.
FLOORS = {
    "_core": 1, "_devices": 1.5, "_compile": 2, "_jaxprs": 2.5, "_transforms": 3, "_tensors": 3, "_lax": 4, "_numpy": 5, "_random": 6,
    "_profiler": 4, "_nn": 7, "_scipy": 7, "_image": 7, "_example_libraries": 8, "_experimental": 8, "_export": 8, "_interop": 8.5,
    "_porting": 10,
}  # fmt: skip
FACES = 9


def module_of(path):
    parts = ("jaxish", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in ROOT.rglob("*.py")}


def floor(module):
    """Return the package below jaxish, and its floor."""
    package = (*module.split("."), "")[1]
    return package, FLOORS.get(package, FACES)


def imports(module):
    """Return the modules that a module imports anywhere, inside functions and for type checkers too."""
    package = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.partition(".")[0] == "jaxish")
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            if base.partition(".")[0] == "jaxish":
                yield from (n if (n := f"{base}.{alias.name}") in MODULES else base for alias in node.names)


@pytest.mark.parametrize("module", MODULES)
def test_modules_import_from_floors_below_their_own(module):
    package, height = floor(module)
    for imported in imports(module):
        if imported == "jaxish.version":  # a constant
            continue
        other, below = floor(imported)
        assert below < height or other == package or height == FACES, f"{module} imports {imported}"


def test_no_circle_of_imports():
    typed_only = {
        ("jaxish._compile.background", "jaxish._compile.executable"),
        ("jaxish._core.array_interface", "jaxish._core.array"),
        ("jaxish._core.array_interface", "jaxish._core.typing"),
    }
    faces = {m for m in MODULES if floor(m)[1] == FACES}
    graph = {
        module: {i for i in imports(module) if i != module and (module, i) not in typed_only}
        for module in MODULES.keys() - faces
    }
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError


def test_faces_define_nothing():
    # What is defined in a face is seen by users and by nobody below.
    allowed = {"jaxish.__main__", "jaxish._dropin"}
    for module in MODULES:
        if floor(module)[1] == FACES and module not in allowed:
            body = ast.parse(MODULES[module].read_text()).body
            found = [node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
            assert not found, f"{module} defines {found}"


# ---------------------------------------------------------------------------------------------------------- namespaces

PUBLIC = sorted(m for m in MODULES if "._" not in m and m.removeprefix("jaxish.") not in additions.MODULES)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("module", PUBLIC)
def test_public_paths_show_what_jax_shows(module):
    ours, theirs = importlib.import_module(module), importlib.import_module(module.replace("jaxish", "jax", 1))
    submodules = {info.name for info in pkgutil.iter_modules(getattr(theirs, "__path__", ()))}
    shown = {name for name in dir(ours) if not name.startswith("_")}
    assert sorted(name for name in shown - submodules if not hasattr(theirs, name)) == []


def test_the_drop_in_serves_the_paths_of_jax_only():
    program = """
import importlib, jaxish.dropin
jaxish.dropin.install()
for path in %r:
    assert importlib.import_module("jax" + path) is importlib.import_module("jaxish" + path)
for path in (".dropin", ".interop", ".functorch", "._core", "._core.array", "._numpy.ufuncs", ".numpy.ufuncs", ".lax.shapes", ".random.keys"):
    try:
        importlib.import_module("jax" + path)
    except ModuleNotFoundError as error:
        assert "No module named 'jax" in str(error)
    else:
        raise AssertionError(path)
""" % [module.removeprefix("jaxish") for module in PUBLIC]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("is_enabled", [True, False])
@pytest.mark.parametrize("frozen", [0, 1])
def test_the_garbage_collector_is_as_it_was_after_the_import(is_enabled, frozen):
    program = f"""
import gc
getattr(gc, {"enable" if is_enabled else "disable"!r})()
for _ in range({frozen}):
    gc.freeze()
before, passes = (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count() > 0), []
gc.callbacks.append(lambda phase, about: passes.append(about["generation"]))
import jaxish
assert before == (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count() > 0)
assert 2 not in passes  # none over all that there is
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
