"""jet against JAX's where that has a rule, else against nested forward mode of JAX."""

import importlib

import jax
import numpy as np
import pytest
from oracle import agree

A = np.arange(1.0, 7.0, dtype=np.float32).reshape(2, 3)
SERIES = ((0.3, 0.2, -0.1, 0.5),)


def jet(j, *args, **options):
    return importlib.import_module(f"{j.__name__}.experimental.jet").jet(*args, **options)


ELEMENTWISE = "sin cos tanh exp log sqrt square sinh cosh expm1 log1p abs"


@pytest.mark.parametrize("name", ELEMENTWISE.split())
def test_elementwise(name):
    agree(lambda j: jet(j, getattr(j.numpy, name), (0.5,), SERIES), rtol=1e-4, weak=False)


PROGRAMS = {
    "powers": lambda j: jet(j, lambda x: (x**3, x**-2, x**2.5, 2.0**x, 1 / x), (0.5,), SERIES),
    "activations": lambda j: jet(j, lambda x: (j.nn.sigmoid(x), j.lax.rsqrt(x), j.lax.erf(x)), (0.5,), SERIES),
    "pytree of results": lambda j: jet(
        j, lambda x, y: {"a": x * y, "b": (j.numpy.sin(x) / y, x)}, (0.5, 0.7), ((1.0, 2.0), (0.1, 0.2))
    ),
    "products": lambda j: jet(j, lambda a, b: a @ b, (A, A.T.copy()), ([A, A + 1], [A.T + 2, A.T])),
    "reductions": lambda j: jet(j, lambda a: a.sum(0) * a[0].max() + a.mean(), (A,), ([A, A + 1],)),
    "shapes": lambda j: jet(j, lambda a: a.T.reshape(2, 3)[:, ::-1] * a[:1], (A,), ([A, A + 1],)),
    "constants": lambda j: jet(j, lambda a, b: a + j.numpy.sin(b) * 2.0, (A, 0.5), ([A, A], [0.0, 0.0])),
    "not scaled": lambda j: jet(j, j.numpy.sin, (0.5,), SERIES, factorial_scaled=False),
    "jit": lambda j: j.jit(lambda x: jet(j, lambda x: j.jit(j.numpy.sin)(x) * x, (x,), SERIES))(0.5),
    "gradient": lambda j: j.grad(lambda x: jet(j, lambda x: j.numpy.exp(x) * x, (x,), SERIES)[1][2])(0.5),
    "vmap": lambda j: j.vmap(lambda x: jet(j, lambda x: j.numpy.exp(x) * x, (x,), ((x, x),)))(A[0]),
    "different lengths": lambda j: jet(j, lambda x, y: x + y, (1.0, 2.0), ((1.0,), (1.0, 2.0))),
    "pytrees": lambda j: jet(j, lambda x: x["a"], ({"a": 1.0},), ((1.0,),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    agree(PROGRAMS[name], rtol=1e-4, weak=False)


def nested(fun, x, order):
    """The derivatives of a function of a number, by JAX's forward mode."""
    found = [fun]
    for _ in range(order):
        found.append(lambda x, f=found[-1]: jax.jvp(f, (x,), (1.0,))[1])
    return [f(x) for f in found]


WITHOUT_RULES = {
    "tan": lambda j: j.numpy.tan,
    "arctan and arcsin": lambda j: lambda x: j.numpy.arctan(x) * j.numpy.arcsin(x),
    "softplus": lambda j: j.nn.softplus,
    "relu": lambda j: j.nn.relu,
    "lgamma": lambda j: j.lax.lgamma,
    "cond": lambda j: lambda x: j.lax.cond(x > 0, j.numpy.sin, j.numpy.cos, x),
    "scan": lambda j: lambda x: j.lax.scan(lambda c, _: (j.numpy.sin(c) * c, None), x, None, length=3)[0],
    "extremum": lambda j: lambda x: j.numpy.stack([x, x**2, x**3]).max(),
    "cumulative product": lambda j: lambda x: j.numpy.cumprod(j.numpy.stack([x, x + 1, x**2]))[2],
}


@pytest.mark.parametrize("name", WITHOUT_RULES)
def test_what_jax_has_no_rule_for(name):
    import jaxish

    make, order = WITHOUT_RULES[name], 3
    value, terms = jet(jaxish, make(jaxish), (0.5,), ([1.0] + [0.0] * (order - 1),))
    np.testing.assert_allclose([value, *terms], nested(make(jax), 0.5, order), rtol=1e-4)


def test_tracers_of_jet():
    def program(j):
        module = importlib.import_module(f"{j.__name__}.experimental.jet")
        found = []

        def f(x, y):
            found.extend(isinstance(v, module.JetTracer) for v in (x, x * 2, y, 1.0, j.numpy.ones(2)))
            found.append(isinstance(x._trace, module.JetTrace))
            for transform in (j.grad, j.jit, j.vmap):
                transform(lambda z: found.append(isinstance(z, module.JetTracer)) or z.sum())(
                    j.numpy.ones(3) * x if transform is j.vmap else x
                )
            return x * y

        module.jet(f, (1.0, 2.0), ((1.0, 2.0), (0.0, 0.0)))
        j.jit(lambda x: found.append(isinstance(x, module.JetTracer)))(1.0)
        return found

    agree(program)
