"""Reverse mode with saved values: a graph split into what runs forward and what runs back.

`split(graph, wanted)` traces the vjp of a graph, and cuts it between the values that depend on cotangents and those
that do not. The forward half returns the graph's results and the residuals, the values that the backward half needs.
`Forward` is the primitive that runs a forward half. Only the innermost functorch level that differentiates goes back
through the backward half; to levels further out both halves are functions like any other. This is how JAX nests
derivatives, and it lets a custom_vjp rule inside be differentiated again, in forward mode too. Cotangents that are zero
are absent: nothing is gone back from them.
"""

import itertools
from collections.abc import Callable, Hashable, Sequence
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, fx

from . import axes, derived, functorch, graph
from .derived import Inline
from .errors import NoReverseMode
from .graph import Graph, TensorType, Trace
from .levels import is_tracked
from .nodes import calls_for_effect, depends_on, storage_of
from .primitive import Dims, Primitive, batch_front, differentiable, graphs_of, popped_axis

# rule(primals, residuals, cotangents of the results) -> cotangents of the primals; None is absent or zero
Rule = Callable[[Sequence[Tensor], Sequence[Tensor], Sequence[Tensor | None]], list[Tensor | None]]


def differentiating_level() -> tuple[int, bool] | None:
    """Return the innermost functorch level that differentiates and whether it does so in reverse, or None."""
    for level in reversed(functorch.get_interpreter_stack() or ()):
        if level.key() == functorch.TransformType.Grad:
            return level.level(), True
        if level.key() == functorch.TransformType.Jvp:
            return level.level(), False
    return None


def followed(inputs: Sequence[Tensor], out_types: Sequence[TensorType]) -> tuple[int, tuple[bool, ...]] | None:
    """Return the innermost level that differentiates, and for which inputs, if it is to go back from results of these types.

    None where it pushes forward, and where nothing depends on what it differentiates. Within an axis that has a name, too, which
    is mapped before: rules of users may go along it, and what is the same for all of it has one cotangent for them.
    """
    level = differentiating_level()
    if level is None or not level[1] or axes.is_mapped_within(level[0]):
        return None
    wanted = tuple(is_tracked(t, level[0]) for t in inputs)
    depends = any(wanted) and any(differentiable(t.dtype) for t in out_types)
    return (level[0], wanted) if depends else None


def split(
    body: Graph, wanted: Sequence[bool], save: Callable[[fx.Node], bool] | None = None, constants: int | None = None,
    views: bool = True,
) -> tuple[Graph, Graph]:  # fmt: skip
    """Return the forward and backward halves of the vjp of `body` with respect to its `wanted` inputs.

    forward(inputs) -> results + residuals; backward(inputs + residuals + cotangents) -> cotangents of wanted inputs,
    with cotangents of the differentiable results only. The residuals are all values that go back needs, or those for
    which `save` says so: the backward half computes the others again. If `constants` are given, values that depend on so
    many first inputs only, or on none, are computed again too: a loop would save them once per step. Without `views` what they are views of is
    saved, unless it is larger: halves that run compiled would copy a view, to have it laid out.
    """
    wanted = tuple(wanted)
    key = ("split", wanted, save, constants, views)
    return derived.cached(body, key, lambda: _cut(_joint(body, wanted), body, save, constants, views))


def _joint(body: Graph, wanted: tuple[bool, ...]) -> Graph:
    count = len(wanted)

    def run(*tensors: Tensor) -> list[Tensor]:
        token = _to_be_cut.set(tensors[count:])
        try:
            results, cotangents = derived.vjp_call(body, wanted, tensors[:count], tensors[count:])
        finally:
            _to_be_cut.reset(token)
        return [*results, *cotangents]

    types = [*body.in_types, *(t for t in body.out_types if differentiable(t.dtype))]
    return graph.trace(run, types).graph


def _cut(
    joint: Graph, body: Graph, save: Callable[[fx.Node], bool] | None, constants: int | None, views: bool
) -> tuple[Graph, Graph]:
    nodes = joint.module.graph
    placeholders = nodes.find_nodes(op="placeholder")
    primals, seeds = placeholders[: len(body.in_types)], placeholders[len(body.in_types) :]
    outputs = list(nodes.output_node().args[0])  # pyright: ignore
    results, cotangents = outputs[: len(body.out_types)], outputs[len(body.out_types) :]
    late = depends_on(nodes, seeds)
    early = [n for n in nodes.nodes if n not in late and n.op == "call_function" and _is_tensor(n)]
    effects = [n for n in nodes.nodes if calls_for_effect(n)]
    late_effects = [n for n in effects if n in late]
    if save is None:
        behind = derived.between(primals, [*cotangents, *late_effects])
        needed = {a for n in behind & late for a in n.all_input_nodes} | set(cotangents)
        varying = set(early) if constants is None else depends_on(nodes, [*primals[constants:], *effects])
        if not views:
            written = {memory for n in nodes.nodes for memory in n.meta.get("writes", ())}
            needed = {_base(n, written) for n in needed}
        kept = [n for n in early if n in needed and n in varying]
    else:
        kept = [n for n in early if save(n)]
        inputs = [*primals, *kept, *seeds]
        read = derived.subgraph(joint, inputs, cotangents, late_effects).module.graph.find_nodes(op="placeholder")
        kept = [n for n, own in zip(inputs, read, strict=True) if n in kept and own.users]
    forward = derived.subgraph(joint, primals, [*results, *kept], [n for n in effects if n not in late])
    backward = derived.subgraph(joint, [*primals, *kept, *seeds], cotangents, late_effects)
    return _spelled_out(forward), _spelled_out(backward)


# the cotangents of the results of what is being traced to be cut
_to_be_cut: ContextVar[Sequence[Tensor]] = ContextVar("to_be_cut", default=())


class Whole(Inline):
    """A graph that stays one node of a vjp until that is cut, so that what it recomputes is not saved on the way there."""

    __name__ = "whole"

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return self.body.out_types

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return self.body(*inputs)

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        body, out_dims = derived.mapped(self.body, dims, size, popped_axis())
        return Whole(body)(*inputs), out_dims

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        return Primitive.__call__(self, *inputs) if _to_be_cut.get() else super().__call__(*inputs)


def _spelled_out(half: Graph) -> Graph:
    if not any(isinstance(node.target, Whole) for node in half.module.graph.nodes):
        return half
    return graph.trace(lambda *inputs: half(*inputs), half.in_types).graph


def _base(node: fx.Node, written: set[int]) -> fx.Node:
    """Return what `node` is a view of, unless that has more elements; itself, where it is none."""
    found = node
    while _is_tensor(node) and node.op == "call_function" and len(node.all_input_nodes) == 1:
        (source,) = node.all_input_nodes
        memory = storage_of(node.meta["val"])
        if not _is_tensor(source) or storage_of(source.meta["val"]) != memory or memory in written:
            break
        node = source
        if node.meta["val"].numel() <= found.meta["val"].numel():
            found = node
    return found


def _is_tensor(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), Tensor)


class Forward(Primitive):
    """A function being differentiated in reverse at `level`: its results, then the residuals of `rule`.

    `by_user` says that the rule is a user's, who wrote it for what one device of many is given.
    """

    __name__ = "forward"

    def __init__(
        self, body: Graph, count: int, rule: Rule, level: int, ordinary: Callable[[Graph], Primitive], name: str = "",
        by_user: bool = False,
    ) -> None:  # fmt: skip
        self.body, self.count, self.rule, self.level, self.ordinary, self.name = (
            body,
            count,
            rule,
            level,
            ordinary,
            name,
        )
        self.by_user = by_user

    def at_level(self, level: int) -> Primitive:
        return self if level == self.level else self.ordinary(self.body)

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return self.body.out_types

    def reached(self, changed: set[int]) -> set[int] | None:
        return None if self.by_user else derived.reached(self.body, changed)

    def _base(self, *inputs: Tensor) -> list[Tensor]:
        return self.ordinary(self.body)(*inputs)

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        name = popped_axis()
        body, out_dims = derived.mapped(self.body, dims, size, name)
        rule = mapped_rule(self.rule, dims, out_dims[: self.count], out_dims[self.count :], size, name, self.by_user)
        return Forward(body, self.count, rule, self.level, self.ordinary, self.name, self.by_user)(*inputs), out_dims

    @property
    def goes_back_from_zero(self) -> bool:
        return self.by_user

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        raise TypeError(
            f"can't apply forward-mode autodiff (jvp) to a custom_vjp function: {self.name} defines a reverse-mode rule "
            "only. Use custom_jvp, or grad and vjp."
        )

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        trace = graph.current_trace() if self.by_user and _to_be_cut.get() else None
        before = None if trace is None else next(iter(reversed(trace.graph.nodes)))
        found = self.rule(primals, results[self.count :], cotangents[: self.count])
        if trace is None:
            return found
        given = [c for c in cotangents[: self.count] if c is not None]
        return _tied(found, given or _to_be_cut.get(), trace, before)


def _tied(
    found: Sequence[Tensor | None], given: Sequence[Tensor], trace: Trace, before: fx.Node | None
) -> list[Tensor | None]:
    """Have what a user's rule gives depend on the cotangents that are `given`, also where it reads none: without any it is zero.

    The rule's nodes are those behind `before`.
    """
    late = {trace.node_of(functorch.base_of(c)) for c in given}
    own = [*itertools.takewhile(lambda node: node is not before, reversed(trace.graph.nodes))]
    for node in reversed(own):
        if not late.isdisjoint(node.all_input_nodes):
            late.add(node)
    free = [t is not None and trace.made_by(functorch.base_of(t)) not in late for t in found]
    if not any(free):
        return list(found)
    some = torch.stack([(c.flatten()[:1] == 0).any() for c in given]).any()
    return [torch.where(some, t, t) if f else t for t, f in zip(found, free, strict=True)]  # pyright: ignore


def differentiated(
    body: Graph,
    inputs: Sequence[Tensor],
    call: Callable[[Graph], Primitive],
    save: Callable[[fx.Node], bool] | None = None,
    watch: Callable[[Graph, Graph, int], None] | None = None,
    back: Callable[[Graph], Primitive] | None = None,
) -> list[Tensor] | None:
    """Call `body` so that the innermost level goes back through its backward half; None where no such level is.

    `call` makes the primitive that runs a half, `back` that of the backward one, if it is another. `watch` is told of
    both halves, and how many results the function has.
    """
    found = followed(inputs, body.out_types)
    if found is None:
        return None
    level, wanted = found
    forward, backward = split(body, wanted, save)
    if watch is not None:
        watch(forward, backward, len(body.out_types))
    rule = _pull_rule(backward, back or call, body.out_types, wanted)
    return Forward(forward, len(body.out_types), rule, level, call)(*inputs)[: len(body.out_types)]


def _pull_rule(
    backward: Graph, call: Callable[[Graph], Primitive], out_types: Sequence[TensorType], wanted: Sequence[bool]
) -> Rule:
    def rule(
        primals: Sequence[Tensor], saved: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> list[Tensor | None]:
        seeds = [c for c, t in zip(cotangents, out_types, strict=True) if differentiable(t.dtype)]
        absent = absent_of(seeds)
        zero = zeros_of(backward, len(seeds), absent)
        half = without(backward, len(seeds), absent, zero)
        found = iter(call(half)(*primals, *saved, *(seed for seed in seeds if seed is not None)))
        positions = iter(range(len(backward.out_types)))
        return [None if not w or next(positions) in zero else next(found) for w in wanted]

    return rule


def absent_of(seeds: Sequence[Tensor | None]) -> frozenset[int]:
    """Return which cotangents are absent, zero."""
    return frozenset(i for i, seed in enumerate(seeds) if seed is None)


def zeros_of(backward: Graph, seeds: int, absent: frozenset[int]) -> frozenset[int]:
    """Return which results of a backward half are zero for `seeds` cotangents of which some are absent."""
    if not absent:
        return frozenset()
    outputs: Any = backward.module.graph.output_node().args[0]
    zero = _zeros(backward, seeds, absent)
    return frozenset(i for i, node in enumerate(outputs) if node in zero)


def _zeros(backward: Graph, seeds: int, absent: frozenset[int]) -> set[fx.Node]:
    """Return the nodes that are zero: a half is linear in its cotangents, so is what reads absent ones alone."""

    def make() -> set[fx.Node]:
        nodes = backward.module.graph
        placeholders = nodes.find_nodes(op="placeholder")
        given = placeholders[len(placeholders) - seeds :]
        zero, late = {given[i] for i in absent}, depends_on(nodes, given)
        if any(node.meta.get("writes") or calls_for_effect(node) for node in late):
            return zero  # memory may hold what was not absent
        for node in nodes.nodes:
            is_made = node in late and node.op == "call_function"
            if is_made and zero.issuperset(a for a in node.all_input_nodes if a in late):
                zero.add(node)
        return zero

    return derived.cached(backward, ("zeros", seeds, absent), make)


def without(backward: Graph, seeds: int, absent: frozenset[int], left_out: frozenset[int]) -> Graph:
    """Return a backward half that does not take the absent ones of its cotangents, and does not give some results.

    Raises `NoReverseMode` where another cotangent comes to what has no way back.
    """
    half = backward
    if absent:
        key = ("without", seeds, absent, left_out)
        half = derived.cached(backward, key, lambda: _without(backward, seeds, absent, left_out))
    if not _to_be_cut.get() and (why := _refused(half)):
        raise NoReverseMode(why)
    return half


def _refused(half: Graph) -> str:
    """Return why there is no way back by this half, or by a graph within it; nothing where there is one."""

    def make() -> str:
        targets = [node.target for node in half.module.graph.nodes if isinstance(node.target, Primitive)]
        own = (target.message for target in targets if isinstance(target, Refused))
        within = (_refused(body) for target in targets for body in graphs_of(target))
        return next(filter(None, (*own, *within)), "")

    return derived.cached(half, "refused", make)


def _without(backward: Graph, seeds: int, absent: frozenset[int], left_out: frozenset[int]) -> Graph:
    nodes = backward.module.graph
    placeholders = nodes.find_nodes(op="placeholder")
    first = len(placeholders) - seeds
    given = [p for i, p in enumerate(placeholders) if i - first not in absent]
    outputs: Any = [o for i, o in enumerate(nodes.output_node().args[0]) if i not in left_out]  # pyright: ignore
    zero = _zeros(backward, seeds, absent)
    read = [n for n in nodes.nodes if n in zero and _is_tensor(n) and (n in outputs or not zero.issuperset(n.users))]
    effects = [n for n in nodes.nodes if calls_for_effect(n)]
    return derived.subgraph(backward, given, outputs, effects, read)


class Refused(Primitive):
    """Stands in a backward half for what has no way back: whether a cotangent comes there is known when it is called."""

    __name__ = "refused"

    def __init__(self, message: str, types: Sequence[TensorType]) -> None:
        self.message, self.types = message, tuple(types)

    @staticmethod
    def of(message: str, primals: Sequence[Tensor], cotangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Return cotangents of the primals within a half that is being traced. Raises `NoReverseMode` elsewhere."""
        if not _to_be_cut.get():
            raise NoReverseMode(message)
        types = [TensorType.of(p) for p in primals if differentiable(p.dtype)]
        found = iter(Refused(message, types)(*(c for c in cotangents if c is not None)))
        return [next(found) if differentiable(p.dtype) else None for p in primals]

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return self.types

    def run(self, *inputs: Any) -> Any:
        raise NoReverseMode(self.message)

    vmap = pushed = vjp = run  # pyright: ignore[reportAssignmentType]


def seed_of(cotangent: Tensor | None, type: TensorType) -> Tensor:
    """Return the cotangent of a result of this type, zeros for None."""
    return torch.zeros(type.shape, dtype=type.dtype, device=type.device) if cotangent is None else cotangent


def mapped_rule(
    rule: Rule, dims: Dims, out_dims: Dims, saved_dims: Dims, size: int, name: Hashable | None, by_user: bool
) -> Rule:
    """Return `rule` mapped over a batch: primals along `dims`, residuals along `saved_dims`, cotangents along `out_dims`.

    The cotangent of a primal that is the same for the whole batch is the sum over the batch; so that of a result that is the
    same for the whole batch is given to the first of it only. A user's rule gets it everywhere, and what it gives for such a
    primal is summed if it varies, as in JAX: it may be a sum over the batch, by a collective.
    """

    def mapped(
        primals: Sequence[Tensor], residuals: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> list[Tensor | None]:
        if by_user:
            lists, all_dims = (primals, residuals, cotangents), [*dims, *saved_dims, *out_dims]
            found = _mapped_optional(rule, lists, all_dims, size, name)
            return [None if f is None else _summed_in_place_of(*f, d, size) for f, d in zip(found, dims, strict=True)]
        lists = (primals, residuals, [_of_batch(c, d, size) for c, d in zip(cotangents, out_dims, strict=True)])
        all_dims = [*dims, *saved_dims, *[0] * len(cotangents)]
        found = map_optional(rule, lists, all_dims, size, name)
        return [_in_place_of(f, d) for f, d in zip(found, dims, strict=True)]

    return mapped


def _of_batch(cotangent: Tensor | None, dim: int | None, size: int) -> Tensor | None:
    if cotangent is None or dim == 0:
        return cotangent
    return torch.cat([cotangent.unsqueeze(0), cotangent.new_zeros((size - 1, *cotangent.shape))])


def _in_place_of(cotangent: Tensor | None, dim: int | None) -> Tensor | None:
    if cotangent is None or dim == 0:
        return cotangent
    return cotangent.sum(0) if dim is None else cotangent.movedim(0, dim)


def _summed_in_place_of(cotangent: Tensor, found: int | None, dim: int | None, size: int) -> Tensor:
    if dim is None:
        return cotangent if found is None else cotangent.sum(found)
    return batch_front(cotangent, found, size).movedim(0, dim)


def map_optional(
    rule: Callable[..., list[Tensor | None]], lists: Sequence[Sequence[Tensor | None]], dims: Dims, size: int,
    name: Hashable | None,
) -> list[Tensor | None]:  # fmt: skip
    """Call `rule(*lists)` under vmap, tensors that are None staying None; results are batched along dimension 0.

    `dims` are the batch dimensions of all tensors of all lists in a row.
    """
    found = _mapped_optional(rule, lists, dims, size, name)
    return [None if f is None else batch_front(*f, size) for f in found]


def _mapped_optional(
    rule: Callable[..., list[Tensor | None]], lists: Sequence[Sequence[Tensor | None]], dims: Dims, size: int,
    name: Hashable | None,
) -> list[tuple[Tensor, int | None] | None]:  # fmt: skip
    """Return each result of `map_optional` with its own batch dimension."""
    flat = [t for tensors in lists for t in tensors]
    present = [i for i, t in enumerate(flat) if t is not None]
    pattern: list[bool] = []

    def of_slices(*slices: Tensor) -> list[Tensor]:
        values = dict(zip(present, slices, strict=True))
        positions = iter(range(len(flat)))
        results = rule(*([values.get(next(positions)) for _ in tensors] for tensors in lists))
        pattern[:] = [r is not None for r in results]
        return [r for r in results if r is not None]

    mapped = axes.map_tensors(of_slices, [t for t in flat if t is not None], [dims[i] for i in present], size, name)
    found = iter(mapped)
    return [next(found) if p else None for p in pattern]
