"""Where arrays lie: what the library makes lies beside its operands, or on the default device.

The programs run on `far`, a second device that any machine has, with values (second_device.py says why it and not torch's
meta device or fake tensors). It belongs to a whole process, so each section is a process of its own.
"""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest
from torch.utils import backend_registration

import jaxish

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "jaxish"

FACTORIES = {
    "arange", "as_tensor", "asarray", "bartlett_window", "blackman_window", "empty", "empty_strided", "eye", "frombuffer",
    "from_numpy", "full", "hamming_window", "hann_window", "kaiser_window", "linspace", "logspace", "normal", "ones",
    "rand", "randint", "randn", "randperm", "scalar_tensor", "tensor", "tril_indices", "triu_indices", "zeros",
}  # fmt: skip

# The calls that make a tensor on the CPU whatever the default device is: the function that they stand in, and why.
ON_THE_CPU = {
    "_compile/donation.py:_alone": "what nobody else holds, whose references are counted once",
    "_compile/xla.py:_extracted": "memory that is its own, which is moved",
    "_core/array.py:_to_numpy": "values for NumPy",
    "_core/array.py:_from_numpy": "values from NumPy, which are moved",
    "_core/graph.py:_number": "a number as torch itself wraps it, which meets an array",
    "_core/narrow.py:_values_of": "a table, which is moved",
    "_core/narrow.py:_rounding": "tables, which are moved",
    "_devices/device_meshes.py:_made": "device numbers, which torch's DeviceMesh wants there",
    "_export/container.py:_tensor": "what a file holds, which is moved where the function is called",
    "_lax/linalg/matrices.py:by_lapack": "what LAPACK computed of what is there",
    "_lax/linalg/primitives.py:_with_left_eigenvectors": "LAPACK's results, which are moved",
    "_lax/linalg/primitives.py:_schur": "LAPACK's results, which are moved",
    "_lax/random_bits.py:_drawn": "what NumPy drew, which is moved",
    "_numpy/indexing.py:_numpy_item": "a mask, of whose values index arrays are made, which are moved",
    "_experimental/sparse/linalg.py:run": "what SciPy's sparse solver computed",
    "_random/uniforms.py:_constant_cut": "numbers, of which Python floats are made",
    "_random/shuffles.py:_one": "an order that NumPy sorted, for a key on the CPU",
    "_scipy/linalg/tridiagonal.py:run": "what LAPACK computed, through SciPy",
}


def _factories(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls of torch's factories in a file, each with the innermost function that it stands in."""

    def visit(node: ast.AST, function: str) -> Iterator[tuple[str, ast.Call]]:
        if isinstance(node, ast.FunctionDef):
            function = node.name
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr in FACTORIES and ast.unparse(called.value) == "torch":
            assert isinstance(node, ast.Call)
            yield function, node
        for child in ast.iter_child_nodes(node):
            yield from visit(child, function)

    yield from visit(ast.parse(path.read_text()), "")


def _on_the_cpu() -> set[str]:
    """Return where the source makes tensors without a device, or on the CPU by name."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        for function, call in _factories(path):
            device = next((k.value for k in call.keywords if k.arg == "device"), None)
            if device is None or (isinstance(device, ast.Constant) and device.value != "meta"):
                found.add(f"{path.relative_to(SOURCE).as_posix()}:{function}")
    return found


def test_every_factory_names_a_device():
    assert _on_the_cpu() == set(ON_THE_CPU)


needs_second_device = pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this torch cannot have a device written in Python",
)


def _run(*arguments: str) -> str:
    environment = {
        **os.environ,
        "JAXISH_JIT_TIER": "direct",
        "PYTHONPATH": os.pathsep.join((str(TESTS.parent), str(TESTS))),
    }
    result = subprocess.run(
        [sys.executable, "-W", "ignore", *arguments],
        env=environment,
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout


@needs_second_device
@pytest.mark.parametrize(
    ("section", "least"), [("expressions", 60), ("apart", 60), ("transformations", 40), ("samplers", 5), ("step", 2)]
)
def test_on_a_second_device(section, least):
    outcome = json.loads(_run("tests/placement_program.py", section))
    assert outcome["wrong"] == {}
    assert outcome["run"] >= least


@needs_second_device
def test_the_tour_on_a_second_device():
    own = "--deselect=tests/test_tour.py::test_a_device"  # which device this is, jaxish has no name for
    _run("-m", "pytest", "-q", "-p", "second_device", "-p", "no:cacheprovider", own, "tests/test_tour.py")


# What a `device=` argument says, among the CPU's devices.
CREATED = [
    "jnp.zeros(3, device=d)", "jnp.ones(3, device=d)", "jnp.empty(3, device=d)", "jnp.full(3, 2, device=d)", "jnp.eye(3, device=d)",
    "jnp.arange(3, device=d)", "jnp.linspace(0, 1, 3, device=d)", "jnp.array([1, 2], device=d)", "jnp.asarray(2.0, device=d)",
    "jnp.asarray(jnp.ones(2), device=d)", "jnp.zeros_like(x, device=d)", "jnp.full_like(x, 3, device=d)", "x.astype('int32', device=d)",
    "jnp.astype(x, 'int32', device=d)", "jnp.fft.fftfreq(4, device=d)", "jnp.fft.rfftfreq(4, device=d)", "jax.device_put(x, d)",
    "jax.device_put(2.0, d)", "x.to_device(d)", "jnp.zeros(3)", "jnp.zeros(3, device=jax.devices()[0])", "jax.device_put(x)",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["device", "sharding"])
@pytest.mark.parametrize("expression", CREATED)
def test_where_arrays_are_created(expression, kind):
    def found(library):
        device = library.devices()[2]
        place = device if kind == "device" else library.sharding.SingleDeviceSharding(device)
        scope = {"jax": library, "jnp": library.numpy, "x": library.numpy.ones(2), "d": place}
        x = eval(expression, scope)
        return str(x.devices()), str(x.device), x.committed, x.shape, str(x.dtype)

    assert found(jaxish) == found(jax)


def test_a_device_that_is_none():
    with pytest.raises(ValueError, match="only accepts"):
        jaxish.numpy.zeros(2, device="nonsense")


@pytest.mark.parametrize("library", [jax, jaxish])
def test_a_default_device_that_is_none(library):
    with library.default_device("cpu"):
        assert library.numpy.zeros(2).devices() == {library.devices("cpu")[0]}
    with pytest.raises(ValueError, match=r"must be passed either a Device object"), library.default_device("nonsense"):
        library.numpy.zeros(2)
