"""Names for what a profile shows: annotations of blocks and of functions.

torch's profiler knows an annotation by its name alone. While a profile is being taken the name carries a number, under
which the annotation's metadata wait for the profile to be written (`take`).
"""

import functools
import itertools
import re
from collections.abc import Callable
from typing import Any

import torch

from .._core import functorch, graph
from .._transforms.flat import name_of

_numbers = itertools.count()
_taking: dict[int, dict[str, Any]] | None = None
_NUMBERED = re.compile(r"(.*)#(\d+)#", re.DOTALL)


def start() -> None:
    """Keep the annotations' metadata from now on."""
    global _taking
    _taking = {}


def take() -> Callable[[str], tuple[str, dict[str, Any]]]:
    """Keep no more metadata; return a function from the names that torch has to annotations' names and metadata."""
    global _taking
    kept, _taking = _taking or {}, None

    def parted(name: str) -> tuple[str, dict[str, Any]]:
        found = _NUMBERED.fullmatch(name)
        metadata = kept.get(int(found[2])) if found else None
        return (name, {}) if found is None or metadata is None else (found[1], metadata)

    return parted


class TraceAnnotation:
    """A context manager by whose name a profile lists the block; keywords become the event's statistics.

    Within a function that is being traced it does nothing: the block runs once, and what it records runs elsewhere.
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        self._name, self._metadata, self._recording = name, dict(kwargs), None

    def __enter__(self) -> "TraceAnnotation":
        if not graph.is_tracing() and functorch.peek_interpreter_stack() is None:
            name = self._name
            if _taking is not None:
                number = next(_numbers)
                _taking[number] = self._metadata
                name = f"{name}#{number}#"
            self._recording = torch.profiler.record_function(name)
            self._recording.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._recording is not None:
            self._recording.__exit__(*exception)
            self._recording = None

    def set_metadata(self, **kwargs: Any) -> None:
        """Add statistics to the event."""
        self._metadata.update(kwargs)

    @staticmethod
    def is_enabled() -> bool:
        """Tell whether a profile is being taken."""
        return _taking is not None


class StepTraceAnnotation(TraceAnnotation):
    """A `TraceAnnotation` of one step of a training loop: `StepTraceAnnotation("train", step_num=step)`."""

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__(name, _r=1, **kwargs)


def annotate_function(func: Callable[..., Any], name: str | None = None, **decorator_kwargs: Any) -> Callable[..., Any]:
    """Return `func`, each call of it in a `TraceAnnotation` of this name, by default of its own."""
    label = name or getattr(func, "__qualname__", None) or name_of(func)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with TraceAnnotation(label, **decorator_kwargs):
            return func(*args, **kwargs)

    return wrapper
