"""jit against JAX: signatures, static and donated arguments, caching, stages, bad input; and its tiers."""

import functools
import gc
import inspect
import pickle
import re
import warnings

import jax
import numpy as np
import pytest
from oracle import agree, assert_same

import jaxish
from jaxish._core import config

X = np.arange(3.0, dtype=np.float32)
CPU = jaxish.devices("cpu")[0]


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
    "types of types": lambda j: [
        (s.shape, str(s.dtype)) for s in j.eval_shape(lambda x: (j.ShapeDtypeStruct((2, 3), "float32"), x), X)
    ],
    "types as values": lambda j: j.jit(lambda: j.ShapeDtypeStruct((2, 3), "float32"))(),
    "a type that nothing reads": lambda j: j.jit(lambda x, y: (y["a"] + 1, x)[1])(
        X, {"a": j.ShapeDtypeStruct((2,), "int8")}
    ),
    "a type as the result": lambda j: j.jit(lambda x, y: (x, y))(X, j.ShapeDtypeStruct((2,), "int8")),
    "a type that is read": lambda j: j.jit(lambda x, y: x + y)(X, j.ShapeDtypeStruct((), "int8")),
    "a type that nothing reads, and that is kept": lambda j: j.jit(lambda x, y: x, keep_unused=True)(
        X, j.ShapeDtypeStruct((2,), "int8")
    ),
    "a type that is kept when lowered": lambda j: (
        j.jit(lambda x, y: x, keep_unused=True)
        .lower(X, j.ShapeDtypeStruct((2,), "int8"))
        .compile()(X, np.ones(2, "int8"))
    ),
    "a type that nothing reads, within": lambda j: j.grad(
        lambda x: j.jit(lambda x, y: x.sum())(x, j.ShapeDtypeStruct((2,), "int8"))
    )(X),
    "a type that a compiled function does not read": lambda j: (
        j.jit(lambda x, y: x).lower(X, X).compile()(X, j.ShapeDtypeStruct(X.shape, "float32"))
    ),
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


DONATIONS = {
    "by number": (lambda x, y: x + y, {"donate_argnums": 0}, lambda f, x, y: f(x, y)),
    "by number, given by name": (lambda x, y: x + y, {"donate_argnums": 1}, lambda f, x, y: f(x, y=y)),
    "by name": (lambda x, y: x + y, {"donate_argnames": "y"}, lambda f, x, y: f(x=x, y=y)),
    "by name, given by position": (lambda x, y: x + y, {"donate_argnames": "y"}, lambda f, x, y: f(x, y)),
    "behind static": (lambda n, x, y: x * n, {"donate_argnums": 1, "static_argnums": 0}, lambda f, x, y: f(2, x, y)),
    "in a dict": (lambda p: p["a"] + p["b"], {"donate_argnums": 0}, lambda f, x, y: f({"a": x, "b": y})),
    "results of another shape": (lambda x, y: (x + y).reshape(1, 3), {"donate_argnums": 0}, lambda f, x, y: f(x, y)),
    "fewer results": (lambda x, y: x + y, {"donate_argnums": (0, 1)}, lambda f, x, y: f(x, y)),
    "smaller results": (lambda x, y: x.sum() + y, {"donate_argnums": (0,)}, lambda f, x, y: f(x, y[0])),
    "not read": (lambda x, y: y * 2, {"donate_argnums": 0}, lambda f, x, y: f(x, y)),
    "ahead of time": (lambda x, y: x + y, {"donate_argnums": 0}, lambda f, x, y: f.lower(x, y).compile()(x, y)),
    "inner": (lambda x, y: x + y, {"donate_argnums": 0}, lambda f, x, y: jaxlike(x).jit(f)(x, y)),
}


def jaxlike(x):
    return jaxish if isinstance(x, jaxish.Array) else jax


@pytest.mark.parametrize(("function", "options", "call"), DONATIONS.values(), ids=DONATIONS)
def test_donated_arrays_are_taken_over_as_in_jax(function, options, call):
    def observed(j, jitted):
        x, y = j.numpy.asarray(X), j.numpy.asarray(X + 1)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always", UserWarning)
            result = call(jitted, x, y)
        told = [str(w.message) for w in seen if "donated" in str(w.message)]
        return np.asarray(result).tolist(), x.is_deleted(), y.is_deleted(), told

    ours, theirs = (j.jit(function, **options) for j in (jaxish, jax))
    for _ in range(2):  # traced, and from the cache
        assert observed(jaxish, ours) == observed(jax, theirs)


def test_deleted_arrays_know_their_type():
    def observed(j):
        x = j.numpy.ones((3, 2), "int8")
        x.delete()
        x.delete()
        found = [x.shape, x.dtype, x.ndim, x.size, x.nbytes, x.itemsize, len(x), x.weak_type, x.is_deleted()]
        told = []
        for use in (repr, np.asarray, j.numpy.sin, j.jit(lambda x: x), lambda x: x + 1, lambda x: x[0], lambda x: x.T):
            with pytest.raises(RuntimeError) as error:
                use(x)
            told.append(str(error.value)[:44])
        return found, told

    assert observed(jaxish) == observed(jax)


def test_an_array_is_donated_once():
    def observed(j, donated):
        f = j.jit(lambda x, y: (x + y, x * y), donate_argnums=donated)
        f(j.numpy.ones(3), j.numpy.ones(3))
        x = j.numpy.ones(3)
        with pytest.raises((j.errors.JaxRuntimeError, ValueError), match="Toy example"):  # JAX: the one, then the other
            f(x, x)
        return x.is_deleted()

    for donated in (0, 1, (0, 1)):
        assert observed(jaxish, donated) == observed(jax, donated)


def test_what_is_donated_is_told():
    def donated(j, **options):
        f = j.jit(lambda z, y, x: (z, y, x), **options)
        infos = f.lower({"c": 3.0}, y={"b": 2.0}, x={"a": 1.0}).args_info
        return [info.donated for info in j.tree.leaves(infos)]

    for options in ({"donate_argnames": ("z", "y")}, {"donate_argnums": (0, 1)}, {}):
        assert donated(jaxish, **options) == donated(jax, **options)


def test_a_donated_array_is_given_once():
    def twice(j):
        x = j.numpy.asarray(X)
        return j.jit(lambda x, y: x + y, donate_argnums=0)(x, x)

    agree(twice)


def _between(a, /, b, c, *args, **kwargs): ...


class WithoutSignature:
    @property
    def __signature__(self):
        raise TypeError("none")

    def __call__(self, *args):
        return None


MESSAGES = {
    "static is donated": lambda j: j.jit(lambda x: x, static_argnames="x", donate_argnames="x"),
    "static is donated, by number": lambda j: j.jit(lambda x: x, static_argnums=0, donate_argnames="x"),
    "positional only": lambda j: j.jit(_between, static_argnames=("a", "c")),
    "rest": lambda j: j.jit(_between, donate_argnames=("args", "c")),
    "unknown name": lambda j: j.jit(lambda x: x, donate_argnames="z"),
    "no number": lambda j: j.jit(lambda x: x, static_argnums=("a",)),
    "no name": lambda j: j.jit(lambda x: x, static_argnames=(5,)),
    "option": lambda j: j.jit(lambda x: x, compiler_options={"nope": 1})(1.0),
    "option's value": lambda j: j.jit(lambda x: x, compiler_options={"xla_embed_ir_in_executable": "maybe"})(1.0),
    "option's number": lambda j: j.jit(lambda x: x, compiler_options={"xla_dump_max_hlo_modules": "a"})(1.0),
    "option ahead of time": lambda j: j.jit(lambda x: x).lower(1.0).compile({"nope": "a"}),
    "overflow": lambda j: j.jit(lambda x: x)(2**40),
    "overflow in a tuple": lambda j: j.jit(lambda *a: a)(1, [0, -(2**40)]),
    "overflow in a dict": lambda j: j.jit(lambda x: x)({"a": 2**70}),
    "compiled: fewer": lambda j: j.jit(lambda x, y: x).lower(1.0, 2.0).compile()(1.0),
    "compiled: a list": lambda j: j.jit(lambda x: x).lower(1.0).compile()([1.0]),
    "compiled: another key": lambda j: j.jit(lambda d: d).lower({"a": 1.0}).compile()({"b": 1.0}),
    "compiled: by name": lambda j: j.jit(lambda x: x).lower(1.0).compile()(x=1.0),
    "compiled: two places": lambda j: j.jit(lambda x: x).lower([{"a": 1.0}, (1, 2)]).compile()([1.0, (1,)]),
    "compiled: another dtype": lambda j: j.jit(lambda x, y: x).lower(1.0, 2.0).compile()(1.0, 3),
    "compiled: another shape": lambda j: j.jit(lambda x: x).lower(1.0).compile()(X),
}


@pytest.mark.parametrize("program", MESSAGES.values(), ids=MESSAGES)
def test_errors_are_in_jax_words(program):
    messages = []
    for j in (jaxish, jax):
        with pytest.raises(Exception) as caught:
            program(j)
        messages.append((type(caught.value).__name__, str(caught.value)))
    assert messages[0] == messages[1]


def test_a_signature_that_cannot_be_read_needs_numbers():
    agree(lambda j: j.jit(WithoutSignature(), donate_argnames="a"))
    with pytest.raises(ValueError, match=r"Getting the signature of function.*failed. Pass donate_argnums instead"):
        jaxish.jit(WithoutSignature(), donate_argnames="a")


def test_a_result_that_is_no_array_is_named_by_its_place():
    def place(j):
        with pytest.raises(TypeError) as caught:
            j.eval_shape(lambda x: {"a": (x, test_stages)}, 1.0)
        return re.findall(r"returned a value of type .* at output component (.*), which is not", str(caught.value))

    assert place(jaxish) == place(jax)


def test_options_of_xla_change_nothing():
    options = {"xla_embed_ir_in_executable": True, "exec_time_optimization_effort": 0.0, "optimization_level": 1}
    agree(lambda j: j.jit(lambda x: x * 2, compiler_options=options)(X))
    agree(lambda j: j.jit(lambda x: x * 2).lower(X).compile(compiler_options=options)(X))


def test_a_device_for_jit_is_deprecated():
    last = jaxish.devices()[-1]
    for jitted, device in (
        (functools.partial(jaxish.jit, device=last), last),
        (functools.partial(jaxish.jit, backend="cpu"), CPU),
    ):
        with pytest.warns(DeprecationWarning, match="backend and device argument on jit is deprecated"):
            f = jitted(lambda x, *, y: (x + y, jaxish.numpy.ones(2)))
        assert [x.devices() for x in f(1.0, y=2.0)] == [{device}] * 2
    with pytest.raises(ValueError, match="can't specify both a device and a backend for jit"):
        jaxish.jit(lambda x: x, device=CPU, backend="cpu")


@pytest.mark.filterwarnings("ignore:backend and device argument on jit is deprecated:DeprecationWarning")
def test_a_backend_that_is_not_there_is_missed_by_calls():
    def program(j):
        there, missing = (j.jit(lambda x: x * 2, backend=backend) for backend in ("cpu", "no such backend"))
        with pytest.raises(RuntimeError, match="no such backend"):
            missing(X)
        return there(X)

    agree(program)


def test_an_array_that_leaves_its_trace_is_refused():
    kept = []
    jaxish.jit(lambda x: kept.append(x) or x)(X)
    with pytest.raises(jaxish.errors.UnexpectedTracerError, match=r"float32\[3\]"):
        kept[0] + 1


def test_an_error_tells_where_what_escaped_was_made():
    def line(j):
        kept = []
        j.jit(lambda x: kept.append(x * 2) or x)(X)
        with pytest.raises(j.errors.UnexpectedTracerError) as caught:
            kept[0] + 1
        return re.findall(r"was created on line (.*?\.py:\d+)", str(caught.value))

    assert line(jaxish) == line(jax)


def test_an_error_while_tracing_leaves_nothing_behind():
    with pytest.raises(jaxish.errors.TracerBoolConversionError):
        jaxish.jit(lambda x: 1 if x > 0 else 2)(1.0)
    assert jaxish.jit(lambda x: x + 1)(1.0) == 2.0
    assert (jaxish.numpy.ones(2) + 1).tolist() == [2, 2]


@pytest.mark.parametrize("how", ["by position", "by name"])
def test_a_type_may_be_a_static_argument_ahead_of_time(how):
    def program(lib):
        given = lib.ShapeDtypeStruct((4,), "float32")
        if how == "by name":
            jitted = lib.jit(lambda like, x: x * like.shape[0], static_argnames="like")
            return jitted.lower(like=given, x=2.0).compile()(x=3.0)
        return lib.jit(lambda like, x: x * like.shape[0], static_argnums=0).trace(given, given).lower().compile()(3.0)

    agree(program)


@pytest.mark.parametrize("transformation", ["vmap", "grad", "jit", "linearize"])
def test_compiled_functions_are_not_transformed(transformation):
    def message(lib):
        compiled = lib.jit(lambda x: x).lower(1.0).compile()
        with pytest.raises(TypeError) as error:
            if transformation == "linearize":
                lib.linearize(compiled, 1.0)
            getattr(lib, transformation)(compiled)(X if transformation == "vmap" else 1.0)
        return str(error.value).partition("Tracer type")[0]

    assert message(jaxish) == message(jax)


@pytest.mark.parametrize("call", ["(x, y=3.0)", "(2, x, y=3.0)", "(x)", "(x[:2], y=3.0)"])
def test_compiled_functions_take_no_static_arguments(call):
    def program(lib):
        jitted = lib.jit(lambda n, x, y=1.0: {"a": x * n + y}, static_argnums=0)
        compiled = jitted.lower(2, np.ones(3, np.float32), y=3.0).compile()
        donated = lib.tree.map(lambda info: info.donated, compiled.args_info)
        return (
            str(compiled.in_tree),
            donated,
            eval(f"compiled{call}", {"compiled": compiled, "x": np.ones(3, np.float32)}),
        )

    agree(program)


def test_stages():
    lowered = jaxish.jit(lambda x, y: x @ y).lower(
        jaxish.ShapeDtypeStruct((2, 3), np.float32), jaxish.ShapeDtypeStruct((3, 4), np.float32)
    )
    assert lowered.out_info.shape == (2, 4)
    assert "aten.mm" in lowered.as_text() and "aten.mm" in str(lowered.compiler_ir())


@pytest.mark.parametrize("args, kwargs", [(("s",), {}), (([1, "a"],), {}), ((1,), {"y": {"k": [1, object]}})])
def test_an_argument_that_is_no_array_is_named(args, kwargs):
    def path(j):
        with pytest.raises(TypeError, match="as an abstract array") as raised:
            j.jit(lambda x, y=0: x)(*args, **kwargs)
        return str(raised.value).split("passed to the function at path ")[1].partition("\n")[0]

    assert path(jaxish) == path(jax)


@pytest.mark.parametrize("form", ["as_text", "compiler_ir"])
def test_lowered_functions_have_one_dialect(form):
    agree(lambda j: getattr(j.jit(lambda x: x + 1).lower(1.0), form)("esperanto"))
    for dialect in ("stablehlo", "hlo"):
        with pytest.raises(NotImplementedError, match=dialect):
            getattr(jaxish.jit(lambda x: x + 1).lower(1.0), form)(dialect)


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


FLOAT0 = np.zeros((2,), jax.dtypes.float0)


@pytest.mark.parametrize(
    "program",
    [
        lambda j, z: j.jit(lambda x: (x, x))({"a": z}),
        lambda j, z: j.linearize(lambda x: x, np.ones(2, np.int32))[1](z),
        lambda j, z: j.jit(j.vjp(lambda x, y: x + y, np.ones(2, int), 1)[1])(z),
    ],
)
def test_tangents_of_integers_go_through(program):
    found, wanted = (j.tree.leaves(program(j, FLOAT0)) for j in (jaxish, jax))
    assert [(x.shape, x.dtype) for x in found] == [(x.shape, x.dtype) for x in wanted]


PLACES = {
    "sharding": lambda j: j.jit(lambda x: x.sharding)(X),
    "sharding under grad": lambda j: j.grad(lambda x: (x.sharding, x)[1])(1.0),
    "devices": lambda j: j.jit(lambda x: x.devices())(X),
    "shards": lambda j: j.jit(lambda x: x.addressable_shards)(X),
}


@pytest.mark.parametrize("program", PLACES.values(), ids=PLACES)
def test_a_traced_array_has_no_place(program):
    agree(program)


def test_compile_time_eval():
    """What is known is computed within the block; what is traced goes on being traced, in the same operations."""

    def program(j, transform):
        n = j.numpy

        def f(x):
            with j.ensure_compile_time_eval():
                k = n.arange(4).sum() + 2
                found = [
                    n.where(x > 0, k, x),
                    j.lax.fori_loop(0, 3, lambda i, c: c * 2, k),
                    j.jit(lambda a: a + 1)(k),
                    j.lax.scan(lambda c, v: (c + v * x, v), x, n.ones(3))[0],
                    n.stack([x, k.astype(x.dtype)]),
                    n.array([x, 1.0]),
                    n.ones(3).at[0].set(x),
                    j.random.normal(j.random.key(0), (2,)) * x,
                    j.vmap(lambda v: v * k)(n.arange(3.0)),
                    j.grad(lambda v: v * v)(3.0),
                ]
                known = [int(found[1]), int(found[2]), float(found[-1]), bool(k > 3), [int(i) for i in found[8]]]
            return sum(a.sum() for a in found) * known[0] + known[1] + sum(known[4])

        return transform(j, f)

    x, xs = np.float32(2), np.arange(3, dtype=np.float32)
    agree(lambda j: program(j, lambda j, f: f(j.numpy.asarray(x))))
    agree(lambda j: program(j, lambda j, f: j.jit(f)(x)))
    agree(lambda j: program(j, lambda j, f: j.grad(f)(x)), weak=False)
    agree(lambda j: program(j, lambda j, f: j.vmap(f)(xs)))
    agree(lambda j: program(j, lambda j, f: j.jit(j.vmap(j.grad(f)))(xs)), weak=False)


@pytest.mark.parametrize("transform", ["jit", "vmap", "pmap", "grad", "checkpoint"])
def test_signatures(transform):
    def program(j):
        f = getattr(j, transform)(lambda x, *, y=2: x)
        return [str(inspect.signature(f, follow_wrapped=follow)) for follow in (True, False)], f.__name__

    agree(program)


class Scaled:
    """A function that is an instance, with attributes of names that wrappers have, too."""

    def __init__(self):
        self._call, self._fun, self._program, self.tag = 3, None, 2, "mine"
        self.__name__ = "scaled"

    def __call__(self, x):
        return x * self._call


def test_functions_that_are_instances_keep_their_attributes_to_themselves():
    def program(jax):
        rule = jax.custom_jvp(Scaled())
        rule.defjvp(lambda primals, tangents: (rule(*primals), tangents[0] * 10))
        jitted = jax.jit(Scaled())
        ufuncs = jax.jit(jax.numpy.add)(1.0, 2.0), jax.jit(jax.numpy.negative)(jax.numpy.arange(3))
        return jitted(2.0), jitted.tag, jax.grad(rule)(2.0), ufuncs

    agree(program)


def doubled(x, n=2):
    return x * n


PICKLED = {
    "plain": lambda j: j.jit(doubled),
    "static": lambda j: j.jit(doubled, static_argnames="n"),
    "within a tree": lambda j: {"f": [j.jit(doubled, donate_argnums=0)]}["f"][0],
}


@pytest.mark.parametrize("name", PICKLED)
def test_jitted_functions_are_pickled_with_their_options(name):  # JAX's need a pickler that takes functions by value
    f = PICKLED[name](jaxish)
    f(np.float32(1))  # what was traced stays behind
    again = pickle.loads(pickle.dumps(f))
    assert again is not f
    assert again.__name__ == again.__getstate__()["function_name"] == PICKLED[name](jax).__getstate__()["function_name"]
    x = np.arange(3.0, dtype=np.float32)
    assert_same(again(x, n=3), PICKLED[name](jax)(x, n=3))


def test_partial_applications_may_have_a_name():
    def program(j):
        named = functools.partial(doubled)
        vars(named)["__name__"] = "named"
        given = doubled, functools.partial(functools.partial(doubled), n=3), named, functools.partial(named)
        return [j.jit(f).__getstate__()["function_name"] for f in given]

    agree(program)


class Annotated:
    def __init__(self):
        vars(self)["__annotations__"] = "the program's own"

    def __call__(self, x):
        return 2 * x


@pytest.mark.parametrize("transform", ["jit", "grad", "vmap", "checkpoint"])
def test_a_callable_may_hold_something_else_by_the_name_of_annotations(transform):
    agree(lambda lib: getattr(lib, transform)(Annotated())(np.float32(2.0) if transform == "grad" else X))


def printed(j, transform, x):
    texts = []
    transform(lambda x: (texts.append((repr(x), str(x), f"{x}")), x)[1])(x)
    return repr(texts)


PRINTED = {
    "jit": lambda j: printed(j, j.jit, np.ones((2, 3), np.float32)),
    "jit of weak": lambda j: printed(j, j.jit, 1.0),
    "make_jaxpr": lambda j: printed(j, j.make_jaxpr, np.ones(2, np.int32)),
    "key": lambda j: printed(j, j.jit, j.random.key(0)),
    "vmap": lambda j: printed(j, j.vmap, np.ones((2, 3), np.float32)),
    "vmap of keys": lambda j: printed(j, j.vmap, j.random.split(j.random.key(0))),
    "vmap of columns": lambda j: printed(j, lambda f: j.vmap(f, in_axes=1), np.ones((2, 3), np.float32)),
    "vmap of vmap": lambda j: printed(j, lambda f: j.vmap(j.vmap(f)), np.ones((2, 3), np.float32)),
    "jit of vmap": lambda j: printed(j, lambda f: j.jit(j.vmap(f)), np.ones((2, 3), np.float32)),
}


@pytest.mark.parametrize("name", PRINTED)
def test_tracers_print_as_those_of_jax(name):
    agree(lambda j: PRINTED[name](j))


def test_the_garbage_collector_is_as_it_was_after_a_trace():
    before, during = gc.get_threshold(), []

    def function(x, error=None):
        during.append(gc.get_threshold())
        if error is not None:
            raise error
        return jaxish.jit(lambda x: x * 2)(x) + 1

    jaxish.jit(function)(1.0)
    assert during[0][0] > before[0] and gc.get_threshold() == before
    with pytest.raises(ZeroDivisionError):
        jaxish.jit(lambda x: function(x, ZeroDivisionError()))(1.0)
    assert gc.get_threshold() == before
    try:
        jaxish.jit(lambda x: gc.set_threshold(900, 9, 9) or x)(1.0)
        assert gc.get_threshold()[0] == 900
        gc.set_threshold(0)
        jaxish.jit(lambda x: during.append(gc.get_threshold()) or x)(1.0)
        assert during[-1][0] == gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)
