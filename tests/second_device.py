"""A second device on any machine: `far`, whose tensors have values, lie in the CPU's memory, and refuse to meet the CPU's.

It stands for a GPU. torch lets a backend be written in Python: a tensor here is a wrapper of one on the CPU, and every
operator takes wrappers, computes on what is in them, and wraps the results. As with a GPU, an operator raises for
tensors of both devices (0-d ones of the CPU apart), a backward pass runs in a thread of its own unless told otherwise,
and code that reads a CPU's memory finds none.

torch's `meta` device and its fake tensors were the other choices. Neither has values, so that what looks at values
(checks, loops, samplers, NumPy's way out) could not run, and a trace is not what runs without `jit`.

A process that imports this module has the device. As a plugin it runs any tests on it, and any Array made on the CPU
then is an error: `PYTHONPATH=tests python -m pytest -p second_device tests/test_numpy_reductions.py`.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree
from torch.utils import backend_registration
from torch.utils._mode_utils import no_dispatch

from jaxish._core import config, levels
from jaxish._core.array import Array
from jaxish._devices.devices import Device

aten = torch.ops.aten
_CPU = torch.device("cpu")


class FarTensor(Tensor):
    """A tensor that says it lies on the second device; `held` has its values."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> "FarTensor":
        return Tensor._make_wrapper_subclass(  # pyright: ignore
            cls, held.size(), strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype, device=FAR
        )

    def __init__(self, held: Tensor) -> None:
        self.held = held

    def __repr__(self, **options: Any) -> str:
        return f"FarTensor({self.held})"

    __torch_function__ = torch._C._disabled_torch_function_impl  # pyright: ignore

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return (_run_fake if any(issubclass(t, FakeTensor) for t in types) else _run)(func, args, kwargs or {})


def _run_fake(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operator of a trace on a constant: fake tensors take plain tensors, but not wrappers."""
    mode = next(leaf.fake_mode for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, FakeTensor))
    with mode:
        args, kwargs = pytree.tree_map_only(
            FarTensor, lambda t: torch.empty(t.shape, dtype=t.dtype, device=FAR), (args, kwargs)
        )
        return func(*args, **kwargs)


_MOVING = {aten._to_copy.default, aten.copy_.default, aten._copy_from.default}  # from one device to the other


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operator whose arguments or result lie on the second device."""
    leaves, spec = pytree.tree_flatten((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    wrappers = {id(t.held): t for t in tensors if isinstance(t, FarTensor)}
    if wrappers and func not in _MOVING and any(t.dim() for t in tensors if not isinstance(t, FarTensor)):
        places = ", ".join(f"{tuple(t.shape)} on {t.device.type}" for t in tensors)
        raise RuntimeError(f"Expected all tensors to be on the same device: {func} got {places}")
    target = kwargs.get("device")
    is_far = bool(wrappers) if target is None else torch.device(target).type == FAR.type
    if torch.Tag.inplace_view in func.tags:
        with no_dispatch():
            func(*args, **kwargs)  # the wrapper's own shape
    args, kwargs = pytree.tree_unflatten([_held(leaf) for leaf in leaves], spec)
    # Zeros without memory cannot be wrapped.
    found = (aten.zeros.default if func is aten._efficientzerotensor.default else func)(*args, **kwargs)
    if not is_far:
        return found
    return pytree.tree_map_only(Tensor, lambda t: wrappers[id(t)] if id(t) in wrappers else _wrapped(t), found)


def _wrapped(tensor: Tensor) -> FarTensor:
    return FarTensor(
        tensor.resolve_conj().resolve_neg()
    )  # a wrapper does not tell that its values are to be conjugated


def _held(leaf: Any) -> Any:
    return (
        leaf.held
        if isinstance(leaf, FarTensor)
        else _CPU
        if isinstance(leaf, torch.device) and leaf.type == FAR.type
        else leaf
    )


def _made(func: Any, *args: Any, **kwargs: Any) -> Any:
    return _run(func, args, kwargs)


backend_registration._setup_privateuseone_for_python_backend("far")
FAR = torch.device("far", 0)
DEVICE = Device(FAR, 0)

# What makes tensors. Some of it resizes an empty tensor, which a wrapper does not follow.
_all = torch.library.Library("_", "IMPL")
_all.fallback(_made, "PrivateUse1")
_some = torch.library.Library("aten", "IMPL")
for _name in ("arange", "arange.start", "arange.start_step", "linspace", "eye", "eye.m"):
    _packet, _, _overload = _name.partition(".")
    _operator = getattr(getattr(aten, _packet), _overload or "default")
    _some.impl(_name, partial(_made, _operator), "PrivateUse1")


def is_far(x: Array) -> bool:
    """Tell whether an array lies on the second device."""
    return x._tensor.device == FAR


def pytest_configure() -> None:
    """Make the second device the default one, and an Array elsewhere an error."""
    config.default_device.set(DEVICE)
    make = Array.__init__

    def checked(self: Array, tensor: Tensor, weak: bool = False) -> None:
        make(self, tensor, weak)
        place = levels.base_of(tensor).device.type
        assert place != "cpu", f"an Array of shape {tuple(tensor.shape)} was made on the CPU"

    Array.__init__ = checked
