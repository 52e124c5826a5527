"""Graphs as torch.nn.Modules, whose code is written when somebody asks for it."""

import linecache
import threading
import weakref
from typing import Any

from torch import fx
from torch.fx.graph_module import _loader

from . import forks

_sources: dict[str, str] = _loader.eval_cache

_writing = threading.RLock()  # FX gives the nodes of a graph their names while it writes: two threads would mix them up
forks.wait_for(_writing)


class GraphModule(fx.GraphModule):
    """A module whose code is written when somebody asks for it: two thirds of all graphs only become parts of others."""

    def recompile(self) -> Any:
        """Have the code written anew."""
        cls: Any = type(self)  # FX makes a class for each module
        cls.forward = _Unwritten()

    @property
    def code(self) -> str:
        """The text of the function that runs the graph."""
        assert self.forward is not None  # that it is asked for writes it
        return super().code

    def __str__(self) -> str:
        self.write()
        return super().__str__()

    def __reduce__(self) -> tuple[Any, ...]:
        with _writing:
            return fx.GraphModule(self, self.graph, self._get_name()).__reduce__()

    def write(self) -> None:
        """Write the function that runs the graph, if it is not there yet."""
        with _writing:
            if isinstance(vars(type(self))["forward"], _Unwritten):
                super().recompile()
                weakref.finalize(self, _forget_source, type(self).forward.__code__.co_filename).atexit = False


class _Unwritten:
    """In place of a function, which is written when it is read."""

    def __get__(self, module: GraphModule | None, owner: type) -> Any:
        if module is None:
            return self
        module.write()
        return module.forward


def _forget_source(name: str) -> None:
    # FX keeps the text of every function that it has made, for tracebacks.
    _sources.pop(name, None)
    linecache.cache.pop(name, None)
