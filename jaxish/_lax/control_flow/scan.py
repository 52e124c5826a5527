"""scan: a loop with a carry, over the leading axis of its inputs, that stacks what each step gives.

`Scan` runs its body graph once per step, on slices. Its rules make new bodies of the old one and scan again:
batched bodies for vmap, bodies on pairs for jvp. Reverse mode splits the body into its forward and backward halves
(residuals.py): the forward scan stacks the residuals, a scan in the other direction takes them back.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import torch
from torch import Tensor

from ..._compile import executable, loop_sources, lowering, native_loop
from ..._compile.structured import Opaque
from ..._core import config, derived, errors, graph, residuals, symbolic_sizes, tree, unsigned
from ..._core.array import Array, as_array, from_kind, tensor_of
from ..._core.derived import Inline
from ..._core.dimensions import index_of
from ..._core.graph import Graph, TensorType
from ..._core.primitive import Dims, differentiable, instantiate, popped_axis
from ..._core.refs import RefArgument, references
from ..._core.target import Target
from ..._devices import laid
from ..._transforms.flat import arrays_from
from ..._transforms.program import Program
from . import several_steps
from .bodies import Operands, carry_program, trace_body
from .deferred_products import Deferred
from .references import ends_of, put_back, threaded, values_of, written_by


class Scan(Opaque):
    """A scan of `body(consts, carry, x) -> (carry, y)`, inputs (consts, init, xs), results (carry, ys)."""

    __name__ = "scan"
    is_instruction = True

    def __init__(self, body: Graph, consts: int, carries: int, length: int, reverse: bool, unroll: int = 1) -> None:
        self.body, self.consts, self.carries, self.length, self.reverse = body, consts, carries, length, reverse
        self.unroll = unroll
        self.rows_from = consts + carries, carries  # of the inputs, and of the results

    def parts(self, values: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        first, second = self.consts, self.consts + self.carries
        return list(values[:first]), list(values[first:second]), list(values[second:])

    def equation(self) -> tuple[str, dict[str, Any]] | None:
        return "scan", {
            "jaxpr": self.body, "length": self.length, "reverse": self.reverse, "num_consts": self.consts,
            "num_carry": self.carries, "unroll": self.unroll,
        }  # fmt: skip

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        carry, ys = self.body.out_types[: self.carries], self.body.out_types[self.carries :]
        return [*carry, *(TensorType((self.length, *y.shape), y.dtype, y.device) for y in ys)]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        native = native_loop.ready(*self._native())
        if native is not None:
            return native(inputs, self.out_types(*inputs), self.length, self.reverse)
        return self._run_steps(*inputs)

    def _native(self) -> tuple[Graph, Any, Callable[[], loop_sources.Source]]:
        """Return by what `native_loop` knows the loop."""
        counts = (self.consts, self.carries)
        return self.body, counts, lambda: loop_sources.scan_source(self.body, *counts)

    def _run_steps(self, *inputs: Tensor) -> list[Tensor]:
        upcoming = native_loop.upcoming(*self._native())
        count = max(self.unroll, several_steps.count(self.body, length=self.length))
        if upcoming is None and count > 1 and self.length:
            return self._run_several_at_once(count, *inputs)
        consts, carry, xs = self.parts(inputs)
        slices = list(zip(*(x.unbind(0) for x in xs), strict=True)) if xs else [()] * self.length
        if self.reverse:
            slices.reverse()
        steps: list[Sequence[Tensor]] = []
        step = executable.of(self.body, range(self.consts, self.consts + self.carries))
        for given in slices:
            if upcoming is not None:
                if (native := upcoming()) is not None:
                    return self._rest(native, steps, consts, carry, xs)
                if upcoming.is_over:
                    upcoming = None
            run = step.run if upcoming is None else step.run_for_now
            with step.writing(self.consts, carry):
                results = run(*consts, *carry, *given)
            carry = [*results[: self.carries]]
            steps.append(results[self.carries :])
        if not steps:
            return [*carry, *(_empty(t) for t in self.body.out_types[self.carries :])]
        return [*carry, *self._stacked(steps)]

    def _run_several_at_once(self, count: int, *inputs: Tensor) -> list[Tensor]:
        consts, carry, xs = self.parts(inputs)
        starts, parts = range(0, self.length, count), []
        for start in reversed(starts) if self.reverse else starts:
            size = min(count, self.length - start)
            steps = several_steps.of_scan(self.body, self.consts, self.carries, size, self.reverse)
            results = executable.of(steps).run(*consts, *carry, *(x.narrow(0, start, size) for x in xs))
            carry = results[: self.carries]
            parts.append(results[self.carries :])
        columns = zip(*(reversed(parts) if self.reverse else parts), strict=True)
        return [*carry, *map(torch.cat, columns)]

    def _stacked(self, steps: Sequence[Sequence[Tensor]]) -> list[Tensor]:
        """Return the ys of steps in the order in which they were made."""
        return [*map(torch.stack, zip(*(reversed(steps) if self.reverse else steps), strict=True))]

    def _rest(
        self,
        native: native_loop.Loop,
        steps: Sequence[Sequence[Tensor]],
        consts: Sequence[Tensor],
        carry: Sequence[Tensor],
        xs: Sequence[Tensor],
    ) -> list[Tensor]:
        """Return the results when some steps have been made, and the carry is what they gave."""
        results = [torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in self.out_types()]
        ys, done, left = results[self.carries :], len(steps), self.length - len(steps)
        rest, first = (slice(left), slice(left, None)) if self.reverse else (slice(done, None), slice(done))
        outputs = [*results[: self.carries], *(y[rest] for y in ys)]
        native.fill(outputs, [*consts, *carry, *(x[rest] for x in xs)], left, self.reverse)
        for y, made in zip(ys, self._stacked(steps) if steps else (), strict=bool(steps)):
            y[first] = made
        return results

    def spelled_out(self, target: Target, *inputs: Tensor) -> list[Tensor]:
        if target.has_scans:
            return self._with_lowered_body(target, inputs)
        consts, init, xs = self.parts(inputs)
        types = self.out_types(*inputs)
        ys = [torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in types[self.carries :]]
        if not self.length:
            return [*init, *ys]
        sizes = (self.carries, len(ys), self.consts, len(xs))

        def step(done: Tensor, *given: Tensor) -> list[Tensor]:
            carry, stacked, own_consts, own_xs = _grouped(given, sizes)
            place = (self.length - 1 - done if self.reverse else done).reshape(1)
            slices = [unsigned.via_bits(lambda t: t.index_select(0, place), x).squeeze(0) for x in own_xs]
            results = self.body(*own_consts, *carry, *slices)
            pairs = zip(stacked, results[self.carries :], strict=True)
            put = [unsigned.via_bits(lambda s, y: s.index_copy(0, place, y), s, y.unsqueeze(0)) for s, y in pairs]
            return [done + 1, *results[: self.carries], *put]

        first = torch.zeros((), dtype=torch.int64, device=types[0].device)
        return lowering.while_loop(lambda done, *_: done < self.length, step, [first, *init, *ys], [*consts, *xs])[1:]

    def _with_lowered_body(self, target: Target, inputs: Sequence[Tensor]) -> list[Tensor]:
        recorder = graph.current_trace()
        assert recorder is not None
        body = graph.trace(self.body, self.body.in_types, lowering=target).graph
        return recorder.emit(self._with_body(body, self.consts, self.carries), inputs, self.out_types(*inputs))

    def _with_body(self, body: Graph, consts: int, carries: int) -> "Scan":
        return Scan(body, consts, carries, self.length, self.reverse, self.unroll)

    def reached(self, changed: set[int]) -> set[int]:
        init = {i - self.consts for i in changed if self.consts <= i < self.consts + self.carries}
        return init | derived.reached(self.body, changed, {i: self.consts + i for i in range(self.carries)})

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        name = popped_axis()
        const_dims, init_dims, xs_dims = self.parts(dims)
        consts, init, xs = self.parts(inputs)
        # A step slices the leading axis off, so that a batch behind it is in front of the slice.
        xs = [x if d is None else x.movedim(d, 1) for x, d in zip(xs, xs_dims, strict=True)]
        x_dims = [None if d is None else 0 for d in xs_dims]
        batched = [d is not None for d in init_dims]
        while True:
            carry_dims = [0 if b else None for b in batched]
            found = derived.batched_outputs(self.body, [*const_dims, *carry_dims, *x_dims], size, name)
            grown = [b or f for b, f in zip(batched, found, strict=False)]
            if grown == batched:
                break
            batched = grown
        outputs = [*batched, *found[self.carries :]]
        body = derived.mapped_as(self.body, [*const_dims, *carry_dims, *x_dims], size, name, outputs)
        init = [_front(t, d, size) if b else t for t, d, b in zip(init, init_dims, batched, strict=True)]
        results = self._with_body(body, self.consts, self.carries)(*consts, *init, *xs)
        y_dims = [1 if b else None for b in outputs[self.carries :]]
        return results, [*(0 if b else None for b in batched), *y_dims]

    def pushed(
        self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]
    ) -> tuple[Sequence[Tensor], Sequence[Tensor | None]]:
        parts = list(zip(self.parts(primals), self.parts(tangents), strict=True))
        (consts, const_ts), (init, init_ts), (xs, x_ts) = parts
        given = [t is not None for t in (*const_ts, *init_ts, *x_ts)]
        carried = derived.carries_reached(self.body, given, self.consts, self.carries)
        active = [*given[: self.consts], *carried, *given[self.consts + self.carries :]]
        count = len(self.body.out_types) - self.carries
        pushed, moves = derived.forward_mode(self.body, active, [*carried, *[False] * count])
        body = _pair_body(pushed, moves, active, self.consts, self.carries, self.body)
        init_ts = [instantiate(t, p) for t, p, c in zip(init_ts, init, carried, strict=True) if c]
        given_const_ts = [t for t in const_ts if t is not None]
        scan = self._with_body(body, self.consts + len(given_const_ts), self.carries + len(init_ts))
        results = scan(*consts, *given_const_ts, *init, *init_ts, *xs, *(t for t in x_ts if t is not None))
        sizes = [self.carries, len(init_ts), count]
        carry, carry_ts, ys, y_ts = _grouped(results, [*sizes, len(results) - sum(sizes)])
        found = iter([*carry_ts, *y_ts])
        return [*carry, *ys], [next(found) if m else None for m in moves]

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        followed = residuals.followed(inputs, self.body.out_types)
        if followed is None:
            return super().__call__(*inputs)
        level, wanted = followed
        forward, rule = _reverse(self, wanted)
        count = len(self.body.out_types)
        return residuals.Forward(forward, count, rule, level, Inline)(*inputs)[:count]


def _empty(type: TensorType) -> Tensor:
    return torch.empty((0, *type.shape), dtype=type.dtype, device=type.device)


def _front(tensor: Tensor, dim: int | None, size: int) -> Tensor:
    return tensor.unsqueeze(0).expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def _pair_body(
    pushed: Graph, moves: Sequence[bool], active: Sequence[bool], consts: int, carries: int, body: Graph
) -> Graph:
    """Reorder a body in forward mode, (inputs, tangents) -> (results, tangents), to (consts, carry, x) -> (carry, y)."""
    counts = [consts, carries, len(body.in_types) - consts - carries]
    flags = [active[:consts], active[consts : consts + carries], active[consts + carries :]]
    sizes = [n for count, flag in zip(counts, flags, strict=True) for n in (count, sum(flag))]

    def run(*inputs: Tensor) -> list[Tensor]:
        groups = _grouped(inputs, sizes)
        results = pushed(*groups[0], *groups[2], *groups[4], *groups[1], *groups[3], *groups[5])
        primal, tangents = derived.results_and_tangents(results, moves)
        carried = [t for t, a in zip(tangents, flags[1], strict=False) if a]
        y_tangents = [t for t in tangents[carries:] if t is not None]
        return [*primal[:carries], *carried, *primal[carries:], *y_tangents]  # pyright: ignore[reportReturnType]

    primal_groups = _grouped(body.in_types, counts)
    types = []
    for group, flag in zip(primal_groups, flags, strict=True):
        types += [*group, *(t for t, a in zip(group, flag, strict=True) if a)]
    return derived.cached(pushed, ("pair", tuple(sizes)), lambda: graph.trace(run, types).graph)


def _grouped(values: Sequence[Any], sizes: Sequence[int]) -> list[Sequence[Any]]:
    groups, start = [], 0
    for size in sizes:
        groups.append(values[start : start + size])
        start += size
    return groups


def _reverse(scan: Scan, wanted: tuple[bool, ...]) -> tuple[Graph, residuals.Rule]:
    """Return the forward graph (results, then residuals) of a scan, and its rule back."""
    body, consts, carries = scan.body, scan.consts, scan.carries
    count = len(body.out_types)
    carried = derived.carries_reached(body, wanted, consts, carries)
    follow = [*wanted[:consts], *carried, *wanted[consts + carries :]]
    forward, backward = residuals.split(body, follow, constants=consts, views=False)
    saved = len(forward.out_types) - count

    read = _carries_read(backward, consts, carries)

    def step(*inputs: Tensor) -> list[Tensor]:
        return [*forward(*inputs), *(inputs[consts + i] for i in read)]

    stacking = derived.cached(
        forward, ("stack carries", consts, carries), lambda: graph.trace(step, body.in_types).graph
    )

    def run(*inputs: Tensor) -> list[Tensor]:
        return scan._with_body(stacking, consts, carries)(*inputs)

    shapes = scan.parts(body.in_types)
    types = [*shapes[0], *shapes[1], *(TensorType((scan.length, *t.shape), t.dtype, t.device) for t in shapes[2])]
    parameters = (consts, carries, scan.length, scan.reverse, scan.unroll)
    forward_graph = derived.cached(stacking, ("forward", parameters), lambda: graph.trace(run, types).graph)
    return forward_graph, _pull_rule(scan, backward, follow, wanted, saved)


def _carries_read(backward: Graph, consts: int, carries: int) -> list[int]:
    """Return which carries the backward half of a body reads: the forward scan has to stack no others."""
    placeholders = backward.module.graph.find_nodes(op="placeholder")[consts : consts + carries]
    return [i for i, node in enumerate(placeholders) if node.users]


def _pull_rule(
    scan: Scan, backward: Graph, follow: Sequence[bool], wanted: Sequence[bool], saved: int
) -> residuals.Rule:
    """Return the rule of a scan for the backward half of its body, which goes back from the cotangents that there are."""
    positions = {i: k for k, i in enumerate(i for i, f in enumerate(follow) if f)}
    seeded = [j for j, t in enumerate(scan.body.out_types) if differentiable(t.dtype)]

    def rule(
        primals: Sequence[Tensor], kept: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> list[Tensor | None]:
        outs, zero = _absent(scan, backward, positions, seeded, cotangents)
        absent = frozenset(k for k, j in enumerate(seeded) if j in outs)
        gone = frozenset(positions[i] for i in zero)
        half = residuals.without(backward, len(seeded), absent, gone)
        followed = tuple(f and i not in zero for i, f in enumerate(follow))
        read = _carries_read(backward, scan.consts, scan.carries)
        parameters = (scan.consts, scan.carries, scan.length, scan.reverse, scan.unroll)
        key = ("rule back", parameters, followed, tuple(wanted), absent)
        found = derived.cached(half, key, lambda: _rule_of(scan, half, followed, wanted, saved, read, outs))
        return found(primals, kept, cotangents)

    return rule


def _absent(
    scan: Scan,
    backward: Graph,
    positions: Mapping[int, int],
    seeded: Sequence[int],
    cotangents: Sequence[Tensor | None],
) -> tuple[set[int], set[int]]:
    """Return which results of the body have no cotangent at any step, and of which inputs so none is made."""
    consts, carries = scan.consts, scan.carries
    outs = {j for j in seeded if cotangents[j] is None or (j < carries and consts + j not in positions)}
    while True:
        absent = frozenset(k for k, j in enumerate(seeded) if j in outs)
        found = residuals.zeros_of(backward, len(seeded), absent)
        zero = {i for i, k in positions.items() if k in found}
        reached = {j for j in outs if j < carries and consts + j in positions and consts + j not in zero}
        if not reached:
            # A carry has a cotangent at each step if it has one at any.
            return outs, {i for i in zero if not consts <= i < consts + carries or i - consts in outs}
        outs -= reached


def _rule_of(
    scan: Scan, backward: Graph, follow: Sequence[bool], wanted: Sequence[bool], saved: int, read: Sequence[int],
    absent: AbstractSet[int],
) -> residuals.Rule:  # fmt: skip
    """Return the rule of a scan for the backward half of its body, without cotangents of the results that are `absent`.

    `read` are the carries that the forward scan has stacked.
    """
    body, consts, carries = scan.body, scan.consts, scan.carries
    const_types, carry_types, x_types = scan.parts(body.in_types)
    y_types = body.out_types[carries:]
    carried = [i for i in range(carries) if follow[consts + i]]
    seeded = [i for i, t in enumerate(y_types) if differentiable(t.dtype) and carries + i not in absent]
    is_carry = range(consts, consts + carries)
    inputs = [None if i in is_carry else i for i, followed in enumerate(follow) if followed]
    slices = [*(consts + i for i in read), *range(consts + carries, len(body.in_types) + saved)]
    after = Deferred.of(backward, inputs, consts, slices)
    summed = [i for i in range(consts) if follow[i] and i not in after.products]

    def step(*inputs: Tensor) -> list[Tensor]:
        sizes = (consts, len(summed), len(carried), len(x_types), saved, len(read), len(seeded))
        const_values, sums, carry_cts, xs, residual, carry_read, y_cts = _grouped(inputs, sizes)
        given = dict(zip(read, carry_read, strict=True))
        carry = [residuals.seed_of(given.get(i), t) for i, t in enumerate(carry_types)]
        found = iter(after.step(*const_values, *carry, *xs, *residual, *carry_cts, *y_cts))
        const_cts = [s + next(found) for s in sums]
        return [*const_cts, *(next(found) for _ in carried), *found]

    stacked = backward.in_types[len(body.in_types) : len(body.in_types) + saved]
    step_types = [
        *const_types, *(const_types[i] for i in summed), *(carry_types[i] for i in carried), *x_types,
        *stacked, *(carry_types[i] for i in read), *(y_types[i] for i in seeded),
    ]  # fmt: skip
    step_graph = derived.cached(backward, ("step", consts, carries), lambda: graph.trace(step, step_types).graph)
    loop = Scan(step_graph, consts, len(summed) + len(carried), scan.length, not scan.reverse, scan.unroll)

    def rule(
        primals: Sequence[Tensor], kept: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> list[Tensor | None]:
        const_values, _, xs = scan.parts(primals)
        carry_cts = [residuals.seed_of(cotangents[i], carry_types[i]) for i in carried]
        y_cts = [
            residuals.seed_of(
                cotangents[carries + i],
                TensorType((scan.length, *y_types[i].shape), y_types[i].dtype, y_types[i].device),
            )
            for i in seeded
        ]
        sums = [torch.zeros_like(const_values[i]) for i in summed]
        results = loop(*const_values, *sums, *carry_cts, *xs, *kept, *y_cts)
        count = len(results) - len(after.made)
        sliced = dict(zip(slices, [*kept[saved:], *xs, *kept[:saved]], strict=True))
        late = after.cotangents(consts, sliced, results[count:])
        found = iter(results[:count])
        back = [late[i] if i in late else next(found) if f else None for i, f in enumerate(follow)]
        return [b if w else None for b, w in zip(back, wanted, strict=True)]

    return rule


# --------------------------------------------------------------------------------------------------------- functions


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[Any, Any]:
    """Fold `f(carry, x) -> (carry, y)` over the leading axis of the pytree `xs`; return the last carry and stacked ys.

    `length` is needed where `xs` has no arrays. With `reverse` the last slice comes first (ys keep their places).
    `unroll` steps are compiled as one (True: all); `_split_transpose` is a hint to XLA that changes no value.
    Raises `TypeError` when the carry changes its structure or type, `ValueError` for axes of different lengths.
    """
    if not callable(f):
        raise TypeError("lax.scan: f argument should be a callable.")
    init_operands = Operands.of(init, "scan")
    x_operands = Operands.of(xs, "scan")
    steps = leading_length(x_operands.arrays, length)
    chunk = _unroll(unroll, steps)
    if config.disable_jit.value and steps and not references(x_operands.arrays):
        return _python_scan(f, init, x_operands, steps, reverse)
    slices = [_slice_of(a) for a in x_operands.arrays]

    def trace(carry: Sequence[Array]) -> Program:
        _, spec = tree.flatten((init_operands.spec.unflatten(carry), x_operands.spec.unflatten(slices)))
        program = trace_body(f, [*carry, *slices], spec, "scan")
        if len(program.out_spec.children()) != 2:
            raise TypeError(f"scan body output must be a pair, got {program.out_spec.unflatten(program.out_avals)}.")
        return program

    def carry_of(program: Program) -> tuple[list[Any], tree.Spec]:
        spec = program.out_spec.children()[0]
        return program.out_avals[: spec.num_leaves], spec

    program, init_operands = carry_program(trace, init_operands, carry_of, "scan", f)
    arrays, carries, own = [*init_operands.arrays, *slices], len(init_operands.arrays), len(program.out_kinds)
    refs, arguments = written_by([program])
    closed = threaded(program, arrays, refs, arguments, carries, carries)
    carried = carries + len(refs)
    primitive = Scan(closed.graph, len(closed.captured), carried, steps, bool(reverse), chunk)
    inputs = [*closed.closure(), *init_operands.tensors, *values_of(refs), *x_operands.tensors]
    results = primitive(*inputs)
    ends = ends_of(refs, arguments, arrays, carries, own)
    put_back(ends, results, primitive, inputs)
    returned = [*results[:carries], *results[carried : len(refs) + own]]
    return program.out_spec.unflatten(arrays_from(returned, program.out_kinds))


def leading_length(arrays: Sequence[Array], length: Any) -> int:
    """Return the common size of the leading axes. Raises `ValueError` where they differ or are missing."""
    for array in arrays:
        if not array.ndim:
            raise ValueError(f"scan got value with no leading axis to scan over: {array}.")
    lengths = [a.shape[0] for a in arrays]
    if length is not None:
        try:
            length = int(length)
        except errors.ConcretizationTypeError:
            raise
        except TypeError:
            raise TypeError("The `length` argument to `scan` expects a concrete `int` value.") from None
        if any(n != length for n in lengths):
            raise ValueError(
                f"scan got `length` argument of {length} which disagrees with leading axis sizes {lengths}."
            )
        return length
    if not lengths:
        raise ValueError("scan got no values to scan over and `length` not provided.")
    if len(set(lengths)) > 1:
        raise ValueError(f"scan got values with different leading axis sizes: {', '.join(map(str, lengths))}.")
    return lengths[0]


def _unroll(unroll: int | bool, steps: int) -> int:
    if isinstance(unroll, bool):
        return max(steps, 1) if unroll else 1
    if index_of(unroll) < 0:
        raise ValueError("`unroll` must be a `bool` or a non-negative `int`.")
    return max(1, min(index_of(unroll), steps))


def _slice_of(array: Array) -> Array:
    """Return an array of the type of one slice, for tracing."""
    tensor = array._tensor
    with graph.outside_traces():
        part = symbolic_sizes.blank(tensor.shape[1:], tensor.dtype, tensor.device)
        if laid.in_use and (sharding := laid.sharding_of(tensor)) is not None:
            part = laid.marked(part, sharding.of_a_row())
    return array.like(part) if isinstance(array, RefArgument) else from_kind(part, array.kind)


def _python_scan(f: Callable[..., Any], carry: Any, xs: Operands, steps: int, reverse: bool) -> tuple[Any, Any]:
    slices = [tensor_of(a).unbind(0) for a in xs.arrays]
    ys = [None] * steps
    for i in reversed(range(steps)) if reverse else range(steps):
        x = xs.spec.unflatten(from_kind(s[i], a.kind) for s, a in zip(slices, xs.arrays, strict=True))
        carry, ys[i] = f(carry, x)
    columns = zip(*(tree.flatten(y)[0] for y in ys), strict=True)
    stacked = [Array(torch.stack([tensor_of(as_array(v)) for v in c]), as_array(c[0]).weak_type) for c in columns]
    return carry, tree.flatten(ys[0])[1].unflatten(stacked)
