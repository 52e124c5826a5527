"""What the functions on matrices share: checks of their operands, and guards against values that LAPACK refuses."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._core import dtypes
from ..._core.array import Array, is_weak, tensor_of
from ..._core.primitive import conjugate
from ..._core.promotion import convert
from .. import operands as ops
from .factorization import is_on_host

_LAPACK = (torch.float32, torch.float64, torch.complex64, torch.complex128)
_LETTERS = dict(zip(_LAPACK, "sdcz", strict=True))


def matrix(
    name: str,
    x: Any,
    position: int = 0,
    square: bool = False,
    rank: int = 2,
    integers: bool = False,
    half: bool = False,
) -> Tensor:
    """Return the tensor of a batch of matrices (or, with another rank, of vectors).

    `TypeError` for a lower rank or an integer dtype, `ValueError` where a square matrix is needed,
    `NotImplementedError` for 16-bit floats, which LAPACK does not know, but with `half`.
    """
    t = tensor_of(ops.array_of(name, x, position))
    if t.dtype in ops.INTEGER.dtypes and integers:
        t = convert(t, dtypes.to_torch(dtypes.canonicalize_dtype("float64")))
    ops.check_accepted(name, t, position, ops.INEXACT)
    if t.dim() < rank:
        raise TypeError(f"Input {position} to {name} must have rank at least {rank}, but got shape={tuple(t.shape)}")
    if t.dtype not in _LAPACK and not (half and t.dtype in dtypes.HALVES):
        raise NotImplementedError(f"Unsupported dtype {dtypes.TO_NUMPY[t.dtype]}. {name} takes x.astype('float32').")
    if square and t.shape[-1] != t.shape[-2]:
        raise ValueError(f"The input to {name} must be a square matrix. Got shape {tuple(t.shape)}.")
    return t


def adjoint(t: Tensor) -> Tensor:
    """Return conjugate-transposed matrices."""
    return conjugate(t.mT)


def symmetrized(name: str, t: Tensor) -> Tensor:
    """Return (t + tᴴ) / 2; `TypeError` when the matrices are not square."""
    if t.shape[-1] != t.shape[-2]:
        raise TypeError(f"The input to {name} must be a square matrix. Got shape {tuple(t.shape)}.")
    return (t + adjoint(t)) / 2


def nan_for_nan(function: Callable[[Tensor], tuple[Tensor, ...]], t: Tensor) -> list[Tensor]:
    """Return the results of `function`; NaN for matrices with elements that are not finite, which LAPACK refuses."""
    finite = torch.isfinite(t).all(-1).all(-1)
    results = function(torch.where(finite[..., None, None], t, 0))
    return [torch.where(finite[(..., *(None,) * (r.dim() - finite.dim()))], r, _nan(r)) for r in results]


def by_lapack(
    name: str,
    options: Mapping[str, Any],
    taken: Callable[..., Sequence[np.ndarray]],
    otherwise: Callable[[Tensor], Sequence[Tensor]],
    t: Tensor,
) -> tuple[Tensor, ...]:
    """Return what a routine of SciPy's LAPACK makes of matrices on the CPU; elsewhere, or in a trace, what torch's operator does.

    It is the one that JAX and our compiled code call, so that vectors have the same signs in every tier; MKL's, which torch calls,
    are others. `taken` makes the results of the routine's, and `options` is what that is told besides the matrix.
    """
    if not is_on_host(t):
        return tuple(otherwise(t))
    from scipy.linalg import lapack

    matrices = t.detach().resolve_conj().resolve_neg().reshape(-1, *t.shape[-2:]).numpy()
    routine = getattr(lapack, f"{_LETTERS[t.dtype]}{name}")
    results = [routine(matrix, **options) for matrix in matrices]
    if any(found[-1] for found in results):  # it did not converge: torch says so
        return tuple(otherwise(t))
    stacked = map(np.stack, zip(*(taken(*found[:-1]) for found in results), strict=True))
    return tuple(torch.from_numpy(r).reshape(*t.shape[:-2], *r.shape[1:]) for r in stacked)


def _nan(like: Tensor) -> complex:
    return complex(torch.nan, torch.nan) if like.dtype.is_complex else torch.nan


def widened(*tensors: Tensor) -> list[Tensor]:
    """Return tensors, those of 16-bit floats as float32."""
    return [t if t.dtype in _LAPACK else t.float() for t in tensors]


def all_weak(*xs: Any) -> bool:
    """Tell whether operands are all weakly typed, so that results are."""
    return all(map(is_weak, xs))


def arrays(weak: bool, *tensors: Tensor) -> list[Array]:
    """Return arrays that are all weakly typed, or none."""
    return [Array(t, weak) for t in tensors]
