"""Host callbacks: Python functions called from within transformed and compiled code.

`PureCallback` computes results from values, so that it may be left out, repeated or batched. `Effect` is called for
what it does (printing, debugging): it has no results, a trace keeps it although nothing uses it, and no
transformation changes how often it is called. A graph with effects runs operator by operator.
"""

import functools
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

from .._compile import cuda_graphs
from .._compile.structured import Opaque
from .._core import axes, dtypes, errors, functorch, graph, levels, residuals, tree
from .._core.array import Array, as_array, default_torch_device, from_kind, is_arraylike, tensor_of
from .._core.graph import Graph, TensorType
from .._core.primitive import Dims, Primitive, batch_front, graphs_of, popped_axis
from .._core.target import Target
from .flat import check_callable, name_of

VMAP_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized", None)
_log = logging.getLogger("jax._src.callback")  # JAX's name: programs filter what it logs by it
_serial = itertools.count()


@dataclass(frozen=True, eq=False)
class HostFunction:
    """A callback on flat tensors: the arguments that are no arrays put back, the rest made arrays again."""

    callback: Callable[..., Any]
    spec: tree.Spec
    places: list[int]
    kinds: list[Any]
    fixed: list[Any]

    @staticmethod
    def of(
        callback: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], static: bool = False
    ) -> "tuple[HostFunction, list[Array]]":
        """Return a call's function and arrays; with `static`, arguments that are no arrays belong to the function."""
        check_callable(callback)
        leaves, spec = tree.flatten((args, kwargs))
        places = [i for i, leaf in enumerate(leaves) if not static or is_arraylike(leaf)]
        arrays = [as_array(leaves[i]) for i in places]
        fixed = [None if i in places else leaf for i, leaf in enumerate(leaves)]
        # Weak types are for tracing: JAX hands them on only where a debug callback is called at once.
        is_strong = not static or graph.is_tracing()
        kinds = [False if is_strong and a.kind is True else a.kind for a in arrays]
        return HostFunction(callback, spec, places, kinds, fixed), arrays

    def __call__(self, *tensors: Tensor) -> Any:
        leaves = list(self.fixed)
        for place, tensor, kind in zip(self.places, tensors, self.kinds, strict=True):
            leaves[place] = from_kind(tensor, kind)
        args, kwargs = self.spec.unflatten(leaves)
        with graph.suspended(), torch.no_grad():
            return self.callback(*args, **kwargs)

    def results(self, api: str, *tensors: Tensor) -> list[Tensor]:
        """Call the function for a callback by `api`, and return the leaves of its result as tensors."""
        with self.raising(api):
            leaves = tree.flatten(self(*tensors))[0]
            return [tensor_of(as_array(x if is_arraylike(x) else np.asarray(x))) for x in leaves]

    def effect(self, api: str, *tensors: Tensor) -> None:
        """Call the function for its effect, within a program that was traced."""
        with self.raising(api):
            self(*tensors)

    @contextmanager
    def raising(self, api: str) -> Iterator[None]:
        """Within this context manager, what the callback raises becomes an error of the program that calls it by `api`."""
        try:
            yield
        except Exception as error:
            _log.exception("jax.%s failed", api)
            raise errors.JaxRuntimeError(
                f"The callback {name_of(self.callback)} raised {type(error).__name__}: {error}"
            ) from error


# -------------------------------------------------------------------------------------------------------------- values


def _refused(name: str, target: Target) -> NotImplementedError:
    return NotImplementedError(
        f"The callback {name} runs Python on the host, which a graph for {target.name!r} cannot do; leave it out of what "
        "is lowered for this target."
    )


class PureCallback(Opaque):
    """Results that the host function called `name` computes; `method` says what it can do with a batch."""

    __name__ = "pure_callback"
    rules = ("function",)  # its serial number stands for it
    kind = "Pure callbacks"

    def __init__(
        self, name: str, function: Callable[..., list[Tensor]], types: Sequence[TensorType], method: str | None
    ) -> None:
        self.name, self.function, self.types, self.method = name, function, tuple(types), method
        self.serial = next(_serial)

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return self.types

    def run(self, *inputs: Tensor) -> list[Tensor]:
        cuda_graphs.needs_python()
        results = self.function(*inputs)
        found = [(tuple(r.shape), r.dtype) for r in results]
        wanted = [(t.shape, t.dtype) for t in self.types]
        if found != wanted:
            raise errors.JaxRuntimeError(
                f"The callback returned values of other types than result_shape_dtypes says: expected {wanted}, "
                f"got {found}."
            )
        return [r.to(t.device) for r, t in zip(results, self.types, strict=True)]

    def spelled_out(self, target: Target, *inputs: Tensor) -> list[Tensor]:
        raise _refused(self.name, target)

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        level = residuals.differentiating_level()
        if level is not None and any(levels.is_perturbed(t, level[0]) for t in inputs):
            raise self.undifferentiated()
        return super().__call__(*inputs)

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        method = "sequential" if axes.are_devices(popped_axis()) else self.method
        if method is None:
            raise NotImplementedError(
                "vmap is only supported for the pure_callback primitive when vmap_method is one of 'sequential', "
                "'sequential_unrolled', 'expand_dims', 'broadcast_all', or 'legacy_vectorized'."
            )
        types = [TensorType((size, *t.shape), t.dtype, t.device) for t in self.types]
        front = [t if d is None else t.movedim(d, 0) for t, d in zip(inputs, dims, strict=True)]
        if method == "expand_dims":
            front = [t.unsqueeze(0) if d is None else t for t, d in zip(front, dims, strict=True)]
        elif method == "broadcast_all":
            front = [batch_front(t, None if d is None else 0, size) for t, d in zip(front, dims, strict=True)]
        function = self.function
        if method.startswith("sequential"):
            function = _per_lane(function, [d is not None for d in dims], size)
        return type(self)(self.name, function, types, self.method)(*front), [0] * len(types)

    def undifferentiated(self) -> Exception:
        """Return what says that there is no derivative."""
        return ValueError(
            f"{self.kind} do not support JVP. Please use `jax.custom_jvp` to use callbacks while taking gradients: its rule "
            "says what the derivative of the host function is."
        )

    def jvp(self, primals: Any, tangents: Any) -> list[Tensor | None]:
        raise self.undifferentiated()

    def vjp(self, primals: Any, results: Any, cotangents: Any) -> Sequence[Tensor | None]:
        raise self.undifferentiated()


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
    function, arrays = HostFunction.of(callback, args, kwargs)
    leaves, spec = tree.flatten(result_shape_dtypes)
    computed = functools.partial(function.results, "pure_callback")
    call = PureCallback(name_of(callback), computed, result_types(leaves), vmap_method)
    return spec.unflatten(map(Array, call(*map(tensor_of, arrays))))


def result_types(leaves: Sequence[Any]) -> list[TensorType]:
    """Return the types of a callback's results. Raises `ValueError` for 64-bit types without x64."""
    for leaf in leaves:
        if dtypes.canonicalize_dtype(leaf.dtype) != np.dtype(leaf.dtype):
            raise ValueError(
                "result_shape_dtypes cannot specify 64-bit types when `jax_enable_x64` is disabled; "
                f"got {np.dtype(leaf.dtype)}."
            )
    device = default_torch_device()
    return [TensorType(tuple(leaf.shape), dtypes.to_torch(np.dtype(leaf.dtype)), device) for leaf in leaves]


def _refuse_sharding(sharding: Any, function: str) -> None:
    if sharding is not None:
        raise NotImplementedError(f"{function}(sharding=...) is not supported; callbacks run on the host.")


# ------------------------------------------------------------------------------------------------------------- effects


class Effect(Primitive):
    """A call of the host function called `name` for its effect, once per lane of the batches in its inputs.

    `lanes` are the batches, innermost first: the size, and the batch dimension of each input. Effects happen in the order of
    the program; `ordered` says that the program asked for that.
    """

    __name__ = "debug_callback"
    has_effect = True  # pyright: ignore[reportAssignmentType,reportIncompatibleVariableOverride]
    rules = ("function",)  # its serial number stands for it

    def __init__(
        self, name: str, function: Callable[..., Any], lanes: Sequence[tuple[int, Dims]] = (), ordered: bool = False
    ) -> None:
        self.name, self.function, self.lanes, self.ordered = name, function, tuple(lanes), ordered
        self.serial = next(_serial)

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return []

    def run(self, *inputs: Tensor) -> list[Tensor]:
        for position in itertools.product(*(range(size) for size, _ in self.lanes)):
            self._called(*(self._slice(inputs[i], i, position) for i in range(len(inputs))))
        return []

    def _called(self, *inputs: Tensor) -> None:
        self.function(*inputs)

    def _slice(self, tensor: Tensor, index: int, position: Sequence[int]) -> Tensor:
        for lane, (_, dims) in zip(reversed(position), reversed(self.lanes), strict=True):
            dim = dims[index]
            tensor = tensor if dim is None else tensor.select(dim, lane)
        return tensor

    def lower(self, target: Target, *inputs: Tensor) -> list[Tensor]:
        if not target.calls_host:
            raise _refused(self.name, target)
        trace = graph.current_trace()
        assert trace is not None
        return trace.emit(self, inputs, [])

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        # Levels are taken off here: an operation without results has no place in torch.func's rules.
        tensors, lanes = list(inputs), list(self.lanes)
        for level in reversed(functorch.get_interpreter_stack() or ()):
            if level.key() == functorch.TransformType.Vmap:
                unwrapped = [functorch.unwrap_batched(t, level.level()) for t in tensors]
                tensors, dims = [t for t, _ in unwrapped], [d for _, d in unwrapped]
                sizes = [t.shape[d] for t, d in unwrapped if d is not None]
                if sizes:
                    lanes.append((sizes[0], dims))
            else:
                tensors = [functorch.unwrap_for_grad(t, level.level()) for t in tensors]
        with graph.without_levels():
            return self._with_lanes(lanes)._base(*tensors)

    def _with_lanes(self, lanes: Sequence[tuple[int, Dims]]) -> "Effect":
        return Effect(self.name, self.function, lanes, self.ordered)


def refuse_ordered(nodes: Iterable[fx.Node], count: int) -> None:
    """Raise `ValueError` for ordered debug callbacks in a program on so many devices, where there is no one order."""
    if count > 1 and any(isinstance(n.target, Effect) and n.target.ordered for n in nodes):
        raise ValueError(
            "The following ordered effects are not supported for more than 1 device: [OrderedDebug]. Leave ordered=True out."
        )


def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """Return `callback(*args, **kwargs)`, called on the host for its effect too: it is never left out or repeated.

    Types and errors are those of `pure_callback`. Under vmap it is called per example, which `ordered` refuses.
    """
    _refuse_sharding(sharding, "io_callback")
    function, arrays = HostFunction.of(callback, args, kwargs)
    leaves, spec = tree.flatten(result_shape_dtypes)
    method = None if ordered else "sequential"
    computed = functools.partial(function.results, "io_callback")
    call = IOCallback(name_of(callback), computed, result_types(leaves), method)
    return spec.unflatten(map(Array, call(*map(tensor_of, arrays))))


class IOCallback(PureCallback):
    """A pure callback that is not pure: a trace keeps it although nothing uses its results."""

    __name__ = "io_callback"
    kind = "IO callbacks"
    has_effect = True  # pyright: ignore[reportAssignmentType,reportIncompatibleVariableOverride]

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        if self.method is None and not axes.are_devices(popped_axis()):
            raise ValueError("Cannot `vmap` ordered IO callbacks: the order of the examples is not defined.")
        return super().vmap(size, dims, *inputs)


def calls_for_io(body: Graph) -> bool:
    """Tell whether a graph has an `io_callback` in it, which may be neither repeated nor done for a branch not taken."""
    primitives = [n.target for n in body.module.graph.nodes if isinstance(n.target, Primitive)]
    return any(isinstance(p, IOCallback) or any(map(calls_for_io, graphs_of(p))) for p in primitives)


def effects_barrier() -> None:
    """Wait until all effects have happened: here they happen as the program runs."""
