"""JAX functions as torch's ExportedProgram: stored, loaded by plain torch, and held against JAX's values."""

import pickle
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest
import torch
from portable_programs import program
from torch import nn
from torch.export import Dim
from torch.utils import cpp_extension

import jaxish
import jaxish.numpy as jnp
from jaxish._core import machine
from jaxish.interop import export, from_torch_module

# Runs stored programs where jaxish cannot be imported.
READER = """
import pickle, sys
from pathlib import Path
sys.modules["jaxish"] = None
import torch
folder, found = Path(sys.argv[1]), {}
for path in folder.glob("*.pt2"):
    calls = torch.load(path.with_suffix(".arguments"))
    module = torch.export.load(path).module()
    results = [module(*arguments) for arguments in calls]
    found[path.stem] = [[t.resolve_conj().numpy() for t in torch.utils._pytree.tree_leaves(r)] for r in results]
assert not any(name.partition(".")[0] in ("jax", "jaxish") for name, module in sys.modules.items() if module is not None)
(folder / "results").write_bytes(pickle.dumps(found))
"""


def tensors_of(args):
    return jaxish.tree.map(lambda x: jnp.asarray(x).to_torch().clone(), tuple(args))


def store(folder, name, exported, *calls):
    torch.export.save(exported, folder / f"{name}.pt2")
    torch.save(calls, folder / f"{name}.arguments")


def read(folder):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", READER, folder], capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    return pickle.loads((folder / "results").read_bytes())


def plain(leaf):
    is_key = jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)


# Some of every capability; test_portable.py has the graphs of all.
CHOSEN = [
    "a third derivative", "per-example gradients", "a scan", "a scan's gradient", "a scan of unsigned", "a while loop",
    "a while loop per lane", "a branch", "a switch", "a branch in a loop", "prefixes", "cholesky", "a solution", "a convolution",
    "a sorted array", "keys", "large counts", "random: normal", "random: poisson",
]  # fmt: skip


def key_words(x):
    is_key = isinstance(x, jaxish.Array) and jnp.issubdtype(x.dtype, jaxish.dtypes.prng_key)
    return jaxish.random.key_data(x) if is_key else x


DYNAMIC = {
    "a layer": (
        lambda lib: lambda p, x: {"y": lib.numpy.tanh(x @ p["w"]).mean(0), "z": x.reshape(-1) * x.shape[0]},
        lambda n: ({"w": np.ones((3, 2), np.float32)}, np.arange(3.0 * n, dtype=np.float32).reshape(n, 3)),
        ({"w": None}, {0: Dim("n", min=2, max=64)}),
    ),
    "per-example gradients": (
        lambda lib: lib.vmap(lib.grad(lambda w, x: lib.numpy.sin(w @ x)), (None, 0)),
        lambda n: (np.ones(3, np.float32), np.linspace(0, 1, 3 * n, dtype=np.float32).reshape(n, 3)),
        (None, {0: Dim("n")}),
    ),
    "two sizes": (
        lambda lib: lambda x, y: lib.numpy.concatenate([x @ y, (y.T @ x.T).T]).sum(0),
        lambda n: (np.ones((n, n + 1), np.float32), np.ones((n + 1, 4), np.float32)),
        ({0: Dim("n"), 1: Dim("m")}, (Dim("m"), None)),
    ),
    "a bias and a mask": (  # whose sizes are not those of the batch, whatever these are
        lambda lib: lambda b, x: lib.numpy.where(b > 0, x + b, x * b),
        lambda n: (np.linspace(-1, 1, 4, dtype=np.float32), np.ones((n, 4), np.float32)),
        (None, {0: Dim("n")}),
    ),
    "random numbers": (
        lambda lib: lambda x: x + lib.random.normal(lib.random.key(1), x.shape),
        lambda n: (np.zeros(n, np.float32),),
        ({0: Dim("n")},),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What a process without jaxish computes by all stored programs."""
    folder = tmp_path_factory.mktemp("exported")
    for name in CHOSEN:
        function, args = program(jaxish, name)
        store(folder, f"fixed {name}", export(function, *args), tensors_of(map(key_words, args)))
    for name, (make, arguments, shapes) in DYNAMIC.items():
        exported = export(make(jaxish), *arguments(4), dynamic_shapes=shapes)
        store(folder, f"dynamic {name}", exported, *(tensors_of(arguments(n)) for n in (2, 4, 7)))
    return read(folder)


@pytest.mark.parametrize("name", CHOSEN)
def test_in_a_process_without_jaxish(name, results):
    function, args = program(jax, name)
    wanted = jax.tree.leaves(function(*args))
    for found, w in zip(results[f"fixed {name}"][0], wanted, strict=True):
        np.testing.assert_allclose(found, plain(w), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", DYNAMIC)
def test_sizes_that_change(name, results):
    make, arguments, _ = DYNAMIC[name]
    for n, found in zip((2, 4, 7), results[f"dynamic {name}"], strict=True):
        wanted = jax.tree.leaves(make(jax)(*arguments(n)))
        for f, w in zip(found, wanted, strict=True):
            np.testing.assert_allclose(f, w, rtol=1e-5, atol=1e-5)


def test_bounds_of_sizes_are_kept():
    exported = export(lambda x: x * 2, jnp.ones((4, 3)), dynamic_shapes=({0: Dim("n", min=3, max=8)},))
    assert exported.module()(torch.ones(8, 3)).shape == (8, 3)
    for size in (2, 9):
        with pytest.raises((AssertionError, RuntimeError)):
            exported.module()(torch.ones(size, 3))


def test_nothing_of_jaxish_is_in_the_graph():
    @jaxish.custom_vjp
    def f(x):
        return jaxish.lax.scan(lambda c, row: (jnp.sin(c + row), c), x[0], x)[1]

    f.defvjp(lambda x: (f(x), x), lambda x, g: (g * x,))
    w = jnp.arange(3.0)
    exported = export(jaxish.jit(lambda x: f(x) * w), jnp.ones((4, 3)))
    graphs = [m.graph for m in exported.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    targets = {str(n.target) for g in graphs for n in g.nodes if n.op == "call_function"}
    assert targets
    assert not [t for t in targets if "jaxish" in t]
    assert isinstance(exported, torch.export.ExportedProgram)


def test_a_model_of_torch_that_went_through_jaxish():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).eval()
    apply, params, buffers = from_torch_module(model)
    slopes = jaxish.grad(lambda p, x: apply(p, buffers, x)[0].sum())
    x = torch.randn(5, 3)
    found = export(slopes, params, x).module()({n: p.detach() for n, p in model.named_parameters()}, x)
    model(x).sum().backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad)


def test_refusals():
    with pytest.raises(NotImplementedError, match="callback"):
        export(lambda x: jaxish.pure_callback(np.sin, jaxish.ShapeDtypeStruct((3,), np.float32), x), jnp.ones(3))
    with pytest.raises(NotImplementedError, match="scan"):
        export(
            lambda x: jaxish.lax.scan(lambda c, row: (c + row, c), jnp.zeros(3), x), jnp.ones((4, 3)), dynamic_shapes=({0: Dim("n")},)
        )  # fmt: skip
    with pytest.raises(ValueError, match="with names"):
        export(jnp.sin, jnp.ones(3), dynamic_shapes=({0: Dim.AUTO},))
    with pytest.raises(ValueError, match="names axis 1"):
        export(jnp.sin, jnp.ones(3), dynamic_shapes=({1: Dim("n")},))
    with pytest.raises(ValueError, match="2 entries for 1 arguments"):
        export(jnp.sin, jnp.ones(3), dynamic_shapes=(None, None))


# ------------------------------------------------------------------------------------------- compiled ahead of time

OF_AOTINDUCTOR = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
NEEDS_COMPILER = pytest.mark.skipif(machine.compiler() is None, reason="needs a C++ compiler")


@OF_AOTINDUCTOR
@NEEDS_COMPILER
def test_ahead_of_time_compilation(tmp_path):
    def f(x, ws):
        return jaxish.lax.scan(lambda c, w: (jnp.tanh(c @ w), c.sum()), x, ws)

    x, ws = torch.ones(2, 4), torch.linspace(-1, 1, 48).reshape(3, 4, 4)
    package = torch._inductor.aoti_compile_and_package(export(f, x, ws), package_path=str(tmp_path / "model.pt2"))
    found = torch._inductor.aoti_load_package(package)(x, ws)
    a, b = jax.numpy.asarray(x.numpy()), jax.numpy.asarray(ws.numpy())
    wanted = jax.lax.scan(lambda c, w: (jax.numpy.tanh(c @ w), c.sum()), a, b)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@OF_AOTINDUCTOR
@NEEDS_COMPILER
def test_a_program_in_cpp_runs_what_was_compiled(tmp_path):
    def f(lib, w, x):
        y = lib.nn.softmax(lib.numpy.tanh(x @ w))
        return y, y.argmax(1)

    w, x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2), np.linspace(-2, 3, 12, dtype=np.float32).reshape(4, 3)
    package, program = str(tmp_path / "model.pt2"), tmp_path / "run_exported"
    exported = export(lambda x: f(jaxish, jnp.asarray(w), x), jnp.zeros((2, 3)), dynamic_shapes=({0: Dim("n")},))
    torch._inductor.aoti_compile_and_package(exported, package_path=package)
    source = Path(__file__).parent.parent / "examples" / "run_exported.cpp"
    folders = [f"-I{path}" for path in cpp_extension.include_paths()]
    for path in cpp_extension.library_paths():
        folders += [f"-L{path}", f"-Wl,-rpath,{path}"]
    libraries = ["-ltorch", "-ltorch_cpu", "-lc10"]
    subprocess.run([machine.compiler(), "-std=c++20", source, "-o", program, *folders, *libraries], check=True)  # pyright: ignore
    numbers = " ".join(map(str, x.flat))
    done = subprocess.run([program, package, "4", "3"], input=numbers, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = [np.array(line.split(), float) for line in done.stdout.splitlines()]
    for part, wanted in zip(found, f(jax, w, x), strict=True):
        np.testing.assert_allclose(part.reshape(wanted.shape), wanted, rtol=1e-5)


# ------------------------------------------------------------------------------------------------------------- ONNX


def of_module(module):
    """Return a function of a library that calls a module of torch: for JAX, by the module itself."""
    apply, params, buffers = from_torch_module(module)

    def make(lib):
        if lib is jaxish:
            return lambda x: apply(params, buffers, x, train=False)[0]
        return lambda x: module.eval()(torch.tensor(np.asarray(x))).detach().numpy()

    return make


def drawn(*shape):
    return np.random.RandomState(0).standard_normal(shape).astype(np.float32)


torch.manual_seed(0)
CONVOLUTIONS = nn.Sequential(
    nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)
)
ENCODER = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1, enable_nested_tensor=False)
ONNX = {
    "a layer of a batch": (lambda lib: lambda x: lib.nn.gelu(x.reshape(x.shape[0], -1) @ lib.numpy.ones((6, 5)) + lib.numpy.arange(5.0)), (drawn(4, 2, 3),), {0: Dim("n")}),
    "an embedding": (lambda lib: lambda tokens: lib.numpy.asarray(drawn(7, 3))[tokens].sum(1), (np.array([[1, 6], [0, 2]], np.int32),), {0: Dim("n")}),
    "chosen": (lambda lib: lambda x: (x.argmax(1), lib.numpy.take_along_axis(x, x.argmax(1, keepdims=True), 1), lib.nn.softmax(x)), (drawn(3, 4),), None),
    "a convolutional net": (of_module(CONVOLUTIONS), (drawn(3, 2, 8, 8),), None),
    "a transformer": (of_module(ENCODER), (drawn(2, 5, 8),), None),
    "gradients": (lambda lib: lib.vmap(lib.grad(lambda x: lib.numpy.sin(x @ x).sum())), (drawn(3, 4),), None),
    "a scan": (lambda lib: lambda x: lib.lax.scan(lambda c, row: (lib.numpy.tanh(c + row), c), x[0], x), (drawn(4, 3),), None),
    "a while loop": (lambda lib: lambda x: lib.lax.while_loop(lambda y: y.sum() < 9, lambda y: y * 2 + x, x), (abs(drawn(3)),), None),
    "a branch": (lambda lib: lambda x: lib.lax.cond(x.sum() > 0, lambda x: x * x, lambda x: -x, x), (drawn(3),), None),
}  # fmt: skip


@pytest.fixture
def onnx():
    """torch's exporter to ONNX, which prints and warns of itself."""
    pytest.importorskip("onnxscript")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield lambda program: torch.onnx.export(program, verbose=False)


@pytest.mark.parametrize("name", ONNX)
def test_onnx(name, onnx):
    runtime = pytest.importorskip("onnxruntime")
    make, args, shapes = ONNX[name]
    program = onnx(export(make(jaxish), *args, dynamic_shapes=None if shapes is None else (shapes,)))
    session = runtime.InferenceSession(program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
    batches = [args] if shapes is None else [args, tuple(np.concatenate([a, a[:1]]) for a in args)]
    for given in batches:
        found = session.run(None, dict(zip([i.name for i in session.get_inputs()], given, strict=True)))
        for f, w in zip(found, jax.tree.leaves(make(jax)(*map(jax.numpy.asarray, given))), strict=True):
            assert f.dtype == w.dtype
            np.testing.assert_allclose(f, w, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (jnp.sort, "aten.sort"),
        (jnp.linalg.cholesky, "cholesky"),
        (lambda x: x + jaxish.random.normal(jaxish.random.key(0), x.shape), "aten.view"),
    ],
)
def test_what_onnx_has_not_is_refused_by_name(function, operator, onnx):
    with pytest.raises(Exception, match=operator):
        onnx(export(function, jnp.eye(3)))


def test_nothing_is_compiled_while_torch_exports(monkeypatch):
    exports, alive = torch.export.export, []

    def beside_a_compilation(*args, **options):
        other = threading.Thread(target=jaxish.jit(lambda x: jnp.sin(x) + 1).lower(jnp.ones(3)).compile)
        other.start()
        other.join(0.2)
        alive.append(other)
        assert other.is_alive()
        return exports(*args, **options)

    monkeypatch.setattr(torch.export, "export", beside_a_compilation)
    program = export(jnp.cos, jnp.ones(3))
    alive[0].join()
    np.testing.assert_allclose(program.module()(torch.zeros(3)), 1.0)
