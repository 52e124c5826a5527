"""Determinants, as structured primitives where they are differentiated.

torch keeps LU factors for the derivative of a determinant, and takes them for constants in the derivative after it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..._compile.lowering import is_lowering
from ..._core.array import Array
from ..._core.graph import TensorType, is_plain_evaluation
from ..._core.typing import ArrayLike
from ..._lax.linalg.factorization import Factorization
from ..._transforms.repeated import compiled_when_repeated
from ..._transforms.shown_calls import shown_as_jit
from .decompositions import adjoint, matrices


class SlogdetResult(NamedTuple):
    """The sign of a determinant and the logarithm of its absolute value."""

    sign: Array
    logabsdet: Array


def _trace_of_product(a: Tensor, b: Tensor) -> Tensor:
    return (a.mT * b).sum((-2, -1))


class _LogDeterminant(Factorization):
    __name__ = "log_determinant"

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        (a,) = inputs
        batch = tuple(a.shape[:-2])
        return [TensorType(batch, a.dtype, a.device), TensorType(batch, a.dtype.to_real(), a.device)]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return list(torch.linalg.slogdet(inputs[0]))

    def slope(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], tangents: Sequence[Tensor]
    ) -> list[Tensor | None]:
        change = _trace_of_product(torch.linalg.inv_ex(primals[0]).inverse, tangents[0])
        if not change.is_complex():
            return [torch.zeros_like(results[0]), change]
        return [torch.complex(torch.zeros_like(change.imag), change.imag) * results[0], change.real]


class _Determinant(Factorization):
    __name__ = "determinant"

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        (a,) = inputs
        return [TensorType(tuple(a.shape[:-2]), a.dtype, a.device)]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return [torch.linalg.det(inputs[0])]

    def slope(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], tangents: Sequence[Tensor]
    ) -> list[Tensor | None]:
        return [_trace_of_product(_ADJUGATE(*primals)[0], tangents[0])]


class _Adjugate(Factorization):
    """The transposed cofactors; defined where the matrix is singular, unlike their derivative."""

    __name__ = "adjugate"

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(inputs[0])]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        (a,) = inputs
        factors, pivots, _ = torch.linalg.lu_factor_ex(a)
        singular = (factors.diagonal(0, -2, -1) == 0).any()
        if is_lowering():
            return [torch.where(singular, _adjugate_of_any(a), _adjugate_by_inverse(factors, pivots))]
        return [_adjugate_of_any(a) if singular else _adjugate_by_inverse(factors, pivots)]

    def slope(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], tangents: Sequence[Tensor]
    ) -> list[Tensor | None]:
        inverse, (adjugate,) = torch.linalg.inv_ex(primals[0]).inverse, results
        change = _trace_of_product(inverse, tangents[0])
        return [change[..., None, None] * adjugate - inverse @ tangents[0] @ adjugate]


def _adjugate_by_inverse(factors: Tensor, pivots: Tensor) -> Tensor:
    # The same factors in both, so that their errors cancel where the matrix is nearly singular.
    size = factors.shape[-1]
    eye = torch.eye(size, dtype=factors.dtype, device=factors.device).expand(factors.shape)
    swaps = (pivots != torch.arange(1, size + 1, device=factors.device)).sum(-1)
    value = factors.diagonal(0, -2, -1).prod(-1) * (1 - 2 * (swaps % 2))
    return value[..., None, None] * torch.linalg.lu_solve(factors, pivots, eye)


def _adjugate_of_any(a: Tensor) -> Tensor:
    # adj(U S V) = adj(V) adj(S) adj(U), where the adjugate of a unitary matrix is its inverse times its determinant.
    u, s, v = torch.linalg.svd(a)
    ones = torch.ones_like(s[..., :1])
    before = torch.cumprod(torch.cat([ones, s[..., :-1]], -1), -1)
    behind = torch.cumprod(torch.cat([ones, s[..., 1:].flip(-1)], -1), -1).flip(-1)
    sign = (torch.linalg.det(u) * torch.linalg.det(v))[..., None, None]
    return sign * adjoint(v) * (before * behind).unsqueeze(-2) @ adjoint(u)


_LOG_DETERMINANT, _DETERMINANT, _ADJUGATE = _LogDeterminant(), _Determinant(), _Adjugate()


@shown_as_jit("method")
@compiled_when_repeated
def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """Return the signs of determinants and the logarithms of their absolute values.

    `method` ("lu" or "qr") says how JAX would compute them; both have one result.
    """
    if method not in (None, "lu", "qr"):
        raise ValueError(f"Unknown slogdet method '{method}'. Supported methods are 'lu' (`None`), and 'qr'.")
    (t,) = matrices("slogdet", a, square=True)
    if method == "qr" and t.is_complex():
        raise NotImplementedError("slogdet method='qr' not implemented for complex inputs")
    plain = is_plain_evaluation()
    sign, logarithm = torch.linalg.slogdet(t) if plain else _LOG_DETERMINANT(t)
    return SlogdetResult(Array(sign), Array(logarithm))


@shown_as_jit()
@compiled_when_repeated
def det(a: ArrayLike) -> Array:
    """Return the determinants of square matrices."""
    (t,) = matrices("det", a, square=True)
    size = t.shape[-1]
    if size == 2:
        # By its definition, so that derivatives of singular matrices are right.
        return Array(t[..., 0, 0] * t[..., 1, 1] - t[..., 0, 1] * t[..., 1, 0])
    if size == 3:
        minors = torch.linalg.cross(t[..., 1, :], t[..., 2, :], dim=-1)
        return Array((t[..., 0, :] * minors).sum(-1))
    return Array(torch.linalg.det(t) if is_plain_evaluation() else _DETERMINANT(t)[0])
