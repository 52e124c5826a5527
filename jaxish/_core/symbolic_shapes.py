"""torch.fx.experimental.symbolic_shapes and sympy, as late as can be: they take 0.3 s to import.

Fake tensors whose shapes are numbers have no use for symbols, but a `FakeTensorMode` imports both for each operator that
it has not met, and asks whether there are any (`_dispatch_impl`, `_make_cache_entry`,
`_validate_symbolic_output_for_caching`, torch._prims_common; torch 2.13). While graphs are traced modules stand in for
them that answer for numbers: as long as they are there, nothing in the process has made a symbol. Whatever else is asked
of them comes from the modules themselves, which are imported for it.
"""

import contextlib
import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch.fx.experimental
import torch.utils._sympy

from . import forks
from .stand_ins import StandIn

_lock = threading.Lock()  # held where `sys.modules` is looked at and changed
forks.wait_for(_lock)


def put_aside() -> contextlib.AbstractContextManager[None]:
    """Return the context manager within which fake tensors of known shapes import none of them."""
    is_complete = all(name in sys.modules for name in _STAND_INS)
    return contextlib.nullcontext() if is_complete else _replaced()


@contextlib.contextmanager
def _replaced() -> Iterator[None]:
    with _lock:
        placed = {name: module for name, module in _STAND_INS.items() if name not in sys.modules}
        sys.modules.update(placed)
    try:
        yield
    finally:
        _remove(placed)


def _remove(modules: dict[str, StandIn]) -> None:
    with _lock:
        for name, module in modules.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


def import_all() -> None:
    """Import the modules themselves. Who keeps what stands in for one finds all of it there."""
    _remove(_STAND_INS)
    for name, stand_in in _STAND_INS.items():
        own = vars(importlib.import_module(name))
        vars(stand_in).update({key: value for key, value in own.items() if not key.startswith("__")})


class _Later:
    """A class of a module, which is imported when more is asked than whether a number or a tensor is an instance."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def _itself(self) -> Any:
        import_all()
        return getattr(sys.modules[self._module], self._name)

    def __instancecheck__(self, value: Any) -> bool:
        module = sys.modules.get(self._module)
        kind = None if module is None else vars(module).get(self._name)  # none where a thread is at importing it
        return kind is not None and kind is not self and isinstance(value, kind)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (self._itself(),)

    def __or__(self, other: Any) -> Any:
        return self._itself() | other

    def __getattr__(self, name: str) -> Any:
        return getattr(self._itself(), name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._itself()(*args, **kwargs)


_SHAPES, _FUNCTIONS = "torch.fx.experimental.symbolic_shapes", "torch.utils._sympy.functions"
_STAND_INS = {name: StandIn(name, import_all, is_package=name == "sympy") for name in ("sympy", _FUNCTIONS, _SHAPES)}


def _answering(name: str, answer: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function `name` of _SHAPES: who keeps it may call it when there are symbols."""

    def function(*args: Any, **kwargs: Any) -> Any:
        module = sys.modules.get(_SHAPES)
        own = None if module is None else vars(module).get(name)  # none where a thread is at importing it
        return answer(*args) if own is None or own is function else own(*args, **kwargs)

    return function


_FOR_NUMBERS: dict[str, Callable[..., Any]] = {
    "compute_unbacked_bindings": lambda *_: None,
    "free_unbacked_symbols": lambda _: set(),
    "guard_int": int,
    "has_free_symbols": lambda _: False,
    "has_free_unbacked_symbols": lambda _: False,
    "has_guarding_hint": lambda _: True,
    "is_nested_int": lambda _: False,
    "is_symbolic": lambda _: False,
    "guarding_hint_or_throw": lambda number: number,
    "_iterate_exprs": lambda _: (),
    "_iterate_nodes": lambda _: (),
    **dict.fromkeys(
        ("expect_true", "guard_or_false", "guard_or_true", "guard_size_oblivious", "statically_known_true"), bool
    ),
    "sym_and": lambda *values: all(values),
    "sym_eq": lambda x, y: list(x) == list(y) if isinstance(x, (tuple, list)) else x == y,
    "sym_or": lambda *values: any(values),
}
vars(_STAND_INS[_SHAPES]).update({name: _answering(name, answer) for name, answer in _FOR_NUMBERS.items()})
# What a handler names. `dynamo.import_all` imports the modules first, as Dynamo's handlers need the class itself.
vars(_STAND_INS[_SHAPES])["GuardOnDataDependentSymNode"] = type("GuardOnDataDependentSymNode", (RuntimeError,), {})
vars(_STAND_INS[_FUNCTIONS])["Max"] = _Later(_FUNCTIONS, "Max")
vars(_STAND_INS["sympy"])["Basic"] = _Later("sympy", "Basic")

# An import takes the place of these.
for _package, _name in ((torch.fx.experimental, "symbolic_shapes"), (torch.utils._sympy, "functions")):
    if _name not in vars(_package):
        setattr(_package, _name, _STAND_INS[f"{_package.__name__}.{_name}"])
