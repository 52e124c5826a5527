"""jax.typing: annotations for what functions accept."""

from ._core.typing import ArrayLike as ArrayLike
from ._core.typing import DTypeLike as DTypeLike
