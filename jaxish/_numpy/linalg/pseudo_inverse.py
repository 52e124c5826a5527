"""The pseudo-inverse, as a structured primitive.

Taken through its singular value decomposition, its derivative would be spoilt by singular values that are zero or equal.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..._core.array import Array
from ..._core.graph import TensorType
from ..._core.promotion import convert, tensor
from ..._core.torch_modes import in_own_dtypes
from ..._core.typing import ArrayLike
from ..._lax.linalg.factorization import Factorization
from ..._lax.linalg.matrices import nan_for_nan
from ..._transforms.repeated import compiled_when_repeated
from .decompositions import adjoint, matrices


class _PseudoInverse(Factorization):
    """The pseudo-inverse of a matrix, and the limit below which singular values count as zero beside the largest."""

    __name__ = "pseudo_inverse"

    def __init__(self, hermitian: bool) -> None:
        self.hermitian = hermitian

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        a, _ = inputs
        return [TensorType(tuple(a.mT.shape), a.dtype, a.device)]

    @in_own_dtypes
    def run(self, *inputs: Tensor) -> list[Tensor]:
        a, limit = inputs
        if self.hermitian:
            values, u = nan_for_nan(lambda t: tuple(torch.linalg.eigh(t)), (a + adjoint(a)) / 2)
            size = torch.abs(values)
            largest, vh = size.amax(-1, keepdim=True), adjoint(u)
        else:
            u, values, vh = nan_for_nan(lambda t: tuple(torch.linalg.svd(t, full_matrices=False)), a)
            size, largest = values, values[..., :1]
        kept = size > limit * largest
        inverse = torch.where(kept, 1 / torch.where(kept, values, 1.0), torch.where(torch.isnan(size), size, 0.0))
        return [(adjoint(vh) * inverse.unsqueeze(-2).to(u.dtype)) @ adjoint(u)]

    def slope(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], tangents: Sequence[Tensor]
    ) -> list[Tensor | None]:
        # Golub and Pereyra, The differentiation of pseudo-inverses, 1973.
        (a, _), (p,), change = primals, results, tangents[0]
        if self.hermitian:
            a, change = (a + adjoint(a)) / 2, (change + adjoint(change)) / 2
        left = _chain(p, adjoint(p), adjoint(change))
        right = _chain(adjoint(change), adjoint(p), p)
        return [left - _chain(left, a, p) + right - _chain(p, a, right) - _chain(p, change, p)]


def _chain(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Return a b c, in the cheaper order: the other may take the square of the longer dimension in memory."""
    (rows, first), (second, columns) = a.shape[-2:], c.shape[-2:]
    left_first = rows * second * (first + columns) < first * columns * (rows + second)
    return (a @ b) @ c if left_first else a @ (b @ c)


_PSEUDO_INVERSES = {hermitian: _PseudoInverse(hermitian) for hermitian in (False, True)}


@compiled_when_repeated
def pinv(
    a: ArrayLike, rtol: ArrayLike | None = None, hermitian: bool = False, *, rcond: ArrayLike | None = None
) -> Array:
    """Return the pseudo-inverses of matrices; singular values below `rtol` times the largest count as zero."""
    if rcond is not None:
        if rtol is not None:
            raise ValueError("pinv: only one of rtol and rcond may be specified.")
        rtol = rcond
    (t,) = matrices("pinv", a)
    m, n = t.shape[-2:]
    if not m or not n:
        return Array(torch.zeros((*t.shape[:-2], n, m), dtype=t.dtype, device=t.device))
    if rtol is None:
        limit = torch.full((), 10.0 * max(m, n) * torch.finfo(t.dtype).eps, dtype=t.dtype.to_real(), device=t.device)
    else:
        limit = convert(tensor("pinv", rtol), t.dtype.to_real())
    return Array(_PSEUDO_INVERSES[hermitian](t, limit.detach().expand(t.shape[:-2]).unsqueeze(-1))[0])
