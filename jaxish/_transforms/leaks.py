"""`jax.checking_leaks`: an error where a trace or a vmap ends while arrays of its own live on."""

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

from .._core import config, functorch, graph, levels
from .._core.array import Array
from .flat import Output, name_of

_NOTHING = nullcontext()
# What had leaked before the checks under way began; kept, so that no id is used twice.
_known: ContextVar[list[Array] | None] = ContextVar("known", default=None)


def checked(kind: str, fun: Callable[..., Any]) -> AbstractContextManager[None]:
    """Return a context manager for the run of a function under a transformation, which checks at its end if it is to.

    `kind` is what JAX calls the trace in the message: DynamicJaxprTrace, or BatchTrace under vmap.
    """
    return _checking(kind, name_of(fun)) if config.check_tracer_leaks.value else _NOTHING


@contextmanager
def _checking(kind: str, function: str) -> Iterator[None]:
    outer = _known.get()
    known = [*(outer or ()), *_leaked()]
    # What exists before the outermost check begins is put aside: to look through it at each trace takes a third of a second.
    sets_aside = outer is None and not gc.get_freeze_count()
    if sets_aside:
        gc.freeze()
    token = _known.set(known)
    try:
        yield
        found = _settled(_new(known))
        if found:
            shown = "\n\n".join(f"{x!r}{_holder(x)}" for x in found)
            raise Exception(
                f"Leaked trace {kind} of {function}. Leaked tracer(s):\n\n{shown}\n\nReturn the values from the transformed "
                "function in place of storing them."
            )
    finally:
        _known.reset(token)
        if sets_aside:
            gc.unfreeze()


def _new(known: list[Array]) -> list["weakref.ref[Array]"]:
    ids = set(map(id, known))
    return [weakref.ref(x) for x in _leaked() if id(x) not in ids]


def _settled(found: list["weakref.ref[Array]"]) -> list[Array]:
    """Return those that are alive once what was put aside, and is rubbish by now, is gone."""
    if found:
        gc.unfreeze()
        gc.collect()
    return [x for x in (reference() for reference in found) if x is not None]


def _leaked() -> list[Array]:
    """Return the arrays of traces and vmaps that have ended, but for those that a pullback keeps for its results' types."""
    gc.collect()
    objects = gc.get_objects()
    kept = {
        id(x) for o in objects if issubclass(type(o), Output) for x in getattr(o, "arrays", ())
    }  # some are half made
    return [x for x in objects if type(x) is Array and id(x) not in kept and not x.is_deleted() and _has_ended(x)]


def _has_ended(x: Array) -> bool:
    tensor = x._tensor
    if not levels.is_tracer(tensor):
        return False
    base = levels.base_of(tensor)
    if isinstance(base, graph.FakeTensor):
        return getattr(base.fake_mode, "ended", False)
    interpreter = functorch.peek_interpreter_stack()
    level = 0 if interpreter is None else interpreter.level()
    return functorch.is_batchedtensor(tensor) and functorch.maybe_get_level(tensor) > level


def _holder(x: Array) -> str:
    """Say what holds an array, as far as one can tell."""
    holders: list[Any] = [h for h in gc.get_referrers(x) if isinstance(h, list | dict | tuple | set) and len(h) < 1000]
    kinds = {type(h).__name__ for h in holders}
    return f" (held by a {', a '.join(sorted(kinds))})" if kinds else ""
