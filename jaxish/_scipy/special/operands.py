"""The operands of special functions: promoted to a common floating dtype, and refused where they may not be complex."""

import itertools
from typing import Any

import numpy as np
from torch import Tensor

from ..._core import dtypes
from ..._core.array import Array, as_array, tensor_of
from ..._core.promotion import check_rank_promotion, promote_inexact
from ..._core.typing import ArrayLike
from ..._numpy.arguments import check_shapes


def promoted(name: str, *args: Any) -> tuple[list[Tensor], bool]:
    """Return the operands as tensors of one floating or complex dtype and one rank, and whether they are weak.

    Raises `TypeError` or `ValueError`, as jax.numpy does, for shapes that do not broadcast.
    """
    tensors, weak = promote_inexact(name, *args)
    check_rank_promotion(name, *tensors)
    for a, b in itertools.combinations(tensors, 2):
        check_shapes(name, a, b)
    rank = max(t.dim() for t in tensors)
    return [t if t.dim() == rank else t[(None,) * (rank - t.dim())] for t in tensors], weak


def promoted_arrays(name: str, *args: Any) -> list[Array]:
    """Return the operands as arrays of one floating or complex dtype and one rank."""
    tensors, weak = promoted(name, *args)
    return [Array(t, weak) for t in tensors]


def promoted_real(name: str, *args: Any) -> tuple[list[Tensor], bool]:
    """Return what `promoted` does. Raises `ValueError` for complex operands."""
    tensors, weak = promoted(name, *args)
    if tensors[0].is_complex():
        which = "Argument `x`" if len(args) == 1 else "Arguments"
        raise ValueError(f"{which} to {name} must be real-valued. Got dtype {dtypes.TO_NUMPY[tensors[0].dtype]}.")
    return tensors, weak


def single_or_double(x: ArrayLike) -> tuple[Tensor, bool]:
    """Return the tensor of a float32 or float64 array. Raises `TypeError` for other dtypes."""
    array = as_array(x)
    if array.dtype not in (np.float32, np.float64):
        raise TypeError(f"x.dtype={array.dtype} is not supported, see docstring for supported types: float32, float64.")
    return tensor_of(array), array.weak_type
