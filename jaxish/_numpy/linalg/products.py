"""The array API's spellings of functions that jax.numpy has too."""

from collections.abc import Sequence

from ..._core.array import Array, check_arraylike
from ..._core.promotion import tensor
from ..._core.typing import ArrayLike, DTypeLike
from ..._devices.shardings import NamedSharding, PartitionSpec
from .. import contractions, manipulation, ufuncs
from ..contractions import PrecisionLike


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """Return the cross products of vectors of size 3 along `axis`. Raises `ValueError` for other sizes."""
    a, b = tensor("jnp.linalg.cross", x1), tensor("jnp.linalg.cross", x2)
    if a.shape[axis] != 3 or b.shape[axis] != 3:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, but they have "
            f"x1.shape[axis]={a.shape[axis]} and x2.shape[axis]={b.shape[axis]}"
        )
    return contractions.cross(x1, x2, axis=axis)


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the products of all pairs of elements of two vectors. Raises `ValueError` for other ranks."""
    a, b = tensor("jnp.linalg.outer", x1), tensor("jnp.linalg.outer", x2)
    if a.dim() != 1 or b.dim() != 1:
        raise ValueError(f"Input arrays must be one-dimensional, but they are x1.ndim={a.dim()} x2.ndim={b.dim()}")
    return ufuncs.multiply.outer(x1, x2)


def matmul(
    x1: ArrayLike, x2: ArrayLike, /, *, precision: PrecisionLike = None, preferred_element_type: DTypeLike | None = None
) -> Array:
    """Return the matrix product; see `jax.numpy.matmul`."""
    return contractions.matmul(x1, x2, precision=precision, preferred_element_type=preferred_element_type)


def vecdot(
    x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1, precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:  # fmt: skip
    """Return the products of vectors along `axis`; see `jax.numpy.vecdot`."""
    return contractions.vecdot(x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type)


def tensordot(
    x1: ArrayLike, x2: ArrayLike, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2,
    precision: PrecisionLike = None, preferred_element_type: DTypeLike | None = None,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:  # fmt: skip
    """Return the sum of products over `axes`; see `jax.numpy.tensordot`."""
    return contractions.tensordot(
        x1, x2, axes, precision=precision, preferred_element_type=preferred_element_type, out_sharding=out_sharding
    )


def matrix_transpose(x: ArrayLike, /) -> Array:
    """Return matrices transposed. Raises `ValueError` for fewer than two dimensions."""
    return manipulation.matrix_transpose(x)


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """Return the diagonals of the matrices in the last two dimensions."""
    return manipulation.diagonal(x, offset, -2, -1)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Return the sums of the diagonals of the matrices in the last two dimensions."""
    check_arraylike("jnp.linalg.trace", x)
    return manipulation.trace(x, offset, -2, -1, dtype)
