"""Short loops that the compiler is to leave as they are.

Of a loop of up to 16 steps, unrolled in another one, GCC (12.2, -O3 with AVX512) makes vectors of both, with the masks of what is
read by a condition permuted: `y[i*10+j] = a[i*10+j] + (c[i] > 0 ? b[i*10+j] : 0)` of 6 x 10 elements has zeros in place of some
of b. Of 3,600 such functions 503 were wrong, with a pragma at these loops none. A flag for a whole file keeps the tiles of products
from being unrolled, too, and cost small networks half their speed.

A row of so few that is read or set at a computed place it takes one by one once it is unrolled, as it does not see that they follow each
other: 20,000 rows of 16 numbers, added up at places, took 115 us, and 27 so.

Elements that are set apart, a column of a row-major array, are stored one by one: of 128 GCC writes all 128 stores out, and looks for
vectors among the stores of all columns. 25 columns of 128 rows took it 5.5 s, and 0.4 so.

Complex numbers are two lanes each, so that their masks are permuted in a loop of its own, too: such a loop is to have no vectors.
"""

import re
from collections.abc import Iterable, Iterator

MOST_UNROLLED = 16  # steps of a loop
_LOOP = re.compile(r"for \(int (\w+) = (\d+|first(?:\*\d+)?); \1 < (\d+|end(?:\*\d+)?); ")
_COMPLEX = re.compile(r"\bComplex<|\b(?:part|magnitude|conjugate)\(|\.(?:re|im)\b")
_STORE = re.compile(r"\w+\[([^\[\]]*)\] = ")
_HEIGHT = re.compile(r"const int first = block\*(\d+)")  # of a block of rows


def reads_by_condition(text: str) -> bool:
    """Tell whether an expression or statement may read an element, or another one, as a condition says."""
    return ") ? (" in text or "chosen(" in text


def _reads_or_sets_rows(text: str) -> bool:
    """Tell whether a statement reads or sets elements at a place that is computed."""
    return "place(" in text or "{ const int64_t p" in text


def _with_columns(line: str) -> str:
    """Return a statement with the loop along a column that it sets, not too short a one, as it is."""
    loops = [loop for loop in _LOOP.finditer(line) if (loop[2], loop[3]) != ("0", "1")]
    store = _STORE.search(line, loops[-1].end()) if loops else None
    if store is None or f"({loops[-1][1]})*" not in store[1] or not loops[-1][3].isdigit():
        return line
    start, is_short = loops[-1].start(), int(loops[-1][3]) <= MOST_UNROLLED
    return line if is_short else f'{line[:start]}_Pragma("GCC unroll 1") {line[start:]}'


def chooses_complex(text: str) -> bool:
    """Tell whether an expression or statement may read a complex number, or another one, as a condition says."""
    return ") ? (" in text and _COMPLEX.search(text) is not None


def not_unrolled(lines: Iterable[str]) -> Iterator[str]:
    """Yield statements, with short loops that stay as they are where they read by a condition, without vectors if complex, or at a place."""
    height = 1

    def kept(loop: re.Match[str]) -> str:
        first, end = loop[2], loop[3]
        rows = height * int(first.partition("*")[2] or 1)
        steps = int(end) - int(first) if end.isdigit() and first.isdigit() else rows
        if chooses_complex(loop.string):
            return f"{loop[0]}one_by_one(), "
        return f'_Pragma("GCC unroll 1") {loop[0]}' if steps <= MOST_UNROLLED else loop[0]

    for line in lines:
        if block := _HEIGHT.match(line):
            height = int(block[1])
        stays = reads_by_condition(line) or _reads_or_sets_rows(line)
        yield _LOOP.sub(kept, line) if stays else _with_columns(line)
