"""Symbolic shapes as texts: `(a, 2*b + 1, floordiv(a, 4), _, ...)`.

shape := "(" shape ")" | [size {"," size}] [","]      size := "..." | "_" | sum
sum := ["+" | "-"] product {("+" | "-") product}      product := power {"*" power}       power := item ["^" number]
item := ["-"] number | name | ("mod" | "floordiv" | "max" | "min") "(" sum "," sum ")"
"""

import re
from collections.abc import Sequence
from typing import Any, NoReturn

from .dimensions import Dimension, extremum, operation, variable
from .terms import OPERATIONS

_TOKEN = re.compile(r"\s*(?P<token>\.\.\.|\d+(?:\.\d+)?|[^\W\d]\w*|\S)")


class Parser:
    """Reads one text; `like` is the shape that fills `_` and `...`, and `scope` that of the variables."""

    def __init__(self, spec: str, shown: str, scope: Any, like: Sequence[int | None] | None = None) -> None:
        self._spec, self._shown, self._scope, self._like = spec, shown, scope, like
        self._tokens = [(m["token"], m.start("token")) for m in _TOKEN.finditer(spec)]
        self._place = 0
        self._sizes: list[Dimension] = []

    def shape(self) -> tuple[Dimension, ...]:
        """Return the sizes that the text says. Raises `ValueError` where it is no shape."""
        self._shape()
        if self._peek():
            self._expected("the end")
        return tuple(self._sizes)

    def _shape(self) -> None:
        if self._accept("("):
            self._shape()
            self._expect(")")
            return
        while self._peek() not in ("", ")"):
            if self._peek() == "...":
                self._fill(self._like_from(len(self._sizes)))
                self._accept("...")
                return
            if self._peek() == "_":
                self._fill(self._like_from(len(self._sizes) + 1)[:1])
                self._accept("_")
            else:
                self._append(self._sum())
            if self._peek() not in ("", ")"):
                self._expect(",")

    def _like_from(self, count: int) -> Sequence[int | None]:
        if self._like is None:
            self._fail("spec contains ... but no 'like' shape was given")
        if len(self._like) < count:
            self._fail(
                f"cannot resolve placeholder '{self._peek()}' because we parsed {len(self._sizes)} already and 'like' shape has "
                f"only {len(self._like)} dimensions"
            )
        return self._like[len(self._sizes) :]

    def _fill(self, sizes: Sequence[int | None]) -> None:
        for size in sizes:
            if size is None:
                self._fail(f"unexpected placeholder for unknown dimension; like={self._like}")
            self._append(size)

    def _append(self, size: Dimension) -> None:
        if isinstance(size, int) and self._like is not None and self._like[len(self._sizes)] != size:
            self._fail(f"different size {size} for known dimension; like={self._like}")
        self._sizes.append(size)

    # -- sizes -----------------------------------------------------------------------------------------------------

    def _sum(self) -> Dimension:
        negative = self._accept("-")
        if not negative:
            self._accept("+")
        total: Dimension = 0
        while True:
            product = self._product()
            total = total - product if negative else total + product
            if self._peek() not in ("+", "-"):
                return total
            negative = self._take() == "-"

    def _product(self) -> Dimension:
        found = self._power()
        while self._peek() not in ("", ")", ",", "+", "-"):
            self._expect("*")
            found = found * self._power()
        return found

    def _power(self) -> Dimension:
        found = self._item()
        return found ** self._number() if self._accept("^") else found

    def _item(self) -> Dimension:
        token = self._peek()
        if token == "-":
            self._take()
            return -self._number()
        if token.isidentifier():
            self._take()
            return self._operation(token) if token in OPERATIONS else variable(token, self._scope)
        return self._number()

    def _operation(self, name: str) -> Dimension:
        self._expect("(")
        first = self._sum()
        self._expect(",")
        second = self._sum()
        self._expect(")")
        make = extremum if name in ("max", "min") else operation
        return make(name, first, second, self._scope)

    def _number(self) -> int:
        token = self._peek()
        if not token[:1].isdigit():
            self._expected("a name, a number or -")
        if not token.isdecimal():
            self._fail(f"expecting integer, found {token}")
        return int(self._take())

    # -- tokens ----------------------------------------------------------------------------------------------------

    def _peek(self) -> str:
        return self._tokens[self._place][0] if self._place < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._place += 1
        return token

    def _accept(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self._place += 1
        return True

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            self._expected(repr(token))

    def _expected(self, what: str) -> NoReturn:
        self._fail(f"expecting {what} but found {self._peek() or 'the end'}")

    def _fail(self, detail: str) -> NoReturn:
        at = self._tokens[self._place][1] if self._place < len(self._tokens) else len(self._spec)
        raise ValueError(
            f"syntax error in symbolic shape {self._shown} in dimension {len(self._sizes)}: {detail}. "
            f"Parsed '{self._spec[:at]}', remaining '{self._spec[at:]}'."
        )
