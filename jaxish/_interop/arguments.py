"""Arguments of torch code: tensors and arrays, which a trace stands for, and all else, which it is made for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from .._core import tree
from .._core.array import Array


@dataclass(frozen=True)
class Fixed:
    """What of a call's arguments a trace depends on by value: their structure, and the leaves that are no arrays."""

    spec: tree.Spec
    leaves: tuple[tuple[type, Any] | None, ...]  # None in the place of an array; 1, 1.0 and True differ by their types

    @staticmethod
    def of(args: Any, kwargs: Any) -> "tuple[Fixed, list[Any]]":
        """Take the arguments of a call apart: what is fixed, and the arrays and tensors."""
        leaves, spec = tree.flatten((args, kwargs))
        is_array = [isinstance(x, Array | Tensor | np.ndarray) or hasattr(x, "__jax_array__") for x in leaves]
        rest = tuple(None if a else (type(x), x) for x, a in zip(leaves, is_array, strict=True))
        return Fixed(spec, rest), [x for x, a in zip(leaves, is_array, strict=True) if a]

    def rebuilt(self, arrays: Sequence[Any]) -> Any:
        """Return the arguments, args and kwargs, with these in the place of the arrays."""
        given = iter(arrays)
        return self.spec.unflatten(next(given) if leaf is None else leaf[1] for leaf in self.leaves)
