"""The backends that compile graphs, by name: ours, and every backend that torch.compile knows.

The contract is torch.compile's own. A backend is called with a GraphModule of aten operators (and what else its
target can run) and a list of example inputs (fake tensors); it returns a callable that takes the same number of
tensors and returns a sequence of results. It may assume that inputs keep the shapes, dtypes and devices of
the examples and are contiguous as they are. It may not write into its inputs. `module.meta["threads"]` is how many threads
its code may use on a CPU.
"""

import contextlib
import functools
import importlib
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.fx import GraphModule

from .._core import accelerator, config, dynamo, forks
from .._core.graph import TensorType
from .._core.target import HOSTED, INDUCTOR, PORTABLE, Target

Compiled = Callable[..., Sequence[Tensor]]
Compile = Callable[[GraphModule, list[Tensor]], Compiled]


@dataclass(frozen=True)
class Backend:
    """A compiler of graphs, and what the graphs that it is given may hold.

    `keeps_code` says that it leaves its code on disk, by the machine's C++ compiler, so that another process can compile.
    """

    compile: Compile
    target: Target
    keeps_code: bool = True


DEFAULT = "inductor"

_BACKENDS: dict[str, Backend] = {}

# What compilers keep in memory is the whole process's. A fork waits
# (`forks_wait`): it would inherit modules of theirs half imported.
one_at_a_time = threading.RLock()


@functools.cache
def forks_wait() -> None:
    """Have forks wait while something is compiled; to be called by the thread that asks for it.

    What is registered last is called first, and Inductor locks its files by filelock, which registers the like: a fork that
    held its lock while it waits for a compiler that waits for it would wait for ever.
    """
    with contextlib.suppress(ImportError):
        import filelock  # noqa: F401
    forks.wait_for(one_at_a_time)


def register(name: str, compile: Compile, target: Target, keeps_code: bool = True) -> None:
    """Make a compiler available under `name`; its graphs are lowered for `target`."""
    _BACKENDS[name] = Backend(compile, target, keeps_code)


def name_for(types: Iterable[TensorType]) -> str:
    """Return the name of the backend for a graph with inputs and results of these types."""
    return next((_OF_DEVICE[t.device.type] for t in types if t.device.type in _OF_DEVICE), config.backend.value)


def keeps_code(name: str) -> bool:
    """Tell whether the backend of this name leaves its code on disk."""
    return name not in _BACKENDS or _BACKENDS[name].keeps_code


_OF_DEVICE = {"xla": "xla"}  # devices that only one backend compiles for


def lookup(name: str) -> Backend:
    """Return the backend of this name. Raises `ValueError` when neither jaxish nor torch.compile has it."""
    if name in _BACKENDS:
        return _BACKENDS[name]
    dynamo.import_all()
    from torch._dynamo.backends.registry import lookup_backend
    from torch._dynamo.exc import InvalidBackend

    try:
        compiler = lookup_backend(name)
    except InvalidBackend:
        raise ValueError(
            f"Unknown backend {name!r} in jaxish_backend; the backends are {', '.join(names())}."
        ) from None

    def compile_contiguous(module: GraphModule, examples: list[Tensor]) -> Compiled:
        compiled: Any = compiler(module, examples)
        return lambda *tensors: compiled(*(t.contiguous() for t in tensors))

    return Backend(compile_contiguous, HOSTED)


def is_kept(name: str, module: GraphModule, types: Sequence[TensorType]) -> bool:
    """Tell whether the backend of this name has the code of a graph on disk, as far as it lets know."""
    from . import inductor

    return name == DEFAULT and inductor.is_kept(module, types)


def names() -> list[str]:
    """Return the names of all backends."""
    dynamo.import_all()
    from torch._dynamo.backends.registry import list_backends

    return sorted({*_BACKENDS, *list_backends(exclude_tags=())})


def _inductor(module: GraphModule, examples: list[Tensor]) -> Compiled:
    from .inductor import compile_graph

    return compile_graph(module, examples)


def _interpret(module: GraphModule, examples: list[Tensor]) -> Any:
    """Run what Inductor would be given, operator by operator: what is wrong here, no compiler did."""
    return module.forward


accelerator.on_start.append(lambda: importlib.import_module("jaxish._compile.xla"))  # its operators come with it


def _xla(module: GraphModule, examples: list[Tensor]) -> Compiled:
    from .xla import compile_graph

    return compile_graph(module, examples)


register(DEFAULT, _inductor, INDUCTOR)
register("interpret", _interpret, INDUCTOR, keeps_code=False)
register("xla", _xla, PORTABLE, keeps_code=False)
