"""What an operator makes of fake tensors: most of what tracing takes is torch finding that out. It is remembered.

torch remembers it, too, but what it goes by and what it checks takes ten times as long as what is here, which is about
operators that make one new tensor of strided ones. Whatever else there is goes torch's way.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

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


def easier(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, Sequence[Any], dict[str, Any]]:
    """Return a call that makes a fake tensor of the same type, where there is one that torch has an easier time with.

    Its formulas in Python, for these operators, make it import torch.distributed.tensor in turn (`_OnFakes`).
    """
    if func in _OF_ARRAY_AND_NUMBERS:
        like = _like([*args, *kwargs.values()])
        if like is not None:
            return torch.ops.aten.empty_like.default, (like,), {}
    elif func is torch.ops.aten.permute.default and list(args[1]) == [*range(len(args[1]))]:
        return torch.ops.aten.alias.default, args[:1], {}
    elif func in _REDUCTIONS and not args[0].dtype.is_floating_point and args[0].is_contiguous():
        shape = _reduced_shape(args[0].shape, *args[1:3])
        dtype = kwargs.get("dtype") or (torch.int64 if func in _SUMS else _truth(args[0].dtype))
        if shape is not None and not args[0].dtype.is_complex:
            return torch.ops.aten.empty.memory_format, (shape,), {"dtype": dtype, "device": args[0].device}
    return func, args, kwargs


# Operators that make an array of another of its shape (where there is a mask, of that too) and of numbers.
_OF_ARRAY_AND_NUMBERS = {
    getattr(getattr(torch.ops.aten, name), overload)
    for name, overload in (
        ("relu", "default"), ("hardtanh", "default"), ("clamp", "default"), ("clamp_min", "default"),
        ("clamp_max", "default"), ("pow", "Tensor_Scalar"), ("tril", "default"), ("triu", "default"),
        ("masked_fill", "Scalar"), ("where", "ScalarOther"), ("where", "ScalarSelf"),
    )
}  # fmt: skip


def _like(given: Sequence[Any]) -> Tensor | None:
    """Return the argument of such an operator that has the type of the result, None where it is not that easy."""
    arrays = [v for v in given if isinstance(v, FakeTensor)]
    of_numbers = [v for v in arrays if v.dtype is not torch.bool]
    if len(of_numbers) != 1 or not of_numbers[0].is_contiguous() or any(v.shape != of_numbers[0].shape for v in arrays):
        return None
    kinds = (int, float) if of_numbers[0].dtype.is_floating_point else (int,)  # of numbers that take on its dtype
    return of_numbers[0] if all(v is None or isinstance(v, (*kinds, Tensor)) for v in given) else None


_SUMS = {torch.ops.aten.sum.default, torch.ops.aten.sum.dim_IntList}
_REDUCTIONS = _SUMS | {
    getattr(getattr(torch.ops.aten, n), o) for n in ("all", "any") for o in ("default", "dim", "dims")
}


def _truth(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype is torch.uint8 else torch.bool  # of bytes, any and all are bytes


def _reduced_shape(shape: Sequence[int], dims: Any = None, keepdim: bool = False) -> list[int] | None:
    dims = range(len(shape)) if dims is None else [dims] if isinstance(dims, int) else dims
    gone = {d % len(shape) for d in dims} if shape else set()
    if not gone:  # what torch takes no dimensions for differs
        return None
    return [1 if d in gone else n for d, n in enumerate(shape) if keepdim or d not in gone]


class _OnFakes(TorchDispatchMode):
    """Does what fake tensors do by themselves with operators that torch applies to them while it computes their types.

    Where a tensor's own class is asked, and no mode, torch looks first whether the class is DTensor, for which it imports
    torch.distributed.tensor: half a second in the first trace of a process (2.13, `get_dtensor_class` in C++).
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # as in graph.py

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if FakeTensor in types and torch._C._get_dispatch_mode(_FAKE) is None:
            found = FakeTensor.__torch_dispatch__(func, types, args, kwargs or {})
            if found is not NotImplemented:
                return found
        return func(*args, **(kwargs or {}))


on_fakes = _OnFakes()
_FAKE = torch._C._TorchDispatchModeKey.FAKE
