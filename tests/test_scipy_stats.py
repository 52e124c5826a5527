"""jax.scipy.stats against JAX's: every function of every distribution, and statistics of samples."""

import functools
import inspect
import itertools
from typing import Any

import jax
import jax.scipy.stats
import numpy as np
import pytest
from combinations import covering
from oracle import agree

import jaxish

LOOSE: dict[str, Any] = {"rtol": 1e-3, "atol": 1e-4}
pytestmark = pytest.mark.usefixtures("unoptimized_jax")

RNG = np.random.default_rng(0)
LOCATIONS, SCALES = [0, 1], [1, 2]

# Where functions of distributions are tried: at all combinations of these arguments.
POINTS = {
    "bernoulli": ([-1, 0, 0.5, 1, 2, np.nan], [0, 0.3, 1, 1.5, np.nan], LOCATIONS),
    "beta": ([-1, 0, 0.3, 1, 1.5, np.nan], [0.5, 1, 2.5], [1, 0.7, 3], [0, 0.1], SCALES),
    "betabinom": ([-1, 0, 1, 2.5, 5, 7], [0, 5, -1], [0.5, 2, -1], [1, 3], LOCATIONS),
    "binom": ([-1, 0, 1, 5, 7], [0, 5], [0, 0.3, 1], LOCATIONS),
    "cauchy": ([-3, 0, 0.5, 1], LOCATIONS, SCALES),
    "chi2": ([-1, 0, 0.5, 3], [1, 2, 4.5], LOCATIONS, SCALES),
    "expon": ([-1, 0, 0.5, 3, np.nan], LOCATIONS, SCALES),
    "gamma": ([-1, 0, 0.5, 3], [0.5, 1, 3], LOCATIONS, SCALES),
    "gennorm": ([-1, 0, 0.5, 3], [0.5, 1, 3]),
    "geom": ([-1, 0, 1, 3, 1.5], [0, 0.3, 1], LOCATIONS),
    "gumbel_l": ([-3, 0, 0.5, 1, 3], LOCATIONS, [1, 2, -1]),
    "gumbel_r": ([-3, 0, 0.5, 1, 3], LOCATIONS, [1, 2, -1]),
    "laplace": ([-3, 0, 0.5, 1, 3], LOCATIONS, SCALES),
    "logistic": ([-3, 0, 0.5, 1, 3], LOCATIONS, SCALES),
    "nbinom": ([-1, 0, 1, 5.0], [1, 5, 2.5], [0, 0.3, 1], LOCATIONS),
    "norm": ([-20, -3, 0, 0.5, 1, 3, np.inf], LOCATIONS, SCALES),
    "pareto": ([-1, 0, 0.5, 1, 2, 4, np.nan], [0.5, 1, 3], LOCATIONS, SCALES),
    "poisson": ([-1, 0, 1, 2.5, 5], [0, 0.5, 3], LOCATIONS),
    "t": ([-3, 0, 0.5, 3], [1, 2.5, 30], LOCATIONS, SCALES),
    "truncnorm": ([-9, -3, -1, 0, 0.5, 3, 9], [-2, 0, 1, 8], [2, 0.5, 9], LOCATIONS, SCALES),
    "uniform": ([-1, 0, 0.5, 1, 2, np.nan], LOCATIONS, SCALES),
    "vonmises": ([-3, 0, 0.5, 3], [0.5, 2, 20, 0, -1]),
    "wrapcauchy": ([-1, 0, 0.5, 3, 7], [0.3, 0.9, 0, 1.5]),
}
FUNCTIONS = [
    (name, function)
    for name in POINTS
    for function in dir(getattr(jax.scipy.stats, name))
    if not function.startswith("_")
]


def in_library(library, name, function):
    return getattr(getattr(library.scipy.stats, name), function)


def arguments(name, function, points=None):
    """Return the combinations of a function's arguments, as arrays, with other points if given."""
    lists = [*POINTS[name]]
    if function in ("ppf", "isf"):
        lists[0] = [-0.5, 0, 0.1, 0.5, 0.9, 1, 1.5, np.nan]
    elif function == "entropy":
        lists = [[0, 0.5, 3, 12, 99, 100, 1000], LOCATIONS]
    if points is not None:
        lists[0] = points
    count = len(inspect.signature(in_library(jax, name, function)).parameters)
    return [grid.reshape(-1).astype("float32") for grid in np.meshgrid(*lists[:count])]


@pytest.mark.parametrize("name, function", FUNCTIONS)
def test_values(name, function):
    given = arguments(name, function)
    agree(lambda j: in_library(j, name, function)(*given), rtol=2e-4, atol=2e-5)
    agree(lambda j: j.jit(j.vmap(in_library(j, name, function)))(*given), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name, function", FUNCTIONS)
def test_kinds_of_arguments(name, function):
    one = [float(values[len(values) // 2]) for values in arguments(name, function, [1.0])]
    agree(lambda j: in_library(j, name, function)(*one), **LOOSE)
    agree(lambda j: in_library(j, name, function)(*map(np.float32, one)), **LOOSE)
    agree(lambda j: in_library(j, name, function)(*(j.numpy.full(2, x, "bfloat16") for x in one)), rtol=0.1, atol=0.1)
    agree(lambda j: in_library(j, name, function)([0.5, 1.0], *one[1:]))
    for shapes in [((2, 3), (3,)), ((2, 3), (4,)), ((3,), (4,))]:
        arrays = [np.full(shape, x, "float32") for shape, x in zip(shapes, one, strict=False)]
        agree(lambda j: in_library(j, name, function)(*arrays, *one[2:]), **LOOSE)


INSIDE = {  # where derivatives are tried
    "bernoulli": [0, 1], "betabinom": [1, 3], "binom": [2, 3], "geom": [3, 4], "nbinom": [2, 3], "poisson": [2, 5],
    "beta": [0.4, 0.7], "pareto": [3.5, 5], "truncnorm": [-9.0, 0.2, 0.4, 1.5], "uniform": [0.2, 0.3, 1.4],
    "wrapcauchy": [0.3, 2.0],
}  # fmt: skip


@pytest.mark.parametrize("name, function", FUNCTIONS)
def test_derivatives(name, function):
    points = [0.3, 0.7] if function in ("ppf", "isf") else INSIDE.get(name, [-0.8, 0.3, 2.0])
    given = arguments(name, function, points)
    refused: tuple[int, ...] = ()
    if name == "beta" and function in ("cdf", "logcdf", "sf", "logsf"):
        refused = (1, 2)
    if name in ("gumbel_l", "gumbel_r"):
        refused = (0 if function == "ppf" else 2,)  # JAX's xlogy of an integer fails
    varied = [i for i in range(len(given)) if i not in refused]

    def derivatives(j, *given):
        f = in_library(j, name, function)
        slopes = j.grad(lambda *args: f(*args).sum(), tuple(varied))(*given)
        along = lambda i: j.jvp(
            lambda x: f(*given[:i], x, *given[i + 1 :]), (given[i],), (j.numpy.ones_like(given[i]),)
        )
        return f(*given), [*slopes, *(along(i)[1] for i in varied)]

    value, wanted = jax.jit(functools.partial(derivatives, jax))(*map(jax.numpy.asarray, given))
    _, found = derivatives(jaxish, *map(jaxish.numpy.asarray, given))
    for d, w in zip(found, wanted, strict=True):
        # Elsewhere JAX's derivatives are not numbers, for reasons of how it computes.
        inside = np.isfinite(w) & np.isfinite(value)
        assert (d.shape, d.dtype, d.weak_type) == (w.shape, w.dtype, w.weak_type)
        np.testing.assert_allclose(np.asarray(d)[inside], np.asarray(w)[inside], **LOOSE)


@pytest.mark.parametrize("name, function", [f for f in FUNCTIONS if f[1] in ("logpdf", "logcdf", "cdf", "logpmf")])
def test_second_derivatives_in_x(name, function):
    if name in ("bernoulli", "betabinom", "binom", "geom", "nbinom", "poisson"):
        pytest.skip("of integers")
    given = arguments(name, function, INSIDE.get(name, [-0.8, 0.3, 2.0]))

    def second(j):
        slope = j.grad(lambda x, *rest: in_library(j, name, function)(x, *rest).sum())
        return lambda x, *rest: j.jvp(lambda x: slope(x, *rest), (x,), (j.numpy.ones_like(x),))[1]

    inside = np.isfinite(jax.jit(second(jax))(*given))
    both = lambda j, *args: [j.numpy.where(inside, f(*args), 0) for f in (second(j), j.jit(second(j)))]
    agree(both, *given, rtol=5e-3, atol=1e-3, at_once=True)


# ------------------------------------------------------------------------------------------------------------- vectors

A = RNG.normal(size=(3, 3))
COV = (A @ A.T + np.eye(3)).astype("float32")
ONE, FOUR, TWO = (RNG.normal(size=shape).astype("float32") for shape in ((3,), (4, 3), (2, 3)))


@pytest.mark.parametrize("arguments", [
    (ONE, ONE / 2, COV), (FOUR, ONE, COV), (TWO, ONE, np.stack([COV, 2 * COV])), (FOUR[:, None], TWO, COV), (ONE, 0.0, 1.0),
    (FOUR, 0.5, 2.0), (ONE, ONE / 2, 2.0), (1.0, 2.0, 3.0), (ONE, ONE, -COV), (ONE, ONE, COV[:2]), (ONE, ONE, COV[0]),
    (np.arange(3), np.arange(3), 2 * np.eye(3, dtype=int)), (ONE, ONE.tolist(), COV), (FOUR, TWO, COV), (ONE, ONE[:2], COV),
    (ONE, ONE, COV, True),
])  # fmt: skip
def test_multivariate_normal(arguments):
    agree(lambda j: j.scipy.stats.multivariate_normal.logpdf(*arguments), **LOOSE)
    agree(lambda j: j.scipy.stats.multivariate_normal.pdf(*arguments[:3]), **LOOSE)


def test_multivariate_normal_transformed():
    def f(j):
        return lambda *a: j.scipy.stats.multivariate_normal.logpdf(*a).sum()

    given = FOUR, ONE, COV
    agree(lambda j, *args: j.hessian(f(j), (0, 1, 2))(*args), *given, rtol=1e-2, atol=1e-3, at_once=True)
    agree(lambda j, *args: j.jvp(f(j), args, args), *given, **LOOSE, at_once=True)
    vmapped = lambda j: j.jit(j.vmap(j.scipy.stats.multivariate_normal.logpdf, (0, None, 0)))
    agree(lambda j: vmapped(j)(TWO, ONE, np.stack([COV, 2 * COV])), **LOOSE)


ALPHA = np.array([0.5, 1, 2], "float32")
SIMPLEX = RNG.dirichlet(ALPHA, 4).T.astype("float32")


def test_dirichlet():
    several = [
        (SIMPLEX, ALPHA), (SIMPLEX[:, 0], ALPHA), (SIMPLEX[:2], ALPHA), (2 * SIMPLEX, ALPHA), (SIMPLEX[:1], ALPHA),
        (SIMPLEX, np.ones((3, 1))), (SIMPLEX.reshape(3, 2, 2), ALPHA), (np.array([0.5, 0.5, 0], "float32"), ALPHA),
    ]  # fmt: skip
    for given, name in itertools.product(several, ["logpdf", "pdf"]):
        agree(lambda j: getattr(j.scipy.stats.dirichlet, name)(*given), **LOOSE)
    loss = lambda j: lambda x, a: j.scipy.stats.dirichlet.logpdf(x, a).sum()
    agree(lambda j: j.hessian(loss(j), (0, 1))(SIMPLEX, ALPHA), **LOOSE)
    agree(lambda j: j.jit(j.vmap(j.scipy.stats.dirichlet.logpdf, (1, None)))(SIMPLEX, ALPHA), **LOOSE)


def test_multinomial():
    counts, chances = np.array([1, 2, 3]), np.array([0.2, 0.3, 0.5], "float32")
    several = [
        (counts, 6, chances), (counts, 7, chances), (counts * 1.0, 6, chances), (counts, 6.0, chances),
        (np.array([0, 2, 3]), 5, np.array([0, 0.5, 0.5])), (np.stack([counts, counts[::-1]]), 12, chances),
        (counts, np.array([6, 7]), chances), (counts > 1, 2, chances), (counts, 6, np.array([1, 1, 1])),
    ]  # fmt: skip
    for given, name in itertools.product(several, ["logpmf", "pmf"]):
        agree(lambda j: getattr(j.scipy.stats.multinomial, name)(*given), **LOOSE)
    agree(lambda j: j.grad(lambda p: j.scipy.stats.multinomial.logpmf(counts, 6, p))(chances), **LOOSE)


# ------------------------------------------------------------------------------------------------------------- samples


@pytest.mark.parametrize("dtype, shape", [
    *(("float32", shape) for shape in [(7,), (4, 5), (2, 3, 4), (), (0,), (3, 0)]),
    *((dtype, shape) for dtype in ["int32", "uint32", "bool", "complex64"] for shape in [(4, 5), ()]),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:Degrees of freedom")
def test_samples(dtype, shape):
    a = RNG.integers(0, 4, size=shape).astype(dtype)
    axes = [0, 1, -1, None]
    for axis, keepdims in [*itertools.product(axes, [False, True]), (3, False)]:
        agree(lambda j: j.scipy.stats.mode(a, axis, keepdims=keepdims))
    for axis, keepdims, ddof, policy in [
        *covering(axes, [False, True], [0, 1], ["propagate", "omit"]), (3, False, 0, "omit"), (0, False, 0, "some")
    ]:  # fmt: skip
        agree(lambda j: j.scipy.stats.sem(a, axis, ddof, policy, keepdims=keepdims), **LOOSE)
    methods = ["average", "min", "max", "dense", "ordinal"]
    # A dtype and a shape of all that are tried have all axes with all methods: those differ by more than one value.
    chosen = (
        itertools.product(axes, methods)
        if (dtype, shape) == ("float32", (4, 5))
        else zip(itertools.cycle(axes), methods)
    )
    for axis, method in [*chosen, (3, "min"), (0, "some")]:
        if a.size:
            agree(lambda j: j.scipy.stats.rankdata(a, method, axis=axis))


@pytest.mark.filterwarnings("ignore:Degrees of freedom")
def test_samples_with_nan():
    a = np.array([[1, np.nan, 2, np.nan], [1, 1, 3, 3], [np.nan] * 4], "float32")
    for axis, policy in itertools.product([0, 1, None], ["propagate", "omit", "raise", "some"]):
        agree(lambda j: j.scipy.stats.mode(a, axis, policy))
        agree(lambda j: j.scipy.stats.rankdata(a, axis=axis, nan_policy=policy))
        agree(lambda j: j.scipy.stats.sem(a, axis, nan_policy=policy))
    agree(lambda j: j.scipy.stats.mode([1, 2]))
    agree(lambda j: j.scipy.stats.rankdata([1, 2]))
    agree(lambda j: j.scipy.stats.sem([1, 2]))


def test_samples_transformed():
    a = RNG.normal(size=(4, 5)).astype("float32")
    several = lambda j: lambda x: (j.scipy.stats.mode(x), j.scipy.stats.rankdata(x, axis=0), j.scipy.stats.sem(x))
    agree(lambda j: j.jit(j.vmap(several(j)))(a[..., None] + np.arange(3.0, dtype="float32")), **LOOSE)
    agree(lambda j: j.grad(lambda x: (j.scipy.stats.mode(x).mode ** 2).sum())(a))
    agree(lambda j: j.hessian(lambda x: j.scipy.stats.sem(x).sum())(a), **LOOSE)


# ----------------------------------------------------------------------------------------------------------------- kde

DATA = {1: RNG.normal(size=20).astype("float32"), 2: RNG.normal(size=(2, 20)).astype("float32")}
WEIGHTS = RNG.random(20).astype("float32")


def estimate(library, d, **options):
    return library.scipy.stats.gaussian_kde(DATA[d], **options)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("options", [
    {}, {"bw_method": "silverman"}, {"bw_method": 0.3}, {"bw_method": lambda kde: kde.neff**-0.5}, {"weights": WEIGHTS},
    {"bw_method": "some"}, {"weights": WEIGHTS[:3]}, {"weights": WEIGHTS[None]}, {"bw_method": [1, 2]},
])  # fmt: skip
def test_kde(d, options):
    points = RNG.normal(size=(d, 6)).astype("float32")
    agree(lambda j: j.tree.leaves(estimate(j, d, **options)), **LOOSE)
    agree(lambda j: (estimate(j, d, **options)(points), estimate(j, d, **options).logpdf(points)), **LOOSE)


@pytest.mark.parametrize("d", [1, 2])
def test_kde_integrals_and_samples(d):
    eye = np.eye(d, dtype="float32")
    agree(lambda j: estimate(j, d, weights=WEIGHTS).integrate_gaussian(0.3 * eye[0], 0.5 * eye), **LOOSE)
    agree(lambda j: estimate(j, d).integrate_gaussian(0.3, 0.5), **LOOSE)
    agree(lambda j: estimate(j, d).integrate_gaussian(np.ones(3), np.eye(3)))
    agree(lambda j: estimate(j, d).integrate_box_1d(-0.3, 1.0), **LOOSE)
    agree(lambda j: estimate(j, d).integrate_box_1d(-0.3, np.ones(2)))
    for other in (1, 2):
        agree(lambda j: estimate(j, d).integrate_kde(j.scipy.stats.gaussian_kde(DATA[other][..., :7])), **LOOSE)
    for shape in ((), (5,)):
        agree(lambda j: estimate(j, d).resample(j.random.key(3), shape), **LOOSE)
    agree(lambda j: estimate(j, d).integrate_box(0, 1))
    agree(lambda j: estimate(j, d).set_bandwidth())


def test_kde_refuses():
    agree(lambda j: j.scipy.stats.gaussian_kde(DATA[1] + 1j))
    agree(lambda j: j.scipy.stats.gaussian_kde(DATA[1][:1]))
    agree(lambda j: j.scipy.stats.gaussian_kde(DATA[1].tolist()))
    agree(lambda j: estimate(j, 1)(np.ones((1, 2)) + 1j))
    agree(lambda j: estimate(j, 2)(np.ones((3, 4), "float32")))
    agree(lambda j: estimate(j, 1)([1.0, 2.0]))
    agree(lambda j: setattr(estimate(j, 1), "neff", 3))


def test_kde_transformed():
    points = np.full((1, 3), 0.3, "float32")
    agree(lambda j: j.jit(lambda kde, x: kde(x))(estimate(j, 1), points), **LOOSE)
    agree(lambda j: j.vmap(lambda d: j.scipy.stats.gaussian_kde(d)(points))(np.stack([DATA[1], 2 * DATA[1]])), **LOOSE)
    loss = lambda j: lambda d, x: j.scipy.stats.gaussian_kde(d).logpdf(x).sum()
    agree(lambda j: j.hessian(loss(j), (0, 1))(DATA[1], points), rtol=1e-2, atol=1e-3)
