"""The exponential of matrices, as a structured primitive."""

import functools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..._compile import lowering
from ..._core import dtypes
from ..._core.array import Array, tensor_of
from ..._core.graph import TensorType
from ..._core.primitive import instantiate
from ..._core.torch_modes import in_own_dtypes
from ..._core.typing import ArrayLike
from ..._lax.linalg.factorization import Factorization
from ..._lax.linalg.matrices import adjoint
from ..._numpy.creation import asarray
from ..._transforms.autodiff import jvp
from .operands import square

# The degree of the Padé approximant for a dtype, and the 1-norm up to which it is exact to rounding.
_APPROXIMANTS = {
    torch.float32: (7, 3.925724783138660),
    torch.complex64: (7, 3.925724783138660),
    torch.float64: (13, 5.371920351148152),
    torch.complex128: (13, 5.371920351148152),
}


class _Exponential(Factorization):
    """exp(a), by scaling and squaring; NaN where more than `limit` squarings are needed.

    Source: Higham, The scaling and squaring method for the matrix exponential revisited, 2005.
    """

    __name__ = "expm"

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(inputs[0])]

    @in_own_dtypes
    def run(self, *inputs: Tensor) -> list[Tensor]:
        (a,) = inputs
        if not a.numel():
            return [a.clone()]
        degree, bound = _APPROXIMANTS[a.dtype]
        halvings = torch.log2(torch.linalg.matrix_norm(a, 1) / bound)[..., None, None]
        count = halvings.ceil().clamp(min=0)
        scale = torch.exp2(-count.clamp(max=_MOST))
        odd, even = _pade(a * scale, degree)
        start = torch.linalg.solve_ex(even - odd, even + odd).result
        result = _squared(start, count.clamp(max=self.limit + 1))
        return [torch.where(halvings.floor() <= self.limit, result, torch.nan)]

    def slope(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], tangents: Sequence[Tensor]
    ) -> list[Tensor | None]:
        # The exponential of [[a, da], [0, a]] has the derivative in its corner.
        (a,), (da,) = primals, tangents
        n = a.shape[-1]
        upper, lower = torch.cat([a, da], -1), torch.cat([torch.zeros_like(a), a], -1)
        return [self(torch.cat([upper, lower], -2))[0][..., :n, n:]]

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        # The adjoint of the derivative at a is the derivative at aᴴ; the transpose of `slope` would call this rule again.
        return self.slope([adjoint(primals[0])], [], [instantiate(cotangents[0], results[0])])


_MOST = 120  # what a power of two can scale by in float32


def _pade(a: Tensor, degree: int) -> tuple[Tensor, Tensor]:
    """Return the odd and even terms of the numerator of the diagonal Padé approximant of the exponential."""
    terms = [
        math.factorial(2 * degree - j) // (math.factorial(j) * math.factorial(degree - j)) for j in range(degree + 1)
    ]
    unit = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    square = a @ a
    powers = [unit, square, square @ square]
    powers.append(powers[2] @ square)

    def polynomial(first: int) -> Tensor:
        given = [float(t) / float(terms[-1]) for t in terms[first::2]]
        low = sum((c * p for c, p in zip(given, powers, strict=False)), torch.zeros_like(a))
        high = given[len(powers) :]
        return low if not high else low + powers[3] @ sum(c * p for c, p in zip(high, powers[1:], strict=True))

    return a @ polynomial(1), polynomial(0)


def _squared(t: Tensor, counts: Tensor) -> Tensor:
    """Return matrices squared as often as `counts` says for each."""

    def going(i: Tensor, t: Tensor, counts: Tensor) -> Tensor:
        return (i < counts).any()

    def step(i: Tensor, t: Tensor, counts: Tensor) -> list[Tensor]:
        return [i + 1, torch.where(i < counts, t @ t, t)]

    return lowering.while_loop(going, step, [torch.zeros_like(counts[..., :1, :1]).amax(), t], [counts])[1]


_exponential = functools.cache(_Exponential)


def expm(A: ArrayLike, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:
    """Return the exponentials of square matrices, NaN where more than `max_squarings` squarings are needed.

    Where `upper_triangular` says that they are triangular, only that triangle is read.
    """
    x = square("expm", A)
    t = tensor_of(x)
    if t.dtype not in _APPROXIMANTS:
        raise TypeError(f"A.dtype={dtypes.TO_NUMPY[t.dtype]} is not supported.")
    if upper_triangular:
        t = torch.triu(t)
    return Array(_exponential(int(max_squarings))(t)[0])


def expm_frechet(
    A: ArrayLike, E: ArrayLike, *, method: str | None = None, compute_expm: bool = True
) -> Array | tuple[Array, Array]:
    """Return the exponential of `A` and its derivative along `E`, or without `compute_expm` the latter.

    There is one way to compute it, whatever `method` names.
    """
    del method
    x, direction = asarray(A), asarray(E)
    for name, given in (("A", x), ("E", direction)):
        if given.ndim < 2 or given.shape[-1] != given.shape[-2]:
            raise ValueError(f"expected {name} to be a (batched) square matrix, got {name}.shape={given.shape}")
    if x.shape != direction.shape:
        raise ValueError(f"expected A and E to be the same shape, got A.shape={x.shape} E.shape={direction.shape}")
    value, derivative = jvp(expm, (x,), (direction,))
    return (value, derivative) if compute_expm else derivative
