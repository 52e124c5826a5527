"""Functions of dense arrays made to take sparse ones.

The function is traced for dense arrays of the same types, and its graph run operator by operator. Where operands are
sparse, a rule says what to do: `_RULES` has them by operator of aten. What has no rule raises `NotImplementedError`.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from ..._core import tree
from ..._core.array import Array, as_array, tensor_of
from ..._core.dimensions import canonical_axes
from ..._core.graph import Graph
from ..._core.primitive import Primitive
from ..._core.promotion import convert
from ..._lax.control_flow.cond import Cond, switch
from ..._lax.control_flow.scan import Scan, scan
from ..._lax.control_flow.while_loop import While, while_loop
from ..._transforms.custom_jvp import CustomJVPCall
from ..._transforms.flat import check_callable, wraps
from ..._transforms.program import Call, Program, trace_program
from ..._transforms.remat import Checkpoint
from .base import JAXSparse
from .bcoo import BCOO
from .bcsr import BCSR
from .contractions import bcoo_dot_general
from .operators import add, divide, each, multiply, subtract
from .shapes import (
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_reduce_sum,
    bcoo_reshape,
    bcoo_rev,
    bcoo_slice,
    bcoo_squeeze,
    bcoo_transpose,
)

aten = torch.ops.aten


class SparseTracer:
    """The name of JAX for what stands in for a sparse array while a function is traced; a dense array does here."""

    def __init__(self, trace: Any, *, spvalue: Any) -> None:
        raise TypeError("There are no sparse tracers: functions are traced for dense arrays.")


# --------------------------------------------------------------------------------------------------------------- rules


def _wrapped(x: Any) -> Any:
    return Array(x) if isinstance(x, Tensor) else x


def _unwrapped(x: Any) -> Any:
    return tensor_of(x) if isinstance(x, Array) else x


def _binary(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def rule(x: Any, y: Any, *, alpha: Any = 1) -> Any:
        if alpha != 1:
            raise NotImplementedError("sparse rule for a sum with a factor")
        return function(_wrapped(x), _wrapped(y))

    return rule


def _dot(contract: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def rule(x: Any, y: Any) -> Any:
        return bcoo_dot_general(_wrapped(x), _wrapped(y), dimension_numbers=contract(x, y))

    return rule


def _sum(x: BCOO, dims: Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    x = _to_dtype(x, dtype=dtype)
    axes = canonical_axes(None if not dims else tuple(dims), x.ndim)
    made: Any = bcoo_reduce_sum(x, axes=axes)
    if keepdim:
        kept = [d for d in range(x.ndim) if d not in axes]
        shape = tuple(n if d in kept else 1 for d, n in enumerate(x.shape))
        return bcoo_broadcast_in_dim(made, shape=shape, broadcast_dimensions=kept)
    return made if made.shape else made.data.sum()


def _reshape(x: BCOO, sizes: Sequence[int]) -> BCOO:
    known = functools.reduce(operator.mul, (n for n in sizes if n != -1), 1)
    return bcoo_reshape(x, new_sizes=[x.size // max(known, 1) if n == -1 else n for n in sizes])


def _expand(x: BCOO, sizes: Sequence[int], implicit: bool = False) -> BCOO:
    new = len(sizes) - x.ndim
    shape = tuple(x.shape[d - new] if n == -1 else n for d, n in enumerate(sizes))
    if shape == x.shape:
        return x
    return bcoo_broadcast_in_dim(x, shape=shape, broadcast_dimensions=range(new, len(shape)))


def _permute(x: BCOO, order: Sequence[int]) -> BCOO:
    return bcoo_transpose(x, permutation=tuple(d % x.ndim for d in order))


def _exchange(x: BCOO, first: int = 0, second: int = 1) -> BCOO:
    order = list(range(x.ndim))
    order[first], order[second] = order[second], order[first]
    return bcoo_transpose(x, permutation=order)


def _unsqueeze(x: BCOO, d: int) -> BCOO:
    d = d % (x.ndim + 1)
    shape = (*x.shape[:d], 1, *x.shape[d:])
    return bcoo_broadcast_in_dim(x, shape=shape, broadcast_dimensions=[i for i in range(x.ndim + 1) if i != d])


def _squeeze(x: BCOO, dims: Any = None) -> BCOO:
    axes = canonical_axes(tuple(dims) if isinstance(dims, tuple | list) else dims, x.ndim)
    return bcoo_squeeze(x, dimensions=[d for d in axes if x.shape[d] == 1])


def _cut(x: BCOO, d: int, start: int, stop: int, step: int = 1) -> BCOO:
    starts, limits, steps = [0] * x.ndim, list(x.shape), [1] * x.ndim
    starts[d], limits[d], steps[d] = start, stop, step
    return bcoo_slice(x, start_indices=starts, limit_indices=limits, strides=steps)


def _slice(x: BCOO, d: int = 0, start: int | None = None, stop: int | None = None, step: int = 1) -> BCOO:
    first, last, step = slice(start, stop, step).indices(x.shape[d])
    return _cut(x, d, first, max(last, first), step)


def _select(x: BCOO, d: int, place: int) -> BCOO:
    place = place % x.shape[d]
    return bcoo_squeeze(_cut(x, d, place, place + 1), dimensions=[d])


def _narrow(x: BCOO, d: int, start: int, length: int) -> BCOO:
    return _cut(x, d, start, start + length)


def _cat(operands: Sequence[Any], d: int = 0) -> BCOO:
    if not all(isinstance(x, BCOO) for x in operands):
        raise NotImplementedError("sparse rule for cat of sparse and dense arrays")
    return bcoo_concatenate(operands, dimension=d % operands[0].ndim)


def _to_dtype(x: BCOO, dtype: Any = None, **_: Any) -> BCOO:
    if dtype is None or tensor_of(x.data).dtype is dtype:
        return x
    return x.with_data(Array(convert(tensor_of(x.data), dtype)))


def _power(x: Any, exponent: Any) -> BCOO:
    if not isinstance(x, BCOO) or not isinstance(exponent, int | float) or exponent <= 0:
        raise NotImplementedError("sparse rule for pow with an exponent that is no positive number")
    return each(lambda data: Array(torch.pow(tensor_of(data), exponent)))(x)


def _elementwise(function: Callable[..., Tensor], linear: bool = False) -> Callable[[BCOO], BCOO]:
    return each(lambda data: Array(function(tensor_of(data))), linear)


def _same(x: Any, *_: Any, **__: Any) -> Any:
    return x


def _no_batch(*contracted: int) -> Callable[[Any, Any], Any]:
    return lambda x, y: (tuple((c,) for c in contracted), ((), ()))


_RULES: dict[Any, Callable[..., Any]] = {
    aten.add: _binary(add),
    aten.sub: _binary(subtract),
    aten.mul: _binary(multiply),
    aten.div: _binary(divide),
    aten.mm: _dot(_no_batch(1, 0)),
    aten.mv: _dot(_no_batch(1, 0)),
    aten.dot: _dot(_no_batch(0, 0)),
    aten.bmm: _dot(lambda x, y: (((2,), (1,)), ((0,), (0,)))),
    aten.sum: _sum,
    aten.reshape: _reshape,
    aten.view: _reshape,
    aten._unsafe_view: _reshape,
    aten.expand: _expand,
    aten.permute: _permute,
    aten.transpose: _exchange,
    aten.t: _exchange,
    aten.numpy_T: lambda x: bcoo_transpose(x, permutation=range(x.ndim)[::-1]),
    aten.unsqueeze: _unsqueeze,
    aten.squeeze: _squeeze,
    aten.slice: _slice,
    aten.select: _select,
    aten.narrow: _narrow,
    aten.flip: lambda x, dims: bcoo_rev(x, [d % x.ndim for d in dims]),
    aten.cat: _cat,
    aten.stack: lambda operands, d=0: _cat([_unsqueeze(x, d) for x in operands], d),
    aten._to_copy: _to_dtype,
    aten.to: lambda x, dtype=None, *_, **__: _to_dtype(x, dtype),
    aten.pow: _power,
    aten.neg: _elementwise(torch.neg, linear=True),
    aten.conj: _elementwise(torch.conj_physical, linear=True),
    aten._conj: _elementwise(torch.conj_physical, linear=True),
    aten.real: _elementwise(torch.real, linear=True),
    aten.imag: _elementwise(torch.imag, linear=True),
    **dict.fromkeys((aten.clone, aten.alias, aten.detach, aten.contiguous, aten.positive, aten.view_as), _same),
    **{
        getattr(aten, name): _elementwise(getattr(torch, name))
        for name in ("abs", "asin", "asinh", "atan", "atanh", "ceil", "erf", "expm1", "floor", "log1p", "round", "sgn",
                     "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc", "relu")
    },
}  # fmt: skip


# Our own primitives that map zero to zero.
_ZERO_TO_ZERO = frozenset(
    ("abs", "asin", "asinh", "atan", "atanh", "ceil", "erf", "expm1", "floor", "log1p", "round", "sign", "sin", "sinh",
     "sqrt", "square", "tan", "tanh")
)  # fmt: skip


# ------------------------------------------------------------------------------------------------------ control flow


def _called(graph: Graph, consts: Sequence[Any]) -> Callable[..., list[Any]]:
    """Return a graph as a function of arrays, sparse or not, that closes over its first inputs."""

    def function(*values: Any) -> list[Any]:
        return [_wrapped(r) for r in _run(graph, [*consts, *map(_unwrapped, values)])]

    return function


def _while(loop: While, *inputs: Any) -> list[Any]:
    cond_consts, body_consts, init = loop.parts(inputs)
    test, step = _called(loop.cond, cond_consts), _called(loop.body, body_consts)
    return while_loop(lambda carry: test(*carry)[0], lambda carry: step(*carry), [_wrapped(x) for x in init])


def _scan(loop: Scan, *inputs: Any) -> list[Any]:
    consts, init, xs = loop.parts(inputs)
    if any(map(_is_sparse, xs)):
        raise NotImplementedError("sparse rule for scan over rows of sparse arrays")
    step = _called(loop.body, consts)

    def body(carry: Any, x: Any) -> tuple[list[Any], list[Any]]:
        found = step(*carry, *x)
        return found[: loop.carries], found[loop.carries :]

    starts, rows = [_wrapped(x) for x in init], [_wrapped(x) for x in xs]
    carry, ys = scan(body, starts, rows, loop.length, loop.reverse, loop.unroll)
    return [*carry, *ys]


def _cond(choice: Cond, index: Any, *operands: Any) -> list[Any]:
    return switch(_wrapped(index), [_called(branch, ()) for branch in choice.branches], *map(_wrapped, operands))


def _called_body(call: Call | Checkpoint | CustomJVPCall, *inputs: Any) -> list[Any]:
    return _run(call.body, inputs)


_STRUCTURED: dict[type[Primitive], Callable[..., Sequence[Any]]] = {
    While: _while,
    Scan: _scan,
    Cond: _cond,
    **dict.fromkeys((Call, Checkpoint, CustomJVPCall), _called_body),
}


# ---------------------------------------------------------------------------------------------------------- interpreting


def _run(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    """Run a graph whose inputs are tensors or BCOO arrays."""
    return _Interpreter(graph.module).run(*inputs)


class _Interpreter(fx.Interpreter):
    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.extra_traceback = False

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if not any(isinstance(leaf, BCOO) for leaf in _leaves((args, kwargs))):
            return super().call_function(target, args, kwargs)
        if type(target) in _STRUCTURED:
            return [_unwrapped(r) for r in _STRUCTURED[type(target)](target, *args)]
        if target is operator.getitem:
            return operator.getitem(*args)
        if isinstance(target, Primitive) and target.__name__ in _ZERO_TO_ZERO:
            return [each(lambda data: Array(target(tensor_of(data))[0]))(args[0])]
        rule = _RULES.get(getattr(target, "overloadpacket", target))
        if rule is None or isinstance(target, Primitive):
            raise NotImplementedError(
                f"sparse rule for {getattr(target, '__name__', target)} is not implemented. If you want to use an array "
                "with this function, use sparse.todense() on it first."
            )
        return _unwrapped(rule(*args, **kwargs))


def _leaves(values: Any) -> list[Any]:
    if isinstance(values, tuple | list):
        return [leaf for value in values for leaf in _leaves(value)]
    if isinstance(values, dict):
        return _leaves(list(values.values()))
    return [values]


def _is_sparse(x: Any) -> bool:
    return isinstance(x, JAXSparse)


def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """Return `f` for arguments of which some are sparse, and results that are sparse where its operations keep them so.

    `use_tracer` chooses between two ways of JAX and makes no difference here.
    """
    del use_tracer
    check_callable(f)

    @wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree.flatten((args, kwargs), is_leaf=_is_sparse)
        values = [_value(leaf) for leaf in leaves]
        arrays = [_stand_in(v) for v in values]
        program: Program = trace_program(f, arrays, spec.unflatten, (), "sparsify").pure("sparsify")
        closed = program.closed
        inputs = [v if isinstance(v, BCOO) else tensor_of(v) for v in values]
        results = _run(closed.graph, [*closed.closure(), *inputs])
        made = [
            r if isinstance(r, BCOO) else Array(r, bool(kind))
            for r, kind in zip(results, program.out_kinds, strict=True)
        ]
        return program.out_spec.unflatten(made)

    return wrapped


def _value(leaf: Any) -> Any:
    if isinstance(leaf, BCSR):
        return leaf.to_bcoo()
    if isinstance(leaf, BCOO):
        return leaf
    if isinstance(leaf, JAXSparse):
        raise NotImplementedError(f"sparsify of a function of {type(leaf).__name__}; use BCOO.")
    return as_array(leaf)


def _stand_in(value: Any) -> Array:
    """Return an array of the type of a value, sparse or not, that takes no memory."""
    if isinstance(value, Array):
        return value
    t = tensor_of(value.data)
    return Array(torch.zeros((), dtype=t.dtype, device=t.device).expand(value.shape))
