"""What C++ files begin with is precompiled once, and whatever has become of that, functions give JAX's values."""

import itertools
import os
import pathlib

import numpy as np
import pytest

import jaxish
from jaxish._compile import loop_compiler, loop_header
from jaxish._core import cache, config

pytestmark = pytest.mark.usefixtures("compiled")
X = np.random.RandomState(0).randn(5).astype(np.float32)
NUMBERS = itertools.count(1)
made: list[loop_header.Header] = []


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path):
    with config.cache_dir(str(tmp_path / "cache")):
        yield
        loop_header._header.cache_clear()  # as in another process


@pytest.fixture(autouse=True)
def headers(monkeypatch):
    made.clear()
    make = loop_header.Header.make
    monkeypatch.setattr(loop_header.Header, "make", lambda self: made.append(self) or make(self))


@pytest.fixture
def commands(monkeypatch):
    """Return the commands that compilers are started with."""
    started, start = [], loop_compiler.CompilerProcess.start
    monkeypatch.setattr(
        loop_compiler.CompilerProcess, "start", lambda self, command: started.append(command) or start(self, command)
    )
    return started


def compile_one():
    """Compile a function that nobody has compiled yet, and look at what it gives."""
    number = np.float32(1 + next(NUMBERS) / 64)
    np.testing.assert_allclose(jaxish.jit(lambda x: x * number + 0.5)(X), X * number + np.float32(0.5), rtol=1e-6)


def precompiled() -> pathlib.Path:
    """Compile until there is a precompiled header; return it."""
    compile_one()
    header = made[-1]
    assert header._making is not None
    header._making.wait()
    assert header.options()
    return header._folder / "header.h.gch"


def includes(command):
    return "-include" in command and "header.h" in command[command.index("-include") + 1]


def test_the_second_function_is_compiled_with_it(commands):
    precompiled()
    compile_one()
    function, header, other = commands
    assert "c++-header" in header and not includes(function) and includes(other)


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # of JAX, which is here for other tests
@pytest.mark.parametrize("fork", [False, True])
def test_another_process_finds_it(commands, fork):
    precompiled()
    if not fork:
        loop_header._header.cache_clear()
        compile_one()
        assert includes(commands[-1])
        return
    child = os.fork()
    if not child:
        compile_one()
        os._exit(0 if includes(commands[-1]) else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("how", ["half", "empty", "another byte", "gone", "no digests", "nothing left"])
def test_a_damaged_one_is_made_again(commands, how):
    path = precompiled()
    content = path.read_bytes()
    if how in ("gone", "nothing left"):
        path.unlink()
    elif how == "no digests":
        (path.parent / "sealed").write_text("{")
    else:
        path.write_bytes(
            {"half": content[: len(content) // 2], "empty": b""}.get(how, content[:-9] + b"x" + content[-8:])
        )
    if how == "nothing left":
        cache.clear()
    loop_header._header.cache_clear()
    made.clear()
    compile_one()
    assert not includes(commands[-2]) and "c++-header" in commands[-1]
    assert made[-1]._making is not None
    made[-1]._making.wait()
    compile_one()
    assert includes(commands[-1])


def test_one_that_goes_while_it_is_used_is_done_without(commands):
    path = precompiled()
    path.unlink()
    path.with_name("header.h").unlink()
    compile_one()
    assert not includes(commands[-1])


def test_one_that_the_compiler_refuses_is_given_up(commands):
    path = precompiled()
    path.with_name("header.h").write_text("this is no C++\n")
    path.write_bytes(b"this is no header")
    (path.parent / "sealed").unlink()
    cache.seal(path.parent)
    loop_header._header.cache_clear()
    commands.clear()
    compile_one()
    assert [includes(command) for command in commands] == [True, False]
    assert not path.parent.exists()
    compile_one()
    assert not any(map(includes, commands[1:]))


def test_none_is_made_that_the_compiler_refuses(monkeypatch, commands):
    command = loop_header.Header.__init__
    monkeypatch.setattr(
        loop_header.Header,
        "__init__",
        lambda self, folder, text, given, owner: command(self, folder, text, [*given, "-no-such-flag"], owner),
    )
    compile_one()
    making = made[-1]._making
    assert making is not None
    making.wait()
    compile_one()
    compile_one()
    assert sum("c++-header" in command for command in commands) == 1 and not any(map(includes, commands))


def test_one_that_another_process_has_made_meanwhile_is_used(commands):
    compile_one()
    making = made[-1]._making
    assert making is not None
    making.wait()
    loop_header._header.cache_clear()  # another process
    precompiled()
    assert made[0].options() and not making.folder.exists()
