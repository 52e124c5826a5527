"""Statements over the same rows of large arrays as one loop over blocks of rows, which several threads share.

What one statement makes of a block is in the cache when the next one reads it, and where nothing else reads it there is
memory for a block only. A row is what one value of the outermost index, i0, has of each array. Statements may be made
block by block if what they read of each other's results is of the row that they are at.
"""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .loop_operators import C_TYPES

_IN_BLOCK = 2048  # elements of an array: a processor's first cache holds some arrays of a block
_MOST_IN_ROW = 8 * _IN_BLOCK
_FEW = 4 * _IN_BLOCK  # elements, for which blocks are not worth it
_SHARED_OUT = 1 << 17  # elements that are computed, from which on it pays to start threads
_MOST_LOCAL = 1 << 18  # bytes of a block's own arrays: a thread's stack may be small

_OUTER = re.compile(r"for \(int i0 = 0; i0 < (\d+); \+\+i0\) ")
_INNER = re.compile(r"for \(int (i\d+) = 0; \1 < (\d+); \+\+\1\) ")
_STORE = re.compile(r"(\w+)\[([^\[\]]*)\] = ")
_COUNT = re.compile(r"(?:; \w+ < |\bfolded<)(\d+)")
_FOLD = re.compile(r"(\w+)\[0\] = folded<(\d+)>\(&(\w+)\[(?:\(0\)\*\d+\+)*0\], (\[\][^{]*\{[^}]*\})\)(.*);")
_NUMBER = re.compile(r"const [\w<>]+ \w+ = [^;]*;")
_ARRAY = re.compile(r"(?P<kind>[\w<>]+)(?:\* __restrict__ const)? (?P<name>v\d+)(?:\[\d+\]| = (?P<place>.*));")
_SIZES = {kind: dtype.itemsize for dtype, kind in C_TYPES.items()}


@dataclass(frozen=True)
class Blocks:
    """The statements of a function, and which share of what its loops do is done in blocks."""

    lines: list[str]
    share: float

    @property
    def are_parallel(self) -> bool:
        """Whether there are loops that `threads` share."""
        return any("num_threads(threads)" in line for line in self.lines)


def blocked(lines: Sequence[str]) -> Blocks:
    """Return the statements of a function, those over the same rows block by block."""
    last = {name[0]: number for number, line in enumerate(lines) for name in re.finditer(r"\bv\d+\b", line)}
    found: list[str] = []
    group, declared, within = _Group(), [], 0

    def end(number: int) -> None:
        nonlocal group, declared, within
        unread = [name for name in group.made if last.get(name, number) < number]
        within += group.work if group.is_worth_it else 0
        found.extend(group.text(declared, unread) if group.is_worth_it else [*declared, *group.lines])
        group, declared = _Group(), []

    for number, line in enumerate(lines):
        member = _Rows.of(line) or _Fold.of(line)
        if member is not None and group.takes(member):
            continue
        is_moved = (_NUMBER.fullmatch(line) or _ARRAY.fullmatch(line)) and not any(_uses(line, group.made))
        if is_moved:
            declared.append(line)
            continue
        end(number)
        if member is None or not group.takes(member):
            found.append(line)
    end(len(lines))
    return Blocks(found, within / max(sum(map(_work, lines)), 1))


def _work(line: str) -> int:
    """Return how many elements the loops of a statement read or set."""
    return math.prod(map(int, _COUNT.findall(line)))


@dataclass(frozen=True)
class _Rows:
    """A statement in loops that sets `each` elements of its target for each of `count` values of i0."""

    count: int
    each: int
    target: str
    line: str

    @property
    def work(self) -> int:
        """How many elements are read or set."""
        return _work(self.line)

    @staticmethod
    def of(line: str) -> "_Rows | None":
        outer = _OUTER.match(line)
        if outer is None:
            return None
        place, each = outer.end(), 1
        while inner := _INNER.match(line, place):
            place, each = inner.end(), each * int(inner[2])
        store = _STORE.match(line, place)
        if store is None or re.search(rf"\b{store[1]}\b", line[store.end() :]):
            return None
        is_row = re.fullmatch("i0" if each == 1 else rf"\(i0\)\*{each}\+.*", store[2])
        return _Rows(int(outer[1]), each, store[1], line) if is_row else None

    @property
    def size(self) -> int:
        """The elements of the target."""
        return self.count * self.each

    def keeps_to_rows(self, arrays: Mapping[str, int]) -> bool:
        """Tell whether what is read of these arrays, of so many elements, is of the row that is set."""
        for name in _uses(self.line, arrays):
            place = re.match(r"\[(?:i0|\(i0\)\*(\d+)\+[^\[\]]*)\]", self.line[name.end() :])
            if place is None or arrays[name[0]] != self.count * int(place[1] or 1):
                return False
        return True

    def in_block(self, rows: int, local: Collection[str]) -> str:
        """Return the statement for the rows of a block, which are numbered from `first` to `end`."""
        of_row = self.count // rows
        first, end = _times("first", of_row), _times("end", of_row)
        text = _OUTER.sub(f"for (int i0 = {first}; i0 < {end}; ++i0) ", self.line, count=1)
        for name in local:
            text = re.sub(rf"\b{name}\[(i0\b|\(i0)", rf"{name}[\1-{first}", text)
        body = re.search(r"\w+\[[^\[\]]*\] = ", text)
        assert body is not None
        innermost = text.rindex("for (", 0, body.start())
        # No result overlaps with what is read: of many arrays GCC would not find that out as the code runs.
        return f'{text[:innermost]}_Pragma("GCC ivdep") {text[innermost:]}'


@dataclass(frozen=True)
class _Fold:
    """A statement that folds all elements of an array into one."""

    target: str
    count: int
    source: str
    function: str
    rest: str
    line: str

    size = 0  # no row has any of the target

    @property
    def work(self) -> int:
        """How many elements are read."""
        return self.count

    @staticmethod
    def of(line: str) -> "_Fold | None":
        found = _FOLD.fullmatch(line)
        return _Fold(found[1], int(found[2]), found[3], found[4], found[5], line) if found else None

    def keeps_to_rows(self, arrays: Mapping[str, int]) -> bool:
        """Tell whether all elements are folded, if it is one of these arrays."""
        return arrays.get(self.source, self.count) == self.count

    def in_block(self, rows: int, local: Collection[str]) -> str:
        """Return the statement that folds a block."""
        of_row = self.count // rows
        start = "0" if self.source in local else _times("first", of_row)
        count = _times("(end-first)", of_row)
        return f"{self.target}_of[block] = folded_part(&{self.source}[{start}], {count}, {self.function});"

    def of_blocks(self, count: int) -> str:
        """Return the statement that folds what has become of each block."""
        return f"{self.target}[0] = folded_part(&{self.target}_of[0], {count}, {self.function}){self.rest};"


def _times(text: str, number: int) -> str:
    return text if number == 1 else f"{text}*{number}"


def _uses(text: str, names: Collection[str]) -> Iterator[re.Match[str]]:
    return re.finditer(rf"\b(?:{'|'.join(names)})\b", text) if names else iter(())


@dataclass
class _Group:
    """Statements over the same rows, one after the other, and how many elements the arrays have that they make."""

    rows: int = 0
    members: list[_Rows | _Fold] = field(default_factory=list)
    made: dict[str, int] = field(default_factory=dict)
    largest: int = 0  # number of elements that a statement reads or sets

    def takes(self, member: _Rows | _Fold) -> bool:
        """Take a statement if it may be one of the group; tell whether it is."""
        rows = math.gcd(self.rows, member.count)
        fits = rows in (self.rows, member.count) if self.members else member.work >= _FEW
        made, largest = {**self.made, member.target: member.size}, max(self.largest, member.work)
        if not fits or largest > _MOST_IN_ROW * rows or not member.keeps_to_rows(made):
            return False
        if any(any(_uses(m.line, [member.target])) for m in self.members):
            return False
        self.rows, self.made, self.largest = rows, made, largest
        self.members.append(member)
        return True

    @property
    def lines(self) -> list[str]:
        """The statements, one after the other."""
        return [member.line for member in self.members]

    @property
    def work(self) -> int:
        """How many elements the statements read or set."""
        return sum(member.work for member in self.members)

    @property
    def _height(self) -> int:
        """The rows of a block."""
        return max(_IN_BLOCK * self.rows // max(self.largest, 1), 1)

    @property
    def is_worth_it(self) -> bool:
        """Whether there are several blocks, and several statements or threads."""
        return self.rows > self._height and (len(self.members) > 1 or self.work >= _SHARED_OUT)

    def text(self, declared: Sequence[str], unread: Collection[str]) -> list[str]:
        """Return the statements behind what is `declared` before them; what is `unread` is not read after them."""
        height = self._height
        count = -(-self.rows // height)
        kinds = {found["name"]: found["kind"] for line in declared if (found := _ARRAY.fullmatch(line))}
        local = dict(self._local(declared, unread, height))
        folds = [member for member in self.members if isinstance(member, _Fold)]
        shared = ["#pragma omp parallel for num_threads(threads) if(threads > 1)"] if self.work >= _SHARED_OUT else []
        return [
            *(line for line in declared if line not in local.values()),
            *(f"{kinds[fold.target]} {fold.target}_of[{count}];" for fold in folds),
            *shared,
            f"for (int block = 0; block < {count}; ++block) {{",
            f"const int first = block*{height}, end = block == {count - 1} ? {self.rows} : first+{height};",
            *(f"{kinds[name]} {name}[{self.made[name] // self.rows * height}];" for name in local),
            *(member.in_block(self.rows, local) for member in self.members),
            "}",
            *(fold.of_blocks(count) for fold in folds),
        ]

    def _local(self, declared: Sequence[str], unread: Collection[str], height: int) -> Iterator[tuple[str, str]]:
        """Yield the arrays of which there is but a block, and the lines that declare them."""
        room = _MOST_LOCAL
        for line in declared:
            found = _ARRAY.fullmatch(line)
            if found and found["name"] in unread and "memory" in (found["place"] or "") and self.made[found["name"]]:
                room -= self.made[found["name"]] // self.rows * height * _SIZES[found["kind"]]
                if room >= 0:
                    yield found["name"], line
