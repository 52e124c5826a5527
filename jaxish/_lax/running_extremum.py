"""Running maxima and minima: torch's kernel for the values, a tree of pairwise extrema for complex ones and derivatives.

torch.cummax gives a tie's whole cotangent to one element and does not order complex numbers. JAX differentiates
`associative_scan(max)`, which shares it out between the two sides of every comparison.
"""

from collections.abc import Sequence

from torch import Tensor

from .._core import duals, pullbacks, unsigned
from .._core.primitive import Dims, Primitive, TensorType, instantiate
from .._tensors.ordering import maximum, minimum
from .control_flow.associative_scan import prefixes


class RunningExtremum(Primitive):
    """The greatest or least of the elements up to each one along `dim`, counted from the back."""

    def __init__(self, dim: int, greatest: bool) -> None:
        self.dim, self.greatest = dim, greatest
        self.__name__ = "cummax" if greatest else "cummin"

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(inputs[0])]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        (t,) = inputs
        if t.dtype.is_complex:
            return [self._tree(t)]
        return [(unsigned.cummax if self.greatest else unsigned.cummin)(t, self.dim)]

    def _tree(self, t: Tensor) -> Tensor:
        pick = maximum if self.greatest else minimum
        return prefixes(lambda a, b: [pick(a[0], b[0])], [t], [t.dim() + self.dim])[0]

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        assert dims[0] is not None
        return self(inputs[0].movedim(dims[0], 0)), [0]

    def pushed(
        self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]
    ) -> tuple[Sequence[Tensor], Sequence[Tensor | None]]:
        return duals.jvp(lambda t: ([self._tree(t)], []), primals, [instantiate(tangents[0], primals[0])])[:2]

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        return pullbacks.vjp(lambda t: ([self._tree(t)], ()), primals)[1](cotangents)


def running_extremum(t: Tensor, axis: int, greatest: bool) -> Tensor:
    """Return the greatest or least of the elements up to each one along an axis."""
    return RunningExtremum(axis - t.dim(), greatest)(t)[0]
