"""Values and derivatives of elementwise lax functions over drawn operands of every dtype."""

from typing import Any

import numpy as np
import pytest
from oracle import agree

UNARY = {
    "erf": (-4, 4), "erfc": (-4, 9), "erf_inv": (-0.99, 0.99), "lgamma": (0.1, 20), "digamma": (0.1, 20),
    "bessel_i0e": (-9, 9), "bessel_i1e": (-9, 9), "cbrt": (-9, 9), "exp": (-9, 9), "exp2": (-9, 9), "log": (0.01, 9),
    "log1p": (-0.9, 9), "expm1": (-3, 3), "tanh": (-9, 9), "logistic": (-30, 30), "sin": (-99, 99), "cos": (-99, 99),
    "tan": (-1, 1), "asin": (-0.9, 0.9), "acos": (-0.9, 0.9), "atan": (-9, 9), "sinh": (-9, 9), "cosh": (-9, 9),
    "asinh": (-99, 99), "acosh": (1.1, 99), "atanh": (-0.9, 0.9), "sqrt": (0.01, 9), "rsqrt": (0.01, 9), "abs": (-9, 9),
    "sign": (-9, 9), "floor": (-9, 9), "round": (-9, 9), "square": (-9, 9), "reciprocal": (1, 9), "neg": (-9, 9),
}  # fmt: skip
BINARY = {
    "igamma": ((0.1, 30), (0, 40)), "igammac": ((0.1, 30), (0, 40)), "atan2": ((-3, 3), (0.1, 3)),
    "pow": ((0.1, 4), (-3, 3)), "rem": ((-9, 9), (1, 4)), "div": ((-9, 9), (1, 4)), "mul": ((-9, 9), (-4, 4)),
    "max": ((-1, 1), (-1, 1)), "min": ((-1, 1), (-1, 1)), "add": ((-9, 9), (-4, 4)), "sub": ((-9, 9), (-4, 4)),
}  # fmt: skip
VALUES_ONLY = {
    "igamma_grad_a": ((0.1, 30), (0, 30)), "random_gamma_grad": ((0.5, 9), (0.1, 9)), "zeta": ((1.1, 8), (0.1, 8)),
    "nextafter": ((-1, 1), (-1, 1)),
}  # fmt: skip
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")


def uniform(bounds: tuple[float, float], seed: int = 0, size: int = 40) -> np.ndarray:
    return np.random.default_rng(seed).uniform(*bounds, size).astype(np.float32)


def integers(dtype: str, seed: int = 0) -> np.ndarray:
    bounds = np.iinfo(dtype)
    drawn = np.random.default_rng(seed).integers(bounds.min, bounds.max, 60, dtype, endpoint=True)
    drawn[:4] = bounds.min, bounds.max, 0, 1
    return drawn


def value_slope_curvature(jax: Any, function: Any, x: np.ndarray) -> tuple[Any, ...]:
    x = jax.numpy.asarray(x)

    def slopes(z: Any) -> Any:
        return jax.grad(lambda y: jax.lax.reduce_sum(function(y), (0,)))(z)

    curvature = jax.vmap(jax.grad(lambda z: slopes(z.reshape(1))[0]))(x)
    tangent = jax.jvp(function, (x,), (jax.numpy.ones_like(x),))[1]
    return function(x), slopes(x), tangent, jax.jit(slopes)(x), curvature


@pytest.mark.parametrize("name", UNARY)
def test_unary_values_and_derivatives(name: str) -> None:
    agree(
        lambda jax, x: value_slope_curvature(jax, getattr(jax.lax, name), x), uniform(UNARY[name]),
        rtol=2e-4, atol=2e-4,
    )  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("position", [0, 1])
def test_binary_values_and_derivatives(name: str, position: int) -> None:
    x, y = (uniform(bounds, seed) for seed, bounds in enumerate(BINARY[name]))

    def program(jax: Any) -> Any:
        other = jax.numpy.asarray((y, x)[position])
        function = getattr(jax.lax, name)
        if name.startswith("igamma") and position == 0:
            first = lambda z: function(z, other[: z.shape[0]])
            z = jax.numpy.asarray(x)
            return first(z), jax.grad(lambda t: jax.lax.reduce_sum(first(t), (0,)))(z)
        one_sided = (lambda z: function(z, z * 0 + 1.5)) if position == 0 else (lambda z: function(z * 0 + 1.5, z))
        return function(jax.numpy.asarray(x), jax.numpy.asarray(y)), value_slope_curvature(
            jax, one_sided, (x, y)[position]
        )

    agree(program, rtol=5e-4, atol=5e-4)


@pytest.mark.parametrize("name", VALUES_ONLY)
def test_values_of_functions_without_derivatives(name: str) -> None:
    operands = [uniform(bounds, seed) for seed, bounds in enumerate(VALUES_ONLY[name])]
    agree(lambda jax: getattr(jax.lax, name)(*map(jax.numpy.asarray, operands)), rtol=2e-4)


def test_betainc_and_its_slope_in_x() -> None:
    a, b, x = uniform((0.2, 30)), uniform((0.2, 30), 1), uniform((0.01, 0.99), 2)

    def program(jax: Any) -> Any:
        p, q, z = map(jax.numpy.asarray, (a, b, x))
        function = jax.lax.betainc
        return function(p, q, z), jax.grad(lambda t: jax.lax.reduce_sum(function(p, q, t), (0,)))(z)

    agree(program, rtol=5e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", [n for n in UNARY if n not in ("exp2", "sinh", "cosh")])
def test_unary_on_16_bit_floats(name: str, dtype: str) -> None:
    agree(
        lambda jax, x: getattr(jax.lax, name)(jax.numpy.asarray(x).astype(dtype)), uniform(UNARY[name]),
        rtol=3e-2, atol=3e-2,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(
    "name",
    ["add", "sub", "mul", "div", "rem", "max", "min", "eq", "ne", "lt", "le", "gt", "ge", "bitwise_and", "bitwise_or", "bitwise_xor", "mulhi", "shift_left", "shift_right_arithmetic", "shift_right_logical"],
)  # fmt: skip
def test_binary_on_integers(name: str, dtype: str) -> None:
    x, y = integers(dtype), integers(dtype, 1)
    y[30:] = np.arange(30).astype(dtype)
    agree(lambda jax: getattr(jax.lax, name)(jax.numpy.asarray(x), jax.numpy.asarray(y)))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_unary_and_reductions_on_integers(dtype: str) -> None:
    def program(jax: Any) -> Any:
        x = jax.numpy.asarray(integers(dtype))
        square = x.reshape(6, 10)
        lax = jax.lax
        return (
            [getattr(lax, n)(x) for n in ["neg", "sign", "bitwise_not", "population_count", "clz", "square"]],
            [getattr(lax, n)(square, 1, r) for n in ["cumsum", "cumprod", "cummax", "cummin"] for r in (False, True)],
            [getattr(lax, "reduce_" + n)(square, (0,)) for n in ["sum", "prod", "max", "min", "and", "or", "xor"]],
            [lax.sort(x), lax.sort((x % 3, x), num_keys=2), lax.top_k(x, 5)],
            [lax.rev(x, (0,)), lax.integer_pow(x, 3), lax.pad(x, x[0], [(-1, 2, 1)]), lax.iota(dtype, 5)],
        )

    agree(program)


@pytest.mark.parametrize("source", [*INTEGERS, "bool", "float32", "float16", "complex64"])
@pytest.mark.parametrize("target", [*INTEGERS, "bool", "float32", "bfloat16", "complex64"])
def test_conversions(source: str, target: str) -> None:
    if source == "complex64" and target != source:
        pytest.skip("warns that imaginary parts are lost")
    x = (
        integers(source)
        if source in INTEGERS
        else np.array([0.0, -1.5, 2.5, 70000.0, 3e38, -3e38, 255.5]).astype("float32")
    )
    with np.errstate(over="ignore"):
        agree(lambda jax: jax.lax.convert_element_type(jax.numpy.asarray(x).astype(source), target))


@pytest.mark.parametrize("bits", [(5, 10), (8, 7), (4, 3), (5, 2), (2, 1), (1, 0), (8, 23), (11, 52)])
def test_reduce_precision_is_exact(bits: tuple[int, int]) -> None:
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 65504, 65520, 65519, 1e-40, 6e-8], np.float32)
    x = np.concatenate([uniform((-10, 10)), uniform((-1e5, 1e5)), uniform((-1e-5, 1e-5)), special])
    for dtype in ("float32", "float16"):
        with np.errstate(over="ignore"):
            agree(lambda jax, d=dtype: jax.lax.reduce_precision(jax.numpy.asarray(x.astype(d)), *bits), rtol=0, atol=0)


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_incomplete_gamma_functions_at_the_edges(name: str) -> None:
    edges = np.array([0.0, 1.0, -1.0, 40.0, np.inf, np.nan], np.float32)
    a, x = np.repeat(edges, 6), np.tile(edges, 6)
    agree(lambda jax: getattr(jax.lax, name)(a, x))


@pytest.mark.parametrize("exponent", [-3, -2, -1])
def test_negative_powers_have_infinite_slopes_at_zero(exponent: int) -> None:
    def program(jax: Any) -> Any:
        slope = jax.grad(lambda x: jax.lax.integer_pow(x, exponent))
        points = np.array([0, -0.5, 2], np.float32)
        return jax.vmap(slope)(points), jax.vmap(jax.grad(slope))(points)

    agree(program)


def test_slopes_where_the_function_has_none() -> None:
    agree(lambda jax: [jax.grad(jax.lax.atan2, i)(0.0, 0.0) for i in (0, 1)])
    z = np.array([1 + 1j, 2], np.complex64)
    agree(lambda jax: jax.grad(lambda x: jax.lax.max(x, z).real.sum())(jax.numpy.asarray(z)))


def test_a_complex_number_is_true_by_its_real_part() -> None:
    with pytest.warns(np.exceptions.ComplexWarning):
        agree(lambda jax: jax.lax.convert_element_type(np.array([1j, 1, 0], np.complex64), bool))
