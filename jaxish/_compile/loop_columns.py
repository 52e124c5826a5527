"""Loops across the rows of large arrays, in blocks of columns, which threads share.

What is folded or accumulated from row to row is another thing in each column. A block's columns are neighbours: their
elements of a row lie side by side, and what has been made of them so far is in the first cache.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from .loop_values import in_one_loop, loops_over

_IN_BLOCK = 2048  # columns
MOST_IN_ROW = 8 * _IN_BLOCK  # elements, for which blocks of rows suit
_FEW = 8  # elements side by side, of which vectors are not worth it


@dataclass(frozen=True)
class Columns:
    """Columns of an array along dimensions that `rows` runs over: each block's are numbered from `first` to `end`.

    `text` is what is done with an element, `i0` and so on being its indices but for those behind the rows: `c` is the column.
    """

    text: str
    rows: str
    before: Sequence[tuple[str, int]]  # the indices of dimensions before the columns, and their sizes
    count: int

    @property
    def width(self) -> int:
        """How many columns most blocks have."""
        return min(self.count, _IN_BLOCK)

    @property
    def each(self) -> str:
        """The head of the loop over a block's columns."""
        return '_Pragma("GCC ivdep") for (int c = first; c < end; ++c) '

    def own(self, name: str) -> str:
        """Return a column's element of an array that has one for each of a block's."""
        return f"{name}[c-first]"

    def block(self, *statements: str) -> str:
        """Return the loop over all blocks that does these statements in each."""
        blocks = -(-self.count // self.width)
        index, divisor = [], blocks
        for name, size in reversed(self.before):
            index.append(f"const int {name} = block / {divisor} % {size};")
            divisor *= size
        place = f"const int first = block % {blocks} * {self.width};"
        if self.count % self.width:
            place += f" const int end = first + {self.width} < {self.count} ? first + {self.width} : {self.count};"
        else:
            place += f" const int end = first + {self.width};"
        return f"for (int block = 0; block < {divisor}; ++block) {{ {' '.join([place, *index, *statements])} }}"


def columns_of(
    shape: Sequence[int], along: Sequence[int], behind: Sequence[int], text: str, folded: int = 0
) -> Columns | None:
    """Return the columns that the dimensions `behind` make of an array, whose rows go along others, in blocks for all the rest.

    The last dimensions, so many as are `folded`, the text deals with. None where an array that is read has the elements in
    another order.
    """
    names = [f"i{d}" for d in range(len(shape))]
    inner, count = [names[d] for d in behind], math.prod(shape[d] for d in behind)
    flat = in_one_loop(inner, [shape[d] for d in behind], text, "c") if count > 1 else text
    if flat is None or not math.prod(shape):
        return None
    rest = [d for d in range(len(shape) - folded) if d not in along and d not in behind]
    rows = loops_over([names[d] for d in along], [shape[d] for d in along])
    return Columns(flat, rows, [(names[d], shape[d]) for d in rest], count)


def dimension_of_neighbours(shape: Sequence[int], text: str) -> int | None:
    """Return the dimension along which all that is read of arrays lies side by side; None where there is no such one."""
    for d, size in enumerate(shape):
        reads = re.findall(rf"\[([^\[\]]*\bi{d}\b[^\[\]]*)\]", text)
        if size >= _FEW and reads and all(re.fullmatch(rf"(?:.*\+)?(?:i{d}|\(i{d}\)\*1\+\d+)", read) for read in reads):
            return d
    return None


def suit_better_than_rows(columns: Columns, shape: Sequence[int], behind: Sequence[int]) -> bool:
    """Tell whether an array is better folded by blocks of columns: they are many, rows are long, or there is more behind these."""
    is_all_behind = list(behind) == list(range(len(shape) - len(behind), len(shape)))
    return columns.count > _IN_BLOCK or math.prod(shape[1:]) > MOST_IN_ROW or not is_all_behind
