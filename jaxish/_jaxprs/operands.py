"""What rules of operators (`operators.py`) write equations with: operands in the types and shapes that JAX's primitives take."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import dtypes
from .._core.avals import ShapedArray
from .._devices import laid, memories
from .ir import Atom, Literal, Var


def aval_of(tensor: Tensor) -> ShapedArray:
    """Return the type of a tensor, which tells how a fake lies over the explicit axes of a mesh, and in which memory."""
    return as_laid(ShapedArray(tensor.shape, dtypes.TO_NUMPY[tensor.dtype]), tensor)


def as_laid(type: ShapedArray, tensor: Tensor) -> ShapedArray:
    """Return a type with what a tensor without batched dimensions tells of where it lies."""
    sharding = laid.sharding_of(tensor)
    if sharding is None:
        return type
    placed = type if (told := sharding.of_type) is None else type.update(sharding=told)
    return placed.update(memory_space=memories.space_of(sharding.memory_kind))


def literal(value: Any, dtype: np.dtype, weak: bool = False) -> Literal:
    """Return a number as a literal of this dtype."""
    return Literal(np.asarray(value).astype(dtype)[()], ShapedArray((), dtype, weak))


def converted(r: Any, x: Any, dtype: Any) -> Atom:
    """Return an atom or a number as an atom of this dtype."""
    dtype = np.dtype(dtype)
    if not isinstance(x, Var | Literal):
        return literal(x, dtype, True)
    if x.aval.dtype == dtype:
        return x
    if isinstance(x, Literal):
        return literal(x.val, dtype)
    if x in r.ranges:
        return ranged(r, ShapedArray(x.aval.shape, dtype), *r.ranges[x])
    made = r.writer_of(x)
    if made is not None and made.primitive.name in _WITH_DTYPE:  # torch's are 64 bits wide, then converted
        params = {**made.params, _WITH_DTYPE[made.primitive.name]: dtype}
        return r.emit(made.primitive.name, made.invars, params, ShapedArray(x.aval.shape, dtype))
    params = {"new_dtype": dtype, "weak_type": False, "sharding": None}
    return r.emit("convert_element_type", [x], params, ShapedArray(x.aval.shape, dtype))


def ranged(r: Any, type: ShapedArray, start: int, step: int) -> Atom:
    """Return the numbers from `start` on in steps of `step`."""
    params = {"dtype": type.dtype, "shape": tuple(type.shape), "dimension": 0, "sharding": None}
    found = r.emit("iota", [], params, type)
    if (start, step) == (0, 1):
        return found
    if step != 1:
        found = elementwise(r, type, "mul", [step, found], type.dtype, out_dtype=None)
    found = elementwise(r, type, "add", [start, found], type.dtype)
    r.ranges[found] = (start, step)
    return found


_WITH_DTYPE = {"iota": "dtype", "argmax": "index_dtype", "argmin": "index_dtype"}


def broadcast(r: Any, x: Atom, shape: Sequence[int], dims: Sequence[int]) -> Atom:
    """Return `x` with its dimensions at `dims` of a result of this shape."""
    shape = tuple(shape)
    if x.aval.shape == shape:
        return x
    params = {"shape": shape, "broadcast_dimensions": tuple(dims), "sharding": None}
    return r.emit("broadcast_in_dim", [x], params, ShapedArray(shape, x.aval.dtype))


def expanded(r: Any, x: Atom, shape: Sequence[int]) -> Atom:
    """Return `x` broadcast to `shape`, its dimensions the last ones."""
    return broadcast(r, x, shape, range(len(shape) - len(x.aval.shape), len(shape)))


def aligned(r: Any, operands: Sequence[Atom]) -> list[Atom]:
    """Return operands of one rank, but for scalars, which go with any."""
    rank = max(len(x.aval.shape) for x in operands)
    return [expanded(r, x, (1,) * (rank - len(x.aval.shape)) + x.aval.shape) if x.aval.shape else x for x in operands]


def elementwise(r: Any, out: ShapedArray, name: str, operands: Sequence[Any], dtype: Any, **params: Any) -> Var:
    """Write an elementwise operation of operands converted to `dtype`."""
    atoms = aligned(r, [converted(r, x, dtype) for x in operands])
    shape = np.broadcast_shapes(*(x.aval.shape for x in atoms))
    return r.emit(name, atoms, params, ShapedArray(shape, out.dtype))


def is_floating(dtype: np.dtype) -> bool:
    """Tell whether a dtype is a real floating one."""
    return dtypes.to_torch(dtype).is_floating_point


def common_dtype(*operands: Any) -> np.dtype:
    """Return the dtype in which torch compares: that of arrays before that of numbers and scalars."""
    found = [x.aval for x in operands if isinstance(x, Var | Literal)]
    ranked = [a for a in found if a.shape] or found
    torch_dtypes = [dtypes.to_torch(a.dtype) for a in ranked]
    result = torch_dtypes[0]
    for other in torch_dtypes[1:]:
        result = torch.promote_types(result, other)
    return np.dtype(dtypes.TO_NUMPY[result])
