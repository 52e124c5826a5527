"""The functorch functions that torch.func is made of: levels, their wrappers, and the stack they stand on.

torch.func itself hides the level numbers that named axes need, and the batch dimensions of results. Nothing else in
the library names `torch._C._functorch`. Tried on torch 2.13.
"""

from torch._C import _functorch  # pyright: ignore[reportAttributeAccessIssue]
from torch._functorch.pyfunctorch import (  # noqa: F401
    retrieve_current_functorch_interpreter as current_interpreter,
)
from torch.autograd.forward_ad import _set_fwd_grad_enabled as forward_mode_enabled  # noqa: F401  # pyright: ignore

TransformType = _functorch.TransformType

# the stack of levels
get_interpreter_stack = _functorch.get_interpreter_stack
peek_interpreter_stack = _functorch.peek_interpreter_stack
vmap_increment_nesting = _functorch._vmap_increment_nesting
vmap_decrement_nesting = _functorch._vmap_decrement_nesting
jvp_increment_nesting = _functorch._jvp_increment_nesting
jvp_decrement_nesting = _functorch._jvp_decrement_nesting

# the wrappers that tensors have at a level
add_batch_dim = _functorch._add_batch_dim
unwrap_batched = _functorch._unwrap_batched
get_unwrapped = _functorch.get_unwrapped
is_batchedtensor = _functorch.is_batchedtensor
is_functorch_wrapped_tensor = _functorch.is_functorch_wrapped_tensor
is_gradtrackingtensor = _functorch.is_gradtrackingtensor
maybe_get_level = _functorch.maybe_get_level
unwrap_if_dead = _functorch.unwrap_if_dead
unwrap_for_grad = _functorch._unwrap_for_grad
wrap_for_grad = _functorch._wrap_for_grad
