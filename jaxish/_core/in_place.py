"""What torch's formulas write in place, recorded as operators that do not, so that a replay may be batched or differentiated."""

import operator
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, fx

from . import fakes, nodes
from .operators import aten


def _filled(tensor: Tensor, mask: Tensor, value: Any) -> Tensor:
    # masked_fill itself is laid out in order, whatever its argument.
    return aten.where.self(mask, aten.scalar_tensor.default(value, dtype=tensor.dtype, device=tensor.device), tensor)


# What torch's formulas write with (2.9 to 2.13), and what computes the same.
PURE: dict[Any, Callable[..., Tensor]] = {
    aten.masked_fill_.Scalar: _filled, aten.logical_and_.default: aten.logical_and.default,
    aten.bitwise_and_.Tensor: aten.bitwise_and.Tensor, aten.relu_.default: aten.relu.default,
    aten.scatter_.value: aten.scatter.value,
    aten.add_.Tensor: aten.add.Tensor, aten.sub_.Tensor: aten.sub.Tensor,
    aten.mul_.Tensor: aten.mul.Tensor, aten.mul_.Scalar: aten.mul.Scalar, aten.div_.Tensor: aten.div.Tensor,
}  # fmt: skip


def as_new_value(trace: Any, func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    """Record that a tensor of its own memory has another value from here on; tell whether it is one.

    Compilers compute nothing together with what is written into.
    """
    tensor, node = args[0], trace.made_by(args[0])
    if node is None or trace.fake_mode.shape_env:
        return False
    if node.meta["val"] is not tensor:  # detached: another name of the same node
        return False
    if not _shares_no_memory(node):
        return _part_as_new_value(trace, node, func, args, kwargs)
    before = fakes.fake(trace.fake_mode, tensor.shape, tensor.dtype, tensor.device, tensor.stride())
    before.laid = getattr(tensor, "laid", None)  # pyright: ignore[reportAttributeAccessIssue]
    trace.bind(before, node)
    with trace:
        out = PURE[func](before, *args[1:], **kwargs)
    fits = (out.shape, out.dtype, out.stride()) == (tensor.shape, tensor.dtype, tensor.stride())
    trace.bind(tensor, trace.node_of(out) if fits else node)
    return fits


def _part_as_new_value(trace: Any, node: fx.Node, func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    """Record that a slice, and so what it is a slice of, has another value; tell whether nothing else sees that memory.

    torch doubles so what stands for two frequencies, in cotangents of inverse Fourier transforms to real numbers.
    """
    if node.target is not aten.slice.Tensor or node.users or len(node.args) > 4:  # by steps
        return False
    source, dim, start = cast("tuple[fx.Node, int, int]", node.args[:3])
    if not _shares_no_memory(source, but=node):
        return False
    part, whole = args[0], source.meta["val"]
    stop = start + part.shape[dim]
    with trace:
        before = aten.slice.Tensor(whole, dim, 0, start)
        new = PURE[func](part, *args[1:], **kwargs)
        made = aten.cat.default([before, new, aten.slice.Tensor(whole, dim, stop, whole.shape[dim])], dim)
    trace.bind(whole, trace.node_of(made))
    trace.bind(part, trace.graph.call_function(aten.slice.Tensor, (trace.node_of(whole), *node.args[1:])))
    return True


def _shares_no_memory(node: fx.Node, but: fx.Node | None = None) -> bool:
    """Tell whether what a node makes lies in memory of its own, which no other node sees."""
    if node.op != "call_function" or node.target is operator.getitem:
        return False
    memory = nodes.storage_of(node.meta["val"])
    values = [other.meta.get("val") for other in (*node.all_input_nodes, *node.users) if other is not but]
    return all(nodes.storage_of(v) != memory for v in values if isinstance(v, Tensor))


def reshaped(trace: Any, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Record an operator that changes its argument's shape in place (squeeze_, within matmul) as one that does not."""
    node, pure = trace.node_of(args[0]), nodes.reshaping(func)
    before = node.meta["val"] = aten.alias.default(args[0])
    before.laid = getattr(args[0], "laid", None)
    trace.bind(args[0], trace.graph.call_function(pure, (node, *args[1:]), kwargs))
    out = func(*args, **kwargs)
    trace.tell(pure, (before, *args[1:]), kwargs, out)
    return out


def copied_into_zeros(trace: Any, part: Tensor, value: Tensor) -> bool:
    """Record a copy into new zeros, or a slice of them, as a clone or pad; tell whether it is one.

    torch makes such of tangents, and of cotangents of real Fourier transforms. What is mapped over a batch cannot be
    written into zeros that are not.
    """
    found = trace.made_by(part)
    if found is None or found.users or (part.shape, part.dtype) != (value.shape, value.dtype):
        return False
    if nodes.is_zeros(found):
        with trace:
            made = aten.clone.default(value, memory_format=torch.contiguous_format)
        trace.bind(part, trace.node_of(made))
        return True
    if found.target is not aten.slice.Tensor or len(found.args) > 4:  # by steps
        return False
    zeros, dim, start = cast("tuple[fx.Node, int, int]", found.args[:3])
    if not nodes.is_zeros(zeros) or len(zeros.users) > 1:
        return False
    whole = zeros.meta["val"]
    after = whole.shape[dim] - start - part.shape[dim]
    with trace:
        made = aten.constant_pad_nd.default(value, [0, 0] * (whole.dim() - 1 - dim) + [start, after])
    trace.bind(whole, trace.node_of(made))
    trace.bind(part, trace.graph.call_function(aten.slice.Tensor, (trace.node_of(whole), *found.args[1:])))
    return True


def zeros_for_writing(trace: Any, out: Tensor) -> None:
    """Record the memory of a tangent, laid out as it is here: forward mode takes views of it by strides, and writes.

    Its own operator takes the strides of its argument, which in a replay may be a broadcast.
    """
    options = {"dtype": out.dtype, "device": out.device}
    if out.is_contiguous() or 0 in out.stride():
        trace.record(aten.zeros.default, (list(out.shape),), options, out)
        return
    extent = 1 + sum((n - 1) * stride for n, stride in zip(out.shape, out.stride(), strict=True))
    # It is the memory of `out`: two of equal zeros that are written into are not the same (`_compile/duplicates.py`).
    memory = fakes.fake_view(trace.fake_mode, out, 0, (extent,), out.dtype, out.device, (1,))
    trace.record(aten.zeros.default, ([extent],), options, memory)
    trace.record(aten.as_strided.default, (memory, list(out.shape), list(out.stride())), {}, out)
