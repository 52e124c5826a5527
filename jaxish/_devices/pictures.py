"""Pictures of shardings in text: which devices have which part of an array.

Cells are as large as the parts are, a tenth of `scale` rows each; on a terminal each has a colour, elsewhere lines around it.
"""

import os
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from .shardings import Sharding

_ROWS = 10  # of the whole array, at scale 1
_WIDTH_OF_A_ROW = 2.5  # in letters: they are higher than wide
Color = tuple[int, int, int]


def picture(
    shape: Sequence[int], sharding: Sharding, *, use_color: bool, scale: float, min_width: int, max_width: int,
    color_map: Callable[[float], Sequence[float]] | None,
) -> str:  # fmt: skip
    """Return a picture of how an array of this shape, of one or two dimensions, lies over devices."""
    devices = _devices_of_parts(shape, sharding)
    counts = [len({part[axis] for part in devices}) for axis in range(2)]
    labels = [[devices[row, column] for column in range(counts[1])] for row in range(counts[0])]
    height = int(_ROWS * scale)
    columns = shape[1] if len(shape) == 2 else 1
    width = int(int(height * columns / shape[0]) * _WIDTH_OF_A_ROW / counts[1])
    width = min(max(width, min_width), max_width) - 2
    rows = max(height // counts[0] - 2, 0) + 1 if len(shape) == 2 else 1
    colors = _colors(color_map, counts[0] * counts[1]) if use_color and _shows_colors() else None
    if colors is None:
        return _framed(labels, _widths(labels, width, max_width - 1 - counts[1]), rows)
    return _colored(labels, _widths(labels, width + 2, max_width), rows + 2, colors)


def _devices_of_parts(shape: Sequence[int], sharding: Sharding) -> dict[tuple[int, int], str]:
    """Return what to call the devices of each part, by its row and column."""
    found: dict[tuple[int, int], list[Any]] = {}
    for device, index in sharding.devices_indices_map(tuple(shape)).items():
        part = tuple((s.start or 0) // ((s.stop or n) - (s.start or 0)) for s, n in zip(index, shape, strict=True))
        row, column = part if len(part) == 2 else (0, *part)
        found.setdefault((row, column), []).append(device)
    return {
        part: f"{devices[0].platform.upper()} {','.join(map(str, sorted(d.id for d in devices)))}"
        for part, devices in found.items()
    }


def _widths(labels: list[list[str]], width: int, available: int) -> list[int]:
    """Return the width of each column: as wanted, or for its longest label, or what `available` leaves it."""
    wanted = [max(width, *(len(row[column]) for row in labels)) for column in range(len(labels[0]))]
    excess = sum(wanted) - available
    if excess <= 0:
        return wanted
    shares = [excess * (i + 1) // len(wanted) - excess * i // len(wanted) for i in range(len(wanted))]
    return [max(w - share, 1) for w, share in zip(wanted, shares, strict=True)]


def _lines(row: list[str], widths: list[int], height: int) -> list[list[str]]:
    """Return the lines of text of a row of cells, each label in the middle of its cell."""
    wrapped = [textwrap.wrap(label, width) for label, width in zip(row, widths, strict=True)]
    height = max(height, *map(len, wrapped))
    cells = []
    for lines, width in zip(wrapped, widths, strict=True):
        above = (height - len(lines)) // 2
        below = height - len(lines) - above
        cells.append([" " * width] * above + [_centered(line, width) for line in lines] + [" " * width] * below)
    return [list(line) for line in zip(*cells, strict=True)]


def _centered(text: str, width: int) -> str:
    left = (width - len(text)) // 2
    return " " * left + text + " " * (width - len(text) - left)


def _framed(labels: list[list[str]], widths: list[int], height: int) -> str:
    def rule(left: str, between: str, right: str) -> str:
        return left + between.join("─" * width for width in widths) + right

    rows = ["\n".join(f"│{'│'.join(line)}│" for line in _lines(row, widths, height)) for row in labels]
    inner = f"\n{rule('├', '┼', '┤')}\n".join(rows)
    return f"{rule('┌', '┬', '┐')}\n{inner}\n{rule('└', '┴', '┘')}\n"


def _colored(labels: list[list[str]], widths: list[int], height: int, colors: list[Color]) -> str:
    text = ""
    for index, row in enumerate(labels):
        own = colors[index * len(row) : (index + 1) * len(row)]
        for line in _lines(row, widths, height):
            text += "".join(_painted(cell, color) for cell, color in zip(line, own, strict=True)) + "\n"
    return text


def _painted(text: str, color: Color) -> str:
    red, green, blue = color
    letters = 0 if red * 0.299 + green * 0.587 + blue * 0.114 > 186 else 255  # black where it is bright
    return f"\x1b[38;2;{letters};{letters};{letters};48;2;{red};{green};{blue}m{text}\x1b[0m"


def _shows_colors() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") not in ("dumb", "unknown")


def _colors(color_map: Callable[[float], Sequence[float]] | None, count: int) -> list[Color] | None:
    """Return a colour for each cell, neighbours far apart on the map; None where there is no map."""
    if color_map is None:
        try:
            import matplotlib  # optional: the maps are its own
        except ModuleNotFoundError:
            return None
        color_map = matplotlib.colormaps["tab20b"]
    step = count // 2 + (count % 2 == 0)
    places = [i * step % count / max(count - 1, 1) for i in range(count)]
    found = [color_map(place) for place in places]
    return [(int(r * 255), int(g * 255), int(b * 255)) for r, g, b in (c[:3] for c in found)]
