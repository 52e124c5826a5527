"""Compiling off the critical path: a worker process fills the cache on disk, this process loads from it.

A thread in this process would not do: Inductor is Python, and holding the interpreter's lock it slowed the main
thread tenfold on two cores. So a graph travels to a worker of lower priority as a pickle; the worker compiles it,
which leaves the result in the cache on disk; then a thread here compiles the same graph, finds it in the cache (about
0.1 s), and switches the executable over.

`main` is the worker. Requests and answers are pickles, in pipes that only the two processes have. The worker has a
session of its own, so that Ctrl-C is not its business, and ends with its parent, however that ends.
"""

import atexit
import contextlib
import ctypes
import functools
import logging
import os
import pickle
import queue
import signal
import subprocess
import sys
import sysconfig
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from .._core import cache, config, dynamo, machine, openmp
from . import progress, registry

if TYPE_CHECKING:
    from .executable import Executable

_log = logging.getLogger("jaxish")
_DEATHS = 3  # of workers, one after the other, after which no more are started
_GRAPHS = 250  # that a worker compiles: it loads what it has compiled, and no process can unload it


class _ShortTurns:
    """A context manager within which threads hand on the interpreter's lock sooner, if others wait for it.

    Operators of torch let go of the lock. Where another thread, as compilers are, is in Python all the time and gets it, it comes
    back after Python's 5 ms: a function of 250 operators that took 2.6 ms by itself took 12 beside one, and takes 5 to 9 so.
    """

    _SECONDS = 0.0005

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._within = 0
        self._before = self._during = 0.0

    def __enter__(self) -> None:
        with self._lock:
            self._within += 1
            if self._within == 1:
                self._before = sys.getswitchinterval()
                if self._before > self._SECONDS:
                    sys.setswitchinterval(self._SECONDS)
                self._during = sys.getswitchinterval()

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._within -= 1
            if self._within == 0:
                self._restore()

    def _restore(self) -> None:
        if sys.getswitchinterval() == self._during < self._before:  # else the program has said itself meanwhile
            sys.setswitchinterval(self._before + 5e-7)  # Python cuts off what is no whole microsecond

    def successor(self) -> "_ShortTurns":
        """Return that of a process that was forked off, which has none of the threads."""
        if self._within:
            self._restore()
        return _ShortTurns()


_short_turns = _ShortTurns()


class _Thread(threading.Thread):
    """A thread that does `step` with one executable after the other. One that is gone, as its function is, is left out."""

    def __init__(self, name: str, step: Callable[["Executable"], None]) -> None:
        super().__init__(name=f"jaxish-{name}", daemon=True)
        self._step = step
        self._pending: queue.SimpleQueue[weakref.ref[Executable] | None] = queue.SimpleQueue()

    def submit(self, executable: "Executable") -> None:
        """Do the step with an executable when those before it are done."""
        self._pending.put(weakref.ref(executable))

    def end(self) -> None:
        """End when all is done that was submitted."""
        self._pending.put(None)

    def run(self) -> None:
        """Do what was submitted."""
        while (reference := self._pending.get()) is not None:
            executable = reference()
            if executable is not None:
                with _short_turns:
                    self._step(executable)
            del executable  # while the next one is waited for

    def come_to_rest(self) -> None:
        """Wait until this has ended: if the process ended while it is in C++, it would abort."""
        if self.ident is None:
            return
        self.join(timeout=0.1)
        # On a busy machine importing a compiler takes longer than one wants to wait: leave it at the next instruction. Where that is
        # in a finalizer, or in a weak reference's callback, Python tells and goes on: say so again, and have it tell nothing.
        tell = sys.unraisablehook
        sys.unraisablehook = lambda what: None if what.exc_type is SystemExit else tell(what)
        for _ in range(100):
            if not self.is_alive():
                break
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident), ctypes.py_object(SystemExit))
            self.join(timeout=0.1)
        sys.unraisablehook = tell


class Compiler:
    """The worker process, and the threads that graphs go through, one after the other; all start with the first graph.

    The first thread has graphs run piece by piece, after a second or two. Those of which that is not all there is to do go to
    the second one, which feeds the worker.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pieces = _Thread("pieces", functools.partial(self._try, self._compile_pieces))
        self._whole = _Thread("compiler", functools.partial(self._try, self._compile))
        self._worker: subprocess.Popen[bytes] | None = None
        self._deaths = 0
        self._compiled = 0  # by the worker
        self._stopped = False
        self._unfinished: weakref.WeakSet[Executable] = weakref.WeakSet()

    def submit(self, executable: "Executable") -> None:
        """Have a graph compiled; its executable switches over when that is done."""
        with self._lock:
            if self._pieces.ident is None:
                self._pieces.start()
                self._whole.start()
                atexit.register(self.stop)
            self._unfinished.add(executable)
        self._pieces.submit(executable)

    @property
    def is_busy(self) -> bool:
        """Whether graphs are being compiled, or wait for it."""
        return bool(self._unfinished)

    def _try(self, step: Callable[["Executable"], bool], executable: "Executable") -> None:
        is_done = True
        try:
            is_done = self._stopped or step(executable)
        except cache.Unusable as error:
            cache.warn(str(error))
        except Exception as error:
            # The graph goes on as it runs now, operator by operator: slower, and right.
            if not self._stopped:  # else the process is ending, and what compiling needs is gone
                _log.warning("jaxish could not compile a graph in the background: %s: %s", type(error).__name__, error)
        if is_done:
            self._unfinished.discard(executable)

    def _compile_pieces(self, executable: "Executable") -> bool:
        is_all = executable.compile_pieces()
        if not is_all:
            self._whole.submit(executable)
        return is_all

    def _compile(self, executable: "Executable") -> bool:
        with registry.one_at_a_time:
            request = executable.request()
            is_to_be_compiled = request.is_worthwhile()
            is_here = not is_to_be_compiled or request.is_kept()
        if is_here:
            if is_to_be_compiled:
                _import_loader()
            executable.compile()
            return True
        with progress.told(executable.name, len(self._unfinished) - 1) as telling:
            if self._worker_compiles(request):
                executable.compile()
            else:
                telling.outcome = "was not compiled"
        return True

    def _worker_compiles(self, request: Any) -> bool:
        """Have the worker fill the cache; tell whether it did. Raises its error. One that dies is replaced."""
        message = pickle.dumps((cache.chosen(), config.cache_max_size.value, request))
        while self._deaths < _DEATHS and not self._stopped:
            try:
                worker = self._running()
                _write(worker.stdin, message)
                _import_loader()  # while it is at work
                error = pickle.loads(_read(worker.stdout))
            except (OSError, EOFError):
                self._bury()
                self._deaths += not self._stopped
                continue
            self._deaths = 0
            self._compiled += 1
            if self._compiled >= _GRAPHS:
                self._bury()
            if error is not None:
                raise error
            return True
        if not self._stopped:
            cache.warn(f"the process that compiles has ended by itself, {_DEATHS} times in a row.")
        return False

    def _running(self) -> "subprocess.Popen[bytes]":
        with self._lock:
            if self._stopped:
                raise EOFError
            if self._worker is None:
                self._worker = subprocess.Popen(
                    [sys.executable, "-I", "-c", _WORKER],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    bufsize=0,  # nothing half written that a fork could inherit
                    start_new_session=True,
                )
                _write(self._worker.stdin, pickle.dumps((_search_path(), os.getpid())), sized=False)
            return self._worker

    def _bury(self) -> None:
        """Make sure that the worker has ended, and that nothing of it is left."""
        with self._lock:
            worker, self._worker, self._compiled = self._worker, None, 0
            if worker is not None:
                _kill(worker)
                worker.wait()
                _close_pipes(worker)

    def stop(self) -> None:
        """End the worker, and let the threads come to rest."""
        with self._lock:
            self._stopped = True
            if self._worker is not None:
                _kill(self._worker)
        for thread in (self._pieces, self._whole):
            thread.end()
        for thread in (self._pieces, self._whole):
            thread.come_to_rest()

    def successor(self) -> "Compiler":
        """Return the compiler of a process that was forked off: the threads and the worker are its parent's alone."""
        if self._worker is not None:
            self._worker.returncode = 0  # it is no child of this process
            _close_pipes(self._worker)
        atexit.unregister(self.stop)
        for executable in list(self._unfinished):
            executable.start_over()
        return Compiler()


def _import_loader() -> None:
    """Import what loads compiled code: a second or two, in which this process may well wait for the worker."""
    dynamo.import_between_traces()
    with registry.one_at_a_time:
        import torch._inductor.async_compile  # noqa: F401


def _kill(worker: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(OSError):
        os.killpg(worker.pid, signal.SIGKILL)  # and the C++ compilers that it has started


def _close_pipes(worker: "subprocess.Popen[bytes]") -> None:
    for pipe in (worker.stdin, worker.stdout):
        assert pipe is not None
        pipe.close()


def _search_path() -> list[str]:
    """Return where the worker finds modules: where this process does, but none of the user's in the place of others'."""
    entries = [p for p in sys.path if isinstance(p, str) and os.path.isabs(p)]
    standard = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    first = [p for p in entries if p.startswith(standard) and "-packages" not in p]
    ours = [
        os.path.dirname(os.path.dirname(os.path.abspath(file))) for file in (os.path.dirname(__file__), torch.__file__)
    ]
    return list(dict.fromkeys([*first, *ours, *entries]))


def _write(pipe: Any, content: bytes, sized: bool = True) -> None:
    left = memoryview((len(content).to_bytes(8, "little") if sized else b"") + content)
    while left:
        left = left[pipe.write(left) :]


def _read(pipe: Any) -> bytes:
    return _exactly(pipe, int.from_bytes(_exactly(pipe, 8), "little"))


def _exactly(pipe: Any, count: int) -> bytes:
    parts = []
    while count:
        parts.append(pipe.read(count))
        if not parts[-1]:
            raise EOFError
        count -= len(parts[-1])
    return b"".join(parts)


_compiler = Compiler()


def compiler() -> Compiler:
    """Return this process's background compiler."""
    return _compiler


def _after_fork() -> None:
    global _compiler, _short_turns
    _short_turns = _short_turns.successor()
    _compiler = _compiler.successor()


@contextmanager
def room_beside() -> Iterator[None]:
    """Within this context manager, torch leaves one core to the compiling process if that is at work.

    The threads of a kernel wait for each other, and do so busily. With one more process than there are cores one of them
    waits for its core at the end of each operation: steps of 0.15 s took up to 6 s, and the compiler was slowed as much.
    """
    threads = torch.get_num_threads() if _compiler.is_busy else 1
    if threads == 1 or threads < machine.cores():
        yield
        return
    openmp.set_threads(threads - 1)
    try:
        yield
    finally:
        openmp.set_threads(threads)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)

# ------------------------------------------------------------------------------------------------------- the worker

# Nothing of the user's is imported, neither `__main__` nor a module that has a name of the standard library's.
_WORKER = """
import pickle, sys
sys.path[:], parent = pickle.load(sys.stdin.buffer)
from jaxish._compile.background import main
main(parent)
"""


def main(parent: int) -> None:
    """Compile what comes in on standard input until it ends, or the parent process does."""
    os.nice(5)  # behind the main program, but not starved by one that keeps all cores busy
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what compilers print must not get among the answers
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    with contextlib.suppress(Exception):  # it comes again, where it is told
        _import_loader()
        import torch._inductor.compile_fx  # noqa: F401
    while True:
        try:
            message = _read(sys.stdin.buffer)
        except EOFError:
            return
        _write(answers, pickle.dumps(_error_in(message)))


def _end_with(parent: int) -> None:
    # A parent that was killed may have left its end of the pipe to children of its own.
    while os.getppid() == parent:
        time.sleep(1)
    os.killpg(0, signal.SIGKILL)


def _error_in(message: bytes) -> Exception | None:
    try:
        cache_dir, cache_max_size, request = pickle.loads(message)
        config.cache_dir.set(cache_dir)
        config.cache_max_size.set(cache_max_size)
        request.compile()
    except cache.Unusable as error:
        return error
    except Exception as error:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return None
