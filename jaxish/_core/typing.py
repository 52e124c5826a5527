"""Annotations for what functions accept: jax.typing's, and those that all signatures share."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from .array import Array


class SupportsDType(Protocol):
    """Anything with a `dtype` attribute."""

    @property
    def dtype(self) -> np.dtype: ...


@runtime_checkable
class DeprecatedArg(Protocol):
    """The type of a parameter that JAX has deprecated."""


ArrayLike: TypeAlias = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex
DTypeLike: TypeAlias = str | type[Any] | np.dtype | SupportsDType
Shape: TypeAlias = Sequence[int]
