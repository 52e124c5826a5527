"""Where in the user's code something happens: the innermost frame that is neither ours nor torch's."""

import sys
from types import CodeType
from typing import Any

_NOT_USERS = {"jaxish", "torch"}


def users_line() -> tuple[CodeType, int] | None:
    """Return the code of the user's that is running, and the line in it."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_USERS:
        frame = frame.f_back
    return None if frame is None else (frame.f_code, frame.f_lineno)
