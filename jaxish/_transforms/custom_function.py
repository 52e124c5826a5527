"""What custom_jvp and custom_vjp share: functions whose derivative the user writes.

Called plainly, such a function is its Python function. Under a transformation or a trace it becomes a structured
primitive that carries the function's graph and the user's rule, so that the rule survives jit and applies at
whichever level differentiates. Rules are plain functions of tensors; mapped over a batch, a primitive maps its rule.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import dtypes, functorch, graph
from .._core.array import Array, as_array, from_kind, tensor_of
from .._core.avals import ShapedArray
from .._core.primitive import differentiable
from .flat import check_callable, positional_arguments, signature_of
from .program import Program, trace_program, types_key


def is_transforming() -> bool:
    """Tell whether a functorch level or a trace is active in this thread."""
    return functorch.peek_interpreter_stack() is not None or graph.is_tracing()


class CustomFunction:
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
            if not found[0].is_for_this_call_only and not any(isinstance(n, Array) for n in nondiff):
                self._traced[key] = found
        return found

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
        return np.zeros(primal.shape, dtypes.float0)
    return from_kind(torch.zeros_like(tensor_of(primal)), primal.kind)


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """Return the zero tangent of a value: an array, or with `symbolic_zeros` a `SymbolicZero`."""
    array = as_array(val)
    if symbolic_zeros:
        return SymbolicZero(ShapedArray(array.shape, array.dtype))
    return tangent_argument(None, array, symbolic_zeros=False)
