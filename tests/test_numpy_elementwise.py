"""jax.numpy functions of single elements, against JAX: values, dtypes, weak types, derivatives."""

import numpy as np
import pytest
from combinations import covering
from oracle import agree

pytestmark = pytest.mark.usefixtures("unoptimized_jax")

DTYPES = ["bool", "int8", "int32", "uint8", "uint16", "uint32", "float16", "bfloat16", "float32", "complex64"]
# Away from the edges of domains; kinks and special values have tests of their own.
VALUES = {
    "b": [True, False, True, True, False, False],
    "i": [-3, 0, 5, 1, -1, 7],
    "u": [3, 0, 5, 1, 250, 7],
    "f": [-2.5, 0.5, 0.25, 1.5, -0.75, 3.0],
    "V": [-2.5, 0.5, 0.25, 1.5, -0.75, 3.0],
    "c": [1 + 2j, -0.5j, 0.5 + 0j, -1.5 + 0.25j, 2 - 1j, -0.25 - 0.75j],
}
UNARY = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "angle",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctanh",
    "bitwise_count",
    "bitwise_invert",
    "bitwise_not",
    "cbrt",
    "ceil",
    "conj",
    "conjugate",
    "cos",
    "cosh",
    "deg2rad",
    "degrees",
    "exp",
    "exp2",
    "expm1",
    "fabs",
    "floor",
    "i0",
    "imag",
    "invert",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "iscomplex",
    "isreal",
    "log",
    "log10",
    "log1p",
    "log2",
    "logical_not",
    "modf",
    "nan_to_num",
    "negative",
    "positive",
    "rad2deg",
    "radians",
    "real",
    "reciprocal",
    "rint",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "spacing",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
    "frexp",
]
BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "true_divide",
    "floor_divide",
    "remainder",
    "mod",
    "fmod",
    "power",
    "float_power",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "left_shift",
    "right_shift",
    "bitwise_left_shift",
    "bitwise_right_shift",
    "arctan2",
    "atan2",
    "hypot",
    "logaddexp",
    "logaddexp2",
    "copysign",
    "heaviside",
    "nextafter",
    "gcd",
    "lcm",
    "divmod",
    "isclose",
]
SMOOTH = [
    "acosh",
    "arctan",
    "arcsinh",
    "cos",
    "cosh",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log10",
    "log1p",
    "log2",
    "sin",
    "sinc",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "cbrt",
    "reciprocal",
    "abs",
    "sign",
    "deg2rad",
    "i0",
    "nan_to_num",
]


def values(dtype, like=0):
    kind = np.dtype(dtype if dtype != "bfloat16" else "float32").kind
    table = VALUES[kind]
    return table[like:] + table[:like]


def array(jax, dtype, like=0):
    return jax.numpy.array(values(dtype, like), dtype=dtype)


LOOSE = {"float16": 4e-3, "bfloat16": 3e-2}


@pytest.mark.parametrize("name", UNARY)
def test_unary_functions_agree_for_every_dtype(name):
    for dtype in DTYPES:
        agree(
            lambda jax, d=dtype: getattr(jax.numpy, name)(array(jax, d)), rtol=LOOSE.get(dtype), atol=LOOSE.get(dtype)
        )


@pytest.mark.parametrize("name", BINARY)
def test_binary_functions_agree_for_every_dtype(name):
    for dtype in DTYPES:
        agree(
            lambda jax, d=dtype: getattr(jax.numpy, name)(array(jax, d), array(jax, d, 2)),
            rtol=LOOSE.get(dtype),
            atol=LOOSE.get(dtype),
        )


@pytest.mark.parametrize("name, left, right, swapped", covering(
    ["add", "multiply", "true_divide", "maximum", "power", "less", "arctan2", "where"],
    ["bool", "int8", "uint16", "float16", "float32"], [True, 2, 2.5, "int32", "uint8", "bfloat16"], [False, True],
))  # fmt: skip
def test_mixed_dtypes_and_python_scalars_promote(name, left, right, swapped):
    def program(jax):
        x, y = array(jax, left), array(jax, right, 1) if isinstance(right, str) else right
        f = getattr(jax.numpy, name)
        if name == "where":
            return f(x > 0, y, x) if swapped else f(x > 0, x, y)
        return f(y, x) if swapped else f(x, y)

    agree(program, rtol=1e-2)


OPERATORS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: a**b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "divmod": divmod,
}


def has_one_infinity(name, dtype, other, swapped):
    """Beyond the largest complex number, which infinity a power is depends on the order of multiplications."""
    return not (name == "**" and dtype == "complex64" and other == 300)


@pytest.mark.parametrize("name, dtype, other, swapped", covering(
    OPERATORS, ["bool", "int8", "int32", "uint32", "float16", "float32", "complex64"],
    ["array", 2, 300, 2.5, True, np.float32(1.5), np.int8(3)], [False, True], where=has_one_infinity,
))  # fmt: skip
def test_operators_agree(name, dtype, other, swapped):
    def program(jax):
        x, y = array(jax, dtype), array(jax, dtype, 1) if other == "array" else other
        return OPERATORS[name](y, x) if swapped else OPERATORS[name](x, y)

    agree(program, rtol=LOOSE.get(dtype), atol=LOOSE.get(dtype))


def test_operators_refuse_what_is_no_array():
    agree(lambda jax: jax.numpy.ones(3) + [1, 2, 3])  # noqa: RUF005
    agree(lambda jax: jax.numpy.ones(3) + "a")
    agree(lambda jax: [1, 2, 3] * jax.numpy.ones(3))
    agree(lambda jax: jax.numpy.ones(3) + None)
    agree(lambda jax: jax.numpy.ones(3) + jax.numpy.ones(4))
    agree(lambda jax: jax.numpy.ones(3) == "a")


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_agree_to_second_order(name):
    def program(jax):
        f = getattr(jax.numpy, name)
        x = jax.numpy.array([1.25, 2.5])
        first = jax.grad(lambda v: f(v).sum())
        return first(x), jax.jvp(f, (x,), (jax.numpy.ones(2),))[1], jax.grad(lambda v: first(v).sum())(x)

    agree(program, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    [
        "add",
        "subtract",
        "multiply",
        "true_divide",
        "power",
        "arctan2",
        "logaddexp",
        "maximum",
        "minimum",
        "hypot",
        "remainder",
        "fmod",
        "copysign",
        "float_power",
        "logaddexp2",
    ],
)
def test_derivatives_of_binary_functions_agree(name):
    def program(jax):
        f = getattr(jax.numpy, name)
        x, y = jax.numpy.array([1.25, 2.5, 0.5]), jax.numpy.array([0.75, 2.5, 1.5])
        return jax.grad(lambda a, b: f(a, b).sum(), argnums=(0, 1))(x, y), jax.jvp(f, (x, y), (x, x))[1]

    agree(program, rtol=1e-4)


def test_derivatives_at_kinks_are_those_of_jax():
    def program(jax):
        jnp = jax.numpy
        zero = jnp.zeros(2)
        return [
            jax.grad(lambda x: jnp.abs(x).sum())(zero),
            jax.grad(lambda x: jnp.clip(x, 0.0, 1.0).sum())(jnp.array([0.0, 1.0, 0.5, 2.0])),
            jax.grad(lambda x: jnp.maximum(x, 0.0).sum())(zero),
            jax.grad(lambda x: jnp.max(x))(jnp.array([1.0, 3.0, 3.0])),
            jax.grad(lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0).sum())(jnp.array([-1.0, 4.0])),
            jax.grad(lambda x: jnp.sinc(x).sum())(zero),
            jax.grad(lambda x: jnp.power(x, 2).sum())(zero),
            jax.grad(lambda x, y: jnp.power(x, y).sum(), (0, 1))(jnp.array([0.0, 2.0]), jnp.array([2.0, 0.0])),
            jax.grad(lambda x: jnp.linalg.norm(x))(zero),
            jax.grad(lambda x: jnp.std(x))(jnp.ones(3)),
            jax.grad(lambda x: jnp.sign(x).sum())(zero),
            jax.grad(lambda x: jnp.prod(x))(jnp.array([0.0, 2.0, 3.0])),
            jax.grad(lambda x: jnp.cumprod(x).sum())(jnp.array([2.0, 0.0, 3.0])),
            jax.grad(lambda x: jnp.sort(x)[0])(jnp.array([2.0, 1.0, 3.0])),
        ]

    agree(program)


SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e30, -1e-30]


@pytest.mark.parametrize(
    "name", [n for n in UNARY if n not in ("bitwise_count", "bitwise_invert", "bitwise_not", "invert")]
)
def test_unary_functions_agree_at_special_values(name):
    agree(lambda jax: getattr(jax.numpy, name)(jax.numpy.array(SPECIAL)))


@pytest.mark.parametrize(
    "name",
    [
        "add",
        "true_divide",
        "floor_divide",
        "remainder",
        "fmod",
        "power",
        "maximum",
        "minimum",
        "fmax",
        "fmin",
        "arctan2",
        "hypot",
        "logaddexp",
        "copysign",
        "heaviside",
        "less",
        "isclose",
    ],
)
def test_binary_functions_agree_at_special_values(name):
    def program(jax):
        x = jax.numpy.array(SPECIAL[:7])
        return getattr(jax.numpy, name)(x[:, None], x[None, :])

    agree(program)


def test_integer_division_and_shifts_at_their_edges():
    def program(jax):
        jnp = jax.numpy
        out = []
        for dtype in ("int8", "int32", "uint8", "uint32"):
            info = np.iinfo(dtype)
            x = jnp.array([info.min, info.max, 0, 1, 5], dtype=dtype)[:, None]
            y = jnp.array([0, 1, 2, 3, info.max] + ([-1, -2] if info.min else []), dtype=dtype)
            out += [x // y, x % y, jnp.fmod(x, y), x << y, x >> y, x * y, x + y, x - y, -x, jnp.abs(x)]
        return out

    agree(program)


def test_powers_of_integers():
    agree(lambda jax: jax.numpy.array([2, -3, 0], "int8") ** jax.numpy.array([[0], [3], [7]], "int8"))
    agree(lambda jax: jax.numpy.array([2, 3], "int32") ** -1)
    agree(lambda jax: jax.numpy.array([2, 3], "int32") ** jax.numpy.array([-1, 2]))
    agree(lambda jax: jax.numpy.array([2.0, 0.0]) ** jax.numpy.array([-1, 0]))
    agree(lambda jax: jax.numpy.array([True, False]) ** 2)


@pytest.mark.parametrize(
    "name", ["add", "multiply", "maximum", "minimum", "logical_or", "bitwise_xor", "logaddexp", "subtract"]
)
def test_methods_of_ufuncs(name):
    def program(jax):
        f = getattr(jax.numpy, name)
        x = jax.numpy.arange(6).reshape(2, 3)
        if name == "logaddexp":
            x = x.astype(float)
        out = [f.outer(x, x[0]), f.accumulate(x, axis=1), f.reduce(x, axis=0), f.reduce(x, axis=1, keepdims=True)]
        out.append(f.at(x, (0, jax.numpy.array([1, 1])), x[1, 2], inplace=False))
        out.append(f.reduceat(x[1], jax.numpy.array([0, 2, 1])))
        return out

    agree(program)
    agree(lambda jax: [getattr(jax.numpy, name).nin, getattr(jax.numpy, name).nout, getattr(jax.numpy, name).identity])
    agree(lambda jax: getattr(jax.numpy, name)(1, 2, where=True))


@pytest.mark.parametrize("size", [1, 5, 40])
def test_exponents_are_rounded_to_the_dtype(size):
    """The power of a few large numbers tells 0.6 from the nearest float32."""
    x = np.linspace(7000.0, 30000.0, size, dtype=np.float32)
    agree(lambda j: [j.numpy.asarray(x) ** e for e in (0.6, -1.1, 2.3, 1e300, float("nan"))], rtol=2e-7)


def test_scaling_by_powers_of_two():
    agree(lambda jax: jax.numpy.ldexp(jax.numpy.array([0.5, 3.0, -1.5, np.inf]), jax.numpy.array([3, -2, 100, 1])))
    agree(lambda jax: jax.numpy.ldexp(jax.numpy.array([1, 2]), 2))
    agree(lambda jax: jax.numpy.round(jax.numpy.array([123.456, -0.5, 1.5, 2.5]), 1))
    agree(lambda jax: jax.numpy.round(jax.numpy.array([123, -55, 15]), -1))


def test_sixty_four_bits():
    def program(jax):
        with jax.enable_x64(True):
            jnp = jax.numpy
            x = jnp.arange(5) - 2
            return [x, x / 2, x // 2, jnp.sin(x), jnp.float64(0.1) + 1, jnp.array([2**63], "uint64") // 3, jnp.mean(x)]

    agree(program)


@pytest.mark.parametrize(
    "name", ["log2", "log10", "log", "spacing", "frexp", "logical_not", "iscomplex", "isfinite", "angle"]
)
def test_weak_types_of_functions_of_python_scalars(name):
    for value in (True, 3, 2.5):
        agree(lambda jax, v=value: getattr(jax.numpy, name)(v))


def test_derivatives_of_parts_of_numbers():
    agree(lambda jax: jax.grad(lambda x: jax.numpy.frexp(x)[0])(3.0))
    agree(lambda jax: jax.jvp(lambda x: jax.numpy.ldexp(x, 3), (3.0,), (1.0,)), weak=False)
    agree(lambda jax: jax.numpy.angle(jax.numpy.float16(-1)))


def test_sinc_has_all_its_derivatives_at_zero():
    x = np.array([0.0, 0.2, 1.0])

    def program(jax):
        def first(v):
            return jax.grad(lambda w: jax.numpy.sinc(w).sum())(v)

        return first(x), jax.grad(lambda v: first(v).sum())(x), jax.jit(jax.numpy.sinc)(x)

    agree(program, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scalar", [0, 0.5, -1, 2**30, 1.0, 200, True])
def test_python_scalars_beside_arrays(scalar):
    for dtype in ("float32", "int32", "int8", "bfloat16", "bool", "float64"):
        for name in ("maximum", "minimum", "add", "power", "less"):
            if name == "power" and abs(scalar) > 3:
                continue  # which infinity it is, or how it wraps around, has tests of its own
            for weak in (False, True):

                def program(jax, d=dtype, n=name, w=weak):
                    x = jax.numpy.asarray([0, 1, 2], dtype=d) if not w else 2.5 * jax.numpy.ones(3) // 1.0
                    return getattr(jax.numpy, n)(x, scalar), jax.numpy.where(x > 1, x, scalar)

                agree(program)


def test_derivatives_beside_python_scalars():
    def program(jax):
        x = jax.numpy.array([-1.0, 0.0, 2.0])
        return [
            jax.grad(lambda v: jax.numpy.maximum(v, 0).sum())(x),
            jax.grad(lambda v: jax.numpy.minimum(0.0, v).sum())(x),
            jax.grad(lambda v: jax.numpy.where(v > 0, v, 0).sum())(x),
            jax.jit(lambda v: jax.numpy.maximum(v, 0))(x),
        ]

    agree(program)


def test_nothing_to_the_power_of_nothing_is_one():
    zero = np.zeros(2, np.complex64)
    agree(lambda j: [j.numpy.power(zero, zero), j.jit(j.numpy.power)(zero, zero), j.lax.pow(zero, zero)])
