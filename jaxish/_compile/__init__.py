"""Floor 2: what runs graphs. `executable` decides how, `registry` knows who can compile."""

from . import host_memory

host_memory.keep_freed_blocks()
