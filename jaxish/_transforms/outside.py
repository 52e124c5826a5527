"""What functions read from outside, which may be another value when they are traced again: variables around them, and of modules."""

import functools
import types
from collections.abc import Callable
from typing import Any

_EMPTY = object()


def values_read(fun: Callable[..., Any]) -> list[Any]:
    """Return the variables that a function reads from outside, and those that functions of the user's among them read."""
    found: list[Any] = []
    seen: set[int] = set()
    todo: list[Any] = [fun]
    while todo:
        function = _plain(todo.pop())
        if function is None or id(function) in seen:
            continue
        seen.add(id(function))
        values = [*_cells(function), *_names(function).values()]
        found += values
        todo += values
    return found


def as_now(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Return what makes of a function one that reads the variables which it reads now, itself if they are the same then."""
    function = _plain(fun)
    if function is None or function is not fun:
        return lambda: fun
    cells, names = _cells(function), _names(function)

    def found() -> Callable[..., Any]:
        if same(cells, _cells(function)) and same([*names.values()], [*_names(function).values()]):
            return fun
        closure = tuple(types.CellType() if c is _EMPTY else types.CellType(c) for c in cells)
        copied = types.FunctionType(
            function.__code__, function.__globals__ | names, function.__name__, function.__defaults__, closure
        )
        copied.__kwdefaults__ = function.__kwdefaults__
        return copied

    return found


def same(before: list[Any], now: list[Any]) -> bool:
    """Tell whether these are the same objects."""
    return len(before) == len(now) and all(a is b for a, b in zip(before, now, strict=True))


def _plain(fun: Any) -> types.FunctionType | None:
    while isinstance(fun, functools.partial | types.MethodType):
        fun = fun.func if isinstance(fun, functools.partial) else fun.__func__
    is_users = isinstance(fun, types.FunctionType) and not (fun.__module__ or "").startswith("jaxish.")
    return fun if is_users else None


def _cells(function: types.FunctionType) -> list[Any]:
    return [_content(cell) for cell in function.__closure__ or ()]


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return _EMPTY


def _names(function: types.FunctionType) -> dict[str, Any]:
    of_module = function.__globals__
    return {name: of_module[name] for name in _names_of_code(function.__code__) if name in of_module}


@functools.lru_cache(4096)
def _names_of_code(code: types.CodeType) -> tuple[str, ...]:
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return tuple(dict.fromkeys([*code.co_names, *(name for c in inner for name in _names_of_code(c))]))
