"""The cache on disk: where it is, whom it trusts, what it survives, how large it gets."""

import gc
import importlib
import logging
import os
import pathlib
import random
import signal
import stat
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

import jaxish
from jaxish.__main__ import main
from jaxish._core import cache, config, machine

PROGRAM = pathlib.Path(__file__).with_name("compiling_program.py")


@pytest.fixture
def root(tmp_path):
    """A cache of this test's own."""
    with config.cache_dir(str(tmp_path / "cache")):
        yield tmp_path / "cache"
    cache.warn.cache_clear()


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A cache that holds what the program compiles."""
    folder = tmp_path_factory.mktemp("filled") / "cache"
    assert run(folder).stdout.startswith("compiled")
    return folder


def environment(folder, tier="compiled", **variables):
    # Tests that call torch.func or torch.compile by themselves let torch note things of its own in this process.
    given = {name: value for name, value in os.environ.items() if "TORCHINDUCTOR" not in name}
    return {**given, "JAXISH_CACHE_DIR": str(folder), "JAXISH_JIT_TIER": tier, **variables}


def run(folder, tier="compiled", command=(str(PROGRAM),), **variables):
    command = [sys.executable, *command]
    done = subprocess.run(command, env=environment(folder, tier, **variables), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


def counting_compiler(folder):
    """Return a compiler that writes down its command lines, and where."""
    script, log = folder / "compiler", folder / "commands"
    script.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {machine.compiler()} "$@"\n')
    script.chmod(0o755)
    log.touch()
    return script, log


def put(key, **files):
    with cache.scratch() as folder:
        for name, content in files.items():
            (folder / name).write_bytes(content)
        cache.write(key, folder)


def got(key):
    with cache.scratch() as folder:
        return {p.name: p.read_bytes() for p in cache.files_in(folder)} if cache.read(key, folder) else None


# ------------------------------------------------------------------------------------------------------------ place


def test_everything_is_below_the_users_cache_and_the_environment_stays(tmp_path):
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    home.mkdir()
    temporary.mkdir()
    environment = {"HOME": str(home), "TMPDIR": str(temporary), "XDG_CACHE_HOME": "", "JAXISH_CACHE_DIR": ""}
    done = run("", "auto", **environment)
    assert done.stdout == "compiled []\n" and done.stderr == ""
    assert list(temporary.iterdir()) == []
    assert stat.S_IMODE((home / ".cache" / "jaxish").stat().st_mode) == 0o700
    shown = subprocess.run(
        [sys.executable, "-m", "jaxish", "info"], env={**os.environ, **environment}, capture_output=True, text=True
    )
    (line,) = [line for line in shown.stdout.splitlines() if line.startswith("kernel cache:")]
    assert pathlib.Path(line.split()[2]).parent == home / ".cache" / "jaxish"
    assert list(pathlib.Path(line.split()[2], "entries").iterdir())


def test_direct_code_leaves_nothing_of_torch_behind(tmp_path):
    done = run(tmp_path / "cache", "direct", TMPDIR=str(tmp_path))
    assert done.stdout == "direct []\n"
    assert list(tmp_path.iterdir()) == []


def test_a_second_process_compiles_nothing(tmp_path):
    compiler, log = counting_compiler(tmp_path)
    run(tmp_path / "cache", "auto", CXX=str(compiler))
    assert any("-shared" in command for command in log.read_text().splitlines())
    for tier in ("compiled", "auto"):
        log.write_text("")
        run(tmp_path / "cache", tier, CXX=str(compiler))
        assert not [command for command in log.read_text().splitlines() if command not in ("--version", "-v")]
    program = f"import runpy, sys; runpy.run_path({str(PROGRAM)!r}); print('torch._inductor.compile_fx' in sys.modules)"
    done = run(tmp_path / "cache", "compiled", ["-c", program])
    assert done.stdout.endswith("\nFalse\n")  # nor imports what compiles


def test_jaxs_way_of_choosing_the_folder(tmp_path, compiled):
    def program(lib, folder):
        module = importlib.import_module(f"{lib.__name__}.experimental.compilation_cache.compilation_cache")
        module.set_cache_dir(str(folder))
        lib.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        module.reset_cache()
        result = lib.jit(lambda x: lib.numpy.sin(x) * 2 + 1)(np.linspace(0, 1, 20))
        lib.config.update("jax_persistent_cache_min_compile_time_secs", 1.0)
        module.set_cache_dir(None)
        module.reset_cache()
        return result, any(path.stat().st_size for path in folder.rglob("*") if path.is_file())

    with config.cache_dir(None):
        wanted, found = program(jax, tmp_path / "jax"), program(jaxish, tmp_path / "jaxish")
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-6)
    assert found[1] is wanted[1] is True


def test_a_folder_on_another_machine_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with config.cache_dir(None), config.compilation_cache_dir("gs://bucket/cache"):
        with pytest.warns(UserWarning, match="gs://bucket/cache.*is no folder of this machine"):
            assert cache.root() == tmp_path / "jaxish"
        assert cache.root() == tmp_path / "jaxish"  # said once


def test_what_is_wrong_is_said_again_after_a_reset():
    cache.warn.cache_clear()
    for _ in range(2):
        with pytest.warns(UserWarning, match="the folder is gone"):
            cache.warn("the folder is gone")
        cache.reset_cache()


# ------------------------------------------------------------------------------------------------------------ trust


def test_a_folder_of_somebody_elses_is_refused(root, monkeypatch):
    root.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(cache.Unusable, match=f"{root} belongs to another user"):
        cache.folder()


def test_a_folder_that_others_may_write_is_refused(root):
    root.mkdir()
    root.chmod(0o775)
    with pytest.raises(cache.Unusable, match=f"others than its owner may write in {root} .*chmod go-w"):
        cache.folder()


def test_without_a_folder_graphs_run_directly_with_one_warning(tmp_path, compiled):
    cache.warn.cache_clear()
    (tmp_path / "file").touch()
    x = np.arange(3, dtype=np.float32)
    with config.cache_dir(str(tmp_path / "file" / "cache")):
        with pytest.warns(UserWarning, match=f"{tmp_path}/file/cache cannot be written .*JAXISH_CACHE_DIR") as caught:
            for factor in (2, 3):
                np.testing.assert_array_equal(jaxish.jit(lambda x: x * factor + 1)(x), x * factor + 1)
                looped = jaxish.jit(lambda x: jaxish.lax.fori_loop(0, 3, lambda _, x: x * factor, x))(x)
                np.testing.assert_array_equal(looped, x * factor**3)
        assert len(caught) == 1
    cache.warn.cache_clear()


def test_no_home_is_a_sentence(monkeypatch):
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    with config.cache_dir(None), pytest.raises(cache.Unusable, match=r"no home folder .*JAXISH_CACHE_DIR"):
        cache.root()


def test_a_disk_that_fills_up_means_direct_with_one_warning(tmp_path):
    little_room = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, 1 << 12))"
    program = f"{little_room}; import runpy; runpy.run_path({str(PROGRAM)!r}, run_name='__main__')"
    for tier in ("compiled", "direct"):
        done = run(tmp_path / "cache", tier, ["-c", program])
        assert done.stdout.startswith("direct")
        assert done.stderr.count(f"{tmp_path}/cache cannot be written") == (tier == "compiled"), done.stderr


# ----------------------------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize(
    "damage", [lambda b: b"", lambda b: b[: len(b) // 2], lambda b: b[:-1] + b"?", lambda b: b"?" * 99]
)
def test_a_damaged_entry_is_thrown_away_with_a_sentence(root, caplog, damage):
    put("key", name=b"content")
    path = cache.folder() / "entries" / "key"
    path.write_bytes(damage(path.read_bytes()))
    with caplog.at_level(logging.WARNING, "jaxish"):
        assert got("key") is None
    assert f"{path} is damaged; it was thrown away" in caplog.text
    assert not path.exists()
    put("key", name=b"content")
    assert got("key") == {"name": b"content"}


def test_an_entry_of_another_version_is_thrown_away_with_a_sentence(root, caplog):
    put("key", name=b"content")
    path = cache.folder() / "entries" / "key"
    path.write_bytes(b"jaxish-0.0.1-torch-1\n" + path.read_bytes().partition(b"\n")[2])
    with caplog.at_level(logging.WARNING, "jaxish"):
        assert got("key") is None
    assert f"{path} was made by jaxish-0.0.1-torch-1" in caplog.text


@pytest.mark.parametrize("how", ["empty", "half", "garbage"])
def test_a_program_is_right_whatever_happened_to_the_files(filled, how):
    files = [path for path in filled.rglob("*") if path.is_file() and path.stat().st_size]
    for path in files:
        content = path.read_bytes()
        damaged = {
            "empty": b"",
            "half": content[: len(content) // 2],
            "garbage": random.Random(0).randbytes(len(content) % 10_000),
        }
        path.write_bytes(damaged[how])
    done = run(filled)
    assert done.stdout.startswith("compiled")
    for path in files:
        if path.parent.name == "entries":
            assert str(path) in done.stderr
    assert run(filled).stderr == ""


def test_code_that_does_not_load_is_compiled_again(root, compiled, caplog):
    x = np.arange(3, dtype=np.float32)
    jitted = lambda: jaxish.jit(lambda x: jaxish.lax.fori_loop(0, 3, lambda _, x: x * 3 + x, x))
    np.testing.assert_array_equal(jitted()(x), x * 64)
    gc.collect()  # the function's code goes with it
    for path in (cache.folder() / "entries").iterdir():
        put(path.name, **{"loop.so": b"\x7fELF"})  # sound, as far as the cache can tell
    with caplog.at_level(logging.WARNING, "jaxish"):
        np.testing.assert_array_equal(jitted()(x), x * 64)
    assert "could not be loaded" in caplog.text and "thrown away" in caplog.text


def test_a_killed_compilation_leaves_no_trace(tmp_path):
    chance = random.Random(0)
    for _ in range(3):
        started = subprocess.Popen([sys.executable, PROGRAM], env=environment(tmp_path), start_new_session=True)
        time.sleep(chance.uniform(2, 9))
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
    done = run(tmp_path)
    assert done.stdout.startswith("compiled")


# ------------------------------------------------------------------------------------------------------------- size


def test_the_least_recently_used_go_first(root):
    with config.cache_max_size(100_000):
        for i in range(30):
            put(f"key{i}", name=os.urandom(10_000))
            os.utime(cache.folder() / "entries" / f"key{i}", (i, i))
            if i >= 1:
                assert got("key0") is not None  # used all the time
    assert cache.info().bytes <= 100_000
    kept = {path.name for path in (cache.folder() / "entries").iterdir()}
    assert "key0" in kept and "key29" in kept and "key1" not in kept


def test_what_a_killed_process_left_goes(root):
    left = cache.folder() / "scratch" / "left"
    left.mkdir()
    (left / "file").touch()
    os.utime(left, (0, 0))
    with cache.scratch() as mine:
        os.utime(mine.parent, (0, 0))
        cache.clear()
        assert mine.exists() and not left.exists()


def test_the_command_line_tells_and_clears(root, capsys):
    put("key", name=b"content")
    assert main(["cache", "--info"]) == 0
    assert capsys.readouterr().out.startswith(f"{root}: 1 entries, ")
    assert main(["cache", "--clear"]) == 0
    assert main(["cache", "--info"]) == 0
    assert capsys.readouterr().out.endswith(f"{root}: 0 entries, 0 bytes\n")


def test_clearing_leaves_alone_what_is_not_the_caches(root):
    put("key", name=b"content")
    (root / "mine").touch()
    cache.clear()
    assert (root / "mine").exists()


def test_loaded_code_goes_with_its_function(root, compiled):
    def mapped():
        return pathlib.Path("/proc/self/maps").read_text().count("/loop.so")

    x = np.arange(3, dtype=np.float32)
    gc.collect()
    before = mapped()
    for i in range(3):
        jaxish.jit(lambda x, i=i: jaxish.lax.fori_loop(0, 3, lambda _, x: x * i, x))(x)
    gc.collect()
    assert mapped() <= before
