"""Eager functions that are compiled once they have been called often give JAX's values before and after."""

import time

import jax
import numpy as np
import pytest
from oracle import agree

from jaxish._compile import kernels
from jaxish._transforms import repeated

by_parts = kernels.Kernel._by_parts

X = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32) + 4 * np.eye(4, dtype=np.float32)
V = np.linspace(-1, 2, 12, dtype=np.float32)

N = np.arange(-600, 600, dtype=np.int32)
EDGES = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1.5, -1, -2.5, 2e-38, -3e38], np.float32)
Z = (np.linspace(-3, 3, 1200) + 1j * np.cos(np.arange(1200))).astype(np.complex64)
LARGE = np.concatenate([EDGES, np.random.default_rng(1).normal(size=89_990).astype(np.float32) * 9])

CALLS = {
    "solve": lambda xp: xp.numpy.linalg.solve(xp.numpy.asarray(X), xp.numpy.asarray(X[0])),
    "inv": lambda xp: xp.numpy.linalg.inv(xp.numpy.asarray(X)),
    "eigh": lambda xp: tuple(xp.numpy.linalg.eigh(xp.numpy.asarray(X @ X.T))),
    "svd": lambda xp: tuple(xp.numpy.linalg.svd(xp.numpy.asarray(X), full_matrices=False)),
    "cholesky of no positive definite matrix": lambda xp: xp.numpy.linalg.cholesky(xp.numpy.asarray(-X)),
    "slogdet": lambda xp: tuple(xp.numpy.linalg.slogdet(xp.numpy.asarray(X))),
    "pinv": lambda xp: xp.numpy.linalg.pinv(xp.numpy.asarray(X[:2])),
    "percentile": lambda xp: xp.numpy.percentile(xp.numpy.asarray(V), 30.0),
    "median along": lambda xp: xp.numpy.median(xp.numpy.asarray(X), axis=1),
    "std with a flag": lambda xp: xp.numpy.std(xp.numpy.asarray(X), 0, keepdims=True, ddof=1),
    "interp": lambda xp: xp.numpy.interp(
        xp.numpy.asarray(V), xp.numpy.asarray(V[:5]), xp.numpy.asarray(X[0, :1] + V[:5])
    ),
    "isclose": lambda xp: xp.numpy.isclose(xp.numpy.asarray(V), xp.numpy.asarray(V), equal_nan=True),
    "weak": lambda xp: xp.numpy.var(xp.numpy.asarray(V) * 0 + 2.0),
    "cross": lambda xp: xp.numpy.cross(xp.numpy.asarray(X[:, :3]), xp.numpy.asarray(X[:, 1:])),
    "gradient, of several": lambda xp: xp.numpy.gradient(xp.numpy.asarray(X)),
    "expm": lambda xp: xp.scipy.linalg.expm(xp.numpy.asarray(X / 9)),
    "lower": lambda xp: xp.scipy.linalg.solve_triangular(xp.numpy.asarray(X), xp.numpy.asarray(X), lower=True),
    "resize": lambda xp: xp.image.resize(xp.numpy.asarray(X), (6, 7), "bilinear"),
    "frexp": lambda xp: xp.numpy.frexp(xp.numpy.asarray(EDGES)),
    "gammasgn": lambda xp: xp.scipy.special.gammasgn(xp.numpy.asarray(EDGES)),
    "nan_to_num": lambda xp: xp.numpy.nan_to_num(xp.numpy.asarray(EDGES), nan=2.0, neginf=-3.0),
    "nanpercentile": lambda xp: xp.numpy.nanpercentile(xp.numpy.asarray(EDGES), 40.0),
    "nanquantile": lambda xp: xp.numpy.nanquantile(xp.numpy.asarray(X), xp.numpy.asarray(V[4:6]), axis=0),
    "isin": lambda xp: xp.numpy.isin(xp.numpy.asarray(N[:9]), xp.numpy.asarray(N[3:40:2]), invert=True),
    "poly": lambda xp: xp.numpy.poly(xp.numpy.asarray(V)),
    "polyint": lambda xp: xp.numpy.polyint(xp.numpy.asarray(V), 2),
    "standardize": lambda xp: xp.nn.standardize(xp.numpy.asarray(X), axis=0),
    **{
        name: lambda xp, f=name: getattr(xp.nn, f)(xp.numpy.asarray(LARGE))
        for name in (
            *(
                "celu",
                "elu",
                "hard_sigmoid",
                "hard_silu",
                "hard_tanh",
                "leaky_relu",
                "log1mexp",
                "log_sigmoid",
                "mish",
                "selu",
            ),
            *("soft_sign", "softplus", "sparse_plus", "sparse_sigmoid", "squareplus"),
        )
    },
    "elu, by another number": lambda xp: xp.nn.elu(xp.numpy.asarray(EDGES), 0.5),
    "sign": lambda xp: [xp.numpy.sign(xp.numpy.asarray(x)) for x in (LARGE, N, Z)],
    "copysign": lambda xp: xp.numpy.copysign(xp.numpy.asarray(LARGE), xp.numpy.asarray(LARGE[::-1])),
    "heaviside": lambda xp: xp.numpy.heaviside(xp.numpy.asarray(LARGE), xp.numpy.asarray(V[:1])),
    "modf": lambda xp: xp.numpy.modf(xp.numpy.asarray(LARGE)),
    "var of many": lambda xp: xp.numpy.var(xp.numpy.asarray(LARGE).reshape(300, -1), 0),
    "an array by name": lambda xp: xp.numpy.trapezoid(xp.numpy.asarray(V), x=xp.numpy.asarray(V**3)),
}


ELEMENTWISE = {
    **{
        f"{name} {dtype}": lambda xp, f=name, dtype=dtype: [
            getattr(xp.numpy, f)(x, y)
            for x, y in (
                (N.astype(dtype), (N[::-1] % 7 - 3).astype(dtype)),
                (N.astype(dtype).reshape(30, 40), xp.numpy.asarray(7, dtype)),
                (xp.numpy.asarray(100, dtype), N.astype(dtype)),
                (N.astype(dtype)[:, None], N[:3].astype(dtype)),
            )
        ]
        for name in ("remainder", "floor_divide", "fmod")
        for dtype in ("int8", "uint8", "int32", "uint32")
    },
    "lax.div": lambda xp: xp.lax.div(xp.numpy.asarray(N), xp.numpy.asarray(N[::-1] % 5)),
    "lax.rem": lambda xp: xp.lax.rem(xp.numpy.asarray(N), xp.numpy.asarray(N[::-1] % 5 - 2)),
    "digamma": lambda xp: xp.scipy.special.digamma(xp.numpy.asarray(N.astype(np.float32) / 7)),
    **{
        name: lambda xp, f=name: getattr(xp.numpy, f)(xp.numpy.asarray(Z).reshape(20, 60))
        for name in ("exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "abs", "expm1", "log1p")
    },
    "power": lambda xp: xp.numpy.asarray(Z) ** (xp.numpy.asarray(Z[::-1]) + 1),
    "power by a number": lambda xp: xp.numpy.asarray(Z) ** 2.5,
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_functions_that_have_taken_long_agree_with_jax(name, automatic, monkeypatch):
    monkeypatch.setattr(kernels, "_TRACING", 0.0)
    made = []
    monkeypatch.setattr(kernels.Kernel, "_by_parts", lambda *args: made.append(1) or by_parts(*args))

    def program(xp):
        deadline = time.monotonic() + 100
        while xp is not jax and not made:
            ELEMENTWISE[name](xp)
            assert time.monotonic() < deadline
        return ELEMENTWISE[name](xp)

    agree(program, rtol=1e-4, atol=1e-5)


@pytest.fixture
def impatient(automatic, monkeypatch):
    monkeypatch.setattr(repeated, "_PATIENCE", 1)


@pytest.mark.parametrize("name", CALLS)
def test_repeated_calls_agree_with_jax(name, impatient, monkeypatch):
    made = []
    monkeypatch.setattr(repeated, "_Repeated", lambda fun: made.append(Repeated(fun)) or made[-1])

    def program(xp):
        if xp is not jax:
            deadline = time.monotonic() + 100
            while not made or made[0]._run is None:
                CALLS[name](xp)
                assert not made or not made[0]._is_hopeless
                assert time.monotonic() < deadline
        return CALLS[name](xp)

    agree(program, rtol=1e-4, atol=1e-5)


Repeated = repeated._Repeated


def test_what_looks_at_values_goes_on_as_it_is(impatient):
    def positive(x):
        return x if float(x.sum()) > 0 else -x

    function = repeated.compiled_when_repeated(positive)
    for sign in (1, -1, 1, -1):
        agree(lambda xp, sign=sign: (function if xp is not jax else positive)(xp.numpy.asarray(sign * V)))
