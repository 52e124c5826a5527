"""Logistic functions, x log y with its limits, entropies, and Box-Cox transformations."""

import math
from typing import Any

import torch
from torch import Tensor

from ..._core.array import Array
from ..._core.typing import ArrayLike
from ..._lax.transcendental import logistic
from ..._numpy import softmax as normalized
from ..._numpy.softmax import Axis
from ..._tensors.elementwise import Elementwise
from .operands import promoted, promoted_arrays, promoted_real

_LOGIT = Elementwise("logit", lambda x: torch.log(x / (1 - x)), (lambda x: 1 / (x * (1 - x)),))


def logit(x: ArrayLike) -> Array:
    """Return log(x / (1 - x)), the inverse of `expit`."""
    (t,), weak = promoted("logit", x)
    return Array(_LOGIT(t), weak)


def expit(x: ArrayLike) -> Array:
    """Return the logistic function 1 / (1 + exp(-x))."""
    return logistic(*promoted_arrays("expit", x))


def _times_log(log: Any, kernel: Any) -> Any:
    """Return x log(y), 0 where x is 0 and y is not NaN. torch's kernels know no complex numbers."""

    def run(x: Tensor, y: Tensor) -> Tensor:
        if not x.is_complex():
            return kernel(x, y)
        return torch.where((x != 0) | torch.isnan(y), x * log(y), 0)

    return run


_XLOGY = Elementwise(
    "xlogy", _times_log(torch.log, torch.special.xlogy), (lambda x, y: torch.log(y), lambda x, y: x / y)
)
_XLOG1PY = Elementwise(
    "xlog1py", _times_log(torch.log1p, torch.special.xlog1py), (lambda x, y: torch.log1p(y), lambda x, y: x / (1 + y))
)
_XLOGX = Elementwise("xlogx", lambda x: torch.special.xlogy(x, x), (lambda x: torch.log(x) + 1,))


def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """Return x log(y), and 0 for x = 0 where y is not NaN. Its derivatives are log(y) and x/y."""
    (s, t), weak = promoted("xlogy", x, y)
    return Array(_XLOGY(s, t), weak)


def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """Return x log(1 + y), and 0 for x = 0 where y is not NaN. Its derivatives are log(1 + y) and x/(1 + y)."""
    (s, t), weak = promoted("xlog1py", x, y)
    return Array(_XLOG1PY(s, t), weak)


def entr(x: ArrayLike) -> Array:
    """Return -x log(x); 0 at 0, minus infinity for x < 0."""
    (t,), weak = promoted_real("entr", x)
    return Array(torch.where(t < 0, -math.inf, -_XLOGX(t)), weak)


def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """Return p log(p/q); 0 for p = 0 <= q, infinite where p or q is negative, or q is 0 and p is not."""
    (s, t), weak = promoted_real("rel_entr", p, q)
    return Array(_rel_entr(s, t), weak)


def _rel_entr(p: Tensor, q: Tensor) -> Tensor:
    inside = (p > 0) & (q > 0)
    s, t = torch.where(inside, p, 1.0), torch.where(inside, q, 1.0)
    edge = torch.where((p == 0) & (q >= 0), 0.0, math.inf).to(p.dtype)
    return torch.where(inside, _XLOGX(s) - _XLOGY(s, t), edge)


def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """Return p log(p/q) - p + q, with the edges of `rel_entr`."""
    (s, t), weak = promoted_real("kl_div", p, q)
    return Array(_rel_entr(s, t) - s + t, weak)


def _box_cox(log: Tensor, lmbda: Tensor) -> Tensor:
    plain = lmbda == 0
    power = torch.where(plain, 1.0, lmbda)
    return torch.where(plain, log, torch.expm1(power * log) / power)


def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """Return (x^lmbda - 1) / lmbda, log(x) for lmbda = 0; NaN for x <= 0."""
    (t, power), weak = promoted_real("boxcox", x, lmbda)
    return Array(_box_cox(torch.log(t), power), weak)


def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """Return ((1 + x)^lmbda - 1) / lmbda, log(1 + x) for lmbda = 0; NaN for x <= -1."""
    (t, power), weak = promoted_real("boxcox1p", x, lmbda)
    return Array(_box_cox(torch.log1p(t), power), weak)


def softmax(x: ArrayLike, /, *, axis: Axis = None) -> Array:
    """Return exp(x) divided by its sum along `axis`: an integer, several, or None for all."""
    return normalized.softmax(x, axis)


def log_softmax(x: ArrayLike, /, *, axis: Axis = None) -> Array:
    """Return the logarithm of `softmax`."""
    return normalized.log_softmax(x, axis)
