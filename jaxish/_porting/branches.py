"""Which code does not run, or may fail: tests of what there is, of JAX's version, of TYPE_CHECKING; what is around a use."""

import ast
import operator
import re
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from typing import Any, NamedTuple

from .._core.machine import JAX_VERSION


class Truth(NamedTuple):
    """What a test comes to at run time, and what it is about: `typing`, `version` or `hasattr`."""

    holds: bool
    about: str


Meanings = Callable[[ast.expr], frozenset[str | None]]

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip


def truth(test: ast.expr, meanings: Meanings, has: Callable[[str], bool]) -> Truth | None:
    """Return what a test comes to, or None if that cannot be known; `has` tells whether there is a name of JAX."""
    match test:
        case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
            return Truth(False, "typing")
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            found = truth(operand, meanings, has)
            return found and Truth(not found.holds, found.about)
        case ast.BoolOp(op=operation, values=values):
            decides = isinstance(operation, ast.Or)  # one value that is so, and the test is
            known = [truth(value, meanings, has) for value in values]
            decisive = [found for found in known if found is not None and found.holds == decides]
            return decisive[0] if decisive else known[0] if None not in known else None
        case ast.Call(func=ast.Name(id="hasattr"), args=[owner, ast.Constant(value=str(name))]):
            paths = meanings(owner) - {None}
            return Truth(all(has(f"{path}.{name}") for path in paths), "hasattr") if paths else None
        case ast.Compare(left=left, ops=[comparison], comparators=[right]) if type(comparison) in _COMPARISONS:
            return _compared(_COMPARISONS[type(comparison)], left, right, meanings)
    return None


def _compared(compare: Callable[[Any, Any], bool], left: ast.expr, right: ast.expr, meanings: Meanings) -> Truth | None:
    if _is_version_of_jax(left, meanings):
        wanted = _version(right)
        return wanted and Truth(compare(_padded(_numbers(JAX_VERSION)), _padded(wanted)), "version")
    if _is_version_of_jax(right, meanings):
        given = _version(left)
        return given and Truth(compare(_padded(given), _padded(_numbers(JAX_VERSION))), "version")
    return None


def _is_version_of_jax(node: ast.expr, meanings: Meanings) -> bool:
    """Tell whether an expression is `jax.__version__`, `jax.__version_info__`, or a function of it: `parse(jax.__version__)`."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        return _is_version_of_jax(node.args[0], meanings)
    paths = {f"{root}.{name}" for root in ("jax", "jaxlib") for name in ("__version__", "__version_info__")}
    return bool(found := meanings(node) - {None}) and found <= paths


def _version(node: ast.expr) -> Any:
    """Return the numbers of a version that is written out: `(0, 4, 20)`, `"0.4.20"`, `Version("0.4.20")`."""
    if isinstance(node, ast.Call) and len(node.args) == 1:
        return _version(node.args[0])
    try:
        found = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return None
    if isinstance(found, str):
        return _numbers(found) or None
    return found if isinstance(found, tuple) and found and all(isinstance(n, int) for n in found) else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def _padded(version: tuple[int, ...]) -> tuple[int, ...]:
    return (*version, 0, 0, 0)[:3]


class Guards:
    """What is around the place that is being read: code that does not run, and errors that are caught."""

    def __init__(self, skipped: str = "") -> None:
        self.skipped = skipped
        self.caught: Set[str] = frozenset()

    def of_function(self) -> "Guards":
        """Return those of the body of a function that is defined here: who catches the errors of its calls is not known."""
        return Guards(self.skipped)

    def of(self, is_import: bool) -> str:
        """Return why the program runs if a name that is used here is not there, or nothing."""
        errors = ("ImportError", "ModuleNotFoundError") if is_import else ("AttributeError",)
        return self.skipped or (errors[0] if self.caught & {*errors, "Exception", "BaseException"} else "")

    @contextmanager
    def within(self, skipped: str) -> Iterator[None]:
        """Be in code that does not run, if `skipped` says why."""
        before, self.skipped = self.skipped, self.skipped or skipped
        yield
        self.skipped = before

    @contextmanager
    def catching(self, errors: Set[str]) -> Iterator[None]:
        """Be where these errors are caught."""
        before, self.caught = self.caught, self.caught | errors
        yield
        self.caught = before
