"""Where Inductor keeps its files: for each graph in a folder of its own, filled from jaxish's cache and kept there.

Inductor's own folder is one for all processes, in a place where others can make it first; it loads what it finds
there, half of a shared object that a killed compiler left as well. Here it finds in its folder what `cache` read,
which is whole, or nothing, and what it adds becomes an entry once it has been loaded.

Private torch API (tried on 2.9 and 2.13): the environment variables that it sets, codecache's precompiled headers, VecISA's
trial compilations, clear_caches, CompiledFxGraph, PyCodeCache, align_inputs_from_check_idxs.
"""

import contextlib
import functools
import json
import os
import pathlib
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from unittest import mock

from .._core import cache, machine, monitoring

T = TypeVar("T")


def kept(key: str, compile: Callable[[pathlib.Path], T], lasting: bool) -> T:
    """Return what `compile` makes by Inductor in a folder, with the files of an earlier compilation under this key in it.

    Code that may read its files later is `lasting`. Raises `cache.Unusable` where the disk is why it fails.
    """
    with _lock(), cache.scratch(lasting) as folder:
        found = cache.read(key, folder)
        monitoring.record_event(monitoring.CACHE_HIT if found else monitoring.CACHE_MISS)
        before = cache.files_in(folder)
        try:
            with _working_in(folder, found):
                result = compile(folder)
        except Exception as error:
            if not found:
                cache.check_room()
                raise
            cache.discard(key, f"could not be used ({type(error).__name__}: {error})")
        else:
            if cache.files_in(folder) != before:
                cache.write(key, folder)
            return result
    return kept(key, compile, lasting)


_CODE = "code.json"  # which of the files in a folder is the graph's, how its kernels are compiled, and which inputs are aligned


def leave_to_be_loaded(code: Any, options: dict[str, Any], folder: pathlib.Path) -> None:
    """Note what `loaded` has to know of a CompiledFxGraph that has been compiled in this folder with these options."""
    if getattr(code, "constants", True) or code.torchbind_constants:
        return  # there is no code, or it takes tensors that are in no file
    aligned = [] if getattr(code, "_defers_input_alignment", False) else list(code.inputs_to_check)
    (folder / _CODE).write_text(json.dumps({"key": code.cache_key, "options": options, "aligned": aligned}))


def loaded(folder: pathlib.Path) -> Any:
    """Return the code of a graph that another process has compiled in this folder, None where there is none.

    Inductor has a cache of its own, which is asked after all that comes before its code generator: seconds for a large
    graph, in which the interpreter's lock is held (torch 2.13).
    """
    import torch._inductor.config as inductor_config
    from torch._inductor.codecache import PyCodeCache, get_path
    from torch._inductor.utils import align_inputs_from_check_idxs
    from torch.utils._ordered_set import OrderedSet

    try:
        noted = json.loads((folder / _CODE).read_text())
    except FileNotFoundError:
        return None
    path = get_path(noted["key"], "py")[2]
    with inductor_config.patch(noted["options"]):
        call: Any = PyCodeCache.load_by_key_path(noted["key"], path).call
    return align_inputs_from_check_idxs(call, noted["aligned"], OrderedSet())


@functools.cache
def _lock() -> Any:
    """Return torch.compile's own lock: the environment, and what Inductor has in memory, are the whole process's."""
    from torch._dynamo.convert_frame import compile_lock
    from torch._inductor.async_compile import AsyncCompile

    os.register_at_fork(after_in_child=AsyncCompile.pool.cache_clear)  # its threads are not inherited
    return compile_lock


@contextlib.contextmanager
def _working_in(folder: pathlib.Path, loading: bool) -> Iterator[None]:
    """Within this context manager Inductor's files are below `folder`, and nothing is taken from other compilations.

    Loading means that it is expected to find there what it needs.
    """
    import torch._inductor.config as inductor_config
    import torch._prims  # noqa: F401  generated code names its operators; another thread may be in the middle of it
    from torch._inductor import codecache, cpu_vec_isa
    from torch._inductor.utils import clear_caches

    modules = set(sys.modules)
    options = {
        "cpp.cxx": (machine.compiler(),),
        # openssl is what Inductor finds out by whether a header has changed.
        "cpp_cache_precompile_headers": shutil.which("openssl") is not None,
    }
    if loading:  # Triton's kernels, too: a process for each core would be started to find that there is nothing to do
        options["compile_threads"] = 1
    make_header: Any = codecache._precompile_header
    header = functools.partial(_precompiled_header, make_header.__wrapped__, loading)
    check = functools.partialmethod(_remembered_check, cpu_vec_isa.VecISA.check_build)
    clear_caches()
    try:
        with (
            cache.environment(TORCHINDUCTOR_CACHE_DIR=str(folder), TRITON_CACHE_DIR=str(folder / "triton")),
            inductor_config.patch(options),
            mock.patch.object(codecache, "_precompile_header", header),
            mock.patch.object(cpu_vec_isa.VecISA, "check_build", check),
        ):
            yield
    finally:
        clear_caches()
        for name in set(sys.modules) - modules:  # where the code of every graph would stay for ever
            if name.startswith("torch._inductor.runtime.compile_tasks."):
                sys.modules.pop(name, None)


def _remembered_check(isa: Any, check: Callable[[Any, str], bool], code: str) -> bool:
    """Tell whether the compiler and this machine have the vector instructions of `isa`; a yes is found out once.

    The name of the build holds all that the answer depends on. It took 1 s of each process (torch 2.13).
    """
    key = cache.key_of("vector instructions", isa._arch_flags, isa.build_arch_flags(), code)
    with cache.scratch() as folder:
        if cache.read(key, folder):
            return True
        with cache.environment(TORCHINDUCTOR_CACHE_DIR=str(folder)):
            works = check(isa, code)
        if works:
            cache.write(key, folder)
        return works


# ----------------------------------------------------------------------------------------------- precompiled headers


def _precompiled_header(make: Callable[..., str], loading: bool, header: str, command: str, **options: Any) -> str:
    """Return the path of a header that is precompiled for this command: codecache._precompile_header's task.

    It has 150 MB, and is not verified where compiled code is only loaded. Inductor would ask the compiler each time
    whether the header has changed, for 0.5 s; the name of the build tells.
    """
    from torch._inductor import codecache

    folder = cache.header_folder(header, command)
    folder.mkdir(exist_ok=True)
    with cache.exclusive(folder / "used.lock"):
        if not cache.is_sound(folder, verified=not loading):
            for path in cache.files_in(folder):
                path.unlink()
            with mock.patch.multiple(codecache, _HEADER_DIR=str(folder), _HEADER_LOCK_DIR=str(folder)):
                make(header, command, **options)
            cache.seal(folder)
        for path in cache.files_in(folder):
            os.utime(path)  # the least recently used go first
        (found,) = folder.glob("*.h")
        return str(found)
