"""Matrices of a known pattern: from vectors, and from a size alone.

Those of a size are constants: NumPy makes them on the host, in double precision, so that each element is the exact
number rounded.
"""

import math
import operator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._core import dtypes
from ..._core.array import Array, check_arraylike, default_torch_device, from_numpy
from ..._core.dimensions import broadcast_shape
from ..._core.promotion import convert, promote, promote_inexact, tensor
from ..._core.typing import ArrayLike, DTypeLike
from ..._numpy.arguments import float_dtype
from ..._numpy.creation import asarray
from ..._numpy.ufuncs import absolute, subtract

# -------------------------------------------------------------------------------------------------------- of vectors


def _vectors(function: str, *xs: Any) -> tuple[list[Tensor], bool]:
    """Return tensors of a common dtype and at least one dimension, their leading dimensions broadcast."""
    check_arraylike(function, *xs)
    found, weak = promote(function, *xs)
    found = [t.reshape(1) if not t.dim() else t for t in found]
    batch = broadcast_shape(*(t.shape[:-1] for t in found))
    return [t.expand(*batch, t.shape[-1]) for t in found], weak


def _places(rows: int, columns: int, like: Tensor) -> tuple[Tensor, Tensor]:
    return torch.arange(rows, device=like.device).unsqueeze(-1), torch.arange(columns, device=like.device)


def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Return the matrices that are constant along diagonals, with first column `c` and first row `r`.

    Without `r` the row is the column's conjugate; else its first element is not used.
    """
    check_arraylike("toeplitz", c)
    if r is None:
        given = asarray(c)
        t = tensor("toeplitz", given)
        r = Array(torch.conj_physical(t) if t.is_complex() else t, given._weak)
    (column, row), _ = _vectors("toeplitz", c, r)
    rows, columns = column.shape[-1], row.shape[-1]
    if not rows or not columns:
        return Array(column.new_zeros((*column.shape[:-1], rows, columns)))
    i, j = _places(rows, columns, column)
    elements = torch.cat([column.flip(-1), row[..., 1:]], -1)
    return Array(elements[..., rows - 1 - i + j])


def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Return the matrices that are constant along antidiagonals, with first column `c` and last row `r` (or zeros)."""
    check_arraylike("hankel", *([c] if r is None else [c, r]))
    for name, x in (("c", c), ("r", r)):
        if x is not None and not asarray(x).ndim:
            raise ValueError(f"hankel: {name} must be at least 1-dimensional, got a scalar.")
    given = c if r is not None else Array(torch.zeros_like(tensor("hankel", c)))
    (column, row), _ = _vectors("hankel", c, r if r is not None else given)
    rows, columns = column.shape[-1], row.shape[-1]
    if not rows or not columns:
        return Array(column.new_zeros((*column.shape[:-1], rows, columns)))
    i, j = _places(rows, columns, column)
    return Array(torch.cat([column, row[..., 1:]], -1)[..., i + j])


def circulant(c: ArrayLike) -> Array:
    """Return the square matrices whose columns are `c`, turned one step further in each."""
    (column,), weak = _vectors("circulant", c)
    i, j = _places(column.shape[-1], column.shape[-1], column)
    return Array(column[..., (i - j) % max(column.shape[-1], 1)], weak)


def leslie(f: ArrayLike, s: ArrayLike) -> Array:
    """Return the matrices with first row `f` and subdiagonal `s`, which is one shorter. `ValueError` where it is not."""
    check_arraylike("leslie", f, s)
    first, below = (np.shape(x) or (1,) for x in (f, s))
    if first[-1] < 2:
        raise ValueError(f"The length of f along the last axis must be at least 2; got shape {first}.")
    if below[-1] != first[-1] - 1:
        raise ValueError(
            "Incorrect lengths for f and s. The length of s along the last axis must be one less than the length of f; "
            f"got f shape {first} and s shape {below}."
        )
    (row, sub), _ = _vectors("leslie", f, s)
    return Array(torch.cat([row.unsqueeze(-2), torch.diag_embed(sub, -1)[..., 1:, :]], -2))


def companion(a: ArrayLike) -> Array:
    """Return the companion matrices of polynomials, highest coefficient first. `ValueError` for fewer than two."""
    (t,), _ = promote_inexact("companion", a)
    t = t.reshape(1) if not t.dim() else t
    if t.shape[-1] < 2:
        raise ValueError(f"The length of `a` along the last axis must be at least 2; got shape {tuple(t.shape)}.")
    return Array(_companion(t))


def _companion(t: Tensor) -> Tensor:
    row = -t[..., 1:] / t[..., :1]
    return torch.cat([row.unsqueeze(-2), torch.diag_embed(torch.ones_like(row[..., 1:]), -1)[..., 1:, :]], -2)


def fiedler(a: ArrayLike) -> Array:
    """Return the matrices of the distances between the elements of vectors."""
    (t,), weak = _vectors("fiedler", a)
    return absolute(subtract(Array(t.unsqueeze(-1), weak), Array(t.unsqueeze(-2), weak)))


def fiedler_companion(a: ArrayLike) -> Array:
    """Return pentadiagonal companion matrices of polynomials, highest coefficient first. `ValueError` for none at all."""
    (t,), weak = promote_inexact("fiedler_companion", a)
    t = t.reshape(1) if not t.dim() else t
    if not t.shape[-1]:
        raise ValueError(
            "fiedler_companion requires the last axis of 'a' to have nonzero length, but got an array of shape "
            f"{tuple(t.shape)}."
        )
    size = t.shape[-1] - 1
    if not size:
        return Array(t.new_zeros((*t.shape[:-1], 0, 0)), weak)
    # The coefficients lie above the diagonal in even rows and below it in odd columns, with ones two further out.
    row, column = np.arange(size)[:, None], np.arange(size)
    even = row % 2 == 0
    source = np.select(
        [(row == 0) & (column == 0), even & (column == row + 1), even & (column == row - 1)], [1, row + 2, row + 1], 0
    )
    ones = (even & (column == row + 2)) | (~even & (column == row - 2)) | ((row == 1) & (column == 0))
    places, units = (from_numpy(x, t.device) for x in (source, ones))
    coefficients = torch.cat([torch.zeros_like(t[..., :1]), -t[..., 1:] / t[..., :1]], -1)
    return Array(torch.where(units, 1, coefficients[..., places]))


def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Array:
    """Return the matrices M with M @ v = convolve(a, v, mode) for vectors v of size `n`.

    Raises `ValueError` for a scalar or empty `a`, an `n` that is not positive, and modes but "full", "valid" and "same".
    """
    n = operator.index(n)
    if n <= 0:
        raise ValueError(f"n must be a positive integer; got {n}.")
    (t,), weak = promote("convolution_matrix", a)
    if not t.dim():
        raise ValueError("convolution_matrix: a must be at least 1-dimensional, got a scalar.")
    size = t.shape[-1]
    if not size:
        raise ValueError(f"len(a) must be at least 1; got shape {tuple(t.shape)}.")
    if mode not in ("full", "valid", "same"):
        raise ValueError(f"mode must be one of 'full', 'valid', 'same'; got {mode!r}.")
    trimmed = {"full": 0, "same": min(n, size) - 1, "valid": 2 * (min(n, size) - 1)}[mode]
    rows = size + n - 1 - trimmed
    i, j = _places(rows, n, t)
    source = i + trimmed // 2 - j
    padded = torch.cat([t, torch.zeros_like(t[..., :1])], -1)
    return Array(padded[..., torch.where((source >= 0) & (source < size), source, size)], weak)


def block_diag(*arrs: ArrayLike) -> Array:
    """Return the matrix with the given matrices on its diagonal; vectors are rows. `ValueError` for more dimensions."""
    if not arrs:
        return Array(torch.zeros((1, 0), dtype=float_dtype(), device=default_torch_device()))
    for position, x in enumerate(map(asarray, arrs)):
        if x.ndim > 2:
            raise ValueError(
                "Arguments to jax.scipy.linalg.block_diag must have at most 2 dimensions, got an array of shape "
                f"{x.shape} at argument {position}."
            )
    found, weak = promote("block_diag", *map(asarray, arrs))
    blocks = [t.reshape(1, -1) if t.dim() < 2 else t for t in found]
    total, start, rows = sum(t.shape[1] for t in blocks), 0, []
    for block in blocks:
        end = start + block.shape[1]
        rows.append(torch.nn.functional.pad(block, (start, total - end)))
        start = end
    return Array(torch.cat(rows), weak)


# ----------------------------------------------------------------------------------------------------------- of a size


def _constant(values: np.ndarray, dtype: torch.dtype | None = None) -> Array:
    return Array(convert(from_numpy(values), dtype or float_dtype()))


def hilbert(n: int) -> Array:
    """Return the matrix of 1 / (i + j + 1)."""
    i = np.arange(n, dtype=np.float64)
    return _constant(1 / (i[:, None] + i + 1))


def invhilbert(n: int) -> Array:
    """Return the inverse of the Hilbert matrix."""
    i = np.arange(n, dtype=np.float64)
    ratios = -(n + i[:-1] + 1) * (n - 1 - i[:-1]) / (i[:-1] + 1) ** 2
    with np.errstate(over="ignore", invalid="ignore"):
        p = n * np.cumprod(np.concatenate([[1.0], ratios]))[:n]
        return _constant(p[:, None] * p / (i[:, None] + i + 1))


def _binomials(n: int) -> np.ndarray:
    """Return the matrix of i over j, which is lower triangular."""
    found = np.eye(n)
    for i in range(1, n):
        found[i, 0] = 1
        found[i, 1:] = found[i - 1, 1:] + found[i - 1, :-1]
    return found


def _kind(kind: str | None) -> str:
    kinds = ["symmetric", "lower", "upper"]
    if kind is not None and kind not in kinds:
        raise ValueError(f"Expected kind to be one of: {kinds}; got {kind}")
    return kind or "symmetric"


def pascal(n: int, kind: str | None = None) -> Array:
    """Return Pascal's triangle in a float32 matrix: the "symmetric" one, or its "lower" or "upper" Cholesky factor."""
    kind, lower = _kind(kind), _binomials(n)
    return _constant({"lower": lower, "upper": lower.T}.get(kind, lower @ lower.T), torch.float32)


def invpascal(n: int, kind: str | None = None) -> Array:
    """Return the inverse of `pascal(n, kind)`."""
    i = np.arange(n)
    kind, lower = _kind(kind), (-1.0) ** (i[:, None] - i) * _binomials(n)
    return _constant({"lower": lower, "upper": lower.T}.get(kind, lower.T @ lower))


def helmert(n: int, full: bool = False) -> Array:
    """Return the n - 1 orthonormal rows that are orthogonal to ones; with `full` the row of ones, too, of norm 1."""
    if n < 1:
        raise ValueError(f"n must be a positive integer; got {n}.")
    k = np.arange(1, n, dtype=np.float64)[:, None]
    j = np.arange(n)
    rows = np.where(j < k, 1, np.where(j == k, -k, 0)) / np.sqrt(k * (k + 1))
    return _constant(np.concatenate([np.full((1, n), n**-0.5), rows]) if full else rows)


def hadamard(n: int, dtype: DTypeLike = int) -> Array:
    """Return Sylvester's matrix of 1 and -1 with orthogonal rows. `ValueError` for what is no power of two."""
    if n < 1 or n & (n - 1):
        raise ValueError(f"n must be a positive power of 2; got {n}.")
    target = dtypes.to_torch(dtypes.requested_dtype(dtype, "hadamard"))
    if n > 1 and target is torch.bool:
        raise TypeError("hadamard does not accept dtype bool, which has no -1.")
    found = np.ones((1, 1), np.int64)
    while len(found) < n:
        found = np.block([[found, found], [found, -found]])
    return _constant(found, target)


def dft(n: int, scale: str | None = None, *, dtype: DTypeLike | None = None) -> Array:
    """Return the matrix that is the discrete Fourier transform, divided by sqrt(n) or n as `scale` ("sqrtn", "n") says.

    Raises `ValueError` for other scales, and for a `dtype` that is not complex.
    """
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(f"scale must be None, 'sqrtn', or 'n'; got {scale!r}.")
    target = dtypes.canonicalize_dtype(np.complex128) if dtype is None else dtypes.requested_dtype(dtype, "dft")
    if not dtypes.issubdtype(target, np.complexfloating):
        raise ValueError(f"dtype must be a complex floating-point type; got {target}.")
    i = np.arange(n)
    angles = -2 * math.pi / max(n, 1) * (i[:, None] * i % max(n, 1))
    divisor = {None: 1.0, "sqrtn": math.sqrt(n), "n": float(n)}[scale]
    return _constant(np.exp(1j * angles) / divisor, dtypes.to_torch(target))
