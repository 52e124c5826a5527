"""The C++ compiler as a process at work beside the program, in a scratch folder."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import weakref
from collections.abc import Sequence

from .._core import cache


class CompilerProcess:
    """A compiler at work in `folder`. It is ended when nobody waits for it any more, and with the process.

    Raises `cache.Unusable` where there is no place for the folder.
    """

    def __init__(self) -> None:
        with cache.scratch(lasting=True) as self.folder:  # not for as long as the context: a fork would end its copy
            self._running: list[subprocess.Popen[bytes]] = []
        self.end = weakref.finalize(self, _ended, os.getpid(), self._running, self.folder)

    def start(self, command: Sequence[str]) -> None:
        """Start it, in place of one that has ended."""
        own = {**os.environ, "TMPDIR": str(self.folder)}  # what it leaves when it is ended goes with the folder
        with open(self.folder / "said", "wb") as said:
            # In a session of its own: Ctrl-C is not its business.
            process = subprocess.Popen(
                command, env=own, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
            )
        self._running[:] = [process]

    @property
    def is_running(self) -> bool:
        """Whether it is still at work."""
        return self._running[0].poll() is None

    @property
    def has_succeeded(self) -> bool:
        """Whether it has ended, and well."""
        return self._running[0].poll() == 0

    def wait(self) -> None:
        """Wait until it has ended."""
        self._running[0].wait()

    def give_way(self) -> None:
        """Have it run where nothing else does."""
        with contextlib.suppress(OSError):  # it may have ended
            os.setpriority(os.PRIO_PROCESS, self._running[0].pid, 15)

    def said(self) -> str:
        """Return what it has said."""
        return (self.folder / "said").read_text(errors="replace")


def _ended(owner: int, running: "list[subprocess.Popen[bytes]]", folder: pathlib.Path) -> None:
    """End a compiler, and remove what it was at; a fork leaves that to the process whose it is."""
    if owner != os.getpid():
        return
    for process in running:
        if process.poll() is None:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)  # and what it has started
            process.wait()
    shutil.rmtree(folder, ignore_errors=True)
