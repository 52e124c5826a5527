"""What was compiled, on disk: one folder of the user's own, in which an entry is there whole or not at all.

An entry is one file that holds a few others, behind a line that says who made it and a digest of the rest. It is
written beside, synced and renamed, so that a process that is killed, or a machine that loses power, leaves none or all
of it; and what does not match its digest is thrown away, with a sentence in the log. Nobody works in an entry: its
files are taken out into a scratch folder, which goes when its owner goes. So entries may be thrown away at any time.

    ROOT / build / entries / key        build: versions, compiler and processor (machine.py)
                 / headers / key        precompiled headers (`_compile/loop_header.py`, `inductor_files.py`)
                 / scratch / random     one for each process at work, locked by it
"""

import atexit
import contextlib
import errno
import functools
import hashlib
import io
import json
import logging
import os
import pathlib
import shutil
import stat
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass

from . import config, machine

log = logging.getLogger("jaxish")
_PARTS = ("entries", "headers", "scratch")
_DIGEST = hashlib.sha256().digest_size
_ROOM = 1 << 24  # bytes that must be left on the disk for compiling to be tried


class Unusable(Exception):
    """The cache's folder cannot be used; the message says which it is and what to do."""


@functools.cache
def warn(trouble: str) -> None:
    """Say, once, why nothing is compiled."""
    warnings.warn(f"jaxish compiles nothing, and jit runs each graph operator by operator: {trouble}", stacklevel=3)


# ------------------------------------------------------------------------------------------------------- the folder


def root() -> pathlib.Path:
    """Return the folder of the cache, which need not exist yet. Raises `Unusable` where the user has no place for it."""
    given = chosen()
    path = os.path.expanduser(given) if given else os.path.join(_users_caches(), "jaxish")
    if path.startswith("~"):
        raise Unusable(f"there is no home folder for {path}. Set JAXISH_CACHE_DIR to a folder of your own.")
    return pathlib.Path(os.path.abspath(path))


def chosen() -> str | None:
    """Return the folder that the user has chosen, None for that of all programs of the user's."""
    given = config.cache_dir.value or config.compilation_cache_dir.value
    if given and "://" in given:
        _warn_of_elsewhere(given)
        return None
    return given


@functools.cache
def _warn_of_elsewhere(path: str) -> None:
    warnings.warn(
        f"{path!r} is no folder of this machine: what is compiled is kept where it is without jax_compilation_cache_dir. Set "
        "that to a folder.",
        stacklevel=4,
    )


def set_cache_dir(path: str | None) -> None:
    """Keep what is compiled from here on in this folder: sets `jax_compilation_cache_dir`. None: the user's own.

    `jaxish_cache_dir`, where it is set, goes before. Code that is compiled already stays in use.
    """
    config.compilation_cache_dir.set(path)


def reset_cache() -> None:
    """Look at the folder anew: it is made again if it is gone, and why it could not be used is said again.

    Code that is compiled already stays in use.
    """
    global _unchecked
    _unchecked = 1 << 62
    warn.cache_clear()


def _users_caches() -> str:
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Caches")
    given = os.environ.get("XDG_CACHE_HOME", "")
    return given if os.path.isabs(given) else os.path.expanduser("~/.cache")


def folder() -> pathlib.Path:
    """Return the folder for what is compiled by this very build, made where it is missing.

    Raises `Unusable` when it cannot be made or written, belongs to somebody else, or others may write there.
    """
    top = root()
    try:
        top.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_owner(top, top.stat())
        build = top / machine.build()
        for part in _PARTS:
            (build / part).mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(top, error) from error
    if not os.access(build / "scratch", os.W_OK | os.X_OK):
        raise _unusable(top, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
    disk = os.statvfs(build)
    if disk.f_blocks and disk.f_bavail * disk.f_frsize < _ROOM:
        raise _unusable(top, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    return build


def _check_owner(path: pathlib.Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        raise Unusable(
            f"{path} belongs to another user (uid {found.st_uid}), whose code would be run. "
            "Set JAXISH_CACHE_DIR to a folder of your own."
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Unusable(
            f"others than its owner may write in {path} (mode {stat.S_IMODE(found.st_mode):04o}), whose code would be "
            f"run. Forbid it (chmod go-w {path}), or set JAXISH_CACHE_DIR to another folder."
        )


def _unusable(path: pathlib.Path, error: OSError) -> Unusable:
    return Unusable(
        f"{path} cannot be written ({error.strerror}). Make room or give permission there, or set JAXISH_CACHE_DIR "
        "to another folder."
    )


def check_room() -> None:
    """Raise `Unusable` where no more can be written: something failed, and this would be why."""
    build = folder()
    try:
        with tempfile.TemporaryFile(dir=build / "scratch") as file:
            file.write(bytes(1 << 20))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise _unusable(root(), error) from error


@contextlib.contextmanager
def scratch(lasting: bool = False) -> Iterator[pathlib.Path]:
    """Within this context manager there is an empty folder for the caller alone; a lasting one stays until exit.

    Raises `Unusable`.
    """
    try:
        path = pathlib.Path(tempfile.mkdtemp(dir=_workplace()))
    except OSError as error:
        raise _unusable(root(), error) from error
    try:
        yield path
    finally:
        if not lasting:
            shutil.rmtree(path, ignore_errors=True)


_OWNER = "owner.lock"
_workplaces: dict[tuple[int, pathlib.Path], pathlib.Path] = {}  # of processes (a fork knows its parent's) and builds


def _workplace() -> pathlib.Path:
    """Return the folder for all that this process has in the works, locked until it ends and removed then."""
    process = (os.getpid(), folder())
    found = _workplaces.get(process)
    if found is None or not found.exists():
        found = _workplaces[process] = pathlib.Path(tempfile.mkdtemp(dir=process[1] / "scratch"))
        lock = contextlib.ExitStack()
        lock.enter_context(exclusive(found / _OWNER))
        atexit.register(_leave, found, process[0], lock)
    return found


def _leave(workplace: pathlib.Path, process: int, lock: contextlib.ExitStack) -> None:
    if os.getpid() == process:
        shutil.rmtree(workplace, ignore_errors=True)
        lock.close()


@contextlib.contextmanager
def exclusive(path: pathlib.Path, wait: bool = True) -> Iterator[None]:
    """Within this context manager no other process has the lock file `path`. The lock ends with its process.

    Raises `BlockingIOError` where another process has it and `wait` is false.
    """
    import fcntl  # not on Windows

    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise
        except OSError:  # a file system without locks: what is published is whole all the same
            if not wait:
                raise
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Within this context manager environment variables are these; after it, all that torch sets are what they were."""
    before = {name: os.environ.get(name) for name in _SET_BY_TORCH}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


_SET_BY_TORCH = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR")


# ------------------------------------------------------------------------------------------------------ the entries


def key_of(*parts: object) -> str:
    """Return the key of what is made of these: a digest of their texts."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:40]


def has(key: str) -> bool:
    """Tell whether there is such an entry, sound or not. Raises `Unusable`."""
    return (folder() / "entries" / key).exists()


def read(key: str, target: pathlib.Path) -> bool:
    """Put the files of an entry into the folder `target`; tell whether there was a sound one. Raises `Unusable`."""
    body = _body(key)
    if body is None:
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as files:
            files.extractall(target)
    except OSError as error:
        raise _unusable(root(), error) from error
    return True


def read_text(key: str) -> str | None:
    """Return an entry that is a text, if there is a sound one. Raises `Unusable`."""
    body = _body(key)
    return None if body is None else body.decode()


def _body(key: str) -> bytes | None:
    path = folder() / "entries" / key
    try:
        content = path.read_bytes()
        os.utime(path)  # the least recently used go first
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(root(), error) from error
    maker, _, rest = content.partition(b"\n")
    if maker.startswith(b"jaxish-") and maker != machine.build().encode():
        discard(key, f"was made by {maker.decode(errors='replace')}, which this is not")
        return None
    if hashlib.sha256(rest[_DIGEST:]).digest() != rest[:_DIGEST]:
        discard(key, "is damaged")
        return None
    return rest[_DIGEST:]


def write(key: str, source: pathlib.Path) -> None:
    """Keep the files in the folder `source` as an entry, in place of an earlier one."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1, strict_timestamps=False) as files:
        for path in files_in(source):
            files.write(path, path.relative_to(source))
    _keep(key, packed.getvalue())


def write_text(key: str, text: str) -> None:
    """Keep a text as an entry, in a hundredth of the time: one that a loss of power may damage."""
    _keep(key, text.encode(), synced=False)


def _keep(key: str, body: bytes, synced: bool = True) -> None:
    content = machine.build().encode() + b"\n" + hashlib.sha256(body).digest() + body
    try:
        publish(folder() / "entries" / key, content, synced)
        _make_room(len(body))
    except (OSError, Unusable) as error:  # it is loaded and runs; the next process compiles it again
        log.warning("jaxish could not keep what it compiled: %s", error)


def discard(key: str, why: str) -> None:
    """Throw an entry away; `why` completes the sentence that says so in the log."""
    path = folder() / "entries" / key
    log.warning("jaxish: the cache entry %s %s; it was thrown away, and is compiled again.", path, why)
    path.unlink(missing_ok=True)


def publish(path: pathlib.Path, content: bytes, synced: bool = True) -> None:
    """Make a file with this content appear at once and, if it is `synced`, for good: whoever finds it finds all of it."""
    with tempfile.NamedTemporaryFile(dir=folder() / "scratch", delete=False) as file:
        try:
            file.write(content)
            file.flush()
            if synced:
                os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
    if synced:
        _sync_folder(path.parent)


def _sync_folder(path: pathlib.Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def files_in(source: pathlib.Path) -> list[pathlib.Path]:
    """Return the files below a folder, locks aside, in an order that is the same everywhere."""
    return sorted(path for path in source.rglob("*") if path.is_file() and path.suffix != ".lock")


# ---------------------------------------------------------------------------------------------------------- the headers


def header_folder(*made_of: object) -> pathlib.Path:
    """Return the folder of the precompiled header that is made of these, which need not exist: it is used where it lies."""
    return folder() / "headers" / key_of(*made_of)


def seal(headers: pathlib.Path) -> None:
    """Write down the digests of the files in a folder: it is finished."""
    digests = {path.name: _digest_of(path) for path in files_in(headers)}
    publish(headers / "sealed", json.dumps(digests).encode())


def is_sound(headers: pathlib.Path, verified: bool = True) -> bool:
    """Tell whether a folder is finished and none of its files is missing or, if that is to be `verified`, damaged."""
    try:
        digests = json.loads((headers / "sealed").read_bytes())
        if not verified:
            return all((headers / name).exists() for name in digests)
        damaged = [name for name in digests if _digest_of(headers / name) != digests[name]]
    except FileNotFoundError:  # never finished, or thrown away for its size
        return False
    except ValueError:
        damaged = ["sealed"]
    for name in damaged:
        log.warning("jaxish: the file %s is damaged; it was thrown away, and is made again.", headers / name)
    return not damaged


def _digest_of(path: pathlib.Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ------------------------------------------------------------------------------------------------------------- size

_unchecked = 1 << 62  # bytes written by this process since it last made room


def _make_room(written: int) -> None:
    """Throw away what was not used for longest while the cache is larger than `jaxish_cache_max_size`."""
    global _unchecked
    limit = config.cache_max_size.value
    _unchecked += written
    if _unchecked < limit // 64:
        return
    _unchecked = 0
    _sweep()
    found = sorted((status.st_mtime, status.st_size, path) for path, status in _kept())
    excess = sum(size for _, size, _ in found) - limit
    if excess <= 0:
        return
    for _, size, path in found:
        path.unlink(missing_ok=True)
        excess -= size
        if excess <= -limit // 8:  # room for some more, so that this is not done every time
            return


def _kept() -> Iterator[tuple[pathlib.Path, os.stat_result]]:
    """Yield what is kept, of every build: entries and precompiled headers."""
    for pattern in ("jaxish-*/entries/*", "jaxish-*/headers/*/*.[gp]ch"):
        for path in root().glob(pattern):
            with contextlib.suppress(FileNotFoundError):
                yield path, path.stat()


def _sweep() -> None:
    """Remove scratch folders and files whose process was killed."""
    for path in root().glob("jaxish-*/scratch/*"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime > time.time() - 60:  # it may have been made this moment, and not be locked yet
                continue
            if path.is_file():
                path.unlink()
                continue
            with exclusive(path / _OWNER, wait=False):
                shutil.rmtree(path)


@dataclass(frozen=True)
class Info:
    """What is in the cache."""

    path: pathlib.Path
    entries: int
    bytes: int


def info() -> Info:
    """Return where the cache is and how much is kept there. Raises `Unusable` where there is no place for one."""
    sizes = [status.st_size for _, status in _kept()]
    return Info(root(), len(sizes), sum(sizes))


def clear() -> Info:
    """Throw away all that is kept, of every build; return what it was. Processes at work are not disturbed."""
    before = info()
    for path, _ in _kept():
        path.unlink(missing_ok=True)
    _sweep()
    return before
