"""Arrays whose elements are no numbers (random keys): moved like any others, but not computed with.

An extended array is an `Array` of a subclass that stores each element in several numbers, its words. `words` gives
them as plain arrays of the extended array's shape. A function that only moves elements is decorated with
`moves_elements`: it is then applied to the words one by one, and the results are put together again. Every other
function raises `TypeError`, from promotion.py, which knows extended arrays by their class.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from . import tree
from .array import Array


class ExtendedOperandError(TypeError):
    """An extended array met a function of numbers."""


class ExtendedArray(Array):
    """Base class of arrays whose elements are no numbers."""

    __slots__ = ()

    def words(self) -> list[Array]:
        """Return the words of all elements: plain arrays of this array's shape."""
        raise NotImplementedError

    def with_words(self, words: Sequence[Array]) -> "ExtendedArray":
        """Return the extended array of this kind that has these words."""
        raise NotImplementedError


def refuse(function: str, args: Sequence[Any]) -> None:
    """Raise `TypeError` where one of `args` is an extended array."""
    if any(isinstance(x, ExtendedArray) for x in args):
        names = ", ".join(_dtype_name(x) for x in args)
        plural = "s" if len(args) > 1 else ""
        raise ExtendedOperandError(f"{function} does not accept dtype{plural} {names}.")


def _dtype_name(x: Any) -> str:
    return (
        x.dtype.name
        if hasattr(x, "dtype")
        else {bool: "bool", int: "int32", float: "float32"}.get(type(x), str(type(x)))
    )


F = TypeVar("F", bound=Callable[..., Any])


def moves_elements(*data: int) -> Callable[[F], F]:
    """Decorator for a function that only moves the elements of its arguments at the positions `data`.

    An argument may be a sequence of arrays. Raises `TypeError` where some of them are extended and others are not.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def moved(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except ExtendedOperandError:
                return _by_words(function, args, kwargs, data)

        return moved  # pyright: ignore

    return decorate


def _by_words(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], data: Sequence[int]) -> Any:
    leaves, spec = tree.flatten([args[i] for i in data if i < len(args)])
    if not all(isinstance(leaf, ExtendedArray) for leaf in leaves) or len({leaf.kind for leaf in leaves}) != 1:
        names = ", ".join(_dtype_name(leaf) for leaf in leaves)
        raise ValueError(f"{function.__name__} got dtypes {names}; extended dtypes do not take part in type promotion.")
    words = [leaf.words() for leaf in leaves]
    results = []
    for index in range(len(words[0])):
        replaced = list(args)
        for position, value in zip(data, spec.unflatten([w[index] for w in words]), strict=False):
            replaced[position] = value
        results.append(function(*replaced, **kwargs))
    parts, out = tree.flatten(results[0])
    others = [tree.flatten(r)[0] for r in results]
    return out.unflatten(leaves[0].with_words([o[i] for o in others]) for i in range(len(parts)))


def compares_elements(combine: str) -> Callable[[F], F]:
    """Decorator for a comparison that extended arrays have too: of "all" words, or of "any"."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def compared(x: Any, y: Any) -> Any:
            try:
                return function(x, y)
            except ExtendedOperandError:
                if not (isinstance(x, ExtendedArray) and isinstance(y, ExtendedArray) and x.kind == y.kind):
                    raise
                parts = [function(a, b)._tensor for a, b in zip(x.words(), y.words(), strict=True)]
                joined = functools.reduce(torch.logical_and if combine == "all" else torch.logical_or, parts)
                return Array(joined)

        return compared  # pyright: ignore

    return decorate
