"""Linearized functions as pytrees: what `vjp` and `linearize` return goes through jit, loops and rules, as in JAX.

A pullback that stays where it was made is torch's closure. As soon as its parts are asked for, the function is traced and cut
into a forward and a backward half: its leaves are the arguments that the backward half reads (`args_res`), and the
values that it reads besides (`opaque_residuals`).
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from .._core import derived, functorch, graph, residuals, tree
from .._core.array import Array, as_array, tensor_of
from .._core.avals import ShapedArray
from .._core.dtypes import is_inexact
from .._core.graph import Graph
from .._core.nodes import calls_for_effect
from .._core.refs import RefKind
from .._core.tree_util import register_pytree_node
from .outside import as_now, same, values_read
from .program import Call, programs_of, trace_program, types_key

Pull = Callable[[Sequence[Tensor]], Sequence[Tensor]]


@dataclass(frozen=True)
class NotNeeded:
    """Stands among the arguments for one that the derivative does not read."""


register_pytree_node(NotNeeded, lambda _: ((), ()), lambda *_: NotNeeded())


@dataclass(frozen=True)
class Ends:
    """The types of a function's arguments and results, by leaf, and their structures."""

    name: str
    in_spec: tree.Spec
    in_kinds: tuple[Any, ...]
    in_avals: tuple[ShapedArray, ...]
    out_spec: tree.Spec
    out_kinds: tuple[Any, ...]
    out_avals: tuple[ShapedArray, ...]

    @staticmethod
    def of(
        name: str, in_spec: tree.Spec, inputs: Sequence[Array], out_spec: tree.Spec, outputs: Sequence[Array]
    ) -> "Ends":
        """Return those of a call with these leaves."""
        avals = [tuple(ShapedArray(a.shape, a.dtype, a.weak_type) for a in arrays) for arrays in (inputs, outputs)]
        kinds = [tuple(a.kind for a in arrays) for arrays in (inputs, outputs)]
        return Ends(name, in_spec, kinds[0], avals[0], out_spec, kinds[1], avals[1])


@dataclass(frozen=True)
class _Backward:
    """The backward half of a function: of the arguments and other values that it reads, and cotangents."""

    body: Graph
    reads: tuple[bool, ...]  # by argument

    @staticmethod
    def of(fun: Callable[..., Any], arrays: Sequence[Array], ends: Ends) -> "tuple[_Backward, list[Array]]":
        """Return the half of `fun(*args)`, and the values besides arguments that it reads."""
        programs: dict[Any, Any] = programs_of(fun, "vjp")
        key, read = types_key(arrays, ends.in_spec), values_read(fun)
        known, program = programs.get(key, ((), None))
        if program is None or not same(known, read):
            rebuild = lambda values: (ends.in_spec.unflatten(values), {})  # noqa: E731
            program = trace_program(fun, arrays, rebuild, (), "vjp").pure("the parts of a derivative")
            if not program.is_for_this_call_only:
                programs[key] = read, program
        body, captured = program.closed.graph, list(program.closed.closure())
        wanted = [*(False for _ in captured), *map(has_tangents, ends.in_kinds, ends.in_avals)]
        forward, backward = residuals.split(body, wanted, views=False)  # of an argument: the argument is read
        inputs = [*captured, *map(tensor_of, arrays)]
        saved = Call(forward, ends.name)(*inputs)[len(body.out_types) :]
        used = [bool(n.users) for n in backward.module.graph.find_nodes(op="placeholder")[: len(inputs)]]
        make = lambda: _without_unread(backward, used, len(captured))  # noqa: E731
        kept = [t for t, u in zip(captured, used, strict=False) if u]
        reads = tuple(used[len(captured) :])
        return _Backward(derived.cached(backward, "read", make), reads), [Array(t) for t in (*kept, *saved)]


def _without_unread(backward: Graph, used: Sequence[bool], captured: int) -> Graph:
    """Return the graph of the arguments that it reads, the captured tensors that it reads, and its further inputs."""
    nodes = backward.module.graph
    placeholders = nodes.find_nodes(op="placeholder")
    read = [n for n, u in zip(placeholders, used, strict=False) if u]
    first = sum(used[:captured])
    inputs = [*read[first:], *read[:first], *placeholders[len(used) :]]
    effects = [n for n in nodes.nodes if calls_for_effect(n)]
    return derived.subgraph(backward, inputs, list(nodes.output_node().args[0]), effects)  # pyright: ignore


def has_tangents(kind: Any, aval: ShapedArray) -> bool:
    """Tell whether what has this kind and type has tangents of its own dtype."""
    return isinstance(aval.dtype, np.dtype) and is_inexact(aval.dtype) and not isinstance(kind, RefKind)


class Linearized:
    """A function's derivative at a point, of which calls make use; base class of what `vjp` and `linearize` return."""

    def __init__(self, fun: Callable[..., Any], arrays: Sequence[Array], ends: Ends, pull: Pull) -> None:
        self.ends, self.__name__ = ends, ends.name
        self._given: tuple[Callable[[], Callable[..., Any]], Sequence[Array], Pull] | None = (as_now(fun), arrays, pull)
        # torch's closure reads tensors that no trace lifts: in another trace than its own it would read those of outer
        # levels without what they wrap, and derivatives with respect to these were zero.
        self._is_bound = functorch.peek_interpreter_stack() is not None
        self._home = graph.current_trace()
        self._backward: Any = None
        self._args_res: list[Any] = []
        self._kept: list[Any] = []

    @property
    def in_tree(self) -> tree.PyTreeDef:
        """The structure of the function's arguments."""
        return tree.PyTreeDef(self.ends.in_spec)

    @property
    def out_tree(self) -> tree.PyTreeDef:
        """The structure of the function's result."""
        return tree.PyTreeDef(self.ends.out_spec)

    @property
    def _is_closure(self) -> bool:
        """Whether calls that are made here may use the closure that torch gave."""
        return self._given is not None and not (self._is_bound and graph.current_trace() is not self._home)

    def _parts(self) -> _Backward:
        if self._given is not None:
            fun, arrays, _ = self._given
            self._backward, self._kept = _Backward.of(fun(), arrays, self.ends)
            leaves = [a if read else NotNeeded() for a, read in zip(arrays, self._backward.reads, strict=True)]
            self._args_res = list(self.ends.in_spec.unflatten(leaves))
            self._given = None
        return self._backward

    @property
    def args_res(self) -> list[Any]:
        """The arguments, as far as the derivative reads them; others may be put in their places."""
        self._parts()
        return self._args_res

    @args_res.setter
    def args_res(self, value: Sequence[Any]) -> None:
        self._parts()
        self._args_res = list(value)

    @property
    def opaque_residuals(self) -> list[Any]:
        """The values that the derivative reads besides arguments."""
        self._parts()
        return self._kept

    @property
    def pull(self) -> Pull:
        """The function from cotangents of the results, in torch's convention, to those of the arguments."""
        if self._given is not None:
            return self._given[2] if self._is_closure else self._of_this_trace().pull
        backward = self._parts()
        leaves = tree.flatten(tuple(self._args_res), is_leaf=lambda x: isinstance(x, NotNeeded))[0]
        if len(leaves) != len(backward.reads):
            raise IndexError(  # as JAX does
                f"args_res of {self.__name__} are to have the structure of its arguments, {self.ends.in_spec}, where the "
                f"derivative reads them; got {self._args_res}. Put arguments where others were taken out."
            )
        leaves = [x for x, read in zip(leaves, backward.reads, strict=True) if read]
        inputs = [tensor_of(as_array(x)) for x in (*leaves, *self._kept)]
        return lambda cotangents: Call(backward.body, self.__name__)(*inputs, *cotangents)

    def _of_this_trace(self) -> "Linearized":
        found = copy.copy(self)
        found._parts()  # what it keeps belongs to this trace
        return found


def register(kind: type[Linearized]) -> None:
    """Make the instances of a subclass pytrees."""

    def flatten(x: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        backward = x._parts()
        return (x._args_res, x._kept), (x.ends, backward)

    def unflatten(parts: tuple[Any, ...], children: Sequence[Any]) -> Any:
        found = object.__new__(kind)
        found.ends, found._backward = parts
        found.__name__ = found.ends.name
        found._given = None
        found._args_res, found._kept = children
        return found

    register_pytree_node(kind, flatten, unflatten)
