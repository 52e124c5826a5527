"""The functorch functions that torch.func is made of: levels, their wrappers, and the stack they stand on.

torch.func itself hides the level numbers that named axes need, and the batch dimensions of results. Nothing else in
the library names `torch._C._functorch`. Tried on torch 2.13.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey, DispatchKeySet, _functorch  # pyright: ignore[reportAttributeAccessIssue]
from torch._functorch.autograd_function import (  # noqa: F401
    enable_single_level_autograd_function as single_level_functions,  # pyright: ignore[reportPrivateImportUsage]
)
from torch._functorch.pyfunctorch import (  # noqa: F401
    retrieve_current_functorch_interpreter as current_interpreter,
)
from torch.autograd.forward_ad import _set_fwd_grad_enabled as forward_mode_enabled  # noqa: F401  # pyright: ignore
from torch.autograd.function import _SingleLevelFunction as SingleLevelFunction  # noqa: F401

TransformType = _functorch.TransformType

# the stack of levels
get_interpreter_stack = _functorch.get_interpreter_stack
peek_interpreter_stack = _functorch.peek_interpreter_stack
vmap_increment_nesting = _functorch._vmap_increment_nesting
vmap_decrement_nesting = _functorch._vmap_decrement_nesting
grad_increment_nesting = _functorch._grad_increment_nesting
grad_decrement_nesting = _functorch._grad_decrement_nesting
jvp_increment_nesting = _functorch._jvp_increment_nesting
jvp_decrement_nesting = _functorch._jvp_decrement_nesting

# the wrappers that tensors have at a level
add_batch_dim = _functorch._add_batch_dim
unwrap_batched = _functorch._unwrap_batched
get_unwrapped = _functorch.get_unwrapped
is_batchedtensor = _functorch.is_batchedtensor
is_functorch_wrapped_tensor = _functorch.is_functorch_wrapped_tensor
is_gradtrackingtensor = _functorch.is_gradtrackingtensor
maybe_get_bdim = _functorch.maybe_get_bdim
maybe_get_level = _functorch.maybe_get_level
unwrap_if_dead = _functorch.unwrap_if_dead
unwrap_for_grad = _functorch._unwrap_for_grad
wrap_functional = _functorch._wrap_functional_tensor
wrap_for_grad = _functorch._wrap_for_grad

# whether a level may say of its tensors that they are differentiated
get_inplace_requires_grad_allowed = _functorch.get_inplace_requires_grad_allowed
set_inplace_requires_grad_allowed = _functorch.set_inplace_requires_grad_allowed

_is_mapped_by_autograd = _functorch.is_legacy_batchedtensor
_remove_mapped, _add_mapped = torch._remove_batch_dim, torch._add_batch_dim  # pyright: ignore[reportPrivateImportUsage]


def base_of(tensor: Tensor) -> Tensor:
    """Return the plain tensor under all functorch wrappers (vmap, grad, jvp levels) of `tensor`."""
    while is_functorch_wrapped_tensor(tensor):
        tensor = get_unwrapped(tensor)
    return tensor


@contextmanager
def entered(enter: Callable[[], int], leave: Callable[[], Any]) -> Iterator[int]:
    """Within this context manager one more level is active; its number is given."""
    level = enter()
    try:
        yield level
    finally:
        leave()


def lifted(tensor: Tensor, level: int) -> Tensor:
    """Return `tensor` as one of `level`, which differentiates, a constant there if it is none yet."""
    is_of_level = is_gradtrackingtensor(tensor) and maybe_get_level(tensor) == level
    return tensor if is_of_level else wrap_for_grad(tensor, level)


def mapped_by_autograd(function: Callable[..., Sequence[Any]], tensors: Sequence[Tensor]) -> Sequence[Any]:
    """Call a function of tensors, some of which torch's autograd has mapped with the vmap that it had before torch.func's.

    `torch.autograd.grad(is_grads_batched=True)` and `torch.autograd.functional.jacobian(vectorize=True)` still do. There is no
    level that a function could ask for, so the batch is mapped here by torch.func.
    """
    mapped = [_is_mapped_by_autograd(t) for t in tensors]
    if not any(mapped):
        return function(*tensors)
    level = torch._C._vmapmode_increment_nesting() - 1
    torch._C._vmapmode_decrement_nesting()
    plain = [_remove_mapped(t, level, 0, 0) if m else t for t, m in zip(tensors, mapped, strict=True)]
    places: list[bool] = []

    def run(*parts: Tensor) -> tuple[Tensor, ...]:
        results = function(*parts)
        places[:] = [r is not None for r in results]
        return tuple(r for r in results if r is not None)

    found = iter(torch.func.vmap(run, tuple(0 if m else None for m in mapped))(*plain))
    return [_add_mapped(next(found), 0, level) if there else None for there in places]


def functionalized(function: Callable[..., list[Tensor]], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Call `function` so that writes in place become new values; those into `tensors` are not seen outside.

    torch.func.functionalize writes the latter back into its arguments.
    """
    level = _functorch._func_increment_nesting(True)
    try:
        results = function(*(wrap_functional(t, level) for t in tensors))
        return [functional_value(t) for t in results]
    finally:
        _functorch._func_decrement_nesting()


def functional_value(tensor: Tensor) -> Tensor:
    """Return the value of a tensor of a level that makes writes in place into new values."""
    if not torch._is_functional_tensor(tensor):  # pyright: ignore[reportPrivateImportUsage]
        return tensor
    torch._sync(tensor)  # pyright: ignore[reportPrivateImportUsage]
    return _functorch._unwrap_functional_tensor(tensor, True)


def _bits_of_batch(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """The batching rule of `view.dtype`, which torch 2.9 has not."""
    level = maybe_get_level(tensor)
    value, dim = unwrap_batched(tensor, level)
    with torch._C._ExcludeDispatchKeyGuard(DispatchKeySet(DispatchKey.FuncTorchBatched)):
        seen = value.movedim(dim, 0).view(dtype)
    return add_batch_dim(seen, 0, level)


def _negative_of_batch(tensor: Tensor) -> Tensor:
    """The batching rule of `_neg_view`, which torch has not (2.13): the imaginary part of what is conjugated lazily."""
    level = maybe_get_level(tensor)
    value, dim = unwrap_batched(tensor, level)
    with torch._C._ExcludeDispatchKeyGuard(DispatchKeySet(DispatchKey.FuncTorchBatched)):
        negative = value.neg()
    return add_batch_dim(negative, dim, level)


_rules = torch.library.Library("aten", "IMPL")
for _name, _rule in {"view.dtype": _bits_of_batch, "_neg_view": _negative_of_batch}.items():
    if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{_name}", "FuncTorchBatched"):
        _rules.impl(_name, _rule, "FuncTorchBatched")
