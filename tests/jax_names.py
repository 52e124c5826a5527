"""The public names of the JAX that is installed: `python tests/jax_names.py > jaxish/_porting/jax_names.txt`.

`python -m jaxish check` tells by them names that jaxish lacks from names that JAX lacks, too. They change with the
release of JAX that jaxish follows, and with nothing else.
"""

import importlib
import pkgutil
import textwrap
import types
import warnings
from collections.abc import Iterator

# Writers of kernels and compilers: what is below them is not asked for by name.
CLOSED = {
    "jax.experimental.colocated_python", "jax.experimental.mosaic", "jax.experimental.pallas.mosaic_gpu",
    "jax.experimental.pallas.ops", "jax.experimental.source_mapper", "jax.extend.mlir", "jax.tools",
}  # fmt: skip


def modules(name: str) -> Iterator[types.ModuleType]:
    """Yield a module and the public ones below it, but for those that do not import here (they want GPUs, TensorFlow)."""
    if name in CLOSED:
        return
    try:
        module = importlib.import_module(name)
    except Exception:
        return
    yield module
    for info in pkgutil.iter_modules(getattr(module, "__path__", ())):
        if not info.name.startswith("_") and not info.name.endswith("_test"):
            yield from modules(f"{name}.{info.name}")


def public(module: types.ModuleType) -> list[str]:
    """Return the names that a module has of its own: not the modules that it imports from elsewhere."""
    below = {info.name for info in pkgutil.iter_modules(getattr(module, "__path__", ()))}
    deprecated = {name for name, (_, value) in getattr(module, "_deprecations", {}).items() if value is not None}
    shown = {name for name in dir(module) if not _is_foreign(getattr(module, name, None))}
    return sorted(name for name in below | deprecated | shown if not name.startswith("_"))


def _is_foreign(value: object) -> bool:
    if not isinstance(value, types.ModuleType):
        return getattr(value, "__module__", None) in ("typing", "functools", "__future__", "collections")
    return not value.__name__.startswith("jax.") or "._src" in value.__name__


def text() -> str:
    """Return what the file holds: each module, and its names indented below it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = sorted((module.__name__, public(module)) for module in modules("jax"))
    wrap = textwrap.TextWrapper(118, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    return "".join(f"{name}\n{''.join(line + chr(10) for line in wrap.wrap(' '.join(names)))}" for name, names in found)


if __name__ == "__main__":
    print(text(), end="")
