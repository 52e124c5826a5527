"""jit against JAX: signatures, static and donated arguments, caching, stages, bad input; and its tiers."""

import functools
import pickle

import jax
import numpy as np
import pytest
from oracle import agree

import jaxish
from jaxish._core import config

X = np.arange(3.0, dtype=np.float32)


def of_known(j):
    """A function that reads the values of arrays that it closes over: they are known while it is traced."""
    x, n = j.numpy.float32(2.5), j.numpy.int32(2)

    def f(y):
        total = y * float(x) + int(n) + complex(x).real + [5, 7, 9][n] + n.item()
        return total if x > 0 and bool(n) else y

    return f


class Scaler:
    def __init__(self, jax):
        self.apply = functools.partial(jax.jit(self.scale, static_argnums=1))

    def scale(self, x, n):
        return x * n


VALUES = {
    "call": lambda j: j.jit(lambda x: x * 2)(X),
    "values of known arrays": lambda j: j.jit(of_known(j))(X),
    "values of known arrays in a loop": lambda j: j.lax.scan(lambda c, x: (of_known(j)(c), x), X, X),
    "values of known arrays under all": lambda j: j.jit(j.vmap(j.grad(of_known(j))))(X),
    "python scalars": lambda j: j.jit(lambda x, y: x + y)(1, 2.5),
    "pytrees": lambda j: j.jit(lambda p: {"s": p["a"] + p["b"][0], "n": None})({"a": X, "b": (1.0,)}),
    "keywords": lambda j: j.jit(lambda x, *, y: x - y)(X, y=1.0),
    "defaults": lambda j: j.jit(lambda x, y=3: x * y)(X),
    "static by number": lambda j: j.jit(lambda x, n: x * n if n > 1 else x, static_argnums=1)(X, 3),
    "static by name": lambda j: j.jit(lambda x, n: x * n if n > 1 else x, static_argnames="n")(X, n=3),
    "static by name, given by position": lambda j: j.jit(lambda x, n: x * n if n > 1 else x, static_argnames="n")(X, 3),
    "static negative": lambda j: j.jit(lambda x, n: x * n, static_argnums=-1)(X, 3),
    "static string": lambda j: j.jit(lambda x, m: x + 1 if m == "up" else x - 1, static_argnames=("m",))(X, m="up"),
    "decorator with options": lambda j: j.jit(static_argnames="n")(lambda x, n: x * n)(X, n=2),
    "nested": lambda j: j.jit(lambda x: j.jit(lambda y: y * 2)(x) + 1)(X),
    "partial": lambda j: j.jit(functools.partial(lambda x, y: x * y, 2.0))(X),
    "method": lambda j: Scaler(j).apply(X, 3),
    "constant result": lambda j: j.jit(lambda x: 3)(X),
    "input returned": lambda j: j.jit(lambda x: (x, x))(X),
    "no arguments": lambda j: j.jit(lambda: j.numpy.ones(2))(),
    "captured array": lambda j: j.jit(lambda x: x + j.numpy.asarray(X))(X),
    "captured tracer": lambda j: j.jit(lambda x: j.jit(lambda y: x * y)(2.0))(X),
    "eval_shape": lambda j: str(j.eval_shape(lambda x: {"a": x.sum(), "b": x > 0}, X)),
    "without jit": lambda j: undisabled(j),
    "weak result": lambda j: j.jit(lambda x: x * 2)(3.0),
    "numpy input": lambda j: j.jit(lambda x: x)(np.arange(3, dtype=np.int64)),
}


def undisabled(jax):
    with jax.disable_jit():
        return jax.jit(lambda x: x if float(x) > 0 else -x)(np.float32(-2))


ERRORS = {
    "unhashable static": lambda j: j.jit(lambda x, y: x, static_argnums=1)(1.0, [1]),
    "unhashable static by name": lambda j: j.jit(lambda x, y: x, static_argnames="y")(1.0, y=[1]),
    "static number out of range": lambda j: j.jit(lambda x: x, static_argnums=5),
    "static name unknown": lambda j: j.jit(lambda x: x, static_argnames="z"),
    "string argument": lambda j: j.jit(lambda x: x)("a"),
    "string result": lambda j: j.jit(lambda x: "a")(1.0),
    "bool": lambda j: j.jit(lambda x: 1 if x > 0 else 2)(1.0),
    "int": lambda j: j.jit(lambda x: list(range(x)))(1),
    "float": lambda j: j.jit(lambda x: float(x))(1.0),
    "item": lambda j: j.jit(lambda x: x.item())(1.0),
    "numpy": lambda j: j.jit(lambda x: np.sin(x))(1.0),
    "mask": lambda j: j.jit(lambda x: x[x > 0])(X),
    "value dependent shape": lambda j: j.jit(lambda x: j.numpy.nonzero(x))(X),
    "not callable": lambda j: j.jit(3),
    "missing argument": lambda j: j.jit(lambda x: x)(),
    "assignment": lambda j: j.jit(lambda x: x.__setitem__(0, 1))(X),
}


@pytest.mark.parametrize("program", [*VALUES.values(), *ERRORS.values()], ids=[*VALUES, *ERRORS])
def test_like_jax(program):
    agree(program)


def test_a_function_is_traced_once_per_signature():
    traces = []

    @jaxish.jit
    def f(x):
        traces.append(x.shape)
        return x * 2

    for x in (X, X + 1, X[:2], X[:2], 1.0, 2.0, 1):
        f(x)
    assert traces == [(3,), (2,), (), ()]
    assert f._cache_size() == 4
    f.clear_cache()
    f(X)
    assert len(traces) == 5


def test_two_jits_of_one_function_share_its_programs():
    traces = []

    def f(x):
        traces.append(1)
        return x

    jaxish.jit(f)(X)
    jaxish.jit(f)(X)
    assert len(traces) == 1


def test_a_program_that_captured_a_tracer_is_not_kept():
    scale = []
    inner = jaxish.jit(lambda y: y * scale[0])

    def outer(x):
        scale[:] = [x]
        return inner(1.0)

    assert [float(jaxish.jit(outer)(x)) for x in (2.0, 3.0)] == [2.0, 3.0]
    assert jaxish.grad(outer)(5.0) == 1.0


def test_configuration_is_part_of_the_signature():
    f = jaxish.jit(lambda x: x + jaxish.numpy.arange(3))
    assert f(X).dtype == np.float32
    with jaxish.enable_x64(True):
        assert f(np.arange(3)).dtype == np.int64
    assert f(np.arange(3)).dtype == np.int32


def test_a_donated_array_is_deleted():
    x = jaxish.numpy.ones(3)
    y = jaxish.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert y.tolist() == [2, 2, 2]
    assert x.is_deleted()
    with pytest.raises(RuntimeError, match="deleted"):
        x + 1


def test_an_array_that_leaves_its_trace_is_refused():
    kept = []
    jaxish.jit(lambda x: kept.append(x) or x)(X)
    with pytest.raises(jaxish.errors.UnexpectedTracerError, match=r"float32\[3\]|shape \(3,\)"):
        kept[0] + 1


def test_an_error_while_tracing_leaves_nothing_behind():
    with pytest.raises(jaxish.errors.TracerBoolConversionError):
        jaxish.jit(lambda x: 1 if x > 0 else 2)(1.0)
    assert jaxish.jit(lambda x: x + 1)(1.0) == 2.0
    assert (jaxish.numpy.ones(2) + 1).tolist() == [2, 2]


def test_stages():
    lowered = jaxish.jit(lambda x, y: x @ y).lower(
        jaxish.ShapeDtypeStruct((2, 3), np.float32), jaxish.ShapeDtypeStruct((3, 4), np.float32)
    )
    assert lowered.out_info.shape == (2, 4)
    assert "aten.mm" in lowered.as_text()


@pytest.mark.parametrize(
    "program",
    [
        lambda j: lambda x: x @ x,
        lambda j: lambda x: x @ x[0],
        lambda j: lambda x: j.numpy.sin(x) + x,
        lambda j: lambda x: x.sum(),
        lambda j: lambda x: x * 2 + j.numpy.ones((3, 3)),
    ],
)
def test_cost_analysis_counts_as_xla(program):
    x = np.ones((3, 3), np.float32)
    wanted = jax.jit(program(jax)).lower(x).compile().cost_analysis()
    found = jaxish.jit(program(jaxish)).lower(x).compile().cost_analysis()
    for name in ("flops", "transcendentals"):
        assert found.get(name) == wanted.get(name)  # pyright: ignore


def test_cost_analysis_runs_nothing():
    constant = jaxish.numpy.arange(3.0)
    loop = jaxish.jit(lambda x: jaxish.lax.scan(lambda c, _: (c @ x + constant, None), x, None, length=5)[0])
    assert loop.lower(np.ones((3, 3), np.float32)).cost_analysis()["flops"] == 54 + 9  # the body once, as XLA counts


@pytest.fixture
def tier():
    flag = config.jit_tier
    before = flag.value
    yield flag.set
    flag.set(before)


LARGE = np.random.RandomState(0).rand(128, 256).astype(np.float32)


def selu(x):
    return 1.05 * jaxish.numpy.where(x > 0, x, 1.67 * jaxish.numpy.exp(x) - 1.67)


@pytest.mark.parametrize(
    "make",
    [
        lambda: jaxish.jit(jaxish.grad(lambda x: ((LARGE * x.sum()) @ LARGE.T).sum())),
        lambda: jaxish.jit(selu),
        lambda: jaxish.jit(jaxish.vmap(jaxish.grad(selu))),
        lambda: jaxish.vmap(jaxish.grad(jaxish.jit(selu))),
        lambda: jaxish.jit(lambda x: jaxish.lax.scan(lambda c, v: (jaxish.numpy.tanh(c + v), c), 0.0, x)),
        lambda: jaxish.jit(lambda x: jaxish.lax.while_loop(lambda c: c.sum() < 50, lambda c: c * 2 + 1, x)),
        lambda: jaxish.jit(lambda x: jaxish.lax.cond(x[0] > 0, jaxish.numpy.sin, jaxish.numpy.cos, x)),
        lambda: jaxish.jit(lambda x: x + jaxish.random.normal(jaxish.random.key(0), x.shape)),
    ],
    ids=["large product", "selu", "derivative inside", "derivative outside", "scan", "while", "cond", "random"],
)
def test_compiled_and_direct_agree(make, tier):
    x = jaxish.numpy.array([-1.0, 0.5, 2.0])
    tier("direct")
    wanted = make()(x)
    tier("compiled")
    found = make()(x)
    for f, w in zip(jaxish.tree.leaves(found), jaxish.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(f, w, rtol=1e-6, atol=1e-6)


def test_a_graph_travels_to_the_compiling_process_as_it_is():
    from jaxish._compile import executable

    traced = jaxish.jit(lambda x: jaxish.lax.scan(lambda c, v: (c + v, c), jaxish.numpy.zeros(()), x)).trace(X)
    request = executable.of(traced._program.closed.graph).request()
    assert pickle.loads(pickle.dumps(request)).module.code == request.module.code


def test_any_torch_compile_backend_by_name(tier):
    tier("compiled")
    with config.backend("eager"):
        assert jaxish.jit(lambda x: x * 3)(X).tolist() == [0, 3, 6]
    with config.backend("no such backend"), pytest.raises(ValueError, match="Unknown backend"):
        jaxish.jit(lambda x: x * 3)(X)


def test_numpy_constants_under_grad_do_not_keep_a_program_from_being_cached():
    step = jaxish.jit(jaxish.grad(lambda x: (x * np.arange(3, dtype=np.float32)).sum()))
    step(np.float32(2))
    step(np.float32(3))
    assert step._cache_size() == 1


def test_loops_over_different_custom_functions_are_different_code():
    def loop(scale):
        f = jaxish.custom_jvp(lambda x: x * scale)
        f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
        return jaxish.jit(lambda x: jaxish.lax.scan(lambda c, _: (f(c), None), x, None, length=3)[0]).trace(1.0)

    nodes = [node for scale in (2.0, 3.0) for node in loop(scale)._program.closed.graph.module.graph.nodes]
    identities = [node.target.identity() for node in nodes if hasattr(node.target, "identity")]
    assert len(set(identities)) == 2
