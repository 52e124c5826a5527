"""The fake tensors with which traces compute: how they are made, and the mode in force while a trace computes with them."""

from collections import deque
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorConverter, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from . import dtypes, errors, levels, symbolic_sizes

_META = torch.device("meta")


def fake(
    mode: FakeTensorMode,
    shape: Sequence[int],
    dtype: torch.dtype,
    device: torch.device,
    stride: Sequence[int] | None = None,
) -> Tensor:
    """Return a new fake tensor, contiguous if no stride is given; the mode must be without symbolic shapes."""
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
        if stride is None:
            return made_of(mode, torch.empty(shape, dtype=dtype, device="meta"), device)
        return made_of(mode, torch.empty_strided(shape, stride, dtype=dtype, device="meta"), device)


def made_of(mode: FakeTensorMode, meta: Tensor, device: torch.device) -> Tensor:
    """Return `FakeTensor(mode, meta, device)`, of which what torch checks and sets one by one takes four times as long."""
    state = _states.get(device)
    if state is None:
        made = FakeTensor(mode, meta, device)
        if made.device == device:
            _states[device] = {name: v for name, v in vars(made).items() if name != "fake_mode"}
        return made
    made = Tensor._make_subclass(FakeTensor, meta, False, dispatch_device=True, device_for_backend_keys=device)
    allows = mode._allow_unsafe_data_ptr_access
    (torch._C._set_warn_deprecated_on_mutable_data_ptr if allows else torch._C._set_throw_on_mutable_data_ptr)(made)
    vars(made).update(state, fake_mode=mode)
    return made


_states: dict[torch.device, dict[str, Any]] = {}  # the attributes of new fakes, by device


def fake_view(
    mode: FakeTensorMode,
    viewed: Tensor,
    offset: int,
    shape: Sequence[int],
    dtype: torch.dtype,
    device: torch.device,
    stride: Sequence[int],
) -> Tensor:
    """Return a new fake tensor in the memory of another."""
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
        return made_of(mode, in_memory_of(viewed, offset, shape, dtype, stride), device)


def in_memory_of(
    viewed: Tensor, offset: int, shape: Sequence[int], dtype: torch.dtype, stride: Sequence[int]
) -> Tensor:
    """Return a tensor on no device in the memory of a fake."""
    view = torch.empty_strided(shape, stride, dtype=dtype, device="meta")
    return view.set_(viewed.untyped_storage(), offset, shape, stride)


def on_meta(tensor: FakeTensor) -> Tensor:
    """Return a fake as torch moves it to no device, to find out the type of what it makes of it and of a tangent of zeros."""
    return fake(tensor.fake_mode, tensor.shape, tensor.dtype, _META, tensor.stride())


def escaped(tensor: Tensor) -> Exception:
    """Return JAX's error for a tensor of a trace that has ended."""
    created: Any = getattr(levels.base_of(tensor), "created", None)
    text = f"{dtypes.TO_NUMPY[tensor.dtype].name}[{','.join(map(str, tensor.shape))}]"
    detail = ""
    if created is not None:
        code, line, _ = created
        detail = f"\nThe leaked intermediate value was created on line {code.co_filename}:{line} ({code.co_name})."
    return errors.tracer_error(errors.UnexpectedTracerError, text, detail)


class TraceMode(FakeTensorMode):
    """The fake tensors of one trace. When the trace has ended, an operator on one of them is an error."""

    ended = False

    @classmethod
    def new(cls) -> "TraceMode":
        """Return the mode of a new trace: with symbols where sizes have some, else a copy of the first.

        torch notes the whole stack with each that it makes (2.9 to 2.13).
        """
        symbols = symbolic_sizes.environment()
        if symbols is not None:
            return cls(allow_non_fake_inputs=True, shape_env=symbols)
        if cls._first is None:
            cls._first = cls(allow_non_fake_inputs=True)
        made = cls.__new__(cls)
        own = {name: type(v)() for name, v in vars(cls._first).items() if isinstance(v, list | deque)}
        converter = FakeTensorConverter(copy_data=False, export=False)
        vars(made).update(vars(cls._first), **own, fake_tensor_converter=converter)
        return made

    _first: "TraceMode | None" = None

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # `trace` puts Dynamo aside, where torch would import it to do so for each operator

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.ended:
            leaked = next(a for a in tree_leaves((args, kwargs)) if isinstance(a, FakeTensor) and a.fake_mode is self)
            raise escaped(leaked)
        if self.shape_env is not None and func in symbolic_sizes.ASKING:
            with self:
                return symbolic_sizes.fake_results(func, args)
        with _on_fakes:
            return _dispatch_fakes(self, func, types, args, kwargs or {})


_dispatch_fakes: Any = getattr(FakeTensorMode.__torch_dispatch__, "__wrapped__", FakeTensorMode.__torch_dispatch__)


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


_on_fakes = _OnFakes()
_FAKE = torch._C._TorchDispatchModeKey.FAKE
