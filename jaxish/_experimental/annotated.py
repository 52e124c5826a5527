"""Functions whose calls jaxprs show with a note to XLA: `compute_on2`, `scheduling_group`, `xla_metadata_call`.

There is no XLA here that would read the note. What is computed, and where, is the same without it, as in JAX.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from .._core import tree
from .._core.array import Array, as_array, default_torch_device, from_kind, tensor_of
from .._core.graph import Graph, TensorType
from .._core.primitive import Dims, Primitive
from .._core.tree_differences import broadcast_prefix
from .._jaxprs.ir import jaxpr_as_fun
from .._jaxprs.primitive import define
from .._transforms.compiler_options import check_compiler_options
from .._transforms.flat import wraps
from .._transforms.jit import jit
from .._transforms.placement import device_put
from .._transforms.program import Call, Program


class AnnotatedCall(Call):
    """A call of a graph that jaxprs show as the equation `name`, with these parameters and the graph."""

    def __init__(self, body: Graph, name: str, parameters: dict[str, Any]) -> None:
        super().__init__(body, name)
        self.parameters = parameters

    def _of(self, body: Graph) -> "AnnotatedCall":
        return AnnotatedCall(body, self.name, self.parameters)

    def equation(self) -> tuple[str, dict[str, Any]]:
        return self.name, {**self.parameters, "jaxpr": self.body}


def annotated(
    fun: Callable[..., Any],
    name: str,
    parameters: Callable[[Program], dict[str, Any]],
    kind: type[AnnotatedCall] = AnnotatedCall,
) -> Callable[..., Any]:
    """Return `fun`, calls of which are equations of this name in jaxprs; `parameters` says theirs for what was traced."""
    jitted = jit(fun)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        call = jitted._prepared(args, kwargs)
        program = jitted._program(call).pure(name)
        body = program.closed
        results = kind(body.graph, name, parameters(program))(*body.closure(), *(tensor_of(a) for a in call.arrays))
        return program.out_spec.unflatten(map(from_kind, results, program.out_kinds))

    return wrapped


def evaluable(name: str, kind: type[AnnotatedCall] = AnnotatedCall, body: str = "jaxpr") -> None:
    """Let equations of this name be evaluated; `body` is the parameter that has the jaxpr."""

    def evaluate(*args: Any, **params: Any) -> Any:
        called = jaxpr_as_fun(params.pop(body))
        return annotated(lambda *values: called(*values), name, lambda _: params, kind)(*args)

    define(name, evaluate, multiple_results=True)


for _name in ("compute_on", "xla_metadata_call"):
    evaluable(_name)


def xla_metadata_call(f: Callable[..., Any] | None = None, **meta: str) -> Any:
    """Return `f`, whose calls stand in jaxprs as one equation with the texts `meta`; without `f`, a decorator.

    Raises `NotImplementedError` for what is no text.
    """
    for value in meta.values():
        if not isinstance(value, str):
            raise NotImplementedError(f"metadata of calls are texts; got {value!r} of {type(value)}. Give str(value).")
    if f is None:
        return lambda g: xla_metadata_call(g, **meta)
    return annotated(f, "xla_metadata_call", lambda _: meta)


def scheduling_group(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator: calls of the function stand in jaxprs as one equation with this group's name.

    torch's compilers decide the order of operations by what depends on what.
    """
    return xla_metadata_call(scheduling_group=name)


# --------------------------------------------------------------------------------------------------------- compute_on


def _check_compute_type(compute_type: Any) -> None:
    if not isinstance(compute_type, str):
        raise TypeError("`compute_on`'s compute_type argument must be a string.")
    if compute_type not in ("device_host", "device", "tpu_sparsecore") and not compute_type.startswith("gpu_stream:"):
        raise ValueError(
            f"Invalid compute type {compute_type}. Current supported values are `device_host`, `device`, "
            "`tpu_sparsecore`, and `gpu_stream:#`."
        )
    if compute_type == "device" or (compute_type == "device_host" and default_torch_device().type == "cpu"):
        return
    raise NotImplementedError(
        f"compute_on({compute_type!r}) is not supported: what is computed stays on the device of its arguments, in its own "
        "order. Move arguments to jax.devices('cpu')[0] by jax.device_put to compute on the host."
    )


@contextmanager
def compute_on(compute_type: str) -> Iterator[None]:
    """Within this context manager what is traced is for `compute_type`: "device", or on a CPU "device_host", its own host.

    Raises `TypeError` and `ValueError` for what is no compute type, `NotImplementedError` for the other ones.
    """
    _check_compute_type(compute_type)
    yield


def compute_on2(
    f: Callable[..., Any] | None = None,
    *,
    compute_type: str,
    out_memory_spaces: Any,
    compiler_options: dict[str, Any] | None = None,
) -> Any:
    """Return `f`, computed where `compute_type` says (see `compute_on`); without `f`, a decorator.

    `out_memory_spaces` is a prefix of the result's pytree: in which `jax.memory.Space` each array is to be.
    """
    if f is None:
        return lambda g: compute_on2(
            g, compute_type=compute_type, out_memory_spaces=out_memory_spaces, compiler_options=compiler_options
        )
    _check_compute_type(compute_type)
    check_compiler_options((compiler_options or {}).items())

    def parameters(program: Program) -> dict[str, Any]:
        spaces = tuple(broadcast_prefix(out_memory_spaces, program.out_spec, "compute_on out_memory_spaces"))
        options = None if compiler_options is None else json.dumps(compiler_options)
        return {"compute_type": compute_type, "out_memory_spaces": spaces, "compiler_options_json": options}

    computed = annotated(f, "compute_on", parameters)
    return wraps(f)(lambda *args, **kwargs: device_put(computed(*args, **kwargs), out_memory_spaces))


# ------------------------------------------------------------------------------------------------------- one value


class Metadata(Primitive):
    """The identity; jaxprs show pairs of names and values."""

    __name__ = "xla_metadata_value"
    rules = ("pairs",)

    def __init__(self, pairs: tuple[tuple[str, Any], ...]) -> None:
        self.pairs = pairs

    def equation(self) -> tuple[str, dict[str, Any]]:
        return self.__name__, {"xla_metadata_kvs": self.pairs}

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(i) for i in inputs]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return list(inputs)

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        return self(*inputs), list(dims)

    def jvp(self, primals: Any, tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        return [None if t is None else self(t)[0] for t in tangents]

    def vjp(self, primals: Any, results: Any, cotangents: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        return list(cotangents)


def set_xla_metadata(x: Any = None, **kwargs: Any) -> Any:
    """Return the pytree `x`; jaxprs show an equation with what is named, which nothing reads here.

    Raises `NotImplementedError` without `x`: operations have no attributes that a block could set.
    """
    if x is None:
        raise NotImplementedError(
            "set_xla_metadata without a value sets attributes of XLA's operations in a block; there is no XLA here. Give it a "
            "value, or name the block in profiles by jax.profiler.TraceAnnotation."
        )
    pairs = tuple(sorted(kwargs.items()))

    def marked(leaf: Any) -> Array:
        array = as_array(leaf)
        return from_kind(Metadata(pairs)(tensor_of(array))[0], array.kind)

    leaves, spec = tree.flatten(x)
    return spec.unflatten(map(marked, leaves))
