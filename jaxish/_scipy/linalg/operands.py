"""What the functions of matrices share: their operands, nested sequences too, as arrays of one inexact dtype."""

from typing import Any

from ..._core.array import Array
from ..._core.promotion import promote_inexact
from ..._numpy.creation import asarray


def inexact(function: str, *xs: Any) -> list[Array]:
    """Return arrays of the common floating or complex dtype of `xs`, integers and booleans made floating."""
    found, weak = promote_inexact(function, *map(asarray, xs))
    return [Array(t, weak) for t in found]


def square(function: str, x: Any) -> Array:
    """Return `x` as an array of an inexact dtype. Raises `ValueError` for what is no batch of square matrices."""
    (a,) = inexact(function, x)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"Expected A to be a (batched) square matrix, got A.shape={a.shape}.")
    return a
