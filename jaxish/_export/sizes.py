"""Sizes in stored graphs: integers, or formulas of dimension variables, as nested lists.

`["add", ["variable", "b"], 1]` is b + 1. A formula is evaluated on whatever has integers' operators: on integers when an
exported function is called, on symbolic dimensions for the types that users see.
"""

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Formula = Any  # int | list

_OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": lambda *values: functools.reduce(operator.add, values),
    "mul": lambda *values: functools.reduce(operator.mul, values),
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
    "float": lambda value: value * 1.0,
    "truediv": operator.truediv,
}

_RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def evaluate(formula: Formula, values: Mapping[str, Any], larger: Callable[[Any, Any], Any] = max,
             smaller: Callable[[Any, Any], Any] = min) -> Any:  # fmt: skip
    """Return the value of a formula for these values of the variables.

    `larger` and `smaller` compute maxima and minima of two. Raises `ValueError` for what is no formula of these variables.
    """
    if type(formula) in (int, float):
        return formula
    match formula:
        case ["variable", str(name)] if name in values:
            return values[name]
        case [str(name), *operands] if name in _OPERATIONS or name in ("max", "min"):
            found = [evaluate(o, values, larger, smaller) for o in operands]
            if name in _OPERATIONS:
                return _OPERATIONS[name](*found)
            return functools.reduce(larger if name == "max" else smaller, found)
    raise ValueError(f"{formula!r} is no formula of the sizes {', '.join(values) or '(none)'}.")


def holds(guard: Sequence[Any], values: Mapping[str, Any]) -> bool:
    """Tell whether a guard, `[relation, formula, formula]`, is true of these values. Raises `ValueError` as `evaluate`."""
    relation, left, right = guard
    if relation not in _RELATIONS:
        raise ValueError(f"{relation!r} is no relation of sizes.")
    return bool(_RELATIONS[relation](evaluate(left, values), evaluate(right, values)))
