"""jax.debug's print and breakpoint, on `callbacks.debug_callback`."""

import functools
import logging
import string
import sys
from collections.abc import Callable
from typing import Any

from .._core import tree
from .._core.array import as_array, is_abstract
from .._devices.constraint import sharding_of
from .callbacks import debug_callback

_log = logging.getLogger("jaxish")


class _Check(string.Formatter):
    """Walks a format string and formats nothing: values may not be known yet."""

    def format_field(self, value: Any, format_spec: str) -> str:
        return ""

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        return value

    def check_unused_args(self, used_args: Any, args: Any, kwargs: Any) -> None:
        unused = [arg for i, arg in enumerate(args) if i not in used_args]
        if unused:
            raise ValueError(f"Unused positional arguments to `jax.debug.print`: {unused}")
        unused = [name for name in kwargs if name not in used_args]
        if unused:
            raise ValueError(
                f"Unused keyword arguments to `jax.debug.print`: {unused}. You may be passing an f-string (i.e, "
                '`f"{x}"`) to `jax.debug.print`, which formats it while the function is traced; drop the `f`.'
            )


def print(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    _use_logging: bool = False,
    **kwargs: Any,
) -> Callable[..., Any] | None:
    """Print `fmt.format(*args, **kwargs)` when the values are known, whatever transformations are going on.

    Under vmap it prints per example, under grad once, in the forward pass. Prints always come in the order of the
    program, so that `ordered` makes no difference here. Without `fmt`, return a `print` with these options; with
    `_use_logging`, the text goes to the logger "jaxish". Raises `ValueError` for an argument that `fmt` does not use.
    """
    options: dict[str, Any] = {
        "ordered": ordered, "partitioned": partitioned, "skip_format_check": skip_format_check,
        "_use_logging": _use_logging,
    }  # fmt: skip
    if fmt is None:
        if args or kwargs:
            raise TypeError("jax.debug.print without a format string takes options only.")
        return functools.partial(print, **options)
    if not skip_format_check:
        _Check().format(fmt, *args, **kwargs)

    def show(*values: Any, **named: Any) -> None:
        text = fmt.format(*values, **named)
        if _use_logging:
            _log.info(text)
        else:
            sys.stdout.write(text + "\n")

    debug_callback(show, *args, ordered=ordered, partitioned=partitioned, **kwargs)
    return None


def log(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    _use_logging: bool = True,
    **kwargs: Any,
) -> Callable[..., Any] | None:
    """Do what `print` does, the text going to the logger "jaxish"."""
    return print(
        fmt, *args, ordered=ordered, partitioned=partitioned, skip_format_check=skip_format_check,
        _use_logging=_use_logging, **kwargs,
    )  # fmt: skip


def breakpoint(
    *,
    backend: str | None = None,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    token: Any = None,
    **kwargs: Any,
) -> None:
    """Stop in Python's debugger (`sys.breakpointhook`) when the program gets here.

    The frames of the trace are gone by then: print values with `debug.print`, or run under `jax.disable_jit()` to see
    them by name. Options that choose JAX's own debugger and its frames raise `NotImplementedError`.
    """
    if backend is not None or num_frames is not None or token is not None or kwargs or not filter_frames:
        raise NotImplementedError(
            "debug.breakpoint runs Python's debugger, without JAX's options; set sys.breakpointhook to use another one."
        )
    debug_callback(lambda: sys.breakpointhook(), ordered=ordered)


def inspect_array_sharding(value: Any, *, callback: Callable[[Any], None]) -> None:
    """Call `callback` with the sharding of each array of the pytree `value`.

    Raises `NotImplementedError` inside a traced function, where it is not known yet.
    """
    for array in map(as_array, tree.flatten(value)[0]):
        if is_abstract(array):
            raise NotImplementedError("inspect_array_sharding sees results: call it outside of jit, or use x.sharding.")
        callback(sharding_of(array))


def visualize_sharding(
    shape: Any, sharding: Any, *, use_color: bool = True, scale: float = 1.0, min_width: int = 9, max_width: int = 80,
    color_map: Any = None,
) -> None:  # fmt: skip
    """Refused: there is no picture of a sharding."""
    raise NotImplementedError("visualize_sharding is not supported; print sharding.devices_indices_map(shape).")


def visualize_array_sharding(arr: Any, **kwargs: Any) -> None:
    """Refused: there is no picture of a sharding."""
    raise NotImplementedError("visualize_array_sharding is not supported; print arr.addressable_shards.")


class DebugEffect:
    """The class of the effect of an unordered debug callback, for annotations."""


class OrderedDebugEffect:
    """The class of the effect of an ordered debug callback, for annotations."""
