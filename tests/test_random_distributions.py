"""Samples follow the distributions that they are named after: goodness of fit, judged by SciPy, for a fixed key."""

import numpy as np
import pytest
from scipy import stats

import jaxish

R = jaxish.random
COUNT = 20_000
LEAST = 1e-4  # a correct sampler gives a smaller p-value for one key in ten thousand, and keys are fixed

CONTINUOUS = {
    "uniform": (lambda k, s: R.uniform(k, s, minval=-1.0, maxval=3.0), stats.uniform(-1, 4)),
    "normal": (R.normal, stats.norm()),
    "normal_float16": (lambda k, s: R.normal(k, s, "float16"), stats.norm()),
    "truncated_normal": (lambda k, s: R.truncated_normal(k, -1.0, 2.0, s), stats.truncnorm(-1, 2)),
    "lognormal": (lambda k, s: R.lognormal(k, 0.5, s), stats.lognorm(0.5)),
    "exponential": (R.exponential, stats.expon()),
    "gumbel": (R.gumbel, stats.gumbel_r()),
    "gumbel_high": (lambda k, s: R.gumbel(k, s, mode="high"), stats.gumbel_r()),
    "laplace": (R.laplace, stats.laplace()),
    "logistic": (R.logistic, stats.logistic()),
    "cauchy": (R.cauchy, stats.cauchy()),
    "maxwell": (R.maxwell, stats.maxwell()),
    "double_sided_maxwell": (
        lambda k, s: abs(R.double_sided_maxwell(k, 1.0, 2.0, s) - 1) / 2, stats.maxwell(),
    ),
    "rayleigh": (lambda k, s: R.rayleigh(k, 2.0, s), stats.rayleigh(scale=2)),
    "pareto": (lambda k, s: R.pareto(k, 2.0, s), stats.pareto(2)),
    "weibull_min": (lambda k, s: R.weibull_min(k, 2.0, 1.5, s), stats.weibull_min(1.5, scale=2)),
    "triangular": (lambda k, s: R.triangular(k, 0.0, 0.3, 1.0, s), stats.triang(0.3)),
    "wald": (lambda k, s: R.wald(k, 2.0, s), stats.invgauss(2)),
    "generalized_normal": (lambda k, s: R.generalized_normal(k, 1.5, s), stats.gennorm(1.5)),
    "gamma": (lambda k, s: R.gamma(k, 2.5, s), stats.gamma(2.5)),
    "gamma_below_one": (lambda k, s: R.gamma(k, 0.3, s), stats.gamma(0.3)),
    "loggamma": (lambda k, s: R.loggamma(k, 0.3, s), stats.loggamma(0.3)),
    "beta": (lambda k, s: R.beta(k, 2.0, 0.5, s), stats.beta(2, 0.5)),
    "chisquare": (lambda k, s: R.chisquare(k, 3.0, s), stats.chi2(3)),
    "t": (lambda k, s: R.t(k, 3.0, s), stats.t(3)),
    "f": (lambda k, s: R.f(k, 3.0, 5.0, s), stats.f(3, 5)),
    "dirichlet": (lambda k, s: R.dirichlet(k, np.array([1.0, 2.0, 0.5], "float32"), s)[:, 1], stats.beta(2, 1.5)),
    "ball": (lambda k, s: (R.ball(k, 3, 2.0, s) ** 2).sum(-1) ** 1.5, stats.uniform()),
    "multivariate_normal": (
        lambda k, s: R.multivariate_normal(
            k, np.array([1.0, 0.0], "float32"), np.array([[4.0, 1.0], [1.0, 2.0]], "float32"), s
        ).sum(-1),
        stats.norm(1, 8**0.5),
    ),
    "orthogonal": (lambda k, s: R.orthogonal(k, 3, s)[:, 0, 1], stats.uniform(-1, 2)),
}  # fmt: skip

WEIGHTS = np.array([0.1, 0.2, 0.3, 0.4], "float32")


def _finite(weights):
    return stats.rv_discrete(
        values=(np.arange(len(weights)), np.asarray(weights, float) / np.sum(weights, dtype=float))
    )


DISCRETE = {
    "randint": (lambda k, s: R.randint(k, s, 3, 20), stats.randint(3, 20)),
    "randint_int8": (lambda k, s: R.randint(k, s, -5, 100, "int8"), stats.randint(-5, 100)),
    "bits": (lambda k, s: R.bits(k, s, "uint8"), stats.randint(0, 256)),
    "upper_bits": (lambda k, s: R.bits(k, s, "uint32") // 2**26, stats.randint(0, 64)),
    "bernoulli": (lambda k, s: R.bernoulli(k, 0.3, s), stats.bernoulli(0.3)),
    "bernoulli_high": (lambda k, s: R.bernoulli(k, 0.3, s, mode="high"), stats.bernoulli(0.3)),
    "rademacher": (lambda k, s: (R.rademacher(k, s) + 1) // 2, stats.bernoulli(0.5)),
    "geometric": (lambda k, s: R.geometric(k, 0.3, s), stats.geom(0.3)),
    "poisson": (lambda k, s: R.poisson(k, 3.0, s), stats.poisson(3)),
    "poisson_by_rejection": (lambda k, s: R.poisson(k, 30.0, s), stats.poisson(30)),
    "binomial": (lambda k, s: R.binomial(k, 10, 0.3, s), stats.binom(10, 0.3)),
    "binomial_by_rejection": (lambda k, s: R.binomial(k, 100, 0.7, s), stats.binom(100, 0.7)),
    "multinomial": (lambda k, s: R.multinomial(k, 10.0, WEIGHTS, shape=(*s, 4))[:, 2], stats.binom(10, 0.3)),
    "categorical": (lambda k, s: R.categorical(k, np.log(WEIGHTS), shape=s), _finite(WEIGHTS)),
    "choice": (lambda k, s: R.choice(k, 7, s), stats.randint(0, 7)),
    "weighted_choice": (lambda k, s: R.choice(k, 4, s, p=WEIGHTS), _finite(WEIGHTS)),
    "choice_without_replacement": (
        lambda k, s: jaxish.vmap(lambda a: R.choice(a, 7, (3,), False)[2])(R.split(k, s)), stats.randint(0, 7),
    ),
    "permutation": (lambda k, s: jaxish.vmap(lambda a: R.permutation(a, 5)[1])(R.split(k, s)), stats.randint(0, 5)),
}  # fmt: skip


def _continuous_fit(samples, law):
    return stats.kstest(samples, law.cdf).pvalue


def _discrete_fit(samples, law):
    values = np.arange(samples.min(), samples.max() + 1)
    wanted = law.pmf(values) * samples.size
    common = wanted >= 5
    assert np.isin(samples, values[wanted > 0]).all()
    found = np.array([(samples == v).sum() for v in values[common]])
    rest = samples.size - wanted[common].sum()
    found, wanted = np.append(found, samples.size - found.sum()), np.append(wanted[common], rest)
    kept = wanted > 1e-6 * samples.size
    return stats.chisquare(found[kept], wanted[kept] * found[kept].sum() / wanted[kept].sum()).pvalue


@pytest.mark.parametrize("name", [*CONTINUOUS, *DISCRETE])
def test_samples_follow_their_distribution(name):
    sample, law = (CONTINUOUS | DISCRETE)[name]
    found = np.asarray(sample(R.key(20), (COUNT,))).astype(float)
    assert found.shape == (COUNT,)
    assert (_continuous_fit if name in CONTINUOUS else _discrete_fit)(found, law) > LEAST


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
@pytest.mark.parametrize("draw, law", [(R.normal, stats.norm()), (R.uniform, stats.uniform())])
def test_other_generators_follow_the_distribution(draw, law, impl):
    assert _continuous_fit(np.asarray(draw(R.key(20, impl=impl), (COUNT,))), law) > LEAST


def test_the_fits_notice_wrong_distributions():
    normal, counts = (
        np.asarray(x).astype(float) for x in (R.normal(R.key(0), (COUNT,)), R.poisson(R.key(0), 3.0, (COUNT,)))
    )
    assert _continuous_fit(normal, stats.norm(0.05)) < LEAST
    assert _continuous_fit(normal, stats.norm(0, 1.1)) < LEAST
    assert _discrete_fit(counts, stats.poisson(3.1)) < LEAST
