"""`import jax` served by jaxish, in processes of their own."""

import subprocess
import sys
import textwrap


def run(code, *args, cwd):
    (cwd / "program.py").write_text(textwrap.dedent(code))
    return subprocess.run([sys.executable, *args], cwd=cwd, capture_output=True, text=True, timeout=120)


PROGRAM = """
    import os
    import sys
    import jax
    import jax.numpy as jnp
    import jax.tree_util as jtu
    from jax import lax, random
    from jax.nn import relu
    import jaxlib
    assert sys.argv[1:] == ["a", "--b"], sys.argv
    assert __name__ == "__main__" and os.path.isabs(globals().get("__file__", "/"))
    assert jnp is jax.numpy and sys.modules["jax.numpy"] is sys.modules["jaxish.numpy"]
    assert jax.__version__.startswith("0.10.2") and jaxlib.__version__ == "0.10.2"
    assert jax.__version_info__ >= (0, 4, 20)
    print(jax.jit(lambda x: relu(x) + 1)(jnp.arange(3.0)))
"""


def test_a_file_runs_unchanged(tmp_path):
    result = run(PROGRAM, "-m", "jaxish", "run", "program.py", "a", "--b", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, "[1. 2. 3.]\n"), result.stderr


def test_a_module_runs_unchanged(tmp_path):
    result = run(PROGRAM, "-m", "jaxish", "run", "-m", "program", "a", "--b", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, "[1. 2. 3.]\n"), result.stderr


def test_a_module_that_is_not_there_is_named(tmp_path):
    code = "import jax.no_such_module"
    result = run(code, "-m", "jaxish", "run", "program.py", cwd=tmp_path)
    assert "ModuleNotFoundError: No module named 'jax.no_such_module'" in result.stderr


def test_a_missing_file_is_named(tmp_path):
    result = run("", "-m", "jaxish", "run", "nowhere.py", cwd=tmp_path)
    assert result.returncode == 2
    assert "nowhere.py" in result.stderr


def test_it_says_so_when_real_jax_came_first(tmp_path):
    code = """
        import jax
        import jaxish.dropin
        try:
            jaxish.dropin.install()
        except RuntimeError as error:
            print(error)
    """
    result = run(code, "program.py", cwd=tmp_path)
    assert "real JAX 0.10.2 is imported already" in result.stdout, result.stderr


def test_info_tells_what_it_would_run_on(tmp_path):
    result = run("", "-m", "jaxish", "info", cwd=tmp_path)
    for word in ("jaxish:", "torch:", "devices:", "C++ compiler:", "kernel cache:", "inductor"):
        assert word in result.stdout, result.stderr


def test_importing_jaxish_does_not_load_the_compilers(tmp_path):
    code = """
        import sys
        import jaxish
        print([m for m in ("torch._inductor", "torch._dynamo", "torch.distributed.tensor", "torch_xla", "sympy") if m in sys.modules])
    """
    result = run(code, "program.py", cwd=tmp_path)
    assert result.stdout == "[]\n", result.stderr


def test_private_modules_have_what_means_something_here(tmp_path):
    program = """
import jax, jax.extend.core, jax._src.core, jax._src.traceback_util as traceback_util
from jax._src import dtypes, tree_util
from jax._src.interpreters import ad
import jax.interpreters.ad
from jax._src.state.types import AbstractRef
traceback_util.register_exclusion(__file__)
import jax._src.xla_bridge
from jax._src.tree_util import _registry
print(list(jax._src.xla_bridge._backends), jax.devices()[0].platform in jax._src.xla_bridge._backends, dict in _registry, int in _registry)
print(jax._src.core.Primitive is jax.extend.core.Primitive, ad.Zero is jax.interpreters.ad.Zero, dtypes.float0 is jax.dtypes.float0)
from jax._src.flatten_util import ravel_pytree
print(ravel_pytree is jax.flatten_util.ravel_pytree)
from jax._src import api
from jax._src.lax import lax
print(api.grad is jax.grad, lax.add is jax.lax.add)
clean, seen = jax._src.core.trace_state_clean, []
for around in (jax.jit, jax.grad, jax.vmap, jax.make_jaxpr):
    around(lambda x: (seen.append(clean()), x.sum())[1])(jax.numpy.ones(2))
print(clean(), seen)
try:
    jax._src.core.no_such_name
except AttributeError as error:
    print("private to JAX" in str(error))
try:
    import jax._src.pallas
except ModuleNotFoundError as error:
    print(error.name)
"""
    result = run(program, "-m", "jaxish", "run", "program.py", cwd=tmp_path)
    lines = [
        "[] True True False",
        "True True True",
        "True",
        "True True",
        "True [False, False, False, False]",
        "True",
        "jax._src.pallas",
    ]
    assert result.stdout.splitlines() == lines, result.stderr


def test_helpers_of_private_modules_do_what_they_do_in_jax(tmp_path):
    program = """
import jax, jax.numpy as jnp, opt_einsum
from jax._src import core, dtypes, util
from jax._src.ad_checkpoint import checkpoint_name, saved_residuals
from jax._src.interpreters import partial_eval
from jax._src.interpreters.batching import AxisData, is_vmappable
from jax._src.lib import xla_client
from jax._src.numpy import einsum
from jax._src.numpy.lax_numpy import split
from jax._src.numpy.util import promote_dtypes, promote_dtypes_complex, promote_dtypes_inexact
from jax._src.public_test_util import check_close, check_grads
from jax._src.scipy.special import gammaln
from jax._src.sharding import Sharding
from jax._src.state.indexing import Slice
from jax._src.pjit import auto_axes
from jax._src.typing import Array, ArrayLike, DTypeLike
from jax.experimental import pallas
from jax._src.sharding_impls import UNSPECIFIED, NamedSharding, canonicalize_sharding
from jax._src.mesh import get_concrete_mesh, thread_resources
mesh = jax.make_mesh((1, 1), ("a", "b"), axis_types=(jax.sharding.AxisType.Explicit, jax.sharding.AxisType.Auto))
for given in (None, NamedSharding(mesh, jax.P("a")), NamedSharding(mesh, jax.P(None, "b")), jax.P("a"), 3):
    try:
        print(given is None, canonicalize_sharding(given, "f") is None)
    except (TypeError, ValueError) as error:
        print(type(error).__name__)
with jax.set_mesh(mesh):
    for spec, check in ((jax.P("a"), True), (jax.P("c"), False), (jax.P("c"), True)):
        other = mesh if spec == jax.P("a") else jax.make_mesh((1,), ("c",), axis_types=(jax.sharding.AxisType.Explicit,))
        try:
            print(canonicalize_sharding(NamedSharding(other, spec), "f", check) is None)
        except ValueError as error:
            print(str(error).partition(" {")[0][:12])
print(jax.jit(lambda x: x, in_shardings=UNSPECIFIED)(1), type(core.JaxprEqnContext()).__name__)
check_grads(jnp.sin, (1.0,), 2)
for other in (jnp.float32(1 + 5e-7), jnp.float32(1 + 5e-6), jnp.bfloat16(1.007), jnp.ones(3, "int8"), jnp.ones(1, "int8"), 1.0):
    try:
        check_close({"a": jnp.ones((), other.dtype) if hasattr(other, "dtype") else 1.0}, {"a": other})
        check_close([jnp.ones(30)], [jnp.ones(30).at[0].set(1 + 2e-5)])
        print("close")
    except AssertionError:
        print("apart")
print(get_concrete_mesh().empty)
with jax.set_mesh(jax.make_mesh((1,), ("x",))):
    jax.jit(lambda x: print(get_concrete_mesh()) or x)(1.0)
print(Slice(1, 2), type(pallas.ds(jnp.int32(0), 3)) is Slice, auto_axes is jax.sharding.auto_axes)
print(Array is jax.Array, isinstance(jnp.ones(2), Array), DTypeLike is jax.typing.DTypeLike)
print(split is jnp.split, gammaln is jax.scipy.special.gammaln, xla_client.XlaRuntimeError is jax.errors.JaxRuntimeError)
print(Sharding is jax.sharding.Sharding, NamedSharding is jax.sharding.NamedSharding, thread_resources.env.physical_mesh.empty)
for name in ("bool", "int8", "int32", "float16", "bfloat16", "float32", "complex64", "float64", "complex128"):
    print(*(f(jnp.dtype(name)) for f in (dtypes.to_inexact_dtype, dtypes.to_floating_dtype, dtypes.to_complex_dtype)))
print(util.split_list([1, 2, 3, 4], [1, 2]), util.split_list([], [0]), util.unzip2([(1, 2), (3, 4)]), util.unzip2([]), util.safe_zip([1], [2]))
given = [(1, 2.5), (jnp.arange(2), 1), (jnp.ones(2, "float16"), jnp.arange(2)), (jnp.ones(1, "complex64"), 1), (True,)]
for promoted in (promote_dtypes, promote_dtypes_inexact, promote_dtypes_complex):
    print([[(str(x.dtype), x.weak_type) for x in promoted(*args)] for args in given])
operands, path = opt_einsum.contract_path("ij,jk,kk->i", jnp.ones((2, 3)), jnp.arange(12.0).reshape(3, 4), jnp.eye(4), einsum_call=True)
path = tuple((a, frozenset(b), c) for a, b, c, *_ in path)
seen = []
product = lambda *given, **options: seen.append(len(given)) or jax.lax.dot_general(*given, **options)
print(jax.jit(einsum._einsum, static_argnums=(1, 2, 3, 4))(operands, path, None, "float32", product), sum(seen) > 0)
print(AxisData("i", 3, None, None).name, is_vmappable(jnp.ones(2)))
info = jax.api_util.debug_info("example", lambda x: x, (0,), {})
types = partial_eval.abstract_eval_fun(lambda x, times: [x * times, x.sum()], core.ShapedArray((2,), jnp.dtype("int8")), debug_info=info, times=2)
print(*types)
net = lambda w, *, x: jnp.tanh(checkpoint_name(jnp.sin(x * w[0]), "first") @ w[1]).sum()
kept = saved_residuals(jax.checkpoint(net), (2.0, jnp.ones((2, 3))), x=jnp.arange(2.0))
print(type(kept).__name__, *((a.shape, str(a.dtype), text) for a, text in kept))
"""
    expected = run(program, "program.py", cwd=tmp_path)
    result = run(program, "-m", "jaxish", "run", "program.py", cwd=tmp_path)
    assert expected.stdout and result.stdout == expected.stdout, result.stderr


def test_what_importing_jax_loads_is_among_the_modules_of_the_process(tmp_path):
    code = """
        import sys
        import jax
        names = ("numpy", "lax", "nn", "random", "tree_util", "tree", "sharding", "errors", "dtypes", "typing", "core", "scipy")
        print([name for name in names if f"jax.{name}" in sys.modules])
        print(all(sys.modules[f"jax.{name}"] is getattr(jax, name) for name in names if f"jax.{name}" in sys.modules))
        print(sys.modules["jax.tree_util"].SequenceKey is jax.tree_util.SequenceKey, "jax._core" in sys.modules)
    """
    ours = run(code, "-m", "jaxish", "run", "program.py", cwd=tmp_path)
    theirs = run(code, "program.py", cwd=tmp_path)
    assert ours.stdout == theirs.stdout != "", ours.stderr


def test_classes_of_jaxlib_that_annotations_and_handlers_name(tmp_path):
    code = """
        import jax
        from jaxlib import xla_client
        print(xla_client.Device is jax.Device, xla_client.NamedSharding is jax.sharding.NamedSharding)
        print(isinstance(jax.numpy.ones(2), xla_client.ArrayImpl), xla_client.XlaRuntimeError is jax.errors.JaxRuntimeError)
        from jaxlib import _jax
        print(type(jax.jit(abs)) is _jax.PjitFunction, _jax.Device is jax.Device, _jax.JaxRuntimeError is jax.errors.JaxRuntimeError)
    """
    ours = run(code, "-m", "jaxish", "run", "program.py", cwd=tmp_path)
    theirs = run(code, "program.py", cwd=tmp_path)
    assert ours.stdout == theirs.stdout != "", ours.stderr + theirs.stderr


def test_arrays_are_of_a_class_of_jax(tmp_path):
    code = """
        import pickle, jax
        told = set()
        note = lambda x: told.add(type(x).__module__.partition(".")[0])
        transforms = [lambda f: f, jax.jit, jax.grad, jax.vmap]
        for transform in transforms:
            transform(lambda x: (note(x), x)[1])(jax.numpy.ones(()) if transform is not jax.vmap else jax.numpy.ones(2))
        print(told - {"jaxlib"}, jax.Array.__module__, pickle.loads(pickle.dumps(jax.numpy.ones(2))))
    """
    found, wanted = (run(code, *start, "program.py", cwd=tmp_path) for start in (("-m", "jaxish", "run"), ()))
    assert (found.stdout, found.returncode) == (wanted.stdout, 0), found.stderr


def test_modules_named_like_tests_are_one(tmp_path):
    (tmp_path / "some_test.py").write_text(
        "import jax.test_util\n\ndef test_it():\n    assert jax.test_util.check_grads\n"
    )
    result = run("", "-m", "jaxish", "run", "-m", "pytest", "-q", "some_test.py", cwd=tmp_path)
    assert "1 passed" in result.stdout, result.stdout + result.stderr
