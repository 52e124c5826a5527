"""What the user has told torch, and what is no business of a JAX program: autocast, the search for NaNs, saving's hooks.

Autocast changes the dtypes in which matrix products and convolutions are computed. It is off wherever jaxish computes
one, traces, or goes back through one.
"""

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")

_autograd: Any = torch._C._autograd  # pyright: ignore[reportAttributeAccessIssue]
_DEVICES = ("cpu", "cuda", "mps", "xpu")
is_autocast = torch._C._is_any_autocast_enabled  # of this thread, for any kind of device: 30 ns


@contextmanager
def no_autocast() -> Iterator[None]:
    """Within this context manager autocast is off in this thread."""
    on = [device for device in _DEVICES if torch.is_autocast_enabled(device)] if is_autocast() else []
    for device in on:
        torch.set_autocast_enabled(device, False)
    try:
        yield
    finally:
        for device in on:
            torch.set_autocast_enabled(device, True)


def in_own_dtypes(function: Callable[P, R]) -> Callable[P, R]:
    """Return `function`, run with autocast off."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if not is_autocast():
            return function(*args, **kwargs)
        with no_autocast():
            return function(*args, **kwargs)

    return run


def backward_in_this_thread() -> AbstractContextManager[None]:
    """Return the context manager within which torch goes back in the thread that asks for it.

    By default it does so in a thread for each device but the CPU, which knows of no trace and of no bound axis.
    """
    return torch.autograd.set_multithreading_enabled(False)


@contextmanager
def no_saving_hooks() -> Iterator[None]:
    """Within this context manager torch saves tensors for going back as they are. In a trace there is nothing to save.

    Hooks are what torch.utils.checkpoint and save_on_cpu are made of; torch.func does not run while there are some.
    """
    aside = []
    while (hooks := _autograd._top_saved_tensors_default_hooks(False)) is not None:
        aside.append(hooks)
        _autograd._pop_saved_tensors_default_hooks()
    try:
        yield
    finally:
        for hooks in reversed(aside):
            _autograd._push_saved_tensors_default_hooks(*hooks)


def no_inference() -> AbstractContextManager[Any]:
    """Return the context manager within which tensors have derivatives, although the user runs in inference mode."""
    return torch.inference_mode(False) if torch.is_inference_mode_enabled() else nullcontext()


_lock = threading.Lock()
_traces = 0
_was_anomaly = False


@contextmanager
def no_anomaly() -> Iterator[None]:
    """Within this context manager torch does not look for NaNs in cotangents: in a trace there are no values.

    Compilers note where gradients come from by the same switch, looking for no NaNs, in a thread that runs beside: that is
    left to them. Switched on again after they are done, it would stay on for good.
    """
    global _traces, _was_anomaly
    with _lock:  # the switch is the whole process's
        if not _traces:
            _was_anomaly = torch.is_anomaly_enabled() and torch.is_anomaly_check_nan_enabled()
        _traces += 1
        if _was_anomaly:
            torch.set_anomaly_enabled(False)
    try:
        yield
    finally:
        with _lock:
            _traces -= 1
            if _was_anomaly and not _traces:
                torch.set_anomaly_enabled(True)
