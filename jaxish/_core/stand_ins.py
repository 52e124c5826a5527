"""Modules that stand in for others, which are slow to import, until more is asked of them than they know."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable
from typing import Any


class StandIn(types.ModuleType):
    """What is taken for the module `name`. `import_itself` puts the module in its place in `sys.modules`."""

    def __init__(self, name: str, import_itself: Callable[[], Any], is_package: bool) -> None:
        super().__init__(name)
        self._import_itself, self._is_package = import_itself, is_package

    def __getattr__(self, name: str) -> Any:
        is_path = name == "__path__" and self._is_package  # an import of a submodule asks for it
        if name.startswith("__") and not is_path:  # who looks at all modules asks for such names
            raise AttributeError(name)
        self._import_itself()
        found = getattr(sys.modules[self.__name__], name)
        return _Path(found) if is_path else found


class _Path(list[str]):
    """The path of a package that was imported when an import of one of its submodules asked for it."""


class _Finder(importlib.abc.MetaPathFinder):
    """Finds such a submodule if the package has imported it: Python would go on to make it a second time."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if isinstance(path, _Path) and name in sys.modules:
            return importlib.util.spec_from_loader(name, _Imported(sys.modules[name]))
        return None


class _Imported(importlib.abc.Loader):
    def __init__(self, module: types.ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return self._module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self._spec


sys.meta_path.insert(0, _Finder())
