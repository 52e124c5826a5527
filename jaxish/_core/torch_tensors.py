"""Tensors of torch as arrays."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from . import dtypes, graph, levels, narrow
from .array import Array

# What is made of a tensor over several processes (_devices/processes.py).
from_processes: Callable[[Tensor], Tensor] = lambda tensor: tensor  # noqa: E731

_RUNS_AS_TENSOR = torch._C._disabled_torch_dispatch_impl  # of subclasses that have no kernels of their own


def from_torch(tensor: Tensor, *, copy: bool = False) -> Array:
    """Return a torch tensor as an array that shares its memory, without its gradient history.

    What is written into the tensor in place afterwards (`tensor.add_(1)`, an optimizer's step) is seen by the array, as
    long as the memory is shared. `copy=True` makes a copy. There is a copy, too, where JAX has no such values: of 64-bit elements while `jax_enable_x64` is off (they are
    narrowed to 32 bits, as by `jnp.asarray`), and of tensors that are conjugated or negated lazily.

    The history is cut: `jax.grad` does not go on into what made the tensor, nor torch's `backward` from the array. For
    torch's autograd through a function of arrays there is `jaxish.interop.to_torch`. Within the transformations of
    torch.func, and of jaxish, the array of a tensor that they trace belongs to them, and is differentiated and mapped.
    A DTensor is an array over the devices of its mesh, after `jax.distributed.initialize()`.
    Raises `TypeError` for what is no dense tensor of a dtype that JAX has, `ValueError` for a DTensor that lies as no sharding
    says: with sums that are still to be made, or in parts of different sizes.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"from_torch takes a torch.Tensor, got {type(tensor)}; jnp.asarray takes other values.")
    if is_lazy(tensor):
        raise TypeError(
            "from_torch takes a tensor with a shape, got a parameter that has none yet: call its module once."
        )
    layout = "nested" if tensor.is_nested else tensor.layout
    if layout is not torch.strided or tensor.dtype not in dtypes.TO_NUMPY or tensor.dtype in narrow.OURS:
        raise TypeError(f"from_torch takes dense tensors of JAX's dtypes, got {tensor.dtype} laid out as {layout}.")
    if levels.is_tracer(tensor):
        graph.check_alive(tensor)
        return Array(_as_jax_has_it(tensor, copy))
    if graph.tracing:
        with graph.outside_traces():
            return Array(_plain(tensor, copy))
    return Array(_plain(tensor, copy))


def _plain(tensor: Tensor, copy: bool) -> Tensor:
    kind: Any = type(tensor)
    if kind.__torch_dispatch__ is _RUNS_AS_TENSOR and kind is not Tensor:
        tensor = tensor.as_subclass(Tensor)
    elif kind is not Tensor:
        tensor = from_processes(tensor)
    return _as_jax_has_it(tensor.detach(), copy)


def _as_jax_has_it(tensor: Tensor, copy: bool) -> Tensor:
    tensor = tensor.resolve_conj().resolve_neg()
    wanted = dtypes.to_torch(dtypes.canonicalize_dtype(dtypes.TO_NUMPY[tensor.dtype]))
    return narrow.marked(tensor.to(wanted, copy=copy))
