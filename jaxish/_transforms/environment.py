"""Names for parts of a program, and what is known about the process: live arrays, versions."""

import contextlib
import gc
import platform as _platform
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from .. import version
from .._core import functorch, graph
from .._core.array import Array, is_abstract
from .._devices import devices
from .flat import name_of, wraps


@contextlib.contextmanager
def _recorded(name: str) -> Iterator[None]:
    if graph.is_tracing() or functorch.peek_interpreter_stack() is not None:
        yield  # the profiler's operators would become part of the graph
        return
    with torch.profiler.record_function(name):
        yield


def named_scope(name: str) -> "contextlib._GeneratorContextManager[None]":
    """Return a context manager, also a decorator, under whose name the torch profiler lists the work done in it.

    Compiled code is one entry by the name of its function: scopes within a jitted function are not seen.
    Raises `TypeError` when the name is no string.
    """
    if not isinstance(name, str):
        raise TypeError("named_scope name argument must be a string.")
    return _recorded(name)


def named_call(fun: Callable[..., Any], *, name: str | None = None) -> Callable[..., Any]:
    """Return `fun` called in a `named_scope`, by default of its own name."""
    name = name_of(fun) if name is None else name
    if not isinstance(name, str):
        raise TypeError("named_call name argument must be a string.")

    @wraps(fun)
    def called(*args: Any, **kwargs: Any) -> Any:
        with named_scope(name):
            return fun(*args, **kwargs)

    return called


def live_arrays(platform: str | None = None) -> list[Array]:
    """Return the arrays with values that the process holds, those on one platform (`cpu`, `gpu`) if given."""
    kinds = None if platform is None else {d.torch_device.type for d in devices.devices(platform)}
    found = [x for x in gc.get_objects() if type(x) is Array and not x.is_deleted() and not is_abstract(x)]
    return [x for x in found if kinds is None or x._tensor.device.type in kinds]


def print_environment_info(return_string: bool = False) -> str | None:
    """Print the versions and devices that a bug report needs, or return them as text."""
    lines = [
        f"jaxish: {version.__version__}",
        f"torch:  {torch.__version__}",
        f"numpy:  {np.__version__}",
        f"python: {_platform.python_version()}",
        f"device info: {', '.join(map(str, devices.devices()))}",
        f"platform: {_platform.uname()}",
    ]
    text = "\n".join(lines)
    if return_string:
        return text
    print(text)
    return None
