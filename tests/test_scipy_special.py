"""jax.scipy.special: JAX for dtypes, edges, derivatives and errors; mpmath and SciPy for values."""

import jax
import mpmath
import numpy as np
import pytest
import scipy.special
from expressions import agree_on
from oracle import agree

import jaxish

pytestmark = pytest.mark.usefixtures("unoptimized_jax")

CASES = [
    # gamma functions
    "S.gammaln(arr([-2.5, -1, 0, 0.5, 3, 1e6, np.inf, np.nan]))", "S.gammaln(3)", "S.gammaln(c)", "S.gammaln(h)",
    "S.gammasgn(arr([-3.5, -3, -0.5, -0.0, 0.0, 2, np.inf, -np.inf, np.nan]))", "S.gammasgn(c)", "S.gammasgn(True)",
    "S.gamma(arr([-3.5, -3, -0.0, 0.0, 2.5, 10, np.inf, np.nan]))", "S.gamma(4)", "S.gamma(arr([1+2j, -1.5+0.5j], 'complex64'))",
    "S.loggamma(arr([-1, 0, 0.5, 10]))", "S.loggamma(arr([1+2j, -1.5+0.5j, -3, np.nan], 'complex64'))",
    "S.betaln(arr([0.1, 2, 9, 1e6]), arr([3, 5, 1e-3, 1e6]))", "S.betaln(2, 3)", "S.betaln(c, c)",
    "S.beta(arr([0.5, -0.5, 3]), arr([2.5, 0.2, 4]))", "S.beta(c, c)", "S.beta(f, arr([[1], [2]]))",
    "S.factorial(arr([0, 1, 5, -1, 2.5]))", "S.factorial(6)", "S.factorial(3, exact=True)",
    "S.comb(arr([5, 5, 3, -1]), arr([2, 6, 0, 0]))", "S.comb(5, 2, repetition=True)", "S.comb(0, 0, repetition=True)",
    "S.poch(arr([1, 2.5, 3]), arr([2, 0, 1.5]))", "S.poch(c, c)",
    "S.multigammaln(arr([3, 4.5]), 2)", "S.multigammaln(arr([[3], [4.5]]), 3)", "S.multigammaln(5, 1)",
    "S.digamma(arr([-1, 0, 0.5, 10]))", "S.digamma(c)", "S.polygamma(2, f + 1)", "S.polygamma(2.0, f)",
    "S.polygamma(np.int32(0), arr([0.5]))", "S.polygamma(1, c)", "S.polygamma(i, arr([[1.5], [2.5]]))",
    "S.gammainc(arr([1, 2]), arr([0.5, 3]))", "S.gammaincc(2, arr([0, 0.5, np.inf]))", "S.gammainc(f + 1, arr([1, 2, 3]))",
    "S.betainc(f + 1, arr([1, 2, 3]), 0.25)", "S.betainc(c, c, c)", "S.betainc(1, 2, 0.5)",
    "S.zeta(arr([2, 3.5, 1]), arr([1, 2, 3]))", "S.zeta(2.0)", "S.zeta(f + 2, arr([1, 2, 3]))", "S.zeta(c, c)",
    "S.bernoulli(0)", "S.bernoulli(1)", "S.bernoulli(2)", "S.bernoulli(9)", "S.bernoulli(40)", "S.bernoulli(-1)",
    # errors and normals
    "S.erf(f)", "S.erf(3)", "S.erf(c)", "S.erfc(arr([-3, 0, 10]))", "S.erfinv(arr([-1, 0, 0.5, 1, 2]))",
    "S.erfcx(arr([-3, 0, 5, 50]))", "S.erfcx(h)", "S.erfcx(arr([1+1j], 'complex64'))",
    "S.wofz(arr([1+1j, -2-0.5j, 0], 'complex64'))", "S.wofz(f)", "S.wofz(1)",
    "S.dawsn(arr([0, 0.1, -3, 4, 10, np.inf, -np.inf, np.nan]))", "S.dawsn(c)", "S.dawsn(h)",
    "S.ndtr(arr([-10, -1, 0, 0.5, 3, np.inf, np.nan]))", "S.ndtr(1)", "S.ndtr(h)", "S.ndtr(0.5)",
    "S.ndtri(arr([0, 1e-10, 0.01, 0.5, 0.99, 1, 2, -1]))", "S.ndtri(i)", "S.ndtri(h)",
    "S.log_ndtr(arr([-50, -11, -9, 0, 4, 6]))", "S.log_ndtr(arr([-50, -11]), series_order=1)",
    "S.log_ndtr(f, 2.0)", "S.log_ndtr(f, -1)", "S.log_ndtr(f, 31)", "S.log_ndtr(1)",
    "S.owens_t(arr([0, 0.5, -1, 3]), arr([0.5, 1, 2, -0.3]))", "S.owens_t(1, 2)", "S.owens_t(np.nan, 1.0)",
    "S.fresnel(arr([-2, 0, 0.3, 1.5, 1.7, 10, np.inf, np.nan]))", "S.fresnel(c)", "S.fresnel(h)", "S.fresnel(2)",
    # entropies
    "S.logit(arr([0, 0.25, 1, 2]))", "S.logit(c)", "S.expit(arr([-100, 0, 2]))", "S.expit(3)", "S.expit(c)",
    "S.xlogy(arr([0, 0, 2, 0]), arr([0, np.nan, 3, -1]))", "S.xlogy(0, 0)", "S.xlogy(c, c)", "S.xlogy(f, 2)",
    "S.xlog1py(arr([0, 2]), arr([-1, 3]))", "S.xlog1py(f, h[:, None])", "S.xlog1py(f, arr([1, 2]))",
    "S.entr(arr([-1, 0, 0.5, 2, np.nan]))", "S.entr(c)", "S.entr(2)",
    "S.rel_entr(arr([0, 1, 1, -1, 0.5]), arr([0, 0, 2, 1, 0.25]))", "S.rel_entr(c, c)",
    "S.kl_div(arr([0, 1, 1, -1, 0.5]), arr([0, 0, 2, 1, 0.25]))", "S.kl_div(c, c)", "S.kl_div(f, i)",
    "S.boxcox(arr([0.5, 2, -1, 0]), arr([0, 2, 1, 0.5]))", "S.boxcox1p(arr([0.5, 2, -1]), 0)", "S.boxcox(2, 3)",
    "S.softmax(f)", "S.softmax(f, axis=0)", "S.log_softmax(f, axis=(0, 1))", "S.log_softmax(f, axis=3)", "S.softmax(f, 0)",
    "S.logsumexp(f, axis=1, b=arr([1, -1, 2]), return_sign=True)", "S.logsumexp(arr([-np.inf, -np.inf]))",
    "S.logsumexp(f, where=f > 1)", "S.logsumexp(arr([np.inf, -np.inf]))", "S.logsumexp(f, 5)",
    # integrals
    "S.expn(arr([0, 1, 2, 5]), arr([0.5, 2, 3, 1]))", "S.expn(2, arr([-1, 1e-3, 1, 50]))", "S.expn(c, c)",
    "S.exp1(arr([0.1, 1, 10]))", "S.exp1(c)", "S.expi(arr([-3, -0.1, 0.1, 3, 7, 12, 20, 40, 70]))", "S.expi(c)",
    "S.sici(arr([-5, 0, 0.1, 3, 6, 100, np.inf, -np.inf]))", "S.sici(c)", "S.sici(2)",
    "S.spence(arr([-1, 0, 0.2, 1, 1.7, 5, np.nan]))", "S.spence(1)", "S.spence(h)",
    "S.hyp1f1(arr([1, 2, 0, 3]), arr([2, 2, 0, 0]), arr([0.5, 3, 1, 1]))", "S.hyp1f1(c, c, c)", "S.hyp1f1(1, 2, 3)",
    "S.hyp2f1(arr([1, 2, -2, 0.5]), arr([2, 0.5, 1, 1]), arr([3, 2, 4, 0]), arr([0.5, -0.3, 0.8, 0.1]))",
    "S.hyp2f1(arr([1., 1]), arr([2., 2]), arr([3., 4]), arr([1., 1]))", "S.hyp2f1(c, c, c, c)",
    # Bessel functions and harmonics
    "S.i0(arr([-3, 0, 20]))", "S.i0e(f)", "S.i1(arr([-3, 0, 20]))", "S.i1e(2)", "S.i0(c)", "S.i1e(h)",
    "S.bessel_jn(arr([0.5, 2, 10]), v=3)", "S.bessel_jn(f + 1, v=0, n_iter=60)", "S.bessel_jn(2, v=1)",
    "S.bessel_jn(c, v=1)",
    "S.sph_harm_y(jnp.array([0, 1, 2, 3]), jnp.array([0, -1, 2, -3]), arr([0.3, 1, 2, 0.5]), arr([0.1, 1, 2, 3]))",
    "S.sph_harm_y(jnp.array([5]), jnp.array([2]), 0.5, 0.25, n_max=3)", "S.sph_harm_y(i, i, f[0], f[0], diff_n=1)",
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_values_dtypes_and_errors(case):
    agree_on(case.replace("S.", "jax.scipy.special."), rtol=3e-5, atol=1e-6)


def test_ranks_follow_the_configuration():
    def program(j):
        with j.numpy_rank_promotion("raise"):
            return j.scipy.special.xlogy(j.numpy.ones((2, 3)), j.numpy.ones(3))

    agree(program)


# Points inside the domain of every function of one, or more, numbers.
ONE = ["gammaln", "gamma", "loggamma", "digamma", "factorial", "erf", "erfc", "erfinv", "erfcx", "dawsn", "ndtr", "ndtri",
       "log_ndtr", "logit", "expit", "entr", "expi", "spence", "i0", "i0e", "i1", "i1e"]  # fmt: skip
TWO = ["betaln", "beta", "poch", "gammainc", "gammaincc", "zeta", "owens_t", "xlogy", "xlog1py", "rel_entr", "kl_div",
       "boxcox", "boxcox1p", "comb"]  # fmt: skip


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", [*ONE, "fresnel", "sici"])
def test_derivatives_of_functions_of_one_number(name, x64):
    def program(j, x):
        x = j.numpy.asarray(x)

        def f(t):
            found = getattr(j.scipy.special, name)(t)
            return found[0] + 2 * found[1] if isinstance(found, tuple) else found

        first = j.jit(j.vmap(j.grad(f)))(x)
        second = j.vmap(j.jacfwd(j.grad(f)))(x)
        return first, second, j.jvp(f, (x,), (x,))

    with jax.enable_x64(x64), jaxish.enable_x64(x64):
        x = np.array([0.2, 0.7, 0.9])
        agree(program, x, rtol=1e-9 if x64 else 1e-4, atol=1e-10 if x64 else 1e-5, at_once=True)


@pytest.mark.parametrize("name", TWO)
def test_derivatives_of_functions_of_two_numbers(name):
    def program(j, x, y):
        f = getattr(j.scipy.special, name)
        x, y = j.numpy.asarray(x), j.numpy.asarray(y)
        first = j.jit(j.vmap(j.grad(f, (0, 1))))(x + 0.1, y)
        return first, j.grad(lambda y: f(x[:, None], y).sum())(y), j.vmap(f, (0, None))(x, y[0])

    agree(program, np.array([1.3, 2.5]), np.array([0.6, 1.7]), rtol=2e-4, atol=1e-5, at_once=True)


@pytest.mark.parametrize("name", ["digamma", "gammaln"])
def test_derivatives_at_the_poles_of_the_gamma_function(name):
    def program(j, x):
        f = getattr(j.scipy.special, name)
        return j.vmap(j.grad(f))(x), j.jit(j.vmap(j.grad(f)))(x), j.jvp(f, (x,), (j.numpy.ones_like(x),))

    agree(program, np.array([0, -0.0, -1, -2, -1e30, -np.inf, np.nan], np.float32))


def test_derivatives_at_the_edges():
    def program(j):
        s = j.scipy.special
        zero, one = j.numpy.array(0.0), j.numpy.array(1.0)
        return [
            j.grad(s.xlogy, (0, 1))(zero, one), j.grad(s.xlogy, (0, 1))(zero, zero), j.grad(s.xlog1py, (0, 1))(zero, -one),
            j.grad(s.entr)(zero), j.grad(s.entr)(-one), j.grad(s.rel_entr, (0, 1))(zero, one), j.grad(s.i1e)(zero),
            j.grad(s.logsumexp)(j.numpy.array([-np.inf, -np.inf])), j.grad(s.logsumexp)(j.numpy.array([0.0, -np.inf])),
            j.grad(s.boxcox, (0, 1))(one * 2, zero), j.grad(s.logit)(one * 0.5), j.grad(s.log_ndtr)(j.numpy.float32(-30)),
        ]  # fmt: skip

    agree(program)


def test_derivatives_of_hypergeometric_functions():
    def program(j):
        s = j.scipy.special
        a, b, c, x = (j.numpy.array(v, "float32") for v in (1.5, 0.75, 2.5, 0.4))
        forward = [j.jvp(s.hyp2f1, (a, b, c, x), tuple(j.numpy.float32(i == k) for i in range(4)))[1] for k in range(4)]
        return forward, j.grad(s.hyp1f1, (0, 1, 2))(a, b, x), j.grad(j.grad(s.hyp1f1, 2), 2)(a, b, x)

    agree(program, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:jax.scipy.special.lpmn:DeprecationWarning")
@pytest.mark.parametrize("degree", [0, 1, 2, 5])
def test_legendre_functions_and_their_derivatives(degree):
    def program(j, z):
        s, z = j.scipy.special, j.numpy.asarray(z)
        slope = j.grad(lambda z: s.lpmn_values(degree, degree, z, True).sum())(z[1:-1])
        return (
            s.lpmn(degree, degree, z),
            s.lpmn_values(degree, degree, z, True),
            j.jit(lambda z: s.lpmn(degree, degree, z))(z),
            slope,
        )

    agree(program, np.array([-1, -0.7, 0, 0.3, 1], "float32"), rtol=1e-5, atol=1e-5, at_once=True)


@pytest.mark.filterwarnings("ignore:jax.scipy.special.lpmn:DeprecationWarning")
@pytest.mark.parametrize("arguments", [(1, 2, [0.5]), (1, 1, [[0.5]]), (1, 1, [1])])
def test_arguments_of_legendre_functions_are_checked(arguments):
    order, degree, z = arguments
    agree(lambda j: j.scipy.special.lpmn(order, degree, j.numpy.array(z)))
    agree(lambda j: j.scipy.special.lpmn_values(order, degree, j.numpy.array(z), True))
    agree(lambda j: j.jit(lambda n: j.scipy.special.lpmn(n, n, j.numpy.array([0.5])))(1))


@pytest.mark.parametrize("name", ["lpmn", "lpmn_values"])
def test_legendre_functions_are_deprecated(name):
    with pytest.warns(DeprecationWarning, match=f"^jax.scipy.special.{name} is deprecated"):
        assert getattr(jaxish.scipy.special, name)
    assert name in jax.scipy.special._deprecations  # pyright: ignore[reportAttributeAccessIssue]; JAX warns once in a process


def test_derivatives_of_harmonics_and_bessel_functions():
    def program(j):
        s = j.scipy.special
        n, m, angle = j.numpy.array([2, 3]), j.numpy.array([1, -2]), j.numpy.array([0.4, 1.1])
        real = j.grad(lambda t: s.sph_harm_y(n, m, t, angle, n_max=4).real.sum())(angle)
        return real, j.jit(j.jacrev(lambda z: s.bessel_jn(z, v=2)))(angle + 1)

    agree(program, rtol=1e-4)


def dilogarithm(x):
    return mpmath.re(mpmath.polylog(2, 1 - x))


def dawson(x):
    return mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(-x * x) * mpmath.erfi(x)


ACCURACY = [  # name, reference, ranges of the operands, units in the last place (float32; float64 where it differs)
    ("dawsn", dawson, [(-20, 20)], 4, 4), ("expi", mpmath.ei, [(0.5, 80)], 6, 10),
    ("exp1", mpmath.e1, [(0.01, 80)], 2, 16), ("spence", dilogarithm, [(0, 20)], 12, 24),
    ("expn", lambda n, x: mpmath.expint(int(n), x), [(0, 12), (0.1, 20)], 2, 16),
    ("hyp1f1", mpmath.hyp1f1, [(0.1, 8), (0.1, 8), (-60, 60)], 2, 1000),
    ("hyp2f1", mpmath.hyp2f1, [(0.1, 4), (0.1, 4), (4.1, 6), (-3, 0.85)], 2, 1000),
    ("loggamma", mpmath.loggamma, [(8, 200)], 8, 8), ("erfcx", lambda x: mpmath.exp(x * x) * mpmath.erfc(x), [(0, 20)], 4, 4),
    ("owens_t", lambda h, a: mpmath.quad(lambda x: mpmath.exp(-h * h * (1 + x * x) / 2) / (1 + x * x), [0, a / 2, a])
     / (2 * mpmath.pi), [(0, 3), (0.1, 0.9)], 8, 16),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "reference", "ranges", "single", "double"), ACCURACY, ids=lambda v: v if isinstance(v, str) else ""
)
def test_accuracy_against_mpmath(name, reference, ranges, single, double):
    random = np.random.default_rng(0)
    for dtype, units in (("float32", single), ("float64", double)):
        with jaxish.enable_x64(dtype == "float64"):
            operands = [random.uniform(low, high, 60).astype(dtype) for low, high in ranges]
            if name == "expn":
                operands[0] = np.floor(operands[0])
            found = np.asarray(getattr(jaxish.scipy.special, name)(*operands))
        assert found.dtype == dtype
        with mpmath.workdps(30):
            wanted = np.array(
                [float(reference(*map(mpmath.mpf, map(float, row)))) for row in zip(*operands, strict=True)]
            )
        np.testing.assert_allclose(found, wanted, rtol=units * np.finfo(dtype).eps)


def test_complex_functions_against_scipy():
    random = np.random.default_rng(0)
    z = random.normal(size=200) * 6 + 1j * random.normal(size=200) * 6
    z = np.concatenate([z, [3 + 300j, -2.5, complex(-2.5, -0.0), -40.3 + 1e-3j]])
    with jaxish.enable_x64(True):
        np.testing.assert_allclose(jaxish.scipy.special.loggamma(z), scipy.special.loggamma(z), rtol=1e-12)
        upper = np.where(z.imag < 0, -z, z) / 3
        np.testing.assert_allclose(jaxish.scipy.special.wofz(upper), scipy.special.wofz(upper), rtol=1e-11)


def test_edges_of_exponential_integrals_are_scipys():  # JAX gives NaN, and expn(2, 0) = 1/2
    x = np.array([0, np.inf, -np.inf], "float32")
    np.testing.assert_array_equal(jaxish.scipy.special.expi(x), scipy.special.expi(x))
    assert jaxish.scipy.special.expn(2, 0.0) == scipy.special.expn(2, 0.0)
    assert np.isneginf(jaxish.scipy.special.spence(np.float32(np.inf)))


def test_large_arrays_take_the_same_values():
    x = np.linspace(0.05, 12, 5000).astype("float32")
    agree(
        lambda j: [getattr(j.scipy.special, name)(x) for name in ("dawsn", "expi", "spence", "sici")],
        rtol=2e-5,
        atol=1e-6,
    )
    agree(lambda j: j.jit(j.scipy.special.fresnel)(x), rtol=2e-5)


def test_betainc_at_its_edges():
    values = np.array([0, 0.5, 2, -1, np.inf, np.nan], "float32")
    a, b, x = np.meshgrid(values, values, np.array([0, 0.3, 1, -0.5, 1.5, np.nan], "float32"))
    agree(lambda j: j.scipy.special.betainc(a, b, x))


def test_slopes_at_the_ends_of_ndtri():
    agree(lambda j: j.vmap(j.grad(j.scipy.special.ndtri))(np.array([0, 1, 0.5], "float32")))


def test_functions_of_real_numbers_name_what_may_not_be_complex():
    for lib in (jax, jaxish):
        with pytest.raises(ValueError, match=r"Argument `x` to sici must be real-valued\. Got dtype complex64"):
            lib.scipy.special.sici(lib.numpy.ones(2, complex))
