"""`jax_debug_nans` and `jax_debug_infs`: an error where a NaN or an infinity is made, naming the operator.

While one of the flags is on, a dispatch mode looks at the results of every torch operator of this thread, and jit
runs graphs operator by operator (executable.py), so that it sees those within jitted functions too.
"""

import threading
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from . import config, graph, operators
from .operators import Kind


class _Checks(TorchDispatchMode):
    """Raises `FloatingPointError` for results that the flags forbid."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        for result in tree_leaves(results):
            if isinstance(result, Tensor) and not isinstance(result, graph.FakeTensor):
                _check(result, func)
        return results


def _check(result: Tensor, func: Any) -> None:
    if not (result.is_floating_point() or result.is_complex()):
        return
    row = operators.of(func)
    if row.kind is Kind.UNSET or row.jax_name == "full":  # no values, or a NaN that the program asked for
        return
    if config.debug_nans.value and torch.isnan(result).any():
        raise FloatingPointError(f"invalid value (nan) encountered in {row.jax_name}; jax_debug_nans is on.")
    if config.debug_infs.value and torch.isinf(result).any():
        raise FloatingPointError(f"invalid value (inf) encountered in {row.jax_name}; jax_debug_infs is on.")


class _Active(threading.local):
    mode: _Checks | None = None


_active = _Active()


def is_on() -> bool:
    """Tell whether results are being checked."""
    return config.debug_nans.value or config.debug_infs.value


def _follow_flags() -> None:
    wanted = is_on()
    if wanted and _active.mode is None:
        _active.mode = _Checks()
        _active.mode.__enter__()
    elif not wanted and _active.mode is not None:
        mode, _active.mode = _active.mode, None
        mode.__exit__(None, None, None)


for _flag in (config.debug_nans, config.debug_infs):
    _flag.on_change.append(_follow_flags)
if is_on():  # by environment variable
    _follow_flags()
