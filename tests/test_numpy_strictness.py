"""Wrong arguments, drawn at random: jax.numpy refuses what JAX refuses, with the same class of error."""

from typing import Any

import jax
import numpy as np
import pytest
from expressions import agree_on
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from oracle import agree

import jaxish

UNARY = [
    "sin",
    "negative",
    "floor",
    "invert",
    "isnan",
    "real",
    "square",
    "logical_not",
    "sign",
    "cbrt",
    "bitwise_count",
]
BINARY = [
    "add",
    "maximum",
    "power",
    "floor_divide",
    "bitwise_and",
    "left_shift",
    "arctan2",
    "equal",
    "gcd",
    "logaddexp",
]
REDUCTIONS = ["sum", "max", "mean", "any", "argmax", "median", "cumsum", "var", "count_nonzero", "nansum", "ptp"]
SHAPING = {
    "reshape": lambda jnp, x, v: jnp.reshape(x, v),
    "expand_dims": lambda jnp, x, v: jnp.expand_dims(x, v),
    "squeeze": lambda jnp, x, v: jnp.squeeze(x, v),
    "transpose": lambda jnp, x, v: jnp.transpose(x, v),
    "flip": lambda jnp, x, v: jnp.flip(x, v),
    "zeros": lambda jnp, x, v: jnp.zeros(v),
    "concatenate": lambda jnp, x, v: jnp.concatenate([x, x], v),
    "stack": lambda jnp, x, v: jnp.stack([x, x], v),
    "split": lambda jnp, x, v: jnp.split(x, 2, v),
    "getitem": lambda jnp, x, v: x[v],
}
JOINING = {
    "matmul": lambda jnp, x, y: jnp.matmul(x, y),
    "dot": lambda jnp, x, y: jnp.dot(x, y),
    "concatenate": lambda jnp, x, y: jnp.concatenate([x, y]),
    "stack": lambda jnp, x, y: jnp.stack([x, y]),
    "where": lambda jnp, x, y: jnp.where(x > 0, x, y),
    "searchsorted": lambda jnp, x, y: jnp.searchsorted(x, y),
    "at set": lambda jnp, x, y: x.at[:1].set(y),
    "cross": lambda jnp, x, y: jnp.cross(x * 1.0, y),
    "solve": lambda jnp, x, y: jnp.linalg.solve(x + jnp.eye(3)[: x.shape[0], : x.shape[-1]], y) if x.ndim == 2 else 0,
    "outer": lambda jnp, x, y: jnp.outer(x, y),
    "interp": lambda jnp, x, y: jnp.interp(x, y, y),
}

shapes = st.sampled_from([(), (1,), (3,), (2, 3), (3, 1), (0,), (2, 0, 4)])
dtypes = st.sampled_from(["bool", "int8", "int32", "uint8", "uint32", "bfloat16", "float32", "complex64"])


@st.composite
def arrays(draw):
    shape, dtype = draw(shapes), draw(dtypes)
    count = int(np.prod(shape))
    return ("array", np.arange(count).reshape(shape) % 5, dtype)


not_arrays = st.sampled_from([None, "a", [1.0, 2.0], (1, 2), {"a": 1}, object, slice(1), [[1], [1, 2]]])
scalars = st.sampled_from([True, 0, -3, 2.5, 1j, np.float32(2), np.int8(3), float("nan")])
operands = st.one_of(arrays(), arrays(), arrays(), scalars, not_arrays)
sizes = st.one_of(
    st.integers(-4, 4), st.lists(st.integers(-3, 4), max_size=3).map(tuple),
    st.sampled_from([None, 1.5, (1.5,), (None,), (0, 0), np.int64(1), True]),
)  # fmt: skip
modes = st.sampled_from(["eager", "jit", "promotion=strict", "rank=raise"])


def made(lib, value):
    kind = isinstance(value, tuple) and value and isinstance(value[0], str) and value[0] == "array"
    return lib.numpy.asarray(value[1], dtype=value[2]) if kind else value


def run(lib, mode, function, *values):
    """Call `function` of arrays and other values in a mode."""
    made_values = [made(lib, v) for v in values]
    places = [i for i, v in enumerate(made_values) if isinstance(v, lib.Array)]

    def of_arrays(*given):
        full = list(made_values)
        for i, x in zip(places, given, strict=True):
            full[i] = x
        return function(lib.numpy, *full)

    actual = [made_values[i] for i in places]
    if mode == "jit":
        return lib.jit(of_arrays)(*actual)
    if mode == "promotion=strict":
        with lib.numpy_dtype_promotion("strict"):
            return of_arrays(*actual)
    if mode == "rank=raise":
        with lib.numpy_rank_promotion("raise"):
            return of_arrays(*actual)
    return of_arrays(*actual)


def same_verdict(mode, function, *values):
    agree(lambda lib: run(lib, mode, function, *values), rtol=2e-2, atol=2e-2, weak=False)


HEALTH_CHECKS: list[Any] = [*HealthCheck]
drawn = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=HEALTH_CHECKS)


@pytest.mark.filterwarnings("ignore")
@drawn
@given(name=st.sampled_from(UNARY), mode=modes, x=operands)
def test_functions_of_one_operand(name, mode, x):
    same_verdict(mode, lambda jnp, a: getattr(jnp, name)(a), x)


@pytest.mark.filterwarnings("ignore")
@drawn
@given(name=st.sampled_from(BINARY), mode=modes, x=operands, y=operands)
def test_functions_of_two_operands(name, mode, x, y):
    same_verdict(mode, lambda jnp, a, b: getattr(jnp, name)(a, b), x, y)


@pytest.mark.filterwarnings("ignore")
@drawn
@given(name=st.sampled_from(REDUCTIONS), x=st.one_of(arrays(), not_arrays), axis=sizes, keepdims=st.booleans())
def test_axes_of_reductions(name, x, axis, keepdims):
    options = {} if name == "cumsum" else {"keepdims": keepdims}
    same_verdict("eager", lambda jnp, a: getattr(jnp, name)(a, axis=axis, **options), x)


@pytest.mark.filterwarnings("ignore")
@drawn
@given(name=st.sampled_from(sorted(SHAPING)), mode=modes, x=arrays(), value=sizes)
def test_shapes_and_axes(name, mode, x, value):
    # JAX divides by zero there; and flips look at their axes in another place than all else.
    assume(not (name == "reshape" and isinstance(value, tuple) and 0 in value and -1 in value))
    assume(not (name == "flip" and isinstance(value, tuple) and len(value) > 1))
    same_verdict(mode, lambda jnp, a: SHAPING[name](jnp, a, value), x)


@pytest.mark.filterwarnings("ignore")
@drawn
@given(name=st.sampled_from(sorted(JOINING)), mode=modes, x=arrays(), y=operands)
def test_operands_that_must_fit(name, mode, x, y):
    assume(name != "at set" or x[1].size)  # JAX broadcasts whatever it can to nothing
    same_verdict(mode, JOINING[name], x, y)


@pytest.mark.filterwarnings("ignore")
@drawn
@given(
    x=arrays(),
    dtype=st.sampled_from(["float32", "int8", int, bool, "foo", 3, None, object, "O", str, np.float64, "i4"]),
)
def test_dtype_arguments(x, dtype):
    same_verdict("eager", lambda jnp, a: jnp.sum(a, dtype=dtype), x)
    same_verdict("eager", lambda jnp, a: jnp.zeros_like(a, dtype=dtype), x)
    same_verdict("eager", lambda jnp, a: jnp.asarray(a, dtype=dtype), x)


def test_the_draws_hold_arrays_of_either_library():
    value = ("array", np.arange(3), "int8")
    assert isinstance(made(jax, value), jax.Array)
    assert isinstance(made(jaxish, value), jaxish.Array)


ODD = {
    "a vector is no matrix": lambda j: j.numpy.linalg.svd(np.ones(3, np.float32)),
    "a number is no matrix": lambda j: j.numpy.linalg.eig(np.float32(1)),
    "a vector has no inverse": lambda j: j.numpy.linalg.inv(np.ones(3, np.float32)),
    "no maxima": lambda j: j.lax.approx_max_k(np.ones(3, np.float32), -1),
    "unlike ends": lambda j: j.numpy.geomspace(np.ones((2, 1, 3), np.float32), np.ones((2, 0), np.float32)),
    "no classes": lambda j: j.nn.one_hot(np.arange(2), -1),
    "unlike": lambda j: j.lax.broadcast_like(np.zeros((2, 0), np.float32), np.zeros((2, 1, 3), np.float32)),
    "axes": lambda j: j.numpy.moveaxis(np.zeros((2, 3)), np.array([0]), np.array([1])).shape,  # taken
    "nothing to transform": lambda j: [j.numpy.fft.irfft(np.zeros(0, np.float32)), j.numpy.fft.hfft(np.zeros((2, 0), np.float32))],
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_odd_arguments(name):
    agree(lambda j: ODD[name](j))


WRONG_OR_UNUSUAL = [
    *(f"jax.nn.{name}({x})" for name in ("sigmoid", "silu", "glu", "mish", "soft_sign", "softplus", "log_sigmoid")
      for x in ("b", "i[:2]", "f[0, :2]")),
    *(f"jax.nn.{name}({x})" for name in ("log1mexp", "softmax", "log_softmax") for x in ("b", "f[0]")),
    *(f"jax.nn.{name}({x})" for name in ("gelu", "identity", "relu", "hard_tanh") for x in ("True", "1", "1.5", "2j", "w")),
    *(f"jax.nn.{name}(f, arr([1, 2]))" for name in ("elu", "celu", "leaky_relu")),
    *(f"jax.nn.{name}(f[0], arr([1, 2]))" for name in ("elu", "celu", "leaky_relu")),
    *(f"jax.nn.{name}(f, where={m})" for name in ("softmax", "log_softmax", "logsumexp") for m in ("1", "f", "f > 2")),
    "jax.nn.one_hot(b, 2)", "jax.nn.one_hot(i, 2.5)", "jax.nn.one_hot(i, np.int32(2))",
    "jnp.zeros(2, dtype=f)", "jnp.asarray(f, dtype=np.ones(2))", "f.astype(f)", "f.astype(f.dtype)",
    "lax.convert_element_type(f, i)", "jax.random.normal(jax.random.key(0), (2,), f)",
    "jnp.digitize(f, arr([1, 2]), method='x')", "jnp.digitize(f, arr([1, 2]), method='sort')",
    "jnp.nonzero(i, fill_value=f)", "jnp.flatnonzero(f, fill_value=jnp.sin)", "jnp.where(i, size=2, fill_value=(1, 2))",
    "jnp.nonzero(i, fill_value=(-1,))", "jnp.corrcoef(i, f)", "jnp.corrcoef(i, f[1])", "jnp.bincount(i, length=-1)",
    "jnp.linalg.norm(f, axis=0, keepdims=0)", "jnp.linalg.vector_norm(f, keepdims=1)",
    "jnp.fft.fft(f, norm=[])", "jnp.fft.rfft(f, norm=i)",
    "jnp.dot(b, w, precision='x')", "jnp.matmul(c, c, precision=7)", "jnp.dot(f[0], f[0], precision='highest')",
    "jax.scipy.special.ndtr([0.5, 1.0])", "jax.scipy.special.ndtri([0.5])", "jax.scipy.special.spence(None)", "jax.scipy.special.spence([1.0, 2.0])",
    "jax.scipy.special.expn(1, [1.0, 2.0])", "jax.scipy.special.hyp1f1([1.0], 2.0, (0.5, 1.0))",
    "jax.tree_util.is_tree_node(f)", "jax.tree_util.is_tree_node(np.ones(2))", "jax.tree_util.is_tree_node(dict)",
]  # fmt: skip


@pytest.mark.parametrize("expression", WRONG_OR_UNUSUAL)
def test_arguments_of_a_wrong_kind(expression):
    agree_on(expression, rtol=1e-5)
