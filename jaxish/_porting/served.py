"""What `import jax` gives under `python -m jaxish run`, name by name: asked of jaxish's own modules, and of what JAX has.

Nothing is installed and JAX is not imported, so that real JAX may be there as well, or not be there.
"""

import functools
import importlib.resources
import inspect
import types
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

from .. import _dropin
from .._core.foreign_options import FIXED


class Served(NamedTuple):
    """What a name stands for. If it is not there, `reason` says so, and `lacking` is the part of it that is missing first."""

    value: Any = None
    reason: str = ""
    lacking: str = ""

    @property
    def there(self) -> bool:
        """Tell whether jaxish has the name."""
        return not self.lacking


@functools.cache
def served(path: str) -> Served:
    """Return what a dotted name that begins with `jax` or `jaxlib` stands for."""
    above, _, last = path.rpartition(".")
    if not above or path.startswith(("jaxlib.", "jax._src.")) or path == "jax._src":
        found = _module(path)
        if found.there or not above:
            return found
    owner = served(above)
    if not owner.there or last == "*":
        return owner
    if isinstance(owner.value, types.ModuleType):
        return _of_module(path, owner.value, last)
    return _of_object(path, owner.value, last)


def _module(path: str) -> Served:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated modules are there
            return Served(_dropin.module_for(path))
    except ModuleNotFoundError:
        return Served(reason=f"jaxish has no module {path}", lacking=path)


def _of_module(path: str, module: types.ModuleType, last: str) -> Served:
    if _is_private(last):
        return Served(reason=_PRIVATE.format(path), lacking=path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated names are there
            return Served(getattr(module, last))
    except AttributeError as error:
        said = str(error)
    found = _module(path)
    if found.there:
        return found
    if path.startswith("jax._src."):
        return Served(reason=_PRIVATE.format(path), lacking=path)
    plain = said == f"module {module.__name__!r} has no attribute {last!r}"
    return Served(reason=f"jaxish has no {path}" if plain else said, lacking=path)


_PRIVATE = "{} is private to JAX, and not among what jaxish serves of that"


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def _of_object(path: str, owner: Any, last: str) -> Served:
    """Return an attribute of a class, function or other value: `jax.Array.at`, `jax.numpy.add.reduce`, `jax.config.update`."""
    try:
        return Served(getattr(owner, last))
    except AttributeError:
        pass
    declared = [*getattr(owner, "__annotations__", ()), *getattr(owner, "__dataclass_fields__", ())]
    if last in declared or last.startswith("__"):
        return Served()
    return Served(reason=f"jaxish's {path.rpartition('.')[0]} has no {last!r}", lacking=path)


def takes(path: str, keyword: str) -> bool:
    """Tell whether a function takes an argument by this name, as far as that can be known."""
    if path == _OPTIONS:
        return served(f"jax.config.{keyword}").there
    parameters = _parameters(path)
    if parameters is None or any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return True
    return keyword in parameters and parameters[keyword].kind is not inspect.Parameter.POSITIONAL_ONLY


def default(path: str, keyword: str) -> Any:
    """Return the default of an argument, or of an option that has no other value; `inspect.Parameter.empty` if there is none."""
    if path == _OPTIONS:
        return FIXED.get(keyword, (inspect.Parameter.empty,))[0]
    found = (_parameters(path) or {}).get(keyword)
    return inspect.Parameter.empty if found is None else found.default


_OPTIONS = "jax.config.update"  # its first argument names an option, which is told like an argument


@functools.cache
def _parameters(path: str) -> Mapping[str, inspect.Parameter] | None:
    try:
        return inspect.signature(served(path).value).parameters
    except (TypeError, ValueError):
        return None


def is_of_jax(path: str) -> bool | None:
    """Tell whether JAX has a public name, which jaxish lacks; None if that is not known: it is private, or of an object."""
    names = _names_of_jax()
    module, _, rest = path.partition(".")
    if module not in names:
        return None
    for part in rest.split("."):
        if _is_private(part) or module not in names:
            return None
        if part not in names[module]:
            return False
        module = f"{module}.{part}"
    return True


@functools.cache
def _names_of_jax() -> dict[str, set[str]]:
    """Return the public names of each module of JAX. The file is written by tests/jax_names.py."""
    found: dict[str, set[str]] = {}
    names: set[str] = set()
    for line in importlib.resources.files("jaxish._porting").joinpath("jax_names.txt").read_text().splitlines():
        if line.startswith(" "):
            names.update(line.split())
        else:
            names = found.setdefault(line, set())
    return found
