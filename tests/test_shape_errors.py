"""Operands whose shapes do not broadcast: the class and the words of the error are JAX's."""

import operator

import jax
import numpy as np
import pytest

import jaxish

F, G, H = np.ones(3, np.float32), np.ones(2, np.float32), np.ones((4, 5), np.float32)
ONE_PRIMITIVE = [
    "add", "subtract", "multiply", "divide", "remainder", "fmod", "power", "maximum", "minimum", "arctan2", "nextafter",
    "float_power", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
    "logical_xor", "isclose", "allclose",
]  # fmt: skip
OPERATORS = ["add", "sub", "mul", "truediv", "mod", "pow", "eq", "ne", "lt", "le", "gt", "ge"]
BITS = ["and_", "or_", "xor", "lshift", "rshift"]

PROGRAMS = {
    "where": lambda j, x, y: j.numpy.where(x > 0, x, y),
    "where of one condition": lambda j, x, y: j.numpy.where(True, x, y),
    "where beside a number": lambda j, x, y: j.numpy.where(x > 0, y, 1.0),
    "broadcast_arrays": lambda j, x, y: j.numpy.broadcast_arrays(x, y, x),
    "broadcast_shapes": lambda j, x, y: j.numpy.broadcast_shapes(x.shape, y.shape),
    "lax.broadcast_shapes": lambda j, x, y: j.lax.broadcast_shapes(x.shape, y.shape, x.shape),
    "broadcast_to": lambda j, x, y: j.numpy.broadcast_to(x, y.shape),
    "full": lambda j, x, y: j.numpy.full(y.shape, x, dtype=int),
    "set": lambda j, x, y: x.at[:].set(y),
    "add to": lambda j, x, y: x.at[np.array([0, 1, 1])].add(y),
    "clip": lambda j, x, y: j.numpy.clip(x, y),
    "sum": lambda j, x, y: j.numpy.sum(x, where=y > 0),
    "max": lambda j, x, y: j.numpy.max(x, where=y > 0, initial=0),
    "mean": lambda j, x, y: j.numpy.mean(x, where=y > 0),
    "var": lambda j, x, y: j.numpy.var(x, where=y > 0),
    "all": lambda j, x, y: j.numpy.all(x, where=y > 0),
    "ldexp": lambda j, x, y: j.numpy.ldexp(x, y.astype(int)),
    "gcd": lambda j, x, y: j.numpy.gcd(x.astype(int), y.astype(int)),
    "jit": lambda j, x, y: j.jit(lambda x, y: x * y)(x, y),
    "vmap": lambda j, x, y: j.vmap(lambda x: x * y)(x[None]),
    "grad": lambda j, x, y: j.grad(lambda x: (x * y).sum())(x),
    "NumPy's": lambda j, x, y: np.asarray(x) - y,
    **{name: lambda j, x, y, name=name: getattr(j.numpy, name)(x, y) for name in ONE_PRIMITIVE},
    **{f"operator {name}": lambda j, x, y, name=name: getattr(operator, name)(x, y) for name in OPERATORS},
    **{f"bits {n}": lambda j, x, y, n=n: getattr(operator, n)(x.astype(int), y.astype(int)) for n in BITS},
}


def error_of(program, j, x, y):
    with pytest.raises((TypeError, ValueError)) as raised:
        program(j, j.numpy.asarray(x), j.numpy.asarray(y))
    return type(raised.value).__name__, str(raised.value)


@pytest.mark.parametrize("other", [G, H], ids=["equal ranks", "other ranks"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_words_are_jaxs(name, other):
    assert error_of(PROGRAMS[name], jaxish, F, other) == error_of(PROGRAMS[name], jax, F, other)


FIRST_WORDS = {  # whose other words JAX's implementation decides
    "heaviside": lambda j, x, y: j.numpy.heaviside(x, y),
    "copysign": lambda j, x, y: j.numpy.copysign(x, y),
    "piecewise": lambda j, x, y: j.numpy.piecewise(x, [y > 0], [1.0]),
    "select": lambda j, x, y: j.numpy.select([x > 0], [y]),
    "hypot": lambda j, x, y: j.numpy.hypot(x, y),
    "floor_divide": lambda j, x, y: x // y,
    "cross": lambda j, x, y: j.numpy.cross(np.ones((len(x), 3)), np.ones((len(y), 3))),
}


@pytest.mark.parametrize("other", [G, H], ids=["equal ranks", "other ranks"])
@pytest.mark.parametrize("name", FIRST_WORDS)
def test_the_class_is_jaxs(name, other):
    (found, text), (wanted, theirs) = (error_of(FIRST_WORDS[name], j, F, other) for j in (jaxish, jax))
    assert found == wanted
    assert (
        "incompatible shapes for broadcasting" in text.lower()
        and "incompatible shapes for broadcasting" in theirs.lower()
    )
