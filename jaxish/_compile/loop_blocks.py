"""Statements over the same rows of large arrays as one loop over blocks of rows, which several threads share.

What one statement makes of a block is in the cache when the next one reads it, and where nothing else reads it there is
memory for a block only. A row is what one value of the outermost index, i0, has of each array. Statements may be made
block by block if what they read of each other's results is of the row that they are at. Folds over rows are made of parts,
each of some blocks, so that a sum is the same whatever number of threads there is.
"""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .loop_columns import MOST_IN_ROW
from .loop_operators import C_TYPES
from .loop_ranges import has_tests
from .loop_values import in_one_loop

_IN_BLOCK = 2048  # elements of an array: a processor's first cache holds some arrays of a block
_TALL = 16  # times as many rows has a block of which nothing is kept
_FEW = 4 * _IN_BLOCK  # elements, for which blocks are not worth it
_SHARED_OUT = 1 << 17  # elements that are computed, from which on it pays to start threads
_SHARED_PRODUCTS = 1 << 20  # multiplications of many matrices
_MOST_PARTS = 32  # that threads share
_MOST_LOCAL = 1 << 18  # bytes of a block's own arrays, and of parts of folds: a thread's stack may be small

_OUTER = re.compile(r"for \(int i0 = 0; i0 < (\d+); \+\+i0\) ")
_INNER = re.compile(r"for \(int (i\d+) = 0; \1 < (\d+); \+\+\1\) ")
_STORE = re.compile(r"(\w+)\[([^\[\]]*)\] = ")
_ALSO = re.compile(r", \w+\[[^\[\]]*\] = ")  # other elements of the row that a statement sets
_SHARE = "#pragma omp parallel for num_threads(threads) if(threads > 1)"  # what the loop that follows does
_IN_COLUMNS = re.compile(r"for \(int block = 0; block < \d+; \+\+block\) \{ const int first = block % \d+ \* (\d+);")
_OF_EACH = re.compile(r"for \(int (n\d+) = 0; \1 < (\d+); \+\+\1\) product<\w+, (\d+), (\d+), (\d+)\b")
_SORT = re.compile(r"for \(int (n\d+) = 0; \1 < (\d+); \+\+\1\) sort\w*<\w+, (\d+), (\d+)\b")
_COUNT = re.compile(r"(?:; \w+ < |\b(?:folded|place_of_most)<)(\d+)")
_LAMBDA = r"\[\][^{]*\{[^}]*\}"
_FOLD = re.compile(rf"(\w+)\[0\] = folded<(\d+)>\((.*?), ({_LAMBDA}), EACH \{{ return (.*); \}}\)(.*);")
_NUMBER = re.compile(r"const [\w<>]+ (?P<name>\w+) = [^;]*;")
_ARRAY = re.compile(r"(?P<kind>[\w<>]+)(?:\* __restrict__ const)? (?P<name>v\d+)(?:\[\d+\]| = (?P<place>.*));")
_START = re.compile(r"(?:for \(int \w+ = 0; \w+ < \d+; \+\+\w+\) )*(?P<name>\w+)\[[^\[\]]*\] = [^\[\];]*;")
_COPY = re.compile(r"(?:for \(int \w+ = 0; \w+ < \d+; \+\+\w+\) )*\w+\[[^\[\]]*\] = \w+\[[^\[\]]*\];")
_PRODUCT = re.compile(r"product_of_rows<(\d+), (\d+), (\d+)>\((\w+), (.*), (\w+)\);")
_ONTO = re.compile(rf"({_LAMBDA})\((\w+)\[([^\[\]]*)\], (.*)\);")
_SIZES = {kind: dtype.itemsize for dtype, kind in C_TYPES.items()}


@dataclass(frozen=True)
class Blocks:
    """The statements of a function, and which share of what its loops do is done row by row, so that it can be in blocks."""

    lines: list[str]
    share: float

    @property
    def are_parallel(self) -> bool:
        """Whether there are loops that `threads` share."""
        return any("num_threads(threads)" in line for line in self.lines)


def blocked(lines: Sequence[str]) -> Blocks:
    """Return the statements of a function, those over the same rows block by block."""
    last = {name[0]: number for number, line in enumerate(lines) for name in re.finditer(r"\bv\d+\b", line)}
    kinds = {array["name"]: array["kind"] for line in lines if (array := _ARRAY.fullmatch(line))}
    found: list[str] = []
    group, before, within, rest = _Group(kinds), [], 0, 0

    def end(number: int) -> None:
        nonlocal group, within, rest
        unread = [name for name in group.made if last.get(name, number) < number]
        within += group.work
        rest += sum(map(_work_across, before))
        found.extend(group.text(before, unread) if group.is_worth_it else [*before, *group.lines])
        group = _Group(kinds)

    for number, line in enumerate(lines):
        member = _member(line)
        if member is not None and group.takes(member):
            continue
        if _may_come_before(line, group):
            before.append(line)
            continue
        its = _beginning_of(member.target, before, group) if member is not None else []
        before = [text for text in before if text not in its]
        end(number)
        before = its
        if member is None or not group.takes(member):
            found += [*before, *_shared(line), line]
            rest += sum(map(_work_across, before))
            within += _work_in_columns(line) + _work_of_sort(line)
            rest += 0 if member is not None and member.work < _FEW else _work_across(line)
            before = []
    end(len(lines))
    return Blocks(found, 1 if rest < _FEW else within / (within + rest))


def _shared(line: str) -> list[str]:
    """Return what has threads share a statement, if it goes by columns or multiplies many matrices, and does much."""
    if _work_in_columns(line) >= _SHARED_OUT:
        return [_SHARE]
    found = _OF_EACH.match(line)
    _, count, *sizes = found.groups() if found else (None, 0)
    return [_SHARE] if int(count) > 1 and int(count) * math.prod(map(int, sizes)) >= _SHARED_PRODUCTS else []


def _beginning_of(target: str, before: Sequence[str], group: "_Group") -> list[str]:
    """Return the statements that declare or begin a target, and those that read it then; none where the group reads of it."""
    names, found = {target}, []
    for line in before:
        begun = next(m for kind in (_START, _NUMBER, _ARRAY) if (m := kind.fullmatch(line)))["name"]
        if begun == target or (found and any(_uses(line, names))):
            found.append(line)
            names.add(begun)
    return [] if any(any(_uses(member.line, names)) for member in group.members) else found


def _may_come_before(line: str, group: "_Group") -> bool:
    """Tell whether a statement declares something, or sets numbers to begin with, of which the group knows nothing."""
    start = _START.fullmatch(line)
    if start is not None:
        return not any(any(_uses(member.line, [start[1]])) for member in group.members)
    return bool(_NUMBER.fullmatch(line) or _ARRAY.fullmatch(line)) and not any(_uses(line, group.made))


def _work_in_columns(line: str) -> int:
    """Return how many elements a statement reads or sets that goes over blocks of columns."""
    columns = _IN_COLUMNS.match(line)
    return _work(line) * int(columns[1]) if columns else 0


def _work_of_sort(line: str) -> int:
    """Return how many elements a statement that sorts compares, which takes others as long."""
    found = _SORT.match(line)
    _, count, *sizes = found.groups() if found else (None, 0, 0, 0)
    return int(count) * math.prod(map(int, sizes)) * int(sizes[0]).bit_length()


def _work_across(line: str) -> int:
    """Return how much a statement that is in no block does that others may do in fewer passes over memory.

    Whoever compiles it, elements at computed places are set one after the other, in an array that begins with a number,
    and parts of an array that lie in memory are copied.
    """
    is_copy = _COPY.fullmatch(line) and not _goes_across(line, _INNER.findall(line))
    return (
        0 if line.startswith(("for (int e0 ", "for (int block ")) or _START.fullmatch(line) or is_copy else _work(line)
    )


def _work(line: str) -> int:
    """Return how many elements the loops of a statement read or set."""
    if product := _PRODUCT.fullmatch(line):
        return int(product[1]) * max(int(product[2]), int(product[3]))
    return math.prod(map(int, _COUNT.findall(line))) * (1 + len(_ALSO.findall(line)))


def _times(text: str, number: int) -> str:
    return text if number == 1 else f"{text}*{number}"


def _uses(text: str, names: Collection[str]) -> Iterator[re.Match[str]]:
    return re.finditer(rf"\b(?:{'|'.join(names)})\b", text) if names else iter(())


# -- statements --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Statement:
    """A statement whose outermost loop has `count` rows, and of whose target each row has `each` elements; none of a fold's."""

    line: str
    target: str
    count: int
    each: int

    @property
    def size(self) -> int:
        """The elements of the target that are of some row."""
        return self.count * self.each

    @property
    def work(self) -> int:
        """How many elements are read or set."""
        return _work(self.line)

    def keeps_to_rows(self, arrays: Mapping[str, int]) -> bool:
        """Tell whether what is read of these arrays, of so many elements, is of the row that it is at."""
        for name in _uses(self.line, arrays):
            place = re.match(r"\[(?:i0|\(i0\)\*(\d+)\+[^\[\]]*)\]", self.line[name.end() :])
            if place is None or arrays[name[0]] != self.count * int(place[1] or 1):
                return False
        return True

    def in_block(self, rows: int, height: int, local: Collection[str]) -> str:
        """Return the statement for a block, whose rows are numbered from `first` to `end`; most blocks have `height` of `rows`."""
        first, end = _times("first", self.count // rows), _times("end", self.count // rows)
        text = _OUTER.sub(f"for (int i0 = {first}; i0 < {end}; ++i0) ", self.line, count=1)
        for name in local:
            text = re.sub(rf"\b{name}\[(i0\b|\(i0)", rf"{name}[\1-{first}", text)
        innermost = text.rindex("for (int i", 0, text.index("] = "))
        # No result overlaps with what is read: of many arrays GCC would not find that out as the code runs.
        return f'{text[:innermost]}_Pragma("GCC ivdep") {text[innermost:]}'

    def declared(self, kind: str, count: int, parts: int) -> list[str]:
        """Return what is declared before all blocks, of which there are so many in so many parts."""
        return []

    def begun(self) -> list[str]:
        """Return what each part begins with."""
        return []

    def ended(self, count: int, parts: int) -> list[str]:
        """Return what follows after all blocks."""
        return []


@dataclass(frozen=True)
class _Fold(_Statement):
    """A statement that folds elements into one, from `start` on: each block, and then what becomes of these.

    What an element is, `source` says, `r` among all.
    """

    start: str
    function: str
    source: str
    rest: str

    def keeps_to_rows(self, arrays: Mapping[str, int]) -> bool:
        read = list(_uses(self.source, arrays))
        return all(self.source[name.end() :].startswith("[r]") and arrays[name[0]] == self.count for name in read)

    def in_block(self, rows: int, height: int, local: Collection[str]) -> str:
        of_row = self.count // rows
        source = re.sub(rf"\b({'|'.join(local)})\[r\]", r"\1[@]", self.source) if local else self.source
        source = re.sub(r"\br\b", f"({_times('first', of_row)}+r)", source).replace("@", "r")
        whole, last = (self._folded(n * of_row, source) for n in (height, rows % height or height))
        return f"{self.target}_of[block] = {whole if whole == last else f'end-first == {height} ? {whole} : {last}'};"

    def _folded(self, count: int, source: str) -> str:
        return f"folded<{count}>({self.start}, {self.function}, EACH {{ return {source}; }})"

    def declared(self, kind: str, count: int, parts: int) -> list[str]:
        return [f"{kind} {self.target}_of[{count}];"]

    def ended(self, count: int, parts: int) -> list[str]:
        return [f"{self.target}[0] = {self._folded(count, f'{self.target}_of[r]')}{self.rest};"]


@dataclass(frozen=True)
class _Columns(_Statement):
    """A statement that folds rows onto its target, of `width` elements: the rows of each part, and then what becomes of these."""

    width: int
    function: str

    def in_block(self, rows: int, height: int, local: Collection[str]) -> str:
        text = super().in_block(rows, height, local)
        element = self._element(text)
        if element is None:
            return re.sub(rf"\b{self.target}\[", f"{self.target}_of[part*{self.width}+", text)
        first, end = _times("first", self.count // rows), _times("end", self.count // rows)
        totals = f"&{self.target}_of[part*{self.width}]"
        return f"onto_columns<{self.width}>({totals}, {first}, {end}, {self.function}, IN_ROW {{ return {element}; }});"

    def _element(self, text: str) -> str | None:
        """Return what is folded onto column `r` in row i0; None where an array has the elements in another order."""
        inner = list(re.finditer(r"for \(int (i\d+) = 0; \1 < (\d+);", text))
        onto = _ONTO.search(text)
        if onto is None or not inner:
            return None
        return in_one_loop([loop[1] for loop in inner], [int(loop[2]) for loop in inner], onto[4], "r")

    def declared(self, kind: str, count: int, parts: int) -> list[str]:
        return [f"{kind} {self.target}_of[{parts * self.width}];"]

    def begun(self) -> list[str]:
        of_part = f"{self.target}_of[part*{self.width}+i0]"
        return [f"for (int i0 = 0; i0 < {self.width}; ++i0) {of_part} = {self.target}[i0];"]

    def ended(self, count: int, parts: int) -> list[str]:
        whole, of_part = f"{self.target}[i0]", f"{self.target}_of[part*{self.width}+i0]"
        loops = f"for (int part = 0; part < {parts}; ++part) for (int i0 = 0; i0 < {self.width}; ++i0)"
        return [f"{loops} {whole} = {self.function}({whole}, {of_part});"]


@dataclass(frozen=True)
class _Product(_Statement):
    """A product of an array of rows, of `inner` elements each, and a matrix."""

    inner: int
    left: str
    right: str

    def keeps_to_rows(self, arrays: Mapping[str, int]) -> bool:
        return (
            not any(_uses(self.right, arrays))
            and arrays.get(self.left, self.count * self.inner) == self.count * self.inner
        )

    def in_block(self, rows: int, height: int, local: Collection[str]) -> str:
        of_row = self.count // rows
        left, target = (
            name if name in local else f"{name}+{_times('first', of_row * width)}"
            for name, width in ((self.left, self.inner), (self.target, self.each))
        )
        given = f"({left}, {self.right}, {target});"
        whole, last = (
            f"product_of_rows<{n * of_row}, {self.inner}, {self.each}>{given}"
            for n in (height, rows % height or height)
        )
        return whole if whole == last else f"if (end-first == {height}) {whole} else {last}"


def _member(line: str) -> _Statement | None:
    """Return what can be done in blocks."""
    fold, product = _FOLD.fullmatch(line), _PRODUCT.fullmatch(line)
    if fold is not None:
        return _Fold(line, fold[1], int(fold[2]), 0, *fold.groups()[2:])
    if product is not None:
        rows, inner, columns, left, right, target = product.groups()
        return _Product(line, target, int(rows), int(columns), int(inner), left, right)
    line = _with_rows(line)
    outer = _OUTER.match(line)
    if outer is None:
        return None
    place, each = outer.end(), 1
    while inner := _INNER.match(line, place):
        place, each = inner.end(), each * int(inner[2])
    store = _STORE.match(line, place)
    if store is None:
        return None
    target, index = store[1], store[2]
    value = _ALSO.sub(", ", line[store.end() :])
    if _goes_across(value, _INNER.findall(line[: store.start()])):
        return None
    onto = _ONTO.fullmatch(value)
    if onto is not None and (onto[2], onto[3]) == (target, index) and not any(_uses(index, ["i0"])):
        return None if any(_uses(onto[4], [target])) else _Columns(line, target, int(outer[1]), 0, each, onto[1])
    of_row = re.fullmatch(r"i0|\(i0\)\*(\d+)\+.*", index)
    width = int(of_row[1] or 1) if of_row else 0
    folds = value.count(f"{target}[{index}]")
    if folds != sum(1 for _ in _uses(value, [target])) or (folds and not any(_uses(index, [_innermost(line)]))):
        return None
    return _Statement(line, target, int(outer[1]), width) if width >= each or folds else None


def _innermost(line: str) -> str:
    """Return the variable of the innermost loop of a statement."""
    return [name for name, _ in _INNER.findall(line)][-1]


def _goes_across(value: str, inner: Sequence[tuple[str, str]]) -> bool:
    """Tell whether an array is read across its rows, from one far away to the next: where it is large that takes tiles."""
    if not inner:
        return False
    name, count = inner[-1]
    strides = re.findall(rf"\({name}\)\*(\d+)\+[^\[\]]*\bi\d+\]", value)
    return any(int(stride) * int(count) > MOST_IN_ROW for stride in strides)


def _with_rows(line: str) -> str:
    """Return a statement with as many of its outer loops made one as all that it reads and sets allows.

    What has an index of its own for the inner of two, a mask that all of a batch share, finds it once for each row.
    """
    while (outer := _OUTER.match(line)) and (inner := _INNER.match(line, outer.end())):
        body, name, count = line[inner.end() :], inner[1], int(inner[2])
        if outer[1] == "1" and not any(_uses(body, ["i0"])):
            body = re.sub(rf"\b{name}\b", "i0", body)
            line = f"for (int i0 = 0; i0 < {count}; ++i0) {body}"
            continue
        pair = re.compile(rf"\(i0\)\*(\d+)\+(?:\({name}\)\*(\d+)\b|{name}\b)")
        places = list(pair.finditer(body))
        is_one = all(int(p[1]) == count * int(p[2] or 1) for p in places)
        if not is_one or sum(1 for _ in _uses(body, ["i0"])) != len(places):
            return line
        body = pair.sub(lambda p: "i0" if p[2] is None else f"(i0)*{p[2]}", body)
        if any(_uses(body, [name])):
            if has_tests(body) or not (_INNER.match(body) or _COUNT.search(body)):
                return line
            body = re.sub(rf"\b{name}\b", f"((i0)%{count})", body)
        line = f"for (int i0 = 0; i0 < {int(outer[1]) * count}; ++i0) {body}"
    return line


# -- groups of statements ----------------------------------------------------------------------------------------


@dataclass
class _Group:
    """Statements over the same rows, and how many elements the arrays have that they make; `kinds` are the types of all arrays."""

    kinds: Mapping[str, str]
    rows: int = 0
    members: list[_Statement] = field(default_factory=list)
    made: dict[str, int] = field(default_factory=dict)
    largest: int = 0  # number of elements that a statement reads or sets

    def takes(self, member: _Statement) -> bool:
        """Take a statement if it may be one of the group; tell whether it is."""
        rows = math.gcd(self.rows, member.count)
        fits = rows in (self.rows, member.count) if self.members else member.work >= _FEW
        made, largest = {**self.made, member.target: member.size}, max(self.largest, member.work)
        is_small = not self.members or largest <= MOST_IN_ROW * rows
        if not fits or not is_small or (isinstance(member, _Columns) and member.width > _IN_BLOCK):
            return False
        readers = [] if member.target in self.made else self.members
        if not all(reader.keeps_to_rows({member.target: member.size}) for reader in readers):
            return False  # it is set in one block before another block reads it
        if not member.keeps_to_rows(self.made if isinstance(member, _Columns) else made):
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
        """The rows of a block: as many in each where that can be, so that the compiler knows how many there are."""
        most = max(_IN_BLOCK * self.rows // max(self.largest, 1), 1)
        if all(isinstance(member, _Columns) for member in self.members):  # totals stay in registers from row to row
            most = max(most, min(_TALL * most, self.rows // _MOST_PARTS))
        return next((n for n in range(most, most // 2, -1) if self.rows % n == 0), most)

    @property
    def is_worth_it(self) -> bool:
        """Whether there are several blocks, and several statements or threads."""
        return self.rows > self._height and (len(self.members) > 1 or self.work >= _SHARED_OUT)

    def text(self, before: Sequence[str], unread: Collection[str]) -> list[str]:
        """Return the statements behind those that come `before`; what is `unread` is not read after them."""
        height = self._height
        count = -(-self.rows // height)
        end = f"block == {count - 1} ? {self.rows} : first+{height}" if self.rows % height else f"first+{height}"
        widths = sum(m.width for m in self.members if isinstance(m, _Columns))
        parts = min(count, _MOST_PARTS, max(_MOST_LOCAL // (8 * widths), 1) if widths else count)
        local = dict(self._local(before, unread, height))
        shared = [_SHARE] if self.work >= _SHARED_OUT else []
        return [
            *(line for line in before if line not in local.values()),
            *(line for m in self.members for line in m.declared(self.kinds.get(m.target, ""), count, parts)),
            *shared,
            f"for (int part = 0; part < {parts}; ++part) {{",
            *(line for m in self.members for line in m.begun()),
            f"for (int block = {count}*part/{parts}; block < {count}*(part+1)/{parts}; ++block) {{",
            f"const int first = block*{height}, end = {end};",
            *(f"{self.kinds[name]} {name}[{self.made[name] // self.rows * height}];" for name in local),
            *_together([member.in_block(self.rows, height, local) for member in self.members], local, self.kinds),
            "}}",
            *(line for m in self.members for line in m.ended(count, parts)),
        ]

    def _local(self, before: Sequence[str], unread: Collection[str], height: int) -> Iterator[tuple[str, str]]:
        """Yield the arrays of which there is but a block, and the lines that declare them."""
        room = _MOST_LOCAL
        begun = {start[1] for line in before if (start := _START.fullmatch(line))}  # whole, before the blocks
        for line in before:
            found = _ARRAY.fullmatch(line)
            if found is None or found["name"] in begun:
                continue
            if found["name"] in unread and "memory" in (found["place"] or "") and self.made[found["name"]]:
                room -= self.made[found["name"]] // self.rows * height * _SIZES[found["kind"]]
                if room >= 0:
                    yield found["name"], line


# -- statements of one loop --------------------------------------------------------------------------------------

_EACH = re.compile(
    r'(?P<loop>_Pragma\("GCC ivdep"\) for \(int i0 = [^;]*; [^;]*; \+\+i0\)) '
    r"(?P<target>\w+)\[(?P<index>i0[^\[\]()]*)\] = (?P<value>.*);"
)
# What is a few instructions on vectors. What GCC may have no vectors for, and calls, keep loops of their own.
_SIMPLE = {
    *("add", "subtract", "multiply", "negate", "shift_left", "shift_right", "same_bits", "either", "convert"),
    *("maximum", "minimum", "sqrt", "abs", "relu", "sign", "fma", "power", "floor", "ceil", "trunc"),
}
_CALLED = re.compile(r"\b([a-z]\w*)(?:<[\w, ]*>)?\(")
_CAST = re.compile(r"\((\w+)\)")
_MOST_TOGETHER = 16  # statements, whose results are in registers


def _together(lines: Sequence[str], local: Collection[str], kinds: Mapping[str, str]) -> list[str]:
    """Return a block's statements, simple ones that follow each other in one loop: what they make stays in registers.

    Each reads what the others make at its own index, so that their order for one index is all that there is to keep.
    """
    found: list[str] = []
    run: list[re.Match[str]] = []
    for number, line in enumerate([*lines, ""]):
        each = _EACH.fullmatch(line)
        if run and (each is None or not _may_follow(each, run, kinds)):
            unread = {name for name in local if not any(_uses("".join(lines[number:]), [name]))}
            found.append(_one_loop(run, unread, kinds))
            run = []
        if each is not None and _is_simple(each, kinds):
            run.append(each)
        elif line:
            found.append(line)
    return found


def _kind(each: re.Match[str], kinds: Mapping[str, str]) -> str | None:
    """Return the type of what a statement makes, as its target is declared, or, if it is a result, as its value says."""
    cast = _CAST.match(each["value"])
    return kinds.get(each["target"]) or (cast[1] if cast and cast[1] in _SIZES else None)


def _is_simple(each: re.Match[str], kinds: Mapping[str, str]) -> bool:
    value = each["value"]
    if _kind(each, kinds) in (None, "bool") or any(_uses(value, [each["target"]])):
        return False
    if any(text in value for text in (" ? ", "{", "Complex")):
        return False
    return set(_CALLED.findall(value)) <= _SIMPLE


def _may_follow(each: re.Match[str], run: Sequence[re.Match[str]], kinds: Mapping[str, str]) -> bool:
    """Tell whether a statement may be in one loop with others: it is as wide, and reads what they make at its own index."""
    if not _is_simple(each, kinds) or len(run) == _MOST_TOGETHER or each["loop"] != run[0]["loop"]:
        return False
    made = {m["target"]: m["index"] for m in run}
    its, others = (_SIZES[_kind(m, kinds) or ""] for m in (each, run[0]))
    reads_its_own = all(each["value"][u.end() :].startswith(f"[{made[u[0]]}]") for u in _uses(each["value"], made))
    return its == others and each["target"] not in made and reads_its_own


def _one_loop(run: Sequence[re.Match[str]], unread: Collection[str], kinds: Mapping[str, str]) -> str:
    """Return the loop of these statements, of which some make what nothing else reads."""
    if len(run) == 1:
        return run[0][0]
    body: list[str] = []
    made: list[str] = []
    for each in run:
        target, value = each["target"], each["value"]
        if made:
            value = re.sub(rf"\b({'|'.join(made)})\[[^\[\]]*\]", r"own_\1", value)
        made.append(target)
        body.append(f"const {_kind(each, kinds)} own_{target} = {value};")
        if target not in unread:
            body.append(f"{target}[{each['index']}] = own_{target};")
    return f"{run[0]['loop']} {{ {' '.join(body)} }}"
