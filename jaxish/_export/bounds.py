"""What is known of symbolic dimensions: bounds of sums of terms, from those of their terms and from inequalities.

Variables are at least 1. An inequality `s >= 0` is one of the user's constraints, or follows from what an operation is:
`a - k*floordiv(a, k) >= 0`. Where s has a term of e with a coefficient of the same sign, e less a multiple of s has it no
more, and its lower bound is one of e. Such steps are tried a few deep, and the best bound is taken.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from .terms import ONE, Factor, Term

Sum = dict[Term, Any]  # integers or fractions
_DEPTH = 4
_INF = math.inf


def bounds(given: Sum, inequalities: Sequence[Sum]) -> tuple[float, float]:
    """Return bounds of a sum of terms that holds for all sizes, under inequalities (sums that are at least 0)."""
    known = [*inequalities, *_implied(given, inequalities)]
    least = _least(given, known, _DEPTH)
    most = -_least({t: -k for t, k in given.items()}, known, _DEPTH)
    return _ceiling(least), -_ceiling(-most)


def _least(given: Sum, known: Sequence[Sum], depth: int) -> Any:
    best = _sum_of_intervals(given, known)
    if not depth:
        return best
    for term, k in given.items():
        if term == ONE:
            continue
        for inequality in known:
            c = inequality.get(term, 0)
            if c * k > 0:
                rest = _minus(given, inequality, Fraction(k) / c)
                if len(rest) <= len(given) + 1:
                    best = max(best, _least(rest, known, depth - 1))
    return best


def _minus(given: Sum, other: Sum, scale: Fraction) -> Sum:
    found = dict(given)
    for term, k in other.items():
        found[term] = found.get(term, 0) - scale * k
    return {t: k for t, k in found.items() if k}


def _sum_of_intervals(given: Sum, known: Sequence[Sum]) -> Any:
    total: Any = 0
    for term, k in given.items():
        low, high = _of_term(term, known)
        total += k * (low if k > 0 else high)
        if total == -_INF:
            return total
    return total


def _of_term(term: Term, known: Sequence[Sum]) -> tuple[Any, Any]:
    low, high = 1, 1
    for factor, exponent in term.exponents.items():
        interval = _of_factor(factor, known)
        for _ in range(exponent):
            corners = [_times(x, y) for x in (low, high) for y in interval]
            low, high = min(corners), max(corners)
        if exponent % 2 == 0:
            low = max(low, 0)
    return low, high


def _times(x: Any, y: Any) -> Any:
    return 0 if not x or not y else x * y


def _of_factor(factor: Factor, known: Sequence[Sum]) -> tuple[Any, Any]:
    if not factor.operands:
        return _of_variable(factor, known)
    (low, high), (second_low, second_high) = (_of_operand(o, known) for o in factor.operands)
    if factor.name == "max":
        return max(low, second_low), max(high, second_high)
    if factor.name == "min":
        return min(low, second_low), min(high, second_high)
    if second_low <= 0:
        return -_INF, _INF
    if factor.name == "mod":
        return 0, (min(high, second_high - 1) if low >= 0 else second_high - 1)
    quotients = [_divided(x, y) for x in (low, high) for y in (second_low, second_high)]
    return min(quotients), max(quotients)


def _divided(x: Any, y: Any) -> Any:
    if abs(x) == _INF:
        return x
    return (0 if x >= 0 else -1) if y == _INF else x // y


def _of_variable(factor: Factor, known: Sequence[Sum]) -> tuple[Any, Any]:
    low, high, term = 1, _INF, Term({factor: 1})
    for inequality in known:
        if k := inequality.get(term, 0):
            # At least (at most) what the rest, of which no inequality is known here, is at least (at most).
            rest = {t: Fraction(-c) / k for t, c in inequality.items() if t != term}
            if k > 0:
                low = max(low, _ceiling(_sum_of_intervals(rest, ())))
            else:
                high = min(high, -_ceiling(_sum_of_intervals({t: -c for t, c in rest.items()}, ())))
    return low, high


def _ceiling(value: Any) -> Any:
    return value if abs(value) == _INF else math.ceil(value)


def _of_operand(operand: Any, known: Sequence[Sum]) -> tuple[Any, Any]:
    if isinstance(operand, int):
        return operand, operand
    # Intervals alone: steps by inequalities would bring the operation itself back in.
    least = _sum_of_intervals(operand.coefficients, known)
    return least, -_sum_of_intervals({t: -k for t, k in operand.coefficients.items()}, known)


def _operations(sums: Sequence[Sum]) -> list[Factor]:
    """Return the operations in sums, and in the operands of these."""
    found: dict[Factor, None] = {}
    pending = [f for s in sums for term in s for f in term.exponents if f.operands]
    while pending:
        factor = pending.pop()
        found[factor] = None
        inner = (o.coefficients for o in factor.operands if not isinstance(o, int))
        pending.extend(f for s in inner for term in s for f in term.exponents if f.operands)
    return list(found)


def _implied(given: Sum, inequalities: Sequence[Sum]) -> Iterator[Sum]:
    """Yield what follows from the operations in a sum and in the inequalities."""
    for factor in _operations((given, *inequalities)):
        own: Sum = {Term({factor: 1}): 1}
        first, second = (({ONE: o} if o else {}) if isinstance(o, int) else o.coefficients for o in factor.operands)
        if factor.name in ("max", "min"):
            sign = 1 if factor.name == "max" else -1
            for other in (first, second):
                yield {t: sign * k for t, k in _minus(own, other, Fraction(1)).items()}
        elif all(_of_operand(o, inequalities)[0] >= low for o, low in zip(factor.operands, (-_INF, 1), strict=True)):
            if factor.name == "mod":
                yield _minus(_minus(second, {ONE: 1}, Fraction(1)), own, Fraction(1))
                continue
            product: Sum = {t * next(iter(own)): k for t, k in second.items()}
            yield _minus(first, product, Fraction(1))
            yield _minus(_minus({**second}, {ONE: 1}, Fraction(1)), _minus(first, product, Fraction(1)), Fraction(1))
