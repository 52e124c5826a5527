"""Rules of primitives that users define, by transformation: the tables of `jax.interpreters.ad` and `batching`.

A table holds what users register. Rules are functions of arrays; the bridge to torch.func is in `custom`.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core import dtypes
from .._core.array import Array, as_array, tensor_of
from .._core.avals import ShapedArray, aval_of, zeros_of
from .._core.tree_util import register_pytree_node

Rule = Callable[..., Any]

primitive_jvps: dict[Any, Rule] = {}
primitive_transposes: dict[Any, Rule] = {}
primitive_batchers: dict[Any, Rule] = {}
fancy_primitive_batchers: dict[Any, Rule] = {}

not_mapped = None


class Zero:
    """A tangent or cotangent that is known to be zero: its type."""

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    def instantiate(self) -> Any:
        """Return the array of zeros."""
        return zeros_like_aval(self.aval)

    @staticmethod
    def from_primal_value(val: Any) -> "Zero":
        """Return the zero tangent of a value."""
        return Zero(aval_of(val).to_tangent_aval())

    def __repr__(self) -> str:
        return f"Zero({self.aval})"


register_pytree_node(Zero, lambda zero: ((), zero.aval), lambda aval, _: Zero(aval))


class UndefinedPrimal:
    """In a transpose rule, an argument in which the primitive is linear: its type."""

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"UndefinedPrimal({self.aval})"


register_pytree_node(UndefinedPrimal, lambda x: ((), x.aval), lambda aval, _: UndefinedPrimal(aval))


def is_undefined_primal(x: Any) -> bool:
    """Tell whether `x` is an argument that is linear in a transpose rule."""
    return type(x) is UndefinedPrimal


def zeros_like_aval(aval: ShapedArray) -> Any:
    """Return zeros of this type: NumPy's for `float0`."""
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    return zeros_of(aval.strip_weak_type())


def instantiate_zeros(tangent: Any) -> Any:
    """Return a tangent, a `Zero` made an array."""
    return tangent.instantiate() if type(tangent) is Zero else tangent


def add_jaxvals(x: Any, y: Any) -> Any:
    """Return x + y."""
    return Array(tensor_of(as_array(x)) + tensor_of(as_array(y)))


def add_tangents(x: Any, y: Any) -> Any:
    """Return x + y, where either may be a `Zero`."""
    if type(x) is Zero:
        return y
    return x if type(y) is Zero else add_jaxvals(x, y)


# -------------------------------------------------------------------------------------------- differentiation, by kind


def deflinear(primitive: Any, transpose_rule: Rule) -> None:
    """Say that a primitive is linear in all its arguments; `transpose_rule(cotangent, **params)` is its transpose."""
    deflinear2(primitive, lambda cotangent, *_, **params: transpose_rule(cotangent, **params))


def deflinear2(primitive: Any, transpose_rule: Rule) -> None:
    """Say that a primitive is linear in all its arguments: `transpose_rule(cotangent, *args, **params)`."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        result = primitive.bind(*primals, **params)
        if all(type(t) is Zero for t in tangents):
            return result, _zeros_for(primitive, result)
        return result, primitive.bind(*map(instantiate_zeros, tangents), **params)

    def transpose(cotangent: Any, *args: Any, **params: Any) -> Any:
        if type(cotangent) is Zero:
            return [Zero(x.aval) if is_undefined_primal(x) else None for x in args]
        return transpose_rule(cotangent, *args, **params)

    primitive_jvps[primitive], primitive_transposes[primitive] = jvp, transpose


def _zeros_for(primitive: Any, result: Any) -> Any:
    if primitive.multiple_results:
        return [Zero.from_primal_value(r) for r in result]
    return Zero.from_primal_value(result)


def defjvp(primitive: Any, *jvprules: Rule | None) -> None:
    """Set the forward rule by one function for each argument: `rule(tangent, *primals, **params)`; None: no influence."""
    rules = [None if rule is None else _without_result(rule) for rule in jvprules]
    defjvp2(primitive, *rules)


def _without_result(rule: Rule) -> Rule:
    return lambda tangent, result, *primals, **params: rule(tangent, *primals, **params)


def defjvp2(primitive: Any, *jvprules: Rule | None) -> None:
    """Set the forward rule as `defjvp` does; each function gets the result, too: `rule(tangent, result, *primals)`."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        result = primitive.bind(*primals, **params)
        pairs = zip(jvprules, tangents, strict=False)
        terms = [r(t, result, *primals, **params) for r, t in pairs if r is not None and type(t) is not Zero]
        return result, functools.reduce(add_tangents, terms, Zero.from_primal_value(result))

    primitive_jvps[primitive] = jvp


def defbilinear(prim: Any, lhs_rule: Rule, rhs_rule: Rule) -> None:
    """Say that a primitive is linear in each of its two arguments.

    `lhs_rule(cotangent, x, y, **params)` gives the cotangent of x, `rhs_rule` that of y.
    """
    defjvp(
        prim,
        lambda g, x, y, **params: prim.bind(g, y, **params),
        lambda g, x, y, **params: prim.bind(x, g, **params),
    )

    def transpose(cotangent: Any, x: Any, y: Any, **params: Any) -> tuple[Any, Any]:
        if is_undefined_primal(x) == is_undefined_primal(y):
            raise ValueError(f"The transpose of {prim} needs one of its arguments to be linear, not both or none.")
        first = is_undefined_primal(x)
        found = Zero(x.aval if first else y.aval)
        if type(cotangent) is not Zero:
            found = (lhs_rule if first else rhs_rule)(cotangent, x, y, **params)
        return (found, None) if first else (None, found)

    primitive_transposes[prim] = transpose


def get_primitive_transpose(p: Any) -> Rule:
    """Return the transpose rule of a primitive. `NotImplementedError` where it has none."""
    if p not in primitive_transposes:
        raise NotImplementedError(f"Transpose rule (for reverse-mode differentiation) for '{p}' not implemented")
    return primitive_transposes[p]


# ------------------------------------------------------------------------------------------------------------- batching


@dataclass(frozen=True)
class AxisData:
    """The mapped axis, as `fancy_primitive_batchers` are told: its name and size."""

    name: Any
    size: int
    spmd_name: Any = None
    explicit_mesh_axis: Any = None


class AxisPrimitiveBatchers(dict[Any, Rule]):
    """Rules of an older form, `rule(axis_size, axis_name, main_type, args, dims, **params)`."""

    def __setitem__(self, primitive: Any, rule: Rule) -> None:
        super().__setitem__(primitive, rule)
        fancy_primitive_batchers[primitive] = lambda axis, args, dims, **params: rule(
            axis.size, axis.name, None, args, dims, **params
        )


axis_primitive_batchers = AxisPrimitiveBatchers()


def broadcast(x: Any, sz: int, axis: int, mesh_axis: Any) -> Array:
    """Return `x` repeated `sz` times along a new dimension `axis`. `NotImplementedError` for a mesh axis to lie over."""
    if mesh_axis is not None:
        raise NotImplementedError(
            "batching.broadcast over a mesh axis is not supported; use lax.with_sharding_constraint."
        )
    t = tensor_of(as_array(x)).unsqueeze(axis)
    return Array(t.expand(*(sz if d == axis % t.dim() else n for d, n in enumerate(t.shape))))


def bdim_at_front(x: Any, bdim: int | None, size: int, mesh_axis: Any = None) -> Array:
    """Return `x` with its batch dimension in front, repeated `size` times where it has none."""
    return broadcast(x, size, 0, mesh_axis) if bdim is None else Array(tensor_of(as_array(x)).movedim(bdim, 0))


def defvectorized(prim: Any) -> None:
    """Say that a primitive does the same with each element, so that the batch may stand anywhere."""

    def batcher(args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        return prim.bind(*args, **params), dims[0]

    primitive_batchers[prim] = batcher


def defbroadcasting(prim: Any) -> None:
    """Say that a primitive broadcasts its arguments elementwise, as NumPy's functions do."""

    def batcher(args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        aligned = [bdim_at_front(x, d, 1) if as_array(x).ndim else x for x, d in zip(args, dims, strict=True)]
        rank = max(as_array(x).ndim for x in aligned)
        given = [_with_rank(x, rank) if d is not None else x for x, d in zip(aligned, dims, strict=True)]
        out = prim.bind(*given, **params)
        return (out, (0,) * len(out)) if prim.multiple_results else (out, 0)

    primitive_batchers[prim] = batcher


def _with_rank(x: Any, rank: int) -> Any:
    t = tensor_of(as_array(x))
    return Array(t.reshape(t.shape[0], *(1,) * (rank - t.dim()), *t.shape[1:]))


def defreducer(prim: Any) -> None:
    """Say that a primitive reduces one array over the dimensions in its parameter `axes`."""

    def batcher(args: Sequence[Any], dims: Sequence[int | None], axes: Sequence[int], **params: Any) -> Any:
        (dim,) = dims
        assert dim is not None
        moved = tuple(a if a < dim else a + 1 for a in axes)
        out_dim = dim - sum(a < dim for a in moved)
        return prim.bind(*args, axes=moved, **params), out_dim

    primitive_batchers[prim] = batcher
