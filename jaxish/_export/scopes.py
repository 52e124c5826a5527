"""Scopes of dimension variables: which variables may meet, and the constraints on them.

A constraint `t == e` with one term t on the left is an equation by which dimensions are rewritten; every constraint is an
inequality by which they are compared, and checked when an exported function is called.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .._core.user_frames import users_line
from .dimensions import Dimension, SymbolicDimension, coefficients_of, combined, operation
from .parsing import Parser
from .terms import Coefficients, Term


@dataclass(frozen=True)
class Constraint:
    """`difference` is 0, or at least 0; `text` is what the user said."""

    text: str
    is_equation: bool
    difference: SymbolicDimension


class SymbolicScope:
    """Where dimension variables belong together: those of one scope may meet. Constraints are said as by `symbolic_shape`."""

    def __init__(self, constraints_str: Sequence[str] = ()) -> None:
        if isinstance(constraints_str, str):
            raise ValueError(f"The symbolic constraints should be a sequence of strings. Got {constraints_str!r}")
        self.constraints: list[Constraint] = []
        self.equations: dict[Term, tuple[int, Dimension]] = {}
        self.inequalities: list[Coefficients] = []
        self._line = users_line()
        for text in constraints_str:
            self._add(text)

    def check_same(self, other: SymbolicDimension, when: str, own: str = "", others: str = "unknown") -> None:
        """Raise `ValueError` where a dimension is of another scope."""
        if other.scope is not self:
            raise ValueError(
                f"Invalid mixing of symbolic scopes {when}.\nExpected {own} scope {self}\nand found for '{other}' ({others}) "
                f"scope {other.scope}\nPass `scope=` to `symbolic_shape` to make dimensions that go together."
            )

    def _add(self, text: str) -> None:
        if not isinstance(text, str):
            raise ValueError(f"SymbolicScope constraint must be a string: got {text!r}")
        parts = re.split(r"(==|>=|<=)", text, maxsplit=1)
        if len(parts) != 3:
            raise ValueError("Constraint parsing error: must contain one of '==' or '>=' or '<='")
        left, right = (self._side(part) for part in parts[::2])
        first, second = (right, left) if parts[1] == "<=" else (left, right)
        difference = combined(first, 1, second, -1, self)
        if isinstance(difference, int):
            if difference < 0 or (parts[1] == "==" and difference):
                raise ValueError(f"Unsatisfiable explicit constraint: {text}")
            return
        if parts[1] == "==":
            self._add_equation(left, right, text)
            self.inequalities.append({t: -k for t, k in difference.coefficients.items()})
        self.inequalities.append(difference.coefficients)
        self.constraints.append(Constraint(text, parts[1] == "==", difference))

    def _side(self, text: str) -> Dimension:
        found = Parser(text, repr(text), self).shape()
        if len(found) != 1:
            raise ValueError(f"Constraint parsing error: {text!r} is not one dimension.")
        return found[0]

    def _add_equation(self, left: Dimension, right: Dimension, text: str) -> None:
        terms = coefficients_of(left)
        if isinstance(left, int) or len(terms) != 1:
            raise ValueError(
                f"Invalid equality constraint: {text}. The left-hand-side must be of the form `term * coefficient`."
            )
        ((term, count),) = terms.items()
        if term in self.equations:
            raise NotImplementedError(f"Found multiple equality constraints with the same left-hand-side: {term}")
        self.equations[term] = count, right
        factor = term.single
        if count == 1 and right == 0 and factor is not None and factor.name == "mod" and factor.operands:
            dividend, divisor = factor.operands
            if isinstance(divisor, int):
                (whole,) = coefficients_of(operation("floordiv", dividend, divisor, self))
                self.equations[whole] = divisor, dividend

    def __repr__(self) -> str:
        code, line, _ = self._line or (None, 0, 0)
        where = f"{code.co_filename}:{line}" if code is not None else "an unknown place"
        listed = "".join(f"\n  {c.text}" for c in self.constraints)
        return f"{id(self)} created at {where}{f' with constraints:{listed}' if listed else ''}"


def scope_of(dimensions: Sequence[Any]) -> SymbolicScope | None:
    """Return the scope of the first symbolic one among dimensions."""
    return next((d.scope for d in dimensions if isinstance(d, SymbolicDimension)), None)
