"""Eigenvalues and eigenvectors of tridiagonal Hermitian matrices, by LAPACK through SciPy."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._core import dtypes
from ..._core.array import Array
from ..._core.graph import TensorType
from ..._core.primitive import conjugate
from ..._core.promotion import tensor
from ..._core.target import Target
from ..._core.typing import ArrayLike
from ..._lax.linalg.factorization import Factorization
from ..._numpy.creation import asarray

_SUPPORTED = (torch.float32, torch.float64, torch.complex64, torch.complex128)


class _TridiagonalEigh(Factorization):
    """Ascending eigenvalues number `first` to `last`, and eigenvectors if wanted, for a real diagonal and off-diagonal.

    The eigenvectors have the derivative of nondegenerate perturbation theory, which takes all of them.
    """

    __name__ = "eigh_tridiagonal"

    def __init__(self, first: int, last: int, tolerance: float, with_vectors: bool = True) -> None:
        self.first, self.last, self.tolerance, self.with_vectors = first, last, tolerance, with_vectors

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        diagonal, _ = inputs
        *batch, size = diagonal.shape
        count = self.last - self.first + 1
        shapes = ((*batch, count), (*batch, size, count))[: 1 + self.with_vectors]
        return [TensorType(shape, diagonal.dtype, diagonal.device) for shape in shapes]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        import scipy.linalg

        made = [torch.full(t.shape, torch.nan, dtype=t.dtype, device="cpu") for t in self.out_types(*inputs)]
        rows = [t.reshape(-1, t.shape[-1]).cpu().numpy() for t in inputs]
        size, batch = inputs[0].shape[-1], inputs[0].dim() - 1
        flat = [t.view(-1, *t.shape[batch:]) for t in made]
        chosen: dict[str, Any] = {"select": "i", "select_range": (self.first, self.last)}
        if self.last - self.first + 1 == size:  # LAPACK has faster ways to all of them
            chosen = {}
        for i, (diagonal, off) in enumerate(zip(*rows, strict=True)):
            if np.isfinite(diagonal).all() and np.isfinite(off).all():
                found: Any = scipy.linalg.eigh_tridiagonal(
                    diagonal, off, eigvals_only=not self.with_vectors, check_finite=False, tol=self.tolerance, **chosen
                )
                for target, part in zip(flat, found if self.with_vectors else [found], strict=True):
                    target[i] = torch.from_numpy(part)
        return [t.to(inputs[0].device) for t in made]

    def spelled_out(self, target: Target, *inputs: Tensor) -> list[Tensor]:
        diagonal, off = inputs
        full = torch.diag_embed(diagonal) + torch.diag_embed(off, -1)
        values, vectors = torch.linalg.eigh(full, "L")
        kept = slice(self.first, self.last + 1)
        return [values[..., kept], vectors[..., kept]][: 1 + self.with_vectors]

    def slope(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], tangents: Sequence[Tensor]
    ) -> list[Tensor | None]:
        (d_main, d_off), size = tangents, primals[0].shape[-1]
        all_values, all_vectors = _TridiagonalEigh(0, size - 1, self.tolerance)(*primals)
        values, vectors = (
            results if self.with_vectors else (t[..., self.first : self.last + 1] for t in (all_values, all_vectors))
        )
        moved = d_main.unsqueeze(-1) * vectors
        moved = moved + torch.nn.functional.pad(d_off.unsqueeze(-1) * vectors[..., 1:, :], (0, 0, 0, 1))
        moved = moved + torch.nn.functional.pad(d_off.unsqueeze(-1) * vectors[..., :-1, :], (0, 0, 1, 0))
        of_values = (vectors * moved).sum(-2)
        if not self.with_vectors:
            return [of_values]
        inner = all_vectors.mT @ moved
        gaps = values.unsqueeze(-2) - all_values.unsqueeze(-1)
        places = torch.arange(size, device=gaps.device).unsqueeze(-1)
        own = places == torch.arange(self.first, self.last + 1, device=gaps.device)
        mixed = torch.where(own, 0, inner / torch.where(own, 1, gaps))
        return [of_values, all_vectors @ mixed]


def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: Array | None = None,
) -> Array | tuple[Array, Array]:
    """Return ascending eigenvalues, and without `eigvals_only` eigenvectors, for a diagonal `d` and off-diagonal `e`.

    With `select` "i" they are those whose numbers lie in `select_range`, both ends included; "v", a range of values, is
    not implemented, as in JAX. `tol` is the absolute error that eigenvalues may have. `key` is what JAX draws the start
    of an iteration from; LAPACK needs none.
    """
    del key
    main, off = (tensor("eigh_tridiagonal", asarray(x)) for x in (d, e))
    if main.dtype != off.dtype:
        raise TypeError(
            "diagonal and off-diagonal values must have same dtype, got "
            f"{dtypes.TO_NUMPY[main.dtype]} and {dtypes.TO_NUMPY[off.dtype]}"
        )
    if main.dtype not in _SUPPORTED:
        raise TypeError(
            "Only float32 and float64 inputs are supported as inputs to jax.scipy.linalg.eigh_tridiagonal, got "
            f"{dtypes.TO_NUMPY[main.dtype]}"
        )
    size = main.shape[-1]
    diagonal = main.real if main.is_complex() else main
    if size <= 1:
        unit = torch.eye(size, dtype=main.dtype, device=main.device)
        return Array(diagonal) if eigvals_only else (Array(diagonal), Array(unit))
    first, last = _numbers(select, select_range, size)
    values, *rest = _TridiagonalEigh(first, last, float(tol or 0.0), not eigvals_only)(diagonal, off.abs())
    if eigvals_only:
        return Array(values)
    (vectors,) = rest
    # The matrix is that of |e| in a basis turned by phases: conj(e[k]) = |e[k]| phase[k + 1] / phase[k].
    phases = conjugate(torch.sgn(off)).masked_fill(off == 0, 1).cumprod(-1)
    phases = torch.cat([torch.ones_like(main[..., :1]), phases], -1)
    return Array(values), Array(phases.unsqueeze(-1) * vectors)


def _numbers(select: str, chosen: tuple[float, float] | None, size: int) -> tuple[int, int]:
    """Return the numbers of the first and the last eigenvalue that is wanted."""
    if select == "a":
        return 0, size - 1
    if select == "v":
        raise NotImplementedError("eigh_tridiagonal(..., select='v') is not implemented")
    if select != "i":
        raise ValueError("'select must have a value in {'a', 'i', 'v'}.")
    if chosen is None:
        raise ValueError("for select='i', select_range must be specified.")
    first, last = map(int, chosen)
    if first > last:
        raise ValueError("Got empty index range in select_range.")
    return first, last
