"""How a graph runs: operator by operator at first, compiled once that pays.

Each graph has one `Executable`, kept in its cache. `run` is an attribute that is replaced as the graph moves up the
tiers, so that a call pays for no decision. The tiers (config `jaxish_jit_tier`):

  direct     the graph's operators, one by one, always
  compiled   the backend compiles at the first call
  auto       the first call runs directly, so that it answers at once; from the second on a worker process compiles
             (background.py), and calls switch over when the kernel is ready. On a machine without a compiler the
             graph stays direct, with one warning.
"""

import functools
import shutil
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from .._core import config, graph
from .._core.graph import Graph, TensorType
from .._core.primitive import Primitive
from . import registry


class Executable:
    """One graph's way to run: call `run(*tensors)`."""

    def __init__(self, body: Graph) -> None:
        self.body = body
        self.backend = config.backend.value
        tier = config.jit_tier.value
        self.run: Callable[..., Sequence[Tensor]] = {
            "direct": body.module.forward,
            "compiled": self._compile_and_run,
            "auto": self._run_first,
        }[tier]

    def compile(self) -> None:
        """Compile now, whatever the tier, and run compiled from here on."""
        if not can_compile():
            self.run = self.body.module.forward
            return
        self.run = registry.lookup(self.backend)(lowered(self.body, self.backend), examples(self.body))  # pyright: ignore

    def _compile_and_run(self, *tensors: Tensor) -> Sequence[Tensor]:
        self.compile()
        return self.run(*tensors)

    def _run_first(self, *tensors: Tensor) -> Sequence[Tensor]:
        self.run = self._compile_and_run
        return self.body.module.forward(*tensors)


def of(body: Graph) -> Executable:
    """Return the executable of a graph."""
    found = body.cache.get("executable")
    if found is None:
        found = body.cache["executable"] = Executable(body)
    return found


def lowered(body: Graph, backend: str) -> GraphModule:
    """Return the graph with structured primitives spelled out in operators that `backend` knows."""
    if not any(isinstance(node.target, Primitive) for node in body.module.graph.nodes):
        return body.module
    return graph.trace(body, body.in_types, lowering=backend).graph.module


def examples(body: Graph) -> list[Tensor]:
    """Return example inputs of a graph: tensors of its input types without memory."""
    return [_example(type) for type in body.in_types]


def _example(type: TensorType) -> Tensor:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.empty(type.shape, dtype=type.dtype, device=type.device)


@functools.cache
def can_compile() -> bool:
    """Tell whether this machine has the C++ compiler that Inductor needs; warn once where it has none."""
    if any(map(shutil.which, ("g++", "clang++", "c++"))):
        return True
    warnings.warn(
        "jaxish found no C++ compiler (g++ or clang++), so jit runs each graph operator by operator. "
        "Install one to have graphs compiled.",
        stacklevel=2,
    )
    return False
