"""Functions that JAX has jitted: jaxprs show calls of them so."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from .._core import graph
from .._core.operations import keeps_calls
from .jit import jit

P = ParamSpec("P")
R = TypeVar("R")


def shown_as_jit(*static: str, name: str = "") -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator of functions whose calls `make_jaxpr` shows as calls of jit; the `static` arguments are no operands.

    `name` is how JAX calls the function there, where that is not its own name. Everywhere else it is called as it is.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.cache
        def jitted() -> Callable[P, R]:
            @functools.wraps(function)
            def named(*args: P.args, **kwargs: P.kwargs) -> R:
                return function(*args, **kwargs)

            named.__name__ = name or function.__name__
            return jit(named, static_argnames=static)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return jitted()(*args, **kwargs) if graph.tracing and keeps_calls() else function(*args, **kwargs)

        return call

    return decorate
