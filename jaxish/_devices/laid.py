"""Tensors over the devices of one process, which share memory: plain tensors that say how they lie.

Outside of traces such a tensor is a `Laid`: its dispatch computes with the plain one, and says of the results how they
lie (propagation.py). In a trace a fake says it, and `Trace` asks as it records. Where no array was ever laid over
devices, nobody asks.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._core import functorch, graph, narrow, nodes, operators, primitive
from .._core.array import Array
from .._core.primitive import Primitive
from . import devices, memories, processes, propagation
from .shardings import NamedSharding, Sharding, SingleDeviceSharding, places

_PLAIN = frozenset({Tensor})

in_use = False  # whether an array was laid over devices: what looks at all arrays asks this first


def _dispatched(cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    kwargs = kwargs or {}
    if torch.Tag.inplace_view in func.tags and type(args[0]) is Laid:
        return _reshaped_in_place(func, args, kwargs)
    _check_devices(func, propagation.operands_of(args, kwargs))
    out = func(*map(_plain_argument, args), **{name: _plain_argument(value) for name, value in kwargs.items()})
    if func._schema.is_mutable:
        return args[0] if args and isinstance(args[0], Laid) and out is args[0].plain else out
    if isinstance(out, Tensor):
        return marked(out, propagation.of_results(func, args, kwargs, [out])[0])
    if isinstance(out, tuple | list) and all(isinstance(o, Tensor | None) for o in out):
        shardings = propagation.of_results(func, args, kwargs, out)
        return type(out)(o if o is None else marked(o, s) for o, s in zip(out, shardings, strict=True))
    return out


def _reshaped_in_place(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Change a tensor's shape in place (squeeze_, within matmul): that of the plain one, and of what stands for it."""
    handle, new = args[0], nodes.reshaping(func)(*args, **kwargs)
    with torch._C._DisableTorchDispatch():
        func(*args, **kwargs)
    handle.plain, handle.laid = new.plain, new.laid
    return handle


def _plain_argument(value: Any) -> Any:  # operators take tensors, and lists of them
    if isinstance(value, list | tuple):
        return type(value)(map(_plain_argument, value))
    return value.plain if type(value) is Laid else value


def _check_devices(target: Any, operands: Sequence[Any]) -> None:
    given = [(i, o) for i, o in enumerate(operands) if type(o) is Laid]
    if len(given) > 1:
        names = "xyz" if len(operands) < 4 else [f"args[{i}]" for i in range(len(operands))]
        propagation.check_devices([(names[i], o, o.laid) for i, o in given], operators.of(target).jax_name)


class Laid(Tensor):
    """A tensor outside of traces that lies over devices as `laid` says; `plain` is the tensor itself."""

    plain: Tensor
    laid: Sharding
    before: Sharding | None = None  # of an unreduced sum: how it lay as a whole

    __torch_function__: Any = torch._C._disabled_torch_function_impl
    __torch_dispatch__: Any = classmethod(_dispatched)


def marked(tensor: Tensor, sharding: Sharding | None) -> Tensor:
    """Return a tensor as one that lies like this, which is a tracer of nothing; None, and what a device alone says: as it is."""
    given, tensor = getattr(tensor, "laid", None), plain(tensor)
    if sharding is None or processes.are_several() or _says_its_device(tensor, sharding):
        return tensor
    start()
    laid = Tensor._make_subclass(Laid, narrow.unmarked(tensor) if type(tensor) is narrow.Narrow else tensor)
    laid.plain, laid.laid = tensor, sharding
    if isinstance(sharding, NamedSharding) and sharding.spec.unreduced:
        laid.before = given
    return laid


def summand(tensor: Tensor, sharding: NamedSharding, device: Any, index: Any) -> Tensor:
    """Return what a device has of a sum that is left unreduced: its part of what the tensor was, the first device all of it."""
    whole, part = plain(tensor), torch.zeros_like(plain(tensor))
    before = getattr(tensor, "before", None)
    if isinstance(before, NamedSharding) and sharding.spec.unreduced <= before.split_axes:
        own = before.devices_indices_map(tuple(whole.shape))[device]
        part[own] = whole[own]
    elif not any(
        position[name] for position, d in places(sharding.mesh) if d is device for name in sharding.spec.unreduced
    ):
        part = whole
    return part[index]


def _says_its_device(tensor: Tensor, sharding: Sharding) -> bool:
    if tensor.is_meta:  # torch's forward mode asks for shapes alone
        return True
    if not isinstance(sharding, SingleDeviceSharding) or sharding.memory_kind != memories.DEVICE:
        return False
    return sharding.device_set == {devices.of(tensor)}


def say_of(fakes: Sequence[Tensor], arrays: Sequence[Array]) -> None:
    """Say of the inputs of a trace that they lie as the arrays do that they stand for."""
    if in_use:
        for fake, array in zip(fakes, arrays, strict=True):
            sharding = sharding_of(array._tensor)
            if sharding is not None:
                fake.laid = sharding  # pyright: ignore[reportAttributeAccessIssue]


def may_say(tensors: Sequence[Tensor]) -> bool:
    """Tell whether one of these may say how it lies: it is no plain tensor, or belongs to a level."""
    return not _PLAIN.issuperset(map(type, tensors)) or functorch.peek_interpreter_stack() is not None


def plain(tensor: Tensor) -> Tensor:
    """Return a tensor outside of traces without what it says of devices."""
    return tensor.plain if type(tensor) is Laid else tensor


def start() -> None:
    """Have traces and primitives ask from here on."""
    global in_use
    if not in_use:
        in_use = True
        graph.on_record = propagation.record
        if primitive.among_devices is None:
            primitive.among_devices = run_primitive


def run_primitive(called: Primitive, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Return the results of a primitive of which inputs may lie over devices."""
    if not any(type(i) is Laid for i in inputs):
        return called.run(*inputs)
    if called.places_results:  # a constraint of a graph that is run on arrays says nothing of its results yet
        results, (sharding,) = called.run(*inputs), propagation.of_results(called, inputs, {}, inputs)
        return [r if getattr(r, "laid", None) == sharding else marked(r, sharding) for r in results]
    _check_devices(called, inputs)
    results = called.run(*map(plain, inputs))
    return list(map(marked, results, propagation.of_results(called, inputs, {}, results)))


def sharding_of(tensor: Tensor) -> Sharding | None:
    """Return how a tensor lies, its batched dimensions under vmap not counted; None where nothing says."""
    if not functorch.is_functorch_wrapped_tensor(tensor):
        return getattr(tensor, "laid", None)
    sharding = sharding_of(functorch.get_unwrapped(tensor))
    if isinstance(sharding, NamedSharding) and functorch.is_batchedtensor(tensor):
        dim = functorch.maybe_get_bdim(tensor)
        kept = [part for d, part in enumerate(sharding.spec) if d != dim]
        sharding = sharding.update(spec=sharding.spec.update(partitions=kept))
    return sharding
