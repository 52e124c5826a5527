"""`jax_array_garbage_collection_guard`: to be told when the garbage collector frees an array.

Arrays in reference cycles hold their memory until the collector comes by. While the guard is set arrays have a finalizer,
which tells whether a collection is going on; else they have none, and it costs nothing.
"""

import gc
import logging
import os
import threading
from typing import Any

from .array import Array, type_text
from .config import array_garbage_collection_guard

_log = logging.getLogger("jaxish")


class _State(threading.local):
    collecting = False


_state = _State()


def _note_collection(phase: str, info: Any) -> None:
    _state.collecting = phase == "start"


def _finalized(array: Array, guard: Any = array_garbage_collection_guard, state: _State = _state) -> None:
    # By its own names: when the interpreter ends the module's are gone.
    if not state.collecting or (level := guard.value) in (None, "allow") or array.is_deleted():
        return
    _log.error(
        "`jax.Array` was deleted by the Python garbage collector instead of reference counting: %s. Break the reference "
        "cycle that it is part of, or its memory is freed late.",
        type_text(array),
    )
    if level == "fatal":
        os.abort()


def _follow_flag() -> None:
    if array_garbage_collection_guard.value not in (None, "allow") and "__del__" not in vars(Array):
        Array.__del__ = _finalized  # pyright: ignore[reportAttributeAccessIssue]
        gc.callbacks.append(_note_collection)


array_garbage_collection_guard.on_change.append(_follow_flag)
_follow_flag()  # by environment variable
