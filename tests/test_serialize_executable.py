"""jax.experimental.serialize_executable: what JAX gives for a function that was stored and loaded, jaxish gives."""

import importlib
import pathlib
import pickle
import subprocess
import sys
from typing import NamedTuple

import jax
import numpy as np
import pytest
from oracle import agree

import jaxish
import jaxish.random
from jaxish.experimental.serialize_executable import deserialize_and_load, serialize

X = np.linspace(-1, 1, 6, dtype=np.float32)


class Point(NamedTuple):
    x: object
    y: object


def loaded(lib, jitted, *args, **kwargs):
    module = importlib.import_module(f"{lib.__name__}.experimental.serialize_executable")
    stored = module.serialize(jitted.lower(*args, **kwargs).compile())
    return module.deserialize_and_load(*stored, execution_devices=lib.devices()[:1])


FUNCTIONS = {
    "trees": lambda lib: (lambda p, y=1.0: {"sum": p.x + y, "point": Point(p.y, (2, p.x))}, (Point(X, 3.0),), {"y": X}),
    "constants": lambda lib: (lambda x: x @ lib.numpy.arange(12.0).reshape(6, 2), (X,), {}),
    "loops": lambda lib: (lambda x: lib.lax.scan(lambda c, e: (c + e, c * e), 0.0, x), (X,), {}),
    "draws": lambda lib: (lambda n: lib.random.normal(lib.random.key(n), (3,)), (7,), {}),
    "solves": lambda lib: (lambda x: lib.numpy.linalg.solve(lib.numpy.eye(6) * 2, x), (X,), {}),
    "derivatives": lambda lib: (lib.grad(lambda x: lib.numpy.sin(x).sum()), (X,), {}),
    "nothing": lambda lib: (lambda: (), (), {}),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_loaded_gives_the_same(name):
    def program(lib):
        function, args, kwargs = FUNCTIONS[name](lib)
        found = loaded(lib, lib.jit(function), *args, **kwargs)
        return found(*args, **kwargs), str(found.in_tree), str(found.out_tree)

    agree(program)


def test_what_is_loaded_in_another_process_gives_the_same(tmp_path):
    stored, wanted = {}, {}
    for name in FUNCTIONS.keys() - {"trees"}:  # the class is this module's
        function, args, kwargs = FUNCTIONS[name](jaxish)
        stored[name] = (*serialize(jaxish.jit(function).lower(*args, **kwargs).compile()), args, kwargs)
        theirs = FUNCTIONS[name](jax)[0]
        compiled = jax.jit(theirs).lower(*args, **kwargs).compile()
        wanted[name] = compiled(*args, **kwargs), str(compiled.in_tree), str(compiled.out_tree)
    (tmp_path / "functions.pickle").write_bytes(pickle.dumps(stored))
    program = pathlib.Path(__file__).with_name("serialized_program.py")
    done = subprocess.run([sys.executable, str(program), str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = pickle.loads((tmp_path / "results.pickle").read_bytes())
    assert found.keys() == wanted.keys()
    for name, (values, *trees) in wanted.items():
        assert found[name][1:] == tuple(trees)
        jax.tree.map(lambda f, w: np.testing.assert_allclose(f, w, rtol=1e-5, atol=1e-6), found[name][0], values)


@pytest.mark.parametrize("given", [(X, X), (X[:2],), ({"x": X},)], ids=["more", "shorter", "other tree"])
def test_other_arguments_are_refused(given):
    agree(lambda lib: loaded(lib, lib.jit(lambda x: x * 2), X)(*given))


def test_static_arguments_are_within():
    agree(lambda lib: loaded(lib, lib.jit(lambda n, x: x * n, static_argnums=0), 3, X)(X))


def test_donated_arguments_are_donated():
    def program(lib):
        jitted = lib.jit(lambda x, y: (x["a"] * 2 + y, y), donate_argnums=0)
        found = loaded(lib, jitted, {"a": X}, X)
        given, kept = lib.numpy.asarray(X), lib.numpy.asarray(X)
        result = found({"a": given}, kept)
        donated = lib.tree.map(lambda info: info.donated, found.args_info)
        return result, given.is_deleted(), kept.is_deleted(), donated

    agree(program)


def test_a_device_may_be_named():
    def program(lib):
        module = importlib.import_module(f"{lib.__name__}.experimental.serialize_executable")
        stored = module.serialize(lib.jit(lambda x: x + 1).lower(X).compile())
        device = lib.devices("cpu")[0]
        result = module.deserialize_and_load(*stored, backend="cpu", execution_devices=[device])(X)
        return result, [d.id for d in result.devices()]

    agree(program)


def test_what_cannot_be_stored_or_loaded_is_refused():
    reference = jaxish.new_ref(1.0)
    with pytest.raises(ValueError, match="closed-over mutable array ref"):
        serialize(jaxish.jit(lambda x: x + reference[...]).lower(X).compile())
    with pytest.raises(NotImplementedError, match="host"):
        calling = jaxish.jit(lambda x: jaxish.pure_callback(np.sin, jaxish.ShapeDtypeStruct((6,), "float32"), x))
        serialize(calling.lower(X).compile())
    blob, in_tree, out_tree = serialize(jaxish.jit(lambda x: x + 1).lower(X).compile())
    with pytest.raises(ValueError, match="no compiled function of jaxish"):
        deserialize_and_load(b"something else", in_tree, out_tree)
    with pytest.raises(ValueError, match="damaged"):
        deserialize_and_load(blob[:-1] + b"?", in_tree, out_tree)
    with pytest.raises(NotImplementedError, match="one device, not on 16"):
        deserialize_and_load(blob, in_tree, out_tree, execution_devices=jaxish.devices() * 2)
