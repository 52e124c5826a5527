"""What Inductor is told of operators that it would compute in another way than torch does.

In vectors it takes expm1 for exp - 1, remainders for a - floor(a / b) * b, and an error function with an absolute
error; products of integers come back as int64, and quotients of bytes do not compile (torch 2.13). Each is spelled out
here in operators that it has right. So is tanh, for which it calls a function that takes six times as long as XLA's, and
the sort of floating numbers, which torch sorts slower than integers.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._core import unsigned

_aten = torch.ops.aten


def table() -> dict[Any, Callable[..., Any]]:
    """Return Inductor's decompositions, and ours in place of them."""
    from torch._inductor.decomposition import select_decomp_table

    found = dict(select_decomp_table())
    for product in (_aten.mm.default, _aten.addmm.default):
        found[product] = _or_else(found[product], lambda *args, **options: NotImplemented)
    found[_aten.bmm.default] = _or_else(found[_aten.bmm.default], _integer_bmm)
    for product in (_aten.mv.default, _aten.dot.default):
        found[product] = _or_else(found[product], lambda a, b: (a * b).sum(-1, dtype=a.dtype))
    found[_aten.add.Tensor] = _unless_empty(found[_aten.add.Tensor])
    found |= {operator: _wide(function) for operator, function in _ACCURATE.items()}
    found[_aten.sort.stable] = _sorted
    for chooses in (_aten.where.self, _aten.select_scatter.default, _aten.slice_scatter.default):
        found[chooses] = _by_bits(chooses, found.get(chooses))
    return found | _DIVISIONS


def _or_else(decomposition: Callable[..., Any], of_integers: Callable[..., Any]) -> Callable[..., Any]:
    """Return a decomposition of floating and complex arrays, and another one of integers."""

    def decomposed(first: Tensor, *args: Any, **options: Any) -> Any:
        chosen = decomposition if first.dtype.is_floating_point or first.dtype.is_complex else of_integers
        return chosen(first, *args, **options)

    return decomposed


def _unless_empty(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """Return a decomposition that leaves arrays without elements alone: sums of complex ones could not be viewed."""

    def decomposed(*args: Any, **options: Any) -> Any:
        empty = any(isinstance(a, Tensor) and not a.numel() for a in args)
        return NotImplemented if empty else decomposition(*args, **options)

    return decomposed


def _integer_bmm(a: Tensor, b: Tensor) -> Any:
    if a.shape[1] > 1 and b.shape[2] > 1:
        return NotImplemented
    return (a.unsqueeze(3) * b.unsqueeze(1)).sum(2, dtype=a.dtype)


def _wide(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Any]:
    """Return a decomposition that computes in float32 at least, and leaves integers and complex numbers as they are."""

    def decomposed(x: Tensor) -> Any:
        if not x.dtype.is_floating_point:
            return NotImplemented
        return function(x.float()).to(x.dtype) if x.dtype.itemsize < 4 else function(x)

    return decomposed


def _expm1(x: Tensor) -> Tensor:
    terms = 9 if x.dtype is torch.float32 else 16
    series = torch.full_like(x, 1 / math.factorial(terms))
    for n in range(terms - 1, 0, -1):
        series = series * x + 1 / math.factorial(n)
    return torch.where(x.abs() < 0.5, x * series, torch.exp(x) - 1)


def _atanh(x: Tensor) -> Tensor:
    size = x.abs()
    return torch.copysign(0.5 * torch.log1p(2 * size / (1 - size)), x)


def _acosh(x: Tensor) -> Tensor:
    above = x - 1
    large = torch.log(x) + math.log(2)
    return torch.where(x > 1e8, large, torch.log1p(above + torch.sqrt(above) * torch.sqrt(2 + above)))


# erf(x) as XLA has it for float32: x times a quotient of polynomials in x * x, the highest power first.
ERF_NUMERATOR = (0.00022905065, 0.003408291, 0.050955694, 0.18520832, 1.1283791)
ERF_DENOMINATOR = (-1.1791603e-07, 2.3547966e-05, 0.0010179626, 0.01407047, 0.11098505, 0.49746925, 1.0)
ERF_IS_ONE = 3.832507  # from here on


def _erf(x: Tensor) -> Any:
    if x.dtype is torch.float64:
        return NotImplemented
    square = x * x
    top, bottom = (functools.reduce(lambda sum, c: sum * square + c, p) for p in (ERF_NUMERATOR, ERF_DENOMINATOR))
    return torch.where(x.abs() >= ERF_IS_ONE, torch.sign(x), x * top / bottom)


# tanh(x) as XLA has it for float32: a quotient of polynomials too, which is 1 where the bound is reached.
TANH_NUMERATOR = (
    -2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08, 1.48572235717979e-05,
    6.37261928875436e-04, 4.89352455891786e-03,
)  # fmt: skip
TANH_DENOMINATOR = (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03)
TANH_BOUND = 7.99881172180175781
TANH_IS_LINEAR = 0.0004  # up to here


def _tanh(x: Tensor) -> Any:
    if x.dtype is torch.float64:
        return NotImplemented
    bounded = torch.clamp(x, -TANH_BOUND, TANH_BOUND)
    top, bottom = (_polynomial(c, bounded * bounded) for c in (TANH_NUMERATOR, TANH_DENOMINATOR))
    return torch.where(x.abs() < TANH_IS_LINEAR, x, bounded * top / bottom)


def _polynomial(coefficients: Sequence[float], x: Tensor) -> Any:
    first, *others = coefficients
    return functools.reduce(lambda sum, c: sum * x + c, others, torch.full_like(x, first))


_ACCURATE = {
    _aten.expm1.default: _expm1, _aten.atanh.default: _atanh, _aten.acosh.default: _acosh, _aten.erf.default: _erf,
    _aten.tanh.default: _tanh,
}  # fmt: skip


def _sorted(a: Tensor, **options: Any) -> Any:
    # `sort_of_many` ends with the same operator, on integers.
    return unsigned.sort_of_many(a, **options) if a.is_cpu and a.is_floating_point() else NotImplemented


_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


def _by_bits(operator: Callable[..., Tensor], decomposition: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return a decomposition that chooses between unsigned integers as signed ones: Inductor has no where of them on CPUs."""

    def decomposed(*args: Any, **options: Any) -> Any:
        found = {a.dtype for a in args if isinstance(a, Tensor)} & _SIGNED.keys()
        if len(found) != 1:
            return decomposition(*args, **options) if decomposition else NotImplemented
        (dtype,) = found
        bits = (a.view(_SIGNED[dtype]) if isinstance(a, Tensor) and a.dtype is dtype else a for a in args)
        return operator(*bits, **options).view(dtype)

    return decomposed


def _remainder(a: Any, b: Any) -> Any:
    dtype = torch.result_type(a, b)
    if not dtype.is_floating_point:
        return _in_int32(torch.remainder, a, b, dtype)
    rest = torch.fmod(a, b)
    return torch.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


def _fmod(a: Any, b: Any) -> Any:
    return _in_int32(torch.fmod, a, b, torch.result_type(a, b))


def _divided(a: Any, b: Any, *, rounding_mode: str | None = None) -> Any:
    dtype = torch.result_type(a, b)
    if rounding_mode is None:
        return NotImplemented
    if not dtype.is_floating_point:
        return _in_int32(functools.partial(torch.div, rounding_mode=rounding_mode), a, b, dtype)
    if rounding_mode != "floor":
        return NotImplemented
    rest = torch.fmod(a, b)
    found = (a - rest) / b
    found = torch.round(torch.where((rest != 0) & ((rest < 0) != (b < 0)), found - 1, found))
    return torch.where(torch.as_tensor(b == 0, device=found.device), a / b, found)


def _in_int32(operator: Callable[..., Tensor], a: Any, b: Any, dtype: torch.dtype) -> Any:
    """Divide integers narrower than C++'s int, which Inductor takes for being of their dtype when they are not."""
    if dtype.is_floating_point or dtype.itemsize >= 4:
        return NotImplemented
    first, second = (v.to(torch.int32) if isinstance(v, Tensor) else v for v in (a, b))
    return operator(first, second).to(dtype)


_DIVISIONS = {
    _aten.remainder.Tensor: _remainder, _aten.remainder.Scalar: _remainder,
    _aten.fmod.Tensor: _fmod, _aten.fmod.Scalar: _fmod,
    _aten.div.Tensor_mode: _divided, _aten.div.Scalar_mode: _divided,
}  # fmt: skip
