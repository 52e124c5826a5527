"""The operators and computing methods of `Array`, which are jax.numpy functions; importing this module installs them.

Binary operators have a fast path, for two arrays of one dtype and for an array with a Python number, outside of
traces: one torch call. A number stays one all the way into torch, whose own rule is that of weak types; only for
half precision it is made an array first, since torch would compute with more digits of it.
"""

import operator
import warnings
from collections.abc import Callable, Sequence
from ctypes import c_float
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import config, dtypes, errors, functorch, graph
from .._core.array import Array
from . import (
    array_api,
    contractions,
    creation,
    cumulative,
    manipulation,
    parts,
    reductions,
    rounding,
    searching,
    selection,
    sorting,
    ufuncs,
)
from .index_update import _IndexUpdateHelper
from .indexing import getitem

_FLOATS = frozenset({torch.float32, torch.float64})
_COMPLEX = frozenset({torch.complex64, torch.complex128})
_INTS = {
    dtype: (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
}
_INEXACT = _FLOATS | dtypes.HALVES | _COMPLEX
_ARITHMETIC = _INEXACT | _INTS.keys()
_ORDERED = _FLOATS | dtypes.HALVES | _INTS.keys()
_BITS = _INTS.keys() | {torch.bool}

_rank_promotion = config.numpy_rank_promotion


_OPERANDS = (Array, int, float, complex, bool, np.ndarray, np.generic, torch.SymInt, torch.SymFloat)


def _operand(x: Any) -> Any:
    """Return what operators take for `x`, NotImplemented to let Python ask `x` for the operation.

    Raises `TypeError` for a tensor, with whose answer nobody could do anything.
    """
    if isinstance(x, _OPERANDS):
        return x
    if isinstance(x, Tensor):
        raise TypeError(f"unsupported operand types: 'Array' and 'Tensor'.{errors.way_from_torch(x)}")
    found = x.__jax_array__() if hasattr(x, "__jax_array__") else NotImplemented
    return found if isinstance(found, _OPERANDS) else NotImplemented


def _binary(
    fast: Callable[..., Any], slow: Callable[..., Any], accepted: frozenset[torch.dtype]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return an operator and its reflected form: `fast` on tensors of an accepted dtype, else `slow` on arguments."""
    floats, ints = accepted & _FLOATS, _INTS if torch.int32 in accepted else {}

    def forward(self: Array, other: Any) -> Any:
        if not graph.tracing:
            x = self._tensor
            kind = type(other)
            if kind is Array:
                y = other._tensor
                if (
                    x.dtype is y.dtype
                    and x.dtype in accepted
                    and (x.dim() == y.dim() or _rank_promotion.value == "allow")
                ):
                    try:
                        return Array(fast(x, y), self._weak and other._weak and x.dtype is not torch.bool)
                    except RuntimeError:
                        graph.check_alive(x)
                        return slow(self, other)
            elif kind is float:
                if x.dtype in floats:
                    return Array(fast(x, other), self._weak)
            elif kind is int:
                if x.dtype in floats:
                    return Array(fast(x, float(other)), self._weak)
                bounds = ints.get(x.dtype)
                if bounds and bounds[0] <= other <= bounds[1]:
                    return Array(fast(x, other), self._weak)
        if (other := _operand(other)) is NotImplemented:
            return NotImplemented
        return slow(self, other)

    def reflected(self: Array, other: Any) -> Any:
        if type(other) is float and not graph.tracing:
            x = self._tensor
            if x.dtype in floats:
                return Array(fast(other, x), self._weak)
        elif type(other) is int and not graph.tracing:
            x = self._tensor
            if x.dtype in floats:
                return Array(fast(float(other), x), self._weak)
            bounds = ints.get(x.dtype)
            if bounds and bounds[0] <= other <= bounds[1]:
                return Array(fast(other, x), self._weak)
        if (other := _operand(other)) is NotImplemented:
            return NotImplemented
        return slow(other, self)

    return forward, reflected


_ORDERINGS = (ufuncs.less, ufuncs.less_equal, ufuncs.greater, ufuncs.greater_equal)


def _comparison(
    fast: Callable[..., Any], slow: Callable[..., Any], accepted: frozenset[torch.dtype]
) -> Callable[..., Any]:
    ints = _INTS

    def compare(self: Array, other: Any) -> Any:
        if not graph.tracing:
            x = self._tensor
            kind = type(other)
            if kind is Array:
                y = other._tensor
                if (
                    x.dtype is y.dtype
                    and x.dtype in accepted
                    and (x.dim() == y.dim() or _rank_promotion.value == "allow")
                ):
                    try:
                        return Array(fast(x, y), self._weak and other._weak and x.dtype is not torch.bool)
                    except RuntimeError:
                        graph.check_alive(x)
                        return slow(self, other)
            elif kind is float:
                if x.dtype in _FLOATS:
                    return Array(fast(x, other), self._weak)
            elif kind is int:
                bounds = ints.get(x.dtype)
                if bounds and bounds[0] <= other <= bounds[1]:
                    return Array(fast(x, other), self._weak)
                if x.dtype in _FLOATS:
                    return Array(fast(x, float(other)), self._weak)
        if isinstance(other, Tensor) and slow not in _ORDERINGS:  # equal to no array
            return NotImplemented
        if (other := _operand(other)) is NotImplemented:
            return NotImplemented
        return slow(self, other)

    return compare


def _unary(fast: Callable[..., Any], slow: Callable[..., Any], accepted: frozenset[torch.dtype]) -> Callable[..., Any]:
    def unary(self: Array) -> Array:
        x = self._tensor
        if x.dtype in accepted and not graph.tracing:
            return Array(fast(x), self._weak)
        return slow(self)

    return unary


def _quotient(a: Any, b: Any) -> Tensor:
    # torch's own number / tensor is number * (1 / tensor), rounded twice.
    return a / b if isinstance(a, Tensor) else torch.full((), a, dtype=b.dtype, device=b.device) / b


_add, _radd = _binary(torch.add, ufuncs.add, frozenset(_ARITHMETIC))
_sub, _rsub = _binary(operator.sub, ufuncs.subtract, frozenset(_ARITHMETIC))
_mul, _rmul = _binary(torch.mul, ufuncs.multiply, frozenset(_ARITHMETIC))
_truediv, _rtruediv = _binary(_quotient, ufuncs.true_divide, _INEXACT)
_floordiv, _rfloordiv = _binary(ufuncs.floor_divide, ufuncs.floor_divide, frozenset())
_mod, _rmod = _binary(torch.remainder, ufuncs.remainder, _FLOATS)
_divmod, _rdivmod = _binary(ufuncs.divmod, ufuncs.divmod, frozenset())
_matmul, _rmatmul = _binary(contractions.matmul, contractions.matmul, frozenset())
_and, _rand = _binary(operator.and_, ufuncs.bitwise_and, frozenset(_BITS))
_or, _ror = _binary(operator.or_, ufuncs.bitwise_or, frozenset(_BITS))
_xor, _rxor = _binary(operator.xor, ufuncs.bitwise_xor, frozenset(_BITS))
_lshift, _rlshift = _binary(operator.lshift, ufuncs.left_shift, frozenset())
_rshift, _rrshift = _binary(operator.rshift, ufuncs.right_shift, frozenset())
_rpow = _binary(operator.pow, ufuncs.power, frozenset())[1]


def _pow(self: Array, other: Any) -> Any:
    if not graph.tracing:
        x = self._tensor
        dtype = x.dtype
        if type(other) is int:
            if dtype in _FLOATS:
                return Array(x * x if other == 2 else torch.pow(x, other), self._weak)
        elif type(other) is float and dtype in _FLOATS and functorch.peek_interpreter_stack() is None:
            if dtype is torch.float32:  # of few elements torch computes the power with all digits of the number
                other = c_float(other).value
            return Array(torch.pow(x, other), self._weak)
    if (other := _operand(other)) is NotImplemented:
        return NotImplemented
    return ufuncs.power(self, other)


def _contains(self: Array, other: Any) -> bool:
    given = type(other)
    if (other := _operand(other)) is NotImplemented:
        raise TypeError(f"Array.__contains__: unsupported operand type {given}.")
    if self.ndim != 1:
        raise ValueError(f"Array.__contains__: search array must be one-dimensional, got array of shape {self.shape}.")
    if np.ndim(other):
        raise ValueError(f"Array.__contains__: query value must be a scalar, got array of shape {np.shape(other)}.")
    return bool((self == other).any())  # pyright: ignore


def _round(self: Array, ndigits: int | None = None) -> Array:
    return rounding.round(self, decimals=ndigits or 0)


_OPERATORS: dict[str, Callable[..., Any]] = {
    "__add__": _add, "__radd__": _radd, "__sub__": _sub, "__rsub__": _rsub, "__mul__": _mul, "__rmul__": _rmul,
    "__truediv__": _truediv, "__rtruediv__": _rtruediv, "__floordiv__": _floordiv, "__rfloordiv__": _rfloordiv,
    "__mod__": _mod, "__rmod__": _rmod, "__divmod__": _divmod, "__rdivmod__": _rdivmod, "__pow__": _pow,
    "__rpow__": _rpow, "__matmul__": _matmul, "__rmatmul__": _rmatmul, "__and__": _and, "__rand__": _rand,
    "__or__": _or, "__ror__": _ror, "__xor__": _xor, "__rxor__": _rxor, "__lshift__": _lshift,
    "__rlshift__": _rlshift, "__rshift__": _rshift, "__rrshift__": _rrshift,
    "__eq__": _comparison(operator.eq, ufuncs.equal, frozenset(_ARITHMETIC | {torch.bool})),
    "__ne__": _comparison(operator.ne, ufuncs.not_equal, frozenset(_ARITHMETIC | {torch.bool})),
    "__lt__": _comparison(operator.lt, ufuncs.less, frozenset(_ORDERED)),
    "__le__": _comparison(operator.le, ufuncs.less_equal, frozenset(_ORDERED)),
    "__gt__": _comparison(operator.gt, ufuncs.greater, frozenset(_ORDERED)),
    "__ge__": _comparison(operator.ge, ufuncs.greater_equal, frozenset(_ORDERED)),
    "__neg__": _unary(operator.neg, ufuncs.negative, frozenset(_ARITHMETIC)),
    "__abs__": ufuncs.absolute,
    "__pos__": ufuncs.positive, "__invert__": ufuncs.invert,
    "__getitem__": getitem, "__contains__": _contains, "__round__": _round,
}  # fmt: skip

for _name, _function in _OPERATORS.items():
    setattr(Array, _name, _function)

# The methods have the parameters of the functions whose first argument is the array.


def _reshape(self: Array, *args: Any, order: str = "C", out_sharding: Any = None) -> Array:
    """Return the elements in another shape, given as one sequence or as several sizes; see `jnp.reshape`."""
    return manipulation.reshape(self, args[0] if len(args) == 1 else args, order, out_sharding=out_sharding)


def _transpose(self: Array, *args: Any) -> Array:
    """Return the array with its axes in the given order (one sequence, or several axes), reversed by default."""
    axes = None if not args else args[0] if len(args) == 1 and not isinstance(args[0], int) else args
    return manipulation.transpose(self, axes)


def _flatten(self: Array, order: str = "C", *, out_sharding: Any = None) -> Array:
    """Return the elements in one dimension; see `jnp.ravel`."""
    return manipulation.ravel(self, order, out_sharding=out_sharding)


def _astype(self: Array, dtype: Any, copy: bool = False, device: Any = None) -> Array:
    """Return the array converted to `dtype`; see `jnp.astype`."""
    return creation.astype(self, dtype, copy=copy, device=device)


def _clip(self: Array, min: Any = None, max: Any = None) -> Array:
    """Return the array limited to [min, max]; see `jnp.clip`."""
    return ufuncs.clip(self, min, max)


def _compress(
    self: Array,
    condition: Any,
    axis: int | None = None,
    *,
    out: None = None,
    size: int | None = None,
    fill_value: Any = 0,
) -> Array:
    """Return the slices along `axis` where `condition` is true; see `jnp.compress`."""
    return selection.compress(condition, self, axis, size=size, fill_value=fill_value, out=out)


def _conj(self: Array) -> Array:
    """Return the complex conjugate."""
    return parts.conjugate(self)


def _copy(self: Array) -> Array:
    """Return a copy."""
    return creation.copy(self)


def _dot(self: Array, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Array:
    """Return the product with `b`; see `jnp.dot`."""
    return contractions.dot(self, b, precision=precision, preferred_element_type=preferred_element_type)


def _nonzero(self: Array, *, fill_value: Any = None, size: int | None = None) -> tuple[Array, ...]:
    """Return the indices of the nonzero elements, per axis; see `jnp.nonzero`."""
    return searching.nonzero(self, size=size, fill_value=fill_value)


def _view(self: Array, dtype: Any = None, type: None = None) -> Array:
    """Return the bits of the array read as another dtype; a size change scales the last axis."""
    if type is not None:
        raise NotImplementedError("`type` argument of array.view() is not supported.")
    return parts.view_as(self, dtype)


def _choose(self: Array, choices: Any, out: None = None, mode: str = "raise") -> Array:
    """Return elements of the arrays in `choices`, the array's values saying which; see `jnp.choose`."""
    return selection.choose(self, choices, out, mode)


def _flat(self: Array) -> Any:
    raise NotImplementedError("JAX arrays do not implement the arr.flat property: consider arr.flatten() instead.")


def _sort(
    self: Array,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """Return the array sorted along `axis`; see `jnp.sort`."""
    return sorting.sort(self, axis, kind=kind, order=order, stable=stable, descending=descending)


def _clone(self: Array) -> Array:
    """Return a copy."""
    return creation.copy(self)


def _array_module(self: Array, types: Sequence[type]) -> Any:
    """Return jax.numpy where all of `types` are arrays of this library (NumPy's NEP 37)."""
    if any(not issubclass(t, Array) for t in types):
        return NotImplemented
    return array_api.array_namespace(self)


def _cuda_array_interface(self: Array) -> dict[str, Any]:
    tensor = self._concrete(errors.ConcretizationTypeError)
    if not tensor.is_cuda:
        raise AttributeError("__cuda_array_interface__ is only defined for GPU buffers.")
    return tensor.__cuda_array_interface__  # pyright: ignore[reportReturnType]


def _numpy_dtype(self: Array) -> np.dtype:
    warnings.warn(
        "Implicit conversion of an array to a dtype is deprecated; rather than dtype=arr use dtype=arr.dtype. In the future "
        "this will result in an error.",
        DeprecationWarning,
        stacklevel=2,
    )
    return self.dtype


def _device_buffer(self: Array) -> Any:
    raise AttributeError("arr.device_buffer has been removed. Use arr.addressable_data(0).")


def _device_buffers(self: Array) -> Any:
    raise AttributeError("arr.device_buffers has been removed. Use [s.data for s in arr.addressable_shards].")


_METHODS: dict[str, Callable[..., Any]] = {
    "all": reductions.all, "any": reductions.any, "max": reductions.max, "mean": reductions.mean,
    "min": reductions.min, "prod": reductions.prod, "ptp": reductions.ptp, "std": reductions.std,
    "sum": reductions.sum, "var": reductions.var, "cumsum": cumulative.cumsum, "cumprod": cumulative.cumprod,
    "argmax": sorting.argmax, "argmin": sorting.argmin, "argpartition": sorting.argpartition,
    "argsort": sorting.argsort, "sort": _sort, "searchsorted": searching.searchsorted, "astype": _astype,
    "byteswap": parts.byteswap, "choose": _choose, "clip": _clip, "clone": _clone, "compress": _compress, "conj": _conj,
    "conjugate": _conj, "copy": _copy, "diagonal": manipulation.diagonal, "dot": _dot, "flatten": _flatten,
    "nonzero": _nonzero, "ravel": _flatten, "repeat": manipulation.repeat, "reshape": _reshape,
    "round": rounding.round, "squeeze": manipulation.squeeze, "swapaxes": manipulation.swapaxes,
    "take": selection.take, "trace": manipulation.trace,
    "transpose": _transpose, "view": _view, "__array_namespace__": array_api.array_namespace,
    "__array_module__": _array_module,
}  # fmt: skip


for _name, _function in _METHODS.items():
    setattr(Array, _name, _function)

for _name, _get in {
    "T": manipulation.transpose, "mT": manipulation.matrix_transpose, "real": parts.real, "imag": parts.imag,
    "flat": _flat, "at": _IndexUpdateHelper, "__cuda_array_interface__": _cuda_array_interface,
    "__numpy_dtype__": _numpy_dtype, "device_buffer": _device_buffer,
    "device_buffers": _device_buffers,
}.items():  # fmt: skip
    setattr(Array, _name, property(_get))
