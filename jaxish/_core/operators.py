"""What torch's operators are to this library: what each does with elements, and JAX's name for it.

A row is for an operator's overloads together, but for a few that mean different things. What has no row is known by
torch's own tag for elementwise operators, and keeps torch's name. How an operator is written in C++
(`_compile/loop_operators.py`) and cut into parts (`_devices/partition.py`) stands with what does it.
"""

import enum
import functools
import operator
from dataclasses import dataclass
from typing import Any

import torch

aten = torch.ops.aten


class Kind(enum.Enum):
    """What an operator does with the elements of its operands."""

    RESHAPE = "keeps all, in order"
    PERMUTE = "keeps all, dimensions in another order"
    VIEW = "takes some, or some repeatedly"
    ELEMENTWISE = "makes each of one of each operand"
    COMPARISON = "compares each with one of the other operand"
    LOGICAL = "combines truth values or bits of each"
    FILL = "makes all of a number"
    UNSET = "makes memory without values"
    NUMBERS = "makes numbers of its own: one, or a row that counts up"
    REDUCTION = "folds those along dimensions"
    PRODUCT = "sums products"
    WRITE = "copies its first operand and writes into the copy"
    OTHER = "anything else"


_VIEWS = {Kind.RESHAPE, Kind.PERMUTE, Kind.VIEW}
_ELEMENTWISE = {Kind.ELEMENTWISE, Kind.COMPARISON, Kind.LOGICAL}


@dataclass(frozen=True)
class Operator:
    """One row: torch's name, kind, and the name of JAX's primitive (torch's name where JAX has none)."""

    name: str
    kind: Kind
    jax_name: str

    @property
    def is_view(self) -> bool:
        """Whether results may share their operand's memory."""
        return self.kind in _VIEWS

    @property
    def is_elementwise(self) -> bool:
        """Whether each element of the result is made of one element of each operand, broadcast."""
        return self.kind in _ELEMENTWISE


# torch's names, with JAX's where it is another one.
_NAMES = {
    Kind.RESHAPE: (
        "reshape view:reshape _unsafe_view:reshape unsqueeze:broadcast_in_dim squeeze alias:copy lift_fresh:copy detach:stop_gradient"
    ),
    Kind.PERMUTE: "permute:transpose transpose t:transpose",
    Kind.VIEW: (
        "expand:broadcast_in_dim select:squeeze slice unbind:unstack split split_with_sizes:split diagonal as_strided "
        "view_as_real view_as_complex"
    ),
    Kind.ELEMENTWISE: (
        "_to_copy:convert_element_type clone:copy lift_fresh_copy:copy full_like:full zeros_like:zeros ones_like:ones "
        "complex real imag _conj:conj conj_physical:conj _conj_physical:conj add sub mul div neg reciprocal:integer_pow pow square sqrt "
        "rsqrt exp exp2 expm1 log log1p log2 sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh "
        "sigmoid:logistic erf erfc erfinv:erf_inv lgamma digamma abs sign sgn:sign floor ceil round trunc relu:max "
        "clamp clamp_min:max clamp_max:min maximum:max minimum:min fmod:rem remainder:rem nextafter where:select_n "
        "masked_fill:select_n polygamma bitwise_left_shift:shift_left __lshift__:shift_left "
        "bitwise_right_shift:shift_right_arithmetic __rshift__:shift_right_arithmetic tanh_backward sigmoid_backward "
        "isfinite:is_finite log10 logaddexp logaddexp2 ldexp nan_to_num hypot copysign signbit xlogy"
    ),
    Kind.COMPARISON: "eq ne lt le gt ge isnan isinf",
    Kind.LOGICAL: (
        "logical_and:and logical_or:or logical_not:not logical_xor:xor bitwise_and:and bitwise_or:or bitwise_not:not "
        "bitwise_xor:xor"
    ),
    Kind.FILL: "full zeros ones _efficientzerotensor:zeros",
    Kind.UNSET: "empty empty_strided:empty empty_like:empty new_empty:empty",
    Kind.NUMBERS: "arange:iota scalar_tensor:full",
    Kind.REDUCTION: (
        "sum:reduce_sum prod:reduce_prod mean:reduce_mean amax:reduce_max amin:reduce_min any:reduce_or all:reduce_and "
        "argmax argmin"
    ),
    Kind.PRODUCT: (
        "mm:dot_general bmm:dot_general mv:dot_general dot:dot_general vdot:dot_general addmm:dot_general "
        "addmv:dot_general baddbmm:dot_general einsum:dot_general convolution:conv_general_dilated"
    ),
    Kind.WRITE: (
        "index_put:scatter index_add:scatter-add index_copy:scatter index_fill:scatter put:scatter slice_scatter:scatter "
        "select_scatter:scatter diagonal_scatter:scatter"
    ),
    Kind.OTHER: (
        "scatter scatter_add:scatter-add scatter_reduce:scatter cat:concatenate constant_pad_nd:pad flip:rev gather "
        "index:gather index_select:gather sort cumsum cumprod "
        "logcumsumexp:cumlogsumexp cummax cummin _linalg_solve_ex linalg_cholesky_ex:cholesky "
        "_linalg_eigh:eigh _linalg_svd:svd linalg_lu_factor_ex:lu linalg_qr:qr linalg_solve_triangular:triangular_solve "
        "_fft_c2c:fft _fft_r2c:fft _fft_c2r:fft"
    ),
}  # fmt: skip


@functools.cache
def rows() -> dict[Any, Operator]:
    """Return all rows, by operator or overload."""
    found = {}
    for kind, names in _NAMES.items():
        for name, _, jax_name in (entry.partition(":") for entry in names.split()):
            found[getattr(aten, name)] = Operator(name, kind, jax_name or name)
    # A view of the bits as another dtype, element by element where that is as wide.
    found[aten.view.dtype] = Operator("view", Kind.VIEW, "bitcast_convert_type")
    found[operator.getitem] = Operator("getitem", Kind.RESHAPE, "getitem")
    return found


def of(target: Any) -> Operator:
    """Return the row of what a node of a graph calls: torch's operator, `getitem`, or a primitive."""
    known = rows()
    found = known.get(target) or known.get(getattr(target, "overloadpacket", None))
    if found is not None:
        return found
    name = getattr(target, "__name__", str(target)).split(".")[0]
    elementwise = getattr(target, "is_elementwise", False) or torch.Tag.pointwise in getattr(target, "tags", ())
    return Operator(name, Kind.ELEMENTWISE if elementwise else Kind.OTHER, name)
