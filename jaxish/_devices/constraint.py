"""Where arrays are: laying an array over devices, and telling how it lies.

The devices of one process share memory: an array over several of them is one tensor, which carries its sharding along.
Where each process has a device of its own, it is a DTensor (processes.py), of which each holds its part.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from .._core import axes, graph, levels, transfers
from .._core.array import Array, from_kind, is_abstract, tensor_of, type_text
from .._core.boxes import Box
from .._core.graph import Graph, TensorType
from .._core.memory import Space
from .._core.primitive import Dims, Primitive, batch_front
from .._core.target import Target
from . import devices, laid, memories, meshes, processes
from .made import as_its_tensor
from .meshes import AbstractMesh
from .propagation import shardings_of_results
from .sharding_rules import choosing
from .shardings import (
    IndivisibleError,
    NamedSharding,
    PartitionSpec,
    Shard,
    Sharding,
    SingleDeviceSharding,
    in_memory,
    names_in,
)


class Constrain(Primitive):
    """A tensor, laid over devices as `sharding` says; in a graph, the wish that it may lie so."""

    __name__ = "sharding_constraint"
    places_results = True

    def __init__(self, sharding: Sharding) -> None:
        self.sharding = sharding
        laid.start()

    def identity(self) -> str:
        return f"{self.__name__}({self.sharding})"

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        type = TensorType.of(inputs[0])
        return [type if processes.are_several() else replace(type, device=_torch_device(self.sharding))]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        # What is the same in all processes stays so within a graph: its results are distributed when it has run.
        if processes.is_distributed(inputs[0]):
            return [processes.distributed(inputs[0], self.sharding)]
        return self._placed(inputs)

    def lower(self, target: Target, *inputs: Tensor) -> list[Tensor]:
        return self._placed(inputs)

    def _placed(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        return list(inputs) if processes.are_several() else [inputs[0].to(_torch_device(self.sharding))]

    def part(self, index: int, box: Box, types: Sequence[TensorType]) -> Any:
        return [box], lambda part: part

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        sharding = self.sharding
        if isinstance(sharding, NamedSharding):
            batch = axes.spmd_at(axes.current_level() + 1) or _free_names(inputs[0], dims[0], sharding)
            sharding = sharding.update(spec=sharding.spec.update(partitions=(batch, *sharding.spec)))
        return type(self)(sharding)(batch_front(inputs[0], dims[0], size)), [0]

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        return [None if t is None else self(t)[0] for t in tangents]

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        own = laid.sharding_of(primals[0])
        back = in_memory(self.sharding, memories.DEVICE if own is None else own.memory_kind or memories.DEVICE)
        return [None if c is None else type(self)(back)(c)[0] for c in cotangents]


class Lay(Constrain):
    """`Constrain` outside of traces, where tensors say how they lie."""

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return [laid.marked(t, self.sharding) for t in super().run(*inputs)]


def lay(tensor: Tensor, sharding: Sharding) -> Tensor:
    """Return a tensor laid over devices as `sharding` says."""
    return (Constrain if graph.is_tracing() else Lay)(sharding)(tensor)[0]


def _free_names(tensor: Tensor, dim: int | None, sharding: NamedSharding) -> Any:
    """Return the explicit axes that split a dimension of a tensor, and are not to split another."""
    own = laid.sharding_of(tensor)
    if dim is None or not isinstance(own, NamedSharding) or dim >= len(own.spec):
        return None
    names = names_in(own.spec[dim])
    return names if set(names) <= set(sharding.mesh.explicit_axes) - sharding.split_axes else None


def _torch_device(sharding: Sharding) -> torch.device:
    places = {d.torch_device for d in sharding.device_set}
    if len(places) > 1:
        raise NotImplementedError(
            "arrays over several GPUs of one process are not supported; start one process per GPU with torchrun, and "
            "call jax.distributed.initialize()."
        )
    return places.pop()


def constrained(array: Array, sharding: Sharding, function: str) -> Array:
    """Return the array, laid over devices as `sharding` says. Raises `ValueError` where they do not go together."""
    if graph.tracing and function == "with_sharding_constraint" and isinstance(sharding, NamedSharding):
        sharding = _evenly(sharding, array.shape)
        if not sharding.mesh.explicit_axes:
            sharding = sharding.update(spec=sharding.spec.trimmed())
    if graph.tracing and function == "with_sharding_constraint":
        sharding = in_memory_of(array, sharding)
    check_fits(array, sharding, function)
    if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh) and function != "device_put":
        found = _over_devices(array, sharding)
        if found is None:
            return array
        sharding = found
    if transfers.watching and function != "device_put":  # which knows what comes from the host
        check_transfer(array, sharding)
    tensor = lay(tensor_of(array), sharding)
    if processes.are_several() and not is_abstract(array) and not levels.is_tracer(tensor):
        tensor = processes.distributed(tensor, sharding)
    placed = from_kind(tensor, array.kind)
    if not is_abstract(placed) and laid.sharding_of(tensor) is None:
        sharding.given_to(placed)
    return placed


def in_memory_of(array: Array, sharding: Sharding) -> Sharding:
    """Return a sharding for the kind of memory that an array is in: what says how it lies alone does not move it."""
    own = sharding_given(array)
    return in_memory(sharding, memories.DEVICE if own is None else own.memory_kind or memories.DEVICE)


def given(array: Array, sharding: Sharding) -> Array:
    """Note on an array just made that it lies like this, and return it."""
    array._tensor = laid.marked(array._tensor, sharding)
    return as_its_tensor(array) if laid.sharding_of(array._tensor) is not None else sharding.given_to(array)


def given_as(array: Array, sharding: Sharding | None) -> Array:
    """Do what `given` does with the sharding of a type, which says nothing (None), or names no devices."""
    if sharding is None or isinstance(getattr(sharding, "mesh", None), AbstractMesh) or is_abstract(array):
        return array
    return given(array, sharding)


def following(pull: Callable[..., Sequence[Tensor]], primals: Sequence[Tensor]) -> Callable[..., Sequence[Tensor]]:
    """Return a pullback that refuses no operands, and whose cotangents lie over explicit axes, and in memory, as the primals do."""
    wanted = [_wanted_of_cotangents(p) for p in primals]

    def followed(cotangents: Any) -> list[Tensor]:
        with choosing():
            found = pull(cotangents)
        return [c if s is None or laid.sharding_of(c) == s else lay(c, s) for c, s in zip(found, wanted, strict=True)]

    return followed


def _wanted_of_cotangents(primal: Tensor) -> Sharding | None:
    """Return how types have it that the cotangents of a tensor lie; None where they say nothing."""
    own = laid.sharding_of(primal)
    if not isinstance(own, NamedSharding) or not own.mesh.explicit_axes:
        return None if own is None or memories.space_of(own.memory_kind) is Space.Device else own
    full = own.of_rank(primal.dim())
    return full.update(spec=full.spec.of_cotangents())


def sums_of(tensor: Tensor) -> tuple[frozenset[Hashable], frozenset[Hashable]]:
    """Return the axes over which a tensor is a sum that is left to be made, and those over which its cotangent is one."""
    sharding = laid.sharding_of(tensor) if laid.in_use else None
    return (sharding.spec.unreduced, sharding.spec.reduced) if isinstance(sharding, NamedSharding) else (_NONE, _NONE)


def with_sums(tensor: Tensor, unreduced: frozenset[Hashable], reduced: frozenset[Hashable]) -> Tensor:
    """Return a tensor of which the type says that it is, or its cotangent is, a sum over axes of the mesh in force."""
    now, mesh = laid.sharding_of(tensor), meshes.mesh_in_force()
    if isinstance(now, NamedSharding):
        mesh = now.mesh
    if mesh is None:
        raise NotImplementedError("types tell of sums over axes of the mesh in force: enter it by jax.set_mesh.")
    spec = now.spec if isinstance(now, NamedSharding) else PartitionSpec()
    return lay(tensor, NamedSharding(mesh, spec.update(unreduced=unreduced, reduced=reduced)))


_NONE: frozenset[Hashable] = frozenset()


def _over_devices(array: Array, sharding: NamedSharding) -> NamedSharding | None:
    """Return a sharding of an abstract mesh over the devices that it stands for: those of the mesh in force, else the array's.

    None while a function is traced for devices that nobody knows yet. Raises `TypeError` for an array that lies on no mesh.
    """
    mesh = meshes.mesh_in_force()
    if mesh is not None and mesh.abstract_mesh == sharding.mesh:
        return sharding.update(mesh=mesh)
    if is_abstract(array):
        return None
    own = sharding_of(array)
    if not isinstance(own, NamedSharding):
        raise TypeError(
            "The sharding on the input must be a `NamedSharding` since the target sharding has an `AbstractMesh` in it. "
            f"Got sharding type {type(own)} for shape {type_text(array)}"
        )
    if own.mesh.shape_tuple != sharding.mesh.shape_tuple:
        raise ValueError(
            f"Mesh shape of the input {own.mesh.shape_tuple} does not match the mesh shape of the target sharding "
            f"{sharding.mesh.shape_tuple} for shape {type_text(array)}"
        )
    return sharding.update(mesh=own.mesh)


def check_transfer(array: Array, sharding: Sharding) -> None:
    """Do what the guard of transfers between devices says, where the array would be moved to others."""
    if not is_abstract(array) and sharding_of(array).device_set != sharding.device_set:
        transfers.check("device-to-device", f"{type_text(array)} to {sharding}")


@dataclass(frozen=True)
class _PlacedKind:
    """The kind of a result that is laid over devices: that of the array, and its sharding."""

    kind: Any
    sharding: Sharding
    is_asked_for: bool  # by `out_shardings`

    @property
    def sharding_of_type(self) -> Sharding | None:
        """What the type of the result tells: the sharding that was asked for, or how explicit axes split it."""
        return self.sharding if self.is_asked_for else self.sharding.of_type

    def wrap(self, tensor: Tensor) -> Array:
        """Return the handle on a tensor."""
        array = from_kind(tensor, self.kind)
        if is_abstract(array):
            return array
        wanted = self.sharding
        if isinstance(wanted, NamedSharding) and len(wanted.spec) > array.ndim:  # of the tensor: that of keys has more
            wanted = wanted.update(spec=PartitionSpec(*wanted.spec[: array.ndim]))
        if levels.is_tracer(tensor):  # what it is a level of says it
            return array
        if not processes.is_distributed(tensor) or wanted.is_equivalent_to(sharding_of(array), array.ndim):
            return given(array, wanted)
        return array


def kinds_of_results(body: Graph, kinds: Sequence[Any], are_asked_for: bool) -> list[Any]:
    """Return the kinds of a graph's first results, which know the sharding where one is asked for."""
    found = shardings_of_results(body)
    return [k if s is None else _PlacedKind(k, s, are_asked_for) for k, s in zip(kinds, found, strict=False)]


def _evenly(sharding: NamedSharding, shape: Sequence[int]) -> NamedSharding:
    """Return the sharding without the last axes of a dimension into which they do not divide it, as XLA takes it in jit."""
    if len(shape) < len(sharding.spec) or not any(
        s % n for s, n in zip(shape, sharding.parts(len(shape)), strict=True)
    ):
        return sharding
    parts = []
    for size, part in zip(shape, sharding.spec, strict=False):
        names = names_in(part)
        while names and size % math.prod(sharding.mesh.shape[name] for name in names):
            names = names[:-1]
        parts.append(part if names == names_in(part) else names or None)
    return sharding.update(spec=sharding.spec.update(partitions=parts).trimmed())


def check_fits(array: Array, sharding: Sharding, function: str) -> None:
    """Raise `ValueError` for a sharding that an array of this shape cannot have."""
    if function != "with_sharding_constraint" and PartitionSpec.UNCONSTRAINED in getattr(sharding, "spec", ()):
        raise ValueError(f"Unconstrained dims are not allowed when passed to {function}: {sharding}")
    try:
        sharding.shard_shape(array.shape)
    except IndivisibleError:
        raise
    except ValueError as error:
        arguments = "arguments" if function == "with_sharding_constraint" else "args"
        raise ValueError(
            f"One of {function} {arguments} is incompatible with its sharding annotation {sharding}: {error}"
        ) from None


def sharding_given(array: Array) -> Sharding | None:
    """Return the sharding that the program gave an array, or what it was made of; None where it gave none."""
    try:
        return object.__getattribute__(array, "_sharding")
    except AttributeError:
        pass
    found = laid.sharding_of(array._tensor) if laid.in_use else None
    # Tensors of random keys have more dimensions.
    if isinstance(found, NamedSharding) and len(found.spec) > array.ndim:
        return found.update(spec=found.spec.update(partitions=found.spec.partitions[: array.ndim]))
    return found


def is_committed(array: Array) -> bool:
    """Tell whether the program said where the array is."""
    return sharding_given(array) is not None or processes.is_distributed(array._tensor)


def sharding_of(array: Array) -> Sharding:
    """Return how an array lies over devices."""
    given = sharding_given(array)
    if given is not None:
        return given
    tensor = array._tensor
    if processes.is_distributed(tensor):
        return processes.sharding_of(tensor, array.ndim)
    return SingleDeviceSharding(devices.of(tensor))


def shards_of(array: Array, everywhere: bool = False) -> list[Shard]:
    """Return the parts of an array on this process's devices; with `everywhere` those on other devices, too, without data."""
    sharding = sharding_of(array)
    indices = sharding.devices_indices_map(array.shape)
    own, replicas, found = devices.process_index(), {}, []
    tensor = laid.plain(array._tensor)
    for device, index in indices.items():
        place = tuple((s.start, s.stop) for s in index)
        replicas[place] = replicas.get(place, -1) + 1
        data = None
        if device.process_index == own and isinstance(sharding, NamedSharding) and sharding.spec.unreduced:
            data = from_kind(laid.summand(array._tensor, sharding, device, index), array.kind)
        elif device.process_index == own:
            part = processes.local_part(tensor) if processes.is_distributed(tensor) else tensor[index]
            data = given(from_kind(part, array.kind), SingleDeviceSharding(device, memory_kind=sharding.memory_kind))
        if data is not None or everywhere:
            found.append(Shard(device, index, replicas[place], data))
    return found
