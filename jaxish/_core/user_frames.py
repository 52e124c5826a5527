"""Where in the user's code something happens: the innermost frame that is neither ours nor torch's."""

import sys
from types import CodeType
from typing import Any

_NOT_USERS = {"jaxish", "torch"}
_excluded: list[str] = []  # paths of files, or folders, that libraries do not want to be shown


def register_exclusion(path: str) -> None:
    """Leave a file, or the files of a folder, out of what is said of the user's code."""
    _excluded.append(path)


def include_frame(frame: Any) -> bool:
    """Tell whether a frame is of the user's code."""
    if frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_USERS:
        return False
    return not _excluded or not frame.f_code.co_filename.startswith(tuple(_excluded))


def users_line() -> tuple[CodeType, int] | None:
    """Return the code of the user's that is running, and the line in it."""
    frame: Any = sys._getframe(1)
    while frame is not None and not include_frame(frame):
        frame = frame.f_back
    return None if frame is None else (frame.f_code, frame.f_lineno)
