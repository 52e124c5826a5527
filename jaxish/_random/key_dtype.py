"""The dtype of key arrays: which generator the keys are of."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._core import dtypes
from .._core.dtypes import ExtendedDType


class KeyDType(ExtendedDType):
    """The dtype of a key array: `key<fry>`.

    `origin` is the array whose kind this is, for `jax_debug_key_reuse`: what stands for a slice names its array by it.
    """

    __slots__ = ("impl", "origin")
    type = dtypes.prng_key
    array: Callable[..., Any]  # the class of such arrays (key_array.py)

    def __init__(self, impl: Any, origin: Any = None) -> None:
        self.impl, self.origin = impl, origin

    @property
    def name(self) -> str:  # pyright: ignore
        """`key<tag>`."""
        return f"key<{self.impl.tag}>"

    @property
    def itemsize(self) -> int:
        """The bytes of one key."""
        return 4 * torch.Size(self.impl.key_shape).numel()

    @property
    def element_shape(self) -> tuple[int, ...]:
        """The dimensions that the words of one key take in a tensor."""
        return self.impl.key_shape

    def wrap(self, tensor: Tensor) -> Any:
        """Return the key array on a uint32 tensor."""
        return KeyDType.array(tensor, self.impl, self.origin)

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyDType) and self.impl is other.impl

    def __hash__(self) -> int:
        return hash((KeyDType, id(self.impl)))
