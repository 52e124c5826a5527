"""composite: a function under a name that compilers may know, and scaled_dot, which is one."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._core import derived, dtypes, errors, tree
from .._core.array import Array, is_tracer, tensor_of
from .._core.graph import Graph, TensorType
from .._core.primitive import Dims, Primitive, popped_axis
from .._core.promotion import convert
from .._core.typing import ArrayLike, DTypeLike
from .._transforms.flat import arrays_from, as_argument, check_callable, wraps
from .._transforms.program import trace_program
from .contraction import dot_general
from .operands import array_of


def _no_derivative(name: str) -> ValueError:
    return ValueError(
        "JVP rule for composite not implemented. You can use `jax.custom_jvp` to add support. See "
        "https://docs.jax.dev/en/latest/_autosummary/jax.custom_jvp.html. The composite is "
        f"{name}; jax.custom_vjp serves, too."
    )


class Composite(Primitive):
    """A call of a named graph. It has no derivative, as in JAX: the name says nothing about one."""

    __name__ = "composite"

    def __init__(self, body: Graph, name: str, version: int) -> None:
        self.body, self.name, self.version = body, name, version

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return self.body.out_types

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return self.body(*inputs)

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        body = derived.batched(self.body, dims, size, popped_axis())
        results = Composite(body, self.name, self.version)(*inputs)
        return results, [0] * len(results)

    def jvp(self, primals: Any, tangents: Any) -> list[Tensor | None]:
        raise _no_derivative(self.name)

    def vjp(self, primals: Any, results: Any, cotangents: Any) -> Sequence[Tensor | None]:
        raise _no_derivative(self.name)


def composite(decomposition: Callable[..., Any], name: str, version: int = 0) -> Callable[..., Any]:
    """Return `decomposition` as one operation of the graph, labelled `name` and `version`.

    Positional arguments are arrays; keyword arguments are attributes, known when the function is traced. No backend here
    has kernels of its own for composites: the decomposition is what runs.
    Raises `UnexpectedTracerError` for an attribute that is being traced, `ValueError` when it is differentiated.
    """
    check_callable(decomposition)

    @wraps(decomposition)
    def labelled(*args: Any, **kwargs: Any) -> Any:
        if any(is_tracer(leaf) for leaf in tree.flatten(kwargs)[0]):
            raise errors.UnexpectedTracerError(
                f"An attribute of the composite {name!r} is being traced. Attributes are known when the composite is "
                "traced: pass arrays as positional arguments."
            )
        leaves, spec = tree.flatten(args)
        arrays = [as_argument(leaf, f"The composite {name}") for leaf in leaves]
        fixed = functools.partial(decomposition, **kwargs)
        program = trace_program(fixed, arrays, lambda values: (spec.unflatten(values), {}), (), "composite").pure(
            "composite"
        )
        if program.closed.captures_tracers:
            raise errors.UnexpectedTracerError(
                f"Found a JAX Tracer as a constant in the decomposition for the composite op {name!r}. Pass it as a "
                "positional argument."
            )
        call = Composite(program.closed.graph, name, version)
        results = call(*program.closed.closure(), *map(tensor_of, arrays))
        return program.out_spec.unflatten(arrays_from(results, program.out_kinds))

    return labelled


def scaled_dot(
    lhs: Any,
    rhs: Any,
    *,
    lhs_scale: ArrayLike | None = None,
    rhs_scale: ArrayLike | None = None,
    dimension_numbers: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Return dot_general(lhs * lhs_scale, rhs * rhs_scale) computed in bfloat16, bfloat16 or as preferred.

    A scale has the shape of its operand, but for contracting dimensions, of which one scale serves a block of two or
    more elements. Dimension numbers default to those of matmul. It has no derivative, as in JAX.
    Raises `TypeError` when ranks or sizes do not fit.
    """
    left, right = array_of("scaled_dot", lhs, 0), array_of("scaled_dot", rhs, 1)
    if dimension_numbers is None:
        if left.ndim < 2:
            raise TypeError("scaled_dot does not support 0-rank and 1-rank operands.")
        batch = tuple(range(left.ndim - 2))
        dimension_numbers = (((left.ndim - 1,), (left.ndim - 2,)), (batch, batch))
    contracting, batch = dimension_numbers
    scales = [
        _ones(x, dims) if s is None else array_of("scaled_dot", s)
        for x, s, dims in zip((left, right), (lhs_scale, rhs_scale), contracting, strict=True)
    ]
    ranks = [x.ndim for x in (left, right, *scales)]
    if len(set(ranks)) > 1:
        raise TypeError(f"All input tensors of scaled_dot must have the same rank. Got ranks {ranks}.")
    if any(len(pair[0]) != len(pair[1]) for pair in dimension_numbers):
        raise TypeError("scaled_dot: both operands must have the same number of batch and of contracting dimensions.")
    for pair, what in ((contracting, "contracting"), (batch, "batch")):
        for i, j in zip(*pair, strict=True):
            if left.shape[i] != right.shape[j]:
                raise TypeError(
                    f"LHS {what} dim {i} of size {left.shape[i]} does not match RHS {what} dim {j} of size {right.shape[j]}."
                )
    for side, x, s, dims in zip(("LHS", "RHS"), (left, right), scales, contracting, strict=True):
        _check_scale(side, x.shape, s.shape, dims)
    wanted = torch.bfloat16
    if preferred_element_type is not None:
        wanted = dtypes.to_torch(dtypes.canonicalize_dtype(preferred_element_type))

    def decomposition(lhs: Array, rhs: Array, lhs_scale: Array, rhs_scale: Array) -> Array:
        scaled = [
            _scaled(tensor_of(x), tensor_of(s), dims)
            for x, s, dims in zip((lhs, rhs), (lhs_scale, rhs_scale), contracting, strict=True)
        ]
        return dot_general(
            Array(scaled[0]), Array(scaled[1]), dimension_numbers, preferred_element_type=dtypes.TO_NUMPY[wanted]
        )

    return composite(decomposition, "xla.scaled_dot")(left, right, *scales)


def _ones(operand: Array, contracting: Sequence[int]) -> Array:
    shape = [1 if d in contracting else n for d, n in enumerate(operand.shape)]
    return Array(torch.ones(shape, dtype=torch.bfloat16, device=operand._tensor.device))


def _check_scale(side: str, shape: Sequence[int], scale: Sequence[int], contracting: Sequence[int]) -> None:
    for d, (size, count) in enumerate(zip(shape, scale, strict=True)):
        if d not in contracting and size != count:
            raise TypeError(f"{side} dim {d} of size {size} does not match scale dim size {count}.")
        if d in contracting and size % count:
            raise TypeError(
                f"{side} contracting dim {d} of size {size} must be divisible by its scale's dim size {count}."
            )
        if d in contracting and size // count < 2:
            raise TypeError(
                f"The ratio of {side} contracting dim {d} to its scale's dim size ({size // count}) must be at least 2."
            )


def _scaled(operand: Tensor, scale: Tensor, contracting: Sequence[int]) -> Tensor:
    wide = convert(scale, torch.bfloat16)
    for d in contracting:
        wide = wide.repeat_interleave(operand.shape[d] // wide.shape[d], dim=d)
    return convert(operand, torch.bfloat16) * wide
