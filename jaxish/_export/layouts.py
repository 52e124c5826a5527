"""How the arguments and results of an exported function lie over devices: along the axes of a mesh, whatever its devices."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import fx

from .._core.array import Array
from .._core.levels import is_tracer
from .._core.primitive import Primitive, graphs_of
from .._devices import devices, meshes, processes
from .._devices.constraint import Constrain, constrained, sharding_given
from .._devices.devices import Device
from .._devices.meshes import AbstractMesh, AxisType, Mesh
from .._devices.shardings import NamedSharding, PartitionSpec, Sharding
from .._transforms.program import Program

Layout = NamedSharding | None  # over an abstract mesh; None: not said


def layouts_of(given: Sequence[Any], program: Program) -> "Layouts":
    """Return how arguments with such shardings, and the results of a program, lie over devices."""
    results = [getattr(kind, "sharding", None) for kind in program.out_kinds]
    within = _constraints_in(program.closed.graph.module)
    count = max((s.num_devices for s in (*given, *results, *within) if s is not None), default=1)
    if count > 1 and processes.are_several():
        raise NotImplementedError(
            "export of a function over the devices of several processes is not supported; export it in one process, for "
            "shardings over a jax.sharding.AbstractMesh."
        )
    return Layouts(tuple(map(_layout_of, given)), tuple(map(_layout_of, results)), count)


def _layout_of(sharding: Any) -> Layout:
    """Return a sharding without its devices."""
    return sharding.update(mesh=sharding.mesh.abstract_mesh) if isinstance(sharding, NamedSharding) else None


def _constraints_in(module: fx.GraphModule) -> Iterator[Sharding]:
    """Yield the shardings that a graph, and those within it, ask for."""
    for node in module.graph.nodes:
        if isinstance(node.target, Constrain):
            yield node.target.sharding
        if isinstance(node.target, Primitive):
            for inner in graphs_of(node.target):
                yield from _constraints_in(inner.module)


@dataclass(frozen=True)
class Layouts:
    """The layouts of the leaves of an exported function's arguments and results, and the number of devices."""

    inputs: tuple[Layout, ...]
    outputs: tuple[Layout, ...]
    nr_devices: int = 1

    def devices_of_call(self, name: str, leaves: Sequence[Any]) -> Sequence[Device] | None:
        """Return the devices for a call with these arguments; None where a trace does not know them.

        They are those that the arguments lie on, or else of the mesh in force. Raises `ValueError` where there are more or
        fewer than the function was exported for, unless that was one.
        """
        found = _devices_of(leaves)
        if found is not None and len(found) != self.nr_devices != 1:
            raise ValueError(
                f"Function {name} was exported for {self.nr_devices} devices and is called in a context with {len(found)} "
                f"device{'s' * (len(found) > 1)}, which is not allowed. Lay its arguments over {self.nr_devices} devices: "
                "jax.device_put(x, exported.in_shardings_jax(mesh)[i])."
            )
        return found

    def placed(self, results: Sequence[Any], where: Sequence[Device] | None) -> list[Any]:
        """Return the results, laid over the devices of a call."""
        if where is None or len(where) != self.nr_devices or not any(self.outputs):
            return list(results)
        return [
            x if layout is None else constrained(x, layout.update(mesh=_mesh(layout, where)), "jit out_shardings")
            for x, layout in zip(results, self.outputs, strict=True)
        ]


def _devices_of(leaves: Sequence[Any]) -> Sequence[Device] | None:
    arrays = [leaf for leaf in leaves if isinstance(leaf, Array)]
    for sharding in map(sharding_given, arrays):
        if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, Mesh):
            return [*sharding.mesh.devices.flat]
    mesh = meshes.mesh_in_force()
    if mesh is not None:
        return [*mesh.devices.flat]
    return None if any(is_tracer(a._tensor) for a in arrays) else devices.devices()[:1]


def _mesh(layout: NamedSharding, where: Sequence[Device]) -> Mesh:
    mesh = layout.mesh
    return Mesh(np.array(where).reshape(mesh.axis_sizes), mesh.axis_names, axis_types=mesh.axis_types)


def over(layout: Layout, mesh: Mesh | AbstractMesh) -> Layout:
    """Return the layout over the devices of a mesh. Raises `ValueError` for a mesh with other axes."""
    if layout is None:
        return None
    if (mesh.shape_tuple, mesh.axis_types) != (layout.mesh.shape_tuple, layout.mesh.axis_types):
        raise ValueError(
            f"NamedSharding new mesh {mesh} does not match the mesh used for export {layout.mesh}: it needs the same "
            "names, sizes and types of axes."
        )
    return layout.update(mesh=mesh)


# ------------------------------------------------------------------------------------------------------------ as data


def said(layout: Layout) -> dict[str, Any] | None:
    """Return a layout as data. Raises `ValueError` for axes whose names are no strings."""
    if layout is None:
        return None
    mesh = layout.mesh
    if not all(isinstance(name, str) for name in mesh.axis_names):
        raise ValueError(f"a mesh whose axes are named {mesh.axis_names} cannot be stored: the names must be strings.")
    return {
        "axes": [*map(list, mesh.shape_tuple)],
        "types": [kind.name for kind in mesh.axis_types],
        "spec": [list(part) if isinstance(part, tuple) else part for part in layout.spec],
        "memory": layout.memory_kind,
    }


def read(given: dict[str, Any] | None) -> Layout:
    """Return the layout that data says."""
    if given is None:
        return None
    names, sizes = zip(*given["axes"], strict=True) if given["axes"] else ((), ())
    mesh = AbstractMesh(sizes, names, axis_types=tuple(AxisType[name] for name in given["types"]))
    spec = PartitionSpec(*(tuple(part) if isinstance(part, list) else part for part in given["spec"]))
    return NamedSharding(mesh, spec, memory_kind=given["memory"])
