"""The exponential of matrices and its derivative, as structured primitives."""

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
from ..._transforms.repeated import compiled_when_repeated
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
        return _computed(list(inputs), self.limit)

    def slope(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], tangents: Sequence[Tensor]
    ) -> list[Tensor | None]:
        return [_derivative(self.limit)(*primals, *tangents)[0]]

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        # The adjoint of the derivative at a is the derivative at aᴴ.
        return _derivative(self.limit)(adjoint(primals[0]), instantiate(cotangents[0], results[0]))


class _Derivative(Factorization):
    """The derivative of the exponential at a along e, by differentiating how it is computed.

    Source: Al-Mohy and Higham, Computing the Fréchet derivative of the matrix exponential, 2009.
    """

    __name__ = "expm_frechet"

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(inputs[0])]

    @in_own_dtypes
    def run(self, *inputs: Tensor) -> list[Tensor]:
        return [_computed(list(inputs), self.limit)[1]]

    def slope(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], tangents: Sequence[Tensor]
    ) -> list[Tensor | None]:
        return [self._second(*primals, *tangents)]

    def _second(self, a: Tensor, e: Tensor, da: Tensor, de: Tensor) -> Tensor:
        # The derivative at [[a, da], [0, a]] along [[e, de], [0, e]] has the derivative of this one in its corner.
        n, zero = a.shape[-1], torch.zeros_like(a)
        big = [torch.cat([torch.cat([x, dx], -1), torch.cat([zero, x], -1)], -2) for x, dx in ((a, da), (e, de))]
        return self(*big)[0][..., :n, n:]

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        # The second derivative is symmetric in its directions, and its adjoint in one of them that at aᴴ.
        a, e = map(adjoint, primals)
        back = instantiate(cotangents[0], results[0])
        return [self._second(a, back, e, torch.zeros_like(back)), self(a, back)[0]]


_MOST = 120  # what a power of two can scale by in float32


def _computed(given: list[Tensor], limit: int) -> list[Tensor]:
    """Return the exponentials of matrices, for [a, e] also their derivatives along e; see `_Exponential`."""
    a = given[0]
    if not a.numel():
        return [t.clone() for t in given]
    degree, bound = _APPROXIMANTS[a.dtype]
    halvings = torch.log2(a.abs().sum(-2).amax(-1) / bound)[..., None, None]
    count = halvings.ceil().clamp(min=0)
    scale = torch.exp2(-count.clamp(max=_MOST))
    odd, even = _pade([t * scale for t in given], degree)
    factors, pivots, _ = torch.linalg.lu_factor_ex(even[0] - odd[0])
    found = [torch.linalg.lu_solve(factors, pivots, even[0] + odd[0])]
    if len(given) > 1:
        right = even[1] + odd[1] - (even[1] - odd[1]) @ found[0]
        found.append(torch.linalg.lu_solve(factors, pivots, right))
    found = _squared(found, count.clamp(max=limit + 1))
    return [torch.where(halvings.floor() <= limit, t, torch.nan) for t in found]


def _times(x: Sequence[Tensor], y: Sequence[Tensor]) -> list[Tensor]:
    """Return the product of matrices, and its derivative where they have theirs beside them."""
    return [x[0] @ y[0], *(x[0] @ dy + dx @ y[0] for dx, dy in zip(x[1:], y[1:], strict=True))]


def _pade(a: list[Tensor], degree: int) -> tuple[list[Tensor], list[Tensor]]:
    """Return the odd and even terms of the numerator of the diagonal Padé approximant of the exponential."""
    terms = [
        math.factorial(2 * degree - j) // (math.factorial(j) * math.factorial(degree - j)) for j in range(degree + 1)
    ]
    unit = torch.eye(a[0].shape[-1], dtype=a[0].dtype, device=a[0].device)
    square = _times(a, a)
    powers = [[unit, torch.zeros_like(unit)][: len(a)], square, _times(square, square)]
    powers.append(_times(powers[2], square))

    def weighted(weights: Sequence[float], powers: Sequence[Sequence[Tensor]]) -> list[Tensor]:
        parts = zip(*powers[: len(weights)], strict=True)
        return [sum((w * p for w, p in zip(weights, part, strict=True)), torch.zeros_like(a[0])) for part in parts]

    def polynomial(first: int) -> list[Tensor]:
        weights = [float(t) / float(terms[-1]) for t in terms[first::2]]
        low, high = weighted(weights[: len(powers)], powers), weights[len(powers) :]
        if not high:
            return low
        return [x + y for x, y in zip(low, _times(powers[3], weighted(high, powers[1:])), strict=True)]

    return _times(a, polynomial(1)), polynomial(0)


def _squared(given: list[Tensor], counts: Tensor) -> list[Tensor]:
    """Return matrices squared as often as `counts` says for each."""

    def going(i: Tensor, *state: Tensor) -> Tensor:
        return (i < state[-1]).any()

    def step(i: Tensor, *state: Tensor) -> list[Tensor]:
        *found, counts = state
        return [
            i + 1,
            *(torch.where(i < counts, new, old) for new, old in zip(_times(found, found), found, strict=True)),
        ]

    return lowering.while_loop(going, step, [torch.zeros_like(counts[..., :1, :1]).amax(), *given], [counts])[1:]


_derivative = functools.cache(_Derivative)
_exponential = functools.cache(_Exponential)


@compiled_when_repeated
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
