"""Host callbacks: Python functions called from within transformed and compiled code.

`PureCallback` computes results from values, so that it may be left out, repeated or batched. `Effect` is called for
what it does (printing, debugging): it has no results, a trace keeps it although nothing uses it, and no
transformation changes how often it is called. A graph with effects runs operator by operator.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._backends import structured
from .._core import dtypes, errors, functorch, graph, tree
from .._core.array import Array, as_array, from_kind, is_arraylike, tensor_of
from .._core.graph import TensorType
from .._core.primitive import Dims, Primitive, batch_front
from .flat import check_callable, name_of

VMAP_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized", None)
_serial = itertools.count()


class _HostFunction:
    """A callback on flat tensors: the arguments that are no arrays put back, the rest made arrays again."""

    def __init__(
        self, callback: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], static: bool
    ) -> None:
        check_callable(callback)
        leaves, self.spec = tree.flatten((args, kwargs))
        self.callback = callback
        self.name = name_of(callback)
        self.places = [i for i, leaf in enumerate(leaves) if not static or is_arraylike(leaf)]
        self.arrays = [as_array(leaves[i]) for i in self.places]
        self.fixed = [None if i in self.places else leaf for i, leaf in enumerate(leaves)]

    def __call__(self, *tensors: Tensor) -> Any:
        leaves = list(self.fixed)
        for place, tensor, array in zip(self.places, tensors, self.arrays, strict=True):
            leaves[place] = from_kind(tensor, array.kind)
        args, kwargs = self.spec.unflatten(leaves)
        with graph.suspended(), torch.no_grad():
            return self.callback(*args, **kwargs)

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors of the array arguments, as the active trace sees them."""
        return [tensor_of(a) for a in self.arrays]


# -------------------------------------------------------------------------------------------------------------- values


class PureCallback(Primitive):
    """Results that a host function computes; `method` says what it can do with a batch."""

    __name__ = "pure_callback"

    def __init__(self, function: Callable[..., list[Tensor]], types: Sequence[TensorType], method: str | None) -> None:
        self.function, self.types, self.method = function, tuple(types), method
        self.serial = next(_serial)

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return self.types

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return self.function(*inputs)

    def lower(self, *inputs: Tensor) -> list[Tensor]:
        return structured.call(self, self.identity(), inputs)

    def identity(self) -> str:
        return f"{self.__name__}{self.serial}"

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        if self.method is None:
            raise NotImplementedError(
                "vmap is only supported for the pure_callback primitive when vmap_method is one of 'sequential', "
                "'sequential_unrolled', 'expand_dims', 'broadcast_all', or 'legacy_vectorized'."
            )
        types = [TensorType((size, *t.shape), t.dtype, t.device) for t in self.types]
        front = [t if d is None else t.movedim(d, 0) for t, d in zip(inputs, dims, strict=True)]
        if self.method == "expand_dims":
            front = [t.unsqueeze(0) if d is None else t for t, d in zip(front, dims, strict=True)]
        elif self.method == "broadcast_all":
            front = [batch_front(t, None if d is None else 0, size) for t, d in zip(front, dims, strict=True)]
        function = self.function
        if self.method.startswith("sequential"):
            function = _per_lane(function, [d is not None for d in dims], size)
        return PureCallback(function, types, self.method)(*front), [0] * len(types)

    def jvp(self, primals: Any, tangents: Any) -> list[Tensor | None]:
        raise ValueError(_NO_DERIVATIVE)

    def vjp(self, primals: Any, results: Any, cotangents: Any) -> Sequence[Tensor | None]:
        raise ValueError(_NO_DERIVATIVE)


_NO_DERIVATIVE = (
    "Pure callbacks do not support JVP. Please use `jax.custom_jvp` to use callbacks while taking gradients: its rule "
    "says what the derivative of the host function is."
)


def _per_lane(function: Callable[..., list[Tensor]], batched: Sequence[bool], size: int) -> Callable[..., list[Tensor]]:
    def run(*tensors: Tensor) -> list[Tensor]:
        lanes = [
            function(*(t[lane] if b else t for t, b in zip(tensors, batched, strict=True))) for lane in range(size)
        ]
        return [torch.stack(column) for column in zip(*lanes, strict=True)]

    return run


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Return `callback(*args, **kwargs)`, called on the host with arrays, under every transformation but derivatives.

    `result_shape_dtypes` is the pytree of the result's types (anything with `shape` and `dtype`). `vmap_method` says
    how a batch is computed: "sequential" calls once per example, "expand_dims" and "broadcast_all" call once with a
    leading dimension on every argument (of size 1 on unmapped ones, or repeated), "legacy_vectorized" on mapped ones.
    Raises `ValueError` for an unknown method, 64-bit types without x64, or when differentiated; `JaxRuntimeError` when
    the callback raises or its result has other types.
    """
    _refuse_sharding(sharding, "pure_callback")
    if vmap_method not in VMAP_METHODS:
        raise ValueError(f"vmap_method must be on of the allowed methods {[*VMAP_METHODS]}, but got: {vmap_method}")
    function = _HostFunction(callback, args, kwargs, static=False)
    leaves, spec = tree.flatten(result_shape_dtypes)
    tensors = function.tensors
    types = _result_types(leaves, tensors)

    def run(*values: Tensor) -> list[Tensor]:
        return _checked(function, values, types, "pure_callback")

    return spec.unflatten(map(Array, PureCallback(_flexible(run, types), types, vmap_method)(*tensors)))


def _flexible(run: Callable[..., list[Tensor]], types: Sequence[TensorType]) -> Callable[..., list[Tensor]]:
    return run


def _result_types(leaves: Sequence[Any], tensors: Sequence[Tensor]) -> list[TensorType]:
    device = tensors[0].device if tensors else torch.get_default_device()
    for leaf in leaves:
        if dtypes.canonicalize_dtype(leaf.dtype) != np.dtype(leaf.dtype):
            raise ValueError(
                "result_shape_dtypes cannot specify 64-bit types when `jax_enable_x64` is disabled; "
                f"got {np.dtype(leaf.dtype)}."
            )
    return [TensorType(tuple(leaf.shape), dtypes.to_torch(np.dtype(leaf.dtype)), device) for leaf in leaves]


def _checked(
    function: _HostFunction, values: Sequence[Tensor], types: Sequence[TensorType] | None, what: str
) -> list[Tensor]:
    try:
        leaves = tree.flatten(function(*values))[0]
        results = [tensor_of(as_array(leaf)) for leaf in leaves]
    except Exception as error:
        raise errors.JaxRuntimeError(
            f"{what}: the callback {function.name} raised {type(error).__name__}: {error}"
        ) from error
    return results
