"""What libraries ask of the transformations that are going on, and of types under them: the rest of `jax.extend.core`."""

import contextlib
import functools
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import torch

from .._core import axes, dtypes, errors, functorch, graph
from .._core.array import Array, as_array, is_abstract, type_text
from .._core.avals import AbstractValue, ShapedArray
from .._core.dimensions import SymbolicSize
from .._core.levels import is_perturbed
from .._core.symbolic_sizes import larger, smaller
from .primitive import Primitive

ParamDict = dict[str, Any]
Value = Any  # what a variable of a jaxpr may stand for
OutputType = tuple[AbstractValue, ...]
no_axis_name = object()  # the name of the axis of a vmap that has none
array_types = {Array, np.ndarray, np.bool_} | {
    getattr(np, name) for name in (
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
        "complex64", "complex128",
    )
} | {ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2}  # fmt: skip
literalable_types = array_types | {bool, int, float, complex} - {Array}  # what a jaxpr may hold as a literal


class Effect:
    """Base class of what an equation does besides computing its results."""


class AbstractToken(AbstractValue):
    """The type of tokens, which order effects."""

    def str_short(self, short_dtypes: bool = False) -> str:
        """Return "Tok"."""
        return "Tok"


abstract_token = AbstractToken()


@dataclass(frozen=True)
class Token:
    """A value that orders effects, made of an array."""

    buf: Any

    def block_until_ready(self) -> None:
        """Wait until what the token stands for is done."""
        as_array(self.buf).block_until_ready()


class TraceTag:
    """Tells traces of one transformation from those of another."""


class CallPrimitive(Primitive):
    """A primitive that calls a function: `bind(*args, subfuns=(function,))`."""

    multiple_results = True
    call_primitive = True

    def bind(self, *args: Any, **params: Any) -> Any:
        """Return the function's results."""
        (fun,) = params.pop("subfuns")
        return call_impl(fun, *map(as_array, args), **params)


call = CallPrimitive("call").bind


def call_impl(f: Any, *args: Any, **params: Any) -> Any:
    """Return `f(*args)` for a wrapped function; `params` are of the primitive that calls it."""
    return f.call_wrapped(*args)


# ---------------------------------------------------------------------------------------------------- transformations


@dataclass(frozen=True)
class OpaqueTraceState:
    """Which transformations are going on: equal where these are the same."""

    trace: int
    levels: tuple[Any, ...]


def get_opaque_trace_state(convention: Any = None) -> OpaqueTraceState:
    """Return what tells code under these transformations from code under others."""
    levels = tuple((level.level(), str(level.key())) for level in functorch.get_interpreter_stack() or ())
    return OpaqueTraceState(id(graph.current_trace()), levels)


def trace_state_clean() -> bool:
    """Tell whether no transformation and no trace is going on, so that values may be kept for later."""
    return graph.current_trace() is None and not functorch.get_interpreter_stack()


@dataclass(frozen=True)
class LevelTrace:
    """A level that batches or differentiates, as a trace; level 0 is where arrays are computed."""

    level: int

    @property
    def main(self) -> "LevelTrace":
        """The trace itself: equal for all values of the level."""
        return self


_level_trace = functools.cache(LevelTrace)  # programs tell them apart by identity


def trace_of(x: Array) -> Any:
    """Return the innermost trace or level that an array belongs to."""
    tensor = x._tensor
    if functorch.is_functorch_wrapped_tensor(tensor):
        return _level_trace(functorch.maybe_get_level(tensor))
    return next((t for t in graph.active_traces() if t.made(tensor)), _level_trace(0))


def find_top_trace(_: Any) -> Any:
    """Return the innermost trace or level that one of some values belongs to."""
    stack = graph.active_traces()  # outermost last
    found = [trace_of(x) for x in _ if isinstance(x, Array)]
    levels = [t for t in found if isinstance(t, LevelTrace)]
    top = max(levels, key=lambda t: t.level, default=_level_trace(0))
    return top if top.level else min((t for t in found if t in stack), key=stack.index, default=top)


def _is_forward(number: int) -> bool:
    """Tell whether the level of this number is one of forward mode."""
    levels = functorch.get_interpreter_stack() or ()
    return any(v.level() == number and v.key() == functorch.TransformType.Jvp for v in levels)


class _JVPTraceMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, LevelTrace) and _is_forward(instance.level)


class JVPTrace(metaclass=_JVPTraceMeta):
    """What the traces of arrays with tangents are in forward mode: `isinstance(x._trace, JVPTrace)`. Never instantiated."""


class _JVPTracerMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        tensor = instance._tensor if isinstance(instance, Array) else None
        if tensor is None or not functorch.is_functorch_wrapped_tensor(tensor):
            return False
        innermost = functorch.maybe_get_level(tensor)
        return _is_forward(innermost) and is_perturbed(tensor, innermost)


class JVPTracer(Array, metaclass=_JVPTracerMeta):
    """What arrays with tangents are in forward mode: `isinstance(x, JVPTracer)`. Never instantiated."""

    __slots__ = ()


Array._trace = property(trace_of)  # pyright: ignore[reportAttributeAccessIssue]


@dataclass(frozen=True)
class AxisEnv:
    """The axis names that are bound, and their sizes."""

    axis_sizes: dict[Any, int]

    def axis_size(self, axis_name: Any) -> int:
        """Return the size of an axis. `NameError` where it is not bound."""
        if axis_name not in self.axis_sizes:
            raise NameError(f"unbound axis name: {axis_name}")
        return self.axis_sizes[axis_name]

    def axis_exists(self, axis_name: Any) -> bool:
        """Tell whether an axis is bound."""
        return axis_name in self.axis_sizes

    def axis_names(self) -> tuple[Any, ...]:
        """Return the names."""
        return tuple(self.axis_sizes)


class TracingContext:
    """What is going on, for those who only look."""

    @property
    def trace(self) -> Any:
        """The trace that records operations; that of computing where none does."""
        return graph.current_trace() or _level_trace(0)

    @property
    def axis_env(self) -> AxisEnv:
        """The axis names that are bound."""
        return AxisEnv({name: size for name, size, *_ in axes.environment() if name is not None})

    def is_top_level(self) -> bool:
        """Tell whether nothing is traced or transformed, and no axis bound."""
        return trace_state_clean() and not axes.environment()


trace_ctx = TracingContext()


@contextlib.contextmanager
def take_current_trace() -> Iterator[Any]:
    """Within this context manager no transformation is going on; it gives the trace that was."""
    trace = graph.current_trace()
    with graph.suspended():
        yield trace


def set_current_trace(trace: Any, check_leaks: bool = False) -> contextlib.AbstractContextManager[None]:
    """Return a context manager within which `trace` (None: nothing) records operations."""
    return graph.recording_in(trace)


@contextlib.contextmanager
def eval_context() -> Iterator[None]:
    """Within this context manager operations on concrete arrays are computed."""
    with graph.suspended():
        yield


def nonempty_axis_env_DO_NOT_USE() -> bool:
    """Tell whether axis names are bound."""
    return bool(axes.environment())


def unsafe_get_axis_names_DO_NOT_USE() -> list[Any]:
    """Return the axis names that are bound."""
    return [name for name, *_ in axes.environment()]


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:
    """Tell whether operations are being recorded."""
    return graph.is_tracing()


def unsafe_am_i_under_a_vmap_DO_NOT_USE() -> bool:
    """Tell whether a function is being mapped."""
    levels = functorch.get_interpreter_stack() or ()
    return any(level.key() == functorch.TransformType.Vmap for level in levels)


# -------------------------------------------------------------------------------------------------------------- types


def valid_jaxtype(x: Any) -> bool:
    """Tell whether `x` is an array or can be made one."""
    try:
        as_array(x)
    except (TypeError, ValueError):
        return False
    return True


def concretization_function_error(fun: Callable[..., Any], suggest_astype: bool = False) -> Callable[..., Any]:
    """Return the method that raises where `fun`, as `bool` or `int`, is asked of a traced value: `method(_, value)`."""
    kind = errors.ConcretizationTypeError
    if fun is bool:
        kind = errors.TracerBoolConversionError
    elif fun in (hex, oct, operator.index):
        kind = errors.TracerIntegerConversionError
    name = getattr(fun, "__name__", fun)
    way_out = f" To convert the dtype use `x.astype({name})` or `jnp.array(x, {name})`." if suggest_astype else ""

    def error(self: Any, arg: Any) -> Any:
        raise errors.tracer_error(
            kind, type_text(arg), f"It was given to `{name}`.{way_out}", graph.origin(arg._tensor)
        )

    return error


def concrete_or_error(force: Callable[[Any], Any] | None, val: Any, context: str = "") -> Any:
    """Return `force(val)` (None: `val`). `ConcretizationTypeError`, saying `context`, for a traced value."""
    if isinstance(val, Array) and is_abstract(val):
        origin = graph.origin(val._tensor)
        raise errors.tracer_error(errors.ConcretizationTypeError, type_text(val), context, origin)
    return val if force is None else force(val)


def is_concrete(x: Any) -> bool:
    """Tell whether the values of `x` are known: it is not None, and not traced or mapped."""
    return x is not None and not (isinstance(x, Array) and is_abstract(x))


def is_constant_dim(d: Any) -> bool:
    """Tell whether a size of a shape is a number, not a formula and not traced."""
    if not is_concrete(d):
        return False
    try:
        operator.index(d)
    except Exception:  # formulas of sizes raise errors of their own
        return False
    return True


def is_constant_shape(s: Iterable[Any]) -> bool:
    """Tell whether all sizes of a shape are numbers."""
    return all(map(is_constant_dim, s))


def mapped_aval(size: int, axis: int | None, aval: AbstractValue) -> AbstractValue:
    """Return the type of a slice of `aval` along `axis` (None: the same)."""
    if type(aval) not in aval_mapping_handlers:
        raise TypeError(f"no mapping handler for {aval} of type {type(aval)}")
    return aval_mapping_handlers[type(aval)][0](size, axis, aval)


def _mapped_array(size: int, axis: int | None, aval: ShapedArray) -> AbstractValue:
    if axis is None:
        return aval
    if aval.shape[axis] != size:
        raise ValueError(f"axis {axis} of {aval} has size {aval.shape[axis]}, not {size}")
    axis %= aval.ndim
    return aval.update(shape=(*aval.shape[:axis], *aval.shape[axis + 1 :]))


def unmapped_aval(size: int, axis: int | None, aval: AbstractValue, explicit_mesh_axis: Any = None) -> AbstractValue:
    """Return the type of `size` arrays of type `aval` along a new `axis` (None: the same)."""
    if type(aval) not in aval_mapping_handlers:
        raise TypeError(f"no unmapping handler for {aval} of type {type(aval)}")
    return aval_mapping_handlers[type(aval)][1](size, axis, explicit_mesh_axis, aval)


def _unmapped_array(size: int, axis: int | None, explicit_mesh_axis: Any, aval: ShapedArray) -> AbstractValue:
    if axis is None:
        return aval
    axis %= aval.ndim + 1
    return aval.update(shape=(*aval.shape[:axis], size, *aval.shape[axis:]))


# For each class of types what gives the type of a slice, and of several values along a new axis.
aval_mapping_handlers: dict[type, tuple[Callable[..., AbstractValue], Callable[..., AbstractValue]]] = {
    ShapedArray: (_mapped_array, _unmapped_array),
    AbstractToken: (lambda size, axis, aval: aval, lambda size, axis, explicit_mesh_axis, aval: aval),
}


def primal_dtype_to_tangent_dtype(primal_dtype: Any) -> Any:
    """Return the dtype of tangents: the same, `float0` for integers and booleans."""
    if isinstance(primal_dtype, dtypes.ExtendedDType):
        return np.dtype(dtypes.float0)
    return np.dtype(ShapedArray((), primal_dtype).to_tangent_aval().dtype)


def max_dim(d1: Any, d2: Any) -> Any:
    """Return the greater of two sizes, a formula where that depends on symbolic ones."""
    return _extremum("max", max, d1, d2)


def min_dim(d1: Any, d2: Any) -> Any:
    """Return the smaller of two sizes, a formula where that depends on symbolic ones."""
    return _extremum("min", min, d1, d2)


def _extremum(name: str, of_numbers: Callable[[int, int], int], d1: Any, d2: Any) -> Any:
    if torch.SymInt in (type(d1), type(d2)):
        return (larger if name == "max" else smaller)(d1, d2)
    symbolic = next((d for d in (d1, d2) if isinstance(d, SymbolicSize)), None)
    return of_numbers(d1, d2) if symbolic is None else symbolic.extremum(name, d1, d2)
