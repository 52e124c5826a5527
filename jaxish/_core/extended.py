"""Arrays whose elements are no numbers (random keys): moved like any others, but not computed with.

An extended array is an `Array` of a subclass that stores each element in several numbers, its words. `words` gives
them as plain arrays of the extended array's shape. A function that only moves elements is decorated with
`moves_elements`: it is then applied to the words one by one, and the results are put together again; so is a function
that fills an array with a number (`fills_elements`), and the results of a comparison are joined (`compares_elements`).
Every other function raises `ExtendedOperandError`, from promotion.py, which knows extended arrays by their class.

The decorators look at the arguments only after a function has failed, so numbers pay nothing for them.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch

from . import graph, tree
from .array import Array, default_torch_device, to_numpy
from .dtypes import ExtendedDType, canonicalize_dtype, float0


class ExtendedOperandError(TypeError, ValueError):
    """An extended array met a function of numbers. JAX raises one or the other of its bases, by the function."""


class ExtendedArray(Array):
    """Base class of arrays whose elements are no numbers."""

    __slots__ = ()

    def words(self) -> list[Array]:
        """Return the words of all elements: plain arrays of this array's shape."""
        raise NotImplementedError

    def with_words(self, words: Sequence[Array]) -> "ExtendedArray":
        """Return the extended array of this kind that has these words."""
        raise NotImplementedError

    def joined(self) -> "ExtendedArray":
        """Return this array as a part of one that is made of several."""
        return self

    def sliced(self, positions: Callable[[], np.ndarray]) -> "ExtendedArray":
        """Return this array as one of which the elements at these flat positions are taken."""
        return self


def blank(dtype: Any, shape: Sequence[int] = ()) -> ExtendedArray:
    """Return an array of an extended dtype whose words are 0; it takes the memory of one element."""
    word = torch.zeros((), dtype=torch.uint32, device=default_torch_device())
    return dtype.wrap(word.expand(*shape, *dtype.element_shape))


def refuse(function: str, args: Sequence[Any]) -> None:
    """Raise `TypeError` where one of `args` is an extended array."""
    if any(isinstance(x, ExtendedArray) for x in args):
        names = [_dtype_name(x) for x in args]
        names = names[:1] if len({*names}) == 1 else names
        raise ExtendedOperandError(f"{function} does not accept dtype{'s' * (len(names) > 1)} {', '.join(names)}.")


def _dtype_name(x: Any) -> str:
    return (
        x.dtype.name
        if hasattr(x, "dtype")
        else {bool: "bool", int: "int32", float: "float32"}.get(type(x), str(type(x)))
    )


F = TypeVar("F", bound=Callable[..., Any])


def moves_elements(*data: int, updates: bool = False, slices: bool = False) -> Callable[[F], F]:
    """Decorator for a function that only moves the elements of its arguments at the positions `data`.

    `updates`: it writes the others into the first of them; `slices`: it takes a slice of the only one.

    An argument may be a sequence of arrays. Where some are extended, all have to be, of one dtype, which is also the
    only one that the function's argument `dtype` may ask for.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def moved(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except TypeError as error:
                return _by_words(function, args, kwargs, data, updates, slices, error)

        return moved  # pyright: ignore

    return decorate


def _by_words(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], data: Sequence[int], updates: bool,
    slices: bool, error: TypeError,
) -> Any:  # fmt: skip
    bound = _bound(function, args, kwargs, error)
    names = [list(bound.signature.parameters)[i] for i in data]
    leaves, spec = tree.flatten([bound.arguments[name] for name in names])
    wanted = next((name for name in ("dtype", "new_dtype") if bound.arguments.get(name) is not None), None)
    if not any(isinstance(leaf, ExtendedArray) for leaf in leaves):
        if wanted is None or not isinstance(bound.arguments[wanted], ExtendedDType):
            raise error
        raise ExtendedOperandError(f"{function.__name__} cannot make {bound.arguments[wanted]} of numbers.") from None
    if not all(isinstance(leaf, ExtendedArray) for leaf in leaves) or len({leaf.kind for leaf in leaves}) != 1:
        found = ", ".join(_dtype_name(leaf) for leaf in leaves)
        raise ExtendedOperandError(
            f"{function.__name__} got dtypes {found}; extended dtypes do not take part in type promotion."
        )
    if len(leaves) > 1:
        leaves = leaves[:updates] + _joined(leaves[updates:])
    if slices:
        bound.arguments[names[0]] = np.arange(leaves[0].size, dtype=np.int32).reshape(leaves[0].shape)
        leaves = [leaves[0].sliced(lambda: _outside_traces(function, bound))]
    words = [leaf.words() for leaf in leaves]
    if wanted is not None:
        _check_same(leaves[0].dtype, bound.arguments[wanted])
        bound.arguments[wanted] = words[0][0].dtype
    results = []
    for index in range(len(words[0])):
        bound.arguments.update(zip(names, spec.unflatten([w[index] for w in words]), strict=True))
        results.append(function(*bound.args, **bound.kwargs))
    return _put_together(leaves[0], results)


def _joined(leaves: Sequence[ExtendedArray]) -> list[ExtendedArray]:
    if graph.is_tracing():
        return [leaf.joined() for leaf in leaves]
    # Outside of traces JAX joins copies: an array may occur twice.
    parts = {i: leaf.joined() for i, leaf in {id(leaf): leaf for leaf in leaves}.items()}
    return [parts[id(leaf)] for leaf in leaves]


def _outside_traces(function: Callable[..., Array], bound: inspect.BoundArguments) -> np.ndarray:
    with graph.suspended():
        return to_numpy(function(*bound.args, **bound.kwargs)._tensor)


def _bound(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], error: TypeError
) -> inspect.BoundArguments:
    try:
        bound = _signature(function).bind(*args, **kwargs)
    except TypeError:  # the call that failed did not fit the signature
        raise error from None
    bound.apply_defaults()
    return bound


_signature = functools.cache(inspect.signature)


def _check_same(found: Any, wanted: Any) -> None:
    if found != wanted:
        name = wanted if isinstance(wanted, ExtendedDType) else canonicalize_dtype(wanted)
        raise ExtendedOperandError(f"Cannot convert_element_type from {found} to {name}: keys are no numbers.")


def _put_together(like: ExtendedArray, results: Sequence[Any]) -> Any:
    parts, out = tree.flatten(results[0])
    others = [tree.flatten(r)[0] for r in results]
    return out.unflatten(like.with_words([o[i] for o in others]) for i in range(len(parts)))


def fills_elements(value: str = "", like: str = "") -> Callable[[F], F]:
    """Decorator for a function that makes an array of one value, by an argument `dtype` that may be extended.

    `value` and `like` name the arguments that give the value, a number for all words or extended itself, and an array
    whose dtype is meant where `dtype` is None.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def filled(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except TypeError as error:
                return _filled(function, args, kwargs, value, like, error)

        return filled  # pyright: ignore

    return decorate


def _is_float0(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype == float0


def _filled(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], value: str, like: str, error: TypeError
) -> Any:
    named = [getattr(x, "dtype", x) for x in (*args, *kwargs.values())]
    if not any(isinstance(d, ExtendedDType) or _is_float0(d) for d in named):
        raise error
    bound = _bound(function, args, kwargs, error)
    given = bound.arguments
    template, number = given.get(like), given.get(value)
    dtypes = (given["dtype"], getattr(template, "dtype", None), getattr(number, "dtype", None))
    dtype = next((d for d in dtypes if d is not None), None)
    if dtype is None:  # the extended array was given for something else
        raise error
    if _is_float0(dtype):
        return np.zeros(np.shape(template) if template is not None else given["shape"], dtype)
    if isinstance(number, ExtendedArray):
        _check_same(number.dtype, dtype)
    if isinstance(template, ExtendedArray):
        given[like] = template.words()[0]
    elif template is not None:
        given[like] = np.broadcast_to(np.uint32(0), np.shape(template))
    if not isinstance(dtype, ExtendedDType):
        return function(*bound.args, **bound.kwargs)
    given["dtype"] = np.uint32
    element = blank(dtype)
    results = []
    for index in range(len(element.words())):
        if isinstance(number, ExtendedArray):
            given[value] = number.words()[index]
        results.append(function(*bound.args, **bound.kwargs))
    return element.with_words(results)


def compares_elements(combine: str) -> Callable[[F], F]:
    """Decorator for a test that extended arrays have too: what holds of "all" words, or of "any"."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def compared(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except ExtendedOperandError:
                if not all(isinstance(x, ExtendedArray) and x.kind == args[0].kind for x in args):
                    raise
                parts = [function(*words, **kwargs)._tensor for words in zip(*(x.words() for x in args), strict=True)]
                joined = functools.reduce(torch.logical_and if combine == "all" else torch.logical_or, parts)
                return Array(joined)

        return compared  # pyright: ignore

    return decorate
