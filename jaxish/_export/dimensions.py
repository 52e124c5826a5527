"""Symbolic dimensions: integers of which a formula is known, and that formulas are computed with.

A dimension is a sum of terms (`terms.py`) with integer coefficients. What comes out as a number is one. Dimensions are
compared where the answer is the same for all sizes under the constraints of their scope (`scopes.py`); they are equal where
their difference is the number 0, so that they can be hashed.
"""

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from .._core.dimensions import SymbolicSize
from .._core.errors import InconclusiveDimensionOperation
from .bounds import bounds
from .terms import ONE, Coefficients, Factor, Term, key_of_sum, sum_text

Dimension: TypeAlias = "int | SymbolicDimension"

_HELP = (
    "\nThis error arises for comparison operations with shapes that are non-constant, and the result of the operation cannot be "
    "represented as a boolean value for all values of the symbolic dimensions involved. Give `symbolic_shape` constraints that "
    "decide it, or use jax.core.max_dim and min_dim."
)


class SymbolicDimension(SymbolicSize):
    """A formula of dimension variables, with the operators of integers."""

    __array_priority__ = 1000
    __slots__ = ("coefficients", "key", "scope")

    def __init__(self, coefficients: Coefficients, scope: Any) -> None:
        self.coefficients, self.scope = coefficients, scope
        self.key = key_of_sum(coefficients)

    @property
    def variables(self) -> frozenset[str]:
        """The names of the dimension variables in it."""
        return frozenset().union(*(t.variables for t in self.coefficients))

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Return the value for these values of variables: integers, dimensions or others with their operators.

        Raises `KeyError` for a variable that has none.
        """
        return _total(_times(_value(term, values), k) for term, k in self.coefficients.items())

    # -- arithmetic --------------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        return self._with(other, lambda o: combined(self, 1, o, 1, self.scope))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._with(other, lambda o: combined(self, 1, o, -1, self.scope))

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, lambda o: combined(self, -1, o, 1, self.scope))

    def __neg__(self) -> Dimension:
        return combined(self, -1, 0, 1, self.scope)

    def __mul__(self, other: Any) -> Any:
        return self._with(other, self._product)

    __rmul__ = __mul__

    def _product(self, other: Dimension) -> Dimension:
        found: Coefficients = {}
        for left, k in self.coefficients.items():
            for right, c in coefficients_of(other).items():
                found[left * right] = found.get(left * right, 0) + k * c
        return normal(found, self.scope)

    def __pow__(self, power: Any, modulo: None = None) -> Dimension:
        if power != int(power) or power < 0:
            kind = "negative" if power < 0 else "non-integer"
            raise ValueError(f"Symbolic dimension cannot be raised to {kind} powers: '{self}' ** '{power}'")
        return functools.reduce(operator.mul, [self] * int(power), 1)

    def __floordiv__(self, other: Any) -> Any:
        return self._with(other, lambda o: _divided(self, o, self.scope)[0])

    def __rfloordiv__(self, other: Any) -> Any:
        return self._with(other, lambda o: _divided(o, self, self.scope)[0])

    def __mod__(self, other: Any) -> Any:
        return self._with(other, lambda o: _divided(self, o, self.scope)[1])

    def __rmod__(self, other: Any) -> Any:
        return self._with(other, lambda o: _divided(o, self, self.scope)[1])

    def __divmod__(self, other: Any) -> Any:
        return self._with(other, lambda o: _divided(self, o, self.scope))

    def __rdivmod__(self, other: Any) -> Any:
        return self._with(other, lambda o: _divided(o, self, self.scope))

    def _with(self, other: Any, compute: Callable[[Dimension], Any]) -> Any:
        whole = _as_dimension(other)
        if whole is None:
            return NotImplemented
        if isinstance(whole, SymbolicDimension):
            self.scope.check_same(whole, "for linear combination")
        return compute(whole)

    def extremum(self, name: str, first: Any, second: Any) -> Dimension:
        """Return the `max` or `min` of two dimensions, of which this is one: a formula where that is not decided."""
        return extremum(name, _whole(first), _whole(second), self.scope)

    # -- comparisons -------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SymbolicDimension):
            return self.scope is other.scope and self.key == other.key
        return False  # what is a number for all sizes is an int

    def __hash__(self) -> int:
        return hash((self.key, id(self.scope)))

    def __ge__(self, other: Any) -> bool:
        return _at_least(self, other, self, ">=", other)

    def __le__(self, other: Any) -> bool:
        return _at_least(other, self, self, "<=", other)

    def __gt__(self, other: Any) -> bool:
        return not _at_least(other, self, self, ">", other)

    def __lt__(self, other: Any) -> bool:
        return not _at_least(self, other, self, "<", other)

    def __int__(self) -> int:
        raise InconclusiveDimensionOperation(
            f"Symbolic dimension '{self}' used in a context that requires a constant{_HELP}"
        )

    def __repr__(self) -> str:
        return sum_text(self.coefficients)


def is_symbolic_dim(p: Any) -> bool:
    """Tell whether a dimension is symbolic."""
    return isinstance(p, SymbolicDimension)


def variable(name: str, scope: Any) -> Dimension:
    """Return the dimension variable of this name, as the constraints of its scope have it."""
    return normal({Term({Factor(name): 1}): 1}, scope)


def operation(name: str, first: Dimension, second: Dimension, scope: Any) -> Dimension:
    """Return one of `OPERATIONS` as a factor of its own, or what a constraint says that it is."""
    return normal({Term({Factor(name, (first, second)): 1}): 1}, scope)


def coefficients_of(dimension: Dimension) -> Coefficients:
    """Return the terms of a dimension and their coefficients."""
    if isinstance(dimension, SymbolicDimension):
        return dimension.coefficients
    return {ONE: dimension} if dimension else {}


def combined(first: Dimension, k: int, second: Dimension, c: int, scope: Any) -> Dimension:
    """Return `first * k + second * c`."""
    found = {t: n * k for t, n in coefficients_of(first).items()}
    for term, n in coefficients_of(second).items():
        found[term] = found.get(term, 0) + n * c
    return normal(found, scope)


def normal(coefficients: Coefficients, scope: Any) -> Dimension:
    """Return a sum of terms as a dimension, rewritten by the equations of its scope: an int where it is a number."""
    found = {t: k for t, k in coefficients.items() if k}
    for term, k in found.items():
        for before, (count, after) in scope.equations.items():
            rest = term.quotient(before)
            if rest is not None and k % count == 0:
                others = normal({t: c for t, c in found.items() if t != term}, scope)
                scaled = after * normal({rest: k // count}, scope)
                return combined(others, 1, scaled, 1, scope)
    if not found.keys() - {ONE}:
        return found.get(ONE, 0)
    return SymbolicDimension(dict(sorted(found.items(), key=lambda pair: pair[0].key, reverse=True)), scope)


def extremum(name: str, first: Dimension, second: Dimension, scope: Any) -> Dimension:
    """Return the `max` or `min` of two dimensions, a formula where that is not decided."""
    if not (is_symbolic_dim(first) or is_symbolic_dim(second)):
        return max(first, second) if name == "max" else min(first, second)  # pyright: ignore
    low, high = _bounds(combined(first, 1, second, -1, scope), scope)
    if low >= 0:
        return first if name == "max" else second
    if high <= 0:
        return second if name == "max" else first
    return operation(name, first, second, scope)


def _divided(dividend: Dimension, divisor: Dimension, scope: Any) -> tuple[Dimension, Dimension]:
    """Return quotient and remainder: polynomials where the division comes out, else operations."""
    left, quotient = dividend, 0
    while isinstance(left, SymbolicDimension):
        step = _leading_quotient(left, divisor, scope)
        if step is None:
            break
        quotient, left = quotient + step, left - step * divisor
    if isinstance(left, int) and not isinstance(divisor, SymbolicDimension):
        return quotient + left // divisor, left % divisor
    if isinstance(left, int) and left == 0:
        return quotient, 0
    return operation("floordiv", dividend, divisor, scope), operation("mod", dividend, divisor, scope)


def _leading_quotient(dividend: SymbolicDimension, divisor: Dimension, scope: Any) -> "Dimension | None":
    (term, k), (other, c) = (next(iter(coefficients_of(d).items()), (ONE, 0)) for d in (dividend, divisor))
    if not c:
        raise ZeroDivisionError(f"Symbolic dimension '{dividend}' divided by zero")
    rest = term.quotient(other)
    return None if rest is None or k % c else normal({rest: k // c}, scope)


def _at_least(first: Any, second: Any, left: Any, sign: str, right: Any) -> bool:
    """Tell whether `first >= second`; a comparison is named by `left`, `sign` and `right` in errors."""
    scope = left.scope
    if isinstance(right, SymbolicDimension):
        scope.check_same(right, f"when comparing '{left}' {sign} '{right}'")
    elif _as_dimension(right) is None:
        raise TypeError(f"'{sign}' not supported between a symbolic dimension and {type(right)}")
    low, high = _bounds(combined(_whole(first), 1, _whole(second), -1, scope), scope)
    if low >= 0:
        return True
    if high < 0:
        return False
    within = f"\nUsing symbolic scope {scope}" if scope.constraints else ""
    raise InconclusiveDimensionOperation(
        f"Symbolic dimension comparison '{left}' {sign} '{right}' is inconclusive.{within}{_HELP}"
    )


def _bounds(dimension: Dimension, scope: Any) -> tuple[float, float]:
    if not isinstance(dimension, SymbolicDimension):
        return dimension, dimension
    return bounds(dimension.coefficients, scope.inequalities)


def _as_dimension(value: Any) -> "Dimension | None":
    if isinstance(value, SymbolicDimension):
        return value
    try:
        return operator.index(value)
    except Exception:  # whatever a value raises that is no integer
        return None


def _whole(value: Any) -> Dimension:
    return value if isinstance(value, SymbolicDimension) else operator.index(value)


def _value(term: Term, values: Mapping[str, Any]) -> Any:
    return functools.reduce(
        _times, [_factor_value(f, values) for f, exponent in term.exponents.items() for _ in range(exponent)], 1
    )


def _factor_value(factor: Factor, values: Mapping[str, Any]) -> Any:
    if not factor.operands:
        return values[factor.name]
    first, second = (o if isinstance(o, int) else o.evaluate(values) for o in factor.operands)
    if factor.name == "floordiv":
        return first // second
    if factor.name == "mod":
        return first % second
    for either in (first, second):
        if isinstance(either, SymbolicDimension):
            return extremum(factor.name, first, second, either.scope)
    return max(first, second) if factor.name == "max" else min(first, second)


def _times(x: Any, y: Any) -> Any:
    return y if type(x) is int and x == 1 else x if type(y) is int and y == 1 else x * y


def _total(values: Any) -> Any:
    return functools.reduce(operator.add, values)
