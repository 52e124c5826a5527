"""Tridiagonal systems, by Gaussian elimination with partial pivoting: time and memory grow with the size.

Source: LAPACK's gtsv and lagtf. Swapped rows give the triangular factor a third diagonal. Both sweeps are scans, whose
steps are elementwise over the batch and the right-hand sides.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..._core.array import Array, tensor_of
from ..._core.graph import TensorType
from ..._core.primitive import conjugate, instantiate
from ..control_flow.scan import scan
from .factorization import Factorization


class TridiagonalSolve(Factorization):
    """x with a x = b for the lower, main and upper diagonal of a; with `perturb` zero pivots are replaced by tiny ones."""

    __name__ = "tridiagonal_solve"

    def __init__(self, perturb: bool) -> None:
        self.perturb = perturb

    def equation(self) -> tuple[str, dict[str, Any]]:
        return self.__name__, {"perturb_singular": self.perturb}

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(inputs[3])]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        lower, main, upper, b = inputs
        if not b.numel():
            return [torch.zeros_like(b)]
        # Equations lead, and the diagonals have a dimension for the right-hand sides to broadcast against.
        lower, main, upper = (t.movedim(-1, 0).unsqueeze(-1) for t in (lower, main, upper))
        return [_solve(lower, main, upper, b.movedim(-2, 0), self.perturb).movedim(0, -2)]

    def slope(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], tangents: Sequence[Tensor]
    ) -> list[Tensor | None]:
        (x,), (dlower, dmain, dupper, db) = results, tangents
        return [*self(*primals[:3], db - _product(dlower, dmain, dupper, x))]

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        # The transpose of `slope` would call this rule again.
        (x,), (lower, main, upper, _) = results, map(conjugate, primals)
        blank = torch.zeros_like(lower[..., :1])
        below, above = torch.cat([blank, upper[..., :-1]], -1), torch.cat([lower[..., 1:], blank], -1)
        (back,) = self(below, main, above, instantiate(cotangents[0], x))
        x = conjugate(x)
        to_lower = torch.nn.functional.pad(-(back[..., 1:, :] * x[..., :-1, :]).sum(-1), (1, 0))
        to_upper = torch.nn.functional.pad(-(back[..., :-1, :] * x[..., 1:, :]).sum(-1), (0, 1))
        return [to_lower, -(back * x).sum(-1), to_upper, back]


def _product(lower: Tensor, main: Tensor, upper: Tensor, x: Tensor) -> Tensor:
    above = torch.nn.functional.pad(upper[..., :-1, None] * x[..., 1:, :], (0, 0, 0, 1))
    below = torch.nn.functional.pad(lower[..., 1:, None] * x[..., :-1, :], (0, 0, 1, 0))
    return main.unsqueeze(-1) * x + above + below


def _solve(lower: Tensor, main: Tensor, upper: Tensor, b: Tensor, perturb: bool) -> Tensor:
    """Solve for tensors whose leading dimension counts the equations."""
    upper = torch.cat([upper[:-1], torch.zeros_like(upper[:1])])  # the last element is not read
    first = tuple(map(Array, (main[0], upper[0], b[0])))
    rows = tuple(Array(t[1:]) for t in (lower, main, upper, b))
    (last, _, rest), (pivots, *factor) = scan(_eliminate, first, rows)
    pivots, last, rest = map(tensor_of, (pivots, last, rest))
    near, far, right = map(tensor_of, factor)
    diagonal = torch.cat([pivots, last.unsqueeze(0)])
    if perturb:
        largest = torch.maximum(_size(diagonal).amax(0), _size(torch.cat([near, far, diagonal[:1]])).amax(0))
        least = torch.finfo(b.dtype).eps * torch.where(largest == 0, 1, largest)
        diagonal = torch.where(_size(diagonal) < least, torch.where(_negative(diagonal), -least, least), diagonal)
    end = rest / diagonal[-1]
    sweep = tuple(map(Array, (diagonal[:-1], near, far, right)))
    _, x = scan(_substitute, (Array(end), Array(torch.zeros_like(end))), sweep, reverse=True)
    solution = torch.cat([tensor_of(x), end.unsqueeze(0)])
    return torch.where((diagonal == 0).any(0), torch.nan, solution)


def _size(t: Tensor) -> Tensor:
    return t.real.abs() + t.imag.abs() if t.dtype.is_complex else t.abs()


def _negative(t: Tensor) -> Tensor:
    return (t.real if t.dtype.is_complex else t) < 0


def _eliminate(pending: tuple[Array, ...], row: tuple[Array, ...]) -> tuple[Any, Any]:
    """Take the first unknown out of two equations: the one with the larger pivot is done, the other goes on."""
    pivot, near, right = map(tensor_of, pending)
    following = tuple(map(tensor_of, row))
    swap = _size(following[0]) > _size(pivot)
    upper, lower = (pivot, near, torch.zeros_like(near), right), following
    upper, lower = (
        [torch.where(swap, b, a) for a, b in zip(upper, lower, strict=True)],
        [torch.where(swap, a, b) for a, b in zip(upper, lower, strict=True)],
    )
    ratio = lower[0] / torch.where(upper[0] == 0, 1, upper[0])
    carry = tuple(Array(a - ratio * b) for a, b in zip(lower[1:], upper[1:], strict=True))
    return carry, tuple(map(Array, upper))


def _substitute(known: tuple[Array, Array], row: tuple[Array, ...]) -> tuple[Any, Any]:
    (near_x, far_x), (pivot, near, far, right) = map(tensor_of, known), map(tensor_of, row)
    x = Array((right - near * near_x - far * far_x) / pivot)
    return (x, known[0]), x
