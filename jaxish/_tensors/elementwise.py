"""Elementwise functions with derivatives of our own: where torch has no kernel, no derivative, or another one.

`Elementwise(name, run, partials)` maps tensors that broadcast against each other to one tensor. Batching aligns the
batch dimensions and runs the same function; differentiation multiplies by the partial derivatives, which are
functions of the operands made of torch operators and other primitives, so that they nest.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .._compile.kernels import Kernel
from .._compile.structured import Opaque
from .._core.dimensions import broadcast_shape
from .._core.graph import is_plain_evaluation
from .._core.primitive import Dims, Primitive, TensorType, batches_aligned, differentiable
from .._core.target import Target

Function = Callable[..., Tensor]


def widened(function: Function) -> Function:
    """Return a function that computes 16-bit floats in float32, for which some of torch's kernels do not exist."""

    def run(*tensors: Tensor) -> Tensor:
        if tensors[0].dtype.itemsize >= 4:
            return function(*tensors)
        return function(*(t.float() for t in tensors)).to(tensors[0].dtype)

    return run


def compiled_when_long(function: Function, least: int = 1) -> Function:
    """Return an elementwise function of one or two tensors that is one C++ function on a CPU once it has taken long.

    It is for what is several of torch's operators, or one that has no vectors. Arrays of fewer elements than `least` stay
    with them: a call of the C++ function takes as long as five operators.
    """
    of_rows = Kernel(lambda _, *rows: [function(*rows)], shared=0, itself=function)
    by_number = Kernel(lambda _, y, x: [function(x, y)], shared=1, itself=lambda y, x: function(x, y))
    of_number = Kernel(lambda _, x, y: [function(x, y)], shared=1, itself=function)

    @functools.wraps(function)
    def run(x: Tensor, *others: Tensor) -> Tensor:
        if not is_plain_evaluation() or type(x) is not Tensor or not x.is_cpu:
            return function(x, *others)
        if max(x.numel(), *(t.numel() for t in others), 0) < least:
            return function(x, *others)
        if not others or x.shape == others[0].shape:
            return _shaped(of_rows(x.numel(), *map(_row, (x, *others))), x)
        (y,) = others
        if not y.dim():
            return _shaped(by_number(x.numel(), y, _row(x)), x)
        if not x.dim() and y.numel():
            return _shaped(of_number(y.numel(), x, _row(y)), y)
        return function(x, y)

    return run


def _row(x: Tensor) -> Tensor:
    return x if x.dim() == 1 else x.reshape(-1)


def _shaped(results: Sequence[Tensor], like: Tensor) -> Tensor:
    return results[0] if like.dim() == 1 else results[0].reshape(like.shape)


@dataclass(frozen=True)
class NoSlope:
    """A partial derivative that does not exist: `ValueError` in forward mode, NaN in reverse mode."""

    message: str

    def __call__(self, *primals: Tensor) -> Tensor:
        """Raise the error."""
        raise ValueError(self.message)


class Elementwise:
    """An elementwise function: `run` on plain tensors, and per operand its partial derivative (None: zero).

    A partial derivative of booleans says where it is one, and zero elsewhere whatever it is multiplied by. With `partials`
    None the function has no derivative and asking for it raises. Functions of one name differ in their
    `parameters`. `contracted` is what computes it in code that contracts (`Target.contracts`). `is_instruction` says
    that loops in C++ know it by its name; `is_opaque` that its control flow depends on values, so that compiled code
    calls it as one operator; `is_long` that it takes so many operators that it is better one kernel, as an opaque one is.
    """

    def __init__(
        self, name: str, run: Function, partials: Sequence[Function | None] | None, contracted: Function | None = None,
        parameters: tuple[int, ...] = (), is_instruction: bool = False, is_opaque: bool = False, is_long: bool = False,
    ) -> None:  # fmt: skip
        kind = _OpaquePrimitive if is_opaque else _ElementwisePrimitive
        self._primitive = kind(name, run, partials, contracted, parameters)
        if is_opaque:
            self._primitive.kernel = Kernel(lambda _, *rows: self._primitive(*rows), shared=0, itself=run)
        elif is_long:
            self._primitive.kernel = Kernel(lambda _, *rows: [run(*rows)], shared=0)
        self._primitive.is_instruction = is_instruction

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Return the function of tensors that broadcast against each other."""
        return self._primitive(*inputs)[0]


# What JAX has a primitive for, by our name.
_IN_JAX = {
    name: name
    for name in (
        "abs", "atan2", "bessel_i0e", "bessel_i1e", "cbrt", "clamp", "digamma", "erf", "erf_inv", "exp", "igamma",
        "igamma_grad_a", "igammac", "lgamma", "log", "log1p", "nextafter", "polygamma", "pow", "sqrt", "zeta",
    )
} | {"betainc": "regularized_incomplete_beta"}  # fmt: skip


class _ElementwisePrimitive(Primitive):
    kernel: Kernel | None = None
    is_elementwise = True
    rules = ("_run", "_contracted", "partials", "kernel")  # the name stands for what it computes

    def __init__(
        self, name: str, run: Function, partials: Sequence[Function | None] | None, contracted: Function | None,
        parameters: tuple[int, ...],
    ) -> None:  # fmt: skip
        self.__name__ = name
        self._run, self._contracted, self.partials, self.parameters = run, contracted, partials, parameters

    def equation(self) -> tuple[str, dict[str, Any]] | None:
        return (_IN_JAX[self.__name__], {}) if self.__name__ in _IN_JAX and not self.parameters else None

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        shape = broadcast_shape(*(t.shape for t in inputs))
        return [TensorType(tuple(shape), inputs[0].dtype, inputs[0].device)]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        if self.kernel is None:
            return [self._run(*inputs)]
        shape = broadcast_shape(*(t.shape for t in inputs))
        count = math.prod(shape)
        if not count:
            return [self._run(*inputs)]
        return [found.reshape(shape) for found in self.kernel(count, *(t.expand(shape).reshape(-1) for t in inputs))]

    def lower(self, target: Target, *inputs: Tensor) -> list[Tensor]:
        contracted = self._contracted if target.contracts else None
        return [(contracted or self._run)(*inputs)]

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        return self(*batches_aligned(inputs, dims)), [0]

    def _partial(self, position: int, primals: Sequence[Tensor]) -> Tensor | None:
        if self.partials is None:
            raise NotImplementedError(f"Differentiation rule for '{self.__name__}' not implemented.")
        partial = self.partials[position]
        return None if partial is None else partial(*primals)

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        total = None
        for position, tangent in enumerate(tangents):
            partial = None if tangent is None else self._partial(position, primals)
            if partial is not None:
                assert tangent is not None
                term = _scaled(tangent, partial)
                total = term if total is None else total + term
        if total is None:
            return [None]
        return [total.expand(broadcast_shape(*(p.shape for p in primals)))]

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        return self.vjp_of([True] * len(primals), primals, results, cotangents)

    def vjp_of(
        self,
        needed: Sequence[bool],
        primals: Sequence[Tensor],
        results: Sequence[Tensor],
        cotangents: Sequence[Tensor | None],
    ) -> Sequence[Tensor | None]:
        cotangent = cotangents[0]
        found: list[Tensor | None] = []
        for position, primal in enumerate(primals):
            # Within a graph all operands are differentiated: NaN marks a slope that must not be used.
            if not needed[position] or not differentiable(primal.dtype):
                partial = None
            elif self.partials is not None and isinstance(self.partials[position], NoSlope):
                partial = torch.full_like(primal, math.nan)
            else:
                partial = self._partial(position, primals)
            slope = None if partial is None or cotangent is None else _scaled(cotangent, partial.conj())
            found.append(None if slope is None else _summed_to(slope, primal.shape))
        return found


def _scaled(tangent: Tensor, partial: Tensor) -> Tensor:
    # A partial derivative that is a mask lets through or not: zero times infinity is NaN.
    return torch.where(partial, tangent, 0.0) if partial.dtype is torch.bool else partial * tangent


class _OpaquePrimitive(Opaque, _ElementwisePrimitive):
    """One whose control flow depends on values."""

    def spelled_out(self, target: Target, *inputs: Tensor) -> list[Tensor]:
        return [self._run(*inputs)]


def _summed_to(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """Return `tensor` summed over the dimensions along which `shape` was broadcast."""
    extra = tensor.dim() - len(shape)
    dims = [*range(extra), *(i + extra for i, n in enumerate(shape) if n == 1 and tensor.shape[i + extra] != 1)]
    return tensor.sum(dims).reshape(tuple(shape)) if dims else tensor
