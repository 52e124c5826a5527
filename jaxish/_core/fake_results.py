"""What an operator makes of fake tensors, remembered: most of what tracing takes is torch finding that out.

torch remembers it, too, but what it goes by and what it checks takes ten times as long as what is here, which is about
operators that make one new tensor of strided ones. Whatever else there is goes torch's way.
"""

from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

_Key = tuple[Any, ...]
_Type = tuple[tuple[int, ...], tuple[int, ...], torch.dtype, torch.device]

_CONSTANTS = frozenset({
    int, float, bool, complex, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format,
})  # fmt: skip
_LIMIT = 20_000  # results; all are forgotten when there are more

_types: dict[_Key, _Type] = {}
_knows: dict[Any, bool] = {}  # by operator


def result(mode: FakeTensorMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return `func(*args, **kwargs)` for fakes of a mode without symbolic shapes."""
    knows = _knows.get(func)
    if knows is None:
        knows = _knows[func] = _makes_one_tensor(func)
    key = _key(mode, func, args, kwargs) if knows else None
    if key is None:
        return func(*args, **kwargs)
    known = _types.get(key)
    if known is not None:
        return _made(mode, *known)
    out = func(*args, **kwargs)
    if isinstance(out, FakeTensor) and out.fake_mode is mode and _is_plain(out) and not _shares(out, args):
        if len(_types) >= _LIMIT:
            _types.clear()
        _types[key] = (tuple(out.shape), out.stride(), out.dtype, out.device)
    return out


def _makes_one_tensor(func: Any) -> bool:
    """Tell whether an operator of torch's own makes one tensor that shares no memory, of a shape that its operands' types tell."""
    schema = func._schema
    return (
        func.namespace in ("aten", "prims")
        and not {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output} & set(func.tags)
        and len(schema.returns) == 1
        and isinstance(schema.returns[0].type, torch.TensorType)
        and all(value.alias_info is None for value in (*schema.arguments, *schema.returns))
    )


def _key(mode: FakeTensorMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Key | None:
    """Return all that the result depends on, None where that is not known."""
    key: list[Any] = [func]
    has_tensor = False
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor):
            if not (isinstance(value, FakeTensor) and value.fake_mode is mode and _is_plain(value)):
                return None
            key += (value.shape, value.stride(), value.dtype, value.fake_device)
            has_tensor = True
        elif isinstance(value, list | tuple):
            if not all(type(part) is int for part in value):
                return None
            key += (list, *value)
        elif type(value) in _CONSTANTS:
            key += (type(value), value)
        else:
            return None
    # What is made of no tensor may depend on torch's defaults where it is not told.
    return (*key, *kwargs) if has_tensor or kwargs.keys() >= {"dtype", "device"} else None


def _is_plain(tensor: FakeTensor) -> bool:
    return (
        tensor.constant is None
        and tensor.layout is torch.strided
        and not (tensor.is_conj() or tensor.is_neg() or tensor._is_zerotensor() or tensor.requires_grad)
    )


def _shares(out: Tensor, args: tuple[Any, ...]) -> bool:
    storage = out.untyped_storage()._cdata
    return any(isinstance(arg, Tensor) and arg.untyped_storage()._cdata == storage for arg in args)


def _made(
    mode: FakeTensorMode, shape: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype, device: Any
) -> Tensor:
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        return FakeTensor(mode, torch.empty_strided(shape, stride, dtype=dtype, device="meta"), device)
