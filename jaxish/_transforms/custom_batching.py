"""custom_vmap: functions whose batching rule the user writes."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from .._core import axes, derived, functorch, graph, tree
from .._core.array import tensor_of
from .._core.graph import Graph, TensorType
from .._core.primitive import Dims, Primitive, batch_front, differentiable, popped_axis
from .custom_function import Definitions
from .flat import (
    Output,
    arrays_from,
    as_argument,
    check_callable,
    dressed,
    name_of,
    positional_arguments,
    signature_of,
)
from .program import Program, trace_program

# rule(size, which inputs are batched, inputs batched along dimension 0) -> results, and which of them are batched
FlatRule = Callable[[int, Sequence[bool], Sequence[Tensor]], tuple[list[Tensor], list[bool]]]


class CustomVmapCall(Primitive):
    """A call of a custom_vmap function. Its first `captured` inputs are what the function closes over."""

    __name__ = "custom_vmap_call"
    rules = ("rule",)

    def __init__(self, body: Graph, captured: int, rule: FlatRule, function_name: str) -> None:
        self.body, self.captured, self.rule, self.function_name = body, captured, rule, function_name

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return self.body.out_types

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return self.body(*inputs)

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        arguments, argument_dims = inputs[self.captured :], dims[self.captured :]
        axis = popped_axis()
        if axes.are_devices(axis):
            return self._on_devices(size, dims, axis, inputs)
        if any(d is not None for d in dims[: self.captured]):
            # The rule knows nothing of what the function closes over, so that it cannot batch it.
            results = derived.Inline(derived.batched(self.body, dims, size, axis))(*inputs)
            return results, [0] * len(results)
        front = [t if d is None else t.movedim(d, 0) for t, d in zip(arguments, argument_dims, strict=True)]
        results, batched = self.rule(size, [d is not None for d in argument_dims], front)
        return results, [0 if b else None for b in batched]

    def _on_devices(
        self, size: int, dims: Dims, axis: Any, inputs: Sequence[Tensor]
    ) -> tuple[list[Tensor], list[int | None]]:
        """Call the function on each of `size` devices: the rule is for what else batches the calls."""
        body, out_dims = derived.mapped(self.body, dims, size, axis)
        rule = _rule_on_devices(self.rule, dims[self.captured :], out_dims, size, axis)
        return CustomVmapCall(body, self.captured, rule, self.function_name)(*inputs), out_dims

    def pushed(
        self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]
    ) -> tuple[Sequence[Tensor], Sequence[Tensor | None]]:
        active = [t is not None for t in tangents]
        given = active[self.captured :]
        pushed, moves = derived.forward_mode(self.body, active, [differentiable(t.dtype) for t in self.body.out_types])
        call: Primitive = CustomVmapCall(pushed, self.captured, _pushed_rule(self.rule, given), self.function_name)
        if any(active[: self.captured]):  # of which the rule knows nothing
            call = derived.Inline(pushed)
        results = call(*primals, *(t for t in tangents if t is not None))
        return derived.results_and_tangents(results, moves)

    def vjp(self, primals: Any, results: Any, cotangents: Any) -> Sequence[Tensor | None]:
        return derived.vjp_rule(self.body, derived.Inline, primals, results, cotangents)


def _rule_on_devices(rule: FlatRule, dims: Dims, out_dims: Sequence[int | None], size: int, axis: Any) -> FlatRule:
    """Return the rule of a function that devices call each: of arguments along `dims`, and results along `out_dims`."""

    def rule_on_devices(
        count: int, batched: Sequence[bool], inputs: Sequence[Tensor]
    ) -> tuple[list[Tensor], list[bool]]:
        found: list[bool] = []

        def on_device(*arguments: Tensor) -> Sequence[Tensor]:
            results, found[:] = rule(count, batched, arguments)
            return results

        places = [None if d is None else d + b for d, b in zip(dims, batched, strict=True)]
        pairs = axes.map_tensors(on_device, inputs, places, size, axis)
        results = []
        for (out, dim), wanted, b in zip(pairs, out_dims, found, strict=True):
            if wanted is None:
                results.append(out if dim is None else out.select(dim, 0))
            else:
                results.append(batch_front(out, dim, size).movedim(0, int(b)))
        return results, found

    return rule_on_devices


def _pushed_rule(rule: FlatRule, active: Sequence[bool]) -> FlatRule:
    """Return the rule of a function in forward mode, whose inputs are arguments and tangents of the active ones.

    Where an argument or its tangent alone is batched, the rule is asked about no batch, and mapped, as in JAX. Where there
    are such beside arguments that are batched as a whole, all are made alike: JAX 0.10.2 gives results of other shapes.
    """

    def pushed(size: int, batched: Sequence[bool], inputs: Sequence[Tensor]) -> tuple[list[Tensor], list[bool]]:
        count = len(active)
        moving = iter(batched[count:])
        pairs = [(b, next(moving) if a else b) for b, a in zip(batched, active, strict=False)]
        if not any(b and m for b, m in pairs):
            found: list[bool] = []
            ask = _asking(rule, size, [False] * count, active, found)
            mapped = axes.map_tensors(ask, inputs, [0 if b else None for b in batched], size, popped_axis())
            if not any(found):
                return [t if d is None else t.movedim(d, 0) for t, d in mapped], [d is not None for _, d in mapped]
        alike = [b or m for b, m in pairs]
        wanted = [*alike, *(w for w, a in zip(alike, active, strict=True) if a)]
        given = [_batch(t, have, want, size) for t, have, want in zip(inputs, batched, wanted, strict=True)]
        results = _asking(rule, size, alike, active, found := [])(*given)
        of_tangents = [f for f, r in zip(found, results, strict=False) if differentiable(r.dtype)]
        return results, [*found, *of_tangents]

    return pushed


def _asking(
    rule: FlatRule, size: int, batched: Sequence[bool], active: Sequence[bool], found: list[bool]
) -> Callable[..., list[Tensor]]:
    """Return a function of arguments and tangents that asks the rule in forward mode, and notes what it finds batched."""

    def of_arguments(*arguments: Tensor) -> list[Tensor]:
        results, found[:] = rule(size, batched, arguments)
        return results

    return lambda *both: derived.jvp_call(of_arguments, active, both[: len(active)], both[len(active) :])


def _batch(tensor: Tensor, batched: bool, wanted: bool, size: int) -> Tensor:
    # Forward mode writes into tangents, which cannot be one number seen many times.
    return batch_front(tensor, None, size).contiguous() if wanted and not batched else tensor


class custom_vmap(Definitions):
    """A function with a batching rule of its own, set by `def_vmap`.

    `rule(axis_size, in_batched, *args)` gets the arguments batched along their axis 0 where `in_batched`, a list of
    pytrees of bools, says so; it returns the result and a pytree of bools that says where the result is batched.
    """

    def __init__(self, fun: Callable[..., Any]) -> None:
        check_callable(fun)
        dressed(self, fun)
        self.fun = fun
        self.vmap_rule: Callable[..., tuple[Any, Any]] | None = None

    def def_vmap(self, vmap_rule: Callable[..., tuple[Any, Any]]) -> Callable[..., tuple[Any, Any]]:
        """Set the batching rule."""
        self.vmap_rule = vmap_rule
        return vmap_rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, through its rule where an argument is batched.

        Raises `AttributeError` when no rule is set, `ValueError` when a rule's result has not the function's structure.
        """
        if self.vmap_rule is None:
            raise AttributeError(
                f"No batching rule defined for custom_vmap function {name_of(self.fun)} using def_vmap."
            )
        args = positional_arguments(self.fun, signature_of(self.fun), args, kwargs, "custom_vmap")
        leaves, spec = tree.flatten(args)
        arrays = [as_argument(leaf, "custom_vmap") for leaf in leaves]
        if functorch.peek_interpreter_stack() is None and not graph.is_tracing():
            return self.fun(*spec.unflatten(arrays))
        program = trace_program(self.fun, arrays, lambda values: (spec.unflatten(values), {}), (), "custom_vmap").pure(
            "custom_vmap"
        )
        closed = program.closed
        rule = self._rule(self.vmap_rule, [a.kind for a in arrays], spec, program)
        call = CustomVmapCall(closed.graph, len(closed.captured), rule, name_of(self.fun))
        results = call(*closed.closure(), *map(tensor_of, arrays))
        return program.out_spec.unflatten(arrays_from(results, program.out_kinds))

    def _rule(self, vmap_rule: Callable[..., Any], kinds: Sequence[Any], spec: tree.Spec, program: Program) -> FlatRule:
        def rule(size: int, batched: Sequence[bool], inputs: Sequence[Tensor]) -> tuple[list[Tensor], list[bool]]:
            args = spec.unflatten(arrays_from(inputs, kinds))
            result, out_batched = vmap_rule(size, [*spec.unflatten(batched)], *args)
            output = Output(result, name_of(vmap_rule))
            flags, flags_spec = tree.flatten(out_batched)
            if output.spec != flags_spec:
                raise ValueError(
                    f"structure of output value and output batching specification returned by custom vmap rule "
                    f"({name_of(vmap_rule)}) do not match. Output values: {tree.PyTreeDef(output.spec)} Batching spec: "
                    f"{tree.PyTreeDef(flags_spec)}"
                )
            if output.spec != program.out_spec:
                raise ValueError(
                    f"structure of output returned by custom vmap rule ({name_of(vmap_rule)}) does not match that of "
                    f"original custom-vmapped function. Original output: {tree.PyTreeDef(program.out_spec)} Rule "
                    f"output: {tree.PyTreeDef(output.spec)}"
                )
            return output.tensors, [bool(f) for f in flags]

        return rule
