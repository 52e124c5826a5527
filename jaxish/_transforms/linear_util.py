"""Functions with transformations around them, as `jax.extend.linear_util` describes them.

A transformation is a function `gen(f, *static, *args, **kwargs)` that calls `f`; one with an auxiliary result takes a
store after `f`, and puts the result there. A `WrappedFun` is a function in a stack of these; two that compute the same
are equal, so that what is derived of them can be kept (`cache`). The older kind of transformation is a generator: it
yields arguments for `f`, is sent the answer and yields what becomes of it.
"""

import functools
import time
import warnings
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from .._core import config
from .._jaxprs.ir import DebugInfo
from .flat import name_of


class StoreException(Exception):
    """A store was read before it was written, or written twice."""


_EMPTY: Any = object()


class Store:
    """A place for one value, written once."""

    def __init__(self) -> None:
        self._val: Any = _EMPTY

    def store(self, val: Any) -> None:
        """Write the value. Raises `StoreException` where there is one."""
        if self:
            raise StoreException("Store occupied")
        self._val = val

    def reset(self) -> None:
        """Forget the value."""
        self._val = _EMPTY

    @property
    def val(self) -> Any:
        """The value. Raises `StoreException` where there is none yet."""
        if not self:
            raise StoreException("Store empty")
        return self._val

    def __bool__(self) -> bool:
        return self._val is not _EMPTY


class EqualStore(Store):
    """A place for one value, which may be written again if it is equal."""

    def store(self, val: Any) -> None:
        if self and not bool(self._val == val):
            raise StoreException("Store occupied with not-equal value")
        self._val = val


class WrappedFun:
    """A function `f` with transformations around it; `call_wrapped` calls it."""

    __slots__ = ("debug_info", "f", "f_transformed", "in_type", "params", "stores", "transforms")

    def __init__(
        self,
        f: Callable[..., Any],
        f_transformed: Callable[..., Any],
        transforms: tuple[tuple[Callable[..., Any], tuple[Hashable, ...]], ...],
        stores: tuple[Store | None, ...],
        params: tuple[tuple[str, Hashable], ...],
        in_type: Any,
        debug_info: DebugInfo,
    ) -> None:
        self.f, self.f_transformed, self.transforms, self.stores = f, f_transformed, transforms, stores
        self.params, self.in_type, self.debug_info = params, in_type, debug_info

    @property
    def __name__(self) -> str:
        return name_of(self.f)

    def wrap(
        self, gen: Callable[..., Any], gen_static_args: tuple[Hashable, ...], out_store: Store | None
    ) -> "WrappedFun":
        """Return the function with one more transformation outside of the others."""
        given = (self.f_transformed,) if out_store is None else (self.f_transformed, out_store)
        transformed = functools.partial(gen, *given, *gen_static_args)
        transforms, stores = ((gen, gen_static_args), *self.transforms), (out_store, *self.stores)
        return WrappedFun(self.f, transformed, transforms, stores, self.params, None, self.debug_info)

    def populate_stores(self, stores: Sequence[Store | None]) -> None:
        """Write the values of the stores of an equal function into those of this one."""
        for own, other in zip(self.stores, stores, strict=True):
            if own is not None and other is not None:
                own.store(other.val)

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function through its transformations."""
        return self.f_transformed(*args, **kwargs)

    def replace_debug_info(self, dbg: DebugInfo) -> "WrappedFun":
        """Return the function with other information for messages."""
        return WrappedFun(self.f, self.f_transformed, self.transforms, self.stores, self.params, self.in_type, dbg)

    def with_unknown_names(self) -> "WrappedFun":
        """Return the function without the paths of its arguments and results."""
        return self.replace_debug_info(self.debug_info.with_unknown_names())

    def _key(self) -> tuple[Any, ...]:
        return self.f, self.transforms, self.params, self.in_type, self.debug_info

    def __hash__(self) -> int:
        return hash(self._key())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WrappedFun) and self._key() == other._key()

    def __repr__(self) -> str:
        steps = [f"{i}   : {name_of(gen)}   {args}" for i, (gen, args) in enumerate(self.transforms)]
        return "\n".join(["Wrapped function:", *steps, f"Core: {name_of(self.f)}", ""])


def wrap_init(
    f: Callable[..., Any], params: dict[str, Any] | None = None, *, debug_info: DebugInfo | None = None
) -> WrappedFun:
    """Return a function as a `WrappedFun` without transformations; `params` are keyword arguments of each call."""
    if debug_info is None:
        warnings.warn(
            "linear_util.wrap_init is missing a DebugInfo object; construct it by api_util.debug_info().",
            DeprecationWarning,
            stacklevel=2,
        )
        debug_info = DebugInfo("missing_debug_info", "<missing_debug_info>", None, None)
    given = tuple(sorted((params or {}).items()))
    return WrappedFun(
        f, functools.partial(f, **dict(given)), (), (), given, None, debug_info._replace(result_paths=None)
    )


def _in_two_calls(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let the first argument be given alone: the function is a decorator then."""

    @functools.wraps(function)
    def outer(gen: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return (
            function(gen, *args, **kwargs) if args or kwargs else functools.wraps(gen)(functools.partial(function, gen))
        )

    return outer


@_in_two_calls
def transformation2(gen: Callable[..., Any], fun: WrappedFun, *gen_static_args: Hashable) -> WrappedFun:
    """Put the transformation `gen(f, *gen_static_args, *args, **kwargs)` around `fun`."""
    return fun.wrap(gen, gen_static_args, None)


@_in_two_calls
def transformation_with_aux2(
    gen: Callable[..., Any],
    fun: WrappedFun,
    *gen_static_args: Hashable,
    use_eq_store: bool = False,
    unk_names: bool = False,
) -> tuple[WrappedFun, Callable[[], Any]]:
    """Put `gen(f, store, *gen_static_args, *args, **kwargs)` around `fun`; return it and what reads the store."""
    store = EqualStore() if use_eq_store else Store()
    wrapped = fun.wrap(gen, gen_static_args, store)
    return (wrapped.with_unknown_names() if unk_names else wrapped), lambda: store.val


@functools.cache
def _by_generator(gen: Callable[..., Any], count: int) -> Callable[..., Any]:
    def transformed(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        steps = gen(*args, **kwargs)
        inner_args, inner_kwargs = next(steps)
        return steps.send(f(*inner_args, **inner_kwargs))

    def with_aux(f: Callable[..., Any], store: Store, *args: Any, **kwargs: Any) -> Any:
        answer, aux = transformed(f, *args, **kwargs)
        store.store(aux)
        return answer

    return (transformed, with_aux)[count]


@_in_two_calls
def transformation(gen: Callable[..., Any], fun: WrappedFun, *gen_static_args: Hashable) -> WrappedFun:
    """Put a transformation around `fun` that is written as a generator."""
    return fun.wrap(_by_generator(gen, 0), gen_static_args, None)


@_in_two_calls
def transformation_with_aux(
    gen: Callable[..., Any], fun: WrappedFun, *gen_static_args: Hashable
) -> tuple[WrappedFun, Callable[[], Any]]:
    """Put a transformation around `fun` that is written as a generator and yields a pair; return it and the second part."""
    store = Store()
    return fun.wrap(_by_generator(gen, 1), gen_static_args, store), lambda: store.val


def merge_linear_aux(aux1: Callable[[], Any], aux2: Callable[[], Any]) -> tuple[bool, Any]:
    """Return whether the first of two stores has the value, and the value. Raises `StoreException` unless one has it."""
    found = []
    for first, aux in ((True, aux1), (False, aux2)):
        try:
            found.append((first, aux()))
        except StoreException:
            continue
    if len(found) != 1:
        raise StoreException("neither store occupied" if not found else "both stores occupied")
    return found[0]


def cache(call: Callable[..., Any], *, explain: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Return `call(fun, *args)` such that it computes once for equal functions, arguments and configuration.

    `explain(fun, is_first_use, cache, key, seconds)` is called where it computes while `jax_explain_cache_misses` is set.
    """
    kept: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()

    @functools.wraps(call)
    def memoized(fun: WrappedFun, *args: Hashable) -> Any:
        first_use = fun.f not in kept
        answers = kept.setdefault(fun.f, {})
        key = fun.transforms, fun.params, fun.in_type, args, config.state()
        if key in answers:
            answer, stores = answers[key]
            fun.populate_stores(stores)
            return answer
        start = time.monotonic()
        answer = call(fun, *args)
        if explain is not None and config.explain_cache_misses.value:
            explain(fun, first_use, answers, key, time.monotonic() - start)
        answers[key] = answer, fun.stores
        return answer

    memoized.cache_clear = kept.clear  # pyright: ignore
    memoized.evict_function = lambda f: kept.pop(f, None)  # pyright: ignore
    return memoized
