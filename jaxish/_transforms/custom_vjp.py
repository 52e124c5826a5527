"""custom_vjp: a function with a reverse-mode rule of its own. Forward mode is refused."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from .._core import axes, derived, dtypes, errors, graph, levels, tree
from .._core.array import Array, as_array, from_kind, is_abstract, tensor_of, type_text
from .._core.avals import ShapedArray
from .._core.cells import Unaffected, after, by_handle, handle_type, unaffected
from .._core.derived import Inline
from .._core.graph import Graph, TensorType
from .._core.level_rules import linked
from .._core.levels import is_perturbed, is_tracked
from .._core.primitive import Dims, Primitive, conjugate, differentiable, popped_axis
from .._core.refs import Ref, RefArgument, check_aliases, references, returned
from .._core.residuals import Forward, Rule, differentiating_level, mapped_rule
from .._core.tree import flatten
from .._core.varying import gathered, mark, spread, varied, varied_as
from .custom_function import (
    CustomFunction,
    SymbolicZero,
    concrete_level,
    difference,
    differentiated_closure,
    is_transforming,
    one_level_out,
    taken_out,
)
from .flat import Output, argument_names, arrays_from, as_argument, as_output, described, float0_zeros, name_of
from .program import Call, Program, reference, trace_program


class CustomVJPCall(Primitive):
    """A call of a custom_vjp function, not yet differentiated: `body` computes it.

    Under a level that differentiates, the forward rule takes its place, which computes the residuals too. `forward`
    gives it for the arguments that are differentiated.
    """

    __name__ = "custom_vjp_call"
    rules = ("forward", "bwd", "function_name")

    def __init__(
        self, body: Graph, forward: Callable[[tuple[bool, ...]], "_ForwardRule"], captured: int,
        written: Sequence[Ref | int] = (), function_name: str = "", bwd: Callable[..., Any] | None = None,
        symbolic_zeros: bool = False,
    ) -> None:  # fmt: skip
        self.body, self.forward, self.captured, self.written = body, forward, captured, tuple(written)
        self.function_name, self.bwd, self.symbolic_zeros = function_name, bwd, symbolic_zeros

    def equation(self) -> tuple[str, dict[str, Any]] | None:
        return self.__name__, {
            "name": self.function_name, "call_jaxpr": self.body, "fwd_jaxpr_thunk": self.forward, "bwd": self.bwd,
            "num_consts": self.captured, "symbolic_zeros": self.symbolic_zeros,
        }  # fmt: skip

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return self.body.out_types

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return self.body(*inputs)

    def reached(self, changed: set[int]) -> set[int]:
        # Of the function's own results the rule, which is not known before it runs, may give cotangents for all.
        own = range(len(self.body.out_types) - len(self.written)) if changed else ()
        return {*own, *derived.reached(self.body, changed)}

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        name, argument_dims = popped_axis(), dims[self.captured :]
        body, out_dims = derived.mapped(self.body, dims, size, name)
        forward = functools.cache(lambda perturbed: self.forward(perturbed).mapped(size, argument_dims, name))
        forward.__name__ = name_of(self.forward)
        shown = (self.function_name, self.bwd, self.symbolic_zeros)
        return CustomVJPCall(body, forward, self.captured, self.written, *shown)(*inputs), out_dims

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        level = differentiating_level()
        if level is not None:
            arguments = inputs[self.captured :]
            _check_closure(inputs[: self.captured], level[0], self.function_name)
            forward = self.forward(_perturbed(arguments, level))
            results, written, _ = forward.apply(arguments, level[0])
            if not all(isinstance(source, int) for source in self.written) or not written.keys() <= {*self.written}:
                raise NotImplementedError(
                    f"The custom_vjp function {forward.function_name} writes a mutable array reference, and its fwd rule "
                    "another one, or it closes over one that it writes. Make it an argument that both write."
                )
            return [*results, *(written.get(source, arguments[source]) for source in self.written)]  # pyright: ignore
        return super().__call__(*inputs)


def _perturbed(arguments: Sequence[Tensor], level: tuple[int, bool]) -> tuple[bool, ...]:
    """Return which arguments a level, of which is known whether it goes in reverse, differentiates."""
    return tuple(not level[1] or is_tracked(t, level[0]) for t in arguments)


def _check_closure(captured: Sequence[Tensor], level: int, function_name: str) -> None:
    """Raise `UnexpectedTracerError` where a level differentiates what a function or its forward rule closes over."""
    if any(is_perturbed(t, level) for t in captured):
        raise differentiated_closure("custom_vjp", function_name)


@dataclass(frozen=True)
class _ForwardRule:
    """A traced forward rule: `body(captured, arguments, handles)` gives `count` results, then residuals for `rule`.

    `handles` say of which of the arguments, references all, handles are given. What the rule has written into
    references comes last.
    """

    body: Graph
    program: Program
    handles: tuple[int, ...]
    count: int
    rule: Rule
    function_name: str

    def apply(
        self, arguments: Sequence[Tensor], level: int
    ) -> tuple[list[Tensor], dict[Ref | int, Tensor], list[Unaffected]]:
        """Return the results for `arguments`, differentiated by the user's rule at `level`, and what was written.

        With what was written comes what tells on which inputs it depends.
        """
        given = dict(zip(self.handles, arguments[len(arguments) - len(self.handles) :], strict=True))
        captured = self.program.closure((), given)
        _check_closure(captured, level, self.function_name)
        call = Forward(self.body, self.count, self.rule, level, Inline, self.function_name, by_user=True)
        inputs = [*captured, *arguments]
        found = call(*inputs)
        written = () if self.program.uses is None else self.program.uses.written
        first = len(found) - len(written)
        reached = Inline(self.body).reached
        depends = [unaffected(reached, i, inputs) for i in range(first, len(found))]
        return found[: self.count], dict(zip(written, found[first:], strict=True)), depends

    def mapped(self, size: int, argument_dims: Dims, name: Any) -> "_ForwardRule":
        """Return the rule mapped over a batch of arguments; what it captured is the same for all."""
        dims = (*[None] * len(self.program.closed.captured), *argument_dims)
        body, out_dims = derived.mapped(self.body, dims, size, name)
        rule = mapped_rule(self.rule, dims, out_dims[: self.count], out_dims[self.count :], size, name, by_user=True)
        return replace(self, body=body, rule=rule)


def _per_device(result: Output, arguments: Any) -> list[Array]:
    """Return the result of a function as one that varies over devices as its arguments do, where no type tells what varies."""
    leaves = [x for x in tree.flatten(arguments)[0] if isinstance(x, Array) and differentiable(x._tensor.dtype)]
    values = varied_as(result.tensors, [*map(tensor_of, leaves)], axes.unchecked_devices())
    return arrays_from(values, result.kinds)


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
        `optimize_remat` asks that residuals nobody reads are not computed: in traces that holds without it.
        """
        self.fwd, self.bwd, self.symbolic_zeros = fwd, bwd, symbolic_zeros
        self._traced.clear()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.fwd is None or self.bwd is None:
            raise AttributeError(f"No VJP defined for custom_vjp function {name_of(self.fun)} using defvjp.")
        positional = self._positional(args, kwargs)
        if not is_transforming():
            return self._called(args, kwargs)
        nondiff, others = self._split(positional)
        self._check_nondiff(nondiff)
        leaves, spec = tree.flatten(others)
        arrays = [as_argument(leaf, "custom_vjp") for leaf in leaves]
        self._check_aliases(arrays, args, kwargs)
        handles = [ref.handle() for ref in references(arrays)]
        if graph.folds(a._tensor for a in arrays):  # all concrete, and to be computed now
            return self._called(args, kwargs)
        concrete = concrete_level()
        if concrete is not None and not handles:
            perturbed = [is_perturbed(tensor_of(a), concrete) for a in arrays]
            if not any(perturbed):
                return self._passed_by(concrete, nondiff, arrays, spec)
            if differentiating_level() == (concrete, True):
                return self._concrete(concrete, nondiff, arrays, spec, perturbed)
        # Where no type tells what varies, a rule is given what one device has.
        devices = axes.unchecked_devices()
        tensors = [*varied([*map(tensor_of, arrays)], devices), *handles]

        level, axes_bound = differentiating_level(), axes.remembered(for_graphs=True)

        def forward(perturbed: tuple[bool, ...]) -> tuple[Program, tuple[_ForwardRule, Output]]:
            what = f"fwd {perturbed}" if self.symbolic_zeros else "fwd"
            with axes_bound():  # a program may be differentiated later
                return self._cached(
                    what, nondiff, arrays, spec, lambda: self._forward(nondiff, arrays, spec, perturbed)
                )

        if level is not None:
            call, output = forward(_perturbed(tensors, level))[1]
            results, written, depends = call.apply(tensors, level[0])
            for (source, tensor), same in zip(written.items(), depends, strict=True):
                reference(source, arrays)._take_back(tensor, same)
            return output.spec.unflatten(arrays_from(results, output.kinds))
        program, _ = self._cached("call", nondiff, arrays, spec, lambda: (self._body(nondiff, arrays, spec), None))
        captured, body = len(program.closed.captured), _with_handles(program.closed.graph, arrays)
        written = () if program.uses is None else program.uses.written
        rule = functools.cache(lambda perturbed: self._consistent(forward(perturbed)[1], program))
        rule.__name__ = name_of(self.fwd)
        call = CustomVJPCall(body, rule, captured, written, name_of(self.fun), self.bwd, self.symbolic_zeros)
        inputs = [*program.closure(arrays), *tensors]
        results = program.settled(call(*inputs), arrays, inputs)
        return program.out_spec.unflatten(arrays_from(results, program.out_kinds))

    def _concrete(
        self, level: int, nondiff: Sequence[Any], arrays: Sequence[Array], spec: Any, perturbed: Sequence[bool]
    ) -> Any:
        tensors = [*map(tensor_of, arrays)]
        with one_level_out(arrays, level) as values:
            result, residuals = self._ran(nondiff, spec.unflatten(values), spec, perturbed)
            values, saved = taken_out((result.tensors, [*map(tensor_of, residuals.arrays)]))
        rule = self._rule(nondiff, arrays, spec, result, residuals, 0)
        smooth = [differentiable(t.dtype) for t in values]
        back = lambda needed, primals, results, cts: rule(primals, saved, cts)  # noqa: E731
        found = linked(tensors, values, smooth, back, from_zero=True)
        return result.spec.unflatten(arrays_from(found, result.kinds))

    def _consistent(self, found: "tuple[_ForwardRule, Output]", program: Program) -> "_ForwardRule":
        """Return a traced forward rule. Raises `TypeError` where its results are not like those of the function."""
        forward, output = found
        function = f"the custom_vjp-decorated function {name_of(self.fun)}"
        count = len(output.arrays)
        wrong = difference(output, program.out_spec, program.closed.graph.out_types[:count], function, "fwd rule")
        if wrong is not None:
            raise TypeError(f"{self._must_produce(function)}, {wrong}")
        return forward

    def _must_produce(self, function: str) -> str:
        return (
            f"Custom VJP fwd rule {name_of(self.fwd)} for function {name_of(self.fun)} must produce a pair (list or tuple of "  # pyright: ignore
            f"length two) where the first element represents the primal output (equal to the output of {function}) and the "
            "second element represents residuals (i.e. values stored from the forward pass for use on the backward pass)"
        )

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves = tree.flatten((args, kwargs))[0]
        if not any(isinstance(leaf, Ref) for leaf in leaves):
            return self.fun(*args, **kwargs)
        self._check_aliases([as_argument(x, "custom_vjp") for x in leaves if isinstance(x, Ref)], args, kwargs)
        result = self.fun(*args, **kwargs)
        for leaf in tree.flatten(result)[0]:
            if isinstance(leaf, Ref):
                raise returned(leaf, name_of(self.fun), result)
        return result

    def _check_nondiff(self, nondiff: Sequence[Any]) -> None:
        for leaf in tree.flatten(nondiff)[0]:
            if isinstance(leaf, Array) and (is_abstract(leaf) or levels.has_derivative(leaf._tensor)):
                raise errors.UnexpectedTracerError(
                    f"Found a traced array, {type_text(leaf)}, passed as an argument to a custom_vjp function in a position "
                    "indicated by nondiff_argnums as non-differentiable. Traced arrays cannot be passed as non-differentiable "
                    "arguments to custom_vjp functions; instead, nondiff_argnums should only be used for arguments that "
                    "cannot be or contain them, such as functions. Pass the array as an argument that is differentiated, and "
                    "return zeros (or None) for it from the backward rule."
                )

    def _check_aliases(self, arrays: Sequence[Array], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        def names() -> list[str]:
            of_leaves = zip(argument_names(self.fun, args, kwargs), tree.flatten((args, kwargs))[0], strict=False)
            return [name for name, leaf in of_leaves if isinstance(leaf, Ref)]

        found = [a for a in arrays if isinstance(a, RefArgument)]
        check_aliases(found, names, lambda: described(self.fun), "custom_vjp")

    def _body(self, nondiff: Sequence[Any], arrays: Sequence[Array], spec: Any) -> Program:
        def function(*xs: Any) -> Any:
            result = self.fun(*self._merge(nondiff, xs))
            if not axes.unchecked_devices():
                return result
            output = Output(result, name_of(self.fun))
            return output.spec.unflatten(_per_device(output, xs))

        return self._trace(function, arrays, spec)

    def _forward(
        self, nondiff: Sequence[Any], arrays: Sequence[Array], spec: Any, perturbed: Sequence[bool]
    ) -> tuple[Program, tuple[_ForwardRule, Output]]:
        """Trace the forward rule; return its program, its primitive and the function's own output."""
        outputs: list[tuple[Output, _Residuals]] = []

        def fwd(*xs: Any) -> Any:
            result, residuals = self._ran(nondiff, xs, spec, perturbed)
            outputs.append((result, residuals))
            return [*_per_device(result, xs), *residuals.arrays]

        program = self._trace(fwd, arrays, spec)
        result, residuals = outputs[-1]
        rule = self._rule(nondiff, arrays, spec, result, residuals, len(program.closed.captured))
        handles = tuple(i for i, a in enumerate(arrays) if isinstance(a, RefArgument))
        body = _with_handles(program.closed.graph, arrays)
        forward = _ForwardRule(body, program, handles, len(result.arrays), rule, name_of(self.fun))
        return program, (forward, result)

    def _ran(
        self, nondiff: Sequence[Any], xs: tuple[Any, ...], spec: Any, perturbed: Sequence[bool]
    ) -> "tuple[Output, _Residuals]":
        """Run the forward rule; return the function's own output and what is kept."""
        own = [x for x in tree.flatten(xs)[0] if isinstance(x, Ref)]
        if self.symbolic_zeros:
            pairs = zip(tree.flatten(xs)[0], perturbed, strict=False)
            xs = spec.unflatten(x if isinstance(x, Ref) else CustomVJPPrimal(x, p) for x, p in pairs)
        assert self.fwd is not None
        pair = self.fwd(*self._merge(nondiff, xs))
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            must = self._must_produce(f"the custom_vjp-decorated function {name_of(self.fun)}")
            raise TypeError(f"{must}, but instead of a pair the fwd rule {name_of(self.fwd)} produced {pair}.")
        result = Output(pair[0], name_of(self.fwd))
        return result, _Residuals(pair[1], own, name_of(self.fwd), result.tensors if axes.checked_axes() else ())

    def _rule(
        self,
        nondiff: Sequence[Any],
        arrays: Sequence[Array],
        spec: Any,
        result: Output,
        residuals: "_Residuals",
        captured: int,
    ) -> Rule:
        types = [TensorType.of(a._tensor) for a in arrays]
        ref_kinds = [(a.kind, t) for a, t in zip(arrays, types, strict=True) if isinstance(a, RefArgument)]
        out_types = [TensorType.of(a._tensor) for a in result.arrays]

        def rule(
            primals: Sequence[Tensor], saved: Sequence[Tensor], cotangents: Sequence[Tensor | None]
        ) -> list[Tensor | None]:
            handles = primals[captured + len(types) :]
            refs = [by_handle(handle, *kind) for handle, kind in zip(handles, ref_kinds, strict=True)]
            held = residuals.rebuilt(saved, refs)
            names = axes.checked_axes()
            cotangents = residuals.as_given(cotangents, saved, names)
            seeds = [
                _cotangent_argument(c, t, k, self.symbolic_zeros)
                for c, t, k in zip(cotangents, out_types, result.kinds, strict=True)
            ]
            assert self.bwd is not None
            with after([c for c in cotangents if c is not None]):
                given = self.bwd(*nondiff, held, result.spec.unflatten(seeds))
            matched = enumerate(zip(_matched(given, spec), types, strict=True))
            checked = (_checked_cotangent(g, t, i) for i, (g, t) in matched)
            own = primals[captured : captured + len(types)]
            found = [c if c is None else spread([c], [mark(p)], names)[0] for c, p in zip(checked, own, strict=True)]
            return [*[None] * captured, *found, *[None] * len(handles)]

        return rule


class _Residuals:
    """What a forward rule keeps for the way back: arrays, references among its arguments, and Python's own values.

    Where types tell what varies over devices it keeps the types of the `results`, too.
    """

    def __init__(self, values: Any, own: Sequence[Ref], function_name: str, results: Sequence[Tensor]) -> None:
        leaves, self._spec = tree.flatten(values)
        self._refs: dict[int, int] = {}
        self._numbers: dict[int, Any] = {}  # which stay what they are, for rules that branch on them
        self.arrays: list[Array] = []
        for place, leaf in enumerate(leaves):
            if isinstance(leaf, bool | int | float | complex):
                self._numbers[place] = leaf
            elif not isinstance(leaf, Ref):
                self.arrays.append(as_output(leaf, function_name))
            elif leaf in own:
                self._refs[place] = own.index(leaf)
            else:
                raise ValueError(
                    f"custom_vjp fwd function {function_name} returned a mutable array reference of type {leaf.aval} "
                    "among its residuals that is none of its arguments, but mutable array references cannot be "
                    "returned there."
                )
        self._kinds = [a.kind for a in self.arrays]
        self.arrays += [Array(mark(t)) for t in results]

    def rebuilt(self, tensors: Sequence[Tensor], refs: Sequence[Ref]) -> Any:
        """Return what the rule kept, of the tensors that were saved and the references as they are now."""
        saved = iter(arrays_from(tensors[: len(self._kinds)], self._kinds))
        known = {**self._numbers, **{place: refs[number] for place, number in self._refs.items()}}
        return self._spec.unflatten(known[i] if i in known else next(saved) for i in range(self._spec.num_leaves))

    def as_given(
        self, cotangents: Sequence[Tensor | None], tensors: Sequence[Tensor], names: axes.Axes
    ) -> list[Tensor | None]:
        """Return the cotangents as the user's rule is given them, with tensors that were saved."""
        if not names:
            return list(cotangents)
        marks = tensors[len(self._kinds) :][: len(cotangents)]
        return [c if c is None else gathered([c], [m], names)[0] for c, m in zip(cotangents, marks, strict=True)]


def _with_handles(body: Graph, arrays: Sequence[Array]) -> Graph:
    """Return a graph that takes handles of references behind its other inputs: its rules use them, it does not."""
    types = [handle_type(a.ref) for a in arrays if isinstance(a, RefArgument)]
    key, count = ("handles", tuple(types)), len(body.in_types)
    return (
        derived.cached(body, key, lambda: derived.placed(body, [*body.in_types, *types], range(count)))
        if types
        else body
    )


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
        return from_kind(conjugate(cotangent), kind)
    if symbolic_zeros:
        return SymbolicZero(ShapedArray(type.shape, dtypes.TO_NUMPY[type.dtype]))
    if not differentiable(type.dtype):
        return float0_zeros(type.shape)
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
    return conjugate(tensor_of(array).to(type.dtype))


def _converted(pullback: Callable[..., Any], result: Any) -> tree.Partial:
    """Return a function of cotangents of `result` as a pytree of what it closes over."""
    leaves, spec = tree.flatten(result)
    arrays = [as_argument(x, "custom_gradient") for x in leaves]
    rebuild = lambda values: ((spec.unflatten(values),), {})  # noqa: E731
    program = trace_program(pullback, arrays, rebuild, (), "custom_gradient").pure("custom_gradient")

    def pull(captured: Sequence[Array], cotangent: Any) -> Any:
        inputs = map(tensor_of, map(as_array, (*captured, *tree.flatten(cotangent)[0])))
        results = Call(program.closed.graph, program.name)(*inputs)
        return program.out_spec.unflatten(arrays_from(results, program.out_kinds))

    return tree.Partial(pull, [Array(t) for t in program.closed.closure()])


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for functions that return (result, vjp function) in place of the result.

    The vjp function maps a cotangent of the result to a tuple of cotangents of the arguments (or one cotangent).
    """

    def primal(*args: Any) -> Any:
        return fun(*args)[0]

    def fwd(*args: Any) -> Any:
        result, pullback = fun(*args)
        return result, _converted(pullback, result)

    def bwd(pullback: Callable[..., Any], cotangent: Any) -> Any:
        found = pullback(cotangent)
        return found if isinstance(found, tuple | list) else (found,)

    wrapped = custom_vjp(functools.wraps(fun)(primal))
    wrapped.defvjp(fwd, bwd)
    return wrapped
