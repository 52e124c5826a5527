"""The options of XLA that jit and `Lowered.compile` take: checked as XLA would, and of no other effect here."""

from collections.abc import Iterable
from typing import Any

from .._core.errors import JaxRuntimeError
from .._core.foreign_options import COMPILER_OPTIONS

_NAMES = {bool: "bool", int: "int32", float: "float"}


def check_compiler_options(options: Iterable[tuple[str, Any]]) -> None:
    """Raise `JaxRuntimeError` for what is no option of XLA's, or has a value of another kind.

    Of XLA's flags (`xla_*`), hundreds that come and go with its versions, only the commoner are known.
    """
    for name, value in options:
        kind = COMPILER_OPTIONS.get(name)
        if kind is None and not name.startswith("xla_"):
            raise JaxRuntimeError(f"INVALID_ARGUMENT: No such compile option: {name!r}")
        if kind is not None and kind in _NAMES and not _reads_as(value, kind):
            raise JaxRuntimeError(
                f"INVALID_ARGUMENT: While setting option {name}, {value!r} is not a valid {_NAMES[kind]} value."
            )


def _reads_as(value: Any, kind: type) -> bool:
    if kind is bool:
        return value in (True, False, "True", "False", "true", "false")
    try:
        kind(value)
    except (TypeError, ValueError):
        return False
    return True
