"""Where in the user's code something happens: the innermost frame that is neither ours nor torch's."""

import itertools
import sys
from types import CodeType
from typing import Any, NamedTuple

_NOT_USERS = {"jaxish", "torch"}
_modules_not_users: set[str] = set()  # the names of their modules that have been met
_OF_GRAPHS = "<eval_with_key>"  # what torch.fx says of the functions that it writes, which are of no module
_excluded: list[str] = []  # paths of files, or folders, that libraries do not want to be shown


def register_exclusion(path: str) -> None:
    """Leave a file, or the files of a folder, out of what is said of the user's code."""
    _excluded.append(path)


def include_frame(frame: Any) -> bool:
    """Tell whether a frame is of the user's code."""
    name = frame.f_globals.get("__name__", "")
    if name.partition(".")[0] in _NOT_USERS:
        _modules_not_users.add(name)
        return False
    return not frame.f_code.co_filename.startswith((_OF_GRAPHS, *_excluded))


class Line(NamedTuple):
    """A line of code that is running, and how far it has got: the index of an instruction."""

    code: CodeType
    number: int
    instruction: int

    def __str__(self) -> str:
        """Return file, line, column and function, as JAX writes them."""
        column = next(itertools.islice(self.code.co_positions(), self.instruction // 2, None))[2]
        return f"{self.code.co_filename}:{self.number}:{column or 0} ({self.code.co_qualname})"


def users_line() -> Line | None:
    """Return the line of the user's code that is running."""
    frame: Any = sys._getframe(1)
    while frame is not None:  # a trace asks for each operator, with a hundred frames of ours above
        if frame.f_globals.get("__name__") not in _modules_not_users and include_frame(frame):
            break
        frame = frame.f_back
    return None if frame is None else Line(frame.f_code, frame.f_lineno, frame.f_lasti)
