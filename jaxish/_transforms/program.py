"""Programs: functions on pytrees of arrays as graphs, traced once per signature, and calls of them.

jit, loops, branches, custom rules and checkpoint all trace by `trace_program`. What running a program means depends on
where the call stands: on plain tensors the graph's executable runs; under grad, vmap or jvp the graph becomes a
structured primitive (`Call`), whose derived graphs are compiled too; inside another trace the graph is inlined.
"""

import functools
import logging
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from torch import Tensor, fx

from .._compile import executable
from .._core import axes, config, derived, functorch, graph, monitoring, residuals, tree
from .._core.array import Array, as_array, from_kind, number, tensor_of
from .._core.avals import ShapedArray, ShapeDtypeStruct
from .._core.cells import unaffected
from .._core.graph import ClosedGraph, Graph, TensorType
from .._core.levels import unwrap_dead
from .._core.primitive import Dims, Primitive, popped_axis
from .._core.refs import Ref, RefArgument
from .._devices import laid
from .._devices.sharding_rules import choosing
from . import leaks
from .flat import FlatFunction, Rebuild, arrays_from, name_of

_log = logging.getLogger("jaxish")


class Call(Primitive):
    """A call of a compiled graph. Its rules compile the derived graphs; inside a trace it is inlined."""

    __name__ = "jit"

    rules = ("name",)

    def __init__(self, body: Graph, name: str = "") -> None:
        self.body, self.name = body, name

    def _of(self, body: Graph) -> "Call":
        return Call(body, self.name)

    def equation(self) -> tuple[str, dict[str, Any]] | None:
        return "jit", {
            "name": self.name, "jaxpr": self.body, "donated_invars": (False,) * len(self.body.in_types),
            "inline": False, "keep_unused": False,
        }  # fmt: skip

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return self.body.out_types

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return list(executable.of(self.body).run(*inputs))

    def reached(self, changed: set[int]) -> set[int]:
        return derived.reached(self.body, changed)

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        body, out_dims = derived.mapped(self.body, dims, size, popped_axis())
        return self._of(body)(*inputs), out_dims

    def pushed(
        self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]
    ) -> tuple[Sequence[Tensor], Sequence[Tensor | None]]:
        return derived.pushed_rule(self.body, self._of, primals, tangents)

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        if graph.is_tracing() and not config.keeps_calls.value:
            with choosing():  # how operands lie was looked at when the body was traced
                return self.body(*inputs)
        results = residuals.differentiated(self.body, inputs, self._of)
        return super().__call__(*inputs) if results is None else results


@dataclass(frozen=True)
class Uses:
    """What a graph has besides its function's arguments and results for references (`_core/cells.py`).

    A reference is one that the function closes over, or the position of an argument. `borrowed` are captured inputs, for
    which each call gives what the reference holds ("value") or is reached by ("handle"); `written` are those whose last
    values are further results. `names` are the arguments' names.
    """

    borrowed: dict[int, tuple[Ref | int, str]]
    written: tuple[Ref | int, ...]
    names: Sequence[str]

    @property
    def closed_over(self) -> set[Ref]:
        """The references that the function closes over."""
        return {r for r in (*(r for r, _ in self.borrowed.values()), *self.written) if isinstance(r, Ref)}


@dataclass(eq=False)
class Program:
    """A function traced for one signature: its graph, and how to make its result of the graph's.

    `taken` are the positions of the arguments that calls take over, of those that are donated.
    """

    closed: ClosedGraph
    out_spec: tree.Spec
    out_kinds: tuple[Any, ...]
    in_avals: tuple[ShapedArray, ...]
    name: str
    uses: Uses | None = None
    taken: tuple[int, ...] = ()

    @functools.cached_property
    def _captured(self) -> tuple[Tensor, ...]:
        return tuple(laid.plain(unwrap_dead(t)) for t in self.closed.captured)  # compiled code reads their memory

    def __call__(self, tensors: Sequence[Tensor]) -> Any:
        """Return the function's result for the tensors of its array arguments."""
        if self.uses is not None:
            return self._with_references(tensors, ())
        closed = self.closed
        if functorch.peek_interpreter_stack() is None and not graph.tracing:
            results = executable.of(closed.graph, self._donated).run(*self._captured, *tensors)
        else:
            results = Call(closed.graph, self.name)(*closed.closure(), *tensors)
        if len(results) == 1 and self.out_kinds[0] is False and self.out_spec.is_leaf():
            return Array(results[0])
        return self.out_spec.unflatten(map(from_kind, results, self.out_kinds))

    @functools.cached_property
    def _donated(self) -> tuple[int, ...]:
        return () if self.uses is not None else tuple(len(self.closed.captured) + i for i in self.taken)

    @property
    def executable(self) -> executable.Executable:
        """What runs the graph."""
        return executable.of(self.closed.graph, self._donated)

    @property
    def arguments(self) -> list[fx.Node]:
        """The nodes of the graph that stand for the arguments."""
        return self.closed.graph.module.graph.find_nodes(op="placeholder")[len(self.closed.captured) :]

    @property
    def written(self) -> tuple[int, ...]:
        """The positions of the arguments that compiled code writes into."""
        return tuple(i - len(self.closed.captured) for i in self.executable.written)

    def writable(self, tensors: Sequence[Tensor]) -> AbstractContextManager[None]:
        """Return the context of a call that takes over some of its arguments: compiled code may write into these."""
        return self.executable.writing(len(self.closed.captured), tensors)

    # -- references ----------------------------------------------------------------------------------------------

    def on(self, arrays: Sequence[Array]) -> Any:
        """Return the function's result for its array arguments, references among them."""
        tensors = [tensor_of(a) for a in arrays]
        if laid.in_use and graph.is_plain_evaluation():
            tensors = [*map(laid.plain, tensors)]
        return self(tensors) if self.uses is None else self._with_references(tensors, arrays)

    def _with_references(self, tensors: Sequence[Tensor], arrays: Sequence[Array]) -> Any:
        inputs, body = [*self.closure(arrays), *tensors], self.closed.graph
        plain = functorch.peek_interpreter_stack() is None and not graph.tracing
        results = executable.of(body).run(*inputs) if plain else Call(body, self.name)(*inputs)
        return self.out_spec.unflatten(map(from_kind, self.settled(results, arrays, inputs), self.out_kinds))

    def closure(self, arrays: Sequence[Array] = (), handles: Mapping[int, Tensor] | None = None) -> list[Tensor]:
        """Return the captured tensors as the current trace sees them, and what references hold now.

        `handles` are those of references among the arguments, by position, where they are known.
        Raises `ValueError` where the function closes over a reference that is an argument too.
        """
        if self.uses is None:
            return list(self.closed.closure())
        closed_over = self.uses.closed_over
        for position, array in enumerate(arrays):
            if type(array) is RefArgument and array.ref in closed_over:
                raise ValueError(
                    f"when tracing {self.name}, a mutable array reference of type {array.ref.aval} was both closed over and "
                    f"passed as the argument {self.uses.names[position] if self.uses.names else position}"
                )
        found = []
        for position, tensor in enumerate(self.closed.captured):
            source, what = self.uses.borrowed.get(position, (None, ""))
            if source is None:
                found.append(graph.lift(tensor))
            elif handles is not None and isinstance(source, int):
                found.append(handles[source])
            else:
                ref = reference(source, arrays)
                found.append(tensor_of(ref._read()) if what == "value" else ref.given_away())
        return found

    def settled(self, results: Sequence[Tensor], arrays: Sequence[Array], inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        """Write into references what the graph's further results say, and return the function's own results."""
        if self.uses is None:
            return results
        count = len(self.out_kinds)
        for position, source in enumerate(self.uses.written, count):
            reference(source, arrays)._take_back(
                results[position], unaffected(Call(self.closed.graph).reached, position, inputs)
            )
        return results[:count]

    def pure(self, what: str) -> "Program":
        """Return this program. Raises `NotImplementedError` where the function closes over or writes a reference."""
        if self.uses is not None:
            raise NotImplementedError(
                f"{what} of a function that closes over or writes a mutable array reference is not supported; read it "
                "outside, and return what is to be written."
            )
        return self

    @property
    def is_for_this_call_only(self) -> bool:
        """Whether the function closes over something that belongs to a transformation that is going on."""
        if self.closed.captures_tracers:
            return True
        return self.uses is not None and any(r._home is not None or r._level for r in self.uses.closed_over)

    @property
    def out_avals(self) -> list[ShapeDtypeStruct]:
        """The types of the results' leaves."""
        nodes: Any = self.closed.graph.module.graph.output_node().args[0]
        nodes = nodes[: len(self.out_kinds)]
        handles = arrays_from([node.meta["val"] for node in nodes], self.out_kinds)  # pyright: ignore
        shardings = [getattr(kind, "sharding_of_type", None) for kind in self.out_kinds]
        pairs = zip(handles, shardings, strict=True)
        weak = (getattr(h, "weak_type", False) for h in handles)  # float0 arrays are NumPy's
        return [
            ShapeDtypeStruct(h.shape, h.dtype, weak_type=w, sharding=s) for (h, s), w in zip(pairs, weak, strict=True)
        ]


def reference(source: Ref | int, arrays: Sequence[Array]) -> Ref:
    """Return the reference that a program's `Uses` mean, for these arguments."""
    if isinstance(source, Ref):
        return source
    argument = arrays[source]
    assert isinstance(argument, RefArgument)
    return argument.ref


class Watcher(Protocol):
    """What looks on while functions are traced, and may put another program in the place of what came of it."""

    def saw(self, tensors: Sequence[Tensor], results: Sequence[Array]) -> None:
        """Take the stand-ins of the inputs and the results, at the end of the trace."""

    def finished(self, program: Program, arrays: Sequence[Array], transformation: str) -> Program:
        """Return the program to use, traced for `arrays` by a transformation of this name."""
        ...


# Asked at the start of each trace; None: not this time.
watchers: list[Callable[[], Watcher | None]] = []


def trace_program(
    fun: Callable[..., Any], arrays: Sequence[Array], rebuild: Rebuild,
    names: Sequence[str] = (), transformation: str = "jit",
) -> Program:  # fmt: skip
    """Trace `fun` on abstract values of the types of `arrays`; `rebuild` makes its arguments of them."""
    with leaks.checked("DynamicJaxprTrace", fun):
        return _traced(fun, arrays, rebuild, names, transformation)


def _traced(
    fun: Callable[..., Any], arrays: Sequence[Array], rebuild: Rebuild, names: Sequence[str], transformation: str
) -> Program:
    flat = FlatFunction(fun, [a.kind for a in arrays], rebuild)
    watching = [w for w in (watcher() for watcher in watchers) if w is not None]
    used: list[Uses] = []

    def watched(*tensors: Tensor) -> list[Tensor]:
        laid.say_of(tensors, arrays)
        results = flat(*tensors)
        for watcher in watching:
            watcher.saw(tensors, flat.output.arrays)
        trace = graph.current_trace()
        assert trace is not None
        written = {ref: stand_in for ref, stand_in in trace.stand_ins.items() if stand_in._written}
        if flat.written or trace.borrowed or written:
            position: dict[Any, Ref | int] = {x: i for i, x in enumerate(flat.given) if isinstance(x, Ref)}
            borrowed: dict[int, tuple[Ref | int, str]] = {
                i: (position.setdefault(ref, ref), what) for i, (ref, what) in trace.borrowed.items()
            }
            used.append(Uses(borrowed, (*flat.written, *written), names))
        return [*results, *(tensor_of(stand_in._array) for stand_in in written.values())]

    types = [TensorType.of(a._tensor) for a in arrays]
    with monitoring.timed(monitoring.TRACE, fun_name=name_of(fun)) as timer:
        closed = graph.trace(
            watched, types, purpose=f"the function {name_of(fun)} for {transformation}", names=names, captures=True
        )
    closed.graph.cache["name"] = name_of(fun)
    in_avals = tuple(ShapedArray(a.shape, a.dtype, a.weak_type) for a in arrays)
    level = logging.WARNING if config.log_compiles.value else logging.DEBUG
    _log.log(level, "Finished tracing %s for %s in %.9f sec", name_of(fun), transformation, timer.seconds)
    if transformation == "jit":
        _log.log(level, "Compiling jit(%s) with global shapes and types %s.", name_of(fun), in_avals)
    uses = used[0] if used else None
    program = Program(closed, flat.output.spec, tuple(flat.output.kinds), in_avals, name_of(fun), uses)
    if config.enable_checks.value:
        closed.graph.module.graph.lint()
    for watcher in watching:
        program = watcher.finished(program, arrays, transformation)
    return program


_SIMPLE = (Array, int, float, complex, np.ndarray, np.generic)  # arguments that are arrays, whatever the function
_NUMBERS = frozenset({bool, int, float, complex})


def keyed(leaves: Sequence[Any], spec: tree.Spec) -> tuple[tuple[Any, ...], list[Tensor]] | None:
    """Return what a trace depends on besides the function, and the leaves' tensors; None where a leaf is no array.

    That is types, structure, configuration and bound axis names. A cached call of a jitted function spends half of its
    time here. Raises what `as_array` does.
    """
    key: list[Any] = [spec, config.state()]
    tensors = []
    for x in leaves:
        if type(x) is Array:
            kind = x._weak
        elif type(x) in _NUMBERS:
            x = number(x)
            kind = x._weak
        elif isinstance(x, _SIMPLE):
            x = as_array(x)
            kind = x.kind
        else:
            return None
        tensor = x._tensor
        tensors.append(tensor)
        key += (tensor.shape, tensor.dtype, kind, tensor.device)
    if environment := axes.environment():
        key.append(environment)
    if laid.in_use and laid.may_say(tensors):
        key.append(tuple(map(laid.sharding_of, tensors)))
        tensors = [*map(laid.plain, tensors)]
    return tuple(key), tensors


def types_key(arrays: Sequence[Array], spec: tree.Spec) -> tuple[Any, ...]:
    """Return what a trace for these arrays depends on besides the function."""
    found = keyed(arrays, spec)
    assert found is not None
    return found[0]


# ------------------------------------------------------------------------------------------------------------ caches

_caches: "weakref.WeakKeyDictionary[Any, dict[Any, dict[Any, Program]]]" = weakref.WeakKeyDictionary()


def programs_of(fun: Callable[..., Any], options: Hashable) -> dict[Any, Program]:
    """Return the programs of a function by types: two jits (or scans, ...) of one function share them, as in JAX."""
    try:
        return _caches.setdefault(fun, {}).setdefault(options, {})
    except TypeError:  # no weak references, or not hashable
        return {}


def clear_caches() -> None:
    """Forget all traced programs and their compiled code."""
    for programs in _caches.values():
        for by_types in programs.values():
            by_types.clear()
