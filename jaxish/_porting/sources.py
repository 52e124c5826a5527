"""Which Python there is below a path, parsed: files, folders and the code cells of notebooks."""

import ast
import json
import os
import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Place(NamedTuple):
    """Where a line is. `cell` is a notebook's, counted from 1, else None."""

    file: str
    line: int
    cell: int | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.cell is None else f"{self.file}: cell {self.cell}, line {self.line}"


class Source(NamedTuple):
    """A file that was parsed. `cells` has a notebook's cell and the line in it for each line of the tree."""

    file: str
    tree: ast.Module
    cells: list[tuple[int, int]] | None = None

    def place(self, line: int) -> Place:
        """Return where a line of the tree is."""
        if self.cells is None:
            return Place(self.file, line)
        cell, within = self.cells[line - 1]
        return Place(self.file, within, cell)


class Unread(NamedTuple):
    """A file that could not be parsed, and why."""

    place: Place
    reason: str


def read(paths: Iterable[str]) -> Iterator[Source | Unread]:
    """Yield each Python file and notebook at or below the paths, once and in order."""
    seen: set[str] = set()
    for path in paths:
        for file in _files(path, seen):
            yield _notebook(file) if file.endswith(".ipynb") else _module(file)


def _files(path: str, seen: set[str]) -> Iterator[str]:
    """Yield the files below a path; what links lead to is read once, so that circles end."""
    real = os.path.realpath(path)
    if real in seen:
        return
    seen.add(real)
    if not os.path.isdir(path):
        yield path
        return
    for name in sorted(os.listdir(path)):
        below = os.path.join(path, name)
        if os.path.isdir(below):
            if not _is_foreign(name, below):
                yield from _files(below, seen)
        elif name.endswith((".py", ".pyi", ".ipynb")):
            yield from _files(below, seen)


def _is_foreign(name: str, path: str) -> bool:
    """Tell whether a folder holds no code of the project: hidden ones, caches, virtual environments."""
    return name.startswith(".") or name in ("__pycache__", "node_modules") or os.path.exists(f"{path}/pyvenv.cfg")


def _module(file: str) -> Source | Unread:
    try:
        return Source(file, _parsed(Path(file).read_bytes(), file))  # ast knows about byte order marks and coding lines
    except SyntaxError as error:
        return Unread(Place(file, error.lineno or 1), f"not Python {_version()}: {error.msg}")
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        return Unread(Place(file, 1), f"{type(error).__name__}: {error}")


def _notebook(file: str) -> Source | Unread:
    try:
        notebook: Any = json.loads(Path(file).read_bytes())
        code, cells = _code(notebook["cells"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return Unread(Place(file, 1), f"not a notebook of format 4: {type(error).__name__}: {error}")
    try:
        return Source(file, _parsed(code, file), cells)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        cell, line = cells[min(getattr(error, "lineno", None) or 1, len(cells)) - 1]
        return Unread(Place(file, line, cell), f"not Python {_version()}: {getattr(error, 'msg', error)}")


def _code(cells: Any) -> tuple[str, list[tuple[int, int]]]:
    """Return the code cells as one module, and of each line its cell and the line there."""
    lines: list[str] = []
    places: list[tuple[int, int]] = []
    for number, cell in enumerate(cells, 1):
        if cell["cell_type"] == "code":
            written = "".join(cell["source"]).split("\n")
            lines += _without_commands(written)
            places += [(number, line) for line in range(1, len(written) + 1)]
    return "\n".join(lines), places or [(1, 1)]


# Commands of IPython, which take the place of a statement: `%matplotlib inline`, `!pip install jax`, `jnp.dot?`.
_COMMAND = re.compile(r"^(\s*)(?:[%!?].*|[\w.]+\?{1,2}\s*)$")


def _without_commands(lines: list[str]) -> list[str]:
    """Return the lines of a cell with IPython's commands made statements that do nothing."""
    first = lines[0].strip()
    if first.startswith("%%") and first.split()[0] not in ("%%time", "%%timeit", "%%capture", "%%prun"):
        return ["pass" for _ in lines]  # another language, or a file that is written
    return [_COMMAND.sub(r"\1pass", line) for line in lines]


def _parsed(code: str | bytes, file: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the checked code: escapes that are none, `is` with a literal
        return ast.parse(code, file)


def _version() -> str:
    import platform

    return ".".join(platform.python_version_tuple()[:2])
