"""Whole arrays made of parts: from callbacks, from arrays on single devices, and from what each process has."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import dtypes, tree
from .._core.array import Array, as_array, from_kind, is_abstract, tensor_of, type_text
from .._core.dimensions import canonical_shape
from .._core.errors import UnexpectedTracerError
from .._core.tree_differences import broadcast_prefix
from .._devices import devices, processes
from .._devices.constraint import constrained, sharding_of
from .._devices.shardings import Index, PartitionSpec, Sharding, SingleDeviceSharding, resolve


def make_array_from_callback(
    shape: Any, sharding: Sharding | PartitionSpec, data_callback: Callable[[Index], Any], dtype: Any = None
) -> Array:
    """Return an array of this shape over devices, whose part with index i (a tuple of slices) is `data_callback(i)`.

    Each process asks for its own parts, each part once. Raises `ValueError` for parts of another shape,
    `UnexpectedTracerError` for parts that are traced.
    """
    sharding, sizes = _sharding(sharding, "make_array_from_callback"), canonical_shape(shape)
    indices = sharding.addressable_devices_indices_map(sizes)
    made: dict[Any, Array] = {}
    for index in indices.values():
        place = tuple((s.start, s.stop) for s in index)
        if place not in made:
            made[place] = as_array(data_callback(index))
            if is_abstract(made[place]):
                raise UnexpectedTracerError(
                    "jax.make_array_from_callback cannot be called within a traced context: its parts need values. Use "
                    "jax.device_put or jax.lax.with_sharding_constraint there."
                )
    parts = {d: made[tuple((s.start, s.stop) for s in index)] for d, index in indices.items()}
    return _assembled(sizes, sharding, parts, dtype)


def make_array_from_single_device_arrays(
    shape: Any, sharding: Sharding, arrays: Sequence[Array], *, dtype: Any = None
) -> Array:
    """Return the array of this shape whose parts are `arrays`, one on each device of this process.

    Raises `ValueError` unless there is one array per device, each of the part's shape, `TypeError` for what is no
    sequence of arrays.
    """
    if not isinstance(arrays, Sequence):
        raise TypeError(
            f"jax.make_array_from_single_device_arrays `arrays` argument must be a list or tuple, got {arrays}."
        )
    sizes = canonical_shape(shape)
    own = sharding.addressable_devices
    if len(arrays) != len(own):
        raise ValueError(
            f"Expected {len(own)} per-device arrays (this is how many devices are addressable by the sharding), but got "
            f"{len(arrays)}"
        )
    parts = {next(iter(sharding_of(a).device_set)): a for a in arrays}
    if len(parts) != len(arrays):
        ids = [next(iter(sharding_of(a).device_set)).id for a in arrays]
        raise ValueError(
            "When making an array from single-device arrays, the input arrays must be from distinct devices, but got "
            f"device IDs {ids}"
        )
    if set(parts) != own:
        raise ValueError(
            "Addressable devices and per-device arrays devices do not match. Sharding contains devices "
            f"{own - set(parts)} that are not present in per-device arrays. Per-device arrays contain devices "
            f"{set(parts) - own} that are not present in the sharding."
        )
    return _assembled(sizes, sharding, parts, dtype)


def make_array_from_process_local_data(sharding: Any, local_data: Any, global_shape: Any = None) -> Any:
    """Return the pytree of arrays over devices of which the leaves of `local_data` are what this process has.

    `sharding` is one for all of them, or a prefix of the pytree. `global_shape`, a shape or a pytree of them, is found by the sharding where it is not given: dimensions that are split
    between processes count as many times. Raises `ValueError` for data of another shape.
    """
    leaves, spec = tree.flatten(local_data)
    given = broadcast_prefix(sharding, spec, "sharding")
    laid = [_sharding(s, "make_array_from_process_local_data") for s in given]
    shapes = broadcast_prefix(global_shape, spec, "global_shape", lambda x: x is None or isinstance(x, tuple))
    return spec.unflatten(map(_of_local_data, laid, leaves, shapes))


def _sharding(given: Any, function: str) -> Sharding:
    return SingleDeviceSharding(given) if isinstance(given, devices.Device) else resolve(given, function)


def _of_local_data(sharding: Sharding, local_data: Any, global_shape: Any) -> Array:
    local = np.asarray(local_data)
    if not processes.are_several():
        if global_shape is not None and tuple(global_shape) != local.shape:
            raise ValueError(
                "When calling `make_array_from_process_local_data` on a single process, global_shape should be None or "
                f"equal to local_data.shape. Got global_shape={global_shape} and local_data.shape={local.shape}."
            )
        return make_array_from_callback(local.shape, sharding, lambda index: local[index])
    if global_shape is None:
        counts = sharding.parts(local.ndim)  # pyright: ignore
        global_shape = tuple(n * c for n, c in zip(local.shape, counts, strict=True))
    sizes = tuple(global_shape)
    if local.shape == sharding.shard_shape(sizes):
        return make_array_from_callback(sizes, sharding, lambda index: local)
    if local.shape == sizes:
        return make_array_from_callback(sizes, sharding, lambda index: local[index])
    raise ValueError(
        f"local_data of shape {local.shape} is neither this process's part, {sharding.shard_shape(sizes)}, nor the whole "
        f"of an array of shape {sizes}."
    )


def _assembled(shape: tuple[int, ...], sharding: Sharding, parts: dict[devices.Device, Array], dtype: Any) -> Array:
    wanted = sharding.shard_shape(shape)
    if not parts:
        raise ValueError("this process has no device of the sharding; it cannot make a part of the array.")
    for part in parts.values():
        if part.shape != wanted:
            raise ValueError(
                f"Expected shard shape {wanted} doesn't match the single device array shape {part.shape}. Shape of Array "
                f"is {part.dtype}{list(shape)} with sharding {sharding}"
            )
    first = next(iter(parts.values()))
    kinds = {type_text(p) for p in parts.values()}
    if len(kinds) > 1 or (dtype is not None and dtypes.canonicalize_dtype(dtype, True) != first.dtype):
        raise ValueError(
            f"the parts of an array have one dtype{'' if dtype is None else f', here {dtype}'}; got {', '.join(kinds)}."
        )
    words = tensor_of(first).shape[first.ndim :]  # of keys
    if processes.are_several():
        whole = processes.from_part(tensor_of(first), sharding, (*shape, *words))
        return constrained(from_kind(whole, first.kind), sharding, "make_array")
    whole = _together((*shape, *words), sharding.devices_indices_map(shape), parts, tensor_of(first))
    return constrained(from_kind(whole, first.kind), sharding, "make_array")


def _together(shape: tuple[int, ...], indices: Any, parts: dict[devices.Device, Array], like: Tensor) -> Tensor:
    whole = torch.empty(shape, dtype=like.dtype, device=like.device)
    for device, part in parts.items():
        whole[indices[device]] = tensor_of(part)
    return whole


# ----------------------------------------------------------------------------- jax.experimental.multihost_utils


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """Return the pytree `in_tree` with what all processes have, as NumPy arrays.

    Of an array over the processes that is its whole value; of other values a leading dimension counts the processes, or
    with `tiled` they are put together along the first one.
    """
    import torch.distributed as dist

    def gathered(x: Any) -> np.ndarray:
        array = as_array(x)
        tensor = tensor_of(array)
        if processes.is_distributed(tensor):
            return np.asarray(from_kind(processes.replicated(tensor), array.kind))
        if not processes.are_several():
            return np.asarray(array) if tiled else np.asarray(array)[None]
        each = [torch.empty_like(tensor) for _ in range(devices.process_count())]
        dist.all_gather(each, tensor.contiguous())
        return np.asarray(Array(torch.cat(each) if tiled else torch.stack(each)))

    leaves, spec = tree.flatten(in_tree)
    return spec.unflatten(map(gathered, leaves))


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """Return the pytree `in_tree` with the values of one process, as NumPy arrays: of the one with `is_source`, or the first."""
    own = devices.process_index() == 0 if is_source is None else is_source
    sources = process_allgather(np.bool_(own))
    if np.count_nonzero(sources) != 1:
        raise ValueError(f"broadcast_one_to_all needs one process with is_source, got {np.count_nonzero(sources)}.")
    leaves, spec = tree.flatten(process_allgather(in_tree))
    return spec.unflatten(leaf[int(np.argmax(sources))] for leaf in leaves)


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Raise `AssertionError` unless the pytree `in_tree` has the same values in all processes."""
    for leaf in tree.flatten(process_allgather(in_tree))[0]:
        if not (leaf == leaf[:1]).all():
            raise AssertionError(f"{fail_message} Expected equal values in all processes, got {leaf}.")


def sync_global_devices(name: str) -> None:
    """Wait until all processes have come here. `name` says where, for a reader."""
    import torch.distributed as dist

    if processes.are_several():
        dist.barrier()
