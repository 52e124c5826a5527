"""What is being compiled, told on standard error while it is (config `jaxish_show_compiles`).

There is a line when a compiler begins and one when calls run its code, or will not. A cached call tells nothing and asks nothing.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .._core import config

_thread = threading.local()  # `tells`: whether what this thread compiles is told of already


class Telling:
    """What will be told when a block ends: `outcome`, which the block may set."""

    outcome = "runs compiled"


@contextmanager
def told(name: str, waiting: int = 0) -> Iterator[Telling]:
    """Tell that `name` is compiled in this block while `waiting` graphs wait, and how it came out; blocks within are silent."""
    telling = Telling()
    if getattr(_thread, "tells", False):
        yield telling
        return
    tell, _thread.tells = begun(name, waiting), True
    try:
        yield telling
    except BaseException:
        telling.outcome = "could not be compiled"
        raise
    finally:
        _thread.tells = False
        tell(telling.outcome)


def begun(name: str, waiting: int = 0) -> Callable[[str], None]:
    """Tell that `name` is being compiled while `waiting` graphs wait; return a function that tells how it came out."""
    if not config.show_compiles.value:
        return lambda outcome: None
    _say(f"compiling {name}" + (f" ({waiting} more wait)" if waiting else ""))
    start = time.perf_counter()
    return lambda outcome: _say(f"{name} {outcome}, after {time.perf_counter() - start:.1f} s")


def _say(text: str) -> None:
    print(f"jaxish: {text}", file=sys.stderr, flush=True)
