"""Shardings: how an array lies over the devices of a mesh."""

import functools
import math
from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .._core import avals
from .._core.array import Array
from .._core.avals import ShapedArray
from . import devices, memories, meshes
from .devices import Device
from .meshes import AbstractMesh, Mesh

Index = tuple[slice, ...]
IndexOfPart = int | slice | tuple[int | slice, ...]
MeshAxisName = Any
ArrayMapping = OrderedDict[MeshAxisName, int]  # for each axis of a mesh the dimension that it splits


class DuplicateSpecError(Exception):
    """A partition spec that names a mesh axis twice."""


class IndivisibleError(ValueError):
    """A dimension that does not divide into as many parts as a sharding asks for."""


class _Unconstrained:
    def __repr__(self) -> str:
        return "UNCONSTRAINED"


class PartitionSpec:
    """Per dimension of an array, the mesh axis (or tuple of axes, major first) along which it is split; None: not split.

    `unreduced` names axes over which the array is a sum that is still to be made, `reduced` those over which it was.
    """

    __slots__ = ("_partitions", "reduced", "unreduced")
    UNCONSTRAINED = _Unconstrained()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        raise TypeError("Subclassing `jax.P` is prohibited.")

    def __init__(self, *partitions: Any, unreduced: Any = frozenset(), reduced: Any = frozenset()) -> None:
        self._partitions = tuple(map(_canonical, partitions))
        self.unreduced, self.reduced = frozenset(unreduced), frozenset(reduced)

    partitions = property(lambda self: self._partitions, doc="What splits each dimension.")

    def update(self, **changes: Any) -> "PartitionSpec":
        """Return a copy with other `partitions`, `unreduced` or `reduced`."""
        given = {"partitions": self._partitions, "unreduced": self.unreduced, "reduced": self.reduced, **changes}
        return PartitionSpec(*given.pop("partitions"), **given)

    def trimmed(self) -> "PartitionSpec":
        """Return the spec without what it says of dimensions behind the last one that is split, as XLA tells it."""
        parts = list(self._partitions)
        while parts and parts[-1] is None:
            parts.pop()
        return self.update(partitions=parts)

    def of_cotangents(self) -> "PartitionSpec":
        """Return the spec of cotangents: what is the same on devices that each give a summand has one that is left unreduced."""
        return self.update(unreduced=self.reduced, reduced=self.unreduced)

    def index(self, value: Any) -> int:
        """Return the first dimension that `value` splits."""
        return self._partitions.index(_canonical(value))

    def count(self, value: Any) -> int:
        """Return how many dimensions `value` splits."""
        return self._partitions.count(_canonical(value))

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._partitions)

    def __getitem__(self, index: Any) -> Any:
        return self._partitions[index]

    def __add__(self, other: Any) -> "PartitionSpec":
        return self.update(partitions=(*self._partitions, *other))

    def __radd__(self, other: Any) -> "PartitionSpec":
        return self.update(partitions=(*other, *self._partitions))

    @property
    def _key(self) -> tuple[Any, ...]:
        return self._partitions, self.unreduced, self.reduced

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionSpec) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        parts = ", ".join(map(repr, self._partitions)) + ("," if len(self._partitions) == 1 else "")
        extra = [f"{n}={set(getattr(self, n))}" for n in ("unreduced", "reduced") if getattr(self, n)]
        return f"P({', '.join([*([parts.rstrip(',') if extra else parts] if parts else []), *extra])})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _spec, (self._partitions, self.unreduced, self.reduced)


def _canonical(part: Any) -> Any:
    if isinstance(part, list | tuple):
        part = tuple(part)
        return part[0] if len(part) == 1 else part or None
    return part


def _spec(partitions: Any, unreduced: Any, reduced: Any) -> PartitionSpec:
    return PartitionSpec(*partitions, unreduced=unreduced, reduced=reduced)


def array_mapping_to_axis_resources(array_mapping: ArrayMapping) -> PartitionSpec:
    """Return the spec of what splits each dimension; axes of the same one are in order, major first."""
    dims = range(max(array_mapping.values(), default=-1) + 1)
    return PartitionSpec(*(tuple(axis for axis, dim in array_mapping.items() if dim == d) for d in dims))


def names_in(part: Any) -> tuple[Hashable, ...]:
    """Return the mesh axes that split one dimension, major first."""
    if part is None or part is PartitionSpec.UNCONSTRAINED:
        return ()
    return part if isinstance(part, tuple) else (part,)


class Sharding:
    """How an array lies over devices: the base class."""

    memory_kind: str | None = memories.DEVICE

    @property
    def device_set(self) -> set[Device]:
        """The devices that have a part of the array."""
        raise NotImplementedError

    def devices_indices_map(self, global_shape: Sequence[int]) -> Mapping[Device, Index]:
        """Return for each device the index of its part of an array of this shape."""
        raise NotImplementedError

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the part on each device. Raises `ValueError` where the parts would not be equal."""
        raise NotImplementedError

    def check_compatible_aval(self, aval_shape: Sequence[int]) -> None:
        """Raise `ValueError` where arrays of this shape have fewer dimensions than the sharding tells of."""

    @property
    def addressable_devices(self) -> set[Device]:
        """Those of the devices that belong to this process."""
        own = devices.process_index()
        return {d for d in self.device_set if d.process_index == own}

    def addressable_devices_indices_map(self, global_shape: Sequence[int]) -> Mapping[Device, Index]:
        """Return for each device of this process the index of its part of an array of this shape."""
        own = devices.process_index()
        return {d: i for d, i in self.devices_indices_map(global_shape).items() if d.process_index == own}

    # JAX's private names, which libraries that write arrays to disk read.

    @property
    def _device_assignment(self) -> tuple[Device, ...]:
        return tuple(self.device_set)

    @property
    def _addressable_device_assignment(self) -> tuple[Device, ...]:
        return tuple(d for d in self._device_assignment if d in self.addressable_devices)

    @property
    def num_devices(self) -> int:
        """The number of devices."""
        return len(self.device_set)

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all devices belong to this process."""
        return len(self.addressable_devices) == self.num_devices

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device has the whole array."""
        raise NotImplementedError

    @property
    def has_addressable_devices(self) -> bool:
        """Whether one of the devices belongs to this process."""
        return bool(self.addressable_devices)

    @property
    def of_type(self) -> "NamedSharding | None":
        """What types tell of it: nothing, unless axes of a mesh are explicit."""

    def of_a_row(self) -> "Sharding":
        """Return the sharding of what stands at one place of the first dimension."""
        raise NotImplementedError

    def of_rows(self) -> "Sharding":
        """Return the sharding of arrays that lie like this, one after the other along a new first dimension."""
        raise NotImplementedError

    def with_memory_kind(self, kind: str) -> "Sharding":
        """Return a copy for another kind of memory."""
        raise NotImplementedError

    def given_to(self, array: Array) -> Array:
        """Note on an array just made that it lies like this, and return it."""
        array._sharding = self
        return array

    def is_equivalent_to(self, other: "Sharding", ndim: int) -> bool:
        """Tell whether arrays of `ndim` dimensions lie in the same way, and in the same kind of memory, under both shardings."""
        if self == other:
            return True
        if (self.memory_kind or memories.DEVICE) != (other.memory_kind or memories.DEVICE):
            return False
        big = (self.num_devices * other.num_devices,) * ndim  # divides by every number of parts
        return self.devices_indices_map(big) == other.devices_indices_map(big)


def in_memory(sharding: Sharding, kind: str) -> Sharding:
    """Return the sharding for a kind of memory: itself where it is for that one."""
    return sharding if (sharding.memory_kind or memories.DEVICE) == kind else sharding.with_memory_kind(kind)


def _check_memory_kind(kind: str | None, where: Device | Mesh | AbstractMesh) -> None:
    """Raise `ValueError` for what is no kind of memory, `NotImplementedError` for one that arrays cannot be in there."""
    if kind is None or kind == memories.DEVICE:
        return
    if isinstance(where, AbstractMesh):
        if kind not in memories.KINDS:
            raise ValueError(f"Got invalid memory kind: {kind}. Valid memory kinds are: {', '.join(memories.KINDS)}")
        return
    device = where if isinstance(where, Device) else next(iter(where.device_set))
    if kind not in memories.KINDS:
        raise ValueError(device.no_memory(kind))
    if kind not in memories.kinds_of(device.platform):
        raise NotImplementedError(
            f"memory kind {kind!r} is not supported on {device.platform}: arrays are in the memory of their device. Put what "
            "is to be in the host's memory on jax.devices('cpu')[0], and back on the device before it is used."
        )
    if devices.process_count() > 1:
        raise NotImplementedError(
            f"memory kind {kind!r} is not supported in a program of several processes; leave it out: on CPUs all memory is the "
            "host's."
        )


class SingleDeviceSharding(Sharding):
    """The sharding of an array that lives on one device."""

    is_fully_replicated = property(lambda self: True, doc="Whether each device has the whole array.")

    def __init__(self, device: Device, *, memory_kind: str | None = None) -> None:
        _check_memory_kind(memory_kind, device)
        self._device, self.memory_kind = device, memory_kind or memories.DEVICE

    @property
    def device_set(self) -> set[Device]:
        """The device, as a set."""
        return {self._device}

    def of_a_row(self) -> "SingleDeviceSharding":
        """Return the sharding itself."""
        return self

    of_rows = of_a_row

    def with_memory_kind(self, kind: str) -> "SingleDeviceSharding":
        """Return a copy for another kind of memory. Raises `NotImplementedError` for one that the devices do not have here."""
        return SingleDeviceSharding(self._device, memory_kind=kind)

    def devices_indices_map(self, global_shape: Sequence[int]) -> Mapping[Device, Index]:
        """Return the index of everything, for the device."""
        return {self._device: (slice(None),) * len(global_shape)}

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the part on the device: all of it."""
        return tuple(global_shape)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, SingleDeviceSharding)
            and self._device is other._device
            and self.memory_kind == other.memory_kind
        )

    def __hash__(self) -> int:
        return hash((SingleDeviceSharding, self._device, self.memory_kind))

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self._device!r}, memory_kind={self.memory_kind})"


def make_single_device_sharding(device: Device, *, memory_kind: str | None = None) -> SingleDeviceSharding:
    """Return the sharding of an array that lives on one device."""
    return SingleDeviceSharding(device, memory_kind=memory_kind)


class NamedSharding(Sharding):
    """The sharding that splits dimensions of an array along axes of a mesh, as a `PartitionSpec` says.

    Raises `ValueError` for names of no axis, `DuplicateSpecError` for an axis that splits twice.
    """

    def __init__(self, mesh: Mesh | AbstractMesh, spec: PartitionSpec, *, memory_kind: str | None = None) -> None:
        if not isinstance(mesh, Mesh | AbstractMesh):
            raise TypeError(f"NamedSharding needs a jax.sharding.Mesh, got {mesh!r} of type {type(mesh)}.")
        if not isinstance(spec, PartitionSpec):
            raise TypeError(f"NamedSharding needs a jax.sharding.PartitionSpec, got {spec!r} of type {type(spec)}.")
        self.mesh, self.spec = mesh, spec
        _check_memory_kind(memory_kind, mesh)
        # Of an abstract mesh there are no arrays: it says what types will be.
        self.memory_kind = memory_kind if isinstance(mesh, AbstractMesh) else memory_kind or memories.DEVICE
        self._check()

    def _check(self) -> None:
        named = [name for part in self.spec for name in names_in(part)]
        unknown = [n for n in (*named, *self.spec.unreduced, *self.spec.reduced) if n not in self.mesh.axis_names]
        if unknown:
            raise ValueError(
                f"Resource axis: {unknown[0]} of {self.spec} is not found in mesh: {self.mesh.axis_names}."
            )
        twice = [name for name, count in Counter(named).items() if count > 1]
        if twice:
            raise DuplicateSpecError(
                "A single NamedSharding spec specification can map every mesh axis to at most one positional "
                f"dimension, but {self.spec} has duplicate entries for `{twice[0]}`"
            )
        if not self.spec.unreduced <= set(self.mesh.explicit_axes):
            raise ValueError(
                "Unreduced axes can only refer to mesh axes that is of type `Explicit`. Got unreduced axes: "
                f"{self.spec.unreduced} and mesh: {self.mesh}"
            )

    def update(self, **changes: Any) -> "NamedSharding":
        """Return a copy with another `mesh`, `spec` or `memory_kind`."""
        given = {"mesh": self.mesh, "spec": self.spec, "memory_kind": self.memory_kind, **changes}
        return NamedSharding(given.pop("mesh"), given.pop("spec"), **given)

    def of_rank(self, ndim: int) -> "NamedSharding":
        """Return the sharding with a spec that tells of every dimension, as types have it."""
        spec = self.spec
        return self.update(spec=spec.update(partitions=(*spec.partitions, *(None,) * (ndim - len(spec)))))

    @property
    def of_type(self) -> "NamedSharding | None":
        """What types tell of it: how explicit axes split an array, whatever the devices; None where no axis is explicit."""
        return NamedSharding(self.mesh.abstract_mesh, self.spec) if self.mesh.explicit_axes else None

    def of_a_row(self) -> "NamedSharding":
        """Return the sharding without the part that is about the first dimension."""
        return self.update(spec=self.spec.update(partitions=self.spec.partitions[1:]))

    def of_rows(self) -> "NamedSharding":
        """Return the sharding with a new first dimension, which nothing splits."""
        return self.update(spec=self.spec.update(partitions=(None, *self.spec.partitions)))

    def check_compatible_aval(self, aval_shape: Sequence[int]) -> None:
        """Raise `ValueError` where arrays of this shape have fewer dimensions than the spec."""
        if len(self.spec) > len(aval_shape):
            raise ValueError(
                f"Sharding {self} is only valid for values of rank at least {len(self.spec)}, but was applied to a value "
                f"of rank {len(aval_shape)}."
            )

    def with_memory_kind(self, kind: str) -> "NamedSharding":
        """Return a copy for another kind of memory. Raises `NotImplementedError` for one that the devices do not have here."""
        return self.update(memory_kind=kind)

    def _concrete_mesh(self, what: str) -> Mesh:
        if isinstance(self.mesh, AbstractMesh):
            raise ValueError(f"{what} is not implemented for `jax.sharding.AbstractMesh`.")
        return self.mesh

    @property
    def device_set(self) -> set[Device]:
        """The devices of the mesh."""
        return set(self._concrete_mesh("device_set").device_set)

    @property
    def num_devices(self) -> int:
        """The number of devices of the mesh."""
        return self.mesh.size

    @property
    def split_axes(self) -> frozenset[Hashable]:
        """The mesh axes along which the array is split."""
        return frozenset(name for part in self.spec for name in names_in(part))

    @property
    def replicated_axes(self) -> frozenset[Hashable]:
        """The mesh axes along which the array is the same."""
        return frozenset(self.mesh.axis_names) - self.split_axes

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device has the whole array."""
        return all(self.mesh.shape[name] == 1 for name in self.split_axes)

    def parts(self, ndim: int) -> tuple[int, ...]:
        """Return into how many parts each dimension of an array is split. Raises `ValueError` for too few dimensions."""
        if ndim < len(self.spec):
            raise ValueError(
                f"Sharding {self} is only valid for values of rank at least {len(self.spec)}, but was applied to a "
                f"value of rank {ndim}."
            )
        counts = [math.prod(self.mesh.shape[name] for name in names_in(part)) for part in self.spec]
        return (*counts, *(1,) * (ndim - len(counts)))

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the part on each device. Raises `ValueError` where the parts would not be equal."""
        counts = self.parts(len(global_shape))
        for axis, (size, count) in enumerate(zip(global_shape, counts, strict=True)):
            if size % count:
                raise IndivisibleError(
                    f"Sharding {self} implies that array axis {axis} is partitioned {count} times, but the dimension "
                    f"size is {size} (full shape: {tuple(global_shape)}, per-dimension tiling factors: {list(counts)} "
                    "should evenly divide the shape)"
                )
        return tuple(size // count for size, count in zip(global_shape, counts, strict=True))

    def devices_indices_map(self, global_shape: Sequence[int]) -> Mapping[Device, Index]:
        """Return for each device the index of its part of an array of this shape."""
        self._concrete_mesh("devices_indices_map")
        return _indices(self, tuple(global_shape))

    @property
    def _device_assignment(self) -> tuple[Device, ...]:
        self._concrete_mesh("_device_assignment")
        return tuple(self.mesh.devices.flat)

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.mesh, self.spec, self.memory_kind

    @functools.cached_property
    def _hash(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, NamedSharding) and self._key == other._key)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        mesh = self.mesh if isinstance(self.mesh, AbstractMesh) else str(self.mesh)
        memory = "" if self.memory_kind is None else f", memory_kind={self.memory_kind}"
        return f"NamedSharding(mesh={mesh}, spec={self.spec}{memory})"


@functools.lru_cache(1024)
def _indices(sharding: NamedSharding, shape: tuple[int, ...]) -> Mapping[Device, Index]:
    mesh, sizes = sharding.mesh, sharding.shard_shape(shape)
    specs = (*sharding.spec, *(None,) * (len(shape) - len(sharding.spec)))
    found = {}
    for position, device in places(mesh):
        index = []
        for part, size, whole in zip(specs, sizes, shape, strict=True):
            number = 0
            for name in names_in(part):
                number = number * mesh.shape[name] + position[name]
            index.append(slice(None) if size == whole else slice(number * size, (number + 1) * size))
        found[device] = tuple(index)
    return found


def places(mesh: Any) -> Iterator[tuple[dict[Hashable, int], Device]]:
    """Return the devices of a mesh and where they stand along each axis."""
    for position in np.ndindex(mesh.devices.shape):
        yield dict(zip(mesh.axis_names, position, strict=True)), mesh.devices[position]


class Shard:
    """The part of an array on one device: `device`, `index`, `replica_id`, and its `data` (None in another process)."""

    def __init__(self, device: Device, index: Index, replica_id: int, data: Array | None) -> None:
        self.device, self.index, self.replica_id, self.data = device, index, replica_id, data

    def __repr__(self) -> str:
        return f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, data={self.data})"


def resolve(given: Any, function: str) -> Sharding:
    """Return the sharding that a `Sharding`, a `PartitionSpec` on the mesh in force, or a device means.

    Raises `RuntimeError` for a spec without a mesh in force, `TypeError` for anything else.
    """
    if isinstance(given, Sharding):
        return given
    if isinstance(given, PartitionSpec):
        mesh = meshes.mesh_in_force()
        if mesh is None:
            raise RuntimeError(
                f"{function} requires a non-empty mesh in context if you are passing `PartitionSpec`s. You can define "
                "a context mesh via `jax.set_mesh(mesh)`. Alternatively, provide `Sharding`s and then the mesh context "
                "manager is not required."
            )
        return NamedSharding(mesh, given)
    raise TypeError(
        f"{function} leaf specifications are expected to be shardings, PartitionSpec instances or None, but got {given}"
    )


def says_nothing(sharding: Any) -> bool:
    """Tell whether a sharding leaves open where an array lies: None, and that of types without a mesh."""
    return sharding is None or (
        isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh) and not sharding.mesh.axis_names
    )


def _sharding_of_type(self: ShapedArray) -> NamedSharding:
    """How arrays of the type lie over an abstract mesh: whole, on none, unless it was said otherwise."""
    return self._sharding or NamedSharding(AbstractMesh((), ()), PartitionSpec(*[None] * self.ndim))


def _as_sharding_of_type(given: NamedSharding, shape: tuple[Any, ...]) -> NamedSharding | None:
    """Return a sharding as types have it: of every dimension, over explicit axes. None where that says nothing."""
    parts = list(given.spec)
    while len(parts) > len(shape) and parts[-1] is None:
        parts.pop()
    if len(parts) > len(shape):
        raise ValueError(
            f"Length of sharding.spec must be equal to aval's ndim. Got sharding.spec {given.spec}, aval.ndim "
            f"{len(shape)} and sharding {given}"
        )
    if not isinstance(given.mesh, AbstractMesh):
        raise ValueError(f"Mesh of an aval must be an AbstractMesh. Got {given.mesh} of type {type(given.mesh)}")
    if says_nothing(given):
        return None
    split = [tuple(n for n in names_in(part) if n in given.mesh.explicit_axes) for part in parts]
    full = [names[0] if len(names) == 1 else names or None for names in split]
    found = given.update(spec=given.spec.update(partitions=(*full, *[None] * (len(shape) - len(full)))))
    found.shard_shape(shape)
    return found


ShapedArray.sharding = property(_sharding_of_type)  # pyright: ignore[reportAttributeAccessIssue]
avals.checked_sharding = _as_sharding_of_type
