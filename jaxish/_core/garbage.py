"""Python's garbage collector, which does not come by while modules are imported, and seldom while functions are traced.

What modules are made of stays, and what a trace makes does for as long as its graph: each pass over all of it, and over what
torch and the program's libraries are made of, finds nothing to free. `import jaxish` took 1.4 s with these passes and takes
1.15 without; of the 17 s of processor time that tracing a neural ODE took the collector had five.
"""

import contextlib
import gc
from collections.abc import Iterator

_SELDOM = (50_000, 20, 1_000)  # new objects between passes over these, and passes between those over older ones
_before: tuple[int, ...] | None = None
_during: tuple[int, ...] | None = None  # which Python 3.14 does not return as they were set


def seldom() -> None:
    """Have the collector come by seldom, unless the program has it come less often, or never."""
    global _before, _during
    now = gc.get_threshold()
    if 0 < now[0] < _SELDOM[0]:
        _before = now
        gc.set_threshold(*_SELDOM)
        _during = gc.get_threshold()


def as_before() -> None:
    """Take `seldom` back, unless the program has meanwhile said itself how often."""
    global _before
    if _before is not None and gc.get_threshold() == _during:
        gc.set_threshold(*_before)
    _before = None


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Within this context manager the collector does not come by, and afterwards it counts what there is among the old."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()  # which has all in the oldest generation, without a pass over it
        if is_enabled:
            gc.enable()
