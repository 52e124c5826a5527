"""Annotations for what functions accept: jax.typing's, and those that all signatures share."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, Union, runtime_checkable

import numpy as np

from .array import Array


class SupportsDType(Protocol):
    """Anything with a `dtype` attribute."""

    @property
    def dtype(self) -> np.dtype: ...


@runtime_checkable
class DeprecatedArg(Protocol):
    """The type of a parameter that JAX has deprecated."""


# Union, as in JAX: annotations of libraries add the names of their own classes, `ArrayLike | "Quantity"`, which classes joined by | refuse.
ArrayLike: TypeAlias = Union[Array, np.ndarray, np.bool_, np.number, bool, int, float, complex]  # noqa: UP007
DTypeLike: TypeAlias = Union[str, type[Any], np.dtype, SupportsDType]  # noqa: UP007
Shape: TypeAlias = Sequence[int]
