"""`import jax` served by jaxish: for programs, and libraries that they import, that are to run unchanged.

`install()` puts a finder in front of Python's import system. It answers for `jax` and everything below it with the
jaxish module of the same path, the very same module object, so that `jax.numpy is jaxish.numpy`. `jaxlib`, which
libraries import for its version and a few classes, is a small module of its own. Of `jax._src` there is what several libraries take from it and what
has a meaning here (`_PRIVATE`). Modules that jaxish does not have do not exist.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence

from ._core import additions
from ._core.array import Array
from ._core.machine import JAX_VERSION
from .version import __version__


class _Alias(importlib.abc.Loader):
    """Loads `jax.X.Y` as the module object of `jaxish.X.Y`."""

    def __init__(self, target: str) -> None:
        self.target = target

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return importlib.import_module(self.target)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run: the module was imported under its own name."""


class _Jaxlib(importlib.abc.Loader):
    """Makes `jaxlib` and `jaxlib.version`."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        module.__version__ = JAX_VERSION  # pyright: ignore
        if module.__name__ == "jaxlib":
            module.__path__ = []
            module.version = module_for("jaxlib.version")  # pyright: ignore


class _Private(importlib.abc.Loader):
    """Makes a module below `jax._src` of the public ones that have a meaning for what libraries take from it."""

    def __init__(self, sources: Sequence[str]) -> None:
        self.sources = sources

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        """Let names be looked up in the public modules."""

        def lookup(name: str) -> object:
            if f"{module.__name__}.{name}" in _RENAMED:
                source, own = _RENAMED[f"{module.__name__}.{name}"]
                return getattr(importlib.import_module(source), own)
            for source in self.sources:
                found = importlib.import_module(source)
                if hasattr(found, name):
                    return getattr(found, name)
            if f"{module.__name__}.{name}" in _modules_of_private():
                return importlib.import_module(f"{module.__name__}.{name}")
            raise AttributeError(
                f"module {module.__name__!r} has no attribute {name!r} here: it is private to JAX, and jaxish "
                f"{__version__} serves what {' and '.join(self.sources) or 'the modules below it'} have."
            )

        module.__path__ = []
        module.__getattr__ = lookup  # pyright: ignore


# Where classes of JAX's runtime are to be found, which annotations and error handlers name.
_RUNTIME = ("jaxish._devices.devices", "jaxish.sharding")

# What libraries import from below jax._src, by module: the modules where such names are to be found.
_PRIVATE = {
    "_src": (),
    "_src.ad_checkpoint": ("jaxish.ad_checkpoint", "jaxish._transforms.saved_residuals"),
    "_src.ad_util": ("jaxish.interpreters.ad", "jaxish.lax"),
    "_src.api": ("jaxish",),
    "_src.api_util": ("jaxish.api_util", "jaxish._transforms.signature"),
    "_src.checkify": ("jaxish.experimental.checkify",),
    "_src.compiler": (),
    "_src.core": ("jaxish.core", "jaxish.extend.core", "jaxish._jaxprs.context"),
    "_src.custom_derivatives": ("jaxish.custom_derivatives", "jaxish"),
    "_src.dispatch": ("jaxish.interpreters.xla",),
    "_src.distributed": ("jaxish.distributed", "jaxish._devices.cluster"),
    "_src.dtypes": ("jaxish.dtypes", "jaxish._core.dtypes"),
    "_src.flatten_util": ("jaxish.flatten_util",),
    "_src.indexing": ("jaxish._numpy.dynamic_index",),
    "_src.interpreters": (),
    "_src.interpreters.ad": ("jaxish.interpreters.ad",),
    "_src.interpreters.batching": (
        "jaxish.interpreters.batching",
        "jaxish._jaxprs.rules",
        "jaxish._transforms.vmappables",
    ),
    "_src.interpreters.mlir": ("jaxish.interpreters.mlir",),
    "_src.interpreters.partial_eval": ("jaxish.interpreters.partial_eval", "jaxish._transforms.partial_eval"),
    "_src.lax": ("jaxish.lax",),
    "_src.lax.lax": ("jaxish.lax",),
    "_src.lib": (),
    "_src.lib.xla_client": _RUNTIME,
    "_src.linear_util": ("jaxish.extend.linear_util",),
    "_src.mesh": ("jaxish.sharding", "jaxish.interpreters.pxla"),
    "_src.named_sharding": ("jaxish.sharding",),
    "_src.numpy": (),
    "_src.numpy.einsum": ("jaxish._numpy.einsum",),
    "_src.numpy.lax_numpy": ("jaxish.numpy",),
    "_src.numpy.util": ("jaxish._numpy.arguments",),
    "_src.pjit": ("jaxish.experimental.pjit", "jaxish.sharding"),
    "_src.public_test_util": ("jaxish.test_util", "jaxish._transforms.gradient_checks"),
    "_src.random": ("jaxish.random",),
    "_src.scipy": (),
    "_src.scipy.special": ("jaxish.scipy.special",),
    "_src.sharding": ("jaxish.sharding",),
    "_src.sharding_impls": ("jaxish.sharding",),
    "_src.state": (),
    "_src.state.indexing": ("jaxish._numpy.dynamic_index",),
    "_src.state.types": ("jaxish.ref",),
    "_src.traceback_util": ("jaxish._core.user_frames", "jaxish._jaxprs.source_info"),
    "_src.tree_util": ("jaxish.tree_util",),
    "_src.typing": ("jaxish.typing",),
    "_src.util": ("jaxish._transforms.api_util",),
    "_src.xla_bridge": ("jaxish.extend.backend",),
}

_OF_ARRAYS = Array.__module__

# Likewise of jaxlib.
_OF_JAXLIB = dict.fromkeys(("jaxlib._jax", "jaxlib.xla_client"), _RUNTIME)

# Names of theirs that are called otherwise here.
_RENAMED = {
    "jax._src.core.JaxprEqnContext": ("jaxish._jaxprs.ir", "JaxprEqnContext"),
    "jax._src.dtypes.to_complex_dtype": ("jaxish._core.dtypes", "to_complex"),
    "jax._src.dtypes.to_floating_dtype": ("jaxish._core.dtypes", "to_floating"),
    "jax._src.dtypes.to_inexact_dtype": ("jaxish._core.dtypes", "to_inexact"),
    "jax._src.mesh.get_concrete_mesh": ("jaxish._devices.meshes", "get_concrete_mesh"),
    "jax._src.lib.xla_client.XlaRuntimeError": ("jaxish.errors", "JaxRuntimeError"),
    "jax._src.sharding_impls.UNSPECIFIED": ("jaxish._transforms.signature", "UNSPECIFIED"),
    "jax._src.sharding_impls.canonicalize_sharding": ("jaxish._transforms.placement", "canonicalize_sharding"),
    "jax._src.tree_util.prefix_errors": ("jaxish._core.tree_differences", "prefix_errors"),
    "jax._src.tree_util._registry": ("jaxish._core.tree", "node_types"),
    "jax._src.typing.Array": ("jaxish", "Array"),
    "jax._src.xla_bridge._backends": ("jaxish._transforms.backends", "initialized_backends"),
    "jaxlib._jax.ArrayImpl": ("jaxish", "Array"),
    "jaxlib._jax.JaxRuntimeError": ("jaxish.errors", "JaxRuntimeError"),
    "jaxlib._jax.PjitFunction": ("jaxish._transforms.jit", "PjitFunction"),
    "jaxlib.xla_client.ArrayImpl": ("jaxish", "Array"),
    "jaxlib.xla_client.XlaRuntimeError": ("jaxish.errors", "JaxRuntimeError"),
}


def _modules_of_private() -> set[str]:
    return {f"jax.{path}" for path in _PRIVATE}


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        root, _, rest = fullname.partition(".")
        if fullname in ("jaxlib", "jaxlib.version"):
            return importlib.machinery.ModuleSpec(fullname, _Jaxlib(), is_package=fullname == "jaxlib")
        if fullname in _OF_JAXLIB:
            return importlib.machinery.ModuleSpec(fullname, _Private(_OF_JAXLIB[fullname]))
        if root == "jaxlib":
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: jaxish serves jaxlib for its version and a few classes, there is no XLA below it.",
                name=fullname,
            )
        if root != "jax":
            return None
        if rest in _PRIVATE:
            return importlib.machinery.ModuleSpec(fullname, _Private(_PRIVATE[rest]), is_package=True)
        own = f"jaxish.{rest}" if rest else "jaxish"
        if not _is_of_jax(rest) or not _exists(own):
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: jaxish {__version__} runs in place of JAX here and has no such module.",
                name=fullname,
            )
        return importlib.machinery.ModuleSpec(fullname, _Alias(own), is_package=True)


def _is_of_jax(path: str) -> bool:
    """Tell whether the module of this path below `jaxish` stands for one of JAX's: no floor of the house does."""
    return path not in additions.MODULES and not any(part.startswith("_") for part in path.split("."))


def _exists(name: str) -> bool:
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def module_for(name: str) -> types.ModuleType:
    """Return the module that `import name` gives once this is installed, without installing it.

    Raises `ModuleNotFoundError` if there is none.
    """
    spec = _Finder().find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    module = spec.loader.create_module(spec) or types.ModuleType(name)
    spec.loader.exec_module(module)
    return module


def install() -> None:
    """Serve `import jax` by jaxish from here on, in this process.

    Raises `RuntimeError` when real JAX has been imported already.
    """
    loaded = sys.modules.get("jax")
    if loaded is not None and loaded is not sys.modules["jaxish"]:
        raise RuntimeError(
            f"jaxish.dropin.install() came too late: real JAX {getattr(loaded, '__version__', '')} is imported already. "
            "Call it before the first `import jax`, or start the program by `python -m jaxish run program.py`."
        )
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    sys.modules["jax"] = sys.modules["jaxish"]
    Array.__module__ = "jax"  # the first part of its class's module is how libraries tell whose an array is
    # What `import jax` has loaded: programs look in sys.modules for it.
    loaded_by_import = {name for name in sys.modules if name.startswith("jaxish.")}
    for rest in filter(_is_of_jax, (name.removeprefix("jaxish.") for name in loaded_by_import)):
        sys.modules[f"jax.{rest}"] = sys.modules[f"jaxish.{rest}"]
    importlib.import_module("jax._src")  # an attribute of jax
    # pytest, which puts its finder before ours, takes the file of a module of this name for one of tests, and loads it again.
    sys.modules["jax.test_util"] = importlib.import_module("jaxish.test_util")


def uninstall() -> None:
    """Serve `import jax` by whatever is installed again; modules imported so far stay what they are."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    for name in [n for n in sys.modules if n.partition(".")[0] in ("jax", "jaxlib")]:
        del sys.modules[name]
    vars(sys.modules["jaxish"]).pop("_src", None)
    Array.__module__ = _OF_ARRAYS
