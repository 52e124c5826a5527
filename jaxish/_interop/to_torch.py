"""Functions of arrays as functions of tensors."""

from collections.abc import Callable, Sequence
from typing import Any

import optree
import torch
from torch import Tensor

from .._core import config, dtypes, dynamo, graph, tree
from .._core.array import Array, tensor_of
from .._transforms.flat import check_callable, wraps
from .._transforms.jit import PjitFunction, jit
from .._transforms.program import Program, keyed, programs_of
from .calls import TorchCall

_flatten: Any = optree.tree_flatten  # without the error handling of tree.flatten
_NARROWED = {
    torch.float64: torch.float32, torch.int64: torch.int32, torch.uint64: torch.uint32,
    torch.complex128: torch.complex64,
}  # fmt: skip


def to_torch(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of arrays (and pytrees of them) as a function of tensors, which is part of torch's autograd.

    `fun` is compiled as by `jax.jit`; a function that is jitted already keeps its options, static arguments for one.
    Results are tensors that share no memory with arguments. `backward`, `torch.autograd.grad` with and without
    `create_graph`, forward mode, the transformations of torch.func, `torch.no_grad`, `torch.inference_mode` and
    `torch.compile(fullgraph=True)`, where it is one operator forward and one back, are as for any function of torch;
    derivatives are those of `fun`, custom rules included. Under autocast it computes in the dtypes it is given.

    Arguments may be arrays too, such as random keys; no derivative goes to these. 64-bit tensors are narrowed to 32 bits
    while `jax_enable_x64` is off, as JAX does it: turn that on for `torch.autograd.gradcheck`.
    Raises `TypeError` for what cannot be called, a call `TypeError` for sparse and other tensors that no array is like, and
    `NotImplementedError` for a function that writes references.
    """
    check_callable(fun)
    jitted = fun if isinstance(fun, PjitFunction) else jit(fun)
    simple, programs = jitted._is_direct and jitted._signature.is_plain, programs_of(jitted, "called from torch")

    @wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = _flatten((args, kwargs), None, namespace=tree.NAMESPACE)
        given = [_given(x) if isinstance(x, Tensor) else x for x in leaves]
        found = keyed(given, spec) if simple and not graph.tracing and not _is_traced_by_torch() else None
        program = None if found is None else programs.get(found[0])
        if found is None or program is None:
            program, tensors = _looked_up(jitted, given, spec)
            if found is not None and not program.is_for_this_call_only:
                programs[found[0]] = program
        else:
            tensors = found[1]
        results = TorchCall(program.closed.graph, program.name)(*program.closed.closure(), *tensors)
        return program.out_spec.unflatten(results)

    dynamo.import_all()
    return torch._dynamo.nonstrict_trace(call)


_is_traced_by_torch = torch._C._len_torch_dispatch_stack


def _given(tensor: Tensor) -> Array:
    if tensor.layout is not torch.strided or tensor.dtype not in dtypes.TO_NUMPY:
        raise TypeError(
            f"A function of arrays takes dense tensors of JAX's dtypes, got {tensor.dtype} laid out as {tensor.layout}; "
            "tensor.to_dense() is one."
        )
    if tensor.dtype in _NARROWED and not config.enable_x64.value:
        tensor = tensor.to(_NARROWED[tensor.dtype])
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    return Array(tensor)


def _looked_up(jitted: PjitFunction, given: Sequence[Any], spec: tree.Spec) -> tuple[Program, list[Tensor]]:
    """Return the program for these arguments, traced where there is none yet, and the tensors to call it with."""
    known = [_stand_in(x) if isinstance(x, Array) else x for x in given]
    args, kwargs = spec.unflatten(known)
    call = jitted._prepared(args, kwargs)
    real = {id(k): g for k, g in zip(known, given, strict=True)}
    return jitted._program(call).pure("to_torch"), [tensor_of(real.get(id(a), a)) for a in call.arrays]


def _stand_in(x: Array) -> Array:
    """Return what a function is traced with for an argument: without memory while torch traces, whose sizes may be symbols."""
    if graph.is_tracing() or not _is_traced_by_torch():
        return x
    shape = tuple(map(int, x._tensor.shape))
    with graph.outside_traces():
        return Array(torch.zeros((), dtype=x._tensor.dtype, device=x._tensor.device).expand(shape), x._weak)
