"""Random vectors and matrices: multivariate normals, orthogonal matrices."""

from typing import Any

import numpy as np
import torch

from .._core import dtypes
from .._core.array import Array, check_arraylike, tensor_of
from .._core.dimensions import broadcast_shape, static_int
from .._core.promotion import promote_inexact
from .._core.torch_modes import in_own_dtypes
from .._core.typing import ArrayLike, DTypeLike, Shape
from .._devices.shardings import NamedSharding, PartitionSpec
from .._numpy.linalg.decompositions import cholesky, eigh, qr, svd
from .arguments import check_shape, float_dtype, static_shape
from .keys import check_key
from .sharded import takes_out_sharding
from .uniforms import normal_tensor


@takes_out_sharding
@in_own_dtypes
def multivariate_normal(
    key: ArrayLike, mean: ArrayLike, cov: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None,
    method: str = "cholesky",
    *, out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:  # fmt: skip
    """Return normal vectors with `mean` (..., n) and covariance `cov` (..., n, n): shape (*shape, n).

    `method` says how the covariance is factored: "cholesky", "eigh" or "svd". Raises `ValueError` for other methods,
    dtypes that are not floating, and shapes that do not fit.
    """
    typed, _ = check_key("multivariate_normal", key)
    check_arraylike("multivariate_normal", mean, cov)
    (centre, spread), _ = promote_inexact("multivariate_normal", mean, cov)
    if method not in ("svd", "eigh", "cholesky"):
        raise ValueError("method must be one of {'svd', 'eigh', 'cholesky'}, got " + repr(method))
    found = float_dtype("multivariate_normal", dtypes.TO_NUMPY[centre.dtype] if dtype is None else dtype)
    if centre.dim() < 1:
        raise ValueError(f"multivariate_normal requires mean.ndim >= 1, got mean.ndim == {centre.dim()}")
    if spread.dim() < 2:
        raise ValueError(f"multivariate_normal requires cov.ndim >= 2, got cov.ndim == {spread.dim()}")
    n = centre.shape[-1]
    if tuple(spread.shape[-2:]) != (n, n):
        raise ValueError(
            f"multivariate_normal requires cov.shape == (..., n, n) for n={n}, but got cov.shape == {tuple(spread.shape)}."
        )
    batch = (tuple(centre.shape[:-1]), tuple(spread.shape[:-2]))
    sizes = broadcast_shape(*batch) if shape is None else static_shape(shape)
    check_shape("multivariate_normal", sizes, *batch)
    factor = _factor(Array(spread), method)
    normals = normal_tensor(typed, (*sizes, n), dtypes.to_torch(found))
    common = torch.promote_types(normals.dtype, centre.dtype)
    return Array(centre + (factor.to(common) @ normals.to(common).unsqueeze(-1)).squeeze(-1))


def _factor(cov: Array, method: str) -> Any:
    if method == "svd":
        u, s, _ = svd(cov)
        return tensor_of(u) * torch.sqrt(tensor_of(s)).unsqueeze(-2)
    if method == "eigh":
        w, v = eigh(cov)
        return tensor_of(v) * torch.sqrt(tensor_of(w)).unsqueeze(-2)
    return tensor_of(cholesky(cov))


@takes_out_sharding
def orthogonal(
    key: ArrayLike,
    n: int,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    m: int | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return matrices (*shape, n, m) drawn uniformly from those with orthonormal columns (rows, where m exceeds n).

    `m` is `n` by default. Real dtypes give orthogonal matrices, complex ones unitary ones. Raises `ValueError` for
    other dtypes and for negative sizes.
    """
    sizes = static_shape(shape)
    typed, _ = check_key("orthogonal", key)
    target = dtypes.to_torch(float_dtype("orthogonal", dtype, np.inexact))
    rows = static_int(n, "The number of rows of jax.random.orthogonal()")
    columns = rows if m is None else static_int(m, "The number of columns of jax.random.orthogonal()")
    if rows < 0 or columns < 0:
        raise ValueError(f"orthogonal needs non-negative numbers of rows and columns, got {rows} and {columns}.")
    z = normal_tensor(typed, (*sizes, max(rows, columns), min(rows, columns)), target)
    q, r = (tensor_of(part) for part in qr(Array(z)))
    found = q * torch.sgn(r.diagonal(dim1=-2, dim2=-1)).unsqueeze(-2)
    return Array(found.mT if rows < columns else found)
