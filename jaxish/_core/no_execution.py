"""`jax_no_execution`: an error where something is computed. Functions can still be traced, lowered and compiled."""

import threading
from typing import Any, NoReturn

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from . import config, levels


def refuse(name: str) -> NoReturn:
    """Raise the error."""
    raise RuntimeError(f"JAX tried to execute function {name}, but the no_execution config option is set")


class _Refusing(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        if any(isinstance(r, Tensor) and not levels.is_fake(r) for r in tree_leaves(results)):
            refuse(func.__name__)
        return results


class _Active(threading.local):
    mode: _Refusing | None = None


_active = _Active()


def _follow_flag() -> None:
    wanted = config.no_execution.value
    if wanted and _active.mode is None:
        _active.mode = _Refusing()
        _active.mode.__enter__()
    elif not wanted and _active.mode is not None:
        mode, _active.mode = _active.mode, None
        mode.__exit__(None, None, None)


config.no_execution.on_change.append(_follow_flag)
if config.no_execution.value:  # by environment variable
    _follow_flag()
