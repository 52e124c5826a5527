"""Jaxprs: a traced function as JAX prints it. The operators are torch's (aten), the layout is JAX's."""

import operator
import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, fx

from .._core import dtypes, operators
from .._core.array import Array, as_array, tensor_of
from .._core.avals import ShapedArray, short_type_text
from .._core.graph import ClosedGraph, Graph
from .program import Program
from .remat import Operation


@dataclass(frozen=True)
class Var:
    """A value of a graph: its name in print, and its type."""

    name: str
    aval: ShapedArray

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Literal:
    """A constant argument of an operation."""

    val: Any

    def __repr__(self) -> str:
        return str(self.val)


@dataclass(frozen=True)
class Equation:
    """One operation: `primitive` has JAX's `name`, `params` holds what is no array."""

    primitive: Any
    invars: list[Any]
    outvars: list[Var]
    params: dict[str, Any]

    def __repr__(self) -> str:
        outs = " ".join(f"{v}:{short_type_text(v.aval)}" for v in self.outvars)
        params = "".join(f"{k}={v} " for k, v in self.params.items())
        return f"{outs} = {self.primitive}{f'[{params.strip()}]' if params else ''} {' '.join(map(str, self.invars))}"


class Jaxpr:
    """A graph as inputs, operations and outputs."""

    def __init__(
        self, graph: Graph, captured: int, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]
    ) -> None:
        names = _names()
        self._keys = _key_types(graph, captured, in_avals, out_avals)
        self._vars: dict[fx.Node, list[Var]] = {}
        self.eqns: list[Equation] = []
        inputs: list[Var] = []
        for node in graph.module.graph.nodes:
            if node.op == "placeholder":
                inputs += self._bind(node, names)
            elif node.op == "call_function" and node.target is operator.getitem:
                self._vars[node] = [self._vars[node.args[0]][node.args[1]]]  # pyright: ignore
            elif node.op == "call_function":
                self.eqns.append(self._equation(node, names))
        self.constvars, self.invars = inputs[:captured], inputs[captured:]
        self.outvars = [self._vars[n][0] for n in graph.module.graph.output_node().args[0]]  # pyright: ignore

    def _bind(self, node: fx.Node, names: Iterator[str]) -> list[Var]:
        value = node.meta["val"]
        tensors = [value] if isinstance(value, Tensor) else [v for v in value if isinstance(v, Tensor)]
        self._vars[node] = [Var(next(names), self._keys.get((node, i)) or _aval(t)) for i, t in enumerate(tensors)]
        return self._vars[node]

    def _equation(self, node: fx.Node, names: Iterator[str]) -> Equation:
        invars = [self._vars[a][0] if isinstance(a, fx.Node) and a in self._vars else Literal(a) for a in node.args]
        return Equation(
            Operation(operators.of(node.target).jax_name), invars, self._bind(node, names), dict(node.kwargs)
        )

    def __repr__(self) -> str:
        def declared(variables: Sequence[Var]) -> str:
            return "".join(f" {v}:{short_type_text(v.aval)}" for v in variables)

        outs = f"({', '.join(map(str, self.outvars))}{',' if len(self.outvars) == 1 else ''})"
        head = f"{{ lambda{declared(self.constvars)} ;{declared(self.invars)}. let"
        if not self.eqns:
            return f"{head}  in {outs} }}"
        body = "\n".join(f"    {e}" for e in self.eqns)
        return f"{head}\n{body}\n  in {outs} }}"


class ClosedJaxpr:
    """A `Jaxpr` with the arrays that it captured (`consts`)."""

    def __init__(self, closed: ClosedGraph, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]) -> None:
        self.jaxpr = Jaxpr(closed.graph, len(closed.captured), in_avals, out_avals)
        self.consts = [Array(t) for t in closed.captured]
        self.in_avals, self.out_avals = list(in_avals), list(out_avals)
        self.graph = closed

    eqns = property(lambda self: self.jaxpr.eqns)
    literals = property(lambda self: self.consts)

    def __repr__(self) -> str:
        return repr(self.jaxpr)


def _names() -> Iterator[str]:
    letters = string.ascii_lowercase
    count = 0
    while True:
        name, rest = letters[count % 26], count // 26
        while rest:
            rest -= 1
            name = letters[rest % 26] + name
            rest //= 26
        yield name
        count += 1


def _key_types(
    graph: Graph, captured: int, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]
) -> dict[tuple[fx.Node, int], ShapedArray]:
    """Return the types of the inputs and outputs that are keys: the graph has tensors of words in their place."""
    nodes: Any = graph.module.graph
    outputs = nodes.output_node().args[0]
    found = [(n, aval) for n, aval in zip(outputs, out_avals, strict=True)]
    found += zip([n for n in nodes.nodes if n.op == "placeholder"][captured:], in_avals, strict=False)
    places = ((n.args if n.target is operator.getitem else (n, 0), aval) for n, aval in found)
    return {place: aval for place, aval in places if isinstance(aval.dtype, dtypes.ExtendedDType)}


def _aval(tensor: Tensor) -> ShapedArray:
    aval = ShapedArray(tensor.shape, np.bool_)
    aval.dtype = dtypes.TO_NUMPY[tensor.dtype]  # torch's own indices are 64 bits wide whatever jax_enable_x64 says
    return aval


def closed_jaxpr(program: Program) -> ClosedJaxpr:
    """Return the jaxpr of a traced function."""
    out_avals = [ShapedArray(s.shape, s.dtype, s.weak_type) for s in program.out_avals]
    return ClosedJaxpr(program.closed, program.in_avals, out_avals)


def eval_jaxpr(jaxpr: Jaxpr, consts: Sequence[Any], *args: Any, propagate_source_info: bool = True) -> list[Any]:
    """Refused: a printed `Jaxpr` is a view of a graph. Call the `ClosedJaxpr`'s graph, or the function itself."""
    raise NotImplementedError(
        "jaxish jaxprs are views of torch graphs and cannot be evaluated equation by equation; "
        "use jaxish.extend.core.jaxpr_as_fun(closed_jaxpr)(*args)."
    )


def jaxpr_as_fun(closed: ClosedJaxpr) -> Callable[..., list[Array]]:
    """Return the function of a `ClosedJaxpr`: flat arrays in, a list of arrays out."""

    def run(*args: Any) -> list[Array]:
        results = closed.graph(*(tensor_of(as_array(a)) for a in args))
        return [Array(r, aval.weak_type) for r, aval in zip(results, closed.out_avals, strict=True)]

    return run
