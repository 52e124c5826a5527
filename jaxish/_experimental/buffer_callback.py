"""buffer_callback: a host callback that writes its results into memory that it is given."""

import enum
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import dtypes, errors, graph, tree
from .._core.array import Array, as_array, tensor_of, to_numpy, type_text
from .._core.graph import TensorType
from .._core.primitive import Dims
from .._transforms.callbacks import VMAP_METHODS, IOCallback, PureCallback, result_types
from .._transforms.flat import check_callable, name_of

_log = logging.getLogger("jax._src.callback")  # JAX's name: programs filter what it logs by it


class Buffer:
    """The memory of an array: of an argument, which is not to be written, or of a result, which is to be filled."""

    def __init__(self, tensor: Tensor, writeable: bool) -> None:
        self._tensor, self.writeable = tensor, writeable

    shape = property(lambda self: tuple(self._tensor.shape), doc="The array's shape.")
    ndim = property(lambda self: self._tensor.dim(), doc="The number of dimensions.")
    dtype = property(lambda self: dtypes.TO_NUMPY[self._tensor.dtype], doc="The NumPy dtype.")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self._tensor.device.type != "cpu":
            raise ValueError("this buffer is on a GPU; take it by DLPack (torch.from_dlpack).")
        values = to_numpy(self._tensor).view()
        values.flags.writeable = self.writeable
        return np.array(values, dtype=dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[Any, int]:
        return self._tensor.__dlpack_device__()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self._tensor.device.type == "cpu":
            raise AttributeError("__cuda_array_interface__ is only defined for GPU buffers.")
        return self._tensor.__cuda_array_interface__  # pyright: ignore[reportReturnType]


class ExecutionStage(enum.Enum):
    """When a callback is called: here always to execute."""

    INSTANTIATE = 0
    PREPARE = 1
    INITIALIZE = 2
    EXECUTE = 3


class ExecutionContext:
    """Where and when a callback is called."""

    stage = ExecutionStage.EXECUTE

    @property
    def stream(self) -> int:
        """The address of the GPU's stream. Raises `JaxRuntimeError` on a CPU."""
        if not torch.cuda.is_available():
            raise errors.JaxRuntimeError("UNIMPLEMENTED: there is no stream on a CPU.")
        return torch.cuda.current_stream().cuda_stream


@dataclass(frozen=True, eq=False)
class _Filling:
    """A call of the user's function on flat tensors, for results of these types; `aliases` are pairs of input and result."""

    callback: Callable[..., Any]
    spec: tree.Spec
    out_spec: tree.Spec
    types: Sequence[TensorType]
    aliases: Sequence[tuple[int, int]]

    def __call__(self, *tensors: Tensor) -> list[Tensor]:
        results = [torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in self.types]
        for source, target in self.aliases:
            results[target].copy_(tensors[source])
        given = [Buffer(t.detach().contiguous(), writeable=False) for t in tensors]
        args, kwargs = self.spec.unflatten(given)
        out = self.out_spec.unflatten([Buffer(r, writeable=True) for r in results])
        try:
            with graph.suspended(), torch.no_grad():
                if self.callback(ExecutionContext(), out, *args, **kwargs) is not None:
                    raise ValueError("buffer_callback callback must not return any values.")
        except Exception as error:
            _log.exception("jax.buffer_callback failed")
            raise errors.JaxRuntimeError(
                f"Error when calling buffer callback: {name_of(self.callback)} raised {type(error).__name__}: {error}"
            ) from error
        return results


class BufferCallback(PureCallback):
    """Results that a host function writes; batches that it is given at once have results of a batch."""

    __name__ = "buffer_callback"
    kind = "Buffer callbacks"

    def __init__(
        self, name: str, function: Callable[..., list[Tensor]], types: Sequence[TensorType], method: str | None
    ) -> None:
        filled = replace(function, types=tuple(types)) if isinstance(function, _Filling) else function
        super().__init__(name, filled, types, method)

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        if self.method is None:
            raise NotImplementedError(
                "vmap is only supported for the buffer_callback primitive when vmap_method is one of 'sequential', "
                "'sequential_unrolled', 'expand_dims', 'broadcast_all', or 'legacy_vectorized'."
            )
        return super().vmap(size, dims, *inputs)


class EffectfulBufferCallback(BufferCallback, IOCallback):
    """One that is called although nothing uses its results."""

    __name__ = "buffer_callback"
    kind = BufferCallback.kind


def buffer_callback(
    callback: Callable[..., None],
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    command_buffer_compatible: bool = False,
) -> Callable[..., Any]:
    """Return a function of arrays, computed by `callback(context, out, *args, **kwargs)`, which fills the buffers `out`.

    `out` is the pytree `result_shape_dtypes` (of what has `shape` and `dtype`) of `Buffer`s, as are the arguments, which may
    not be written. `vmap_method` is that of `pure_callback`; `input_output_aliases` says which flat results begin as a copy
    of which flat argument. With `has_side_effect` it is called although nothing uses the results. The function raises
    `ValueError` for aliases of other types and when differentiated, `JaxRuntimeError` when the callback raises or returns
    something. `command_buffer_compatible` has no effect on a CPU, as in JAX; on a GPU it raises `NotImplementedError`.
    """
    check_callable(callback)
    leaves, out_spec = tree.flatten(result_shape_dtypes)
    method = vmap_method if vmap_method in VMAP_METHODS else None
    kind = EffectfulBufferCallback if has_side_effect else BufferCallback

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        flat, spec = tree.flatten((args, kwargs))
        arrays, types = [as_array(leaf) for leaf in flat], result_types(leaves)
        if command_buffer_compatible and types and types[0].device.type != "cpu":
            raise NotImplementedError(
                "buffer_callback(command_buffer_compatible=True) is not supported on GPUs; leave it out."
            )
        aliases = _checked_aliases(input_output_aliases or {}, arrays, leaves)
        call = kind(name_of(callback), _Filling(callback, spec, out_spec, types, aliases), types, method)
        return out_spec.unflatten(map(Array, call(*map(tensor_of, arrays))))

    return wrapped


def _checked_aliases(given: Mapping[int, int], arrays: Sequence[Array], leaves: Sequence[Any]) -> list[tuple[int, int]]:
    for source, target in given.items():
        said = f"input_output_aliases contains the mapping '{source}:{target}'"
        for index, what, count in ((source, "input", len(arrays)), (target, "output", len(leaves))):
            if not 0 <= index < count:
                raise ValueError(f"{said} with {what} index {index} outside the range [0, {count}).")
        array, leaf = arrays[source], leaves[target]
        if (array.shape, array.dtype) != (tuple(leaf.shape), np.dtype(leaf.dtype)):
            raise ValueError(
                f"{said} referring to an input of type {type_text(array)} and an output of another type, "
                f"{np.dtype(leaf.dtype)}{[*leaf.shape]}."
            )
    return sorted(given.items())
