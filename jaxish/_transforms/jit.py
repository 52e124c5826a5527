"""jit: trace once per signature, run the graph ever after.

A call flattens its arguments, looks up the program for their types, and runs it (`Jitted.__call__`). What running
means depends on where the call stands: on plain tensors the backend's executable runs; under grad, vmap or jvp the
graph becomes a structured primitive (`Call`), whose derived graphs are compiled too; inside another trace the graph
is inlined.
"""

import functools
import inspect
import logging
import time
import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import optree
import torch
from torch import Tensor

from .._compile import executable
from .._core import axes, config, derived, dtypes, functorch, graph, residuals, tree
from .._core.array import Array, as_array, default_torch_device, from_kind, tensor_of
from .._core.avals import ShapedArray, ShapeDtypeStruct
from .._core.extended import blank
from .._core.graph import ClosedGraph, Graph, TensorType
from .._core.primitive import Dims, Primitive, popped_axis
from .._devices import constraint
from . import key_reuse
from .flat import Output, arrays_from, as_argument, check_callable, name_of
from .placement import Placement

_log = logging.getLogger("jaxish")
UNSPECIFIED = object()
_flatten: Any = optree.tree_flatten  # without the error handling of tree.flatten: a cached call takes 3 us


class Call(Primitive):
    """A call of a compiled graph. Its rules compile the derived graphs; inside a trace it is inlined."""

    __name__ = "jit"

    def __init__(self, body: Graph) -> None:
        self.body = body

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return self.body.out_types

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return list(executable.of(self.body).run(*inputs))

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        results = Call(derived.batched(self.body, dims, size, popped_axis()))(*inputs)
        return results, [0] * len(results)

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        return derived.jvp_rule(self.body, Call, primals, tangents)

    def vjp(self, primals: Any, results: Any, cotangents: Any) -> Sequence[Tensor | None]:
        return derived.vjp_rule(self.body, Call, primals, results, cotangents)

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        if graph.is_tracing():
            return self.body(*inputs)
        results = residuals.differentiated(self.body, inputs, Call)
        return super().__call__(*inputs) if results is None else results


@dataclass(eq=False)
class Program:
    """A function traced for one signature: its graph, and how to make its result of the graph's."""

    closed: ClosedGraph
    out_spec: tree.Spec
    out_kinds: tuple[Any, ...]
    in_avals: tuple[ShapedArray, ...]
    name: str

    def __call__(self, tensors: Sequence[Tensor]) -> Any:
        """Return the function's result for the tensors of its array arguments."""
        closed = self.closed
        if functorch.peek_interpreter_stack() is None and not graph.tracing:
            results = executable.of(closed.graph).run(*closed.captured, *tensors)
        else:
            results = Call(closed.graph)(*closed.closure(), *tensors)
        if len(results) == 1 and self.out_kinds[0] is False and self.out_spec.is_leaf():
            return Array(results[0])
        return self.out_spec.unflatten(map(from_kind, results, self.out_kinds))

    @property
    def out_avals(self) -> list[ShapeDtypeStruct]:
        """The types of the results' leaves."""
        nodes = self.closed.graph.module.graph.output_node().args[0]
        handles = arrays_from([node.meta["val"] for node in nodes], self.out_kinds)  # pyright: ignore
        shardings = [getattr(kind, "sharding", None) for kind in self.out_kinds]
        pairs = zip(handles, shardings, strict=True)
        return [ShapeDtypeStruct(h.shape, h.dtype, weak_type=h.weak_type, sharding=s) for h, s in pairs]


class CheckedProgram(Program):
    """A program that was traced while `jax_debug_key_reuse` is set: its calls consume keys."""

    key_use: key_reuse.KeyUse

    def __call__(self, tensors: Sequence[Tensor]) -> Any:
        inputs = [*self.closed.closure(), *tensors]
        key_reuse.consume_all(self.key_use.sinks, inputs, "jit-compiled function")
        leaves, spec = tree.flatten(super().__call__(tensors))
        return spec.unflatten(self.key_use.noted(leaves, inputs))


def trace_program(
    fun: Callable[..., Any], arrays: Sequence[Array], rebuild: Callable[[Sequence[Array]], tuple[tuple, dict]],
    names: Sequence[str] = (), transformation: str = "jit",
) -> Program:  # fmt: skip
    """Trace `fun` on abstract values of the types of `arrays`; `rebuild` makes its arguments of them."""
    kinds = [a.kind for a in arrays]
    output: Output | None = None
    keys = key_reuse.Watch() if config.debug_key_reuse.value else None

    def flat(*tensors: Tensor) -> list[Tensor]:
        nonlocal output
        args, kwargs = rebuild(arrays_from(tensors, kinds))
        output = Output(fun(*args, **kwargs), name_of(fun))
        if keys is not None:
            keys.saw(tensors, output.arrays)
        return output.tensors

    start = time.perf_counter()
    types = [TensorType.of(a._tensor) for a in arrays]
    closed = graph.trace(flat, types, purpose=f"the function {name_of(fun)} for {transformation}", names=names)
    if config.log_compiles.value:
        _log.warning("Finished tracing %s for %s in %.3f s", name_of(fun), transformation, time.perf_counter() - start)
    assert output is not None
    in_avals = tuple(ShapedArray(a.shape, a.dtype, a.weak_type) for a in arrays)
    out_kinds = constraint.kinds_of_results(closed.graph, output.kinds) if transformation == "jit" else output.kinds
    program = Program(closed, output.spec, tuple(out_kinds), in_avals, name_of(fun))
    return program if keys is None else _checked(program, keys.use_of(closed), arrays, transformation)


def _checked(program: Program, use: key_reuse.KeyUse, arrays: Sequence[Array], transformation: str) -> Program:
    parts = vars(program)
    if transformation == "jit":
        program = CheckedProgram(**parts)
        program.key_use = use
        return program
    closed = key_reuse.watched(program.closed, use, transformation, arrays, program.out_spec)
    return Program(**{**parts, "closed": closed})


def types_key(arrays: Sequence[Array], spec: tree.Spec) -> tuple[Any, ...]:
    """Return what a trace depends on besides the function: types, structure, configuration, bound axis names."""
    key: list[Any] = [spec, config.state()]
    for array in arrays:
        tensor = array._tensor
        key += (tensor.shape, tensor.dtype, array.kind, tensor.device)
    environment = axes.environment()
    return (*key, environment) if environment else tuple(key)


# -------------------------------------------------------------------------------------------------- static arguments


@dataclass(frozen=True)
class Signature:
    """Which arguments of a jitted function are static or donated, by position and by name."""

    static_argnums: tuple[int, ...]
    static_argnames: frozenset[str]
    donate_argnums: tuple[int, ...]
    donate_argnames: frozenset[str]

    @staticmethod
    def of(
        fun: Callable[..., Any], static_argnums: Any, static_argnames: Any, donate_argnums: Any, donate_argnames: Any
    ) -> "Signature":
        """Resolve the options of `jit`: positions and names of the same arguments imply each other.

        Raises `ValueError` for positions and names that the function does not have.
        """
        try:
            parameters = list(inspect.signature(fun).parameters.values())
        except (TypeError, ValueError):
            parameters = None
        statics = _resolved(parameters, static_argnums, static_argnames, "static")
        donated = _resolved(parameters, donate_argnums, donate_argnames, "donate")
        return Signature(*statics, *donated)


def _as_tuple(value: Any, kind: type) -> tuple[Any, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, kind) else tuple(value)


def _resolved(
    parameters: list[inspect.Parameter] | None, argnums: Any, argnames: Any, what: str
) -> tuple[tuple[int, ...], frozenset[str]]:
    numbers, names = _as_tuple(argnums, int), _as_tuple(argnames, str)
    if parameters is None or not (numbers or names):
        return numbers, frozenset(names)
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    takes_any_name = any(p.kind is p.VAR_KEYWORD for p in parameters)
    named = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    if not takes_any and any(not -len(positional) <= n < len(positional) for n in numbers):
        raise ValueError(
            f"Jitted function has {what}_argnums={numbers}, but only accepts {len(positional)} positional arguments."
        )
    unknown = set(names) - named
    if unknown and not takes_any_name:
        raise ValueError(
            f"Jitted function has invalid argnames {unknown} in {what}_argnames. Function does not take these args."
        )
    normal = tuple(n % len(positional) if n < 0 and positional else n for n in numbers)
    if argnames is None:
        names = tuple(positional[n].name for n in normal if n < len(positional) and positional[n].name in named)
    elif argnums is None:
        normal = tuple(i for i, p in enumerate(positional) if p.name in names)
    return normal, frozenset(names)


def _check_hashable(value: Any) -> Hashable:
    try:
        hash(value)
    except TypeError as error:
        raise ValueError(
            "Non-hashable static arguments are not supported. An error occurred while trying to hash an object of type "
            f"{type(value)}, {value}. The error was: TypeError: {error}. Pass a hashable value (a tuple for a list), "
            "or do not mark the argument as static."
        ) from None
    if isinstance(value, Array):
        raise ValueError("Non-hashable static arguments are not supported: an array cannot be static.")
    return type(value), value


# ------------------------------------------------------------------------------------------------------------- jit

_caches: "weakref.WeakKeyDictionary[Any, dict[Any, dict[Any, Program]]]" = weakref.WeakKeyDictionary()


def programs_of(fun: Callable[..., Any], options: Hashable) -> dict[Any, Program]:
    """Return the programs of a function by types: two jits (or scans, ...) of one function share them, as in JAX."""
    try:
        return _caches.setdefault(fun, {}).setdefault(options, {})
    except TypeError:  # no weak references, or not hashable
        return {}


def clear_caches() -> None:
    """Forget all traced programs and their compiled code."""
    for programs in _caches.values():
        for by_types in programs.values():
            by_types.clear()


def disable_jit(disable: bool = True) -> AbstractContextManager[None]:
    """Return a context manager under which jit and the loops run their Python functions directly."""
    return config.disable_jit(disable)


_SIMPLE = (Array, int, float, complex)  # arguments that are arrays, whatever the function


_AS_IT_COMES = Placement()


class Jitted:
    """What `jit` returns: calls run compiled programs, one per signature of the arguments."""

    def __init__(self, fun: Callable[..., Any], signature: Signature, placement: Placement = _AS_IT_COMES) -> None:
        functools.update_wrapper(self, fun)
        self._fun, self._signature, self._placement = fun, signature, placement
        self._programs = programs_of(fun, (signature, placement))
        self._simple = (signature, placement) == (Signature((), frozenset(), (), frozenset()), _AS_IT_COMES)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._simple and not kwargs and not graph.tracing:
            leaves, spec = _flatten(args, None, namespace=tree.NAMESPACE)
            key: list[Any] = [spec, config.state()]
            tensors = []
            for x in leaves:
                kind = None
                if type(x) is not Array:
                    if not isinstance(x, _SIMPLE):
                        break
                    x = as_array(x)
                    kind = x.kind
                tensor = x._tensor
                tensors.append(tensor)
                key += (tensor.shape, tensor.dtype, x._weak if kind is None else kind, tensor.device)
            else:
                program = self._programs.get(tuple(key))
                if program is not None:
                    return program(tensors)
        return self._call(args, kwargs)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if config.disable_jit.value:
            return self._fun(*args, **kwargs)
        call = self._prepared(args, kwargs, check_deleted=True)
        result = self._program(call)([tensor_of(a) for a in call.arrays])
        for index in call.donated:
            call.arrays[index].delete()
        return result

    def _prepared(self, args: tuple[Any, ...], kwargs: dict[str, Any], check_deleted: bool = False) -> "_PreparedCall":
        signature = self._signature
        static_args = {i: args[i] for i in signature.static_argnums if i < len(args)}
        static_kwargs = {k: v for k, v in kwargs.items() if k in signature.static_argnames}
        dynamic_args = tuple(a for i, a in enumerate(args) if i not in static_args)
        dynamic_kwargs = {k: v for k, v in kwargs.items() if k not in static_kwargs}
        statics = (
            tuple((i, *_check_hashable(v)) for i, v in static_args.items()),  # pyright: ignore
            tuple((k, *_check_hashable(v)) for k, v in sorted(static_kwargs.items())),  # pyright: ignore
        )
        leaves, spec = tree.flatten((dynamic_args, dynamic_kwargs) if dynamic_kwargs else dynamic_args)
        arrays = [_argument(leaf, name_of(self._fun)) for leaf in leaves]
        if self._placement.given:
            arrays = self._placement.of_arguments(arrays, dynamic_args, dynamic_kwargs)
        donated = self._donated(args, kwargs, static_args, leaves)

        def rebuild(values: Sequence[Array]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            dynamic = spec.unflatten(values)
            positional, named = dynamic if dynamic_kwargs else (dynamic, {})
            given = iter(positional)
            merged = tuple(static_args[i] if i in static_args else next(given) for i in range(len(args)))
            return merged, {**named, **static_kwargs}

        key = types_key(arrays, spec)
        if static_args or static_kwargs or dynamic_kwargs:
            key += ((statics, bool(dynamic_kwargs)),)
        return _PreparedCall(arrays, rebuild, key, donated, (args, kwargs))

    def _donated(self, args: Any, kwargs: Any, static_args: Any, leaves: Sequence[Any]) -> list[int]:
        signature = self._signature
        if not signature.donate_argnums and not signature.donate_argnames:
            return []
        given = [args[i] for i in signature.donate_argnums if i < len(args) and i not in static_args]
        given += [v for k, v in kwargs.items() if k in signature.donate_argnames]
        donated = {id(leaf) for leaf in tree.flatten(given)[0] if isinstance(leaf, Array)}
        return [i for i, leaf in enumerate(leaves) if id(leaf) in donated and not graph.is_tracer(leaf._tensor)]

    def _program(self, call: "_PreparedCall") -> Program:
        program = self._programs.get(call.key)
        if program is None:
            if config.explain_cache_misses.value:
                known = len(self._programs)
                _log.warning("TRACING CACHE MISS of %s: no program among %d has these types", name_of(self._fun), known)
            fun = self._placement.with_results_placed(self._fun)
            program = trace_program(fun, call.arrays, call.rebuild, self._names(call))
            # A program that captured a tracer is good for this call only.
            if not program.closed.captures_tracers:
                self._programs[call.key] = program
        return program

    def _names(self, call: "_PreparedCall") -> list[str]:
        return _argument_names(self._fun, self._signature.static_argnames, *call.given)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """Trace for these arguments (arrays or `ShapeDtypeStruct`s) and return a `Lowered` computation."""
        return self.trace(*args, **kwargs).lower()

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """Trace for these arguments (arrays or `ShapeDtypeStruct`s) and return a `Traced` computation."""
        from .stages import Traced

        call = self._prepared(*_with_stand_ins(args, kwargs))
        return Traced(self, self._program(call), call)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Return the types of the result as `ShapeDtypeStruct`s, without computing it."""
        program = self._program(self._prepared(*_with_stand_ins(args, kwargs)))
        return program.out_spec.unflatten(program.out_avals)

    def clear_cache(self) -> None:
        """Forget all programs of this function."""
        self._programs.clear()

    _clear_cache = clear_cache

    def _cache_size(self) -> int:
        return len(self._programs)

    def __repr__(self) -> str:
        return f"<jitted function {name_of(self._fun)}>"


@dataclass(eq=False)
class _PreparedCall:
    """The arguments of one call, static ones set aside: what to look up and what to trace with."""

    arrays: list[Array]
    rebuild: Callable[[Sequence[Array]], tuple[tuple, dict]]
    key: tuple[Any, ...]
    donated: list[int]
    given: tuple[tuple[Any, ...], dict[str, Any]]


def _argument(leaf: Any, name: str) -> Array:
    if type(leaf) is Array:
        leaf._tensor  # noqa: B018  (raises for a deleted array)
        return leaf
    return as_argument(leaf, f"The jitted function {name}")


def _argument_names(
    fun: Callable[..., Any], statics: frozenset[str], args: tuple[Any, ...], kwargs: dict[str, Any]
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


def _with_stand_ins(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Replace `ShapeDtypeStruct`s (anything with shape and dtype) by arrays of their types that take no memory."""

    def stand_in(leaf: Any) -> Any:
        if isinstance(leaf, Array) or not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
            return leaf
        if isinstance(leaf.dtype, dtypes.ExtendedDType):
            return blank(leaf.dtype, leaf.shape)
        scalar = torch.zeros(
            (), dtype=dtypes.to_torch(dtypes.canonicalize_dtype(leaf.dtype)), device=default_torch_device()
        )
        return Array(scalar.expand(tuple(leaf.shape)), getattr(leaf, "weak_type", False))

    leaves, spec = tree.flatten((args, kwargs))
    return spec.unflatten(map(stand_in, leaves))


def jit(
    fun: Any = UNSPECIFIED,
    /,
    *,
    in_shardings: Any = UNSPECIFIED,
    out_shardings: Any = UNSPECIFIED,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
) -> Any:
    """Return `fun` compiled: traced once per signature of its arguments, then run as one graph.

    Static arguments are hashable Python values that the trace depends on; donated arrays are deleted after the call.
    `in_shardings` and `out_shardings` say how arguments and results lie over devices: shardings, or partition specs on
    the mesh in force, as a prefix of their pytrees (None: as they come). Each device makes its own part of the results.
    `keep_unused` and `inline` change nothing here: unused inputs cost nothing, and inner calls are inlined always.
    Without `fun`, return a decorator. Raises `ValueError` for static arguments that cannot be hashed and shardings that
    do not fit.
    """
    if fun is UNSPECIFIED:
        return functools.partial(
            jit, in_shardings=in_shardings, out_shardings=out_shardings, static_argnums=static_argnums,
            static_argnames=static_argnames, donate_argnums=donate_argnums, donate_argnames=donate_argnames,
            keep_unused=keep_unused, device=device, backend=backend, inline=inline, compiler_options=compiler_options,
        )  # fmt: skip
    check_callable(fun)
    if inspect.isgeneratorfunction(fun):
        raise TypeError("jit of a generator function is not possible: its body would run as it is iterated.")
    _refuse("device", device is not None)
    _refuse("backend", backend is not None)
    _refuse("compiler_options", bool(compiler_options))
    signature = Signature.of(fun, static_argnums, static_argnames, donate_argnums, donate_argnames)
    shardings = (None if s is UNSPECIFIED else s for s in (in_shardings, out_shardings))
    return Jitted(fun, signature, Placement(*shardings))


def _refuse(option: str, given: bool) -> None:
    if given:
        raise NotImplementedError(
            f"jit({option}=...) is not supported in this version; place the arguments with jax.device_put instead."
        )
