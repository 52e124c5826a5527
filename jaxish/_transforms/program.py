"""Programs: functions on pytrees of arrays as graphs, traced once per signature, and calls of them.

jit, loops, branches, custom rules and checkpoint all trace by `trace_program`. What running a program means depends on
where the call stands: on plain tensors the graph's executable runs; under grad, vmap or jvp the graph becomes a
structured primitive (`Call`), whose derived graphs are compiled too; inside another trace the graph is inlined.
"""

import logging
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from .._compile import executable
from .._core import axes, config, derived, functorch, graph, monitoring, residuals, tree
from .._core.array import Array, as_array, from_kind
from .._core.avals import ShapedArray, ShapeDtypeStruct
from .._core.graph import ClosedGraph, Graph, TensorType
from .._core.primitive import Dims, Primitive, popped_axis
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

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        results = self._of(derived.batched(self.body, dims, size, popped_axis()))(*inputs)
        return results, [0] * len(results)

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        return derived.jvp_rule(self.body, self._of, primals, tangents)

    def vjp(self, primals: Any, results: Any, cotangents: Any) -> Sequence[Tensor | None]:
        return derived.vjp_rule(self.body, self._of, primals, results, cotangents)

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        if graph.is_tracing() and not config.keeps_calls.value:
            return self.body(*inputs)
        results = residuals.differentiated(self.body, inputs, self._of)
        return super().__call__(*inputs) if results is None else results


@dataclass(eq=False)
class Program:
    """A function traced for one signature: its graph, and how to make its result of the graph's."""

    closed: ClosedGraph
    out_spec: tree.Spec
    out_kinds: tuple[Any, ...]
    in_avals: tuple[ShapedArray, ...]
    name: str

    def __call__(self, tensors: Sequence[Tensor]) -> Any:
        """Return the function's result for the tensors of its array arguments."""
        closed = self.closed
        if functorch.peek_interpreter_stack() is None and not graph.tracing:
            results = executable.of(closed.graph).run(*closed.captured, *tensors)
        else:
            results = Call(closed.graph, self.name)(*closed.closure(), *tensors)
        if len(results) == 1 and self.out_kinds[0] is False and self.out_spec.is_leaf():
            return Array(results[0])
        return self.out_spec.unflatten(map(from_kind, results, self.out_kinds))

    @property
    def out_avals(self) -> list[ShapeDtypeStruct]:
        """The types of the results' leaves."""
        nodes = self.closed.graph.module.graph.output_node().args[0]
        handles = arrays_from([node.meta["val"] for node in nodes], self.out_kinds)  # pyright: ignore
        shardings = [getattr(kind, "sharding", None) for kind in self.out_kinds]
        pairs = zip(handles, shardings, strict=True)
        return [ShapeDtypeStruct(h.shape, h.dtype, weak_type=h.weak_type, sharding=s) for h, s in pairs]


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
    with leaks.checked("DynamicJaxprTrace", f"{name_of(fun)} for {transformation}"):
        return _traced(fun, arrays, rebuild, names, transformation)


def _traced(
    fun: Callable[..., Any], arrays: Sequence[Array], rebuild: Rebuild, names: Sequence[str], transformation: str
) -> Program:
    flat = FlatFunction(fun, [a.kind for a in arrays], rebuild)
    watching = [w for w in (watcher() for watcher in watchers) if w is not None]

    def watched(*tensors: Tensor) -> list[Tensor]:
        results = flat(*tensors)
        for watcher in watching:
            watcher.saw(tensors, flat.output.arrays)
        return results

    types = [TensorType.of(a._tensor) for a in arrays]
    with monitoring.timed(monitoring.TRACE, fun_name=name_of(fun)) as timer:
        closed = graph.trace(
            watched, types, purpose=f"the function {name_of(fun)} for {transformation}", names=names, captures=True
        )
    if config.log_compiles.value:
        _log.warning("Finished tracing %s for %s in %.3f s", name_of(fun), transformation, timer.seconds)
    in_avals = tuple(ShapedArray(a.shape, a.dtype, a.weak_type) for a in arrays)
    program = Program(closed, flat.output.spec, tuple(flat.output.kinds), in_avals, name_of(fun))
    if config.enable_checks.value:
        closed.graph.module.graph.lint()
    for watcher in watching:
        program = watcher.finished(program, arrays, transformation)
    return program


_SIMPLE = (Array, int, float, complex)  # arguments that are arrays, whatever the function


def keyed(leaves: Sequence[Any], spec: tree.Spec) -> tuple[tuple[Any, ...], list[Tensor]] | None:
    """Return what a trace depends on besides the function, and the leaves' tensors; None where a leaf is no array.

    That is types, structure, configuration and bound axis names. A cached call of a jitted function spends half of its
    time here.
    """
    key: list[Any] = [spec, config.state()]
    tensors = []
    for x in leaves:
        kind = None
        if type(x) is not Array:
            if not isinstance(x, _SIMPLE):
                return None
            x = as_array(x)
            kind = x.kind
        tensor = x._tensor
        tensors.append(tensor)
        key += (tensor.shape, tensor.dtype, x._weak if kind is None else kind, tensor.device)
    if environment := axes.environment():
        key.append(environment)
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
