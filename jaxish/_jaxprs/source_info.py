"""Where equations come from, as far as programs say it: stacks of names. Source lines are not kept."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True)
class NameStack:
    """The names of the scopes around an operation, outermost first."""

    stack: tuple[Any, ...] = ()

    def extend(self, name: str) -> "NameStack":
        """Return the stack with one more scope."""
        return NameStack((*self.stack, name))

    def __add__(self, other: "NameStack") -> "NameStack":
        return NameStack(self.stack + other.stack)

    def __str__(self) -> str:
        return "/".join(map(str, self.stack))


class SourceInfo(NamedTuple):
    """Where in the user's program an equation comes from."""

    traceback: Any = None
    name_stack: NameStack = NameStack()

    def replace(self, **changes: Any) -> "SourceInfo":
        """Return a copy with some fields changed."""
        return self._replace(**changes)


class _Current(threading.local):
    def __init__(self) -> None:
        self.names = NameStack()


_current = _Current()


def new_name_stack(name: str = "") -> NameStack:
    """Return a stack of one name, or an empty one."""
    return NameStack((name,) if name else ())


def new_source_info() -> SourceInfo:
    """Return a place of which nothing is known."""
    return SourceInfo()


def current() -> SourceInfo:
    """Return what is known of where the program is."""
    return SourceInfo(None, _current.names)


def current_name_stack() -> NameStack:
    """Return the names of the scopes around the call."""
    return _current.names


@contextmanager
def set_name_stack(name_stack: NameStack) -> Iterator[None]:
    """Set the names of the scopes for a block."""
    before, _current.names = _current.names, name_stack
    try:
        yield
    finally:
        _current.names = before


@contextmanager
def extend_name_stack(name: str) -> Iterator[NameStack]:
    """Add a scope for a block."""
    with set_name_stack(_current.names.extend(name)):
        yield _current.names


@contextmanager
def reset_name_stack() -> Iterator[None]:
    """Leave all scopes for a block."""
    with set_name_stack(NameStack()):
        yield


@contextmanager
def transform_name_stack(name: str) -> Iterator[NameStack]:
    """Put a transformation's name around the scopes for a block."""
    with set_name_stack(NameStack((f"{name}({_current.names})",) if _current.names.stack else ())):
        yield _current.names


@contextmanager
def user_context(c: Any, *, name_stack: NameStack | None = None) -> Iterator[None]:
    """Take `c` for the traceback of a block, and `name_stack` for its scopes."""
    with set_name_stack(_current.names if name_stack is None else name_stack):
        yield


def summarize(source_info: SourceInfo, num_frames: int = 1) -> str:
    """Return a text for where something comes from: source lines are not known here."""
    return str(source_info.name_stack) or "unknown"


def api_boundary(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function beyond which JAX would leave frames out of tracebacks: as it is."""
    return fun
