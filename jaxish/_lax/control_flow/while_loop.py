"""while_loop and fori_loop: loops that run until a predicate of their carry fails.

Called on concrete values outside jit, the loop is a Python loop over the traced body, so reverse mode goes through
it. Elsewhere it is the primitive `While`, which has no reverse mode, as in JAX.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._compile import executable, loop_sources, lowering, native_loop
from ..._compile.structured import Opaque
from ..._core import config, derived, dtypes, graph, levels, residuals, tree
from ..._core.array import Array, as_array, default_torch_device, is_abstract, tensor_of
from ..._core.graph import ClosedGraph, Graph, TensorType
from ..._core.levels import is_tracked
from ..._core.primitive import Dims, batch_front, graph_identity, instantiate, popped_axis
from ..._core.promotion import convert
from ..._core.residuals import differentiating_level
from ..._core.target import Target
from ..._transforms.flat import arrays_from
from ..._transforms.program import Program
from . import several_steps
from .bodies import Operands, carry_program, concrete, trace_body
from .references import put_back, threaded, values_of, written_by
from .scan import scan


class While(Opaque):
    """A loop of `body(body consts, carry) -> carry` while `cond(cond consts, carry)`; inputs (both consts, init)."""

    __name__ = "while"
    is_instruction = True

    def __init__(self, cond: Graph, body: Graph, cond_consts: int, body_consts: int) -> None:
        self.cond, self.body, self.cond_consts, self.body_consts = cond, body, cond_consts, body_consts

    def parts(self, values: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        first, second = self.cond_consts, self.cond_consts + self.body_consts
        return list(values[:first]), list(values[first:second]), list(values[second:])

    def equation(self) -> tuple[str, dict[str, Any]] | None:
        return "while", {
            "cond_jaxpr": self.cond, "body_jaxpr": self.body, "cond_nconsts": self.cond_consts,
            "body_nconsts": self.body_consts,
        }  # fmt: skip

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return self.body.out_types

    def run(self, *inputs: Tensor) -> list[Tensor]:
        loop = self._native()
        native = native_loop.ready(*loop)
        if native is not None:
            return native(inputs, self.body.out_types)
        cond_consts, body_consts, carry = self.parts(inputs)
        count = several_steps.count(self.cond, self.body)
        if count > 1:
            return self._run_several_at_once(count, *inputs)
        first = self.body_consts
        test, step = executable.of(self.cond), executable.of(self.body, range(first, first + len(carry)))
        upcoming = native_loop.upcoming(*loop)
        while upcoming is not None:
            if (native := upcoming()) is not None:
                return native([*cond_consts, *body_consts, *carry], self.body.out_types)
            if upcoming.is_over:
                break
            if not test.run_for_now(*cond_consts, *carry)[0]:
                return list(carry)
            carry = step.run_for_now(*body_consts, *carry)
        while test.run(*cond_consts, *carry)[0]:
            with step.writing(first, carry):
                results = step.run(*body_consts, *carry)
            carry = [*results]
        return list(carry)

    def _run_several_at_once(self, count: int, *inputs: Tensor) -> list[Tensor]:
        steps = several_steps.of_while(self.cond, self.body, self.cond_consts, self.body_consts, count)
        split, going = self.cond_consts + self.body_consts, True
        consts, carry = inputs[:split], inputs[split:]
        several = executable.of(steps)
        while going:
            going, *carry = several.run(*consts, *carry)
        return list(carry)

    def _native(self) -> tuple[Graph, Any, Callable[[], loop_sources.Source]]:
        """Return by what `native_loop` knows the loop: its body may serve several predicates, and the other way round."""
        counts = (self.cond_consts, self.body_consts)
        source = lambda: loop_sources.while_source(self.cond, self.body, *counts)  # noqa: E731
        return self.body, (*counts, graph_identity(self.cond)), source

    def spelled_out(self, target: Target, *inputs: Tensor) -> list[Tensor]:
        cond_consts, body_consts, init = self.parts(inputs)
        carries, split = len(init), len(init) + len(cond_consts)

        def going(*given: Tensor) -> Tensor:
            return self.cond(*given[carries:split], *given[:carries])[0]

        def step(*given: Tensor) -> list[Tensor]:
            return self.body(*given[split:], *given[:carries])

        return lowering.while_loop(going, step, init, [*cond_consts, *body_consts])

    def reached(self, changed: set[int]) -> set[int]:
        first, second = self.cond_consts, self.cond_consts + self.body_consts
        carried = {i: self.body_consts + i for i in range(len(self.body.out_types))}
        results = derived.reached(self.body, {i - first for i in changed if i >= first}, carried)
        return results | {i - second for i in changed if i >= second}

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        name = popped_axis()
        cond_dims, body_dims, init_dims = self.parts(dims)
        cond_consts, body_consts, init = self.parts(inputs)
        batched = [d is not None for d in init_dims]
        unchanged = self._kept()
        while True:
            carry_dims = [0 if b else None for b in batched]
            varies = derived.batched_outputs(self.cond, [*cond_dims, *carry_dims], size, name)[0]
            found = derived.batched_outputs(self.body, [*body_dims, *carry_dims], size, name)
            grown = [b or f or (varies and not k) for b, f, k in zip(batched, found, unchanged, strict=True)]
            if grown == batched:
                break
            batched = grown
        init = [batch_front(t, d, size) if b else t for t, d, b in zip(init, init_dims, batched, strict=True)]
        front = [None if d is None else 0 for d in [*cond_dims, *body_dims]]
        moved = [t if d is None else t.movedim(d, 0) for t, d in zip([*cond_consts, *body_consts], dims, strict=False)]
        test = derived.mapped_as(self.cond, [*front[: self.cond_consts], *carry_dims], size, name, [varies])
        step = derived.mapped_as(self.body, [*front[self.cond_consts :], *carry_dims], size, name, batched)
        if not varies:
            results = While(test, step, self.cond_consts, self.body_consts)(*moved, *init)
        else:
            # Until every lane is done: lanes that are keep their values.
            selected = [b and not k for b, k in zip(batched, unchanged, strict=True)]
            any_left, kept = _until_all_done(test, step, self.cond_consts, self.body_consts, selected)
            count = self.cond_consts
            results = While(any_left, kept, count, count + self.body_consts)(*moved[:count], *moved, *init)
        return results, [0 if b else None for b in batched]

    def _kept(self) -> list[bool]:
        """Tell for each part of the carry whether the body hands it on as it is."""
        nodes = self.body.module.graph.nodes
        carry = [node for node in nodes if node.op == "placeholder"][self.body_consts :]
        returned: Any = self.body.module.graph.output_node().args[0]
        return [out is node for out, node in zip(returned, carry, strict=True)]

    def pushed(
        self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]
    ) -> tuple[Sequence[Tensor], Sequence[Tensor | None]]:
        cond_consts, body_consts, init = self.parts(primals)
        _, const_ts, init_ts = self.parts(tangents)
        consts, carries = len(body_consts), len(init)
        carried = derived.carries_reached(self.body, [t is not None for t in (*const_ts, *init_ts)], consts, carries)
        active = [*(t is not None for t in const_ts), *carried]
        given = [t for t in const_ts if t is not None]
        tangent_init = [instantiate(t, p) for t, p, c in zip(init_ts, init, carried, strict=True) if c]
        pushed, moves = derived.forward_mode(self.body, active, carried)

        def step(*inputs: Tensor) -> list[Tensor]:
            head, rest = inputs[:consts], inputs[consts:]
            const_tangents, carry = rest[: len(given)], rest[len(given) :]
            results = pushed(*head, *carry[:carries], *const_tangents, *carry[carries:])
            results, tangents = derived.results_and_tangents(results, moves)
            return [*results, *(t for t, c in zip(tangents, carried, strict=True) if c)]  # pyright: ignore

        carry_types = [*self.body.out_types, *(t for t, c in zip(self.body.out_types, carried, strict=True) if c)]
        const_types = self.body.in_types[:consts]
        types = [*const_types, *(t for t, a in zip(const_types, active, strict=False) if a), *carry_types]
        body = derived.cached(pushed, ("while", consts), lambda: graph.trace(step, types).graph)
        tangent_types = carry_types[carries:]
        cond_types = self.cond.in_types
        cond = derived.placed(self.cond, [*cond_types, *tangent_types], range(len(cond_types)))
        loop = While(cond, body, self.cond_consts, consts + len(given))
        results = loop(*cond_consts, *body_consts, *given, *init, *tangent_init)
        found = iter(results[carries:])
        return results[:carries], [next(found) if c else None for c in carried]

    def vjp(self, primals: Any, results: Any, cotangents: Any) -> Sequence[Tensor | None]:
        return residuals.Refused.of(
            "Reverse-mode differentiation does not work for lax.while_loop or lax.fori_loop with dynamic start/stop "
            "values inside jit or vmap. Try using lax.scan, or using fori_loop with static start/stop.",
            primals,
            cotangents,
        )


def _until_all_done(
    test: Graph, step: Graph, cond_consts: int, body_consts: int, selected: Sequence[bool]
) -> tuple[Graph, Graph]:
    """Return (whether any lane goes on, one step of the lanes that do); the step takes both sets of constants.

    What is not `selected` of the carry stays as it is at each step.
    """
    split, both = cond_consts, cond_consts + body_consts

    def any_left(*inputs: Tensor) -> list[Tensor]:
        return [test(*inputs)[0].any()]

    def kept(*inputs: Tensor) -> list[Tensor]:
        carry = inputs[both:]
        going = test(*inputs[:split], *carry)[0]
        stepped = step(*inputs[split:both], *carry)
        return [
            torch.where(going.reshape((-1, *[1] * (new.dim() - 1))), new, old) if s else old
            for new, old, s in zip(stepped, carry, selected, strict=True)
        ]

    types = [*test.in_types[:split], *step.in_types]
    return graph.trace(any_left, test.in_types).graph, graph.trace(kept, types).graph


def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any) -> Any:
    """Return the carry after `body_fun` was applied to `init_val` for as long as `cond_fun(carry)` is true.

    Forward mode works everywhere; reverse mode outside jit and vmap only, where the loop is a Python loop.
    Raises `TypeError` when the carry changes its structure or type or the predicate is no boolean scalar.
    """
    if not (callable(cond_fun) and callable(body_fun)):
        raise TypeError("lax.while_loop: body_fun and cond_fun arguments should be callable.")
    if config.disable_jit.value:
        value = init_val
        while not is_abstract(going := as_array(cond_fun(value))):
            if not going:
                return value
            value = body_fun(value)
        # Under vmap the condition has no one value: the loop is a loop of batches after all.
    init = Operands.of(init_val, "while_loop")

    def trace(carry: Sequence[Array]) -> Program:
        _, spec = tree.flatten((init.spec.unflatten(carry),))
        return trace_body(body_fun, carry, spec, "while_loop")

    body, init = carry_program(trace, init, lambda p: (p.out_avals, p.out_spec), "while_loop", body_fun)
    cond = trace_body(cond_fun, init.arrays, tree.flatten((init_val,))[1], "while_loop")
    _check_predicate(cond)
    if any(written_by([cond])):
        raise NotImplementedError(
            "cond_fun of lax.while_loop writes a mutable array reference: do it in body_fun, which runs as often."
        )
    refs, _ = written_by([body])
    count = len(init.arrays)
    test = threaded(cond, init.arrays, refs, (), count)
    step = threaded(body, init.arrays, refs, (), count, count)
    carry = [*init.tensors, *values_of(refs)]
    results = _loop(test, step, carry)
    primitive = While(test.graph, step.graph, len(test.captured), len(step.captured))
    ends = [(ref, count + i) for i, ref in enumerate(refs)]
    put_back(ends, results, primitive, [*test.closure(), *step.closure(), *carry])
    return body.out_spec.unflatten(arrays_from(results[:count], body.out_kinds))


def _check_predicate(cond: Program) -> None:
    if not cond.out_spec.is_leaf():
        raise TypeError(f"cond_fun must return a boolean scalar, but got pytree {tree.PyTreeDef(cond.out_spec)}.")
    (aval,) = cond.out_avals
    if aval.shape or aval.dtype != np.bool_:
        raise TypeError(f"cond_fun must return a boolean scalar, but got output type(s) [{aval}].")


def _loop(cond: ClosedGraph, body: ClosedGraph, carry: list[Tensor]) -> list[Tensor]:
    cond_consts, body_consts = cond.closure(), body.closure()
    if graph.is_tracing() or not _is_reverse([*cond_consts, *body_consts, *carry]):
        loop = While(cond.graph, body.graph, len(cond_consts), len(body_consts))
        return loop(*cond_consts, *body_consts, *carry)
    while True:
        going = concrete(cond(*carry)[0])
        if going is None:  # some vmap around it makes lanes of its own
            loop = While(cond.graph, body.graph, len(cond_consts), len(body_consts))
            return loop(*cond_consts, *body_consts, *carry)
        if not going:
            return carry
        carry = body(*carry)


def _is_reverse(tensors: Sequence[Tensor]) -> bool:
    """Tell whether some reverse-mode level differentiates with respect to one of `tensors`."""
    level = differentiating_level()
    return level is not None and level[1] and any(is_tracked(t, level[0]) for t in tensors)


def fori_loop(
    lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any, *, unroll: int | bool | None = None
) -> Any:
    """Return the carry after `carry = body_fun(i, carry)` for i from `lower` to `upper`, which is excluded.

    With static bounds this is a scan, so that reverse mode works; else a while_loop. `unroll` needs static bounds.
    Raises `TypeError` for bounds of different types.
    """
    if not callable(body_fun):
        raise TypeError("lax.fori_loop: body_fun argument should be callable.")
    bounds = [as_array(lower), as_array(upper)]
    dtype = _index_dtype(*bounds)
    start, stop = _static(lower), _static(upper)
    if start is None or stop is None:
        if unroll is not None:
            raise ValueError(
                "Can only use `unroll` in `fori_loop` if the loop bounds are statically known; leave unroll out."
            )
        return _dynamic_fori(bounds, dtype, body_fun, init_val)
    if config.disable_jit.value:
        for i in range(start, stop):
            init_val = body_fun(as_array(i), init_val)
        return init_val

    def step(carry: tuple[Any, Any], _: Any) -> tuple[Any, None]:
        i, value = carry
        return (i + 1, body_fun(i, value)), None

    weak = bounds[0].dtype == bounds[1].dtype and any(b.weak_type for b in bounds)
    index = Array(torch.full((), start, dtype=dtype, device=default_torch_device()), weak)
    steps = max(stop - start, 0)
    return scan(step, (index, init_val), None, length=steps, unroll=1 if unroll is None else unroll)[0][1]


def _index_dtype(lower: Array, upper: Array) -> torch.dtype:
    signed = all(dtypes.issubdtype(bound.dtype, np.signedinteger) for bound in (lower, upper))
    if lower.dtype == upper.dtype or (signed and upper.weak_type and not lower.weak_type):
        return dtypes.to_torch(lower.dtype)
    if signed and lower.weak_type and not upper.weak_type:
        return dtypes.to_torch(upper.dtype)
    raise TypeError(
        f"lower and upper arguments to fori_loop must have equal types, got {lower.dtype} and {upper.dtype}"
    )


def _static(bound: Any) -> int | None:
    if isinstance(bound, Array):
        if levels.is_batched(bound._tensor) or levels.is_fake(bound._tensor):
            return None
        return int(levels.base_of(bound._tensor))
    return int(bound) if isinstance(bound, int | float | np.generic | np.ndarray) else None


def _dynamic_fori(bounds: Sequence[Array], dtype: torch.dtype, body_fun: Callable[..., Any], init_val: Any) -> Any:
    same = bounds[0].dtype == bounds[1].dtype
    start, stop = (Array(convert(tensor_of(b), dtype), b.weak_type and same) for b in bounds)

    def going(carry: tuple[Any, Any, Any]) -> Any:
        i, end, _ = carry
        return i < end

    def step(carry: tuple[Any, Any, Any]) -> Any:
        i, end, value = carry
        return i + 1, end, body_fun(i, value)

    return while_loop(going, step, (start, stop, init_val))[2]
