"""Linear systems as a structured primitive.

torch's solve keeps the LU factors of the matrix for its derivative, and takes them for constants when that is
differentiated again. Here the derivative of a solution is two more solutions, whatever order it is of.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..._core.dimensions import broadcast_shape
from ..._core.graph import TensorType, is_plain_evaluation
from ..._core.primitive import Dims, Primitive, batch_front, instantiate
from .decompositions import adjoint


def solve_systems(a: Tensor, b: Tensor, method: "Solution | None" = None) -> Tensor:
    """Return x with a @ x = b for batches of matrices, which are broadcast; infinities and NaN where `a` is singular.

    `method` is the primitive that does it, where the matrices are of a special kind.
    """
    b = b.reshape((1,) * (a.dim() - b.dim()) + tuple(b.shape))  # which torch would take for a batch of vectors
    if method is None and is_plain_evaluation():
        return torch.linalg.solve_ex(a, b).result
    batch = broadcast_shape(a.shape[:-2], b.shape[:-2])
    return (method or _SOLUTION)(a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:]))[0]


class Solution(Primitive):
    """x with a @ x = b, for matrices a and b of one batch."""

    __name__ = "solve"
    factorizes = True

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(inputs[1])]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return [torch.linalg.solve_ex(*inputs).result]

    def transpose_of(self, a: Tensor) -> Tensor:
        """Return the matrices of the systems that cotangents solve."""
        return adjoint(a)

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        if dims[0] is None:  # one matrix for all: the batch becomes more columns
            columns = inputs[1].movedim(dims[1] or 0, -1)
            (x,) = self(inputs[0], columns.flatten(-2))
            x = x.unflatten(-1, columns.shape[-2:])
            return [x], [x.dim() - 1]
        return self(*(batch_front(t, d, size) for t, d in zip(inputs, dims, strict=True))), [0]

    def pushed(
        self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]
    ) -> tuple[Sequence[Tensor], Sequence[Tensor | None]]:
        a, b = primals
        right, results = instantiate(tangents[1], b), self(a, b)
        if tangents[0] is not None:
            right = right - tangents[0] @ results[0]
        return results, self(a, right)

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        (x,) = results
        (of_b,) = self(self.transpose_of(primals[0]), instantiate(cotangents[0], x))
        return [-of_b @ adjoint(x), of_b]


_SOLUTION = Solution()
