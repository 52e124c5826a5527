"""Where arrays lie that are made while `set_mesh` has a mesh in force: whole, on all its devices.

An array knows nothing of meshes, and making one is the hot path of every operator. So that only programs pay that set a
mesh, the first `set_mesh` has arrays look for it from there on.
"""

import contextlib
import functools
from typing import Any

from torch import Tensor

from .._core import functorch, graph
from .._core.array import Array
from . import meshes, processes
from .meshes import Mesh
from .shardings import NamedSharding, PartitionSpec

_initialise: Any = Array.__init__


def _look_for_mesh() -> None:
    Array.__init__ = _made


def _made(self: Array, tensor: Tensor, weak: bool = False) -> None:
    _initialise(self, tensor, weak)
    mesh = meshes.mesh_set()
    if mesh is None or type(tensor) is not Tensor or processes.are_several():
        return
    if graph.tracing or functorch.peek_interpreter_stack() is not None:
        return  # what a trace or a transformation makes lies as their operands do
    self._sharding = _whole(mesh, tensor.dim() if mesh.explicit_axes and type(self) is Array else 0)


@functools.lru_cache(maxsize=64)
def _whole(mesh: Mesh, ndim: int) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec(*[None] * ndim))


def as_its_tensor(array: Array) -> Array:
    """Return an array just made, of which the mesh says nothing: what its tensor says, and what comes from the host."""
    with contextlib.suppress(AttributeError):  # it has none
        del array._sharding
    return array


meshes.when_set = _look_for_mesh
