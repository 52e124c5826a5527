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

from ..._compile import loop_sources, native_loop
from ..._compile.structured import Opaque
from ..._core import graph, levels, pullbacks
from ..._core.graph import Graph, TensorType
from ..._core.primitive import Dims, Primitive, batch_front, instantiate


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


class OfEach(Factorization):
    """Base class of those that are computed of one matrix after the other: a subclass gives `computed` in place of `run`.

    Calls of LAPACK from Python take some 8 µs beside the work, so that many small matrices are a loop in C++ where
    `vectors` are wanted: values alone torch computes of all matrices in one call.
    """

    vectors = True

    def computed(self, matrices: Tensor) -> list[Tensor]:
        """Return the results."""
        raise NotImplementedError

    def run(self, *inputs: Tensor) -> list[Tensor]:
        (matrices,) = inputs
        found = _in_a_loop(self, matrices) if self.vectors and is_on_host(matrices) else None
        return self.computed(matrices) if found is None else found


def is_on_host(t: Tensor) -> bool:
    """Tell whether a tensor is one that the CPU has the elements of."""
    return type(t) is Tensor and t.device.type == "cpu" and not levels.is_tracer(t) and t.numel() > 0


_MANY, _MOST_ROWS = 64, 64
_of_one: dict[tuple[str, TensorType], Graph] = {}


def _in_a_loop(primitive: Primitive, matrices: Tensor) -> list[Tensor] | None:
    """Return the results for many small matrices, by a function in C++ for a batch of any size; None until there is one."""
    *batch, rows, columns = matrices.shape
    flat = matrices.reshape(-1, rows, columns)
    if len(flat) < _MANY or max(rows, columns) > _MOST_ROWS:
        return None
    key = (primitive.identity(), TensorType.of(flat[0]))
    if key not in _of_one:
        _of_one[key] = graph.trace(primitive, [key[1]]).graph
    body = _of_one[key]
    native = native_loop.ready(body, (0, 0), lambda: loop_sources.scan_source(body, 0, 0), waits=False)
    if native is None:
        return None
    types = [TensorType((len(flat), *t.shape), t.dtype, t.device) for t in body.out_types]
    return [r.reshape(*batch, *r.shape[1:]) for r in native([flat], types, len(flat))]
