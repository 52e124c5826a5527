"""jax.scipy.special: special functions."""

from .._core import lazy_modules as _lazy_modules
from .._numpy.softmax import logsumexp as logsumexp
from .._scipy.special.entropy import boxcox as boxcox
from .._scipy.special.entropy import boxcox1p as boxcox1p
from .._scipy.special.entropy import entr as entr
from .._scipy.special.entropy import expit as expit
from .._scipy.special.entropy import kl_div as kl_div
from .._scipy.special.entropy import log_softmax as log_softmax
from .._scipy.special.entropy import logit as logit
from .._scipy.special.entropy import rel_entr as rel_entr
from .._scipy.special.entropy import softmax as softmax
from .._scipy.special.entropy import xlog1py as xlog1py
from .._scipy.special.entropy import xlogy as xlogy
from .._scipy.special.error import dawsn as dawsn
from .._scipy.special.error import erf as erf
from .._scipy.special.error import erfc as erfc
from .._scipy.special.error import erfcx as erfcx
from .._scipy.special.error import erfinv as erfinv
from .._scipy.special.error import fresnel as fresnel
from .._scipy.special.error import log_ndtr as log_ndtr
from .._scipy.special.error import ndtr as ndtr
from .._scipy.special.error import ndtri as ndtri
from .._scipy.special.error import owens_t as owens_t
from .._scipy.special.error import wofz as wofz
from .._scipy.special.gamma import bernoulli as bernoulli
from .._scipy.special.gamma import beta as beta
from .._scipy.special.gamma import betainc as betainc
from .._scipy.special.gamma import betaln as betaln
from .._scipy.special.gamma import comb as comb
from .._scipy.special.gamma import digamma as digamma
from .._scipy.special.gamma import factorial as factorial
from .._scipy.special.gamma import gamma as gamma
from .._scipy.special.gamma import gammainc as gammainc
from .._scipy.special.gamma import gammaincc as gammaincc
from .._scipy.special.gamma import gammaln as gammaln
from .._scipy.special.gamma import gammasgn as gammasgn
from .._scipy.special.gamma import loggamma as loggamma
from .._scipy.special.gamma import multigammaln as multigammaln
from .._scipy.special.gamma import poch as poch
from .._scipy.special.gamma import polygamma as polygamma
from .._scipy.special.gamma import zeta as zeta
from .._scipy.special.harmonics import bessel_jn as bessel_jn
from .._scipy.special.harmonics import i0 as i0
from .._scipy.special.harmonics import i0e as i0e
from .._scipy.special.harmonics import i1 as i1
from .._scipy.special.harmonics import i1e as i1e
from .._scipy.special.harmonics import sph_harm_y as sph_harm_y
from .._scipy.special.integrals import exp1 as exp1
from .._scipy.special.integrals import expi as expi
from .._scipy.special.integrals import expn as expn
from .._scipy.special.integrals import hyp1f1 as hyp1f1
from .._scipy.special.integrals import hyp2f1 as hyp2f1
from .._scipy.special.integrals import sici as sici
from .._scipy.special.integrals import spence as spence

__getattr__ = _lazy_modules.deprecated(
    __name__,
    {name: ("jaxish._scipy.special.harmonics", name) for name in ("lpmn", "lpmn_values")},
    {n: f"jax.scipy.special.{n} is deprecated; no replacement is planned." for n in ("lpmn", "lpmn_values")},
)
