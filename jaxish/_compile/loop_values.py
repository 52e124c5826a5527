"""Tensors of a native loop: what the C++ of one element is, and where it lies."""

import ast
import math
import re
from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace

import torch


class Unsupported(Exception):
    """The body has something that this module does not write out."""


class CallsHost(Unsupported):
    """The body calls Python."""


# Calls of functions: the names of C++'s end in `_`, those that the prelude makes of such calls are listed.
_CALL = re.compile(r"_\(|std::(?!abs)|(?:logaddexp2?|xlogy|power|magnitude|modulus|quotient|remainder_of)\(")


@dataclass(frozen=True)
class Update:
    """A statement that sets elements of a carry where they lie: each, or those whose index meets a condition.

    The index is that of the shape in which the carry was seen; `place` says where its elements lie.
    """

    statement: Callable[[str | None], str]
    index: tuple[str, ...]  # the variables of the statement that are an element's
    place: Callable[[Sequence[str]], str]

    @property
    def text(self) -> str:
        """The statement that sets each."""
        return self.statement(None)

    def where(self, holds: Callable[[Sequence[str]], str]) -> "Update":
        """Return the update of those elements for whose index a condition holds."""
        test = f"({holds(self.index)})"
        return replace(self, statement=lambda also: self.statement(test if also is None else f"{test} && {also}"))


@dataclass(frozen=True)
class Value:
    """A tensor in C++: shape, dtype, and the expression of one element at given index expressions.

    What `is_held` is in memory: its elements are read, not computed. What is a carry, in whatever order of its dimensions,
    has a `place`: the expression of where an element is kept. Some may have been set since: `updates` are the statements
    that set them there, when nothing is read from there any more. Of an array that was copied so that elements could be
    set, `copy` says where an element is: more are set there, if nothing else reads it. The `exponential` is one that was
    computed on the way: that of a logarithm of probabilities. A carry that may be changed at once is a copy, too.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    load: Callable[[Sequence[str]], str]
    is_held: bool = False
    place: Callable[[Sequence[str]], str] | None = None
    updates: tuple[Update, ...] = ()
    memory: str | None = None  # from where on the elements lie in order, in a carry
    spare: int | None = None  # the dimension whose last index is none of the carry's
    has_room: bool = False  # for what is set at that index
    copy: Callable[[Sequence[str]], str] | None = None
    exponential: "Value | None" = None

    def seen(
        self, shape: tuple[int, ...], index: Callable[[Sequence[str]], Sequence[str]], in_order: bool = False
    ) -> "Value":
        """Return the same elements in another shape; `index` says which index each had, `in_order` that none was moved."""
        load, place, copy, memory = self.load, self.place, self.copy, self.memory if in_order else None
        if self.spare is not None and shape != self._without_spare:
            place = copy = memory = None
        if copy is not None:
            here = lambda i: copy(index(i))  # noqa: E731
            return Value(shape, self.dtype, here, copy=here, place=place and here, memory=memory)
        found = Value(shape, self.dtype, lambda i: load(index(i)), updates=self.updates, memory=memory)
        if memory is not None:
            return replace(found, place=lambda i: f"{memory}[{flat_index(i, shape)}]")
        return found if place is None else replace(found, place=lambda i: place(index(i)))

    def as_it_lies(self) -> "Value":
        """Return a carry whose elements have been set where they lie."""
        place, dim = self.place, self.spare
        assert place is not None
        if dim is None:
            return replace(self, load=place, updates=(), is_held=True)

        def load(index: Sequence[str]) -> str:
            return place([*index[:dim], unless_spare(index[dim], self.shape[dim] - 1), *index[dim + 1 :]])

        return replace(self, load=load, updates=())

    @property
    def _without_spare(self) -> tuple[int, ...]:
        return tuple(n - (d == self.spare) for d, n in enumerate(self.shape))

    @property
    def text(self) -> str:
        """The expression of an element, whose index is i0, i1 and so on."""
        return self.load([f"i{d}" for d in range(len(self.shape))])

    @property
    def takes_long(self) -> bool:
        """Whether an element is a quotient, or calls a function."""
        return "/" in self.text or self.calls

    @property
    def calls(self) -> bool:
        """Whether an element takes a call of a function."""
        return _CALL.search(self.text) is not None

    @property
    def is_read(self) -> bool:
        """Whether an element is read from memory, at a place that is found by multiplying and adding."""
        return re.fullmatch(r"\w+\[[^\[\]/%?]*\]", self.text) is not None

    def is_update_of(self, carry: "Value") -> bool:
        """Tell whether the value is what the carry becomes by `updates`, each element in its place."""
        return self.shape == carry.shape and carry.place is not None and self.lies_as(carry.place, len(carry.shape))

    def lies_as(self, place: Callable[[Sequence[str]], str], rank: int) -> bool:
        """Tell whether each element is where `place` says of its index."""
        index = [f"i{d}" for d in range(len(self.shape))]
        return self.place is not None and rank == len(index) and self.place(index) == place(index)


class _Flat(str):
    """A place in memory that is known to be that of the element at an index: of `parts`, expressions and sizes."""

    parts: list[tuple[str, int]]


def unless_spare(index: str, size: int) -> str:
    """Return an index of what has once more its first slice at the end, as an index of what has not."""
    return f"(({index}) < {size} ? ({index}) : 0)"


def flat_index(index: Sequence[str], shape: Sequence[int]) -> str:
    """Return the place in memory of the element of a contiguous array at these index expressions."""
    parts = [(i, n) for i, n in zip(index, shape, strict=True) if n != 1]
    if len(parts) == 1:
        return parts[0][0]
    terms, stride = [], 1
    for i, n in zip(reversed(index), reversed(shape), strict=True):
        if n != 1:
            terms.append(i if stride == 1 else f"({i})*{stride}")
        stride *= n
    flat = _Flat("+".join(reversed(terms)) or "0")
    flat.parts = parts
    return flat


def in_buffer(name: str, shape: tuple[int, ...], dtype: torch.dtype, is_carry: bool = False) -> Value:
    """Return the array that lies in memory from `name` on; a carry's may be written to at the end of a step."""
    load = lambda i: f"{name}[{flat_index(i, shape)}]"  # noqa: E731
    return Value(shape, dtype, load, is_held=True, place=load if is_carry else None, memory=name if is_carry else None)


def _unflat(flat: str, shape: Sequence[int]) -> list[str]:
    """Return the indices of the element that lies at a place in memory."""
    if isinstance(flat, _Flat) and [n for _, n in flat.parts] == [n for n in shape if n != 1]:
        known = iter(flat.parts)
        return ["0" if n == 1 else next(known)[0] for n in shape]
    index, stride, count = [], math.prod(shape), math.prod(shape)
    for n in shape:
        stride = max(stride // max(n, 1), 1)
        place = flat if stride == 1 else f"({flat})/{stride}"
        index.append("0" if n == 1 else place if n * stride == count else f"({place})%{n}")
    return index


def regrouped(index: Sequence[str], shape: Sequence[int], other: Sequence[int]) -> list[str]:
    """Return where in another shape the element with an index in `shape` is, the order of all elements kept.

    Dimensions whose sizes have the same product in both shapes are taken by themselves.
    """
    found: list[str] = []
    done = first = 0
    for last in range(1, len(shape) + 1):
        count, end = math.prod(shape[first:last]), done + 1
        while end < len(other) and math.prod(other[done:end]) < count:
            end += 1
        if last == len(shape) or (count > 1 and math.prod(other[done:end]) == count):
            end = len(other) if last == len(shape) else end
            found += _unflat(flat_index(index[first:last], shape[first:last]), other[done:end])
            first, done = last, end
    return found if shape else _unflat("0", other)


def broadcast(index: Sequence[str], shape: Sequence[int]) -> list[str]:
    """Return the indices of an array of this shape where it is broadcast to an array with these."""
    tail = index[len(index) - len(shape) :]
    return ["0" if n == 1 else i for i, n in zip(tail, shape, strict=True)]


def loops_over(index: Sequence[str], shape: Sequence[int]) -> str:
    """Return the heads of nested loops that run these index variables over a shape."""
    return "".join(f"for (int {i} = 0; {i} < {n}; ++{i}) " for i, n in zip(index, shape, strict=True))


def is_in_order(x: Value) -> bool:
    """Tell whether the elements of x lie in memory in their order, so that the first one's place is where all begin."""
    return beginning(x) is not None


def beginning(x: Value) -> str | None:
    """Return what an element of x is, up to its place behind the first one's, where they lie in memory in their order."""
    index = [f"i{d}" for d in range(len(x.shape))]
    head = x.load(index).removesuffix(f"{flat_index(index, x.shape)}]")
    is_array = re.fullmatch(r"(\w+|\([\w+*]+\))\[([^\[\]]*\+)?", head) is not None
    return head if is_array and not _uses(head, index) else None


def strides(x: Value, dims: int) -> list[int] | None:
    """Return how far apart elements of x lie in memory whose indices in one of the last `dims` differ by one; None where that varies."""
    index = [f"i{d}" for d in range(len(x.shape))]
    found = re.fullmatch(r"(?:\w+|\([\w+*]+\))\[([^\[\]?:]+)\]", x.load(index))
    last = index[len(index) - dims :]
    slopes = _slopes(ast.parse(found[1], mode="eval").body, last) if found else None
    return None if slopes is None else [slopes[i] for i in last]


def _slopes(place: ast.expr, index: Container[str]) -> Counter[str] | None:
    """Return by how much a place rises with each index; None where that may vary."""
    match place:
        case ast.Name(name) if name in index:
            return Counter([name])
        case ast.BinOp(left, ast.Add(), right):
            slopes = _slopes(left, index), _slopes(right, index)
            return None if None in slopes else slopes[0] + slopes[1]  # pyright: ignore
        case ast.BinOp(left, ast.Mult(), ast.Constant(int(n))):
            slopes = _slopes(left, index)
            return None if slopes is None else Counter({i: slope * n for i, slope in slopes.items()})
    names = (node.id for node in ast.walk(place) if isinstance(node, ast.Name))
    return None if any(name in index for name in names) else Counter()


def nest(index: Sequence[str], shape: Sequence[int], statement: str) -> str:
    """Return a statement within loops over a shape, as few as may be: one where all arrays have its elements in this order."""
    for first in range(len(shape) - 1):
        if sum(n != 1 for n in shape[first:]) < 2:
            break
        rest = in_one_loop(index[first:], shape[first:], statement, index[first])
        if rest is not None:
            return loops_over(index[: first + 1], [*shape[:first], math.prod(shape[first:])]) + rest
    return loops_over(index, shape) + statement


def in_one_loop(index: Sequence[str], shape: Sequence[int], text: str, name: str) -> str | None:
    """Return text with one index variable in place of several; None where some array has the elements in another order."""
    if math.prod(shape) == 1:  # whose one index is no variable
        return None
    rest = re.sub(rf"{re.escape(flat_index(index, shape))}\b", "@", text)
    return None if _uses(rest, index) else rest.replace("@", name)


def _uses(text: str, index: Sequence[str]) -> bool:
    return re.search(rf"\b({'|'.join(index)})\b", text) is not None if index else False
