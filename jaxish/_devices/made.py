"""Where arrays lie that are made while `set_mesh` has a mesh in force: whole, on all its devices.

An array knows nothing of meshes, and making one is the hot path of every operator. So that only programs pay that set a
mesh, the first `set_mesh` has arrays look for it from there on.
"""

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
    if not processes.are_several():
        Array.__init__ = _made


def _made(self: Array, tensor: Tensor, weak: bool = False) -> None:
    _initialise(self, tensor, weak)
    mesh = meshes.mesh_set()
    # What a trace or a transformation makes lies as their operands do.
    if mesh is None or type(tensor) is not Tensor or graph.tracing or functorch.peek_interpreter_stack() is not None:
        return
    self._sharding = _whole(mesh, tensor.dim() if mesh.explicit_axes and type(self) is Array else 0)


@functools.lru_cache(maxsize=64)
def _whole(mesh: Mesh, ndim: int) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec(*[None] * ndim))


def lies_as_made(array: Array) -> bool:
    """Tell whether only the mesh that was in force says where an array lies: arguments from the host are such arrays."""
    found = getattr(array, "_sharding", None)
    return isinstance(found, NamedSharding) and found is _whole(found.mesh, len(found.spec))


def as_its_tensor(array: Array) -> Array:
    """Return an array just made, of which the mesh says nothing: its tensor says how it lies."""
    if hasattr(array, "_sharding"):
        del array._sharding
    return array


meshes.when_set = _look_for_mesh
