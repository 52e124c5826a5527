"""What our C++ files begin with, which the compiler reads but once: a precompiled header, used where it lies in the cache.

Of the 0.16 s of processor time that a small function takes GCC (12) it reads for 0.1, the standard library's headers most
of all. The header is precompiled beside the program, once a function has been compiled without it.
"""

import atexit
import functools
import os
import pathlib
import shutil
import threading
from collections.abc import Sequence

from .._core import cache
from .compiler_process import CompilerProcess

_BEGIN, _END = "#ifndef HEADER_IS_READ\n#define HEADER_IS_READ\n", "#endif  // HEADER_IS_READ\n"


def guarded(text: str) -> str:
    """Return a text for the beginning of files, which those that include it by themselves skip."""
    return f"{_BEGIN}{text}{_END}"


def of(source: str, command: Sequence[str]) -> "Header | None":
    """Return the header that a file begins with, for the command that compiles it. Raises `cache.Unusable`."""
    text, end, _ = source.partition(_END)
    if not end:
        return None
    return _header(cache.header_folder(text, *command), text + end, tuple(command), os.getpid())


class Header:
    """A header for one command, in `folder` when it is precompiled. It belongs to one process."""

    def __init__(self, folder: pathlib.Path, text: str, command: Sequence[str], owner: int) -> None:
        self._folder, self._text, self._command, self._owner = folder, text, command, owner
        self._making: CompilerProcess | None = None
        self._is_sound = self._is_given_up = False
        self._lock = threading.Lock()

    def options(self) -> list[str]:
        """Return what has the command use the precompiled header; nothing where there is none."""
        with self._lock:
            self._publish()
            if not self._is_sound and not self._is_given_up and self._folder.exists():
                self._is_sound = cache.is_sound(self._folder)
                if not self._is_sound:
                    shutil.rmtree(self._folder, ignore_errors=True)
            if self._is_sound:
                try:
                    os.utime(_precompiled(self._folder))  # the least recently used go first
                except FileNotFoundError:
                    self._is_sound = False
            return ["-include", str(self._folder / "header.h")] if self._is_sound else []

    def make(self) -> None:
        """Have it precompiled, unless it is, or cannot be."""
        with self._lock:
            if self._making is not None or self._is_sound or self._is_given_up:
                return
            try:
                making = CompilerProcess()
                (making.folder / "header.h").write_text(self._text)
                files = [str(making.folder / "header.h"), "-o", str(_precompiled(making.folder))]
                making.start([*self._command, "-x", "c++-header", *files])
            except (OSError, cache.Unusable):  # there is no room
                self._is_given_up = True
                return
            making.give_way()
            self._making = making
            atexit.register(self._publish)

    def give_up(self) -> None:
        """Throw it away, and use it no more: a file that includes it cannot be compiled."""
        with self._lock:
            self._is_sound, self._is_given_up = False, True
            shutil.rmtree(self._folder, ignore_errors=True)

    def _publish(self) -> None:
        making = self._making
        if making is None or self._owner != os.getpid() or making.is_running:
            return
        self._making = None
        try:
            if making.has_succeeded:
                (making.folder / "said").unlink()
                cache.seal(making.folder)
                making.folder.rename(self._folder)
            else:
                self._is_given_up = True
        except OSError:  # another process was here, or there is no room
            self._is_given_up = not self._folder.exists()
        making.end()


_header = functools.lru_cache(16)(Header)


def _precompiled(folder: pathlib.Path) -> pathlib.Path:
    return folder / "header.h.gch"
