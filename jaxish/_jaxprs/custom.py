"""Primitives that users define, bound: structured primitives with the rules of their tables.

Forward mode is the user's jvp rule. Reverse mode is that rule pulled back: while it is, a primitive whose arguments
depend on the tangents is linear in them, and its transpose rule is used.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from .._compile.structured import Opaque
from .._core import dtypes, errors, functorch, graph
from .._core.array import Array, as_array, from_kind, tensor_of
from .._core.avals import ShapedArray, aval_of
from .._core.graph import TensorType
from .._core.primitive import Dims, conjugate, differentiable, popped_axis
from .._core.target import Target
from .._core.transposition import is_linear
from .._core.user_rules import ByRule
from . import rules
from .rules import UndefinedPrimal, Zero

lowerings: dict[Any, Callable[..., Any]] = {}  # what spells a primitive out in functions of this library


def bind(primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Return the results of a primitive that a user defines."""
    if functorch.peek_interpreter_stack() is None and not graph.tracing:
        return primitive.impl(*args, **params)
    try:
        arrays = [as_array(a) for a in args]
    except TypeError as error:
        raise TypeError(f"Error interpreting argument to {primitive} as a JAX value: {error}") from None
    call = Bound(primitive, params, [a.kind for a in arrays])
    results = [from_kind(t, kind) for t, kind in zip(call(*map(tensor_of, arrays)), call.out_kinds(), strict=False)]
    return results if primitive.multiple_results else results[0]


class Bound(ByRule, Opaque):
    """A primitive of a user with its parameters, for arguments of these kinds."""

    is_users = True
    _count = itertools.count()

    def __init__(self, primitive: Any, params: dict[str, Any], kinds: Sequence[Any], is_linear: bool = False) -> None:
        self.__name__ = primitive.name
        self.primitive, self.params, self.kinds, self.is_linear = primitive, params, list(kinds), is_linear
        self._number = next(self._count)

    def identity(self) -> str:
        return f"{self.__name__}#{self._number}"

    def equation(self) -> tuple[Any, dict[str, Any]]:
        return self.primitive, self.params

    @property
    def has_effect(self) -> bool:
        return bool(self._effects)

    def _wrapped(self, tensors: Sequence[Tensor]) -> list[Array]:
        return [from_kind(t, kind) for t, kind in zip(tensors, self.kinds, strict=True)]

    def _listed(self, results: Any) -> list[Any]:
        return list(results) if self.primitive.multiple_results else [results]

    def _tensors(self, results: Any) -> list[Tensor]:
        arrays = [as_array(r) for r in self._listed(results)]
        self._found_kinds = [a.kind for a in arrays]
        return list(map(tensor_of, arrays))

    _effects: Any = ()
    _avals: Sequence[Any] | None = None
    _found_kinds: Sequence[Any] | None = None

    def out_kinds(self) -> Iterator[Any]:
        """Yield the kinds of the results: of their types, or of what was computed, as far as that is known."""
        if self._avals is not None:
            return (a.weak_type for a in self._avals)
        return itertools.repeat(False) if self._found_kinds is None else iter(self._found_kinds)

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        given = [aval_of(a) for a in self._wrapped(inputs)]
        found, self._effects = self.primitive.abstract_eval(*given, **self.params)
        self._avals = [ShapedArray(a.shape, a.dtype, getattr(a, "weak_type", False)) for a in self._listed(found)]
        device = inputs[0].device if inputs else torch.device("cpu")
        return [TensorType(a.shape, dtypes.to_torch(a.dtype), device) for a in self._avals]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        with graph.suspended():
            return self._tensors(self.primitive.impl(*self._wrapped(inputs), **self.params))

    def stays(self, target: Target) -> bool:
        return self.primitive not in lowerings and super().stays(target)

    def lower(self, target: Target, *inputs: Tensor) -> list[Tensor]:
        lowering = lowerings.get(self.primitive)
        if lowering is None:
            return super().lower(target, *inputs)
        return self._tensors(lowering(*self._wrapped(inputs), **self.params))

    def spelled_out(self, target: Target, *inputs: Tensor) -> list[Tensor]:
        try:
            return self._tensors(self.primitive.impl(*self._wrapped(inputs), **self.params))
        except (errors.JAXTypeError, errors.JAXIndexError) as error:
            raise NotImplementedError(
                f"The impl of primitive {self.primitive} needs values, which {target.name} has not while it is compiled. "
                "Register a rule of mlir.lower_fun for it."
            ) from error

    # ------------------------------------------------------------------------------------------------ transformations

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        arrays, fancy = self._wrapped(inputs), rules.fancy_primitive_batchers.get(self.primitive)
        if fancy is not None:
            axis = rules.AxisData(popped_axis(), size)
            out, out_dims = fancy(axis, tuple(arrays), tuple(dims), **self.params)
        elif self.primitive in rules.primitive_batchers:
            out, out_dims = rules.primitive_batchers[self.primitive](tuple(arrays), tuple(dims), **self.params)
        else:
            raise NotImplementedError(f"Batching rule for '{self.primitive}' not implemented")
        results = self._tensors(out)
        return results, list(out_dims) if self.primitive.multiple_results else [out_dims]

    def linked(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        # What has a rule for transposing alone is linear in its arguments.
        has_rule = self.primitive in rules.primitive_jvps or self.primitive not in rules.primitive_transposes
        return super().linked(inputs) if has_rule and not self.is_linear else Opaque.linked(self, inputs)

    def pushed(
        self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]
    ) -> tuple[list[Tensor], list[Tensor | None]]:
        rule = rules.primitive_jvps.get(self.primitive)
        if rule is None:
            raise NotImplementedError(f"Differentiation rule for '{self.primitive}' not implemented")
        arrays = self._wrapped(primals)
        given = tuple(_tangent(t, a) for t, a in zip(tangents, arrays, strict=True))
        results, found = rule(tuple(arrays), given, **self.params)
        return self._tensors(results), [_direction(t) for t in self._listed(found)]

    def at_level(self, level: int) -> "Bound":
        linear = is_linear(level)
        return self if linear is self.is_linear else Bound(self.primitive, self.params, self.kinds, linear)

    def vjp_of(
        self, needed: Sequence[bool], primals: Sequence[Tensor], results: Sequence[Tensor],
        cotangents: Sequence[Tensor | None],
    ) -> Sequence[Tensor | None]:  # fmt: skip
        active = [i for i, (n, p) in enumerate(zip(needed, primals, strict=True)) if n and differentiable(p.dtype)]
        rule = rules.get_primitive_transpose(self.primitive)
        arrays = self._wrapped(primals)
        given = [UndefinedPrimal(aval_of(a)) if i in active else a for i, a in enumerate(arrays)]
        # torch's cotangents are the conjugates of JAX's.
        seeds = [
            Zero(aval_of(Array(r)).to_tangent_aval()) if c is None else Array(conjugate(c))
            for c, r in zip(cotangents, results, strict=True)
        ]
        try:
            found = rule(seeds if self.primitive.multiple_results else seeds[0], *given, **self.params)
        except Exception as error:
            if not graph.is_tracing() or isinstance(error, NotImplementedError):
                raise
            # The way back of a graph is traced for all of its results, of which few may have a cotangent when it runs.
            types = [TensorType.of(primals[i]) for i in active]
            refused = dict(zip(active, _Refused(error, types)(*(c for c in cotangents if c is not None)), strict=True))
            return [refused.get(i) for i in range(len(primals))]
        back = [None if c is None else _direction(c) for c in found]
        return [None if t is None else conjugate(t) for t in back]


class _Refused(Opaque):
    """The way back through what refuses cotangents: zeros for zeros, and the error for others."""

    __name__ = "refused_transpose"
    _count = itertools.count()

    def __init__(self, error: Exception, types: Sequence[TensorType]) -> None:
        self.error, self.types, self._number = error, list(types), next(self._count)

    def identity(self) -> str:
        return f"{self.__name__}#{self._number}"

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return self.types

    def run(self, *inputs: Tensor) -> list[Tensor]:
        if any(bool(cotangent.any()) for cotangent in inputs):
            raise self.error
        return [torch.zeros(t.shape, dtype=t.dtype, device=t.device) for t in self.types]

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        return self(*inputs), [None] * len(self.types)

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        return [None] * len(self.types)

    def vjp(self, primals: Any, results: Any, cotangents: Any) -> Sequence[Tensor | None]:
        return [None] * len(primals)


def _tangent(tangent: Tensor | None, primal: Array) -> Any:
    return Zero.from_primal_value(primal) if tangent is None else from_kind(tangent, primal.kind)


def _direction(tangent: Any) -> Tensor | None:
    if type(tangent) is Zero or getattr(tangent, "dtype", None) == dtypes.float0:
        return None
    return tensor_of(as_array(tangent))
