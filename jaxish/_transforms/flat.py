"""Between user functions on pytrees of arrays and functions on flat lists of tensors: shared by all transformations."""

import functools
import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import dtypes, errors, tree
from .._core.array import Array, as_array, default_torch_device, from_kind, is_arraylike, tensor_of
from .._core.avals import ShapeDtypeStruct
from .._core.refs import Ref, RefArgument, as_result
from .._devices.made import as_its_tensor


def arrays_from(tensors: Sequence[Tensor], kinds: Sequence[Any]) -> list[Array]:
    """Return the handles of these kinds on `tensors`."""
    return [from_kind(t, k) for t, k in zip(tensors, kinds, strict=True)]


class Output:
    """What a user function returned, taken apart: its leaves, as arrays, their kinds and the structure."""

    def __init__(self, result: Any, function_name: str, takes_types: bool = False) -> None:
        """Take a result apart; with `takes_types`, leaves may be types of arrays, for which the `arrays` have a number."""
        self.leaves, self.spec = tree.flatten(result)
        values = self.leaves
        if takes_types and ShapeDtypeStruct in map(type, values):
            values = [0 if isinstance(leaf, ShapeDtypeStruct) else leaf for leaf in values]
        self.arrays = [as_output(value, function_name, result) for value in values]
        self.kinds = [a.kind for a in self.arrays]

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors, as the active trace sees them."""
        return [tensor_of(a) for a in self.arrays]

    def among_differentiable(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return those of one tensor per leaf whose leaves have tangents of their own dtype."""
        return [t for t, a in zip(tensors, self.arrays, strict=True) if differentiable(a)]

    def rebuilt(self, tensors: Sequence[Tensor]) -> Any:
        """Return what the function returned with other tensors in the place of its own."""
        return self.spec.unflatten(arrays_from(tensors, self.kinds))


class Auxiliary(Output):
    """What a function returns beside its result: arrays, which may belong to the transformation, and whatever else."""

    def __init__(self, result: Any, function_name: str) -> None:
        self.leaves, self.spec = tree.flatten(result)
        self._places = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, Array | Ref)]
        self.arrays = [as_output(self.leaves[i], function_name, result) for i in self._places]
        self.kinds = [a.kind for a in self.arrays]

    def rebuilt(self, tensors: Sequence[Tensor]) -> Any:
        """Return what the function returned with other tensors in the place of its arrays'."""
        leaves = list(self.leaves)
        for place, array in zip(self._places, arrays_from(tensors, self.kinds), strict=True):
            leaves[place] = array
        return self.spec.unflatten(leaves)


class FlatFunction:
    """A user's function as one from flat tensors to flat tensors; what its last call returned is kept as `output`.

    `rebuild` makes (args, kwargs) of arrays of the given kinds. With `has_aux` the function returns a pair, whose second
    part is kept as `aux`; with `takes_types`, the function may return types of arrays. Arguments may be references: `given` is what the last call gave the function, and what those
    of them that it has `written` hold comes behind its results.
    """

    output: Output
    aux: Auxiliary | None = None
    given: Sequence[Any] = ()
    written: Sequence[int] = ()

    def __init__(
        self, fun: Callable[..., Any], kinds: Sequence[Any], rebuild: "Rebuild", has_aux: bool = False,
        takes_types: bool = False,
    ) -> None:  # fmt: skip
        self.fun, self.kinds, self.rebuild, self.has_aux, self.takes_types = fun, kinds, rebuild, has_aux, takes_types

    def __call__(self, *tensors: Tensor) -> list[Tensor]:
        given = arrays_from(tensors, self.kinds)
        self.given = given if any(isinstance(x, Ref) for x in given) else ()  # tracers must not outlive the call
        args, kwargs = self.rebuild(given)
        result = self.fun(*args, **kwargs)
        if self.has_aux:
            result, aux = _pair(result)
            self.aux = Auxiliary(aux, name_of(self.fun))
        self.output = Output(result, described(self.fun), self.takes_types)
        if Ref not in map(type, self.given):
            return self.output.tensors
        self.written = [i for i, x in enumerate(self.given) if isinstance(x, Ref) and x._written]
        return [*self.output.tensors, *(tensor_of(x._array) for x in self.given if isinstance(x, Ref) and x._written)]


Rebuild = Callable[[Sequence[Array]], tuple[Sequence[Any], dict[str, Any]]]


def _pair(result: Any) -> tuple[Any, Any]:
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise TypeError(
            "expected function with aux output to return a two-element tuple, but got type "
            f"{type(result)} with value {result!r}"
        )
    return result[0], result[1]


class _Float0Kind:
    """The kind of the tangents of integers: NumPy arrays without content, which tensors of booleans stand for."""

    def wrap(self, tensor: Tensor) -> Any:
        """Return the NumPy array of this shape."""
        return float0_zeros(tensor.shape) if all(type(n) is int for n in tensor.shape) else _Float0(tensor)


_FLOAT0 = _Float0Kind()


def kind_of_type(aval: Any) -> Any:
    """Return the kind of arrays of this type: a weak-type flag, or what wraps their tensors."""
    if aval.dtype == dtypes.float0:
        return _FLOAT0
    return aval.dtype if isinstance(aval.dtype, dtypes.ExtendedDType) else aval.weak_type


class _Float0(Array):
    __slots__ = ()

    @staticmethod
    def of(values: np.ndarray) -> "_Float0":
        """Return what stands for an array without content."""
        return _Float0(torch.zeros(values.shape, dtype=torch.bool, device=default_torch_device()))

    @property
    def kind(self) -> Any:
        return _FLOAT0

    @property
    def dtype(self) -> Any:
        return dtypes.float0


def float0_zeros(shape: Sequence[int]) -> Any:
    """Return an array without content: one of NumPy's, which cannot have symbolic sizes, where that will do."""
    if all(type(n) is int for n in shape):
        return np.zeros(tuple(shape), dtypes.float0)
    return _Float0(torch.zeros(tuple(shape), dtype=torch.bool, device=default_torch_device()))


class TypeReturned(TypeError):
    """A function returned the type of an array in the place of one."""


def as_output(leaf: Any, function_name: str, result: Any = None) -> Array:
    """Return a leaf of a function's result as an array.

    Raises `TypeError` for what is none, `ValueError` for a reference, naming its place in the `result`.
    """
    if isinstance(leaf, np.ndarray) and leaf.dtype == dtypes.float0:
        return _Float0.of(leaf)
    if not is_arraylike(leaf):
        if isinstance(leaf, Ref):
            return as_result(leaf, function_name, result)
        if isinstance(leaf, ShapeDtypeStruct):
            raise TypeReturned(
                "A ShapeDtypeStruct does not have a value and cannot be used as a constant in a JAX function."
            )
        path = next((tree.keystr(path) for path, value in tree.leaves_with_path(result) if value is leaf), "")
        place = f" at output component {path}" if path else ""
        raise TypeError(
            f"function {function_name} returned a value of type {type(leaf)}{place}, which is not a valid JAX type. "
            f"Return arrays, scalars, or pytrees of them.{errors.way_from_torch(leaf)}"
        )
    return as_array(leaf)


def as_argument(leaf: Any, transformation: str) -> Array:
    """Return a leaf of a function's arguments as an array: for a reference, one that remembers it.

    Raises `TypeError` for what is none of these, `ValueError` for what would become an array by `__jax_array__`.
    """
    if isinstance(leaf, Array):
        return leaf
    if isinstance(leaf, Ref):
        return RefArgument.of(leaf)
    if isinstance(leaf, np.ndarray):
        return as_its_tensor(_numpy_argument(leaf))
    if hasattr(leaf, "__jax_array__"):
        raise ValueError(
            "Triggering __jax_array__() during abstractification is no longer supported. To avoid this error, either "
            "explicitly convert your object using jax.numpy.array(), or register your object as a pytree. Got one of type "
            f"{type(leaf).__name__}."
        )
    if not is_arraylike(leaf):
        if isinstance(leaf, ShapeDtypeStruct):
            raise TypeError(
                f"{transformation}: an argument of shape {leaf.dtype.name}{[*leaf.shape]} of type {type(leaf)} is not a valid "
                "JAX type: it has no values. jax.eval_shape and jit(f).lower take it."
            )
        raise TypeError(
            f"Cannot interpret value of type {type(leaf)} as an abstract array; it does not have a dtype attribute. "
            f"{transformation} takes arrays, scalars and pytrees of them; mark other arguments as static."
            f"{errors.way_from_torch(leaf)}"
        )
    return as_its_tensor(as_array(leaf))


def _numpy_argument(leaf: np.ndarray) -> Array:
    if leaf.dtype == dtypes.float0:
        return _Float0.of(leaf)
    try:
        return as_array(leaf)
    except TypeError as error:
        raise TypeError(f"Argument '{leaf}' of type {type(leaf)} is not a valid JAX type. {error}") from None


def described(function: Callable[..., Any]) -> str:
    """Return name and place of `function` for messages: `f at file.py:3`."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    name = name_of(function)
    return name if code is None else f"{name} at {code.co_filename}:{code.co_firstlineno}"


def name_of(function: Callable[..., Any]) -> str:
    """Return a name of `function` for messages."""
    while isinstance(function, functools.partial) and "__name__" not in vars(function):
        function = function.func
    name = getattr(function, "__name__", None)
    return name if isinstance(name, str) else type(function).__name__


def wraps(function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`functools.wraps` for callables of every kind: partials and instances have no `__name__`."""

    return lambda wrapper: dressed(wrapper, function)


def dressed(wrapper: Any, function: Callable[..., Any]) -> Any:
    """Give `wrapper` the name, documentation and attributes of `function`, and return it.

    What its class has stays the wrapper's own: a function that is an instance may have a `_call`, too.
    """
    for name in functools.WRAPPER_ASSIGNMENTS:
        with suppress(AttributeError, TypeError):  # an instance may have something else by this name
            setattr(wrapper, name, getattr(function, name))
    for name, value in getattr(function, "__dict__", {}).items():
        if name not in functools.WRAPPER_ASSIGNMENTS and not hasattr(type(wrapper), name):
            setattr(wrapper, name, value)
    if not isinstance(getattr(function, "__name__", None), str):
        wrapper.__name__ = name_of(function)
    wrapper.__wrapped__ = function
    return wrapper


def check_callable(function: Any) -> None:
    """Raise `TypeError` when `function` cannot be called."""
    if not callable(function):
        raise TypeError(f"Expected a callable value, got {function}")


def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """Return the signature of `function`, None where Python does not know it."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def argument_names(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], statics: frozenset[str] = frozenset()
) -> list[str]:
    """Return a name per array leaf of the arguments, for error messages."""
    try:
        arguments = inspect.signature(fun).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return []
    return [
        f"{name}{tree.keystr(path)}"
        for name, value in arguments.items()
        if name not in statics
        for path, _ in tree.leaves_with_path(value)
    ]


def positional_arguments(
    function: Callable[..., Any], signature: inspect.Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any],
    decorator: str,
) -> tuple[Any, ...]:  # fmt: skip
    """Return all arguments of a call by position, defaults filled in: the user's rules take no keywords."""
    if signature is None:
        if kwargs:
            raise TypeError(f"{name_of(function)} takes no keyword arguments: its signature is not known.")
        return args
    if not kwargs and len(args) == len(signature.parameters):
        return args
    try:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            named = ", ".join(bound.kwargs)
            raise TypeError(f"The following keyword arguments could not be resolved to positions: {named}")
    except TypeError as error:
        raise TypeError(
            f"The input arguments to the {decorator}-decorated function {name_of(function)} could not be resolved to "
            f"positional-only arguments. Binding failed with the error:\n{error}"
        ) from None
    return bound.args


def differentiable(x: Array) -> bool:
    """Tell whether an array has tangents of its own dtype (floating or complex)."""
    dtype = x.dtype
    return type(x) is not RefArgument and not isinstance(dtype, dtypes.ExtendedDType) and dtypes.is_inexact(dtype)


def unflatten_subset(spec: tree.Spec, fixed: Sequence[Any], chosen: Sequence[int], values: Sequence[Any]) -> Any:
    """Return the tree of `spec` with leaves `fixed`, those at the indices `chosen` replaced by `values`."""
    leaves = list(fixed)
    for index, value in zip(chosen, values, strict=True):
        leaves[index] = value
    return spec.unflatten(leaves)
