"""Freed memory on the CPU: kept for the next array, not given back to the system after every operation.

glibc's malloc takes large blocks from the system and gives the top of its heap back when they are freed. An expression
over arrays of a few megabytes then pays for its pages again at every operation: 4 ms where 0.4 would do, in about half
of all processes, depending on what happens to lie at the top of the heap. (PyTorch's answer is another allocator, by
LD_PRELOAD; with one of those the settings here have no effect.)
"""

import ctypes
import os
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_KEPT = 1 << 29  # bytes at the top of a heap that stay; threads may have heaps of their own
_MAPPED_FROM = 1 << 28  # bytes of a block that is mapped by itself, and unmapped when it is freed
_USERS_OWN = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_blocks() -> None:
    """Tell glibc's malloc to keep what is freed, unless the user told it something in the environment."""
    if not sys.platform.startswith("linux") or any(name in os.environ for name in _USERS_OWN):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_FROM)
        mallopt(_M_TRIM_THRESHOLD, _KEPT)
