"""What levels of torch.func and traces have made of a tensor: whether it has a value, and whose it is."""

from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad

from . import duals, functorch
from .functorch import base_of


def is_batched(tensor: Tensor) -> bool:
    """Tell whether a vmap level is among the wrappers of `tensor`, so that it stands for many values."""
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.is_batchedtensor(tensor):
            return True
        tensor = functorch.get_unwrapped(tensor)
    return False


def is_batched_at(tensor: Tensor, level: int) -> bool:
    """Tell whether the vmap level `level` has made a batch of `tensor`."""
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.is_batchedtensor(tensor) and functorch.maybe_get_level(tensor) == level:
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


def is_tracked(tensor: Tensor, level: int) -> bool:
    """Tell whether the reverse-mode level `level` differentiates with respect to `tensor`."""
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.is_gradtrackingtensor(tensor) and functorch.maybe_get_level(tensor) == level:
            return tensor.requires_grad
        tensor = functorch.get_unwrapped(tensor)
    return False


def is_perturbed(tensor: Tensor, level: int) -> bool:
    """Tell whether `level`, which differentiates in either direction, does so with respect to `tensor`."""
    if is_tracked(tensor, level):
        return True
    is_of_level = functorch.is_gradtrackingtensor(tensor) and functorch.maybe_get_level(tensor) == level
    tangent = forward_ad.unpack_dual(tensor, level=0).tangent if is_of_level else None
    return tangent is not None and not tangent._is_zerotensor()


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
