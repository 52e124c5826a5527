"""The process that compiles: what it inherits, what it leaves alone, how it ends. Each program runs on the default tier."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest
import torch

import jaxish
import jaxish.numpy as jnp
from jaxish._compile import background, executable, piecewise
from jaxish._core import cache, config, machine

# `switched(f)` calls f until it runs compiled; `worker()` is the process that compiles.
HEAD = """
import multiprocessing, os, sys, time
import jaxish, jaxish.numpy as jnp, numpy as np
from jaxish._compile import background, executable, piecewise

x = np.linspace(0, 1, 100_000, dtype=np.float32)  # more than arrays that are written out have
piecewise.LEAST_IN_ROWS = 2  # so that loops over arrays of this size are never enough

def function():
    number = np.random.rand()  # so that nobody has compiled it yet
    jitted = jaxish.jit(lambda x: jnp.sin(x) * number + jnp.cos(x))
    jitted.check = lambda: np.testing.assert_allclose(jitted(x), np.sin(x) * number + np.cos(x), atol=1e-6)
    return jitted

def switched(jitted):
    deadline = time.monotonic() + 100
    while True:
        jitted.check()
        (program,) = jitted._programs.values()
        if executable.of(program.closed.graph)._is_compiled:
            return
        assert time.monotonic() < deadline
        time.sleep(0.05)

def worker():
    deadline = time.monotonic() + 100
    while background.compiler()._worker is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return background.compiler()._worker
"""


def start(program, *options, **variables):
    environment = {**os.environ, "JAXISH_JIT_TIER": "auto", **variables}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, *(options or ["-c", HEAD + program])], env=environment, **pipes)


def run(program, *options, **variables):
    """Run a program; return what it prints. It may print nothing on standard error, and end in no other way."""
    started = start(program, *options, **variables)
    out, err = started.communicate(timeout=300)
    assert (started.returncode, err) == (0, ""), err
    return out


def has_ended(pid):
    """Tell whether a process that is no child of this one has ended, or will have soon."""
    for _ in range(200):
        try:
            if pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True  # whoever adopted it has not looked yet
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.1)
    return False


def test_it_ends_with_a_parent_that_is_killed_though_a_child_has_its_pipes():
    program = """
f = function(); f.check(); f.check()
pid = worker().pid
if os.fork() == 0:
    time.sleep(100)
print(pid, flush=True)
time.sleep(100)
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", HEAD + program],
        env={**os.environ, "JAXISH_JIT_TIER": "auto"}, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert os.getsid(pid) == pid != parent.pid  # so Ctrl-C at the parent's terminal is not for it
    parent.kill()
    parent.wait()
    assert has_ended(pid)
    os.killpg(parent.pid, signal.SIGKILL)  # the fork
    parent.stdout.close()


@pytest.mark.parametrize("moment", ["worker()", "time.sleep(0.5)", "switched(f)"])
def test_a_program_may_end_at_any_moment(moment):
    assert run(f"f = function(); f.check(); f.check(); {moment}; print('done')") == "done\n"


def test_what_the_cache_has_needs_no_process(tmp_path):
    for expected in ("True", "False"):
        out = run("np.random.seed(0); switched(function()); print(background.compiler()._worker is not None)",
                  JAXISH_CACHE_DIR=str(tmp_path))  # fmt: skip
        assert out == f"{expected}\n"


def test_an_interrupt_from_the_terminal_is_for_the_users_code_alone(tmp_path):
    # The worker waits at its start until the interrupt has been dealt with, so that it comes in the middle of its work.
    go_on = str(tmp_path / "go on")
    program = f"""
import fcntl, signal, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # the terminal of this session
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell runs in the background
background._WORKER = "import os, time\\nwhile not os.path.exists({go_on!r}): time.sleep(0.05)\\n" + background._WORKER
f = function(); f.check(); f.check()
first = worker().pid
deadline = time.monotonic() + 100
try:
    print("ready", flush=True)
    while time.monotonic() < deadline:
        f.check()
except KeyboardInterrupt:
    print("interrupted", flush=True)
open({go_on!r}, "w").close()
switched(f)
print("the same" if worker().pid == first else "another", flush=True)
"""
    ours, theirs = os.openpty()
    terminal = {"stdin": theirs, "stdout": theirs, "stderr": theirs, "start_new_session": True}
    environment = {**os.environ, "JAXISH_JIT_TIER": "auto"}
    process = subprocess.Popen([sys.executable, "-c", HEAD + program], env=environment, **terminal)
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):  # how Linux tells that nobody has the terminal any more
        while part := os.read(ours, 1000):
            was_ready, said = b"ready\r\n" in said, said + part
            if (
                b"ready\r\n" in said and not was_ready
            ):  # with its end: an interrupt drops what a terminal has not written
                os.write(ours, b"\x03")  # Ctrl-C: the terminal signals the processes in its foreground
    os.close(ours)
    assert process.wait() == 0
    assert said.replace(b"^C", b"").splitlines() == [b"ready", b"interrupted", b"the same"]


def test_one_that_dies_is_replaced():
    program = """
f = function(); f.check(); f.check()
worker().kill()
switched(f)
g = function(); g.check(); g.check()
worker().kill()
switched(g)
children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
print(len([c for c in children if open(f"/proc/{c}/stat").read().split(") ")[1][0] == "Z"]), "zombies")
"""
    assert run(program) == "0 zombies\n"


def test_one_that_has_compiled_many_graphs_is_replaced():
    program = """
background._GRAPHS, close, buried = 2, background._close_pipes, []
background._close_pipes = lambda process: buried.append(process) or close(process)
for _ in range(5):
    switched(function())
print([process.poll() is None for process in (*buried, background.compiler()._worker)])
"""
    assert run(program) == "[False, False, True]\n"


def test_ones_that_keep_dying_are_given_up_with_one_warning(monkeypatch):
    monkeypatch.setattr(background, "_WORKER", "import sys; sys.exit(1)")
    monkeypatch.setattr(background, "_compiler", background.Compiler())
    monkeypatch.setattr(piecewise, "LEAST_IN_ROWS", 2)
    x = np.linspace(0, 1, 100_000, dtype=np.float32)
    said = []
    monkeypatch.setattr(cache, "warn", said.append)
    with config.jit_tier("auto"):
        for factor in (2.5, 3.5):
            jitted = jaxish.jit(lambda x: jnp.sin(x * factor) + 1)
            for _ in range(3):
                np.testing.assert_allclose(jitted(x), np.sin(x * factor) + 1, rtol=1e-6)
        compiler = background.compiler()
        for thread in (compiler._pieces, compiler._whole):
            thread.end()
            thread.join()
    assert set(said) == {"the process that compiles has ended by itself, 3 times in a row."}
    assert compiler._worker is None


def test_pieces_do_not_wait_for_what_the_worker_compiles(monkeypatch):
    compiler, at_work = background.Compiler(), threading.Event()
    monkeypatch.setattr(background, "_compiler", compiler)
    monkeypatch.setattr(background.Compiler, "_worker_compiles", lambda self, request: not at_work.wait(100))
    monkeypatch.setattr(piecewise, "LEAST_IN_ROWS", 2)
    x = np.linspace(0, 1, 100_000, dtype=np.float32)

    def called(shift):
        jitted = jaxish.jit(lambda x: jnp.cos(x + shift) * 2 - x)
        for _ in range(3):
            np.testing.assert_allclose(jitted(x), np.cos(x + np.float32(shift)) * 2 - x, rtol=1e-5, atol=1e-5)
        ((_, program),) = jitted._programs.items()
        return jitted, executable.of(program.closed.graph)

    with config.jit_tier("auto"):
        made = [called(0.25), called(0.75)]
        deadline = time.monotonic() + 100
        while any(found._meanwhile in (None, found.direct) for _, found in made):
            assert time.monotonic() < deadline
        at_work.set()
        for thread in (compiler._pieces, compiler._whole):
            thread.end()
            thread.join()


def test_programs_of_every_kind_compile_and_print_what_they_print(tmp_path):
    main = tmp_path / "program.py"
    main.write_text(
        f"open({str(tmp_path / 'runs')!r}, 'a').write('.')\n{HEAD}\nf = function(); switched(f); print('done')"
    )
    for options in ([str(main)], ["-m", "program"], ["-m", "jaxish", "run", str(main)]):
        paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
        assert run("", *options, PYTHONPATH=paths) == "done\n"
    assert (tmp_path / "runs").read_text() == "..."  # not once more in the worker


def test_modules_of_the_users_are_not_taken_for_others(tmp_path):
    for name in ("pickle", "queue", "logging", "torch", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('this is the user\\'s')")
    program = f"""
import numpy.testing, pathlib
sys.path[:0] = [{str(tmp_path)!r}, "", pathlib.Path("other"), "relative"]
switched(function())
print("done")
"""
    assert run(program) == "done\n"


@pytest.mark.parametrize("tier", ["direct", "auto", "compiled"])
def test_a_fork_has_a_compiler_of_its_own(tier):
    program = f"""

def work(queue):
    mine = function()
    switched(mine) if {tier!r} == "auto" else mine.check()
    f.check()
    queue.put(background.compiler() is not theirs)

f = function()
f.check(); f.check()
theirs = background.compiler()
fork = multiprocessing.get_context("fork")
queue = fork.Queue()
children = [fork.Process(target=work, args=(queue,)) for _ in range(2)]
for child in children: child.start()
print([queue.get(timeout=200) for _ in children])
for child in children: child.join()
print([child.exitcode for child in children])
switched(f) if {tier!r} == "auto" else f.check()
print(background.compiler() is theirs)
"""
    assert run(program, JAXISH_JIT_TIER=tier) == "[True, True]\n[0, 0]\nTrue\n"


@pytest.mark.parametrize("tier", ["direct", "compiled"])
def test_forks_after_computing_with_several_threads(tier):
    program = """
import torch
x = np.linspace(0, 1, 1_000_000, dtype=np.float32)
f = function()
f.check()
def work():
    f.check()
    jnp.sin(x)
    print(torch.get_num_threads(), flush=True)
fork = multiprocessing.get_context("fork")
for _ in range(2):
    child = fork.Process(target=work)
    child.start()
    child.join(60)
    print(child.exitcode, flush=True)
    child.kill()
    f.check()
"""
    assert run(program, JAXISH_JIT_TIER=tier, OMP_NUM_THREADS="2") == "2\n0\n" * 2


def test_forks_while_a_thread_compiles(tmp_path):
    program = """
import threading
function().check()
f = function()
thread = threading.Thread(target=f.check)
thread.start()
while thread.is_alive():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    time.sleep(0.01)
print("done")
"""
    assert run(program, JAXISH_JIT_TIER="compiled", JAXISH_CACHE_DIR=str(tmp_path)) == "done\n"


def test_data_loaders_with_processes():
    program = """
import torch.utils.data

class Squares(torch.utils.data.Dataset):
    def __init__(self):
        self.squared = jaxish.jit(lambda x: x * x + 1)
        self.squared(2.0); self.squared(3.0)
    def __len__(self):
        return 8
    def __getitem__(self, i):
        return float(self.squared(float(i)))

loader = torch.utils.data.DataLoader(Squares(), batch_size=4, num_workers=2, multiprocessing_context="fork")
print([v for batch in loader for v in batch.tolist()])
"""
    assert run(program) == "[1.0, 2.0, 5.0, 10.0, 17.0, 26.0, 37.0, 50.0]\n"


def test_spawned_processes(tmp_path):
    main = tmp_path / "program.py"
    main.write_text(
        HEAD
        + """
def work(number):
    f = function()
    switched(f)
    return number * 2

if __name__ == "__main__":
    f = function(); f.check(); f.check()
    pool = multiprocessing.get_context("spawn").Pool(2)
    print(pool.map(work, [1, 2]))
    pool.close()  # not terminated: that leaves semaphores behind, with a warning
    pool.join()
"""
    )
    assert run("", str(main)) == "[2, 4]\n"


def test_a_fork_compiles_a_loop_that_its_parent_is_compiling(tmp_path):
    program = """
from jaxish._compile import loop_compiler, native_loop
native_loop._PATIENCE = 0
begin = loop_compiler.started
started = []
loop_compiler.started = lambda *given: started.append(os.getpid()) or begin(*given)
x = jnp.ones(200000, int)  # a loop in a smaller graph is compiled with it
loop = jaxish.jit(lambda x: jaxish.lax.fori_loop(0, 5, lambda i, c: c * 3 + i, x))
print(int(loop(x)[0]), started == [os.getpid()], flush=True)
child = os.fork()
if child == 0:
    print(int(loop(x)[0]), started[1:] == [os.getpid()], flush=True)
    sys.exit()
print(os.waitpid(child, 0)[1], int(loop(x)[0]), len(started), flush=True)
"""
    assert run(program, JAXISH_CACHE_DIR=str(tmp_path)) == "301 True\n301 True\n0 301 1\n"


def test_a_core_is_left_to_the_compiling_process_while_it_works(monkeypatch):
    """Threads of torch wait for each other busily: with one more process than cores, all wait for their turn."""
    from jaxish._compile import background

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(machine.cores())
        with background.room_beside():
            assert torch.get_num_threads() == machine.cores()  # nothing compiles
        monkeypatch.setattr(type(background.compiler()), "is_busy", True)
        with background.room_beside():
            assert torch.get_num_threads() == max(1, machine.cores() - 1)
            with background.room_beside():  # of a loop within
                assert torch.get_num_threads() == max(1, machine.cores() - 1)
        assert torch.get_num_threads() == machine.cores()
        torch.set_num_threads(1)  # as the user wants it
        with background.room_beside():
            assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_matrices_are_factored_rightly_after_a_core_was_left_to_the_compiling_process():
    """torch.set_num_threads has MKL take several threads within torch's, where its LU factorizations are not safe."""
    program = """
import numpy as np
import jaxish.numpy as jnp
from jaxish._compile import background
type(background.compiler()).is_busy = True
with background.room_beside():
    pass
a = np.random.default_rng(0).standard_normal((4, 200, 200)) + 20 * np.eye(200)
print(np.abs(np.asarray(jnp.linalg.inv(a)) - np.linalg.inv(a)).max() < 1e-5)
"""
    assert run(program, OMP_NUM_THREADS=str(machine.cores())) == "True\n"


def test_a_thread_that_is_in_a_finalizer_ends_with_the_process(recwarn):
    class Thing:
        pass

    def step(_):
        while True:
            for _ in range(10):
                thing = Thing()
                weakref.finalize(thing, sum, range(100))  # where an exception is but told
                del thing

    thread, executable = background._Thread("test", step), Thing()
    thread.submit(executable)  # pyright: ignore[reportArgumentType]
    thread.start()
    thread.come_to_rest()
    assert not thread.is_alive()
    assert not recwarn.list


def test_threads_take_short_turns_while_there_is_something_to_compile():
    given = sys.getswitchinterval()
    turns = background._ShortTurns()
    with turns:
        with turns:
            assert sys.getswitchinterval() < given
        assert sys.getswitchinterval() < given
        turns.successor()  # of a fork's child, which has no such threads
        assert sys.getswitchinterval() == given
    try:
        with turns:
            sys.setswitchinterval(0.02)  # by the program, which has its way
        assert sys.getswitchinterval() == 0.02
        for seconds in (1e-4, 0.0071):
            sys.setswitchinterval(seconds)
            own = sys.getswitchinterval()
            with turns:
                assert sys.getswitchinterval() <= min(own, 0.001)
            assert sys.getswitchinterval() == own
    finally:
        sys.setswitchinterval(given)


def test_a_graph_that_starts_over_keeps_its_pieces(monkeypatch):
    """As those of a fork's child do, whose parent's worker has not finished."""
    submitted = []
    monkeypatch.setattr(background.Compiler, "submit", lambda self, found: submitted.append(found))
    jitted, x = jaxish.jit(lambda x: jnp.cos(x) * 2 - x), np.linspace(0, 1, 200_000, dtype=np.float32)
    with config.jit_tier("auto"):
        for _ in range(2):
            jitted(x)
        (found,) = submitted
        found.compile_pieces()
        pieces = found._meanwhile
        assert pieces not in (None, found.direct)
        found.start_over()
        np.testing.assert_allclose(jitted(x), np.cos(x) * 2 - x, rtol=1e-5, atol=1e-5)
    assert found._meanwhile is pieces and submitted == [found, found]
