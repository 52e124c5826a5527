"""lax's strictness: which dtypes a function takes, that its operands agree in dtype and rank, and who is weak.

jax.numpy promotes and broadcasts; lax does neither. A scalar may meet an array of any rank, everything else must have
the same rank and the same dtype. The result is weakly typed when all operands are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import errors, graph
from .._core.array import Array, as_array, device_of, is_arraylike, tensor_of
from .._core.dtypes import STAND_INS, TO_NUMPY, TO_TORCH
from .._core.extended import refuse
from .._core.graph import TensorType
from .._core.promotion import convert
from .._core.symbolic_sizes import index as index_of


@dataclass(frozen=True)
class DtypeSet:
    """The dtypes that a function takes, and the names of the classes that JAX's message counts up."""

    names: tuple[str, ...]
    dtypes: frozenset[torch.dtype]

    def __or__(self, other: "DtypeSet") -> "DtypeSet":
        return DtypeSet(self.names + other.names, self.dtypes | other.dtypes)


_ALL = frozenset(TO_TORCH.values())
BOOLEAN = DtypeSet(("bool",), frozenset({torch.bool}))
FLOATING = DtypeSet(("floating",), frozenset({*STAND_INS.values(), *(d for d in _ALL if d.is_floating_point)}))
COMPLEX = DtypeSet(("complexfloating",), frozenset(d for d in _ALL if d.is_complex))
INTEGER = DtypeSet(("integer",), _ALL - BOOLEAN.dtypes - FLOATING.dtypes - COMPLEX.dtypes)
SIGNED = DtypeSet(("signedinteger",), frozenset({torch.int8, torch.int16, torch.int32, torch.int64}))
COMPLEX_PARTS = DtypeSet(("float32", "float64"), frozenset({torch.float32, torch.float64}))
INEXACT = FLOATING | COMPLEX
NUMBER = INTEGER | INEXACT
REAL = INTEGER | FLOATING
BITS = INTEGER | BOOLEAN
ORDERED = INTEGER | FLOATING | BOOLEAN
ANY = ORDERED | COMPLEX


def array_of(name: str, x: Any, position: int = 0, device: torch.device | None = None) -> Array:
    """Return `x` as an Array, a number on `device`; `TypeError` naming the function and the position where it is none."""
    if isinstance(x, Array):
        refuse(name, (x,))
        return x
    if not is_arraylike(x):
        hint = "Expected an array or scalar: convert it, for example by jnp.asarray." + errors.way_from_torch(x)
        raise _not_interpreted(name, x, position, hint)
    try:
        return as_array(x, device)
    except TypeError as error:
        raise _not_interpreted(name, x, position, str(error)) from None


def _not_interpreted(name: str, x: Any, position: int, reason: str) -> TypeError:
    return TypeError(
        f"Error interpreting argument to {name} as a JAX value. The problematic value is of type {type(x)} and was passed to "
        f"{name} at position {position}. {reason}"
    )


def operand(name: str, x: Any, accepted: DtypeSet = ANY) -> tuple[Tensor, bool]:
    """Return the tensor of a function's only operand, and whether it is weak; `TypeError` for other dtypes."""
    array = x if type(x) is Array else array_of(name, x)
    tensor = tensor_of(array)
    if tensor.dtype not in accepted.dtypes:
        raise TypeError(
            f"{name} does not accept dtype {TO_NUMPY[tensor.dtype]}. "
            f"Accepted dtypes are subtypes of {', '.join(accepted.names)}."
        )
    return tensor, array._weak


def operands(name: str, accepted: DtypeSet, *xs: Any) -> tuple[list[Tensor], bool]:
    """Return the tensors of a function's operands and whether all are weak.

    Raises `TypeError` when dtypes are not accepted or not equal, when ranks differ (scalars apart), and when shapes
    cannot be broadcast.
    """
    if len(xs) == 2 and type(xs[0]) is Array and type(xs[1]) is Array and not graph.tracing:
        a, b = xs[0]._tensor, xs[1]._tensor
        if a.dtype is b.dtype and a.shape == b.shape and a.dtype in accepted.dtypes:
            return [a, b], xs[0]._weak and xs[1]._weak
    arrays = [x if type(x) is Array else array_of(name, x, i, device_of(*xs)) for i, x in enumerate(xs)]
    tensors = [graph.lift(a._tensor) for a in arrays] if graph.tracing else [a._tensor for a in arrays]
    first = tensors[0]
    if first.dtype not in accepted.dtypes or any(t.dtype is not first.dtype for t in tensors):
        for position, t in enumerate(tensors):
            check_accepted(name, t, position, accepted)
        check_same_dtypes(name, *tensors)
    shape = first.shape
    if any(t.shape != shape for t in tensors):
        check_broadcastable(name, *tensors)
    return tensors, all(a._weak for a in arrays)


def check_accepted(name: str, tensor: Tensor, position: int, accepted: DtypeSet) -> None:
    """Raise `TypeError` when the dtype of the operand at this position is not accepted."""
    if tensor.dtype not in accepted.dtypes:
        raise TypeError(
            f"{name} does not accept dtype {TO_NUMPY[tensor.dtype]} at position {position}. "
            f"Accepted dtypes at position {position} are subtypes of {', '.join(accepted.names)}."
        )


_JNP_NAMES = {
    "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "rem": "remainder", "max": "maximum",
    "min": "minimum", "pow": "power", "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal",
    "gt": "greater", "ge": "greater_equal", "select": "where", "atan2": "arctan2", "nextafter": "nextafter",
    "concatenate": "concatenate", "dot_general": "matmul",
}  # fmt: skip


def check_same_dtypes(name: str, *tensors: Tensor) -> None:
    """Raise `TypeError` when the dtypes of operands differ."""
    if any(t.dtype is not tensors[0].dtype for t in tensors):
        found = ", ".join(str(TO_NUMPY[t.dtype]) for t in tensors)
        advice = (
            f"jnp.{_JNP_NAMES[name]} is a similar function that promotes dtypes."
            if name in _JNP_NAMES
            else "Convert them with lax.convert_element_type."
        )
        raise TypeError(f"lax.{name} requires arguments to have the same dtypes, got {found}. {advice}")


def check_broadcastable(name: str, *tensors: Tensor) -> None:
    """Raise `TypeError` when tensors other than scalars differ in rank, or in a size that is not one."""
    shapes = [tuple(t.shape) for t in tensors if t.dim()]
    ranks = {len(s) for s in shapes}
    if len(ranks) > 1:
        raise TypeError(
            f"{name}: arrays must have the same number of dimensions, got {ranks}. lax does not broadcast ranks: use "
            "lax.broadcast_in_dim or the function in jax.numpy."
        )
    for sizes in zip(*shapes, strict=True):
        if len(set(sizes) - {1}) > 1:
            raise TypeError(f"{name} got incompatible shapes for broadcasting: {', '.join(map(str, shapes))}.")


def check_shapelike(function: str, argument: str, value: Any, positive: bool = False) -> tuple[int, ...]:
    """Return a sequence of non-negative integers as a tuple; `TypeError` or `ValueError` where it is none."""
    if not isinstance(value, tuple | list | np.ndarray):
        raise TypeError(f"{function} {argument} must be of type tuple/list/ndarray, got {type(value)}.")
    try:
        sizes = tuple(index_of(n) for n in value)
    except TypeError:
        raise TypeError(f"{function} {argument} must have every element be an integer type, got {value}.") from None
    least = 1 if positive else 0
    if any(n < least for n in sizes):
        bound = "strictly greater than zero" if positive else "nonnegative"
        raise TypeError(f"{function} {argument} must have every element be {bound}, got {value}.")
    return sizes


def in_types(args: Sequence[Any], types: Sequence[TensorType]) -> list[Tensor]:
    """Return the tensors of arguments, Python numbers in the types that a graph has for them."""
    pairs = zip(args, types, strict=True)
    return [
        tensor_of(x) if isinstance(x, Array) and not x.weak_type else convert(tensor_of(as_array(x)), t.dtype)
        for x, t in pairs
    ]


def arrays_of(tensors: Sequence[Tensor]) -> list[Array]:
    """Return the results of a graph as arrays."""
    return [Array(t) for t in tensors]
