"""Compiling off the critical path: a worker process fills Inductor's disk cache, this process loads from it.

A thread in this process would not do: Inductor is Python, and holding the interpreter's lock it slowed the main
thread tenfold on two cores. So a graph travels to a worker of lower priority as a pickle; the worker compiles it,
which leaves the result in the cache on disk; then a thread here compiles the same graph, finds it in the cache (about
0.1 s), and switches the executable over.

`python -m jaxish._backends.background` is the worker. Requests and answers are pickles on its standard input and
output; it ends when its input does.
"""

import atexit
import functools
import logging
import os
import pickle
import queue
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .executable import Executable

_log = logging.getLogger("jaxish")


class Compiler:
    """The worker process, and the thread that feeds it one graph after the other."""

    def __init__(self) -> None:
        self._pending: queue.SimpleQueue[Executable] = queue.SimpleQueue()
        self._worker: subprocess.Popen[bytes] | None = None
        self._stopped = False
        threading.Thread(target=self._feed, name="jaxish-compiler", daemon=True).start()
        atexit.register(self._stop)

    def submit(self, executable: "Executable") -> None:
        """Have a graph compiled; its executable switches over when that is done."""
        self._pending.put(executable)

    def _feed(self) -> None:
        while True:
            executable = self._pending.get()
            try:
                self._compile(executable)
            except Exception as error:
                if self._stopped:  # the process is ending, and what compiling needs is gone
                    return
                # The graph goes on as it runs now, operator by operator: slower, and right.
                _log.warning("jaxish could not compile a graph in the background: %s: %s", type(error).__name__, error)

    def _compile(self, executable: "Executable") -> None:
        request = executable.request()
        if not request.is_worthwhile():
            executable.compile()
            return
        worker = self._running()
        assert worker.stdin is not None and worker.stdout is not None
        pickle.dump(request, worker.stdin)
        worker.stdin.flush()
        failure = pickle.load(worker.stdout)
        if failure is not None:
            raise RuntimeError(failure)
        executable.compile()

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._worker is None or self._worker.poll() is not None:
            self._worker = subprocess.Popen(
                [sys.executable, "-m", "jaxish._backends.background"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        return self._worker

    def _stop(self) -> None:
        self._stopped = True
        if self._worker is not None:
            self._worker.kill()


@functools.cache
def compiler() -> Compiler:
    """Return this process's background compiler, started at its first use."""
    return Compiler()


def main() -> None:
    """Compile what comes in on standard input until it ends."""
    os.nice(5)  # behind the main program, but not starved by one that keeps all cores busy
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what compilers print must not get among the answers
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(_failure_of(request), answers)
        answers.flush()


def _failure_of(request: Any) -> str | None:
    try:
        request.compile()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


if __name__ == "__main__":
    main()
