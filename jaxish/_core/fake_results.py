"""What an operator makes of fake tensors: most of what tracing takes is torch finding that out. It is remembered.

torch remembers it, too, but what it goes by and what it checks takes six times as long as what is here, which is about
operators that make one tensor of strided ones: a new one, or a view of the first. Elementwise operators, views and reductions
are found out by what their kernels make of tensors without memory, which are no fakes. Whatever else there is goes torch's way.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from . import functorch, operators
from .fakes import fake, fake_view, in_memory_of, made_of

_Key = tuple[Any, ...]
_Type = tuple[tuple[int, ...], torch.dtype, torch.device, tuple[int, ...]]
_View = tuple[int, *_Type]  # the first is where in memory it begins

_CONSTANTS = frozenset({
    int, float, bool, complex, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format,
})  # fmt: skip
_LIMIT = 20_000  # results; all are forgotten when there are more

_META = torch.device("meta")

_types: dict[_Key, _Type] = {}
_views: dict[_Key, _View] = {}
_knows: dict[Any, Callable[..., Any] | None] = {}  # by operator: what remembers its results


def result(mode: FakeTensorMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return `func(*args, **kwargs)` for fakes of a mode without symbolic shapes."""
    if func not in _knows:
        _knows[func] = _OF_ANY.get(func) or _remembered_by(func)
    knows = _knows[func]
    return func(*args, **kwargs) if knows is None else knows(mode, func, args, kwargs)


def _elements(tensor: Tensor) -> int:
    return tensor.untyped_storage().nbytes() // tensor.dtype.itemsize


# What is asked of fakes at every level, and for every tangent. torch's way to an answer takes as long as half an operator.
ANSWERS: dict[Any, Callable[..., Any]] = {
    torch.ops.prim.device.default: lambda x: x.fake_device,
    torch.ops.aten.is_same_size.default: lambda a, b: a.shape == b.shape,
    torch.ops.aten._has_same_storage_numel.default: lambda a, b: _elements(a) == _elements(b),
}


def _remembered(mode: FakeTensorMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], key: _Key) -> Any:
    """Return the result of an operator that makes a new tensor."""
    known = _types.get(key)
    if known is None:
        known = _said_by_kernels(func, args, kwargs)
        if known is not None:
            _remember(_types, key, known)
    if known is not None:
        return fake(mode, *known)
    # torch would make fakes of others, of an outer trace's among them, by Dynamo.
    args = tuple(
        fake(mode, a.shape, a.dtype, a.device, a.stride()) if isinstance(a, Tensor) and not _is_of(mode, a) else a
        for a in args
    )
    out = func(*args, **kwargs)
    if _is_plain_of(mode, out) and not _shares(out, args):
        _remember(_types, key, (tuple(out.shape), out.dtype, out.device, out.stride()))
    return out


def _said_by_kernels(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Type | None:
    """Return the type of what an operator makes of tensors on one device, as it makes it of such without memory.

    So no fake asks what it is (`fakes._OnFakes`). None where there is more to an operator than its kernel, which takes what is on no
    device to be on a GPU (transforms lay out their results as there), and of what the kernel refuses.
    """
    devices = {_device_of(a) for a in args if isinstance(a, Tensor)}
    if kwargs.get("device") is not None:
        devices, kwargs = {kwargs["device"]}, {**kwargs, "device": _META}
    if len(devices) != 1 or not (func in _BY_KERNEL or operators.of(func).is_elementwise):
        return None
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
        given = [_without_memory(a) if isinstance(a, Tensor) else a for a in args]
        try:
            out = func(*given, **kwargs)
        except Exception:
            return None  # torch raises it again
    is_new = not any(out is a for a in given) and out.layout is torch.strided and not (out.is_conj() or out.is_neg())
    return (tuple(out.shape), out.dtype, devices.pop(), out.stride()) if is_new else None


def _device_of(tensor: Tensor) -> torch.device:
    return tensor.fake_device if isinstance(tensor, FakeTensor) else tensor.device


def _without_memory(tensor: Tensor) -> Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def _view(mode: FakeTensorMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], key: _Key) -> Any:
    """Return the result of an operator that makes a view of its first argument."""
    if not isinstance(args[0], FakeTensor):
        return func(*args, **kwargs)
    key = (args[0].storage_offset(), *key)
    known = _views.get(key)
    if known is not None:
        return fake_view(mode, args[0], *known)
    if func in _PLAIN_VIEWS:
        out = _view_of_memory(func, args, kwargs)
    else:
        out = func(*args, **kwargs)
        if not _is_plain_of(mode, out) or out is args[0] or not _shares(out, args[:1]):
            return out
    known = (int(out.storage_offset()), tuple(out.shape), out.dtype, args[0].fake_device, out.stride())
    _remember(_views, key, known)
    return fake_view(mode, args[0], *known)


def _view_of_memory(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Return what an operator makes of a tensor in the memory of a fake, of which torch would ask whether it is a DTensor (`fakes._OnFakes`)."""
    x, *others = args
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
        return func(in_memory_of(x, x.storage_offset(), x.shape, x.dtype, x.stride()), *others, **kwargs)


def _remember(known: dict[_Key, Any], key: _Key, type: Any) -> None:
    if len(known) >= _LIMIT:
        known.clear()
    known[key] = type


def _remembered_by(func: Any) -> Callable[..., Any] | None:
    """Return what remembers an operator's results: None if it is not torch's own, or makes anything but one tensor."""
    rule = _rule_of(func)
    return None if rule is None else partial(_keyed, rule)


def _keyed(
    rule: Callable[..., Any], mode: FakeTensorMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    key = _key(mode, func, args, kwargs)
    return func(*args, **kwargs) if key is None else rule(mode, func, args, kwargs, key)


def _rule_of(func: Any) -> Callable[..., Any] | None:
    if func in _BY_RULE:
        return _BY_RULE[func]
    schema = func._schema
    aliases = [value.alias_info is not None for value in (*schema.arguments, *schema.returns)]
    if (
        func.namespace not in ("aten", "prims")
        or torch.Tag.data_dependent_output in func.tags  # a shape that depends on data raises, without symbolic shapes
        or len(schema.returns) != 1
        or not isinstance(schema.returns[0].type, torch.TensorType)
    ):
        return None
    if not any(aliases):
        return _remembered
    is_view = func.is_view and [i for i, aliased in enumerate(aliases) if aliased] == [0, len(schema.arguments)]
    return _view if is_view and func is not _AS_STRIDED else None


_AS_STRIDED = torch.ops.aten.as_strided.default  # it may reach beyond the memory that there is


# Operators that are not elementwise by their tags, of whose results the kernels say all, on any device.
_BY_KERNEL = {
    getattr(getattr(torch.ops.aten, name), overload)
    for name, overload in (
        *((name, "default") for name in ("clone", "complex", "tril", "triu", "sum", "any", "all", "constant_pad_nd")),
        *((name, "default") for name in ("slice_backward", "select_backward", "diagonal_backward")),
        *((name, "default") for name in ("full", "zeros", "ones", "scalar_tensor", "arange")),
        ("arange", "start"), ("arange", "start_step"), ("to", "dtype"), ("sum", "dim_IntList"),
        ("any", "dim"), ("any", "dims"), ("all", "dim"), ("all", "dims"),
    )
}  # fmt: skip
_PLAIN_VIEWS = {
    getattr(getattr(torch.ops.aten, name), overload)
    for name, overload in (
        ("view", "default"), ("permute", "default"), ("transpose", "int"), ("t", "default"), ("unsqueeze", "default"),
        ("squeeze", "default"), ("squeeze", "dim"), ("squeeze", "dims"), ("expand", "default"), ("select", "int"),
        ("slice", "Tensor"), ("diagonal", "default"), ("alias", "default"), ("detach", "default"), ("_unsafe_view", "default"),
    )
}  # fmt: skip


def _transformed(mode: FakeTensorMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], key: _Key) -> Any:
    """Return what a Fourier transform makes of the last axes of a tensor that is laid out in their order, on the CPU.

    torch's functions for the types view fakes in kernels, for which it imports torch.distributed.tensor (2.13, see `fakes._OnFakes`).
    """
    x, axes, *_, last = args
    places, count = [axis % x.dim() for axis in axes], len(axes)
    ordered = sorted(places) == [*range(x.dim() - count, x.dim())]
    if func is _C2R:
        ordered = ordered and count == 1
    elif func is _R2C:
        ordered = ordered and places[-1:] == [x.dim() - 1]
    if not (count and ordered and x.is_contiguous() and _device_of(x).type == "cpu"):
        return _remembered(mode, func, args, kwargs, key)
    sizes, dtype = list(x.shape), x.dtype
    if func is _C2R:
        sizes[-1], dtype = last, dtype.to_real()
    elif func is _R2C:
        sizes[-1], dtype = sizes[-1] // 2 + 1 if last else sizes[-1], dtype.to_complex()
    return fake(mode, sizes, dtype, _device_of(x))


def _zero_tangent(mode: FakeTensorMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], key: _Key) -> Any:
    """Return the zeros without memory that forward mode takes for the tangent of what has none."""
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
        zeros = func(*args, dtype=kwargs["dtype"], device=_META)
        return made_of(mode, zeros, kwargs["device"])


def _factored(mode: FakeTensorMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], key: _Key) -> Any:
    """Return what geqrf makes, for which torch has no function: it computes it, and imports SymPy to say of what type it is (2.13)."""
    (matrices,) = args
    *batch, rows, columns = matrices.shape
    device = _device_of(matrices)
    packed = fake(mode, (*batch, columns, rows), matrices.dtype, device)  # columns lie together, as LAPACK has them
    strides = (*packed.stride()[:-2], 1, rows)
    return [
        fake_view(mode, packed, 0, matrices.shape, matrices.dtype, device, strides),
        fake(mode, (*batch, min(rows, columns)), matrices.dtype, device),
    ]


def _of_zero_tangent(mode: FakeTensorMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], key: _Key) -> Any:
    """Return what torch makes of zeros without memory on no device, of which it takes shape and dtype."""
    a, b = args
    if _is_of(mode, a) and _is_of(mode, b) and a.fake_device == b.fake_device == _META:
        return fake(mode, a.shape, a.dtype, _META)
    return _remembered(mode, func, args, kwargs, key)


def _zeros_of_features(mode: FakeTensorMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the zeros that forward mode takes for a tangent: laid out as the second tensor, for each lane of the first.

    Each lane has as much memory as the second tensor. torch views a fake for them, for which it imports
    torch.distributed.tensor (2.13, see `fakes._OnFakes`).
    """
    tensor, like = args
    lanes = tensor.shape[: kwargs.get("self_num_batch_dims", 0)]
    elements = _elements(like)
    strides = [elements * math.prod(lanes[d + 1 :]) for d in range(len(lanes))]
    type = like.dtype, _device_of(like)
    memory = fake(mode, (math.prod(lanes) * elements,), *type)
    return fake_view(mode, memory, like.storage_offset(), (*lanes, *like.shape), *type, (*strides, *like.stride()))


def _copied(mode: FakeTensorMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the tensor that is written into, for which torch's function for the types views a fake (2.13, see `fakes._OnFakes`)."""
    written, source = args[:2]
    fits = all(size in (1, own) for size, own in zip(source.shape[::-1], written.shape[::-1], strict=False))
    if not fits or source.dim() > written.dim() or not _is_of(mode, written):
        return func(*args, **kwargs)
    return written


def _by_kernel(mode: FakeTensorMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what an operator makes whatever there is to its argument: lazily conjugated, or zeros without memory."""
    key = _key(mode, func, args, kwargs)
    if key is not None:
        return _remembered(mode, func, args, kwargs, key)
    known = _said_by_kernels(func, args, kwargs)
    return func(*args, **kwargs) if known is None else fake(mode, *known)


def _convolved_back(mode: FakeTensorMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the gradients of a convolution of tensors that are laid out in order, on the CPU."""
    gradient, x, weight, bias_sizes, *_, mask = args
    given = (gradient, x, weight)
    if not all(_device_of(t).type == "cpu" and t.is_contiguous() for t in given):
        return func(*args, **kwargs)
    sizes = (x.shape, weight.shape, bias_sizes)
    return tuple(
        fake(mode, shape, gradient.dtype, _device_of(gradient)) if is_asked else None
        for shape, is_asked in zip(sizes, mask, strict=True)
    )


_NUMBERS = (
    *(getattr(torch.ops.aten, name).default for name in ("full", "zeros", "ones", "scalar_tensor", "arange")),
    torch.ops.aten.arange.start, torch.ops.aten.arange.start_step,
)  # fmt: skip
_OF_ANY: dict[Any, Callable[..., Any]] = {
    torch.ops.aten._new_zeros_with_same_feature_meta.default: _zeros_of_features,
    torch.ops.aten.copy_.default: _copied, torch.ops.aten.convolution_backward.default: _convolved_back,
    **dict.fromkeys((torch.ops.aten.clone.default, torch.ops.aten.to.dtype, *_NUMBERS), _by_kernel),
}  # fmt: skip
_R2C, _C2R = torch.ops.aten._fft_r2c.default, torch.ops.aten._fft_c2r.default
_BY_RULE = {
    torch.ops.aten._fft_c2c.default: _transformed, _R2C: _transformed, _C2R: _transformed,
    torch.ops.aten.geqrf.default: _factored, torch.ops.aten._efficientzerotensor.default: _zero_tangent,
    **{getattr(torch.ops.prims, name).default: _of_zero_tangent for name in ("mul", "add", "sub", "div")},
    torch.ops.aten._unsafe_view.default: _view,  # by its schema what it makes is new
}  # fmt: skip


def _key(mode: FakeTensorMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Key | None:
    """Return all that the result depends on, None where that is not known."""
    key: list[Any] = [func]
    for value in (*args, *kwargs.values()):
        parts = _parts_key(mode, value) if isinstance(value, list | tuple) else _value_key(mode, value)
        if parts is None:
            return None
        key += parts
    # What is made of no tensor may depend on torch's defaults where it is not told.
    return (*key, *kwargs) if FakeTensor in key or (kwargs.get("dtype") and kwargs.get("device")) else None


def _parts_key(mode: FakeTensorMode, values: Sequence[Any]) -> _Key | None:
    if all(type(value) is int for value in values):
        return (list, *values)
    parts = [_value_key(mode, value) for value in values]
    return None if None in parts else (list, len(parts), *itertools.chain.from_iterable(filter(None, parts)))


def _value_key(mode: FakeTensorMode, value: Any) -> _Key | None:
    if isinstance(value, FakeTensor):
        if value.fake_mode.shape_env is not None or value.constant is not None or not _is_plain(value):
            return None
        return (FakeTensor, value.shape, value.stride(), value.dtype, value.fake_device)
    if type(value) is Tensor and not functorch.is_functorch_wrapped_tensor(value):
        return (FakeTensor, value.shape, value.stride(), value.dtype, value.device) if _is_plain(value) else None
    return (type(value), value) if type(value) in _CONSTANTS else None


def _is_plain_of(mode: FakeTensorMode, out: Any) -> bool:
    return _is_of(mode, out) and out.constant is None and _is_plain(out)


def _is_of(mode: FakeTensorMode, value: Any) -> bool:
    return isinstance(value, FakeTensor) and value.fake_mode is mode


def _is_plain(tensor: Tensor) -> bool:
    return tensor.layout is torch.strided and not (
        tensor.is_conj() or tensor.is_neg() or tensor._is_zerotensor() or tensor.requires_grad
    )


def _shares(out: Tensor, args: tuple[Any, ...]) -> bool:
    storage = out.untyped_storage()._cdata
    return any(isinstance(arg, Tensor) and arg.untyped_storage()._cdata == storage for arg in args)
