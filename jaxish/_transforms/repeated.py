"""Eager functions that become one C++ function once they have been called often.

A factorization of a small matrix is some ten operators of torch's around a call of LAPACK, of which each takes longer
than it; statistics and special functions are dozens. Nothing is traced for functions that are called a few times, and nothing waits for the compiler.
"""

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ParamSpec, TypeVar

from torch import Tensor

from .._compile import loop_matrices, native_graph
from .._compile.factored import rewriting
from .._core import config, debugging
from .._core.array import Array, from_kind
from .._core.graph import is_plain_evaluation
from .._devices import laid
from .program import Program, trace_program

P = ParamSpec("P")
T = TypeVar("T")

_PATIENCE, _PATIENCE_OF_ELEMENTS = (
    30,
    1 << 21,
)  # calls, and elements of their arguments, which take less than tracing does
_MOST_ELEMENTS = 1 << 24  # of an argument
_MOST_OF_MATRIX = 1 << 16  # beyond, LAPACK takes nearly all of the time
_MOST_KINDS = 256  # of arguments


def compiled_when_repeated(fun: Callable[P, T]) -> Callable[P, T]:
    """Return `fun` compiled for arguments of types, and numbers, that it is given often. All its results are arrays."""
    known: dict[Hashable, _Repeated] = {}

    @functools.wraps(fun)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        key = _key(args, kwargs)
        if key is None:
            return fun(*args, **kwargs)
        found = known.get(key)
        if found is None:
            if len(known) >= _MOST_KINDS:
                known.clear()
            found = known[key] = _Repeated(fun)
        return found(args, kwargs)

    return called


_PLAIN = frozenset({bool, int, float, str, type(None)})  # arguments that a trace may depend on


def _key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
    """Return what a compiled function depends on; None where there is not to be one."""
    if not is_plain_evaluation() or not args or type(args[0]) is not Array:
        return None
    if config.jit_tier.value == "direct" or debugging.is_on():
        return None
    key: list[Any] = [config.state(), *kwargs]
    for value in (*args, *kwargs.values()):
        kind = type(value)
        if kind is Array:
            tensor = value._tensor
            if not tensor.is_cpu or tensor.numel() > _MOST_ELEMENTS or laid.plain(tensor) is not tensor:
                return None
            key += (tensor.shape, tensor.dtype, value._weak)
        elif kind in _PLAIN:
            key += (kind, repr(value) if kind is float else value)  # the zeros are equal
        elif kind is tuple and _PLAIN.issuperset(map(type, value)):
            key += (kind, repr(value))
        else:
            return None
    return tuple(key)


def _tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    return [a._tensor for a in (*args, *kwargs.values()) if type(a) is Array]


class _Repeated:
    """A function for arguments of one kind."""

    def __init__(self, fun: Callable[..., Any]) -> None:
        self._fun, self._calls, self._elements, self._is_hopeless = fun, 0, 0, False
        self._program: Program | None = None
        self._whole: native_graph.Whole | None = None
        self._run: Callable[..., Any] | None = None

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        program = self._program
        if self._run is not None and program is not None:
            results = self._run(*program.closed.captured, *_tensors(args, kwargs))
            return program.out_spec.unflatten(map(from_kind, results, program.out_kinds))
        result = self._fun(*args, **kwargs)
        self._calls += 1
        self._elements += args[0].size
        if (self._calls > _PATIENCE or self._elements > _PATIENCE_OF_ELEMENTS) and not self._is_hopeless:
            self._advance(args, kwargs)
        return result

    def _advance(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Trace the function, or look at the compiler."""
        try:
            if self._whole is None:
                given = (*args, *kwargs.values())
                arrays = [a for a in given if type(a) is Array]

                def rebuild(values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
                    rest = iter(values)
                    new = [next(rest) if type(a) is Array else a for a in given]
                    return tuple(new[: len(args)]), dict(zip(kwargs, new[len(args) :], strict=True))

                self._program = trace_program(self._fun, arrays, rebuild)
                body = rewriting.factored(self._program.closed.graph)
                if max(a.size for a in arrays) > _MOST_OF_MATRIX and loop_matrices.is_factorizing(body):
                    self._is_hopeless = True
                    return
                directly = body.module.forward
                self._whole = native_graph.Whole(body, self._fun.__name__, when_long=directly, with_host=directly)
            self._run = self._whole.run()
        except Exception:  # some look at values, which a trace has not; the call itself has succeeded
            self._is_hopeless = True
