"""The options as flags of absl, for programs that take them on the command line: `--jax_enable_x64`."""

import itertools
import sys
from collections.abc import Mapping
from typing import Any


def define(options: Mapping[str, Any]) -> None:
    """Define a flag for each option; those given on the command line are set when absl's `app.run` has parsed it.

    Raises `ModuleNotFoundError` without absl.
    """
    flags, app = _absl()
    for name, option in options.items():
        if name not in flags.FLAGS:
            _define(flags, name, option)
    app.call_after_init(lambda: _set(flags, options))


def parse(options: Mapping[str, Any]) -> None:
    """Define the flags and set the options from those arguments of this process that begin with `--jax`.

    Raises `ModuleNotFoundError` without absl.
    """
    flags, _ = _absl()
    define(options)
    given = itertools.takewhile(lambda argument: argument != "--", sys.argv)
    flags.FLAGS(["", *(a for a in given if a.startswith("--jax"))], known_only=True)
    _set(flags, options)


def _absl() -> Any:
    try:
        from absl import app, flags
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Options on the command line need absl: pip install absl-py, or set them by jax.config.update or by "
            "environment variables, JAX_ENABLE_X64=1 for one.",
            name=error.name,
        ) from None
    return flags, app


def _define(flags: Any, name: str, option: Any) -> None:
    kinds = {bool: flags.DEFINE_bool, int: flags.DEFINE_integer, float: flags.DEFINE_float}
    text = option.__doc__ or name
    if option.choices is not None:
        flags.DEFINE_enum(name, option.value, [c for c in option.choices if c is not None], text)
    else:
        kinds.get(type(option.default), flags.DEFINE_string)(name, option.value, text)


def _set(flags: Any, options: Mapping[str, Any]) -> None:
    for name, option in options.items():
        if flags.FLAGS[name].present:
            option.set(flags.FLAGS[name].value)
