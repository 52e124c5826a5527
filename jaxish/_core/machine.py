"""What compiled code depends on beside its source: the compilers, the processor, and the versions of what it calls."""

import functools
import hashlib
import itertools
import os
import pathlib
import platform
import shutil
import subprocess
import sys

import torch

from ..version import __version__

JAX_VERSION = __version__.rpartition(".")[0]  # the release whose behaviour is implemented


@functools.cache
def compiler() -> str | None:
    """Return the path of the C++ compiler (CXX, else g++ or clang++), or None where there is none."""
    wanted = (os.environ.get("CXX"), "g++", "clang++", "c++")
    return next(filter(None, map(shutil.which, filter(None, wanted))), None)


@functools.cache
def build() -> str:
    """Return a name for all of these: what was compiled under one name must not be loaded under another."""
    kinds = (_compiler_version(), _processor(), platform.machine(), *platform.libc_ver(), _own_code())
    digest = hashlib.sha256("\n".join(kinds).encode()).hexdigest()[:12]
    return f"jaxish-{__version__}-torch-{torch.__version__}-{sys.implementation.cache_tag}-{digest}"


def free_memory(device: torch.device) -> int:
    """Return how many bytes of memory are free for arrays on a device; 4 GiB where the system does not say."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        with open("/proc/meminfo") as lines:
            facts = dict(line.split(":", 1) for line in lines)
        return int(facts["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):
        return 4 << 30


def _own_code() -> str:
    # Between two releases, too, a mended compiler must not be given what the one before it made.
    digest = hashlib.sha256()
    for path in sorted(pathlib.Path(__file__).parent.parent.glob("_compile/*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _compiler_version() -> str:
    command = compiler()
    if command is None:
        return ""
    try:
        return subprocess.run([command, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
    except OSError:
        return command


def _processor() -> str:
    # Code for this processor (-march=native) ends a process on another that lacks one of its instructions.
    try:
        with open("/proc/cpuinfo") as lines:
            first = itertools.takewhile(str.strip, lines)
            return "".join(line for line in first if line.startswith(_PROCESSOR_FACTS))
    except OSError:
        return platform.processor()


@functools.cache
def cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def has_whole_wide_vectors() -> bool:
    """Tell whether this is a processor of AMD's that computes 512 bits at once: Zen 5, known by an instruction of its own.

    Zen 4 has the instructions, and computes each in two halves.
    """
    facts = _processor()
    return "AuthenticAMD" in facts and "avx512_vp2intersect" in facts


_PROCESSOR_FACTS = (
    "vendor_id", "cpu family", "model", "flags", "Features", "CPU implementer", "CPU architecture", "CPU variant",
    "CPU part",
)  # fmt: skip
