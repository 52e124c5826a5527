"""Functions that a jaxpr shows as one equation of JAX's, although they are many of torch's operators.

While `make_jaxpr` traces, a call of a function that `shown_as` decorates becomes one node, an `Operation` with JAX's name
and parameters, and the graph of what it does beside them. Under grad and vmap its operators show: what is derived of
an operation is none of JAX's.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import config, functorch, graph
from .derived import Inline
from .dtypes import ExtendedDType
from .graph import Graph, TensorType
from .primitive import Primitive
from .target import Target


class Keys(NamedTuple):
    """The dtypes of an equation's first operand and of its results where these are random keys, given as their words."""

    taken: ExtendedDType | None = None
    made: ExtendedDType | None = None


class Operation(Inline):
    """One equation of a jaxpr: JAX's name, its parameters, and the graph that computes it."""

    __name__ = "operation"

    def __init__(self, name: str, params: dict[str, Any], body: Graph, keys: "Keys") -> None:
        super().__init__(body)
        self.name, self.params, self.keys = name, params, keys

    def equation(self) -> tuple[str, dict[str, Any]]:
        return self.name, self.params

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return self.body.out_types

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return self.body(*inputs)

    def lower(self, target: Target, *inputs: Tensor) -> list[Tensor]:
        return self.body(*inputs)

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        return Primitive.__call__(self, *inputs) if is_recorded() else self.body(*inputs)


def keeps_calls() -> bool:
    """Tell whether a jaxpr is being traced."""
    trace = graph.current_trace() if config.keeps_calls.value else None
    return trace is not None and trace.lowering is None


def is_recorded() -> bool:
    """Tell whether calls become equations here: a jaxpr is being traced, with no transformation in between."""
    return keeps_calls() and functorch.peek_interpreter_stack() is None


def shown_as(
    name: str, parameters: Callable[..., dict[str, Any] | None], keys: Callable[..., Keys] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator of functions that jaxprs show as an equation of this name.

    Such a function takes tensors, lists of tensors and numbers, and others, by position; the tensors in order are the
    equation's operands. `parameters`, called like it, gives the equation's (None: a call is not shown as one), and `keys`
    what of it are random keys.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any) -> Any:
            if not graph.tracing or not is_recorded() or (params := parameters(*args)) is None:
                return function(*args)
            return _recorded(name, params, Keys() if keys is None else keys(*args), function, args)

        return call

    return decorate


def _recorded(
    name: str, params: dict[str, Any], keys: Keys, function: Callable[..., Any], args: tuple[Any, ...]
) -> Any:
    operands: list[Tensor] = []
    several = False

    def taken(value: Any, listed: bool) -> Callable[[Sequence[Tensor]], Any]:
        if isinstance(value, list):
            parts = [taken(v, True) for v in value]
            return lambda given: [part(given) for part in parts]
        if listed and isinstance(value, int):
            value = torch.full((), value, dtype=torch.int32, device=operands[0].device)
        if not isinstance(value, Tensor):
            return lambda given: value
        operands.append(value)
        place = len(operands) - 1
        return lambda given: given[place]

    rebuilt = [taken(value, False) for value in args]

    def body(*given: Tensor) -> list[Tensor]:
        nonlocal several
        found = function(*(part(given) for part in rebuilt))
        several = not isinstance(found, Tensor)
        return list(found) if several else [found]

    operation = Operation(name, params, graph.trace(body, [TensorType.of(t) for t in operands]).graph, keys)
    results = operation(*operands)
    return results if several else results[0]
