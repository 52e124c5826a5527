"""The `precision` argument of matrix products and convolutions.

torch multiplies float32 matrices in float32 unless the user lets it use less (torch.backends), so that every
`Precision` is met as it is. A `DotAlgorithm` asks for a certain input type and accumulator: operands are rounded to
that input type and multiplied in the accumulator's.
"""

import enum
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import torch

from .._core import config, dtypes


class Precision(enum.Enum):
    """How much of float32 a matrix product uses. Each is met: products are computed in full float32."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    @classmethod
    def _missing_(cls, value: object) -> "Precision | None":
        return _NAMES.get(value) if isinstance(value, str | None) else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __str__(self) -> str:
        return self.name


_NAMES: dict[Any, Precision] = {
    "highest": Precision.HIGHEST, "float32": Precision.HIGHEST,
    "high": Precision.HIGH, "bfloat16_3x": Precision.HIGH, "tensorfloat32": Precision.HIGH,
    "default": Precision.DEFAULT, "bfloat16": Precision.DEFAULT, "fastest": Precision.DEFAULT, None: Precision.DEFAULT,
}  # fmt: skip


@dataclass(frozen=True)
class DotAlgorithm:
    """The types in which a matrix product is to be computed."""

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


class DotAlgorithmPreset(enum.Enum):
    """Known algorithms, named after the types of the operands and of the accumulator."""

    DEFAULT = 0
    ANY_F8_ANY_F8_F32 = 1
    ANY_F8_ANY_F8_F32_FAST_ACCUM = 2
    ANY_F8_ANY_F8_ANY = 3
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = 4
    F16_F16_F16 = 5
    F16_F16_F32 = 6
    BF16_BF16_BF16 = 7
    BF16_BF16_F32 = 8
    BF16_BF16_F32_X3 = 9
    BF16_BF16_F32_X6 = 10
    BF16_BF16_F32_X9 = 11
    TF32_TF32_F32 = 12
    TF32_TF32_F32_X3 = 13
    F32_F32_F32 = 14
    F64_F64_F64 = 15

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __str__(self) -> str:
        return self.name


PrecisionLike = (
    str | Precision | tuple[str, str] | tuple[Precision, Precision] | DotAlgorithm | DotAlgorithmPreset | None
)

# Input type and accumulator of the presets that are not simply float32 arithmetic (TF32 and split bfloat16 are
# approximations of that).
_F16, _BF16, _F32, _F64 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32), np.dtype(np.float64)
_PRESETS = {
    DotAlgorithmPreset.F16_F16_F16: (_F16, _F16),
    DotAlgorithmPreset.F16_F16_F32: (_F16, _F32),
    DotAlgorithmPreset.BF16_BF16_BF16: (_BF16, _BF16),
    DotAlgorithmPreset.BF16_BF16_F32: (_BF16, _F32),
    DotAlgorithmPreset.F64_F64_F64: (_F64, _F64),
}

Types = tuple[torch.dtype, torch.dtype, torch.dtype]


def compute_types(precision: Any) -> Types | None:
    """Return the types of lhs, rhs and accumulator that a precision asks for; None where nothing need be done.

    `ValueError` for what is no precision.
    """
    if precision is None and config.default_matmul_precision.value is None:
        return None
    if precision is None:
        precision = config.default_matmul_precision.value
    if isinstance(precision, DotAlgorithm):
        wanted = (precision.lhs_precision_type, precision.rhs_precision_type, precision.accumulation_type)
        lhs, rhs, accumulator = (dtypes.to_torch(dtypes.canonicalize_dtype(d)) for d in wanted)
        return lhs, rhs, accumulator
    if isinstance(precision, str) and precision in DotAlgorithmPreset.__members__:
        precision = DotAlgorithmPreset[precision]
    if isinstance(precision, DotAlgorithmPreset):
        if precision not in _PRESETS:
            return None
        operand, accumulator = (dtypes.to_torch(d) for d in _PRESETS[precision])
        return operand, operand, accumulator
    pair = precision if isinstance(precision, tuple | list) and len(precision) == 2 else (precision, precision)
    for one in pair:
        if not isinstance(one, Precision) and not (isinstance(one, str | None) and one in _NAMES):
            raise ValueError(
                "Precision argument must be one of: None, a string in "
                f"{[n for n in _NAMES if n]}, a lax.Precision value, a pair of these, a lax.DotAlgorithm or a "
                f"lax.DotAlgorithmPreset; got {precision!r}."
            )
    return None
