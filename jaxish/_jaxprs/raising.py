"""Graphs as jaxprs: torch's operators in JAX's vocabulary.

Each node of a graph becomes the equations that a rule (`operators.RULES`) writes for its operator. What JAX has no word
for keeps torch's name, and its arguments that are no arrays as parameters. A structured primitive says itself which
equation it is (`Primitive.equation`); graphs among its parameters become jaxprs.
"""

import functools
import operator
from collections.abc import Sequence
from typing import Any

from torch import Tensor, fx

from .._core import dtypes, graph
from .._core import operators as torch_operators
from .._core import primitive as structured
from .._core.array import Array, as_array, default_torch_device, is_weak, tensor_of
from .._core.avals import ShapedArray
from .._core.graph import ClosedGraph, Graph, TensorType
from .._core.operations import Keys, Operation
from .ir import Atom, ClosedJaxpr, DebugInfo, DropVar, Jaxpr, JaxprEqn, Literal, Var, eval_jaxpr
from .operands import aligned, as_laid, aval_of, converted, expanded, literal
from .operators import aten, reshaped, rule_for
from .primitive import Primitive, named


def closed_jaxpr(
    closed: ClosedGraph, in_avals: Sequence[ShapedArray], out_avals: Sequence[Any], name: str = "<unknown>"
) -> ClosedJaxpr:
    """Return the jaxpr of a graph and the tensors that it captured; the avals tell keys and weak types."""
    jaxpr = _Raising(closed.graph, len(closed.captured), in_avals, out_avals).jaxpr(name)
    return ClosedJaxpr(jaxpr, [Array(t) for t in closed.captured])


def jaxpr_of(body: Graph, name: str = "<unknown>") -> ClosedJaxpr:
    """Return the jaxpr of a graph that captures nothing: always the same one."""
    if "jaxpr" not in body.cache:
        body.cache["jaxpr"] = ClosedJaxpr(_Raising(body, 0, (), ()).jaxpr(name), [], body)
    return body.cache["jaxpr"]


class _Raising:
    """The equations of one graph; rules write them by `emit`."""

    def __init__(self, body: Graph, captured: int, in_avals: Sequence[ShapedArray], out_avals: Sequence[Any]) -> None:
        self.eqns: list[JaxprEqn] = []
        self.marks: list[Var] = []  # results of users' primitives
        self.ranges: dict[Var, tuple[int, int]] = {}  # the first number and the step of what counts
        self._writers: dict[Var, JaxprEqn] = {}
        self.values: dict[fx.Node, Any] = {}
        nodes = body.module.graph
        inputs = [n for n in nodes.nodes if n.op == "placeholder"]
        given = [*(None for _ in range(captured)), *in_avals] if in_avals else [None] * len(inputs)
        triples = zip(inputs, body.in_types, given, strict=True)
        variables = [
            self._input(node, ShapedArray(t.shape, dtypes.TO_NUMPY[t.dtype]), known) for node, t, known in triples
        ]
        self.constvars, self.invars = variables[:captured], variables[captured:]
        for node in nodes.nodes:
            if node.op == "call_function":
                self.values[node] = self._raised(node)
            elif node.op == "get_attr":
                raise AssertionError(f"a traced graph has no attributes: {node}")
        results = [self.values[n] for n in nodes.output_node().args[0]]  # pyright: ignore
        known = [*out_avals, *[None] * (len(results) - len(out_avals))]  # what references hold comes last
        self.outvars = [self._output(*pair) for pair in zip(results, known, strict=True)]

    def jaxpr(self, name: str) -> Jaxpr:
        """Return the jaxpr, without the equations whose results nothing reads, but for those of users' primitives."""
        live, kept = {*self.outvars, *self.marks}, []
        for eqn in reversed(self.eqns):
            if eqn.effects or not live.isdisjoint(eqn.outvars):
                kept.append(eqn)
                live.update(eqn.invars)
        effects = set().union(*(e.effects for e in kept))
        return Jaxpr(self.constvars, self.invars, self.outvars, kept[::-1], effects, DebugInfo("jit", name))

    def _input(self, node: fx.Node, type: ShapedArray, known: ShapedArray | None) -> Var:
        is_key = known is not None and isinstance(known.dtype, dtypes.ExtendedDType)
        value = None if is_key else node.meta.get("val")  # what a graph ignores (`derived.placed`) has none
        variable = Var((known or type) if value is None else as_laid(known or type, value))
        self.values[node] = self.emit("random_unwrap", [variable], {}, type) if is_key else variable
        return variable

    def _output(self, atom: Atom, known: Any) -> Atom:
        if known is not None and isinstance(known.dtype, dtypes.ExtendedDType):
            return self._key(atom, known.dtype)
        if known is None or not isinstance(atom.aval, ShapedArray) or atom.aval.weak_type == known.weak_type:
            return atom
        if isinstance(atom, Literal):
            return literal(atom.val, known.dtype, known.weak_type)
        atom.aval = atom.aval.update(weak_type=known.weak_type)
        return atom

    def _raised(self, node: fx.Node) -> Any:
        if node.target is operator.getitem:
            return self.values[node.args[0]][node.args[1]]  # pyright: ignore
        if isinstance(node.target, structured.Primitive):
            return self._structured(node, node.target)
        if _functional(node.target) is not None:
            return self._written(node)
        return self._operator(node.target, node)

    def _operator(self, target: Any, node: fx.Node) -> Any:
        args, kwargs = fx.map_arg((node.args, node.kwargs), self.values.__getitem__)  # pyright: ignore
        rule, value = rule_for(target), node.meta["val"]
        type = aval_of(value) if isinstance(value, Tensor) else [None if t is None else aval_of(t) for t in value]
        found = None if rule is None else rule(self, type, *args, **kwargs)
        if found is None:
            return self._torch_operator(target, type, args, kwargs)
        is_var = isinstance(found, Var) and isinstance(type, ShapedArray) and found.aval.shape == type.shape
        if is_var and self.writer_of(found) is not None:
            found.aval = as_laid(found.aval, value)
        return found

    def _written(self, node: fx.Node) -> Atom:
        """Return the result of an operator that writes into its first argument, and let that stand for the argument."""
        target: Any = node.args[0]
        if node.target is aten.copy_.default:
            source = self.values[node.args[1]]  # pyright: ignore
            found = expanded(
                self, converted(self, source, dtypes.TO_NUMPY[node.meta["val"].dtype]), tuple(node.meta["val"].shape)
            )
        else:
            found = self._operator(_functional(node.target), node)
        self._rebind(target, found)
        return found

    def _rebind(self, node: fx.Node, value: Atom) -> None:
        """Let `value` stand for what is in the memory of `node` from here on, in all views of that memory."""
        self.values[node] = value
        if not torch_operators.of(node.target).is_view:
            self._refresh(node)
            return
        base, *args = node.args
        write = _WRITES.get(getattr(node.target, "overloadpacket", node.target))  # pyright: ignore
        if write is None:
            raise NotImplementedError(f"a jaxpr of a function that writes through {node.target} is not supported")
        old: Atom = self.values[base]  # pyright: ignore
        self._rebind(base, write(self, old.aval, old, value, *args))  # pyright: ignore

    def _refresh(self, node: fx.Node) -> None:
        for user in node.users:
            if user in self.values and torch_operators.of(user.target).is_view:
                self.values[user] = self._operator(user.target, user)
                self._refresh(user)

    def _structured(self, node: fx.Node, target: structured.Primitive) -> list[Var]:
        found = target.equation()
        if found is None:
            primitive, params = _unnamed(target.__name__), {"operation": target}
        else:
            name, given = found
            primitive = name if isinstance(name, Primitive) else named(name)
            params = {k: _with_jaxprs(v, given.get("name", str(name))) for k, v in given.items()}
        outvars = [Var(aval_of(t)) for t in node.meta["val"]]
        invars: list[Atom] = [self.values[n] for n in node.args]  # pyright: ignore
        if target.is_elementwise:
            invars = aligned(self, invars)
        keys = target.keys if isinstance(target, Operation) else Keys()
        if keys.taken is not None:
            invars[0] = self._key(invars[0], keys.taken)
        words = [v.aval for v in outvars]
        if keys.made is not None:
            outvars = [Var(_of_keys(aval, keys.made)) for aval in words]
        self._append(JaxprEqn(invars, outvars, primitive, params, {target} if target.has_effect else set()))
        if target.is_users:
            self.marks.extend(outvars)
        if keys.made is None:
            return outvars
        return [self.emit("random_unwrap", [v], {}, aval) for v, aval in zip(outvars, words, strict=True)]

    def _key(self, words: Atom, dtype: dtypes.ExtendedDType) -> Atom:
        """Return the keys of these words: those that the words were made of, where they were."""
        made = self.writer_of(words)
        if made is not None and made.primitive.name == "random_unwrap":
            return made.invars[0]
        return self.emit("random_wrap", [words], {"impl": dtype.impl}, _of_keys(words.aval, dtype))

    def _torch_operator(self, target: Any, type: Any, args: Any, kwargs: Any) -> Any:
        """Write a node as a call of torch's operator itself."""
        atoms: list[Atom] = []

        def place(value: Any) -> Any:
            if not isinstance(value, Var | Literal):
                return value
            atoms.append(value)
            return OPERAND

        schema: Any = target._schema.arguments
        given = {a.name: _mapped(place, value) for a, value in zip(schema, args, strict=False)}
        given |= {name: _mapped(place, value) for name, value in kwargs.items()}
        required = {a.name for a in schema if not a.has_default_value()}
        params = {k: v for k, v in given.items() if v is not OPERAND or k not in required}
        several = isinstance(type, list)
        outvars = [DropVar(_NOTHING) if t is None else Var(t) for t in (type if several else [type])]
        self._append(JaxprEqn(atoms, outvars, _torch_primitive(target), params))
        return outvars if several else outvars[0]

    # ------------------------------------------------------------------------------------------- what rules write with

    def emit(self, name: str, invars: Sequence[Atom], params: dict[str, Any], type: ShapedArray) -> Var:
        """Append an equation with one result of this type, and return that."""
        return self.emit_several(name, invars, params, [type])[0]

    def emit_several(
        self, name: str, invars: Sequence[Atom], params: dict[str, Any], types: Sequence[ShapedArray]
    ) -> list[Var]:
        """Append an equation with results of these types, which are weak where all operands are, and return them."""
        if name not in _STRONG and invars and all(is_weak(x.aval) for x in invars[name == "select_n" :]):
            types = [t.update(weak_type=True) for t in types]
        else:
            invars = [literal(x.val, x.aval.dtype) if isinstance(x, Literal) and is_weak(x.aval) else x for x in invars]
        outvars = [Var(type) for type in types]
        self._append(JaxprEqn(list(invars), outvars, named(name), params))
        return outvars

    def writer_of(self, atom: Atom) -> JaxprEqn | None:
        """Return the equation that made `atom`, if one did."""
        return self._writers.get(atom) if isinstance(atom, Var) else None

    def _append(self, eqn: JaxprEqn) -> None:
        self.eqns.append(eqn)
        self._writers.update(dict.fromkeys(eqn.outvars, eqn))


# What gives strong types, or those of its parameters, whatever its operands are.
_STRONG = frozenset(
    [
        "argmax",
        "argmin",
        "bitcast_convert_type",
        "convert_element_type",
        "reduce_and",
        "reduce_or",
        "reduce_xor",
        "random_bits",
        "random_fold_in",
        "random_seed",
        "random_split",
        "random_unwrap",
        "random_wrap",
    ]
)


# What puts the new value of a view into that of its memory.
_WRITES = {
    aten.slice: rule_for(aten.slice_scatter.default),
    aten.select: rule_for(aten.select_scatter.default),
    **dict.fromkeys(
        (aten.reshape, aten.view, aten.alias, aten.detach, aten.unsqueeze, aten.squeeze),
        lambda r, type, old, value, *_: reshaped(r, type, value),
    ),
    aten.diagonal: lambda r, type, old, value, *args: r._torch_operator(
        aten.diagonal_scatter.default, type, [old, value, *args], {}
    ),
}


@functools.cache
def _functional(target: Any) -> Any:
    """Return the operator that returns what `target` writes into its first argument; None where it writes nothing."""
    name = getattr(target, "_schema", None) and target._schema.name.rpartition("::")[2]
    if not name or not target._schema.is_mutable or not name.endswith("_"):
        return None
    return getattr(getattr(aten, name[:-1]), target._overloadname)


def _mapped(function: Any, value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_mapped(function, v) for v in value)
    return function(value)


def _with_jaxprs(value: Any, name: str) -> Any:
    if isinstance(value, Graph):
        return jaxpr_of(value, name)
    if not isinstance(value, tuple):
        return value
    made = [_with_jaxprs(v, name) for v in value]
    return value._make(made) if hasattr(value, "_make") else tuple(made)  # pyright: ignore


def _of_keys(words: ShapedArray, dtype: dtypes.ExtendedDType) -> ShapedArray:
    return ShapedArray(words.shape[: len(words.shape) - len(dtype.element_shape)], dtype)


class _Operand:
    """Marks, among the parameters of an operator of torch, where an array goes."""

    def __repr__(self) -> str:
        return "*"


OPERAND = _Operand()
_NOTHING = ShapedArray((), bool)  # the type of a result that an operator leaves out


@functools.cache
def _torch_primitive(target: Any) -> Primitive:
    """Return the primitive that calls an operator of torch, with arrays in the order of its arguments."""
    schema = target._schema
    primitive = Primitive(schema.name.rpartition("::")[2])
    primitive.multiple_results = len(schema.returns) != 1 or "[]" in str(schema.returns[0].type)

    def function(*arrays: Any, **params: Any) -> Any:
        # A copy, which a jaxpr does not show, may be what made a lazy conjugate a tensor that an operator takes.
        tensors = (tensor_of(as_array(a)).resolve_conj() for a in arrays)
        required = {a.name: OPERAND for a in schema.arguments if not a.has_default_value()}
        given = {**required, **params}
        in_order = {a.name: given[a.name] for a in schema.arguments if a.name in given}
        found = target(**{k: _mapped(lambda v: next(tensors) if v is OPERAND else v, v) for k, v in in_order.items()})
        return Array(found) if isinstance(found, Tensor) else [None if t is None else Array(t) for t in found]

    primitive.function = function
    return primitive


@functools.cache
def _unnamed(name: str) -> Primitive:
    """Return the primitive that calls structured primitives of this name, which JAX does not have."""
    primitive = Primitive(name)
    primitive.multiple_results = True
    primitive.function = lambda *arrays, operation: [
        Array(t) for t in operation(*(tensor_of(as_array(a)) for a in arrays))
    ]
    return primitive


def graph_of(closed: ClosedJaxpr) -> Graph:
    """Return the graph of a closed jaxpr: the one that it was made of, else a trace of its equations."""
    if closed.graph is None:

        def run(*tensors: Tensor) -> list[Tensor]:
            results = eval_jaxpr(closed.jaxpr, closed.consts, *(Array(t) for t in tensors))
            return [tensor_of(as_array(r)) for r in results]

        device = default_torch_device()
        types = [TensorType(a.shape, dtypes.to_torch(a.dtype), device) for a in closed.in_avals]
        closed.graph = graph.trace(run, types).graph
    return closed.graph
