"""Submodules that load when they are first named: `jax.scipy.stats` needs no import of its own."""

import importlib
from collections.abc import Callable, Sequence
from typing import Any


def attach(package: str, submodules: Sequence[str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` (PEP 562) for a package that has nothing but these submodules."""

    def getattr_(name: str) -> Any:
        if name not in submodules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(f"{package}.{name}")

    return getattr_, lambda: sorted(submodules)
