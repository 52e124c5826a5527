"""Meshes: devices arranged in a grid whose axes have names, and the mesh that `set_mesh` put in force."""

import enum
import math
import numbers
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._core import config, graph
from .devices import Device, process_index
from .devices import devices as all_devices


class AxisType(enum.Enum):
    """Who decides how arrays lie along a mesh axis: the compiler, the types of arrays, or the program."""

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self) -> str:
        return self.name


def _axis_types(names: Sequence[Hashable], types: Any, default: AxisType) -> tuple[AxisType, ...]:
    if types is None:
        return (default,) * len(names)
    found = (types,) if isinstance(types, AxisType) else tuple(types)
    if not all(isinstance(t, AxisType) for t in found):
        raise TypeError(f"axis_types passed to a mesh must be of type `jax.sharding.AxisType`. Got {types}")
    if len(found) != len(names):
        raise ValueError(
            "Number of axis names should match the number of axis_types. Got "
            f"axis_names={tuple(names)} and axis_types={found}"
        )
    return found


class _Axes:
    """What concrete and abstract meshes have in common: sizes, names and types of axes."""

    axis_sizes: tuple[int, ...]
    axis_names: tuple[Hashable, ...]
    axis_types: tuple[AxisType, ...]

    @property
    def shape(self) -> OrderedDict[Hashable, int]:
        """The size of each axis by its name."""
        return OrderedDict(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def shape_tuple(self) -> tuple[tuple[Hashable, int], ...]:
        """Names and sizes of the axes."""
        return tuple(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def size(self) -> int:
        """The number of devices."""
        return math.prod(self.axis_sizes) if self.axis_sizes else 0

    @property
    def empty(self) -> bool:
        """Whether the mesh has no axes."""
        return not self.axis_names

    def axes_of(self, kind: AxisType) -> tuple[Hashable, ...]:
        """Return the names of the axes of one type."""
        return tuple(n for n, t in zip(self.axis_names, self.axis_types, strict=True) if t is kind)

    @cached_property
    def explicit_axes(self) -> tuple[Hashable, ...]:
        """The axes that array types tell about."""
        return self.axes_of(AxisType.Explicit)

    auto_axes = property(lambda self: self.axes_of(AxisType.Auto), doc="The axes that the compiler decides about.")
    manual_axes = property(lambda self: self.axes_of(AxisType.Manual), doc="The axes that the program goes through.")
    are_all_axes_auto = property(lambda self: all(t is AxisType.Auto for t in self.axis_types))
    are_all_axes_explicit = property(lambda self: all(t is AxisType.Explicit for t in self.axis_types))
    are_all_axes_manual = property(lambda self: all(t is AxisType.Manual for t in self.axis_types))

    def _text(self) -> str:
        sizes = "".join(f"{name!r}: {size}, " for name, size in self.shape_tuple)
        return f"{sizes}axis_types=({', '.join(map(repr, self.axis_types))}{',' if len(self.axis_types) == 1 else ''})"


class Mesh(_Axes):
    """Devices in an array (`devices`) whose axes have names.

    Raises `ValueError` when there are not as many names as axes.
    """

    def __init__(
        self, devices: Any, axis_names: str | Sequence[Hashable], axis_types: tuple[AxisType, ...] | None = None
    ) -> None:
        self.devices = np.asarray(devices, dtype=object)
        self.axis_names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        if any(name is None for name in self.axis_names):
            raise ValueError(f"Mesh axis names cannot be None. Got: {self.axis_names}")
        if self.devices.ndim != len(self.axis_names):
            raise ValueError(
                "Mesh requires the ndim of its first argument (`devices`) to equal the length of its second argument "
                f"(`axis_names`), but got devices.ndim == {self.devices.ndim} and "
                f"len(axis_names) == {len(self.axis_names)}."
            )
        self.axis_sizes = self.devices.shape
        self.axis_types = _axis_types(self.axis_names, axis_types, AxisType.Auto)
        self._outer: list[Mesh | None] = []

    @property
    def size(self) -> int:
        """The number of devices."""
        return self.devices.size if self.axis_names else 0

    @cached_property
    def device_set(self) -> frozenset[Device]:
        """The devices."""
        return frozenset(self.devices.flat)

    @property
    def device_ids(self) -> np.ndarray:
        """The devices' ids, in the mesh's shape."""
        return np.vectorize(lambda d: d.id, otypes=[int])(self.devices)

    @cached_property
    def local_devices(self) -> list[Device]:
        """The devices of this process."""
        return [d for d in self.devices.flat if d.process_index == process_index()]

    @property
    def is_multi_process(self) -> bool:
        """Whether devices of other processes belong to the mesh."""
        return len(self.local_devices) != self.devices.size

    @property
    def local_mesh(self) -> "Mesh":
        """The mesh of this process's devices. Raises `ValueError` where they do not form a grid."""
        if not self.is_multi_process:
            return self
        own = np.vectorize(lambda d: d.process_index == process_index(), otypes=[bool])(self.devices)
        where = np.nonzero(own)
        box = tuple(slice(w.min(), w.max() + 1) for w in where) if len(where[0]) else ()
        if not len(where[0]) or not own[box].all():
            raise ValueError("When passing host local inputs, the devices of a process must form a part of the grid.")
        return Mesh(self.devices[box], self.axis_names, self.axis_types)

    @cached_property
    def abstract_mesh(self) -> "AbstractMesh":
        """The mesh without its devices."""
        first = self.devices.flat[0] if self.devices.size else None
        device = None if first is None else AbstractDevice(first.device_kind, None, first.platform)
        return AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types, abstract_device=device)

    def update(self, devices: Any = None, axis_names: Any = None, axis_types: Any = None) -> "Mesh":
        """Return a copy with some of its attributes changed."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    def __enter__(self) -> "Mesh":
        if config.disallow_mesh_context_manager.value:
            raise RuntimeError("Mesh context manager is disabled. Use jax.set_mesh(mesh).")
        self._outer.append(_swap(legacy=self).legacy)
        return self

    def __exit__(self, *_: Any) -> None:
        _swap(legacy=self._outer.pop())

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        return self.axis_names, self.axis_sizes, self.axis_types, tuple(self.devices.flat)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Mesh) and self._key == other._key)

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        types = f", axis_types={self.axis_types}" if self.axis_names else ""
        return f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names}{types})"

    def __str__(self) -> str:
        return f"Mesh({self._text() if self.axis_names else ''})"


@dataclass(frozen=True, slots=True)
class AbstractDevice:
    """The kind of device that an abstract mesh is made of."""

    device_kind: str
    num_cores: int | None
    platform: str


class AbstractMesh(_Axes):
    """A mesh without devices: sizes, names and types of axes."""

    def __init__(
        self, axis_sizes: tuple[int, ...], axis_names: tuple[Hashable, ...],
        axis_types: AxisType | tuple[AxisType, ...] | None = None, *, abstract_device: AbstractDevice | None = None,
    ) -> None:  # fmt: skip
        self.axis_sizes, self.axis_names = tuple(axis_sizes), tuple(axis_names)
        if len(self.axis_sizes) != len(self.axis_names):
            raise ValueError(f"an AbstractMesh with axes {self.axis_names} needs as many sizes, got {self.axis_sizes}.")
        self.axis_types = _axis_types(self.axis_names, axis_types, AxisType.Auto)
        self.abstract_device = abstract_device

    @property
    def abstract_mesh(self) -> "AbstractMesh":
        """The mesh itself."""
        return self

    @property
    def devices(self) -> Any:
        """Raises `ValueError`: an abstract mesh has no devices."""
        raise ValueError("AbstractMesh does not implement devices; use a jax.sharding.Mesh.")

    def update_axis_types(self, name_to_type: Mapping[Hashable, AxisType]) -> "AbstractMesh":
        """Return a copy with other types of some axes, by their names."""
        pairs = zip(self.axis_names, self.axis_types, strict=True)
        return self.update(axis_types=tuple(name_to_type.get(name, own) for name, own in pairs))

    def update(self, axis_sizes: Any = None, axis_names: Any = None, axis_types: Any = None) -> "AbstractMesh":
        """Return a copy with some of its attributes changed."""
        return AbstractMesh(
            self.axis_sizes if axis_sizes is None else axis_sizes,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
            abstract_device=self.abstract_device,
        )

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        return self.axis_names, self.axis_sizes, self.axis_types, self.abstract_device

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, AbstractMesh) and self._key == other._key)

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        if self.empty:
            return "AbstractMesh((), axis_types=())"
        device = self.abstract_device
        kind = "" if device is None else (
            f", device_kind={device.device_kind}, num_cores={device.num_cores}, platform={device.platform}"
        )  # fmt: skip
        return f"AbstractMesh({self._text()}{kind})"


_EMPTY = Mesh(np.empty((), dtype=object), ())
_EMPTY_ABSTRACT = AbstractMesh((), ())


class _InForce(NamedTuple):
    mesh: Mesh | None = None  # of set_mesh
    abstract: AbstractMesh | None = None  # of use_abstract_mesh
    legacy: Mesh | None = None  # of `with mesh:`


def _in_force() -> _InForce:
    return config.mesh.value or _InForce()


def _swap(**changed: Any) -> _InForce:
    """Change what is in force in this thread, and return what was."""
    return config.mesh.swap(_in_force()._replace(**changed)) or _InForce()


def when_set() -> None:
    """Do what arrays need where a mesh is set; made.py puts it here."""


class set_mesh:
    """Put a mesh in force (None: none): for good, or for a `with` block, after which the one before is in force again.

    Raises `ValueError` for what is no mesh, for manual axes, and inside a traced function.
    """

    def __init__(self, mesh: Mesh | None) -> None:
        if not isinstance(mesh, Mesh | None):
            raise ValueError(f"Expected mesh of type `jax.sharding.Mesh`. Got type: {type(mesh)}")
        if mesh is not None and mesh.manual_axes:
            raise ValueError(
                f"mesh {mesh} contains manual axes which is not allowed when using `jax.set_mesh`. Please use "
                "`jax.shard_map` to enter into `Manual` mode instead."
            )
        if not graph.is_plain_evaluation():
            raise ValueError("`set_mesh` can only be used outside of `jax.jit`; enter the mesh before the call.")
        self._before = _swap(mesh=mesh).mesh
        when_set()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        _swap(mesh=self._before)


@contextmanager
def use_abstract_mesh(mesh: AbstractMesh) -> Iterator[None]:
    """Put an abstract mesh in force for a block. Raises `ValueError` for what is no abstract mesh."""
    if not isinstance(mesh, AbstractMesh):
        raise ValueError(f"Expected mesh of type `jax.sharding.AbstractMesh`. Got type: {type(mesh)}")
    before = _swap(abstract=mesh).abstract
    try:
        yield
    finally:
        _swap(abstract=before)


def mesh_set() -> Mesh | None:
    """Return the mesh that `set_mesh` put in force, None where it put none."""
    return config.mesh.value.mesh if config.mesh.value else None


def get_mesh() -> Mesh:
    """Return the mesh in force: an empty one where none was set. Raises `ValueError` inside a transformed function."""
    if not graph.is_plain_evaluation():
        raise ValueError(
            "`get_mesh` can only be used outside of `jax.jit`. Maybe you want `jax.sharding.get_abstract_mesh()`?"
        )
    return get_concrete_mesh()


def get_concrete_mesh() -> Mesh:
    """Return the mesh in force, inside transformed functions, too."""
    return _in_force().mesh or _EMPTY


def get_abstract_mesh() -> AbstractMesh:
    """Return the mesh in force without its devices."""
    found = _in_force()
    return found.abstract or (_EMPTY_ABSTRACT if found.mesh is None else found.mesh.abstract_mesh)


def mesh_in_force() -> Mesh | None:
    """Return the mesh that partition specs without a mesh mean: that of `set_mesh`, or of `with mesh:`."""
    found = _in_force()
    mesh, abstract = found.mesh or found.legacy, found.abstract
    if mesh is None or abstract is None or abstract.size != mesh.size or abstract.shape_tuple == mesh.shape_tuple:
        return mesh
    return Mesh(mesh.devices.reshape(abstract.axis_sizes), abstract.axis_names, abstract.axis_types)


@contextmanager
def within(mesh: Mesh) -> Iterator[None]:
    """Put a mesh of the same devices in force for a block, which may be part of a traced function."""
    before = _swap(mesh=mesh, abstract=None)
    try:
        yield
    finally:
        _swap(mesh=before.mesh, abstract=before.abstract)


class ResourceEnv(NamedTuple):
    """What `with mesh:` sets."""

    physical_mesh: Mesh


class _ThreadResources:
    """By JAX's old name, which libraries still ask for the mesh of `with mesh:`."""

    @property
    def env(self) -> ResourceEnv:
        """What is set in this thread."""
        return ResourceEnv(_in_force().legacy or _EMPTY)


thread_resources = _ThreadResources()


def make_mesh(
    axis_shapes: Sequence[int], axis_names: Sequence[Hashable], axis_types: tuple[AxisType, ...] | None = None, *,
    devices: Sequence[Any] | None = None,
) -> Mesh:  # fmt: skip
    """Return a mesh of this shape on the first devices there are, or on `devices`; its axes are explicit by default.

    Raises `ValueError` when there are too few devices, and for sizes that are no integers.
    """
    available = list(all_devices() if devices is None else devices)
    if not all(isinstance(size, numbers.Integral) for size in axis_shapes):
        raise ValueError(f"`axis_shapes` passed to `make_mesh` should be a sequence of ints. Got {axis_shapes}")
    count = math.prod(axis_shapes)
    if len(available) < count:
        raise ValueError(
            f"Number of devices {len(available)} must be >= the product of mesh_shape {tuple(axis_shapes)}"
        )
    grid = np.empty(count, dtype=object)
    grid[:] = available[:count]
    names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
    types = _axis_types(names, axis_types, AxisType.Explicit)
    return Mesh(grid.reshape(tuple(axis_shapes)), names, types)


# By a device's kind, what lays its devices out: `(shape, devices, contiguous_submeshes=...)` gives an array or None.
device_kind_handler_dict: dict[str, Callable[..., np.ndarray | None]] = {}


def create_device_mesh(
    mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, *, contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> np.ndarray:  # fmt: skip
    """Return an array of devices (all of them by default) for `jax.sharding.Mesh`, in their order.

    CPUs and GPUs have no grid of their own that `contiguous_submeshes` and `allow_split_physical_axes` would be about: the
    order is the same with both. Raises `ValueError` unless the shape has as many places as there are devices.
    """
    given = list(all_devices() if devices is None else devices)
    if math.prod(mesh_shape) != len(given):
        raise ValueError(
            f"Number of devices {len(given)} must equal the product of mesh_shape {tuple(mesh_shape)}; give the devices "
            "to be used, or use jax.make_mesh."
        )
    handler = device_kind_handler_dict.get(given[-1].device_kind) if given else None
    found = None if handler is None else handler(mesh_shape, given, contiguous_submeshes=contiguous_submeshes)
    if found is not None:
        return found
    mesh = np.empty(len(given), dtype=object)
    mesh[:] = given
    return mesh.reshape(tuple(mesh_shape))


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int], dcn_mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, *,
    process_is_granule: bool = False, should_sort_granules_by_key: bool = True, allow_split_physical_axes: bool = False,
) -> np.ndarray:  # fmt: skip
    """Return an array of devices whose groups lie next to each other: `mesh_shape` within a group, `dcn_mesh_shape` of groups.

    Groups are processes with `process_is_granule`, else the slices that devices say they belong to. Raises `ValueError` for
    devices that say none, and for shapes that do not fit.
    """
    given = list(all_devices() if devices is None else devices)
    attribute = "process_index" if process_is_granule else "slice_index"
    if not hasattr(given[0], attribute):
        raise ValueError(f"Device {given[0]} does not have attribute {attribute}. See `process_is_granule` option.")
    groups: dict[Any, list[Any]] = {}
    for device in given:
        groups.setdefault(getattr(device, attribute), []).append(device)
    keys = sorted(groups) if should_sort_granules_by_key else list(groups)
    if math.prod(dcn_mesh_shape) != len(groups):
        raise ValueError(
            f"Number of slices {len(groups)} must equal the product of dcn_mesh_shape {tuple(dcn_mesh_shape)}"
        )
    blocks = np.empty((len(groups), *mesh_shape), dtype=object)
    for i, key in enumerate(keys):
        blocks[i] = create_device_mesh(mesh_shape, groups[key], allow_split_physical_axes=allow_split_physical_axes)
    rank = len(tuple(mesh_shape))
    interleaved = [axis for d in range(rank) for axis in (d, rank + d)]
    shape = [outer * inner for outer, inner in zip(dcn_mesh_shape, mesh_shape, strict=True)]
    return blocks.reshape(*dcn_mesh_shape, *mesh_shape).transpose(interleaved).reshape(shape)
