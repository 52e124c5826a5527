"""As what a call of an operator is recorded: as one that a replay on other tensors than fakes computes alike, and no more than it needs."""

from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten
_Call = tuple[Any, tuple[Any, ...], dict[str, Any]]

_SCALINGS = {aten.mul.Scalar, aten.div.Scalar, aten.neg.default}

# What makes an array of one number, as large as its operand.
_ALIKE = {
    aten.zeros_like.default: 0, aten.ones_like.default: 1, aten.full_like.default: None, aten.new_zeros.default: 0,
    aten.new_ones.default: 1,
}  # fmt: skip

# A fake input is contiguous; what takes its place in a replay need not be (a transposed array, a batch in the middle).
# reshape is view where that will do, and copies where it will not.
_STRIDE_FREE = {aten.view.default: aten.reshape.default, aten._unsafe_view.default: aten.reshape.default}


def with_symbolic_zeros(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call:
    """Return a call that keeps forward mode's symbolic zeros symbolic.

    torch's kernels make float64 of one times a number, fakes make it a plain zero.
    """
    if func not in _SCALINGS or not args[0]._is_zerotensor():
        return func, args, kwargs
    zero: Tensor = args[0]
    return aten._efficientzerotensor.default, (list(zero.shape),), {"dtype": zero.dtype, "device": zero.device}


def product_with_one_matrix(a: Tensor, b: Tensor) -> Tensor | None:
    """Return the products of one matrix that is repeated (`a`) and a batch of vectors (`b`): one product of two matrices.

    functorch repeats the matrix where a call of `mm` is batched. None where these are other batches of matrices.
    """
    is_repeated = a.stride(0) == 0 and a.shape[0] > 1
    return aten.mm.default(b.squeeze(2), a.select(0, 0).t()).unsqueeze(2) if is_repeated and b.shape[2] == 1 else None


def of_values(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> _Call:
    """Return a call that reads what has a say in the values of the result `out`, and in how it lies over devices."""
    if func in _ALIKE and getattr(args[0], "laid", None) is None and all(isinstance(n, int) for n in out.shape):
        # The operand need not be computed for it: a loss of which the gradient alone is wanted.
        number = args[1] if func is aten.full_like.default else _ALIKE[func]
        return aten.full.default, (list(out.shape), number), {"dtype": out.dtype, "device": out.device}
    if func in _STRIDE_FREE:
        # What is left for -1 is not known of a batch of nothing.
        args = (args[0], list(out.shape)) if -1 in args[1] else args
        return _STRIDE_FREE[func], args, kwargs
    return func, args, kwargs
