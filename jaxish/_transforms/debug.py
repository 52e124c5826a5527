"""jax.debug: effects on the host, and how arrays lie over devices."""

import copy
import functools
import logging
import math
import string
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core import axes, graph, tree
from .._core.array import as_array, is_abstract, tensor_of
from .._core.user_frames import users_line
from .._devices import devices
from .._devices.constraint import sharding_given
from .._devices.pictures import picture
from .._devices.shardings import Sharding, SingleDeviceSharding
from .callbacks import Effect, HostFunction
from .flat import name_of
from .sharded_effects import InspectSharding, PartitionedEffect

_log = logging.getLogger("jax._src.debugging")  # JAX's name: programs filter what it logs by it


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


def debug_callback(
    callback: Callable[..., Any] | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Callable[..., Any] | None:
    """Call `callback(*args, **kwargs)` on the host when the values are known, whatever transformations are going on.

    Arguments that are no arrays are passed as they are. Under vmap it is called per example, under grad once, in the
    forward pass. Calls always come in the order of the program; `ordered` is refused where there are
    several devices. In a jitted function `partitioned` asks for a call per device with its part of the arguments.
    Without `callback`, return a function of a callback and its arguments, with these options.
    """
    if callback is not None:
        _call(callback, ordered, partitioned, args, kwargs)
        return None
    if args or kwargs:
        raise TypeError(f"debug_callback received unexpected arguments in the two-call form: {args=} {kwargs=}")
    return lambda callback, *args, **kwargs: _call(callback, ordered, partitioned, args, kwargs)


def _call(
    callback: Callable[..., Any], ordered: bool, partitioned: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    function, arrays = HostFunction.of(callback, args, kwargs, static=True)
    # Outside of jit arrays are whole; where an axis is mapped over devices, each is given its part anyway.
    parts = partitioned and graph.is_tracing() and not axes.environment()
    kind = PartitionedEffect if parts else Effect
    # What is called at once raises what it raises, as JAX has it; what a program calls as it runs, an error of that program.
    called = functools.partial(function.effect, "debug.callback") if graph.is_tracing() else function
    kind(name_of(callback), called, ordered=ordered)(*map(tensor_of, arrays))


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
    program; `ordered` is refused where there are several devices. `partitioned` prints each device's part. Arrays print by the
    print options of NumPy that are in force here. Without `fmt`, return a function that prints, with these options; with
    `_use_logging`, the text goes to the logger "jax._src.debugging", whatever its level.
    Raises `ValueError` for an argument that `fmt` does not use.
    """

    def printing(fmt: str, *args: Any, **kwargs: Any) -> None:
        if not skip_format_check:
            _Check().format(fmt, *args, **kwargs)
        record = _record() if _use_logging else None
        _call(_shown(fmt, record, np.get_printoptions()), ordered, partitioned, args, kwargs)

    if fmt is not None:
        printing(fmt, *args, **kwargs)
        return None
    if args or kwargs:
        raise TypeError(f"debug_print received unexpected arguments in the two-call form: {args=} {kwargs=}")
    return printing


def _shown(fmt: str, record: logging.LogRecord | None, options: Any) -> Callable[..., None]:
    """Return the callback of `print`."""
    has_fields = any(field is not None for _, field, _, _ in string.Formatter().parse(fmt))

    def show(*values: Any, **named: Any) -> None:
        with np.printoptions(**options):
            text = fmt.format(*values, **named) if has_fields else " ".join([fmt, *map(str, values)])
        if record is None:
            sys.stdout.write(text + "\n")
        else:
            entry = copy.copy(record)
            entry.msg = text
            _log.handle(entry)

    return show


def _record() -> logging.LogRecord:
    """Return a record of the logger without a text, which says where the user's code is."""
    code, line, _ = users_line() or (None, 0, 0)
    file = "(unknown file)" if code is None else code.co_filename
    return _log.makeRecord(_log.name, logging.INFO, file, line, "", (), None)


def log(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    _use_logging: bool = True,
    **kwargs: Any,
) -> Callable[..., Any] | None:
    """Do what `print` does, the text going to the logger "jax._src.debugging"."""
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
) -> Any:
    """Stop in a debugger when the program gets here, whatever transformations are going on.

    It prompts with `(jdb)` and shows the source and the variables of the functions that lead here, as they are when the
    program runs: `p x` and `pp x` print a value, `l` lists the source, `u` and `d` go to the caller and back, `bt` shows all
    frames, `c` goes on, `q` ends the program (`SystemExit`), `help` tells the rest. What is no array of a transformation is
    shown as it was when the function was traced. Under vmap it stops per example, under grad once, in the forward pass.

    `num_frames` says how many frames are taken down; those of libraries like this one only if not `filter_frames`. `backend`
    is "cli", which takes `stdin`, `stdout` and `completekey`; "web" and "colab" raise `NotImplementedError`. `ordered` is
    `debug.callback`'s. In its place an array, or a pytree of them, may be given as `token`: it is returned, a constant to every
    derivative, and the program stops where it is computed, if anything uses what is returned.
    """
    from . import debugger  # loaded by the few programs that stop

    return debugger.breakpoint(
        sys._getframe(1), backend=backend, filter_frames=filter_frames, num_frames=num_frames, ordered=ordered, token=token,
        options=kwargs,
    )  # fmt: skip


def inspect_array_sharding(value: Any, *, callback: Callable[[Any], None]) -> None:
    """Call `callback` with the sharding of each array of the pytree `value`.

    In a jitted function it is called when that is traced, with what the shardings of arguments and constraints make it.
    """
    for array in map(as_array, tree.flatten(value)[0]):
        if is_abstract(array) and graph.is_tracing():
            InspectSharding("inspect_sharding", callback)(tensor_of(array))
        else:
            callback(sharding_given(array) or SingleDeviceSharding(devices.of(array._tensor)))


def visualize_sharding(
    shape: Sequence[int], sharding: Sharding, *, use_color: bool = True, scale: float = 1.0, min_width: int = 9,
    max_width: int = 80, color_map: Callable[[float], Sequence[float]] | None = None,
) -> None:  # fmt: skip
    """Print which devices have which part of an array of this shape.

    On a terminal parts are told apart by colours of `color_map`, from numbers up to 1 to red, green and blue (by default one
    of matplotlib's, if that is installed). `scale` says how large the picture is, up to `max_width` letters; a part has
    at least `min_width`. Raises `ValueError` for other than one or two dimensions, and where there are no elements.
    """
    if len(shape) not in (1, 2) or not math.prod(shape):
        raise ValueError("`visualize_sharding` only works for shapes with 1 and 2 dimensions, with elements.")
    text = picture(
        shape, sharding, use_color=use_color, scale=scale, min_width=min_width, max_width=max_width, color_map=color_map
    )
    sys.stdout.write(text)


def visualize_array_sharding(arr: Any, **kwargs: Any) -> None:
    """Print which devices have which part of the array, as `visualize_sharding` does; in a jitted function when it is traced."""
    inspect_array_sharding(arr, callback=lambda sharding: visualize_sharding(arr.shape, sharding, **kwargs))


class DebugEffect:
    """The class of the effect of an unordered debug callback, for annotations."""


class OrderedDebugEffect:
    """The class of the effect of an ordered debug callback, for annotations."""
