"""map: a function applied to slice after slice."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ..._core import tree
from ..._core.array import tensor_of
from ..._transforms.flat import arrays_from
from ..._transforms.vmap import vmap
from .bodies import Operands
from .scan import leading_length, scan


def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """Apply `f` to each slice of the pytree `xs` along its leading axis, one after the other, and stack the results.

    With `batch_size`, that many slices at once under vmap; None and 0 mean one at a time, without vmap.
    """
    if not batch_size:
        return scan(lambda _, x: ((), f(x)), (), xs)[1]
    operands = Operands.of(xs, "map")
    total = leading_length(operands.arrays, None)
    if not isinstance(batch_size, int | np.integer) or batch_size < 0:
        raise ValueError(f"map: batch_size must be a positive integer, got {batch_size}")
    whole = total // batch_size * batch_size

    def part(start: int, stop: int, shape: tuple[int, ...]) -> Any:
        tensors = [t[start:stop].reshape((*shape, *t.shape[1:])) for t in operands.tensors]
        return operands.spec.unflatten(arrays_from(tensors, [a.kind for a in operands.arrays]))

    done = scan(lambda _, x: ((), vmap(f)(x)), (), part(0, whole, (whole // batch_size, batch_size)))[1]
    leaves, spec = tree.flatten(done)
    parts = [tensor_of(a).flatten(0, 1) for a in leaves]
    if whole < total:
        rest = tree.flatten(vmap(f)(part(whole, total, (total - whole,))))[0]
        parts = [torch.cat([p, tensor_of(r)]) for p, r in zip(parts, rest, strict=True)]
    return spec.unflatten(arrays_from(parts, [a.kind for a in leaves]))
