"""Products of dimension variables and of operations on dimensions: what sums of symbolic dimensions are made of.

All have a `key`, by which they are compared, hashed and ordered. The order is that of the number of things in them, then of
their names; dimensions print in it.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

Key = tuple[Any, ...]
OPERATIONS = ("floordiv", "mod", "max", "min")


@dataclass(frozen=True, eq=False)
class Factor:
    """A dimension variable, or one of `OPERATIONS` on two operands: integers or symbolic dimensions."""

    name: str
    operands: tuple[Any, ...] = ()

    @cached_property
    def key(self) -> Key:
        """What orders factors and tells them apart."""
        keys = tuple(map(key_of, self.operands))
        return (1 + sum(k[0] for k in keys), self.name, keys)

    @property
    def variables(self) -> frozenset[str]:
        """The dimension variables in it."""
        if not self.operands:
            return frozenset((self.name,))
        return frozenset().union(*(o.variables for o in self.operands if not isinstance(o, int)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Factor) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(text, self.operands))})" if self.operands else self.name


class Term:
    """A product of factors with exponents; without any it is 1."""

    __slots__ = ("exponents", "key")

    def __init__(self, exponents: dict[Factor, int]) -> None:
        self.exponents = dict(sorted(exponents.items(), key=lambda pair: pair[0].key, reverse=True))
        size = sum(1 + e * f.key[0] for f, e in exponents.items())
        self.key: Key = (size, tuple((f.key, e) for f, e in self.exponents.items()))

    def __mul__(self, other: "Term") -> "Term":
        merged = dict(self.exponents)
        for factor, exponent in other.exponents.items():
            merged[factor] = merged.get(factor, 0) + exponent
        return Term(merged)

    def quotient(self, other: "Term") -> "Term | None":
        """Return the term that times `other` is this one, None where there is none."""
        left = dict(self.exponents)
        for factor, exponent in other.exponents.items():
            left[factor] = left.get(factor, 0) - exponent
            if left[factor] < 0:
                return None
        return Term({f: e for f, e in left.items() if e})

    @property
    def single(self) -> Factor | None:
        """The factor that it is, None where it is a product or a power."""
        return next(iter(self.exponents)) if list(self.exponents.values()) == [1] else None

    @property
    def variables(self) -> frozenset[str]:
        """The dimension variables in it."""
        return frozenset().union(*(f.variables for f in self.exponents))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Term) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        pairs = reversed(self.exponents.items())
        return "*".join(str(f) if e == 1 else f"{f}^{e}" for f, e in pairs)


ONE = Term({})
Coefficients = dict[Term, int]


def key_of(dimension: Any) -> Key:
    """Return the key of an integer or of a symbolic dimension."""
    return (1, ((ONE.key, dimension),)) if isinstance(dimension, int) else dimension.key


def key_of_sum(coefficients: Coefficients) -> Key:
    """Return the key of a sum of terms, largest first."""
    size = sum(1 + abs(k) * t.key[0] for t, k in coefficients.items())
    return (size, tuple((t.key, k) for t, k in coefficients.items()))


def text(dimension: Any) -> str:
    """Return an operand as it is printed; negative numbers as sums are."""
    return f"- {-dimension}" if isinstance(dimension, int) and dimension < 0 else str(dimension)


def sum_text(coefficients: Coefficients) -> str:
    """Return a sum of terms as it is printed: `2*a*b - c + 1`."""
    parts = []
    for term, k in coefficients.items():
        size = abs(k)
        shown = str(size) if term == ONE else str(term) if size == 1 else f"{size}*{term}"
        parts.append(f"{'-' if k < 0 else '+'} {shown}")
    return " ".join(parts).removeprefix("+ ")
