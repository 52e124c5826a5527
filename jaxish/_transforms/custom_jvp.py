"""custom_jvp: a function with a forward-mode rule of its own. Reverse mode is the transpose of the rule."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._core import axes, config, derived, dtypes, errors, functorch, graph, levels, tree
from .._core.array import Array, as_array, tensor_of, type_text
from .._core.avals import ShapedArray, zeros_of
from .._core.graph import Graph, TensorType
from .._core.levels import is_perturbed
from .._core.primitive import Dims, Primitive, differentiable, popped_axis
from .._core.refs import references
from .._core.residuals import map_optional
from .._core.transposition import is_linear
from .._core.tree_util import tree_map
from .._core.user_rules import ByRule
from .custom_function import (
    CustomFunction,
    SymbolicZero,
    concrete_level,
    difference,
    differentiated_closure,
    is_transforming,
    taken_out,
    tangent_argument,
    without,
)
from .flat import Output, arrays_from, as_argument, dressed, float0_zeros, name_of, wraps
from .program import Program

# rule(primals, tangents) -> results and their tangents; None is zero
Rule = Callable[[Sequence[Tensor], Sequence[Tensor | None]], tuple[list[Tensor], list[Tensor | None]]]


class CustomJVPCall(ByRule):
    """A call of a custom_jvp function; `rule(primals, tangents)` takes its place where it is differentiated."""

    __name__ = "custom_jvp_call"
    rules = ("rule",)

    def __init__(
        self, body: Graph, captured: int, rule: Rule, function_name: str, symbolic_zeros: bool = False
    ) -> None:
        self.body, self.captured, self.rule, self.function_name = body, captured, rule, function_name
        self.symbolic_zeros = symbolic_zeros

    def equation(self) -> tuple[str, dict[str, Any]] | None:
        return self.__name__, {
            "name": self.function_name, "call_jaxpr": self.body, "jvp_jaxpr_fun": self.rule,
            "num_consts": self.captured, "symbolic_zeros": self.symbolic_zeros,
        }  # fmt: skip

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return self.body.out_types

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return self.body(*inputs)

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        argument_dims = dims[self.captured :]
        name = popped_axis()
        body, out_dims = derived.mapped(self.body, dims, size, name, _has_tangent)
        rule = _mapped_jvp_rule(self.rule, argument_dims, out_dims, size, name)
        rule.__name__ = name_of(self.rule)
        return CustomJVPCall(body, self.captured, rule, self.function_name, self.symbolic_zeros)(*inputs), out_dims

    def pushed(
        self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]
    ) -> tuple[list[Tensor], list[Tensor | None]]:
        self._check_closure(tangents)
        return self.rule(primals[self.captured :], tangents[self.captured :])

    def at_level(self, level: int) -> Primitive:
        # Applied to tangents, the function is transposed: its rule is for what is differentiated.
        return derived.Inline(self.body) if is_linear(level) else self

    def _check_closure(self, tangents: Sequence[Tensor | None]) -> None:
        if any(t is not None for t in tangents[: self.captured]):
            raise differentiated_closure("custom_jvp", self.function_name)


class _Called(ByRule):
    """A call of a custom_jvp function whose rule runs as Python; `output` says of what its result is made.

    `level`, the innermost one, differentiates, and goes `forward` or in reverse.
    """

    def __init__(self, rule: Callable[..., Any], level: int, forward: bool) -> None:
        self.rule, self.level, self.forward = rule, level, forward

    def pushed(
        self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]
    ) -> tuple[list[Tensor], list[Tensor | None]]:
        with without(self.level, self.forward):
            self.output, found = self.rule(primals, tangents)
            return taken_out((self.output.tensors, found))


def _has_tangent(type: TensorType) -> bool:
    """Tell whether a result may get a tangent: by a user's rule that may vary over a batch where the result does not."""
    return differentiable(type.dtype)


def _mapped_jvp_rule(rule: Rule, dims: Dims, out_dims: Dims, size: int, name: Any) -> Rule:
    def mapped(
        primals: Sequence[Tensor], tangents: Sequence[Tensor | None]
    ) -> tuple[list[Tensor], list[Tensor | None]]:
        def listed(*both: Any) -> list[Tensor | None]:
            results, found = rule(*both)
            return [*results, *found]

        found = map_optional(listed, (primals, tangents), (*dims, *dims), size, name)
        same = [
            t if t is None or d == 0 else t.select(0, 0) for t, d in zip(found, (*out_dims, *out_dims), strict=True)
        ]
        return same[: len(out_dims)], same[len(out_dims) :]  # pyright: ignore[reportReturnType]

    return mapped


class custom_jvp(CustomFunction):
    """A function with a forward-mode rule of its own, set by `defjvp`; reverse mode is its transpose.

    Arguments at `nondiff_argnums` are passed to the rule first, as they are.
    """

    def __init__(
        self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()
    ) -> None:
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.jvp: Any = None  # the rule, once there is one
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
        args = self._positional(args, kwargs)
        if not is_transforming():
            return self.fun(*args)
        nondiff, others = self._split(args)
        leaves, spec = tree.flatten(others)
        arrays = [as_argument(leaf, "custom_jvp") for leaf in leaves]
        if references(arrays):
            raise NotImplementedError(
                f"The custom_jvp function {name_of(self.fun)} takes a mutable array reference, which is not supported "
                "under a transformation; give it what the reference holds."
            )

        if graph.folds(a._tensor for a in arrays):  # all concrete, and to be computed now
            return self.fun(*args)
        level = concrete_level()
        if level is not None:
            if not any(is_perturbed(tensor_of(a), level) for a in arrays):
                return self._passed_by(level, nondiff, arrays, spec)
            if is_linear(level):
                return self.fun(*args)  # of tangents: it is transposed
            return self._concrete(level, nondiff, arrays, spec)

        given, structure = tree.flatten(nondiff)
        mapped = [i for i, leaf in enumerate(given) if isinstance(leaf, Array) and levels.is_batched(leaf._tensor)]
        if mapped:
            return self._mapped(given, structure, mapped, others)

        def make() -> tuple[Program, Rule]:
            program = self._trace(lambda *xs: self.fun(*self._merge(nondiff, xs)), arrays, spec)
            return program.pure("custom_jvp"), _of_tensors(
                self._rule(nondiff, arrays, spec, program), name_of(self.jvp)
            )

        program, rule = self._cached("jvp", nondiff, arrays, spec, make)
        closed = program.closed
        call = CustomJVPCall(closed.graph, len(closed.captured), rule, name_of(self.fun), self.symbolic_zeros)
        results = call(*closed.closure(), *map(tensor_of, arrays))
        return program.out_spec.unflatten(arrays_from(results, program.out_kinds))

    def _mapped(self, given: list[Any], structure: Any, mapped: Sequence[int], others: tuple[Any, ...]) -> Any:
        """Call the function where leaves of nondifferentiable arguments are batches, which the rule has to be mapped over, too."""

        def whole(values: Sequence[Any]) -> list[Any]:
            leaves = list(given)
            for place, value in zip(mapped, values, strict=True):
                leaves[place] = value
            return structure.unflatten(leaves)

        jvp = self.jvp

        def rule(primals: Any, tangents: Any) -> Any:
            if not all(isinstance(t, SymbolicZero) for t in tangents[0]):
                raise errors.UnexpectedTracerError(
                    f"Detected differentiation of the custom_jvp function {name_of(self.fun)} with respect to an argument in "
                    "nondiff_argnums. Pass it as an argument that is differentiated."
                )
            directions = tangents[1:] if self.symbolic_zeros else tree_map(_instantiated, tangents[1:])
            return jvp(*whole(primals[0]), primals[1:], directions)

        function = custom_jvp(lambda values, *xs: self.fun(*self._merge(whole(values), xs)))
        dressed(function, self.fun)
        function.defjvp(wraps(jvp)(rule), symbolic_zeros=True)
        return function([given[i] for i in mapped], *others)

    def _concrete(self, level: int, nondiff: Sequence[Any], arrays: Sequence[Array], spec: Any) -> Any:
        forward = functorch.current_interpreter().key() == functorch.TransformType.Jvp
        call = _Called(self._rule(nondiff, arrays, spec), level, forward)
        results = call(*map(tensor_of, arrays))
        return call.output.spec.unflatten(arrays_from(results, call.output.kinds))

    def _rule(
        self, nondiff: Sequence[Any], arrays: Sequence[Array], spec: Any, program: Program | None = None
    ) -> Callable[..., tuple[Output, list[Tensor | None]]]:
        """Return the rule as a function of tensors. What `program` returns, if given, is what it is to return."""
        kinds, x64, axes_bound = [a.kind for a in arrays], config.enable_x64.value, axes.remembered()

        def rule(primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> tuple[Output, list[Tensor | None]]:
            if config.enable_x64.value is not x64:  # a program may be differentiated later
                with config.enable_x64(x64):
                    return rule(primals, tangents)
            handles = arrays_from(primals, kinds)
            directions = [tangent_argument(t, h, self.symbolic_zeros) for t, h in zip(tangents, handles, strict=True)]
            with axes_bound():
                pair = self.jvp(*nondiff, spec.unflatten(handles), spec.unflatten(directions))
            return self._checked(pair, program)

        return rule

    def _checked(self, pair: Any, program: Program | None) -> tuple[Output, list[Tensor | None]]:
        names = f"Custom JVP rule {name_of(self.jvp)} for function {name_of(self.fun)}"
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(
                f"{names} must produce a pair (list or tuple of length two) representing primal and tangent outputs, "
                f"but got {pair}."
            )
        output, (tangents, tangent_spec) = Output(pair[0], name_of(self.jvp)), tree.flatten(pair[1])
        if output.spec != tangent_spec:
            raise TypeError(
                f"{names} must produce primal and tangent outputs with equal container (pytree) structures, but got "
                f"{tree.PyTreeDef(output.spec)} and {tree.PyTreeDef(tangent_spec)} respectively."
            )
        if program is not None:
            self._check_like(program, output, names)
        return output, [_checked_tangent(t, result) for t, result in zip(tangents, output.arrays, strict=True)]

    def _check_like(self, program: Program, output: Output, names: str) -> None:
        function = f"the custom_jvp-decorated function {name_of(self.fun)}"
        wrong = difference(output, program.out_spec, program.closed.graph.out_types, function, "JVP rule")
        if wrong is None:
            return
        alike = "with leaves of the same shape/dtype"
        if output.spec != program.out_spec:
            alike = "of the same container/pytree structure"
        raise TypeError(
            f"{names} must produce a pair (list or tuple of length two) where the first element represents the primal "
            f"output (equal in value to the output of {function}, and in particular {alike}), {wrong}"
        )


def _of_tensors(rule: Callable[..., tuple[Output, list[Tensor | None]]], name: str) -> Rule:
    def of_tensors(*given: Any) -> tuple[list[Tensor], list[Tensor | None]]:
        output, tangents = rule(*given)
        return output.tensors, tangents

    of_tensors.__name__ = name
    return of_tensors


def _instantiated(tangent: Any) -> Any:
    if not isinstance(tangent, SymbolicZero):
        return tangent
    return zeros_of(tangent.aval) if dtypes.is_inexact(tangent.dtype) else float0_zeros(tangent.shape)


def _checked_tangent(value: Any, result: Array) -> Tensor | None:
    if isinstance(value, SymbolicZero) or getattr(value, "dtype", None) == dtypes.float0:
        return None
    array = as_array(value)
    expected = ShapedArray(result.shape, result.dtype)
    if not differentiable(result._tensor.dtype):
        return None
    if array.shape != expected.shape or array.dtype != expected.dtype:
        raise TypeError(
            "Custom JVP rule must produce primal and tangent outputs with corresponding shapes and dtypes. "
            f"Expected {expected.str_short()} (tangent type of {expected.str_short()}) but got {type_text(array)}."
        )
    return tensor_of(array)


def _add_trees(left: Any, right: Any) -> Any:
    leaves, spec = tree.flatten(left)
    return spec.unflatten(a + b for a, b in zip(leaves, tree.flatten(right)[0], strict=True))
