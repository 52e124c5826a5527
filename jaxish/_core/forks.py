"""A fork's child can compute in parallel, as its parent does, and finds no lock that nobody will release."""

import os
import threading

from . import openmp

_SOFT = 1  # omp_pause_soft (OpenMP 5.0, section 3.6): threads end, settings stay


def _end_threads() -> None:
    # The child inherits what libgomp knows of the forking thread's helpers, but not the helpers: its first parallel region
    # would wait for them for ever. They end here, and both processes start new ones when they compute.
    openmp.library.omp_pause_resource_all(_SOFT)


# LLVM's OpenMP, which has no such function, minds forks itself.
if hasattr(os, "register_at_fork") and hasattr(openmp.library, "omp_pause_resource_all"):
    os.register_at_fork(before=_end_threads)


def wait_for(lock: "threading.Lock | threading.RLock") -> None:
    """Have forks wait until no other thread holds `lock`: the child would inherit it, but not the thread that releases it.

    What is registered last is acquired first: a lock that is taken within another one is to be registered before it.
    """
    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
