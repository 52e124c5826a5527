"""Array: an immutable handle on one torch tensor, plus a weak-type flag.

Shape, dtype and device are the tensor's; nothing is stored twice. This module holds the handle: what an array is,
prints as and converts to. Operators and methods that compute are added by `jaxish._numpy.array_methods`, since they
are jax.numpy functions. `tensor_of` is the one way from a handle to its tensor: it makes captured arrays inputs of
the trace that is active.
"""

import math
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from . import axes, config, dtypes, errors, foreign_arrays, functorch, graph, levels, narrow, transfers
from .accelerator import first_device, wait_for_xla
from .array_interface import ArrayInterface


class Array(ArrayInterface):
    """JAX's array type: immutable, with `.at[...]` for functional updates. Made by `jax.numpy` functions."""

    # `_sharding` is set where an array was placed by the program, and by nothing else.
    __slots__ = ("__weakref__", "_sharding", "_tensor", "_weak")
    __array_priority__ = 100
    __hash__ = None  # pyright: ignore

    _tensor: Tensor
    _weak: bool
    _sharding: Any

    def __init__(self, tensor: Tensor, weak: bool = False) -> None:
        self._tensor = tensor
        self._weak = weak

    if not TYPE_CHECKING:  # to whom it would mean that any attribute exists

        def __getattr__(self, name: str) -> Any:
            if name == "_tensor":  # the slot is empty: `delete` emptied it
                raise RuntimeError(
                    "Array has been deleted. It was donated to a jitted function, or .delete() was called."
                )
            if name == "sharding":  # where the property raises, Python asks here, and forgets its text
                raise AttributeError(
                    f"The 'sharding' attribute is not available on traced array with shape {type_text(self)}. To query "
                    "sharding information on tracers, use `jax.typeof(x)`."
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # -- what it is ----------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""
        return tuple(self._tensor.shape)

    @property
    def dtype(self) -> Any:
        """The NumPy dtype."""
        return dtypes.TO_NUMPY[self._tensor.dtype]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._tensor.dim()

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._tensor.numel()

    @property
    def weak_type(self) -> bool:
        """Whether the dtype gives way to that of another operand, as a Python scalar's does."""
        return self._weak

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.size * self.itemsize

    def __len__(self) -> int:
        if not self._tensor.dim():
            raise TypeError("len() of unsized object")
        return self._tensor.shape[0]

    # -- immutable -----------------------------------------------------------------------------------------------

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(
            "JAX arrays are immutable and do not support in-place item assignment. "
            "Instead of x[idx] = y, use x = x.at[idx].set(y)."
        )

    def __delitem__(self, index: Any) -> None:
        raise TypeError("JAX arrays are immutable and do not support item deletion.")

    def delete(self) -> None:
        """Free the memory; any later use raises `RuntimeError`."""
        if self.is_deleted():
            return
        if type(self) is Array:
            _CONTENT.__set__(self, (self._tensor.shape, self._tensor.dtype))
            self.__class__ = DeletedArray
        else:
            del self._tensor

    def is_deleted(self) -> bool:
        """Tell whether the array was deleted or donated."""
        try:
            object.__getattribute__(self, "_tensor")
        except AttributeError:
            return True
        return False

    # -- to Python and NumPy ---------------------------------------------------------------------------------------

    def _concrete(self, error: type[Exception], detail: str = "") -> Tensor:
        """Return the plain tensor with this array's values; raise `error` where they are not known."""
        tensor = self._tensor
        if functorch.is_functorch_wrapped_tensor(tensor) or isinstance(tensor, graph.FakeTensor):
            graph.check_alive(tensor)
            if levels.is_batched(tensor) or levels.is_fake(tensor):
                raise errors.tracer_error(error, type_text(self), detail, graph.origin(tensor))
            tensor = levels.base_of(tensor)
        if type(tensor) is not Tensor:
            tensor = _held_whole(tensor) if hasattr(tensor, "placements") else getattr(tensor, "plain", tensor)
        if transfers.watching and tensor.device.type != "cpu":
            transfers.check("device-to-host", type_text(self))
        return tensor.detach() if tensor.requires_grad else tensor

    def _undifferentiated(self, error: type[Exception], detail: str = "") -> Tensor:
        """Return what `_concrete` does, for what leaves the library; raise `error` where a derivative would be lost on the way."""
        tensor = self._tensor
        if functorch.is_functorch_wrapped_tensor(tensor) and levels.has_derivative(tensor):
            raise errors.tracer_error(error, type_text(self), detail)
        return self._concrete(error, detail)

    def _scalar(self, function: str, get: Any = _undifferentiated) -> Any:
        if self.ndim:
            raise TypeError(f"Only scalar arrays can be converted to Python scalars; got an array of ndim {self.ndim}.")
        return number_in(
            get(self, errors.ConcretizationTypeError, f"The problem arose with the `{function}` function.")
        )

    def __bool__(self) -> bool:
        count = self._tensor.numel()
        if count != 1 and isinstance(count, int):  # of a traced array, too, unless its size is a symbol
            what = "an empty array" if not count else "an array with more than one element"
            raise ValueError(f"The truth value of {what} is ambiguous. Use a.any() or a.all()")
        return bool(number_in(self._concrete(errors.TracerBoolConversionError)))

    def __int__(self) -> int:
        return int(self._scalar("int", Array._concrete))  # whose derivative is zero

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        tensor = self._tensor
        if tensor.dim() or tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
            raise TypeError("Only integer scalar arrays can be converted to a scalar index.")
        return int(number_in(self._concrete(errors.TracerIntegerConversionError)))

    def __hex__(self) -> str:
        return hex(self.__index__())

    def __oct__(self) -> str:
        return oct(self.__index__())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        values = to_numpy(self._undifferentiated(errors.TracerArrayConversionError))
        if dtype is not None and np.dtype(dtype) != values.dtype:
            if copy is False:
                raise ValueError(f"Cannot convert {values.dtype} to {np.dtype(dtype)} without a copy.")
            return values.astype(dtype)
        if copy:
            return values.copy()
        values = values.view()
        values.flags.writeable = False
        return values

    def __iter__(self) -> Iterator["Array"]:
        if not self._tensor.dim():
            raise TypeError("iteration over a 0-d array")
        rows = (Array(row, self._weak) for row in tensor_of(self).unbind(0))
        try:
            sharding = object.__getattribute__(self, "_sharding")
        except AttributeError:
            return rows
        return rows if graph.is_tracing() else map(sharding.of_a_row().given_to, rows)

    def __format__(self, format_spec: str) -> str:
        if is_abstract(self):
            return object.__format__(self, format_spec)
        return format(self._shown()[()], format_spec)

    def _shown(self) -> np.ndarray:
        return to_numpy(self._concrete(errors.TracerArrayConversionError))

    def __repr__(self) -> str:
        if (text := axes.text_per_device(self)) is not None:
            return text
        if is_abstract(self):
            return tracer_text(self)
        prefix, weak = "Array(", ", weak_type=True" if self._weak else ""
        dtype_text = f"dtype={self.dtype.name}{weak}"
        if not self.size:
            return f"{prefix}[], shape={self.shape}, {dtype_text})"
        text = np.array2string(self._shown(), prefix=prefix, suffix=",", separator=", ")
        # JAX counts the only line without its prefix, and sets a dtype that does not fit apart within the line: programs' output is compared.
        fits = len(text) - text.rfind("\n") + 1 + len(dtype_text) + 2 <= np.get_printoptions()["linewidth"]
        return f"{prefix}{text},{' ' if fits else ' ' * len(prefix)}{dtype_text})"

    def __str__(self) -> str:
        return axes.text_per_device(self) or (repr(self) if is_abstract(self) else str(self._shown()))

    def __reduce__(self) -> tuple[Any, ...]:
        detail = "The error occurred in the __reduce__ method, which pickles."
        return _unpickle, (to_numpy(self._undifferentiated(errors.ConcretizationTypeError, detail)), self._weak)

    def __copy__(self) -> "Array":
        return from_kind(self._tensor, self.kind)

    def __deepcopy__(self, memo: Any) -> "Array":
        return from_kind(self._tensor.clone(), self.kind)

    def item(self, *args: int) -> Any:
        """Return the only element, or the one at the given (flat or full) index, as a Python scalar."""
        tensor = self._concrete(errors.ConcretizationTypeError, "This occurred in the item() method of jax.Array.")
        return to_numpy(tensor).item(*args)

    def tolist(self) -> Any:
        """Return the elements as nested Python lists."""
        error = errors.ConcretizationTypeError
        tensor = self._undifferentiated(error, "This occurred in the tolist() method of jax.Array.")
        return to_numpy(tensor).tolist()

    def tobytes(self, order: str = "C") -> bytes:
        """Return the elements' bytes."""
        tensor = self._undifferentiated(
            errors.ConcretizationTypeError,
            f"The tobytes() method was called on traced array with shape {type_text(self)}.",
        )
        return to_numpy(tensor).tobytes(order)  # pyright: ignore

    # -- where it is and whether it is computed --------------------------------------------------------------------

    def block_until_ready(self) -> "Array":
        """Wait until the values are computed, and return the array."""
        tensor = self._tensor
        if tensor.device.type == "cuda":
            torch.cuda.synchronize(tensor.device)
        elif tensor.device.type == "xla":
            wait_for_xla()
        return self

    def is_ready(self) -> bool:
        """Tell whether the values are computed."""
        return self._tensor.device.type != "cuda" or torch.cuda.current_stream(self._tensor.device).query()

    @property
    def traceback(self) -> None:
        """None: where arrays are made is not recorded."""

    def copy_to_host_async(self) -> None:
        """Do nothing: the copy to the host is made when it is asked for."""

    def on_device_size_in_bytes(self) -> int:
        """Return the bytes that the elements take."""
        return self.nbytes

    def unsafe_buffer_pointer(self) -> int:
        """Return the address of the first element."""
        return self._concrete(errors.ConcretizationTypeError).data_ptr()

    def __dlpack__(self, **options: Any) -> Any:
        tensor = self._undifferentiated(errors.ConcretizationTypeError, "DLPack needs concrete values.")
        return tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[Any, int]:
        return self._tensor.__dlpack_device__()

    # -- to and from torch -----------------------------------------------------------------------------------------

    def to_torch(self) -> Tensor:
        """Return the torch tensor, without a copy and without gradient history: do not write into it.

        That of an array over the devices of several processes is a DTensor, which lies as the array's sharding says.
        A tracer gives the transformation's own tensor. Torch code that is to be differentiated is made a function of
        arrays by `jaxish.interop.from_torch_function`.
        """
        tensor = getattr(self._tensor, "plain", self._tensor)
        if tensor.dtype in narrow.OURS:
            raise TypeError(
                f"torch has no dtype for {self.dtype}: convert the array, for example by x.astype('bfloat16')."
            )
        if type(tensor) is narrow.Narrow:
            return narrow.unmarked(tensor)
        return without_sums(tensor) if type(tensor) is not Tensor and hasattr(tensor, "placements") else tensor

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Say the way, for a function of torch that was given an array."""
        raise TypeError(
            f"torch's {getattr(func, '__name__', func)} was given a JAX array; array.to_torch() is its tensor, without a "
            "copy, and jaxish.interop.from_torch_function makes torch code a function of arrays."
        )

    @property
    def kind(self) -> Any:
        """What `from_kind` needs besides the tensor to make a handle like this one."""
        return self._weak


_CONTENT: Any = Array.__dict__["_tensor"]


class DeletedArray(Array):
    """What an array becomes when it is deleted: only its type is left. A class of its own, so that others need not look."""

    __slots__ = ()

    @property
    def _tensor(self) -> Tensor:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise RuntimeError(
            f"Array has been deleted with shape={type_text(self)}. It was donated to a jitted function, or .delete() was called."
        )

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(_CONTENT.__get__(self)[0])

    @property
    def dtype(self) -> Any:
        return dtypes.TO_NUMPY[_CONTENT.__get__(self)[1]]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __len__(self) -> int:
        return self.shape[0] if self.shape else super().__len__()

    def is_deleted(self) -> bool:
        return True


def number_in(tensor: Tensor) -> Any:
    """Return the only element of a plain tensor as a Python number, inside a trace too."""
    if graph.tracing:
        with graph.suspended():
            return tensor.item()
    return tensor.item()


def without_sums(tensor: Any) -> Any:
    """Return a tensor over several processes (a DTensor) whose sums over them are made."""
    if not any(p.is_partial() for p in tensor.placements):
        return tensor
    from torch.distributed.tensor import Replicate

    return tensor.redistribute(tensor.device_mesh, [Replicate() if p.is_partial() else p for p in tensor.placements])


def _held_whole(tensor: Any) -> Tensor:
    """Return the values of a tensor over several processes (a DTensor), of which each must hold all or a summand."""
    if any(p.is_shard() for p in tensor.placements):
        raise RuntimeError(
            "Fetching value for `jax.Array` that spans non-addressable (non process local) devices is not possible: this "
            "process has a part of it, see `x.addressable_shards`. Lay it over the devices with PartitionSpec() for a "
            "whole copy in each process."
        )
    return tensor.full_tensor()


def from_kind(tensor: Tensor, kind: Any) -> Array:
    """Return the handle of this kind on `tensor`: kind is a weak-type flag, or an object with `wrap` (random keys)."""
    return Array(tensor, kind) if kind is False or kind is True else kind.wrap(tensor)


def tensor_of(x: Array) -> Tensor:
    """Return the tensor of `x` as the active trace sees it."""
    return graph.lift(x._tensor) if graph.tracing else x._tensor


def is_abstract(x: Array) -> bool:
    """Tell whether the values of `x` are unknown: it is being traced, or stands for a batch of values."""
    return levels.is_batched(x._tensor) or levels.is_fake(x._tensor)


def is_tracer(x: Any) -> bool:
    """Tell whether `x` belongs to a transformation that is going on."""
    return isinstance(x, Array) and levels.is_tracer(x._tensor)


def type_text(x: Any, shape: tuple[int, ...] | None = None) -> str:
    """Return dtype and shape (another one, where given) as JAX writes them: `float32[2,3]`."""
    name = "float0" if x.dtype == dtypes.float0 else x.dtype.name
    return f"{name}[{','.join(map(str, x.shape if shape is None else shape))}]"


def tracer_text(x: Any) -> str:
    """Return what an abstract array prints, as in JAX: its type, and under vmap that of the whole batch.

    Levels that differentiate are left out.
    """
    tensor, mark = x._tensor, "~" if x.weak_type else ""
    while functorch.is_gradtrackingtensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    own = mark + type_text(x)
    if not functorch.is_batchedtensor(tensor):
        return f"JitTracer({own})"
    values, dim = functorch.unwrap_batched(tensor, functorch.maybe_get_level(tensor))
    batch = (*x.shape[:dim], values.shape[dim], *x.shape[dim:])
    return f"VmapTracer(aval={own}, batched={mark}{type_text(x, batch)})"


def to_numpy(tensor: Tensor) -> np.ndarray:
    """Return the values of a plain tensor as a NumPy array that shares memory where the tensor is on the CPU."""
    if graph.tracing or functorch.peek_interpreter_stack() is not None:
        with graph.suspended():  # under a functorch level, results of plain tensors are wrapped too
            return _to_numpy(tensor)
    return _to_numpy(tensor)


def _to_numpy(tensor: Tensor) -> np.ndarray:
    tensor = tensor.cpu().resolve_conj().resolve_neg()
    if tensor._is_zerotensor():  # torch's stand-in for a derivative that is zero has no memory
        tensor = torch.zeros(tensor.shape, dtype=tensor.dtype, device="cpu")
    dtype = dtypes.TO_NUMPY[tensor.dtype]
    if dtype.type.__module__ != "ml_dtypes":
        return tensor.numpy()
    if dtype in dtypes.SMALL_INTEGERS:
        return narrow.widened(tensor).numpy().astype(dtype)
    bits = torch.int16 if dtype.itemsize == 2 else torch.uint8
    return tensor.contiguous().view(bits).numpy().view(dtype)


def from_numpy(values: np.ndarray | np.generic, device: torch.device | None = None) -> Tensor:
    """Return a tensor with a copy of NumPy values of a canonical dtype: a real one, inside a trace too."""
    if graph.tracing:
        with graph.outside_traces():
            return _from_numpy(values, device)
    return _from_numpy(values, device)


def _from_numpy(values: np.ndarray | np.generic, device: torch.device | None) -> Tensor:
    device = device or default_torch_device()
    if type(values) is np.ndarray and values.dtype in _AS_THEY_ARE:
        tensor = torch.from_numpy(values.copy())
        return tensor if device.type == "cpu" else tensor.to(device)
    values = np.array(values, dtype=values.dtype.newbyteorder("="), order="C", copy=True)
    target = dtypes.to_torch(values.dtype)
    if values.dtype.type.__module__ == "ml_dtypes":
        if values.dtype in dtypes.SMALL_INTEGERS:
            values = values.astype(np.int8)
        bits = torch.from_numpy(values.view(np.int16 if values.dtype.itemsize == 2 else np.uint8))
        return narrow.marked(bits.to(device).view(target))
    tensor = torch.from_numpy(values)
    return tensor if device.type == "cpu" else tensor.to(device)


def _unpickle(values: np.ndarray, weak: bool) -> Array:
    with np.errstate(over="ignore"):
        return Array(from_numpy(values.astype(dtypes.canonicalize_dtype(values.dtype), copy=False)), weak)


def default_torch_device() -> torch.device:
    """Return the torch device on which new arrays are made. Raises `ValueError` where the option names none."""
    chosen = config.default_device.value
    if chosen is None:
        return first_device()
    found = _OF_PLATFORM.get(chosen) if isinstance(chosen, str) else getattr(chosen, "torch_device", None)
    if found is None:
        raise ValueError(
            "jax.default_device must be passed either a Device object (e.g. `jax.devices('cpu')[0]`) or a platform name "
            f"string like 'cpu' or 'gpu', got: {chosen!r}"
        )
    return found


_OF_PLATFORM = {
    "cpu": torch.device("cpu"),
    "gpu": torch.device("cuda", 0),
    "cuda": torch.device("cuda", 0),
    "tpu": torch.device("xla", 0),
}


def is_weak(x: Any) -> bool:
    """Tell whether `x` is weakly typed: arrays by their flag, Python numbers always."""
    if isinstance(x, Array):
        return x._weak
    of_python = isinstance(x, int | float | complex) and not isinstance(x, bool | np.generic)
    return of_python or bool(getattr(x, "weak_type", False))


def device_of(*values: Any) -> torch.device:
    """Return where what is made of `values` lies: on the device of the first array among them, else on the default one."""
    for value in values:
        if isinstance(value, Array):
            return value._tensor.device
    return default_torch_device()


_SCALARS = (bool, int, float, complex)
_AS_THEY_ARE = frozenset(map(np.dtype, ("?", "i1", "i2", "i4", "u1", "f4", "c8")))  # dtypes that no option narrows
SYMBOLS = (torch.SymInt, torch.SymFloat)  # sizes, and formulas of them, in a trace for all sizes
_ARRAYLIKE = (Array, np.ndarray, np.generic, *_SCALARS, *SYMBOLS)


def is_arraylike(x: Any) -> bool:
    """Tell whether `x` is an array, a scalar, or something that says it is one (`__jax_array__`, a registered class)."""
    return isinstance(x, _ARRAYLIKE) or hasattr(x, "__jax_array__") or _is_registered(x)


def _is_registered(x: Any) -> bool:
    return foreign_arrays.found(foreign_arrays.plain_values, x) is not None


def check_arraylike(function: str, *args: Any) -> None:
    """Raise `TypeError` naming `function` and the position of the first argument that is no array or scalar."""
    for position, x in enumerate(args):
        if not is_arraylike(x):
            is_sequence = isinstance(x, list | tuple)
            hint = " Use jnp.asarray to make an array of a sequence." if is_sequence else errors.way_from_torch(x)
            raise TypeError(
                f"{function} requires ndarray or scalar arguments, got {type(x)} at position {position}.{hint}"
            )


def warn_arraylike(function: str, x: Any) -> None:
    """Warn, as JAX does, of a list in the place of an array, for functions that will refuse it."""
    if not is_arraylike(x):
        warnings.warn(
            f"{function} requires ndarray or scalar arguments, got {type(x)} at position 0. In a future JAX release "
            "this will be an error.",
            DeprecationWarning,
            stacklevel=3,
        )


def as_array(x: Any, device: torch.device | None = None) -> Array:
    """Return `x` (an array, Python scalar, NumPy value, object with `__jax_array__` or of a registered class) as an Array.

    Python scalars become weakly typed; 64-bit values are narrowed unless `jax_enable_x64` is set. What is no array yet
    is put on `device`, by default on the default device.
    Raises `TypeError` for anything else.
    """
    if isinstance(x, Array):
        return x
    if type(x) is np.ndarray and x.dtype in _AS_THEY_ARE and not transfers.watching:
        return Array(from_numpy(x, device))
    if isinstance(x, _SCALARS) and not isinstance(x, np.generic):
        return number(x if type(x) in _SCALARS else _plain_scalar(x), device)
    if transfers.watching:
        transfers.check("host-to-device", type(x).__name__)
    if isinstance(x, np.ndarray | np.generic):
        if isinstance(x, np.ma.MaskedArray):
            raise ValueError(
                "numpy masked arrays are not supported as direct inputs to JAX functions. Use arr.filled() to convert "
                "the value to a standard numpy array."
            )
        dtype = dtypes.canonicalize_dtype(x.dtype)
        if graph.tracing and isinstance(x, np.generic) and dtype.kind in "bif":  # a number of the graph's, not an input
            return Array(scalar_tensor(x.astype(dtype).item(), dtypes.to_torch(dtype), device))
        if dtype == x.dtype:
            return Array(from_numpy(x, device))
        with np.errstate(over="ignore"):
            return Array(from_numpy(x.astype(dtype), device))
    if hasattr(x, "__jax_array__"):
        return as_array(x.__jax_array__(), device)
    if isinstance(x, SYMBOLS):
        return Array(scalar_tensor(x, dtypes.to_torch(dtypes.lattice_type(x)[0]), device), True)
    if plain := foreign_arrays.found(foreign_arrays.plain_values, x):
        return as_array(plain(x), device)
    raise TypeError(f"Value {x!r} with type {type(x)} is not a valid JAX type.{errors.way_from_torch(x)}")


def number(x: Any, device: torch.device | None = None) -> Array:
    """Return a bool, int, float or complex of Python's as an Array, as `as_array` does. Jitted functions are given many."""
    if transfers.watching:
        transfers.check("host-to-device", type(x).__name__)
    dtype, weak = dtypes.lattice_type(x)
    make: Any = scalar_tensor if graph.tracing else _number  # in a graph it is what others are filled with
    return Array(make(x, dtypes.TO_TORCH[dtype], device or default_torch_device()), weak)


def _number(value: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.scalar_tensor(value, dtype=dtype, device=device)  # half of the time of torch.full


def _plain_scalar(x: Any) -> Any:
    kind: Any = next(kind for kind in _SCALARS if isinstance(x, kind))
    return kind(x)  # IntEnum, numpy-free subclasses


def scalar_tensor(value: Any, dtype: torch.dtype, device: torch.device | None = None) -> Tensor:
    """Return a 0-d tensor, by default on the default device; under a trace it is an operator of the graph, not a captured value."""
    if dtype in (torch.uint64, torch.uint32) and value < 0:
        value += 1 << dtype.itemsize * 8
    return narrow.full((), value, dtype, device or default_torch_device())
