"""custom_jvp and custom_vjp: functions whose derivative the user writes.

Called plainly, such a function is its Python function. Under a transformation or a trace it becomes a structured
primitive that carries the function's graph and the user's rule, so that the rule survives jit and applies at
whichever level differentiates. Rules are plain functions of tensors here (`Rule`); mapped over a batch, a primitive
maps its rule as well.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from .._core import derived, dtypes, errors, functorch, graph, tree
from .._core.array import Array, as_array, from_kind, tensor_of, type_text
from .._core.avals import ShapedArray
from .._core.derived import Inline
from .._core.graph import Graph, TensorType
from .._core.primitive import Dims, Primitive, differentiable, instantiate, popped_axis
from .._core.residuals import Forward, differentiating_level, is_tracked, map_optional, mapped_rule
from .._core.residuals import Rule as PullRule
from .._core.tree import flatten
from .flat import Output, arrays_from, as_argument, check_callable, name_of, positional_arguments, signature_of
from .jit import Program, trace_program, types_key

# rule(primals, tangents) -> tangents of the results; None is zero
Rule = Callable[[Sequence[Tensor], Sequence[Tensor | None]], list[Tensor | None]]


def is_transforming() -> bool:
    """Tell whether a functorch level or a trace is active in this thread."""
    return functorch.peek_interpreter_stack() is not None or graph.is_tracing()


# --------------------------------------------------------------------------------------------------------- custom_jvp


class CustomJVPCall(Primitive):
    """A call of a custom_jvp function; `rule(primals, tangents)` gives the tangents of the results."""

    __name__ = "custom_jvp_call"

    def __init__(self, body: Graph, captured: int, rule: Rule, function_name: str) -> None:
        self.body, self.captured, self.rule, self.function_name = body, captured, rule, function_name

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return self.body.out_types

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return self.body(*inputs)

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        argument_dims = dims[self.captured :]
        name = popped_axis()
        rule = _mapped_jvp_rule(self.rule, argument_dims, size, name)
        call = CustomJVPCall(derived.batched(self.body, dims, size, name), self.captured, rule, self.function_name)
        results = call(*inputs)
        return results, [0] * len(results)

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        self._check_closure(tangents)
        return self.rule(primals[self.captured :], tangents[self.captured :])

    def vjp(self, primals: Any, results: Any, cotangents: Any) -> Sequence[Tensor | None]:
        arguments = primals[self.captured :]
        active = [i for i, p in enumerate(arguments) if differentiable(p.dtype)]
        reached: list[bool] = []

        def linear(*directions: Tensor) -> tuple[Tensor, ...]:
            tangents: list[Tensor | None] = [None] * len(arguments)
            for i, d in zip(active, directions, strict=True):
                tangents[i] = d
            found = self.rule(arguments, tangents)
            reached[:] = [t is not None for t in found]
            return tuple(t for t in found if t is not None)

        _, transpose, *_ = torch.func.vjp(linear, *(torch.zeros_like(arguments[i]) for i in active))
        seeds = [instantiate(c, r) for c, r, hit in zip(cotangents, results, reached, strict=True) if hit]
        found = dict(zip(active, transpose(tuple(seeds)), strict=True))
        return [None] * self.captured + [found.get(i) for i in range(len(arguments))]

    def _check_closure(self, tangents: Sequence[Tensor | None]) -> None:
        if any(t is not None for t in tangents[: self.captured]):
            raise errors.UnexpectedTracerError(
                f"Detected differentiation of the custom_jvp function {self.function_name} with respect to a value "
                "that it closes over. That is not supported: pass the value as an argument."
            )


def _mapped_jvp_rule(rule: Rule, dims: Dims, size: int, name: Any) -> Rule:
    return lambda primals, tangents: map_optional(rule, (primals, tangents), (*dims, *dims), size, name)


class _CustomFunction:
    """What custom_jvp and custom_vjp share: arguments by position, nondifferentiable ones, metadata."""

    def __init__(
        self, fun: Callable[..., Any], nondiff_argnums: Sequence[int], nondiff_argnames: Sequence[str]
    ) -> None:
        check_callable(fun)
        functools.update_wrapper(self, fun)  # pyright: ignore
        self.fun = fun
        self._parameters = signature_of(fun)
        named = list(self._parameters.parameters) if self._parameters else []
        self.nondiff_argnums = tuple(sorted({*nondiff_argnums, *(named.index(n) for n in nondiff_argnames)}))
        self._traced: dict[Any, Any] = {}

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)  # pyright: ignore

    def _trace(self, function: Callable[..., Any], arrays: Sequence[Array], spec: Any) -> Program:
        return trace_program(function, arrays, lambda values: (spec.unflatten(values), {}), (), type(self).__name__)

    def _cached(
        self,
        what: str,
        nondiff: Sequence[Any],
        arrays: Sequence[Array],
        spec: Any,
        make: Callable[[], tuple[Program, Any]],
    ) -> Any:
        """Return (program, more) of `make`, kept for calls with the same types unless it captured a tracer."""
        key = (what, tuple((type(n), n) for n in nondiff), types_key(arrays, spec))
        try:
            found = self._traced.get(key)
        except TypeError:  # a nondifferentiable argument that cannot be hashed
            return make()
        if found is None:
            found = make()
            if not found[0].closed.captures_tracers and not any(isinstance(n, Array) for n in nondiff):
                self._traced[key] = found
        return found

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        return positional_arguments(self.fun, self._parameters, args, kwargs)

    def _split(self, args: tuple[Any, ...]) -> tuple[list[Any], tuple[Any, ...]]:
        """Return the nondifferentiable arguments and the others."""
        numbers = {n % len(args) for n in self.nondiff_argnums}
        return [args[i] for i in sorted(numbers)], tuple(a for i, a in enumerate(args) if i not in numbers)

    def _merge(self, nondiff: Sequence[Any], others: Sequence[Any]) -> list[Any]:
        """Invert `_split`."""
        count = len(nondiff) + len(others)
        numbers = {n % count for n in self.nondiff_argnums}
        fixed, free = iter(nondiff), iter(others)
        return [next(fixed) if i in numbers else next(free) for i in range(count)]


class custom_jvp(_CustomFunction):
    """A function with a forward-mode rule of its own, set by `defjvp`; reverse mode is its transpose.

    Arguments at `nondiff_argnums` are passed to the rule first, as they are.
    """

    def __init__(
        self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()
    ) -> None:
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.jvp: Callable[..., Any] | None = None
        self.symbolic_zeros = False

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Set the rule: `jvp(*nondiff, primals, tangents)` returns (result, tangent of the result).

        With `symbolic_zeros`, tangents that are known to be zero come as `SymbolicZero` objects.
        """
        self.jvp, self.symbolic_zeros = jvp, symbolic_zeros
        self._traced.clear()
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set one rule per argument: `jvp_i(tangent_i, result, *primals)`, None for an argument without influence."""
        if self.nondiff_argnums:
            raise TypeError("Can't use ``defjvps`` with ``nondiff_argnums``.")

        def jvp(primals: Any, tangents: Any) -> Any:
            result = self(*primals)
            terms = [rule(t, result, *primals) for rule, t in zip(jvps, tangents, strict=True) if rule is not None]
            if not terms:
                return result, tree.flatten(result)[1].unflatten(
                    Array(torch.zeros_like(tensor_of(a))) for a in map(as_array, tree.flatten(result)[0])
                )
            return result, functools.reduce(_add_trees, terms)

        self.defjvp(jvp)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.jvp is None:
            raise AttributeError(f"No JVP defined for custom_jvp function {name_of(self.fun)} using defjvp.")
        if not is_transforming():
            return self.fun(*args, **kwargs)
        nondiff, others = self._split(self._positional(args, kwargs))
        leaves, spec = tree.flatten(others)
        arrays = [as_argument(leaf, "custom_jvp") for leaf in leaves]

        def make() -> tuple[Program, Rule]:
            program = self._trace(lambda *xs: self.fun(*self._merge(nondiff, xs)), arrays, spec)
            return program, self._rule(nondiff, arrays, spec, program)

        program, rule = self._cached("jvp", nondiff, arrays, spec, make)
        closed = program.closed
        call = CustomJVPCall(closed.graph, len(closed.captured), rule, name_of(self.fun))
        results = call(*closed.closure(), *map(tensor_of, arrays))
        return program.out_spec.unflatten(arrays_from(results, program.out_kinds))

    def _rule(self, nondiff: Sequence[Any], arrays: Sequence[Array], spec: Any, program: Program) -> Rule:
        kinds = [a.kind for a in arrays]

        def rule(primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
            handles = arrays_from(primals, kinds)
            directions = [_tangent_argument(t, h, self.symbolic_zeros) for t, h in zip(tangents, handles, strict=True)]
            assert self.jvp is not None
            pair = self.jvp(*nondiff, spec.unflatten(handles), spec.unflatten(directions))
            return self._checked(pair, program)

        return rule

    def _checked(self, pair: Any, program: Program) -> list[Tensor | None]:
        names = f"Custom JVP rule {name_of(self.jvp)} for function {name_of(self.fun)}"  # pyright: ignore
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(
                f"{names} must produce a pair (list or tuple of length two) representing primal and tangent outputs, "
                f"but got {pair}."
            )
        (_, out_spec), (tangents, tangent_spec) = map(tree.flatten, pair)
        if out_spec != tangent_spec:
            raise TypeError(
                f"{names} must produce primal and tangent outputs with equal container (pytree) structures, but got "
                f"{tree.PyTreeDef(out_spec)} and {tree.PyTreeDef(tangent_spec)} respectively."
            )
        if out_spec != program.out_spec:
            raise TypeError(
                f"{names} must produce a pair (list or tuple of length two) where the first element represents the "
                f"primal output (equal in value to the output of the custom_jvp-decorated function), but its structure "
                f"is {tree.PyTreeDef(out_spec)} in place of {tree.PyTreeDef(program.out_spec)}."
            )
        return [_checked_tangent(t, type) for t, type in zip(tangents, program.closed.graph.out_types, strict=True)]


def _checked_tangent(value: Any, type: TensorType) -> Tensor | None:
    if isinstance(value, SymbolicZero) or getattr(value, "dtype", None) == dtypes.float0:
        return None
    array = as_array(value)
    expected = ShapedArray(type.shape, dtypes.TO_NUMPY[type.dtype])
    if not differentiable(type.dtype):
        return None
    if array.shape != expected.shape or array.dtype != expected.dtype:
        raise TypeError(
            "Custom JVP rule must produce primal and tangent outputs with corresponding shapes and dtypes. "
            f"Expected {expected.str_short()} (tangent type of {expected.str_short()}) but got {type_text(array)}."
        )
    return tensor_of(array)


def _tangent_argument(tangent: Tensor | None, primal: Array, symbolic_zeros: bool) -> Any:
    if tangent is not None:
        return from_kind(tangent, primal.kind)
    if symbolic_zeros:
        return SymbolicZero(ShapedArray(primal.shape, primal.dtype))
    if not differentiable(primal._tensor.dtype):
        import numpy as np

        return np.zeros(primal.shape, dtypes.float0)
    return from_kind(torch.zeros_like(tensor_of(primal)), primal.kind)


def _add_trees(left: Any, right: Any) -> Any:
    leaves, spec = tree.flatten(left)
    return spec.unflatten(a + b for a, b in zip(leaves, tree.flatten(right)[0], strict=True))


class SymbolicZero:
    """A tangent or cotangent that is known to be zero: type without values."""

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: self.aval.ndim)
    size = property(lambda self: self.aval.size)

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval.str_short()})"


# --------------------------------------------------------------------------------------------------------- custom_vjp


class CustomVJPCall(Primitive):
    """A call of a custom_vjp function, not yet differentiated: `body` computes it.

    Under a level that differentiates, the forward rule takes its place, which computes the residuals too.
    """

    __name__ = "custom_vjp_call"

    def __init__(self, body: Graph, forward: Callable[[], "_ForwardRule"], captured: int) -> None:
        self.body, self.forward, self.captured = body, forward, captured

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return self.body.out_types

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return self.body(*inputs)

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        name, argument_dims = popped_axis(), dims[self.captured :]
        body = derived.batched(self.body, dims, size, name)
        forward = functools.cache(lambda: self.forward().mapped(size, argument_dims, name))
        results = CustomVJPCall(body, forward, self.captured)(*inputs)
        return results, [0] * len(results)

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        level = differentiating_level()
        if level is not None:
            return self.forward().apply(inputs[self.captured :], level[0])
        return super().__call__(*inputs)


@dataclass(frozen=True)
class _ForwardRule:
    """A traced forward rule: `body(captured, arguments)` gives `count` results, then residuals for `rule`."""

    body: Graph
    captured: tuple[Tensor, ...]
    count: int
    rule: PullRule
    function_name: str

    def apply(self, arguments: Sequence[Tensor], level: int) -> list[Tensor]:
        """Return the results for `arguments`, differentiated by the user's rule at `level`."""
        captured = map(graph.lift, self.captured) if graph.tracing else self.captured
        return Forward(self.body, self.count, self.rule, level, Inline, self.function_name)(*captured, *arguments)[
            : self.count
        ]

    def mapped(self, size: int, argument_dims: Dims, name: Any) -> "_ForwardRule":
        """Return the rule mapped over a batch of arguments; what it captured is the same for all."""
        dims = (*[None] * len(self.captured), *argument_dims)
        body, rule = derived.batched(self.body, dims, size, name), mapped_rule(self.rule, dims, size, name)
        return replace(self, body=body, rule=rule)


class custom_vjp(_CustomFunction):
    """A function with a reverse-mode rule of its own, set by `defvjp`; forward mode is refused.

    Arguments at `nondiff_argnums` are passed to `fwd` in place and to `bwd` first, as they are.
    """

    def __init__(
        self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()
    ) -> None:
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        self.symbolic_zeros = False

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Set the rules: `fwd(*args)` returns (result, residuals), `bwd(*nondiff, residuals, cotangent)` a tuple.

        The tuple has one cotangent per differentiable argument, None for zero. With `symbolic_zeros`, `fwd` gets
        `CustomVJPPrimal` objects (value and whether it is perturbed) and zero cotangents come as `SymbolicZero`.
        """
        if optimize_remat:
            raise NotImplementedError(
                "defvjp(optimize_remat=True) is not supported; leave it out, values do not depend on it."
            )
        self.fwd, self.bwd, self.symbolic_zeros = fwd, bwd, symbolic_zeros
        self._traced.clear()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.fwd is None or self.bwd is None:
            raise AttributeError(f"No VJP defined for custom_vjp function {name_of(self.fun)} using defvjp.")
        if not is_transforming():
            return self.fun(*args, **kwargs)
        nondiff, others = self._split(self._positional(args, kwargs))
        leaves, spec = tree.flatten(others)
        arrays = [as_argument(leaf, "custom_vjp") for leaf in leaves]
        tensors = list(map(tensor_of, arrays))

        level = differentiating_level()
        # Where the function is only traced, a later derivative may be with respect to any argument.
        perturbed = tuple(level is None or not level[1] or is_tracked(t, level[0]) for t in tensors)

        def forward() -> tuple[Program, tuple[_ForwardRule, Output]]:
            what = f"fwd {perturbed}" if self.symbolic_zeros else "fwd"
            return self._cached(what, nondiff, arrays, spec, lambda: self._forward(nondiff, arrays, spec, perturbed))

        if level is not None:
            call, output = forward()[1]
            return output.spec.unflatten(arrays_from(call.apply(tensors, level[0]), output.kinds))
        program, _ = self._cached("call", nondiff, arrays, spec, lambda: (self._body(nondiff, arrays, spec), None))
        closed = program.closed
        call = CustomVJPCall(closed.graph, functools.cache(lambda: forward()[1][0]), len(closed.captured))
        results = call(*closed.closure(), *tensors)
        return program.out_spec.unflatten(arrays_from(results, program.out_kinds))

    def _body(self, nondiff: Sequence[Any], arrays: Sequence[Array], spec: Any) -> Program:
        return self._trace(lambda *xs: self.fun(*self._merge(nondiff, xs)), arrays, spec)

    def _forward(
        self, nondiff: Sequence[Any], arrays: Sequence[Array], spec: Any, perturbed: Sequence[bool]
    ) -> tuple[Program, tuple[_ForwardRule, Output]]:
        """Trace the forward rule; return its program, its primitive and the function's own output."""
        result: Output | None = None
        residuals: Output | None = None

        def fwd(*xs: Any) -> Any:
            nonlocal result, residuals
            if self.symbolic_zeros:
                xs = spec.unflatten(map(CustomVJPPrimal, tree.flatten(xs)[0], perturbed))
            assert self.fwd is not None
            pair = self.fwd(*self._merge(nondiff, xs))
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise TypeError(
                    f"Custom VJP fwd rule {name_of(self.fwd)} for function {name_of(self.fun)} must produce a pair (list "
                    "or tuple of length two) where the first element represents the primal output and the second "
                    "element represents residuals (i.e. values stored from the forward pass for use on the backward "
                    f"pass), but instead of a pair the fwd rule produced {pair}."
                )
            result, residuals = Output(pair[0], name_of(self.fwd)), Output(pair[1], name_of(self.fwd))
            return [*result.arrays, *residuals.arrays]

        program = self._trace(fwd, arrays, spec)
        assert result is not None and residuals is not None
        closed = program.closed
        rule = self._rule(nondiff, arrays, spec, result, residuals, len(closed.captured))
        forward = _ForwardRule(closed.graph, closed.captured, len(result.arrays), rule, name_of(self.fun))
        return program, (forward, result)

    def _rule(
        self,
        nondiff: Sequence[Any],
        arrays: Sequence[Array],
        spec: Any,
        result: Output,
        residuals: Output,
        captured: int,
    ) -> PullRule:
        types = [TensorType.of(a._tensor) for a in arrays]
        out_types = [ShapedArray(a.shape, a.dtype) for a in result.arrays]

        def rule(
            primals: Sequence[Tensor], saved: Sequence[Tensor], cotangents: Sequence[Tensor | None]
        ) -> list[Tensor | None]:
            held = residuals.spec.unflatten(arrays_from(saved, residuals.kinds))
            seeds = [
                _cotangent_argument(c, t, k, self.symbolic_zeros)
                for c, t, k in zip(cotangents, out_types, result.kinds, strict=True)
            ]
            assert self.bwd is not None
            given = self.bwd(*nondiff, held, result.spec.unflatten(seeds))
            matched = enumerate(zip(_matched(given, spec), types, strict=True))
            return [*[None] * captured, *(_checked_cotangent(g, t, i) for i, (g, t) in matched)]

        return rule


class CustomVJPPrimal:
    """What a forward rule with symbolic zeros gets per leaf: the value, and whether it is differentiated."""

    def __init__(self, value: Any, perturbed: bool) -> None:
        self.value, self.perturbed = value, perturbed


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """Return a pytree of `CustomVJPPrimal`s as one of their values."""
    leaves, spec = flatten(tree)
    return spec.unflatten(leaf.value if isinstance(leaf, CustomVJPPrimal) else leaf for leaf in leaves)


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """Return the zero tangent of a value: an array, or with `symbolic_zeros` a `SymbolicZero`."""
    array = as_array(val)
    if symbolic_zeros:
        return SymbolicZero(ShapedArray(array.shape, array.dtype))
    return _tangent_argument(None, array, symbolic_zeros=False)


def _cotangent_argument(cotangent: Tensor | None, type: ShapedArray, kind: Any, symbolic_zeros: bool) -> Any:
    if cotangent is not None:
        # torch's cotangents are the conjugates of JAX's.
        return from_kind(cotangent.conj() if cotangent.is_complex() else cotangent, kind)
    if symbolic_zeros:
        return SymbolicZero(type)
    if not dtypes.is_inexact(type.dtype):
        import numpy as np

        return np.zeros(type.shape, dtypes.float0)
    return Array(torch.zeros(type.shape, dtype=dtypes.to_torch(type.dtype)))


def _matched(given: Any, spec: Any) -> list[Any]:
    """Return the leaves of what a bwd rule gave, one per leaf of the arguments; None stands for a zero subtree."""
    children = spec.children()
    if not isinstance(given, tuple | list) or len(given) != len(children):
        raise TypeError(_bwd_structure(given, spec))
    leaves = []
    for child, part in zip(children, given, strict=True):
        try:
            leaves += tree.broadcast_prefix(part, child, is_leaf=lambda x: x is None or isinstance(x, SymbolicZero))
        except ValueError:
            raise TypeError(_bwd_structure(given, spec)) from None
    return leaves


def _bwd_structure(given: Any, spec: Any) -> str:
    return (
        "Custom VJP bwd rule must produce an output with the same container (pytree) structure as the args tuple of the "
        "primal function, and in particular must produce a tuple of length equal to the number of arguments to the "
        f"primal function, but got bwd output structure {tree.PyTreeDef(tree.flatten(given)[1])} for primal input "
        f"structure {tree.PyTreeDef(spec)}."
    )


def _checked_cotangent(value: Any, type: TensorType, index: int) -> Tensor | None:
    if value is None or isinstance(value, SymbolicZero) or not differentiable(type.dtype):
        return None
    array = as_array(value)
    if array.shape != type.shape:
        expected = ShapedArray(type.shape, dtypes.TO_NUMPY[type.dtype]).str_short()
        raise ValueError(
            "Custom VJP bwd rule must produce an output with the same type as the args tuple of the primal function, but "
            f"at output[{index}] the bwd rule produced an output of type {type_text(array)} corresponding to an input of "
            f"type {expected}, so the shapes do not match"
        )
    tensor = tensor_of(array).to(type.dtype)
    return tensor.conj() if tensor.is_complex() else tensor


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for functions that return (result, vjp function) in place of the result.

    The vjp function maps a cotangent of the result to a tuple of cotangents of the arguments (or one cotangent).
    """

    def primal(*args: Any) -> Any:
        return fun(*args)[0]

    def fwd(*args: Any) -> Any:
        result, pullback = fun(*args)
        return result, tree.Partial(pullback) if not isinstance(pullback, tree.Partial) else pullback

    def bwd(pullback: Callable[..., Any], cotangent: Any) -> Any:
        found = pullback(cotangent)
        return found if isinstance(found, tuple | list) else (found,)

    wrapped = custom_vjp(functools.wraps(fun)(primal))
    wrapped.defvjp(fwd, bwd)
    return wrapped
