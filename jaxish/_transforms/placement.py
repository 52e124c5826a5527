"""Where arrays are: moving pytrees to devices and to the host, waiting for them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .._core import config, graph, levels, refs, transfers, tree
from .._core.array import Array, as_array, from_kind, is_abstract, type_text
from .._core.avals import ShapedArray
from .._core.errors import ConcretizationTypeError, tracer_error
from .._core.extended import ExtendedArray
from .._core.memory import Space
from .._core.torch_tensors import from_torch
from .._core.tree_differences import broadcast_prefix
from .._devices import devices, memories, meshes
from .._devices.constraint import (
    check_transfer,
    constrained,
    given,
    in_memory_of,
    is_committed,
    sharding_given,
    sharding_of,
    shards_of,
)
from .._devices.layouts import Format, Layout
from .._devices.made import as_its_tensor
from .._devices.shardings import (
    NamedSharding,
    PartitionSpec,
    Shard,
    Sharding,
    SingleDeviceSharding,
    in_memory,
    resolve,
)
from .flat import wraps


def device_put(
    x: Any, device: Any = None, *, src: Any = None, donate: bool | Any = False, may_alias: bool | None | Any = None
) -> Any:
    """Return the pytree `x` with its leaves as arrays on `device`: a `Device`, a sharding, a `Format`, or a prefix tree of them.

    None leaves arrays where they are; so does a `jax.memory.Space` but for the kind of memory, which types and shardings
    tell: on a CPU all kinds are the same memory. `donate` deletes the arrays given. An array that is on the device already
    is shared, since arrays are immutable, and so is the memory of a torch tensor (`jaxish.from_torch` says what that
    means), unless `may_alias` is False; either may be a prefix tree. `src` is a hint that torch has no use for. Under jit
    it is a constraint, as `with_sharding_constraint`. Raises `ValueError` for shardings that do not fit, and where
    both `donate` and `may_alias` are true, `NotImplementedError` for a layout of a format that is not row by row.
    """
    leaves, spec = tree.flatten(x)
    targets = broadcast_prefix(device, spec, "device_put device", is_leaf=lambda d: d is None)
    places = [_place_of(target, leaf) for target, leaf in zip(targets, leaves, strict=True)]
    with transfers.explicit():
        moved = [_moved(leaf, place) for leaf, place in zip(leaves, places, strict=True)]
    if may_alias is not None or donate is not False:
        moved = _aliased(leaves, moved, spec, donate, may_alias)
    return spec.unflatten(moved)


def _aliased(leaves: Sequence[Any], moved: Sequence[Array], spec: Any, donate: Any, may_alias: Any) -> list[Array]:
    """Copy what may not share memory with the leaf that it was made of, and delete the leaves that are donated."""
    donated = broadcast_prefix(donate, spec, "device_put donate")
    may = broadcast_prefix(may_alias, spec, "device_put may_alias", is_leaf=lambda m: m is None)
    if any(d and m for d, m in zip(donated, may, strict=True)):
        raise ValueError("may_alias and donate cannot be True at the same time.")
    moved = [_copied(new, leaf) if m is False else new for new, leaf, m in zip(moved, leaves, may, strict=True)]
    for leaf, new, is_donated in zip(leaves, moved, donated, strict=True):
        is_concrete = isinstance(leaf, Array) and not levels.is_tracer(leaf._tensor)
        if is_donated and is_concrete and new._tensor is not leaf._tensor:
            leaf.delete()
    return moved


def _copied(new: Array, leaf: Any) -> Array:
    """Return an array that shares no memory with the leaf that it was made of."""
    if levels.is_tracer(new._tensor) or not (new is leaf or isinstance(leaf, torch.Tensor)):
        return new
    copied = from_kind(new._tensor.clone(), new.kind)
    return given(copied, found) if (found := sharding_given(new)) is not None else copied


def _place_of(target: Any, leaf: Any) -> Sharding | Space | None:
    if target is None or isinstance(target, Sharding | Space):
        return target
    if isinstance(target, devices.Device):
        return SingleDeviceSharding(target)
    if isinstance(target, Format):
        return _of_format(target, leaf, "device_put")
    if not isinstance(target, PartitionSpec):
        raise ValueError(
            "`jax.device_put` only accepts `None`, `jax.sharding.Sharding`, `jax.Device`, a `PartitionSpec` or a pytree "
            f"of these values. Received invalid value: {target}"
        )
    if meshes.mesh_in_force() is None:
        raise ValueError("Please set a mesh via `jax.set_mesh` if a PartitionSpec is passed to device_put")
    return resolve(target, "device_put")


def _of_format(target: Format, leaf: Any, function: str) -> Sharding | None:
    """Return the sharding of a format that is given to a leaf. Raises `ValueError` for a layout of another rank."""
    layout = target.layout
    if layout is Layout.AUTO and function == "device_put":
        raise ValueError(
            f"sharding and layout in `Layout` instance should be concrete. Got layout: {target} for input {type_text(leaf)}"
        )
    if not isinstance(layout, Layout):
        return target.sharding
    try:
        layout.check_compatible_aval(np.shape(leaf))
    except ValueError as error:
        raise ValueError(
            f"What is given to {function} is incompatible with its layout annotation {layout}: {error}"
        ) from None
    if not layout.is_in_order:
        raise NotImplementedError(
            f"{layout} is not supported: torch lays arrays out. Transpose the array where its elements' order in memory "
            "matters."
        )
    return target.sharding


def _moved(leaf: Any, place: Sharding | Space | None) -> Array:
    array = from_torch(leaf) if isinstance(leaf, torch.Tensor) else as_array(leaf)
    sharding = _in_space(array, place) if isinstance(place, Space) else place
    if transfers.watching and leaf is array and sharding is not None:
        check_transfer(array, sharding)
    if sharding is None:
        return array if leaf is array else as_its_tensor(array)
    if leaf is array and is_committed(array) and not levels.is_tracer(array._tensor) and sharding_of(array) == sharding:
        return array
    return constrained(array, sharding, "device_put")


def _in_space(array: Array, space: Space) -> Sharding | None:
    """Return how an array lies in a space of memory: as before, and where nothing said how, as it lies by default."""
    kind, now = memories.kind_in(space), sharding_given(array)
    if now is None:
        return None if kind == memories.DEVICE else SingleDeviceSharding(devices.of(array._tensor), memory_kind=kind)
    return in_memory(now, kind)


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """Return the pytree `x` laid over devices as `shardings` says: shardings, partition specs, or a prefix of them.

    Under jit the results that are constrained have these shardings, and each device makes its own part of them.
    Where a mesh is in force whose axes are all explicit it asserts that they lie so already. Raises `ValueError` for
    shardings that do not fit, `RuntimeError` for specs without a mesh in force, `TypeError` for what is no sharding,
    `AssertionError` for arrays that lie otherwise.
    """
    leaves, spec = tree.flatten(x)
    wanted = _prefix(shardings, x, "with_sharding_constraint")
    for sharding in wanted:
        _check_constraint(sharding)
    return spec.unflatten(_with_constraint(as_array(leaf), s) for leaf, s in zip(leaves, wanted, strict=True))


def _check_constraint(sharding: Sharding | None) -> None:
    manual = meshes.get_abstract_mesh().manual_axes
    if sharding is None:
        raise ValueError(
            "One of with_sharding_constraint arguments got sharding None which is not allowed. Please only pass "
            "`jax.sharding.Sharding` instances."
        )
    if isinstance(sharding, NamedSharding) and set(manual) & sharding.split_axes:
        raise ValueError(
            f"pspec {sharding.spec} contains a manual axes {manual} of mesh which is not allowed. If you are using a "
            "with_sharding_constraint under a shard_map, only use the mesh axis in PartitionSpec which are not manual."
        )
    if not isinstance(sharding, NamedSharding) or _is_all_explicit(sharding):
        return
    if set(sharding.mesh.explicit_axes) & sharding.split_axes:
        raise ValueError(
            "The spec of NamedSharding passed to with_sharding_constraint can only refer to Auto axes of the mesh. "
            f"Got spec={sharding.spec} and mesh={sharding.mesh}. You probably meant to use the `reshard` API."
        )


def _with_constraint(array: Array, sharding: Any) -> Array:
    if _is_all_explicit(sharding):
        return _asserted(array, sharding)
    return constrained(array, sharding, "with_sharding_constraint")


def _is_all_explicit(sharding: Any) -> bool:
    """Tell whether a sharding is over the mesh in force, of which types tell all."""
    names = meshes.get_abstract_mesh().explicit_axes
    return bool(names) and isinstance(sharding, NamedSharding) and sharding.mesh.axis_names == names


def _asserted(array: Array, wanted: Any) -> Array:
    own = sharding_given(array)
    found = own.of_rank(array.ndim).spec if isinstance(own, NamedSharding) else PartitionSpec(*[None] * array.ndim)
    if found != (spec := wanted.of_rank(array.ndim).spec):
        raise AssertionError(
            "`with_sharding_constraint` acts as an assert when all axes of mesh are of type `Explicit`. The array "
            f"sharding: {found} did not match the sharding provided: {spec}. Please use `jax.sharding.reshard` to "
            "shard your input to the sharding you want."
        )
    return array


def reshard(xs: Any, out_shardings: Any) -> Any:
    """Return the pytree `xs` laid over explicit axes of a mesh as `out_shardings` says: shardings, specs, or a prefix.

    Raises `ValueError` for axes that are not explicit, None, and specs without a mesh in force.
    """
    leaves, spec = tree.flatten(xs)
    given = broadcast_prefix(out_shardings, spec, "reshard out_shardings", is_leaf=lambda s: s is None)
    pairs = zip(map(as_array, leaves), given, strict=True)
    return spec.unflatten(laid_out(a, explicit_sharding(s, "reshard")) for a, s in pairs)


def laid_out(array: Array, sharding: NamedSharding) -> Array:
    """Return the array with a sharding over explicit axes, whose spec tells of every dimension."""
    return constrained(array, sharding.of_rank(array.ndim), "reshard")


def explicit_sharding(given: Any, function: str) -> NamedSharding:
    """Return the sharding over explicit mesh axes that an `out_sharding` argument means.

    Raises `TypeError` for what is no sharding or spec, `ValueError` for axes that are not explicit and for specs
    without a mesh in force.
    """
    if given is None:
        raise ValueError(f"{function} needs a sharding that is not None and has a mesh.")
    if isinstance(given, PartitionSpec):
        mesh = meshes.mesh_in_force()
        if mesh is None:
            raise ValueError(
                "Using PartitionSpec when you are not under a mesh context is not allowed. Please pass a NamedSharding "
                f"instance or enter into a mesh context via `jax.set_mesh`. Got {given}"
            )
        given = NamedSharding(mesh, given)
    if not isinstance(given, NamedSharding):
        raise TypeError(
            f"`out_sharding` argument of {function} only supports instances of `NamedSharding` or `PartitionSpec`. "
            f"Got {given} of type: {type(given)}"
        )
    for name in given.split_axes - set(given.mesh.explicit_axes):
        raise ValueError(
            f"PartitionSpec passed to {function} cannot contain axis names that are of type Auto or Manual. Got "
            f"PartitionSpec: {given.spec} with axis name: {name}. Make the mesh's axes explicit, or lay the result over "
            "the devices with jax.device_put."
        )
    return given


def canonicalize_sharding(sharding: Any, api_name: str, check_mesh_consistency: bool = True) -> NamedSharding | None:
    """Return the sharding that an argument means, as `explicit_sharding` does; None, or one on no mesh, means none.

    Raises `ValueError`, too, where another mesh is in force and `check_mesh_consistency`, unless axes of both are all auto.
    """
    if sharding is None or (isinstance(sharding, NamedSharding) and sharding.mesh.empty):
        return None
    found, mesh = explicit_sharding(sharding, api_name), meshes.mesh_in_force()
    if mesh is None or not check_mesh_consistency or mesh.abstract_mesh == found.mesh.abstract_mesh:
        return found
    if not (mesh.are_all_axes_auto and found.mesh.are_all_axes_auto):
        raise ValueError(
            f"Context mesh {mesh.abstract_mesh} should match the mesh of sharding {found.mesh.abstract_mesh} passed to {api_name}."
        )
    return found


@dataclass(frozen=True)
class Placement:
    """How arguments and results of a jitted function lie over devices: prefixes of their pytrees; None: as they come.

    With a `device`, or the name of a backend for its first one, all arguments are moved there, and what the function
    makes lies there.
    """

    in_shardings: Any = None
    out_shardings: Any = None
    device: Any = None

    def __post_init__(self) -> None:
        for name in ("in_shardings", "out_shardings"):
            for sharding in tree.flatten(getattr(self, name))[0]:
                if PartitionSpec.UNCONSTRAINED in getattr(sharding, "spec", ()):
                    raise ValueError(f"Unconstrained dims are not allowed when passed to {name}: {sharding}")

    def _found_device(self) -> Any:
        # A backend that is not there is missed by calls only: programs make functions for GPUs beside those for CPUs.
        return devices.devices(self.device)[0] if isinstance(self.device, str) else self.device

    @property
    def given(self) -> bool:
        """Whether something is said about the arguments."""
        return self.in_shardings is not None or self.device is not None

    def of_arguments(self, arrays: Sequence[Array], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Array]:
        """Return the arguments' arrays, laid over devices. Raises `ValueError` for arrays that lie in another way."""
        if self.device is not None:
            there = SingleDeviceSharding(self._found_device())
            return [constrained(a, there, "jit device") for a in arrays]
        if kwargs:
            raise ValueError("pjit does not support kwargs when in_shardings is specified.")
        given = self.in_shardings
        if isinstance(given, list | tuple) and len(given) != len(args):
            raise ValueError(
                "pjit in_shardings specification must be a tree prefix of the positional arguments tuple: a Sharding, a "
                f"PartitionSpec, or a tuple of length {len(args)}, as there are positional arguments; got a tuple or "
                f"list of length {len(given)}."
            )
        wanted = _prefix(tuple(given) if isinstance(given, list) else given, args, "jit in_shardings")
        return [_given_to_jit(a, s) for a, s in zip(arrays, wanted, strict=True)]

    def with_results_placed(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose results are constrained as `out_shardings` says."""
        if self.device is not None:
            device = self._found_device()
            there = Placement(out_shardings=SingleDeviceSharding(device))
            return config.default_device(device)(there.with_results_placed(fun))
        if self.out_shardings is None:
            return fun

        @wraps(fun)
        def placed(*args: Any, **kwargs: Any) -> Any:
            leaves, spec = tree.flatten(result := fun(*args, **kwargs))
            wanted = _prefix(self.out_shardings, result, "jit out_shardings")
            pairs = zip(leaves, wanted, strict=True)
            return spec.unflatten(
                x if s is None else constrained(as_array(x), s, "jit out_shardings") for x, s in pairs
            )

        return placed


def _prefix(given: Any, value: Any, name: str) -> list[Sharding | None]:
    leaves, spec = tree.flatten(value)
    found = broadcast_prefix(given, spec, name, is_leaf=lambda s: s is None)
    pairs = zip(found, leaves, strict=True)
    shardings = (_of_format(s, leaf, name) if isinstance(s, Format) else s for s, leaf in pairs)
    return [s if s is None else resolve(s, name) for s in shardings]


def _given_to_jit(array: Array, sharding: Sharding | None) -> Array:
    if sharding is None:
        return array
    if is_committed(array) and not levels.is_tracer(array._tensor):
        own = sharding_of(array)
        if (wanted := sharding.memory_kind) != own.memory_kind:
            raise ValueError(
                f"Memory kinds passed to jax.jit does not match memory kind on the respective arg. Got jit memory kind: {wanted}, "
                f"arg memory kind: {own.memory_kind} for arg type: {typeof(array).str_short()}. Move the argument by jax.device_put."
            )
        if not own.is_equivalent_to(sharding, array.ndim):
            raise ValueError(
                f"Sharding passed to jit does not match the sharding on the respective arg. Got jit sharding: "
                f"{sharding},\narg sharding: {own} for arg type: {type_text(array)}. "
                "Lay the argument over the devices with jax.device_put, or leave in_shardings out."
            )
        return array
    return constrained(array, in_memory_of(array, sharding), "jit in_shardings")


def device_get(x: Any) -> Any:
    """Return the pytree `x` with its arrays as NumPy arrays; random keys and traced arrays stay as they are."""
    leaves, spec = tree.flatten(x)
    with transfers.explicit():
        return spec.unflatten(np.asarray(x) if _has_numbers(x) else x for x in leaves)


def _has_numbers(leaf: Any) -> bool:
    if not isinstance(leaf, Array) or isinstance(leaf, ExtendedArray):
        return False
    return leaf.is_deleted() or not (is_abstract(leaf) or levels.has_derivative(leaf._tensor))


def block_until_ready(x: Any) -> Any:
    """Wait until the arrays of the pytree `x` are computed, and return it."""
    leaves = [x] if type(x) is Array else tree.leaves(x)
    if any(isinstance(leaf, Array) and leaf._tensor.is_cuda for leaf in leaves):
        torch.cuda.synchronize()
    return x


def copy_to_host_async(x: Any) -> Any:
    """Return the pytree `x`, whose leaves that can begin a copy to the host were asked to; arrays make it when it is used."""
    for leaf in tree.flatten(x)[0]:
        if hasattr(leaf, "copy_to_host_async"):
            leaf.copy_to_host_async()
    return x


def _device(self: Array) -> Any:
    """The device that holds the array, or its sharding where there are several."""
    sharding = sharding_of(self)
    return next(iter(sharding.device_set)) if isinstance(sharding, SingleDeviceSharding) else sharding


def _devices(self: Array) -> set[devices.Device]:
    """Return the devices that hold the array."""
    _check_concrete(self, "The devices() method was called")
    return sharding_of(self).device_set


def _sharding(self: Array) -> Sharding:
    if levels.is_tracer(self._tensor):
        raise AttributeError  # `Array.__getattr__` says why
    return sharding_of(self)


def _format(self: Array) -> Format:
    """How the array lies in memory and over devices: row by row, as far as a program can tell."""
    if levels.is_tracer(self._tensor):
        raise AttributeError  # `Array.__getattr__` says why
    return Format.in_order(self.ndim, sharding_of(self))


def _addressable_shards(self: Array) -> list[Shard]:
    _check_concrete(self, "The 'addressable_shards' attribute is not available")
    return shards_of(self)


def _check_concrete(array: Array, what: str) -> None:
    if is_abstract(array):
        text = type_text(array)
        detail = f"{what} on traced array with shape {text}."
        raise tracer_error(ConcretizationTypeError, text, detail, graph.origin(array._tensor))


def _platform(self: Array) -> str:
    """Return `cpu` or `gpu`."""
    return devices.of(self._tensor).platform


def _to_device(self: Array, device: Any, *, stream: Any = None) -> Array:
    """Return the array on another device. Raises `NotImplementedError` for a stream."""
    if stream is not None:
        raise NotImplementedError("to_device(stream=...) is not supported; leave it out: torch orders copies itself.")
    return device_put(self, device)


def _addressable_data(self: Array, index: int) -> Array:
    """Return the data of one of this process's devices. Raises `IndexError` for an index beyond them."""
    data = shards_of(self)[index].data
    assert data is not None
    return data


def typeof(x: Any) -> Any:
    """Return the abstract value of an array, a scalar, a reference or a value of a registered class.

    That of an array tells how it lies over the explicit axes of a mesh, and in which memory, inside a traced function, too.
    """
    found = refs.typeof(x)
    sharding = sharding_given(x) if isinstance(x, Array) else None
    if sharding is None or not isinstance(found, ShapedArray):
        return found
    if (space := memories.space_of(sharding.memory_kind)) is not Space.Device and not isinstance(x, ExtendedArray):
        found = found.update(memory_space=space)
    if not isinstance(sharding, NamedSharding):
        return found
    in_force, own = meshes.get_abstract_mesh(), sharding.mesh.abstract_mesh
    mesh = in_force if in_force.shape_tuple == own.shape_tuple else own  # which may say other types of the axes
    spec, manual = sharding.spec, frozenset(mesh.manual_axes)
    sums, same = spec.unreduced & manual, spec.reduced & manual
    if sums or same:  # of axes that the program goes through itself
        varying = found.mat.varying
        found = found.update(manual_axis_type=found.mat.update(unreduced=sums - varying, reduced=same - varying))
        spec = spec.update(unreduced=spec.unreduced - manual, reduced=spec.reduced - manual)
    return found.update(sharding=NamedSharding(mesh, spec))


def _aval(self: Array) -> ShapedArray:
    """The array's type."""
    return typeof(self)


# Where an array is belongs to the array in JAX, and to the floor above `_core` here.
_ATTRIBUTES: dict[str, Any] = {
    "device": property(_device),
    "devices": _devices,
    "platform": _platform,
    "to_device": _to_device,
    "sharding": property(_sharding, doc="How the array lies over devices."),
    "format": property(_format),
    "addressable_shards": property(_addressable_shards, doc="The parts of the array on this process's devices."),
    "global_shards": property(lambda self: shards_of(self, everywhere=True), doc="The parts on all devices."),
    "addressable_data": _addressable_data,
    "aval": property(_aval),
    "committed": property(is_committed, doc="Whether the program said where the array is."),
    "is_fully_addressable": property(
        lambda self: sharding_of(self).is_fully_addressable, doc="Whether this process has all of the array."
    ),
    "is_fully_replicated": property(
        lambda self: sharding_of(self).is_fully_replicated, doc="Whether every device of the array has all of it."
    ),
}
for _name, _attribute in _ATTRIBUTES.items():
    setattr(Array, _name, _attribute)
