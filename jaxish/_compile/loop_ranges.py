"""Loops cut where the outcome of a test changes: a part that is set in an array, or what is around it; and into rows.

An element's expression asks where its index is. Within a range of indices the answer is the same for all, which GCC finds
out by itself; then what is left has no branches, and vectors. The order of all elements is kept.
"""

import itertools
import math
import re

from .loop_unrolling import MOST_UNROLLED

_HEAD = re.compile(r'(_Pragma\("GCC ivdep"\) )?for \(int (i\d+) = ([^;]*); \2 < ([^;]*); \+\+\2\) ')
_TEST = re.compile(r"\((i\d+)\) >= (\d+) && \(\1\) < (\d+)\b")
_ROW = re.compile(r"\((i\d+)\)([/%])(\d+)")
_MOST_RANGES = 9  # of all loops of a statement together: each is compiled by itself
_FEW = 256  # elements, for which branches do


def within(index: str, first: int, stop: int) -> str:
    """Return the test whether an index is in a range."""
    return f"({index}) >= {first} && ({index}) < {stop}"


def has_tests(text: str) -> bool:
    """Tell whether an expression asks where its index is."""
    return _TEST.search(text) is not None


def in_rows(line: str) -> str:
    """Return a statement that goes over an array as over a row of all elements, and finds their places in one of rows, in loops over these.

    So arrays are flattened. A test of a place is one of an index then, and the elements of a row follow each other.
    """
    head = _HEAD.match(line)
    if head is None or head[1] or not head[4].isdigit() or "for (" in line[head.end() :] or "{" in line:
        return line
    name, count, widths = head[2], int(head[4]), {int(width) for _, _, width in _ROW.findall(line)}
    width = max(widths, default=count)
    if len(widths) != 1 or count <= _FEW or count % width or width <= MOST_UNROLLED or head[3] != "0":
        return line
    inner = f"i{int(name[1:]) + 1}"
    statement = _ROW.sub(lambda part: "@" if part[2] == "/" else inner, line[head.end() :])
    statement = re.sub(rf"\b{name}\b", f"({name}*{width}+{inner})", statement).replace("@", name)
    loops = [f"for (int {i} = 0; {i} < {n}; ++{i}) " for i, n in ((name, count // width), (inner, width))]
    return f"{''.join(loops)}{statement}"


def in_ranges(line: str) -> str:
    """Return a statement in loops over ranges of indices, where tests of these have one outcome."""
    heads, place = [], 0
    while head := _HEAD.match(line, place):
        heads.append(head)
        place = head.end()
    statement = line[place:]
    if "{" in statement or statement.find(";") != len(statement) - 1:
        return line
    cuts = _cuts(heads, statement)
    for pragma, name, first, end in (head.groups("") for head in reversed(heads)):
        bounds = _bounds(first, end, cuts.get(name, []))
        loops = [f"{pragma}for (int {name} = {a}; {name} < {b}; ++{name}) {statement}" for a, b in bounds]
        statement = loops[0] if len(loops) == 1 else f"{{ {' '.join(loops)} }}"
    return statement


def _cuts(heads: "list[re.Match[str]]", statement: str) -> dict[str, list[int]]:
    """Return where the loops are cut, by variable: the innermost ones first, while there are not too many ranges."""
    sizes = [int(head[4]) for head in heads if head[4].isdigit()]
    if len(sizes) == len(heads) and math.prod(sizes) <= _FEW:
        return {}
    found, ranges = {}, 1
    for head in reversed(heads):
        tests = [test for test in _TEST.finditer(statement) if test[1] == head[2]]
        places = sorted({int(place) for test in tests for place in test.group(2, 3)} - {0})  # where all loops may begin
        if head[4].isdigit():
            places = [place for place in places if int(head[3]) < place < int(head[4])]
        ranges *= len(places) + 1
        if ranges > _MOST_RANGES:
            break
        found[head[2]] = places
    return found


def _bounds(first: str, end: str, cuts: list[int]) -> list[tuple[str, str]]:
    if end.isdigit():
        return list(itertools.pairwise([first, *map(str, cuts), end]))
    begins = [first, *(f"({first} > {cut} ? {first} : {cut})" for cut in cuts)]
    ends = [*(f"({end} < {cut} ? {end} : {cut})" for cut in cuts), end]
    return list(zip(begins, ends, strict=True))
