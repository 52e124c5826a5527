"""Primitives: what equations of jaxprs call, JAX's own and those that users define.

A primitive that JAX has is a name for a function of this library, which its `bind` calls: what a jaxpr of a program says
is what the program would say by `jax.lax`. One that a user makes is bound by `custom.bind`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from . import custom

Rule = Callable[..., Any]


class Primitive:
    """An operation with a name, bound to arguments with parameters by `bind`.

    A user defines what it computes (`def_impl`), the types of its results (`def_abstract_eval`), and its rules in the
    tables of `jax.interpreters.ad` and `batching`. `multiple_results` says that results come as a list.
    """

    multiple_results: bool = False
    call_primitive: bool = False
    map_primitive: bool = False
    function: Rule | None = None  # what computes one of JAX's own, under every transformation
    # Where `bind` takes other parameters than equations have, what makes these of those.
    bind_params: Callable[[dict[str, Any]], dict[str, Any]] | None = None

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def bind(self, *args: Any, **params: Any) -> Any:
        """Return the results for arrays `args`, under the transformations around the call."""
        if self.function is not None:
            return self.function(*args, **params)
        return custom.bind(self, args, params)

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters to call `bind` with, of those of an equation."""
        return params if self.bind_params is None else self.bind_params(params)

    def def_impl(self, impl: Rule) -> Rule:
        """Set the function that computes the results of arrays; to be used as a decorator."""
        self.impl = impl
        return impl

    def def_abstract_eval(self, abstract_eval: Rule) -> Rule:
        """Set the function from the arguments' abstract values to the results'; to be used as a decorator."""
        self.abstract_eval = lambda *avals, **params: (abstract_eval(*avals, **params), set())
        return abstract_eval

    def def_effectful_abstract_eval(self, effectful_abstract_eval: Rule) -> Rule:
        """Set a function as `def_abstract_eval` does; it returns a pair, of which the second part is a set of effects."""
        self.abstract_eval = effectful_abstract_eval
        return effectful_abstract_eval

    def impl(self, *args: Any, **params: Any) -> Any:
        """Compute the results. `NotImplementedError` until `def_impl` sets it."""
        raise NotImplementedError(f"Evaluation rule for '{self.name}' not implemented")

    def abstract_eval(self, *args: Any, **params: Any) -> Any:
        """Return the results' types and effects. `NotImplementedError` until `def_abstract_eval` sets it."""
        raise NotImplementedError(f"Abstract evaluation for '{self.name}' not implemented")


_known: dict[str, Primitive] = {}


def named(name: str) -> Primitive:
    """Return JAX's primitive of this name: always the same object."""
    if name not in _known:
        _known[name] = Primitive(name)
    return _known[name]


def define(name: str, function: Rule, multiple_results: bool = False) -> None:
    """Say what computes JAX's primitive of this name."""
    primitive = named(name)
    primitive.function, primitive.multiple_results = function, multiple_results


def names() -> Sequence[str]:
    """Return the names of JAX's primitives that something computes."""
    return [name for name, primitive in _known.items() if primitive.function is not None]
