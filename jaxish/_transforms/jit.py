"""jit: trace once per signature of the arguments, run the graph ever after (`program.py`)."""

import functools
import inspect
import logging
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import optree
import torch

from .._core import config, dtypes, graph, no_execution, symbolic_sizes, tree
from .._core.array import Array, default_torch_device
from .._core.avals import ShapeDtypeStruct
from .._core.dimensions import SymbolicSize
from .._core.extended import blank
from .._core.refs import Ref, check_aliases
from .._devices import constraint, propagation
from .._devices.made import as_its_tensor
from .compiler_options import check_compiler_options
from .flat import argument_names, as_argument, check_callable, described, dressed, name_of
from .placement import Placement
from .prepared_call import PreparedCall, run_taking_over
from .program import Program, keyed, programs_of, trace_program, types_key
from .sharded_effects import depends_on_shardings, settle
from .signature import PLAIN, UNSPECIFIED, Signature
from .stages import Lowered, Traced

_log = logging.getLogger("jaxish")
_flatten: Any = optree.tree_flatten  # without the error handling of tree.flatten: a cached call takes 3 us
_LEAVES = frozenset({Array, np.ndarray, float, int, bool})  # arguments that are no trees
_AS_IT_COMES = Placement()

# Finds the types of a jitted function's results for arguments with symbolic sizes, given by what makes these (`_export/tracing.py`).
types_for_all_sizes: "Callable[[PjitFunction, Any, Any], Any] | None" = None


@functools.cache
def _flat(count: int, names: tuple[str, ...] = ()) -> tree.Spec:
    args = (0,) * count
    return tree.flatten((args, dict.fromkeys(names, 0)) if names else args)[1]


def disable_jit(disable: bool = True) -> AbstractContextManager[None]:
    """Return a context manager under which jit and the loops run their Python functions directly."""
    return config.disable_jit(disable)


class PjitFunction:
    """What `jit` returns: calls run compiled programs, one per signature of the arguments."""

    def __init__(
        self,
        fun: Callable[..., Any],
        signature: Signature,
        placement: Placement = _AS_IT_COMES,
        compiler_options: tuple[tuple[str, Any], ...] = (),
        keep_unused: bool = False,
    ) -> None:
        dressed(self, fun)
        self._fun, self._signature, self._placement = fun, signature, placement
        self._compiler_options, self._keep_unused = compiler_options, keep_unused
        self._programs = programs_of(fun, (signature, placement, compiler_options))
        self._has_static = bool(signature.static_argnums)
        self._is_direct = placement == _AS_IT_COMES

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._is_direct and not graph.tracing:
            traced, named, static = args, kwargs, None
            try:
                if kwargs or self._has_static:
                    traced, named, static = self._signature.traced(args, kwargs)
                if not _LEAVES.issuperset(map(type, traced)) or not _LEAVES.issuperset(map(type, named.values())):
                    leaves, spec = _flatten((traced, named) if named else traced, None, namespace=tree.NAMESPACE)
                elif named:
                    names = tuple(sorted(named))
                    leaves, spec = [*traced, *map(named.__getitem__, names)], _flat(len(traced), names)
                else:
                    leaves, spec = traced, _flat(len(traced))
                found = keyed(leaves, spec)
            except (OverflowError, TypeError, ValueError):  # `_prepared` says where and what
                leaves, found = (), None
            if found is not None:
                program = self._programs.get(found[0] if static is None else (*found[0], static))
                if program is not None:
                    return run_taking_over(program, leaves, found[1]) if program.taken else program(found[1])
        return self._call(args, kwargs)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if config.disable_jit.value:
            return self._fun(*args, **kwargs)
        call = self._prepared(args, kwargs)
        program = self._program(call)
        if config.no_execution.value and not graph.is_tracing():
            no_execution.refuse(name_of(self._fun))
        return call.run(program)

    def _prepared(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], signature: Signature | None = None
    ) -> PreparedCall:
        given = (signature or self._signature).split(args, kwargs)
        names = self._names(args, kwargs)
        arrays = self._arrays(given.leaves, names)
        if self._placement.given:
            arrays = self._placement.of_arguments(arrays, *given.dynamic)
        check_aliases(arrays, names, lambda: described(self._fun), "jit")
        key = types_key(arrays, given.spec)
        if given.key is not None:
            key = (*key, given.key)
        types = tuple(i for i, leaf in enumerate(given.leaves) if isinstance(leaf, ShapeDtypeStruct))
        return PreparedCall(arrays, given.rebuild, key, given.donated, given.dynamic, names, types)

    def _arrays(self, leaves: Sequence[Any], names: Callable[[], Sequence[str]]) -> list[Array]:
        arrays, name = [], name_of(self._fun)
        path = lambda: dict(enumerate(names())).get(len(arrays), "unknown")  # noqa: E731
        for leaf in leaves:
            try:
                arrays.append(_argument(leaf, name, not self._keep_unused))
            except OverflowError:
                raise OverflowError(
                    "An overflow was encountered while parsing an argument to a jitted computation, whose argument path "
                    f"is {path()}. Got {type(leaf)} with value {leaf}"
                ) from None
            except TypeError as error:
                error.args = (f"{error} It was passed to the function at path {path()}.",)
                raise
        return arrays

    def _program(self, call: PreparedCall) -> Program:
        program = self._programs.get(call.key)
        if program is None:
            if config.no_tracing.value:
                raise RuntimeError(f"re-tracing function {name_of(self._fun)} for `jit`, but 'no_tracing' is set")
            if config.explain_cache_misses.value:
                known = len(self._programs)
                _log.warning("TRACING CACHE MISS of %s: no program among %d has these types", name_of(self._fun), known)
            program = self.traced_anew(call)
            if call.donated:
                program.taken = call.taken_by(program)
            # A program that captured a tracer is good for this call only.
            passing = program.is_for_this_call_only or symbolic_sizes.environment() is not None
            if not passing and not depends_on_shardings(program.closed.graph) and not config.no_execution.value:
                self._programs[call.key] = program
        return program

    def traced_anew(self, call: PreparedCall) -> Program:
        """Trace the function for a call, whether it was traced for the like or not."""
        check_compiler_options(self._compiler_options)
        fun = self._placement.with_results_placed(self._fun)
        program = trace_program(fun, call.arrays, call.rebuild, call.names())
        self._check_devices(call, program)
        asked = self._placement.out_shardings is not None
        program.out_kinds = tuple(constraint.kinds_of_results(program.closed.graph, program.out_kinds, asked))
        if not graph.is_tracing():
            settle(program.closed.graph, len(program.closed.captured), call.arrays)
        return program

    def _check_devices(self, call: PreparedCall, program: Program) -> None:
        """Raise `ValueError` for arguments on different devices, of those that are used."""
        given = [(i, s) for i, a in enumerate(call.arrays) if (s := constraint.sharding_given(a)) is not None]
        if len(given) < 2:
            return
        names = call.names() or [f"args[{i}]" for i in range(len(call.arrays))]
        inputs = program.arguments
        used = [(names[i], call.arrays[i], s) for i, s in given if inputs[i].users]
        propagation.check_devices(used, name_of(self._fun))

    def prepared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> PreparedCall:
        """Return the call with these arguments, arrays or `ShapeDtypeStruct`s."""
        return self._prepared(*self._signature.with_traced(_with_stand_ins, args, kwargs))

    def _names(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Sequence[str]]:
        return lambda: argument_names(self._fun, args, kwargs, self._signature.static_argnames)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace for these arguments (arrays or `ShapeDtypeStruct`s) and return a `Lowered` computation."""
        return self.trace(*args, **kwargs).lower()

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Trace for these arguments (arrays or `ShapeDtypeStruct`s) and return a `Traced` computation."""
        call = self.prepared(args, kwargs)
        # Static arguments are part of what was compiled: its calls do not give them.
        return Traced(functools.partial(self._prepared, signature=PLAIN), self._program(call), call)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Return the types of the result as `ShapeDtypeStruct`s, without computing it."""
        if types_for_all_sizes is not None and _are_symbolic(args, kwargs):
            return types_for_all_sizes(self, args, kwargs)
        program = self._program(self.prepared(args, kwargs))
        return program.out_spec.unflatten(program.out_avals)

    def clear_cache(self) -> None:
        """Forget all programs of this function."""
        self._programs.clear()

    _clear_cache = clear_cache

    def _cache_size(self) -> int:
        return len(self._programs)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._fun)  # inspect takes what has __get__ for a builtin, which has none

    # Pickled without what was traced; a pickler that takes functions by value (cloudpickle) takes any.
    def __getstate__(self) -> dict[str, Any]:
        return {
            "function_name": name_of(self._fun), "fun": self._fun, "signature": self._signature,
            "placement": self._placement, "compiler_options": self._compiler_options,
        }  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["fun"], state["signature"], state["placement"], state["compiler_options"])

    def __repr__(self) -> str:
        return f"<PjitFunction of {self._fun!r}>"


def _argument(leaf: Any, name: str, takes_types: bool) -> Array:
    if type(leaf) is Array:
        leaf._tensor  # noqa: B018  (raises for a deleted array)
        return leaf
    if takes_types and isinstance(leaf, ShapeDtypeStruct):  # good for arguments that nothing reads (`PreparedCall.run`)
        leaf = _stand_in(leaf)
    return as_argument(leaf, f"The jitted function {name}")


def _with_stand_ins(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Replace `ShapeDtypeStruct`s (anything with shape and dtype) by arrays of their types that take no memory.

    Arrays that were deleted, as by a call that they were donated to, are types, too.
    """
    leaves, spec = tree.flatten((args, kwargs))
    return spec.unflatten(map(_stand_in, leaves))


def _stand_in(leaf: Any) -> Any:
    if isinstance(leaf, Ref) or (isinstance(leaf, Array) and not leaf.is_deleted()):
        return leaf
    if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
        return leaf
    if _is_symbolic(leaf):
        raise NotImplementedError(f"only jax.export.export and jax.eval_shape trace for symbolic shapes; got {leaf}.")
    if leaf.dtype == dtypes.float0:
        return np.zeros(leaf.shape, dtypes.float0)
    if isinstance(leaf.dtype, dtypes.ExtendedDType):
        return blank(leaf.dtype, leaf.shape)
    scalar = torch.zeros(
        (), dtype=dtypes.to_torch(dtypes.canonicalize_dtype(leaf.dtype)), device=default_torch_device()
    )
    array = as_its_tensor(Array(scalar.expand(tuple(leaf.shape)), getattr(leaf, "weak_type", False)))
    if isinstance(leaf, ShapeDtypeStruct):
        array = constraint.given_as(array, leaf.sharding)
    return Ref(array) if getattr(leaf, "is_ref", False) else array


def _are_symbolic(args: Any, kwargs: Any) -> bool:
    return any(map(_is_symbolic, tree.flatten((args, kwargs))[0]))


def _is_symbolic(leaf: Any) -> bool:
    return any(isinstance(n, SymbolicSize) for n in getattr(leaf, "shape", ()))


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
    `device` and `backend`, deprecated, say where the arguments are moved. `inline` and `compiler_options` (XLA's) change
    nothing here: inner calls are inlined always. Arguments that nothing reads may be types of arrays, but with `keep_unused`.
    Without `fun`, return a decorator. Raises `ValueError` for static arguments that cannot be hashed and shardings that
    do not fit, a call `JaxRuntimeError` for what is no option of XLA.
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
    options = tuple(sorted(compiler_options.items())) if compiler_options else ()
    signature = Signature.of(fun, static_argnums, static_argnames, donate_argnums, donate_argnames)
    given, wanted = (None if s is UNSPECIFIED else s for s in (in_shardings, out_shardings))
    return PjitFunction(fun, signature, Placement(given, wanted, _device(device, backend)), options, keep_unused)


def _device(device: Any, backend: str | None) -> Any:
    if device is None and backend is None:
        return None
    if device is not None and backend is not None:
        raise ValueError(f"can't specify both a device and a backend for jit, got {device=} and {backend=}")
    warnings.warn(
        'backend and device argument on jit is deprecated. You can use `jax.device_put(..., jax.local_devices(backend="cpu")'
        "[0])` on the inputs to the jitted function to get the same behavior.",
        DeprecationWarning,
        stacklevel=3,
    )
    return backend if device is None else device
