"""The operands of special functions: promoted to a common floating dtype, and refused where they may not be complex."""

from typing import Any

from torch import Tensor

from ..._core.array import Array
from ..._core.promotion import promote_inexact


def promoted(name: str, *args: Any) -> list[Array]:
    """Return the operands as arrays of one floating or complex dtype."""
    tensors, weak = promote_inexact(name, *args)
    return [Array(t, weak) for t in tensors]


def promoted_real(name: str, *args: Any) -> tuple[list[Tensor], bool]:
    """Return the operands as tensors of one floating dtype, and whether they are weak. Raises `ValueError` for complex."""
    tensors, weak = promote_inexact(name, *args)
    if tensors[0].is_complex():
        raise ValueError(f"{name} does not support complex-valued inputs.")
    return tensors, weak
