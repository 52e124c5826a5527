"""Names that are looked up when they are first used.

Submodules load then (`jax.scipy.stats` needs no import of its own), and deprecated names warn.
"""

import importlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def attach(package: str, submodules: Sequence[str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` (PEP 562) for a package that has nothing but these submodules."""

    def getattr_(name: str) -> Any:
        if name not in submodules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(f"{package}.{name}")

    return getattr_, lambda: sorted(submodules)


def deprecated(
    package: str, places: Mapping[str, tuple[str, str]], texts: Mapping[str, str] | None = None
) -> Callable[[str], Any]:
    """Return `__getattr__` for a module with deprecated names: for each the module and the name to use in its place.

    `texts` are warnings that say something else than that the name is deprecated and, where that is public, what to use.
    """

    def getattr_(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, own = places[name]
        shown = f"jax{package.removeprefix('jaxish')}.{name}"
        place = "" if "._" in module else f" Use jax{module.removeprefix('jaxish')}.{own}."
        text = (texts or {}).get(name, f"{shown} is deprecated.{place}")
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(importlib.import_module(module), own)

    return getattr_
