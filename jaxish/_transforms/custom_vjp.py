"""custom_vjp: a function with a reverse-mode rule of its own. Forward mode is refused."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import derived, dtypes, graph, tree
from .._core.array import Array, as_array, from_kind, tensor_of, type_text
from .._core.avals import ShapedArray
from .._core.derived import Inline
from .._core.graph import Graph, TensorType
from .._core.primitive import Dims, Primitive, differentiable, popped_axis
from .._core.residuals import Forward, Rule, differentiating_level, is_tracked, mapped_rule
from .._core.tree import flatten
from .custom_function import CustomFunction, SymbolicZero, is_transforming
from .flat import Output, arrays_from, as_argument, name_of
from .program import Program


class CustomVJPCall(Primitive):
    """A call of a custom_vjp function, not yet differentiated: `body` computes it.

    Under a level that differentiates, the forward rule takes its place, which computes the residuals too.
    """

    __name__ = "custom_vjp_call"
    rules = ("forward",)

    def __init__(self, body: Graph, forward: Callable[[], "_ForwardRule"], captured: int) -> None:
        self.body, self.forward, self.captured = body, forward, captured

    def equation(self) -> tuple[str, dict[str, Any]] | None:
        return self.__name__, {
            "name": self.forward().function_name, "call_jaxpr": self.body, "fwd_jaxpr_thunk": self.forward,
            "num_consts": self.captured,
        }  # fmt: skip

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
    rule: Rule
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


class custom_vjp(CustomFunction):
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
        returned: list[Output] = []

        def fwd(*xs: Any) -> Any:
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
            returned.extend(Output(part, name_of(self.fwd)) for part in pair)
            return [array for output in returned for array in output.arrays]

        program = self._trace(fwd, arrays, spec)
        result, residuals = returned
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
    ) -> Rule:
        types = [TensorType.of(a._tensor) for a in arrays]
        out_types = [TensorType.of(a._tensor) for a in result.arrays]

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


def _cotangent_argument(cotangent: Tensor | None, type: TensorType, kind: Any, symbolic_zeros: bool) -> Any:
    if cotangent is not None:
        # torch's cotangents are the conjugates of JAX's.
        return from_kind(cotangent.conj() if cotangent.is_complex() else cotangent, kind)
    if symbolic_zeros:
        return SymbolicZero(ShapedArray(type.shape, dtypes.TO_NUMPY[type.dtype]))
    if not differentiable(type.dtype):
        return np.zeros(type.shape, dtypes.float0)
    return Array(torch.zeros(type.shape, dtype=type.dtype, device=type.device))


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
