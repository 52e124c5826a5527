"""What custom_jvp and custom_vjp share: functions whose derivative the user writes.

Called plainly, such a function is its Python function. Under a transformation or a trace it becomes a structured
primitive that carries the function's graph and the user's rule, so that the rule survives jit and applies at
whichever level differentiates. Rules are plain functions of tensors; mapped over a batch, a primitive maps its rule.
Where the innermost level differentiates and nothing is traced, the function and its rule run as Python one level out,
so that they see concrete values and what they close over, as in JAX.
"""

import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from .._core import dtypes, errors, functorch, graph, tree
from .._core.array import Array, as_array, from_kind, tensor_of, type_text
from .._core.avals import ShapedArray
from .._core.graph import TensorType
from .._core.primitive import differentiable
from .._core.tree_util import tree_map
from .flat import (
    Output,
    arrays_from,
    check_callable,
    dressed,
    float0_zeros,
    name_of,
    positional_arguments,
    signature_of,
)
from .program import Program, trace_program, types_key


def differentiated_closure(kind: str, function_name: str) -> errors.UnexpectedTracerError:
    """Return the error for a function that closes over what is differentiated, of which its rule says nothing."""
    return errors.UnexpectedTracerError(
        f"Detected differentiation of the {kind} function {function_name} with respect to a value that it closes over. That "
        "is not supported: pass the value as an argument (jax.closure_convert does so)."
    )


def is_transforming() -> bool:
    """Tell whether a functorch level or a trace is active in this thread."""
    return functorch.peek_interpreter_stack() is not None or graph.is_tracing()


def concrete_level() -> int | None:
    """Return the innermost level if functions run as Python there: it differentiates, and nothing is traced."""
    if graph.is_tracing():
        return None
    interpreter = functorch.peek_interpreter_stack()
    if interpreter is None or interpreter.key() not in (functorch.TransformType.Grad, functorch.TransformType.Jvp):
        return None
    return interpreter.level()


@contextmanager
def one_level_out(arrays: Sequence[Array], level: int) -> Iterator[list[Array]]:
    """Within it `level`, the innermost one, is put aside; what `arrays` are there is given."""
    tensors = [functorch.unwrap_for_grad(tensor_of(a), level) for a in arrays]
    interpreter = functorch.current_interpreter()
    forward = interpreter.key() == functorch.TransformType.Jvp
    with functorch.forward_mode_enabled(True), interpreter.lower(), without(level, forward):
        yield arrays_from(tensors, [a.kind for a in arrays])


@contextmanager
def without(level: int, forward: bool) -> Iterator[None]:
    """Within it no operator takes a tensor of `level`, which has been put aside, and is forward mode's or not."""
    before = _aside.forward
    _aside.forward = before | {level} if forward else before
    try:
        with _ChecksLevels():
            yield
    finally:
        _aside.forward = before


class _Aside(threading.local):
    """Which of the levels that have been put aside are forward mode's, where nothing tells constants."""

    forward: frozenset[int] = frozenset()


_aside = _Aside()


def taken_out(value: Any) -> Any:
    """Return arguments of an operator without the levels that have been put aside, which torch asserts not to meet.

    A constant there, as stop_gradient makes one, is what it wraps. Raises `UnexpectedTracerError` for a tensor whose tangent
    would be lost.
    """
    interpreter = functorch.peek_interpreter_stack()
    return _taken_out(value, 0 if interpreter is None else interpreter.level())


def _taken_out(value: Any, innermost: int) -> Any:
    if isinstance(value, Tensor):
        while _is_put_aside(value, innermost):
            if value.requires_grad or functorch.maybe_get_level(value) in _aside.forward:
                raise errors.tracer_error(errors.UnexpectedTracerError, tuple(value.shape))
            value = functorch.get_unwrapped(value)
        return value
    if type(value) in (list, tuple):
        return type(value)(_taken_out(v, innermost) for v in value)
    return value


def _is_put_aside(tensor: Tensor, innermost: int) -> bool:
    return (
        functorch.is_gradtrackingtensor(tensor)
        and functorch.maybe_get_level(tensor) > innermost
        and functorch.unwrap_if_dead(tensor) is tensor
    )


class _ChecksLevels(TorchFunctionMode):
    """Within this mode no operator takes a tensor of a level that has been put aside. torch would take what it wraps."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not graph.is_tracing():  # a trace captures them
            args = taken_out(args)
        return func(*args, **(kwargs or {}))


def difference(found: Output, spec: Any, types: Sequence[TensorType], function: str, rule: str) -> str | None:
    """Say in what the result of a rule differs from the one of its function, in structure or types; None if in nothing.

    `function` and `rule` say whose they are.
    """
    found_types = [TensorType.of(a._tensor) for a in found.arrays]
    if found.spec != spec:
        what, ends = ("container/pytree structure:", "output container/pytree structure:"), "."
    elif [(t.shape, t.dtype) for t in found_types] != [(t.shape, t.dtype) for t in types]:
        what, ends = ("shapes/dtypes of:", "output shapes/dtypes of:"), _first_difference(found, types, rule)
    else:
        return None
    texts = (_types_text(found.spec, found_types), _types_text(spec, types))
    return (
        f"but instead the {rule} output's first element had {what[0]}\n    {texts[0]}\n"
        f"while {function} had {what[1]}\n    {texts[1]}{ends}"
    )


def _first_difference(found: Output, types: Sequence[TensorType], rule: str) -> str:
    if found.spec.is_leaf():
        return ""
    paths = [path for path, _ in tree.leaves_with_path(found.spec.unflatten(found.arrays))]
    for path, array, wanted in zip(paths, found.arrays, types, strict=True):
        type = ShapedArray(wanted.shape, dtypes.TO_NUMPY[wanted.dtype]).str_short()
        if type_text(array) != type:
            return (
                f"\nThat is, at {tree.keystr(path)}, got {rule.split()[0]} output type {type_text(array)} which doesn't match primal "
                f"output type {type}."
            )
    return ""


def _types_text(spec: Any, types: Sequence[TensorType]) -> str:
    texts = (ShapedArray(t.shape, dtypes.TO_NUMPY[t.dtype]).str_short() for t in types)
    return str(spec.unflatten(texts)).replace("'", "")


class Definitions:
    """What lets one define rules of the decorated function where that is of another of these kinds."""

    fun: Callable[..., Any]

    def __getattr__(self, name: str) -> Any:
        if name in ("defjvp", "defjvps", "defvjp", "def_vmap"):
            return getattr(self.fun, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class CustomFunction(Definitions):
    """What custom_jvp and custom_vjp share: arguments by position, nondifferentiable ones, metadata."""

    def __init__(
        self, fun: Callable[..., Any], nondiff_argnums: Sequence[int], nondiff_argnames: Sequence[str]
    ) -> None:
        check_callable(fun)
        dressed(self, fun)
        self.fun = fun
        self._parameters = signature_of(fun)
        named = list(self._parameters.parameters) if self._parameters else []
        self.nondiff_argnums = tuple(sorted({*nondiff_argnums, *(named.index(n) for n in nondiff_argnames)}))
        self._traced: dict[Any, Any] = {}

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.fun)

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
            if not found[0].is_for_this_call_only and not any(isinstance(n, Array) for n in nondiff):
                self._traced[key] = found
        return found

    def _passed_by(self, level: int, nondiff: Sequence[Any], arrays: Sequence[Array], spec: Any) -> Any:
        """Call the function where `level`, the innermost one, differentiates none of its arguments."""
        with one_level_out(arrays, level) as values:
            result = self(*self._merge(nondiff, spec.unflatten(values)))
            taken_out(Output(result, name_of(self.fun)).tensors)
            return result

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, by its rule where it is differentiated."""
        raise NotImplementedError

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        return positional_arguments(self.fun, self._parameters, args, kwargs, type(self).__name__)

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


def tangent_argument(tangent: Tensor | None, primal: Array, symbolic_zeros: bool) -> Any:
    if tangent is not None:
        return from_kind(tangent, primal.kind)
    if symbolic_zeros:
        return SymbolicZero(ShapedArray(primal.shape, primal.dtype))
    if not differentiable(primal._tensor.dtype):
        return float0_zeros(primal.shape)
    return from_kind(torch.zeros_like(tensor_of(primal)), primal.kind)


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """Return the zero tangents of a pytree of values: arrays, or with `symbolic_zeros` `SymbolicZero`s."""

    def zero(leaf: Any) -> Any:
        array = as_array(leaf)
        if symbolic_zeros:
            return SymbolicZero(ShapedArray(array.shape, array.dtype))
        return tangent_argument(None, array, symbolic_zeros=False)

    return tree_map(zero, val)
