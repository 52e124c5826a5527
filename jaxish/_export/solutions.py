"""Sizes of dimension variables, found from the shapes of arguments: linear equations in one unknown, one after another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .._core.avals import ShapedArray
from .dimensions import SymbolicDimension
from .scopes import SymbolicScope, scope_of

_SEE = ". Please see https://docs.jax.dev/en/latest/export/shape_poly.html#shape-assertion-errors for more details."


@dataclass(frozen=True)
class _Equation:
    """The size of dimension `position` of argument `argument`, at `place`, is `formula`."""

    formula: SymbolicDimension
    argument: int
    position: int
    place: str


@dataclass(frozen=True)
class Equations:
    """What the shapes of arguments (named by `places`) say of the dimension variables in `avals`."""

    avals: Sequence[ShapedArray]
    places: Sequence[str]

    @cached_property
    def scope(self) -> SymbolicScope | None:
        """The scope of the dimensions, None where there are none. Raises `ValueError` where there are several."""
        found = scope_of([n for aval in self.avals for n in aval.shape])
        for equation in self._all if found is not None else ():
            assert found is not None
            found.check_same(equation.formula, "in the shapes of arguments", "current", equation.place)
        return found

    @cached_property
    def _all(self) -> list[_Equation]:
        return [
            _Equation(size, argument, position, f"{self.places[argument]}.shape[{position}]")
            for argument, aval in enumerate(self.avals)
            for position, size in enumerate(aval.shape)
            if isinstance(size, SymbolicDimension)
        ]

    @cached_property
    def variables(self) -> Sequence[str]:
        """The names of the dimension variables."""
        return sorted(set().union(*(e.formula.variables for e in self._all)))

    def check_solvable(self) -> None:
        """Raise `ValueError` where variables cannot be found one after another."""
        _ = self.steps

    @cached_property
    def _specifications(self) -> str:
        symbolic = [i for i, aval in enumerate(self.avals) if any(isinstance(n, SymbolicDimension) for n in aval.shape)]
        return " Using the following polymorphic shapes specifications: " + ",".join(
            f"{self.places[i]}.shape = {self.avals[i].shape}" for i in symbolic
        ) + "."  # fmt: skip

    @cached_property
    def steps(self) -> list[tuple[_Equation, str | None]]:
        """The equations in the order of their solution, each with the variable that it gives, None where it gives none.

        Raises `ValueError` where variables cannot be found one after another.
        """
        known: set[str] = set()
        found: list[tuple[_Equation, str | None]] = []
        pending = list(self._all)
        while pending:
            solvable = [(e, unknown) for e in pending if (unknown := _unknown(e.formula, known)) is not None]
            if not solvable:
                unsolved = set().union(*(e.formula.variables for e in pending)) - known
                listed = ", ".join(f"'{e.formula}' for dimension size {e.place}" for e in pending)
                raise ValueError(
                    f"Cannot solve for values of dimension variables {unsolved}. We can only solve linear uni-variate "
                    f"constraints.{self._specifications} Unprocessed specifications: {listed}. Let each variable be a size of "
                    "an argument, of an empty one if need be."
                )
            equation, unknown = solvable[0]
            pending.remove(equation)
            known.add(unknown)
            found.append((equation, unknown or None))
        return found

    def solved(self, shapes: Sequence[Sequence[Any]]) -> Mapping[str, Any]:
        """Return the sizes of the variables, by name, for arguments of these shapes.

        Raises `ValueError` where the shapes do not fit the formulas or the constraints.
        """
        values: dict[str, Any] = {}
        said: list[str] = []
        for equation, name in self.steps:
            size = shapes[equation.argument][equation.position]
            if name is None:
                expected = equation.formula.evaluate(values)
                self._check(
                    size == expected, said,
                    f"Found inconsistency between dimension size {equation.place} (= {size}) and the specification "
                    f"'{equation.formula}' (= {expected}).",
                )  # fmt: skip
                continue
            values[name] = self._value(equation, name, size, values, said)
            said.append(
                f"'{name}' = {values[name]} from specification '{equation.formula}' for dimension {equation.place} (= {size}), "
            )
            self._check(values[name] >= 1, said, f"Expected value >= 1 for dimension variable '{name}'.")
        self._check_constraints(values, said)
        return dict(sorted(values.items()))

    def _value(self, equation: _Equation, name: str, size: Any, values: Mapping[str, Any], said: Sequence[str]) -> Any:
        scale, rest = 1, 0
        for term, k in equation.formula.coefficients.items():
            single = term.single
            if single is not None and single.name == name and not single.operands:
                scale = k
            else:
                rest = rest + SymbolicDimension({term: k}, self.scope).evaluate(values)
        if scale == 1:
            return size - rest
        remainder = (size - rest) % scale
        self._check(remainder == 0, said, f"Division had remainder {remainder} when computing the value of '{name}'.")
        return (size - rest) // scale

    def _check_constraints(self, values: Mapping[str, Any], said: Sequence[str]) -> None:
        for constraint in self.scope.constraints if self.scope is not None else ():
            if not constraint.difference.variables <= values.keys():
                continue
            found = constraint.difference.evaluate(values)
            holds, what = (found == 0, "equal") if constraint.is_equation else (found >= 0, "greater or equal")
            if not holds:
                raise ValueError(
                    f"Input shapes do not match the symbolic shape constraint {constraint.text}. Expected "
                    f"'{constraint.difference}' to be {what} to 0, but found {found}. {self._trailer(said)}"
                )

    def _check(self, holds: Any, said: Sequence[str], problem: str) -> None:
        if not holds:
            raise ValueError(
                f"Input shapes do not match the polymorphic shapes specification. {problem}{self._trailer(said)}"
            )

    def _trailer(self, said: Sequence[str]) -> str:
        return f"{self._specifications} Obtained dimension variables: {''.join(said)}{_SEE}"


def _unknown(formula: SymbolicDimension, known: set[str]) -> str | None:
    """Return the variable that a formula gives if `known` are, "" where all are known, None where it gives none."""
    unknown = [t for t in formula.coefficients if not t.variables <= known]
    if not unknown:
        return ""
    single = unknown[0].single
    return single.name if len(unknown) == 1 and single is not None and not single.operands else None
