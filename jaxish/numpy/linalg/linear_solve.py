"""Linear systems that are differentiated, as structured primitives.

torch's solve keeps the LU factors of the matrix for its derivative, and takes them for constants when that is
differentiated again. Here the factors are a primitive without a derivative, and the solution's derivative is two more
solutions with the same factors, whatever order it is of.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..._core.graph import TensorType
from ..._core.primitive import Dims, Primitive, batch_front, instantiate
from ...lax import tensor_functions
from .decompositions import adjoint


def solve_systems(a: Tensor, b: Tensor) -> Tensor:
    """Return x with a @ x = b for batches of matrices; infinities and NaN where `a` is singular."""
    if tensor_functions.is_plain_evaluation():
        return torch.linalg.solve_ex(a, b).result
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])
    factors, pivots = _FACTORS(a)
    return _SOLUTION(a, factors, pivots, b)[0]


class _Factors(Primitive):
    """The LU factors and pivots of matrices, in which the matrices count as constants."""

    __name__ = "lu_factors"

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        (a,) = inputs
        return [TensorType.of(a), TensorType(tuple(a.shape[:-1]), torch.int32, a.device)]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        factors, pivots, _ = torch.linalg.lu_factor_ex(inputs[0])
        return [factors, pivots]

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        return self(inputs[0].movedim(dims[0] or 0, 0)), [0, 0]

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        # Zeros, not None: torch's bridge fails for a floating result without a tangent beside an integer one (2.13).
        return [torch.zeros_like(primals[0]), None]

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        return [None]


class _Solution(Primitive):
    """x with a @ x = b (transposed: a^H @ x = b) for matrices, their factors and pivots, and b of the same batch."""

    __name__ = "lu_solution"

    def __init__(self, transposed: bool) -> None:
        self.transposed = transposed

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(inputs[3])]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        _, factors, pivots, b = inputs
        return [torch.linalg.lu_solve(factors, pivots, b, adjoint=self.transposed)]

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        if all(d is None for d in dims[:3]):  # one matrix for all: the batch becomes more columns
            columns = inputs[3].movedim(dims[3] or 0, -1)
            (x,) = self(*inputs[:3], columns.flatten(-2))
            x = x.unflatten(-1, columns.shape[-2:])
            return [x], [x.dim() - 1]
        return self(*(batch_front(t, d, size) for t, d in zip(inputs, dims, strict=True))), [0]

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        a, factors, pivots, b = primals
        right = instantiate(tangents[3], b)
        if tangents[0] is not None:
            change = adjoint(tangents[0]) if self.transposed else tangents[0]
            right = right - change @ self(*primals)[0]
        return list(self(a, factors, pivots, right))

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        (x,) = results
        (of_b,) = (_SOLUTION if self.transposed else _ADJOINT)(*primals[:3], instantiate(cotangents[0], x))
        left, right = (x, of_b) if self.transposed else (of_b, x)
        return [-left @ adjoint(right), None, None, of_b]


_FACTORS, _SOLUTION, _ADJOINT = _Factors(), _Solution(False), _Solution(True)
