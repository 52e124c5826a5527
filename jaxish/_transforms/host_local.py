"""Between what each process has and arrays over all processes: names of `jax.experimental.multihost_utils`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._core import tree
from .._core.array import Array
from .._core.avals import ShapedArray, aval_of
from .._core.tree_differences import broadcast_prefix
from .._devices import devices, processes
from .._devices.meshes import Mesh
from .._devices.shardings import NamedSharding, PartitionSpec
from .assembly import make_array_from_process_local_data
from .placement import device_put


class ProcessFailureError(RuntimeError):
    """Raised in `live_devices` where a process has failed."""

    def __init__(self, failed_devices: set[Any]) -> None:
        super().__init__(f"Processes failed, with the devices {failed_devices}")
        self.failed_devices = failed_devices


@contextmanager
def live_devices(devices: Sequence[Any]) -> Iterator[list[Any]]:
    """Give the devices whose processes live: in a program of one process, all of them."""
    if processes.are_several():
        raise NotImplementedError("Processes that fail are not watched: torchrun ends them all, and starts them again.")
    yield list(devices)


def reached_preemption_sync_point(step_id: int) -> bool:
    """Tell whether all processes are to save now, since one is about to be stopped: never in a program of one process."""
    if processes.are_several():
        raise NotImplementedError("Notices of preemption are not passed on; save every so many steps.")
    return False


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Return the pytree of what this process has as arrays over the mesh, laid out as `pspecs` says, a prefix of specs.

    Along axes between processes an array has what all of them have. Raises `ValueError` for specs that are None.
    """
    return _by_spec(host_local_array_to_global_array_impl, local_inputs, global_mesh, pspecs)


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Return the pytree of arrays over the mesh as what this process has of them: the other direction.

    Raises `ValueError` for specs that are None.
    """
    return _by_spec(global_array_to_host_local_array_impl, global_inputs, global_mesh, pspecs)


def _by_spec(convert: Any, values: Any, mesh: Mesh, pspecs: Any) -> Any:
    leaves, structure = tree.flatten(values)
    specs = broadcast_prefix(pspecs, structure, "pspecs", is_leaf=lambda s: s is None)
    if any(s is None for s in specs):
        raise ValueError(
            "`None` is not a valid input to the pspecs argument. Please use jax.sharding.PartitionSpec() if you wanted to "
            "replicate your input."
        )
    pairs = zip(leaves, specs, strict=True)
    return structure.unflatten(convert(leaf, global_mesh=mesh, pspec=spec) for leaf, spec in pairs)


def host_local_array_to_global_array_impl(arr: Any, *, global_mesh: Mesh, pspec: PartitionSpec) -> Array:
    """Return one array over the mesh."""
    sharding = NamedSharding(global_mesh, pspec)
    if isinstance(arr, Array) and not processes.are_several():
        return device_put(arr, sharding)
    return make_array_from_process_local_data(sharding, arr)


def global_array_to_host_local_array_impl(arr: Any, *, global_mesh: Mesh, pspec: PartitionSpec) -> Array:
    """Return what this process has of one array."""
    if not processes.are_several():
        return device_put(arr, NamedSharding(global_mesh, pspec))
    whole = device_put(arr, NamedSharding(global_mesh, pspec))
    return device_put(np.asarray(whole.addressable_shards[0].data), devices.local_devices()[0])


def ltg_abstract_eval(arr: Any, *, global_mesh: Mesh, pspec: PartitionSpec) -> ShapedArray:
    """Return the type of the array over the mesh that `host_local_array_to_global_array` makes."""
    aval, counts = aval_of(arr), _counts(arr, global_mesh, pspec)
    return aval.update(shape=tuple(n * c for n, c in zip(aval.shape, counts, strict=True)))


def gtl_abstract_eval(arr: Any, *, global_mesh: Mesh, pspec: PartitionSpec) -> ShapedArray:
    """Return the type of what a process has of the array."""
    aval, counts = aval_of(arr), _counts(arr, global_mesh, pspec)
    return aval.update(shape=tuple(n // c for n, c in zip(aval.shape, counts, strict=True)))


def ltg_batcher(
    insert_axis: Any, axis_data: Any, vals_in: Sequence[Any], dims_in: Sequence[int | None], global_mesh: Mesh,
    pspec: PartitionSpec,
) -> tuple[Array, int | None]:  # fmt: skip
    """Return `host_local_array_to_global_array_impl` of a batch, and where the batch's dimension is.

    It lies along the mesh axes `axis_data.spmd_name`.
    """
    (value,), (dim,) = vals_in, dims_in
    parts = list(pspec)
    if dim is not None:
        parts.insert(dim, axis_data.spmd_name)
    return host_local_array_to_global_array_impl(value, global_mesh=global_mesh, pspec=PartitionSpec(*parts)), dim


def _counts(arr: Any, mesh: Mesh, pspec: PartitionSpec) -> Sequence[int]:
    """Return how many processes' parts each dimension has."""
    rank = len(aval_of(arr).shape)
    return NamedSharding(mesh, pspec).parts(rank) if processes.are_several() else (1,) * rank
