"""Guards of transfers: what to do when values go between the host and devices (`jax.transfer_guard`).

Where that happens `watching` is read before anything slower: it becomes true when a guard is first set.
"""

import logging
import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from . import config, graph
from .errors import JaxRuntimeError

_log = logging.getLogger("jaxish")

watching = False
_GUARDS = {
    "host-to-device": config.transfer_guard_host_to_device,
    "device-to-device": config.transfer_guard_device_to_device,
    "device-to-host": config.transfer_guard_device_to_host,
}


def _watch() -> None:
    global watching
    watching = watching or any(guard.value not in (None, "allow") for guard in _GUARDS.values())


for _guard in _GUARDS.values():
    _guard.on_change.append(_watch)
_watch()  # by environment variables


class _Explicit(threading.local):
    depth = 0


_explicit = _Explicit()


class _Scope:
    def __enter__(self) -> None:
        _explicit.depth += 1

    def __exit__(self, *exception: Any) -> None:
        _explicit.depth -= 1


_SCOPE, _NOTHING = _Scope(), nullcontext()


def explicit() -> AbstractContextManager[None]:
    """Return a context manager under which transfers are those that the program asked for."""
    return _SCOPE if watching else _NOTHING


def check(direction: str, what: Any) -> None:
    """Log a transfer, or raise `JaxRuntimeError` for it, as the guard of its direction says.

    While a function is traced nothing moves yet.
    """
    level = _GUARDS[direction].value
    if level in (None, "allow") or graph.is_tracing() or (_explicit.depth and not level.endswith("explicit")):
        return
    if level.startswith("disallow"):
        raise JaxRuntimeError(
            f"INVALID_ARGUMENT: Disallowed {direction} transfer: {what}. Make it explicit by jax.device_put or "
            f"jax.device_get, or allow it by jax.transfer_guard('allow')."
        )
    _log.warning("%s transfer: %s", direction, what)
