"""C++ functions compiled by the machine's compiler, loaded, and kept in the cache on disk, under a hash of their text."""

import _ctypes
import ctypes
import functools
import math
import pathlib
import struct
import time
import weakref
from collections.abc import Callable, Sequence

from .._core import cache, machine
from . import lapack, loop_fourier, loop_header, progress
from .compiler_process import CompilerProcess

# More flags for the compiler: the harness in tests/differential has the loops that it runs checked as they run.
extra_flags: list[str] = []

# glibc's libmvec (2.35) has tanh and the like for whole vectors; elsewhere they are called one by one.
_VECTORS = ("-DVECTOR_MATH", "-lmvec")
_OPENMP = "-fopenmp"  # torch's own, where it is called libgomp.so.1; a compiler without it ignores the pragma


class NativeLoop:
    """A compiled loop: call it with the places of inputs and outputs in memory, length and direction."""

    def __init__(self, library: pathlib.Path) -> None:
        """Load the library; its file is not needed any more. Raises `OSError`."""
        self._loaded = ctypes.CDLL(str(library))
        weakref.finalize(self, _ctypes.dlclose, self._loaded._handle).atexit = False
        lapack.connect(self._loaded)
        loop_fourier.connect(self._loaded)

    @functools.cached_property
    def function(self) -> Callable[[bytes], None]:
        """The function of a file that has but one."""
        return self.named("loop")

    def named(self, name: str) -> Callable[[bytes], None]:
        """Return the function of this name. It lives as long as this object."""
        function = self._loaded[name]
        # All in one row of bytes, given as the place where they lie: a fifth of the time of ctypes' own conversions.
        function.argtypes = [ctypes.c_char_p]
        function.restype = None
        return function

    def place_of(self, name: str) -> int:
        """Return where in memory a function is."""
        return ctypes.cast(self._loaded[name], ctypes.c_void_p).value or 0

    def __call__(self, inputs: Sequence[int], outputs: Sequence[int], length: int, how: int) -> None:
        """Run the loop on contiguous inputs, filling contiguous outputs.

        `how` is the number of threads; of a loop whose steps follow each other twice that, and one more if it runs in reverse.
        """
        self.function(packer(2 + len(inputs) + len(outputs))(length, how, *inputs, *outputs))


@functools.cache
def packer(count: int) -> Callable[..., bytes]:
    """Return what puts so many numbers and places into the row of bytes that a compiled function is given."""
    return struct.Struct(f"{count}P").pack


_loaded: "weakref.WeakValueDictionary[str, NativeLoop]" = weakref.WeakValueDictionary()


# Beyond a size of a function, and of a file, GCC calls functions that it would have made part of loops, which then have no vectors.
_AS_IN_SHORT_FILES = ("--param=large-function-insns=1000000", "--param=large-unit-insns=1000000")

# Before a loop GCC looks whether its arrays overlap, which it is not told in a way that outlives inlining. By itself it compares up
# to ten pairs, and makes no vectors where there are more: an elementwise function of twelve arrays took twice the time.
_OF_MANY_ARRAYS = "--param=vect-max-version-for-alias-checks=100"

# Characters of a source, with its header, from which on GCC's elimination of common subexpressions takes as long as all else
# (4.7 s became 2.6 s for 80,000); what it compiles runs as fast without it. Shorter loops run up to a tenth slower without.
_LONG = 72_000


def compile_source(source: str) -> NativeLoop | None:
    """Compile a loop, or take it from the cache on disk; None where there is no compiler. Raises `cache.Unusable`."""
    found = begun(source)
    return found.waited_for() if isinstance(found, Build) else found


def begun(source: str, name: str = "a loop") -> "Build | NativeLoop | None":
    """Take a loop from the cache on disk, or start the compiler; None where there is none. Raises `cache.Unusable`."""
    return kept(source) or started(source, name)


def kept(source: str) -> NativeLoop | None:
    """Return the library of this file, or of one that has its functions too, if there is one already. Raises `cache.Unusable`."""
    compiler = machine.compiler()
    return None if compiler is None else _kept(cache.key_of(_command(compiler, source), source))


def started(source: str, name: str, parts: Sequence[str] = ()) -> "Build | None":
    """Start the compiler; None where there is none. `parts` are files whose functions this one has. Raises `cache.Unusable`."""
    compiler = machine.compiler()
    if compiler is None:
        return None
    command = _command(compiler, source)
    keys = [cache.key_of(_command(compiler, part), part) for part in parts]
    return Build(cache.key_of(command, source), command, source, name, keys)


def _command(compiler: str, source: str) -> list[str]:
    # No contraction to fused multiply-adds: a step gives the numbers that torch's operators give.
    command = [compiler, "-O3", "-march=native", "-std=c++17", "-fPIC", "-shared", "-ffp-contract=off"]
    command += ["-fno-math-errno", "-fno-trapping-math", *_AS_IN_SHORT_FILES, _OF_MANY_ARRAYS, *extra_flags]
    if len(source) > _LONG:
        command += ["-fno-gcse", "-fno-gcse-after-reload"]
    if "#pragma omp" in source:
        command.append(_OPENMP)
    return command


def _kept(key: str) -> NativeLoop | None:
    loop = _loaded.get(key) or _from_cache(key)
    if loop is None:
        whole = cache.read_text(_place_of(key))
        loop = None if whole is None else _kept(whole)
    if loop is not None:
        _loaded[key] = loop
    return loop


def _place_of(key: str) -> str:
    """Return the key of the text that says in which file a function is."""
    return cache.key_of("the place of", key)


def _from_cache(key: str) -> NativeLoop | None:
    if not cache.has(key):
        return None
    with cache.scratch() as folder:
        if cache.read(key, folder):
            try:
                return NativeLoop(folder / "loop.so")
            except OSError as error:
                cache.discard(key, f"could not be loaded ({error})")
    return None


_PAUSE = 0.002  # seconds after which a compiler that is waited for is looked at again
_MOST_COMPILERS = max(machine.cores() // 2, 1)  # for small graphs at a time, beside the program
_builds: "weakref.WeakSet[Build]" = weakref.WeakSet()


def has_room() -> bool:
    """Tell whether a compiler may be started for a small graph beside those that are at work."""
    return sum(build.is_running for build in _builds) < _MOST_COMPILERS


class Build:
    """A compiler at work on a file. It is ended when nobody waits for it any more, and with the process."""

    def __init__(self, key: str, command: Sequence[str], source: str, name: str, parts: Sequence[str]) -> None:
        self._key, self._parts = key, [part for part in parts if part != key]
        self._process = CompilerProcess()
        text, self._library = self._process.folder / "loop.cpp", self._process.folder / "loop.so"
        try:
            text.write_text(source)
        except OSError:
            cache.check_room()
            raise
        self._header = None if len(source) > _LONG else loop_header.of(source, [*command, _VECTORS[0]])
        self._included = self._header.options() if self._header else []
        command = [*command, str(text), "-o", str(self._library)]
        self._ways = [[*command, *_VECTORS], command]
        if self._included:
            self._ways.insert(0, [*self._ways[0], *self._included])
        if _OPENMP in command:
            self._ways.append([word for word in command if word != _OPENMP])
        self._process.start(self._ways.pop(0))
        self._begun = time.monotonic()
        self._tell = progress.begun(name)
        self._outcome: NativeLoop | RuntimeError | None = None  # which several may ask for
        _builds.add(self)

    @property
    def is_running(self) -> bool:
        """Whether the compiler is still at work."""
        return self._process.is_running

    def loop(self) -> NativeLoop | None:
        """Return the loop if it is compiled. Raises `RuntimeError` if it cannot be, and `cache.Unusable`."""
        if isinstance(self._outcome, RuntimeError):
            raise self._outcome
        process = self._process
        if self._outcome is not None or process.is_running:
            return self._outcome
        try:
            loop = NativeLoop(self._library)
        except OSError:
            if self._header and self._included:
                self._header.give_up()
            self._header = None
            if self._ways:
                process.start(self._ways.pop(0))
                return None
            said = process.said()
            process.end()
            cache.check_room()
            self._tell("could not be compiled")
            self._outcome = RuntimeError(f"{machine.compiler()} could not compile a loop: {said}")
            raise self._outcome from None
        for name in ("loop.cpp", "said"):
            (process.folder / name).unlink(missing_ok=True)  # another thread may have been here
        cache.write(self._key, process.folder)
        for part in self._parts:
            cache.write_text(_place_of(part), self._key)
        process.end()
        if self._header and not self._included:
            self._header.make()
        if _loaded.get(self._key) is None:  # another thread may have been here
            self._tell("runs compiled")
        _loaded.update(dict.fromkeys([self._key, *self._parts], loop))
        self._outcome = loop
        return loop

    def wait(self) -> None:
        """Wait until there is something to look at."""
        self._process.wait()

    def ends_within(self, seconds: float) -> bool:
        """Wait until there is something to look at, at most until so long after the beginning; tell whether there is."""
        if seconds == math.inf:
            self.wait()
        while self.is_running and time.monotonic() - self._begun < seconds:
            time.sleep(_PAUSE)  # Popen's own way to wait for a time looks up to 50 ms late
        return not self.is_running

    def waited_for(self) -> NativeLoop:
        """Return the loop when it is compiled. Raises `RuntimeError` if it cannot be, and `cache.Unusable`."""
        while (loop := self.loop()) is None:
            self.wait()
        return loop
