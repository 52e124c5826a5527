"""Functions of batches of matrices as structured primitives, each with its derivative in one place.

A `Factorization` computes on leading batch dimensions, so that vmap only puts its own in front. Its derivative is
given once, as the tangents of the results for tangents of the operands (`slope`); reverse mode is the transpose. In
compiled code it is one opaque operator, where the target can call the host, else torch's operators.
torch has derivatives of its own for most of them, but refuses some that JAX has (full QR of tall matrices), answers some that
JAX refuses (full SVD), and fixes the phases of complex eigenvectors in another way.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..._compile.structured import Opaque
from ..._core import pullbacks
from ..._core.primitive import Dims, batch_front, instantiate


class Factorization(Opaque):
    """Base class; a subclass gives `out_types`, `run`, and `slope` where there is a derivative."""

    factorizes = True

    def slope(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], tangents: Sequence[Tensor]
    ) -> list[Tensor | None]:
        """Return the tangents of the results, None for integers."""
        raise NotImplementedError(f"Differentiation rule for '{self.__name__}' not implemented.")

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        results = self(*(batch_front(t, d, size) for t, d in zip(inputs, dims, strict=True)))
        return results, [0] * len(results)

    def pushed(
        self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]
    ) -> tuple[Sequence[Tensor], Sequence[Tensor | None]]:
        results = self(*primals)
        return results, self.slope(primals, results, list(map(instantiate, tangents, primals)))

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        def linear(*tangents: Tensor) -> tuple[list[Tensor | None], tuple[()]]:
            return self.slope(primals, results, tangents), ()

        return pullbacks.vjp(linear, list(map(torch.zeros_like, primals)))[1](cotangents)
