"""Torch code traced into jaxish's graphs: without writes in place, hidden state, and operators that differentiate badly.

What is written in place becomes a new value (torch's functionalization). A dispatch mode looks at every operator: random
numbers are drawn from a key, tensors that the code closes over are taken without their gradient history, and writes into
these are refused. A function mode writes out what torch's own operator would update behind functionalization's back.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from .._core import dtypes, errors, functorch, graph, levels, nodes
from .._core.array import Array, tensor_of
from .._random.continuous import exponential
from .._random.integers import bernoulli
from .._random.keys import fold_in
from .._random.uniforms import normal, uniform

aten = torch.ops.aten
_NOT_PURE = "which a pure function cannot. Make it an argument and return it; from_torch_module does so with a module's buffers."
_one_at_a_time = threading.RLock()  # torch's switches, and the modules that functional_call changes, are the process's


def _say_compiling(value: bool) -> None:
    torch.compiler._is_compiling_flag = value


_SWITCHES = (
    (torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled, False),
    (torch._C._get_cudnn_enabled, torch._C._set_cudnn_enabled, False),
    (torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled, False),
    (torch.compiler.is_compiling, _say_compiling, True),  # so that code asks for no values
)


@contextmanager
def traced(key: Array | None) -> Iterator[None]:
    """Within this context manager, in a trace, torch code is recorded as a pure function that draws from `key`."""
    with _one_at_a_time, ExitStack() as stack:
        # Operators of one step each, which have derivatives of any order in both modes, and batching rules.
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        for read, write, value in _SWITCHES:
            stack.enter_context(_set(read, write, value))
        stack.enter_context(_Written())
        stack.enter_context(_Operators(key))
        yield


@contextmanager
def _set(read: Callable[[], Any], write: Callable[[Any], None], value: Any) -> Iterator[None]:
    before = read()
    write(value)
    try:
        yield
    finally:
        write(before)


# ------------------------------------------------------------------------------------------------- every operator


class _Operators(TorchDispatchMode):
    """Looks at every operator of the code before it is recorded."""

    def __init__(self, key: Array | None) -> None:
        super().__init__()
        self.key, self.draws = key, 0
        self.without_history: dict[int, tuple[Tensor, Tensor]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        written = nodes.tensors_written(func, args, kwargs)
        if not all(map(levels.is_fake, written)):
            raise TypeError(f"{func} writes into a tensor that the torch code closes over, {_NOT_PURE}")
        in_place = written and func._schema.name.endswith("_") and torch.Tag.inplace_view not in func.tags
        if in_place and not written[0]._is_view():
            return self._without_writing(func, args, kwargs)
        if torch.Tag.nondeterministic_seeded in func.tags:
            return self._drawn(func, args, kwargs)
        args, kwargs = tree_map_only(Tensor, self._captured, (args, kwargs))
        return (_SPELLED_OUT.get(func) or func)(*args, **kwargs)

    def _without_writing(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Tensor:
        """Make a new value of an operator in place, which functionalization has not seen (attention's dropout)."""
        name, _, overload = func.__name__.partition(".")
        result = self.__torch_dispatch__(
            getattr(getattr(aten, name[:-1]), _PURE.get(func) or overload), (), args, kwargs
        )
        trace = graph.current_trace()
        assert trace is not None
        trace.bind(args[0], trace.node_of(result))
        return args[0]

    def _captured(self, tensor: Tensor) -> Tensor:
        if not tensor.requires_grad or levels.is_fake(tensor):
            return tensor
        known = self.without_history.get(id(tensor))
        if known is None:
            with graph.outside_traces():
                known = self.without_history[id(tensor)] = tensor, tensor.detach()
        return known[1]

    def _drawn(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        draw = _DRAWS.get(func)
        if draw is None:
            raise NotImplementedError(
                f"{func} draws random numbers in a way that is not supported in traced torch code."
            )
        if self.key is None:
            raise TypeError(
                f"This torch code draws random numbers ({func}); give the function a key, rng=jax.random.key(0), or have "
                "the module in evaluation mode."
            )
        self.draws += 1
        with graph.without_levels():
            return draw(fold_in(self.key, self.draws), *args, **kwargs)


def _filled(
    sample: Callable[..., Array], key: Array, shape: Sequence[int], dtype: torch.dtype | None, *parameters: Any
) -> Tensor:
    wanted = dtype or torch.get_default_dtype()
    return tensor_of(sample(key, tuple(shape), dtypes.TO_NUMPY[wanted], *parameters))


def _like(sample: Callable[..., Array]) -> Callable[..., Tensor]:
    return lambda key, x, *, dtype=None, **_: _filled(sample, key, x.shape, dtype or x.dtype)


def _of_shape(sample: Callable[..., Array]) -> Callable[..., Tensor]:
    return lambda key, size, *, dtype=None, **_: _filled(sample, key, size, dtype)


def _bernoulli(key: Array, x: Tensor, p: float | None = None, **_: Any) -> Tensor:
    chance = Array(x) if p is None else p
    return tensor_of(bernoulli(key, chance, tuple(x.shape))).to(x.dtype)


def _dropout(key: Array, x: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    if train is False:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    mask = tensor_of(bernoulli(key, 1 - p, tuple(x.shape)))
    return x * mask * (1 / (1 - p) if p < 1 else 0.0), mask


_DRAWS: dict[Any, Callable[..., Any]] = {
    aten.bernoulli.p: _bernoulli,
    aten.bernoulli.default: _bernoulli,
    aten.native_dropout.default: _dropout,
    aten.rand.default: _of_shape(uniform),
    aten.randn.default: _of_shape(normal),
    aten.rand_like.default: _like(uniform),
    aten.randn_like.default: _like(normal),
    aten.uniform.default: lambda key, x, low=0.0, high=1.0, **_: _filled(uniform, key, x.shape, x.dtype, low, high),
    aten.normal_functional.default: lambda key, x, mean=0.0, std=1.0, **_: (
        _filled(normal, key, x.shape, x.dtype) * std + mean
    ),
    aten.exponential.default: lambda key, x, rate=1.0, **_: _filled(exponential, key, x.shape, x.dtype) / rate,
}


# What functionalization makes of writes, where torch has no derivative or batching rule of it.
_SPELLED_OUT: dict[Any, Callable[..., Tensor]] = {
    aten.copy.default: lambda x, source, *_: source.to(x.dtype).expand(x.shape),
    aten.fill.Scalar: lambda x, value: torch.full(x.shape, value, dtype=x.dtype, device=x.device),
    aten.fill.Tensor: lambda x, value: value.to(x.dtype).expand(x.shape),
    aten.zero.default: lambda x: torch.zeros(x.shape, dtype=x.dtype, device=x.device),
    aten.slice_scatter.default: lambda x, source, dim=0, start=None, end=None, step=1: aten.slice_scatter.default(
        x, source, dim, start, x.shape[dim] if end is None else min(end, x.shape[dim]), step
    ),
}
_PURE: dict[Any, str] = {aten.bernoulli_.float: "p"}  # where the operator without the underscore is another overload


# --------------------------------------------------------------------------------------------- functions written out


class _Written(TorchFunctionMode):
    """Takes the functions that are written out here in the place of torch's."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return (_WRITTEN.get(func) or func)(*args, **(kwargs or {}))


def _batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    # torch's own operator writes the running statistics without saying so.
    channels = [1, -1, *[1] * (input.dim() - 2)]
    wide = input.float() if input.dtype in dtypes.HALVES else input
    if training:
        dims = [0, *range(2, input.dim())]
        count = input.numel() // input.size(1)
        if count == 1:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.size()}")
        mean, variance = wide.mean(dims), wide.var(dims, correction=0)
        _update(running_mean, mean, momentum)
        _update(running_var, variance * (count / (count - 1)), momentum)
    else:
        assert running_mean is not None and running_var is not None
        mean, variance = running_mean, running_var
    result = (wide - mean.reshape(channels)) * torch.rsqrt(variance.reshape(channels) + eps)
    if weight is not None:
        result = result * weight.reshape(channels)
    if bias is not None:
        result = result + bias.reshape(channels)
    return result.to(input.dtype)


def _update(running: Tensor | None, new: Tensor, momentum: float) -> None:
    if running is not None:
        running.copy_(running * (1 - momentum) + momentum * new.detach())


def _instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None,
    bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    if use_input_stats and running_mean is not None and running_var is not None:
        dims = list(range(2, input.dim()))
        count = input[0, 0].numel()
        wide = input.detach().float() if input.dtype in dtypes.HALVES else input.detach()
        mean, variance = wide.mean(dims).mean(0), wide.var(dims, correction=0).mean(0)
        _update(running_mean, mean, momentum)
        _update(running_var, variance * (count / (count - 1)), momentum)
    if not use_input_stats:
        return _batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    return functional.instance_norm(input, None, None, weight, bias, True, momentum, eps)


def _embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    # torch's own operator has no derivative under torch.func: its results that are integers want one.
    if input.dim() != 2 or max_norm is not None or scale_grad_by_freq:
        return functional.embedding_bag(
            input, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode, sparse, per_sample_weights,
            include_last_offset, padding_idx,
        )  # fmt: skip
    rows = functional.embedding(input, weight)
    padding = -1 if padding_idx is None else padding_idx % weight.size(0)
    counts = (input != padding)[:, :, None]
    if mode == "max":
        largest = rows.masked_fill(~counts, float("-inf")).amax(1)
        return largest.where(counts.any(1), torch.zeros_like(largest))
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, :, None]
    total = rows.where(counts, torch.zeros_like(rows)).sum(1)
    return total if mode == "sum" else total / counts.sum(1).clamp(min=1)


def _with_values(read: Callable[..., Any]) -> Callable[..., Any]:
    """Return what reads a tensor's values, refused for those that have none: torch, which functionalization hides it from, gives zeros."""

    def checked(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        if torch._is_functional_tensor(tensor) or levels.is_fake(tensor):  # pyright: ignore[reportPrivateImportUsage]
            raise errors.tracer_error(errors.TracerArrayConversionError, f"{tensor.dtype}{list(tensor.shape)}")
        with graph.outside_traces():
            return read(tensor, *args, **kwargs)

    return checked


_WRITTEN: dict[Any, Callable[..., Any]] = {
    functional.batch_norm: _batch_norm,
    functional.instance_norm: _instance_norm,
    functional.embedding_bag: _embedding_bag,
    **{f: _with_values(f) for f in (Tensor.numpy, Tensor.tolist, Tensor.__array__, Tensor.__dlpack__, Tensor.data_ptr)},
}


def pure(function: Callable[..., list[Tensor]], tensors: Sequence[Tensor], key: Array | None) -> list[Tensor]:
    """Call torch code on tensors of the current trace, as a pure function that draws from `key`."""
    with traced(key):
        try:
            return functorch.functionalized(function, tensors)
        except RuntimeError as error:
            if "mutating a non-functional tensor" in str(error):
                raise TypeError(f"This torch code writes into a tensor that it closes over, {_NOT_PURE}") from error
            if "autograd.Function" not in str(error):
                raise
            raise NotImplementedError(
                "A torch.autograd.Function in traced torch code is not supported, since its rule would be lost: write it as "
                "a function of arrays with jax.custom_vjp."
            ) from error
