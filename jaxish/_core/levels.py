"""What levels of torch.func and traces have made of a tensor: whether it has a value, and whose it is."""

from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from . import duals, functorch
from .functorch import base_of


def is_batched(tensor: Tensor) -> bool:
    """Tell whether a vmap level is among the wrappers of `tensor`, so that it stands for many values."""
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.is_batchedtensor(tensor):
            return True
        tensor = functorch.get_unwrapped(tensor)
    return False


def has_derivative(tensor: Tensor) -> bool:
    """Tell whether `tensor` depends on what a level that is going on differentiates."""
    while functorch.is_functorch_wrapped_tensor(tensor):
        lives = functorch.is_gradtrackingtensor(tensor) and functorch.unwrap_if_dead(tensor) is tensor
        if lives and (tensor.requires_grad or duals.tangent_of(tensor) is not None):
            return True
        tensor = functorch.get_unwrapped(tensor)
    return False


def unwrap_dead(tensor: Tensor) -> Tensor:
    """Return what is under the wrappers of derivatives that are over: torch.func wraps all that is computed at a level."""
    while (inner := functorch.unwrap_if_dead(tensor)) is not tensor:
        tensor = inner
    return tensor


def is_fake(tensor: Tensor) -> bool:
    """Tell whether `tensor` belongs to a trace, so that it has no value."""
    return isinstance(base_of(tensor), FakeTensor)


def is_tracer(tensor: Tensor) -> bool:
    """Tell whether `tensor` belongs to a trace or to a functorch level."""
    return functorch.is_functorch_wrapped_tensor(tensor) or isinstance(tensor, FakeTensor)
