"""jax.scipy.cluster: vector quantization."""

from .._core.array import Array, tensor_of
from .._core.promotion import promote_inexact
from .._core.typing import ArrayLike
from .._numpy.arguments import check_shapes
from .._numpy.linalg.norms import norm
from .._numpy.selection import take_along_axis
from .._numpy.sorting import argmin


def vq(obs: ArrayLike, code_book: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """Return for each observation (a row) the number of the nearest code (a row of the book), and its distance.

    Vectors are taken for rows of length one. Nothing is checked for being finite.
    """
    (points, codes), _ = promote_inexact("scipy.cluster.vq.vq", obs, code_book)
    if points.dim() != codes.dim():
        raise ValueError("Observation and code_book should have the same rank")
    if points.dim() == 1:
        points, codes = points[:, None], codes[:, None]
    if points.dim() != 2:
        raise ValueError("ndim different than 1 or 2 are not supported")
    check_shapes("sub", points[:, None], codes[None])
    distance = norm(Array(points[:, None] - codes), axis=-1)
    code = argmin(distance, axis=-1)
    nearest = take_along_axis(distance, Array(tensor_of(code)[:, None]), axis=-1)
    return code, Array(tensor_of(nearest).squeeze(-1))
