"""Functions traced for all sizes: torch's symbols stand for dimension variables, and torch notes what is asked of them.

A trace needs one example of the sizes. What the program asks of them then (is b less than 100?) are the guards of a
*case*: the graph is right for all sizes of which the guards are true. Further examples that no case covers give
further cases, until all that are tried are covered. So a program may branch on sizes, where JAX's raises.
"""

import itertools
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .._core.array import SYMBOLS, as_array
from .._core.errors import InconclusiveDimensionOperation
from .._core.symbolic_sizes import environment, symbols_of
from . import sizes
from .scopes import SymbolicScope

_SMALL = (1, 2, 3, 4, 5, 6, 8, 12, 16)
_LARGE = (33, 100, 129, 1_000, 1_025, 4_097, 20_000, 70_001, 1_000_003)
_FIRST = (7, 11, 13, 17, 19, 23, 29, 31)
_MOST_CASES = 24

_OF_NUMPY: Mapping[np.ufunc, Callable[[Any, Any], Any]] = {
    np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul, np.true_divide: operator.truediv,
    np.floor_divide: operator.floordiv, np.remainder: operator.mod, np.power: operator.pow,
    np.equal: operator.eq, np.not_equal: operator.ne, np.less: operator.lt, np.less_equal: operator.le,
    np.greater: operator.gt, np.greater_equal: operator.ge,
}  # fmt: skip


@dataclass
class Symbols:
    """Dimension variables as torch's symbols, with one example of their sizes."""

    example: Mapping[str, int]

    def __post_init__(self) -> None:
        from torch._dynamo.source import ConstantSource
        from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

        self.shape_env = ShapeEnv(duck_shape=False, specialize_zero_one=False)
        self._names: dict[Any, str] = {}
        self.values: dict[str, Any] = {}
        for name, size in self.example.items():
            if size == 1:  # what is said of a size of one is not said of others
                self.values[name] = 1
                continue
            source = ConstantSource(name)
            symbol = self.shape_env.create_symbol(
                size, source, DimDynamic.DYNAMIC, constraint_dim=None, do_not_specialize_zero_one=True
            )
            self._names[symbol] = name
            self.values[name] = self.shape_env.create_symintnode(symbol, hint=size, source=source)

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Within this context manager, errors call the dimension variables by their own names."""
        names = {str(symbol): name for symbol, name in self._names.items()}
        try:
            yield
        except Exception as error:
            if error.args and isinstance(error.args[0], str):
                text = re.sub(r"\bs\d+\b", lambda found: names.get(found[0], found[0]), error.args[0])
                error.args = (text, *error.args[1:])
            raise

    def formula(self, symbol: Any) -> Any:
        """Return a symbol as a formula of the dimension variables."""
        return symbol if isinstance(symbol, int | float) else self._formula(symbol.node.expr)

    def guards(self, apart: Sequence[Any] = ()) -> list[list[Any]]:
        """Return what the program has asked, as guards.

        Raises `InconclusiveDimensionOperation` where it asked for a number; `apart` are guards of cases for all sizes but one, of
        which this may be the one.
        """
        found = [["==", ["variable", name], 1] for name, size in self.example.items() if size == 1]
        for guard in self.shape_env.guards:
            relation = self._relation(guard.expr)
            pinned = relation[0] == "==" and [isinstance(side, int) for side in relation[1:]] == [False, True]
            if pinned and relation[1][0] == "variable" and ["!=", *relation[1:]] not in apart:
                raise _needs_number(relation[1][1], guard)
            if relation not in found:
                found.append(relation)
        return found

    def _relation(self, expression: Any) -> list[Any]:
        import sympy

        names = {sympy.Eq: "==", sympy.Ne: "!=", sympy.Lt: "<", sympy.Le: "<=", sympy.Gt: ">", sympy.Ge: ">="}
        relation = names.get(type(expression))
        if relation is None:
            raise _no_formula(expression)
        return [relation, *map(self._formula, expression.args)]

    def _formula(self, expression: Any) -> Any:
        if expression in self._names:
            return ["variable", self._names[expression]]
        if expression.is_Integer:
            return int(expression)
        if expression.is_Float:
            return float(expression)
        operation = _OPERATIONS.get(type(expression).__name__)
        if operation is None:
            raise _no_formula(expression)
        operands = [self._formula(a) for a in expression.args]
        if operation in ("max", "min"):
            operands.sort(key=lambda o: isinstance(o, int))  # numbers last, as users write them
        return [operation, *operands]


_OPERATIONS = {
    "Add": "add", "Mul": "mul", "Pow": "pow", "PowByNatural": "pow", "FloorDiv": "floordiv", "CleanDiv": "floordiv",
    "Mod": "mod", "PythonMod": "mod", "Max": "max", "Min": "min", "ToFloat": "float", "IntTrueDiv": "truediv",
    "FloatTrueDiv": "truediv",
}  # fmt: skip


def _no_formula(expression: Any) -> Exception:
    return InconclusiveDimensionOperation(
        f"the sizes of the program depend on {expression}, which an exported function cannot compute; use + - * // % and "
        "jax.core.max_dim and min_dim."
    )


def _needs_number(name: str, guard: Any) -> Exception:
    stack = [str(f) for f in getattr(guard.sloc, "framework_loc", None) or () if f]
    return InconclusiveDimensionOperation(
        f"Symbolic dimension '{name}' used in a context that requires a constant{': ' + stack[-1] if stack else ''}. Export the "
        f"function for a given size of '{name}', or compute with x.shape by + - * // %."
    )


@dataclass(frozen=True)
class Traced:
    """What came of one example: its guards, and what the trace gave."""

    example: Mapping[str, int]
    guards: list[list[Any]]
    made: Any

    def covers(self, values: Mapping[str, int]) -> bool:
        """Tell whether the guards are true of these sizes."""
        return all(sizes.holds(guard, values) for guard in self.guards)


def cases_of(names: Sequence[str], scope: SymbolicScope, trace: Callable[[Symbols], Any]) -> list[Traced]:
    """Return what `trace` gives, for as many examples of the sizes as there are cases.

    Raises `InconclusiveDimensionOperation` where there are too many, and as `Symbols.guards`.
    """
    found: list[Traced] = []
    for example in _examples(names, scope):
        if any(case.covers(example) for case in found):
            continue
        if len(found) == _MOST_CASES:
            raise InconclusiveDimensionOperation(
                f"the function does something else for each of {_MOST_CASES} examples of the sizes {', '.join(names)}; export it "
                "for given sizes, or with constraints."
            )
        symbols = Symbols(example)
        torch.SymInt.__array_ufunc__ = torch.SymFloat.__array_ufunc__ = _with_numpy  # pyright: ignore
        with symbols_of(symbols.shape_env), symbols.naming():
            made = trace(symbols)
        found.append(Traced(example, symbols.guards([g for case in found for g in case.guards]), made))
    if not found:
        raise ValueError(f"No sizes up to {_LARGE[-1]} were found that the constraints of {scope} allow.")
    return found


def _with_numpy(self: Any, ufunc: np.ufunc, method: str, *operands: Any, **kwargs: Any) -> Any:
    """Return what NumPy asks of a symbol beside a value of its own: in our traces an operation of arrays, but of integers."""
    operation = _OF_NUMPY.get(ufunc)
    if operation and environment() is not None and method == "__call__" and not all(map(_is_integer, operands)):
        return operation(*map(as_array, operands))
    boxed = [np.array(x, object) if isinstance(x, SYMBOLS) else x for x in operands]  # as NumPy takes any object
    return getattr(ufunc, method)(*boxed, **kwargs)


def _is_integer(value: Any) -> bool:
    return isinstance(value, SYMBOLS) or (np.ndim(value) == 0 and np.result_type(value).kind in "iu")


def _examples(names: Sequence[str], scope: SymbolicScope) -> Iterator[Mapping[str, int]]:
    """Yield examples that the constraints allow: sizes that are all different first, then each one small and large."""
    first = dict(zip(names, itertools.islice(itertools.cycle(_FIRST), len(names)), strict=True))
    tried: set[tuple[int, ...]] = set()
    candidates = [*_candidates(names, first)]
    # Those without a size of one first: such sizes are no symbols.
    for values in sorted(candidates, key=lambda values: 1 in values):
        key = tuple(values)
        example = _allowed(dict(zip(names, key, strict=True)), scope)
        if key not in tried and example is not None:
            tried.add(key)
            yield example


def _candidates(names: Sequence[str], first: Mapping[str, int]) -> Iterator[Sequence[int]]:
    yield list(first.values())
    for step in (0, 30, 60, 120, 250):  # where constraints ask for more
        for scale in (1, 2, 4, 12):
            yield [scale * n + step * (len(names) - i) for i, n in enumerate(first.values())]
    for ratio in (3, 10):
        yield [n * ratio ** (len(names) - 1 - i) for i, n in enumerate(first.values())]
        yield [n * ratio**i for i, n in enumerate(first.values())]
    for size in (*_SMALL, *_LARGE):
        yield [size] * len(names)
        for name in names:
            yield [size if n == name else first[n] for n in names]
    if len(names) <= 4:
        yield from itertools.product((1, 2, 3, 4, 12), repeat=len(names))


def _allowed(example: dict[str, int], scope: SymbolicScope) -> Mapping[str, int] | None:
    for constraint in scope.constraints:
        if not constraint.difference.variables <= example.keys():
            continue
        value = constraint.difference.evaluate(example)
        if value < 0 or (constraint.is_equation and value):
            return None
    return example
