"""Collectives over named axes (`vmap(axis_name=...)`): sums, extrema, permutations, gathers and exchanges of lanes.

`axis_name` is a name or a tuple of names; an operand may be a pytree. With `axis_index_groups` (lists that cover all
lane indices once) the lanes of each group act among themselves. The primitives are in `collectives`.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import axes, graph, tree
from .._core.array import Array, as_array, default_torch_device, from_kind, tensor_of
from .._core.dimensions import canonical_axis
from .._core.operations import shown_as
from .._core.promotion import convert
from .._core.varying import AxisIndex, Vary
from .._devices.constraint import sums_of, with_sums
from .collectives import (
    AllGather,
    AllToAll,
    Groups,
    PMax,
    PMin,
    PPermute,
    PSum,
    PSumScatter,
    VaryingAllGather,
    group_size,
)
from .operands import array_of
from .reductions import reduce_max, reduce_min, reduce_sum


def _names(axis_name: Any) -> tuple[Any, ...]:
    return tuple(axis_name) if isinstance(axis_name, tuple | list) else (axis_name,)


def _on_leaves(function: Callable[[Any], Any], x: Any) -> Any:
    leaves, spec = tree.flatten(x)
    return spec.unflatten([function(leaf) for leaf in leaves])


def _groups(axis_index_groups: Any, names: Sequence[Hashable]) -> Groups | None:
    if axis_index_groups is None:
        return None
    groups = tuple(map(tuple, axis_index_groups))
    if any(isinstance(name, int) for name in names):
        raise ValueError("axis_index_groups only supported for sums over just named axes")
    if sorted(i for group in groups for i in group) != list(range(sum(map(len, groups)))):
        raise ValueError("axis_index_groups must cover all indices exactly once")
    if len(names) > 1:
        raise NotImplementedError(
            f"axis_index_groups over several axes {names} is not supported; make the groups an axis of their own by "
            "nesting vmaps, and name that."
        )
    return groups


def _equal_groups(axis_index_groups: Any, names: Sequence[Hashable]) -> Groups | None:
    groups = _groups(axis_index_groups, names)
    if groups is not None and len({len(g) for g in groups}) > 1:
        raise ValueError(f"axis_index_groups must all be the same size here, got {groups}")
    return groups


def _lane(name: Hashable) -> Tensor:
    axes.axis_size(name, "axis_index")  # which is bound
    return AxisIndex(name, default_torch_device())()[0]


# -------------------------------------------------------------------------------------------------------- reductions


def psum(x: Any, axis_name: Any, *, axis_index_groups: Sequence[Sequence[int]] | None = None) -> Any:
    """Return the sum of `x` over the lanes of the named axes, the same for each of them; bools count as int32.

    Integers among the names are dimensions of `x`. A Python or NumPy value gives its multiple by the number of lanes,
    without a computation: `psum(1, name)` is the size of the axis as a Python integer.
    Raises `NameError` for a name that is not bound.
    """
    names = _names(axis_name)
    if not names:
        return x
    groups = _groups(axis_index_groups, names)
    named, positions = _partition(names)
    count = len(groups[0]) if groups is not None else math.prod(_sizes("psum", named))

    def total(leaf: Any) -> Any:
        if not positions and isinstance(leaf, bool | int | float | complex | np.ndarray | np.generic):
            return _multiple(leaf, count)
        array = array_of("psum", leaf)
        if array.dtype == np.bool_:
            array = Array(convert(tensor_of(array), torch.int32))
        if positions:
            array = reduce_sum(array, [canonical_axis(p, array.ndim) for p in positions])
        return _reduced(PSum, array, named, groups)

    return _on_leaves(total, x)


def _multiple(leaf: Any, count: int) -> Any:
    if isinstance(leaf, bool):
        return Array(torch.full((), leaf * count, dtype=torch.int32, device=default_torch_device()))
    if isinstance(leaf, int | float | complex) and not isinstance(leaf, np.generic):
        return type(leaf)(count) * leaf
    leaf = np.asarray(leaf) if leaf.dtype != np.bool_ else np.asarray(leaf, np.int32)
    return np.asarray(count, leaf.dtype) * leaf


def _sizes(function: str, names: Sequence[Hashable]) -> list[int]:
    return [axes.axis_size(name, function) for name in names]


def _partition(names: Sequence[Any]) -> tuple[list[Hashable], list[int]]:
    return [n for n in names if not isinstance(n, int)], [n for n in names if isinstance(n, int)]


def _reduced(kind: Any, array: Array, named: Sequence[Hashable], groups: Groups | None) -> Array:
    tensor = tensor_of(array)
    for name in named:
        if kind is PSum and name in sums_of(tensor)[0]:  # the sum that is left to be made
            tensor = _typed(tensor, [name], None)
            continue
        (tensor,) = kind(name, axes.axis_size(name, kind.__name__), groups)(tensor)
    return Array(tensor, array.weak_type)


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Sequence[Sequence[int]] | None = None) -> Any:
    """Return the mean of `x` over the lanes of the named axes, the same for each of them. As for `psum` otherwise."""
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    count = psum(1, axis_name, axis_index_groups=axis_index_groups)
    return _on_leaves(lambda leaf: leaf / count, total)


def pmax(x: Any, axis_name: Any, *, axis_index_groups: Sequence[Sequence[int]] | None = None) -> Any:
    """Return the greatest of `x` over the lanes of the named axes. Integers among the names are dimensions of `x`.

    It has no derivative rule at the level of the axis, as in JAX. Raises `NameError` for a name that is not bound.
    """
    return _extremum("pmax", PMax, reduce_max, x, axis_name, axis_index_groups)


def pmin(x: Any, axis_name: Any, *, axis_index_groups: Sequence[Sequence[int]] | None = None) -> Any:
    """Return the least of `x` over the lanes of the named axes. As for `pmax` otherwise."""
    return _extremum("pmin", PMin, reduce_min, x, axis_name, axis_index_groups)


def _extremum(function: str, kind: Any, reduce: Any, x: Any, axis_name: Any, axis_index_groups: Any) -> Any:
    names = _names(axis_name)
    groups = _groups(axis_index_groups, names)
    named, positions = _partition(names)

    def greatest(leaf: Any) -> Array:
        array = array_of(function, leaf)
        if positions:
            array = reduce(array, [canonical_axis(p, array.ndim) for p in positions])
        return _reduced(kind, array, named, groups)

    return _on_leaves(greatest, x)


# ------------------------------------------------------------------------------------------------------- permutations


def ppermute(x: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Return the operand of another lane: `perm` has pairs (source, destination); lanes without a source get zeros.

    The lanes of several axes count as of one, the outermost axis's slowest. Raises `ValueError` when a source or a
    destination comes twice or is out of range.
    """
    bound = [name for name, *_ in axes.environment()]
    names = tuple(sorted(_names(axis_name), key=lambda name: bound.index(name) if name in bound else -1))
    name, size = names[0] if len(names) == 1 else names, math.prod(_sizes("ppermute", names))
    sources: list[int | None] = [None] * size
    pairs = [(int(s), int(d)) for s, d in perm]
    for source, destination in pairs:
        if not (0 <= source < size and 0 <= destination < size):
            raise ValueError(f"ppermute: {(source, destination)} is out of range for the axis {name!r} of size {size}")
        if sources[destination] is not None or sources.count(source):
            raise ValueError(f"ppermute sources and destinations must be unique, got {perm}.")
        sources[destination] = source
    permute = PPermute(name, size, tuple(sources))

    def permuted(leaf: Any) -> Array:
        array = array_of("ppermute", leaf)
        if len(names) > 1:
            return Array(_from_lanes(tensor_of(array), names, sources), array.weak_type)
        return Array(_permuted(tensor_of(array), permute, tuple(pairs)), array.weak_type)

    return _on_leaves(permuted, x)


def _from_lanes(t: Tensor, names: tuple[Any, ...], sources: Sequence[int | None]) -> Tensor:
    """Return the operand of another lane along several axes: of all operands, the one that each lane takes."""
    taken = torch.tensor([len(sources) if s is None else s for s in sources], device=t.device)
    index = taken[axis_index(names)._tensor.reshape(1).to(torch.int64)]
    operands = _gathered(t, names, 0, None, False, "varying")
    return torch.cat([operands, torch.zeros_like(operands[:1])]).index_select(0, index).squeeze(0)


@shown_as("ppermute", lambda t, permute, pairs: {"axis_name": (permute.axis,), "perm": pairs})
def _permuted(t: Tensor, permute: PPermute, _: Any) -> Tensor:
    return permute(t, _lane(permute.axis))[0]


def _single(function: str, axis_name: Any) -> tuple[Hashable]:
    names = _names(axis_name)
    if len(names) != 1:
        raise NotImplementedError(f"{function} over several axes {names} is not supported; name one axis at a time.")
    return names  # pyright: ignore


def pshuffle(x: Any, axis_name: Any, perm: Sequence[int]) -> Any:
    """Return for lane i the operand of lane `perm[i]`. Raises `ValueError` when `perm` is no permutation."""
    if sorted(perm) != list(range(len(perm))):
        raise ValueError(f"`perm` does not represent a permutation: {perm}")
    return ppermute(x, axis_name, list(zip(perm, range(len(perm)), strict=True)))


def pbroadcast(x: Any, axis_name: Any, source: int) -> Any:
    """Return the operand of lane `source` on every lane. Raises `ValueError` when there is no such lane."""
    (name,) = _single("pbroadcast", axis_name)
    size = axes.axis_size(name, "pbroadcast")
    if not 0 <= source < size:
        raise ValueError(f"pbroadcast: source {source} is out of range for the axis {name!r} of size {size}")

    def broadcast(leaf: Any) -> Array:
        array = array_of("pbroadcast", leaf)
        return Array(
            _gather(name, "varying")(name, size)(tensor_of(array), _lane(name))[0].select(0, source), array.weak_type
        )

    return _on_leaves(broadcast, x)


# ----------------------------------------------------------------------------------------------- gathers and exchanges


def all_gather(
    x: Any,
    axis_name: Any,
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> Any:
    """Return the operands of all lanes: stacked along a new dimension `axis`, or concatenated along it if `tiled`.

    `to` says how the result's type varies in `shard_map` ("varying", "invarying" or "reduced"), which its derivative
    depends on.
    """
    if to not in ("varying", "invarying", "reduced"):
        raise ValueError(
            "Got unexpected `to` value for `jax.lax.all_gather`. Allowed `to` values are: varying, invarying, reduced"
        )
    names = _names(axis_name)
    groups = _equal_groups(axis_index_groups, names)

    def gathered(leaf: Any) -> Array:
        array = array_of("all_gather", leaf)
        dim = canonical_axis(axis, array.ndim + (not tiled))
        tensor = _gathered(tensor_of(array), names, dim, groups, bool(tiled), to)
        return Array(_typed(tensor, names, "reduced") if to == "reduced" else tensor, array.weak_type)

    return _on_leaves(gathered, x)


@shown_as(
    "all_gather",
    lambda t, names, dim, groups, tiled, to: {
        "axis_name": names, "all_gather_dimension": dim, "axis_index_groups": groups, "axis_size": axis_size(names),
        "tiled": tiled,
    },
)  # fmt: skip
def _gathered(t: Tensor, names: tuple[Any, ...], dim: int, groups: Groups | None, tiled: bool, to: str) -> Tensor:
    rank = t.dim()
    for name in reversed(names):
        (t,) = _gather(name, to)(name, axes.axis_size(name, "all_gather"), groups)(t, _lane(name))
    leading = t.dim() - rank
    # The lanes of several axes count as of one, the first name's slowest.
    t = t.flatten(0, leading - 1).movedim(0, dim) if leading else t
    return t.flatten(dim, dim + 1) if tiled and leading else t


def _gather(name: Hashable, to: str) -> type[AllGather]:
    return VaryingAllGather if to == "varying" and axes.is_checked(name) else AllGather


def psum_scatter(
    x: Any,
    axis_name: Any,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    tiled: bool = False,
) -> Any:
    """Return for lane i the slice i along `scatter_dimension` of the sum over all lanes.

    The dimension must have the axis's size and goes away; if `tiled`, its size is a multiple, and blocks are scattered.
    Raises `ValueError` when sizes do not fit.
    """
    names = _names(axis_name)
    groups = _equal_groups(axis_index_groups, names)
    sizes = _sizes("reduce_scatter", names)
    count = math.prod(group_size(s, groups) for s in sizes)

    def scattered(leaf: Any) -> Array:
        array = array_of("psum_scatter", leaf)
        tensor = _as_summands(tensor_of(array), names)
        dim = canonical_axis(scatter_dimension, tensor.dim())
        given = tensor.shape[dim]
        if tiled and given % count:
            raise ValueError(
                f"tiled reduce_scatter operand scatter dimension size {given} must be divisible by shard_count {count}"
            )
        if not tiled and given != count:
            raise ValueError(f"reduce_scatter operand scatter dimension size {given} must match shard count {count}")
        return Array(_scattered(tensor, names, dim, groups, bool(tiled)), array.weak_type)

    return _on_leaves(scattered, x)


@shown_as(
    "reduce_scatter",
    lambda t, names, dim, groups, tiled: {
        "axis_name": names, "scatter_dimension": dim, "axis_index_groups": groups, "axis_size": axis_size(names),
        "tiled": tiled,
    },
)  # fmt: skip
def _scattered(t: Tensor, names: tuple[Any, ...], dim: int, groups: Groups | None, tiled: bool) -> Tensor:
    blocks, sizes = _blocks(t, names, dim, groups, tiled)
    for name, size in zip(names, sizes, strict=True):
        (blocks,) = PSumScatter(name, size, groups)(blocks, _lane(name))
    return blocks


def _blocks(
    t: Tensor, names: tuple[Any, ...], dim: int, groups: Groups | None, tiled: bool
) -> tuple[Tensor, list[int]]:
    """Return an operand with the slices, or blocks, of a dimension in front, one dimension for each name; and the sizes."""
    sizes = [axes.axis_size(name) for name in names]
    count = math.prod(group_size(s, groups) for s in sizes)
    t = (t.unflatten(dim, (count, t.shape[dim] // count)) if tiled else t).movedim(dim, 0)
    return t.unflatten(0, sizes) if len(names) > 1 else t, sizes


def all_to_all(
    x: Any,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    tiled: bool = False,
) -> Any:
    """Return for lane i slice i along `split_axis` of every lane's operand, stacked along `concat_axis`.

    The split dimension must have the axis's size and goes away; if `tiled`, it is cut into blocks, and these are
    concatenated. Raises `ValueError` when sizes do not fit.
    """
    names = _names(axis_name)
    groups = _equal_groups(axis_index_groups, names)
    sizes = _sizes("all_to_all", names)
    count = math.prod(group_size(s, groups) for s in sizes)

    def exchanged(leaf: Any) -> Array:
        array = array_of("all_to_all", leaf)
        tensor = tensor_of(array)
        split = canonical_axis(split_axis, tensor.dim())
        concat = canonical_axis(concat_axis, tensor.dim())
        given = tensor.shape[split]
        if tiled and given % count:
            raise ValueError(
                f"The size of all_to_all split_axis ({given}) has to be divisible by the size of the named axis "
                f"{axis_name} ({count})"
            )
        if not tiled and given != count:
            raise ValueError(
                "all_to_all requires the size of the mapped axis axis_name to equal x.shape[split_axis], but they are "
                f"{count} and {given} respectively."
            )
        return Array(_exchanged(tensor, axis_name, split, concat, groups, bool(tiled)), array.weak_type)

    return _on_leaves(exchanged, x)


@shown_as(
    "all_to_all",
    lambda t, axis_name, split, concat, groups, tiled: {
        "axis_name": axis_name, "split_axis": split, "concat_axis": concat, "axis_index_groups": groups, "tiled": tiled
    },
)  # fmt: skip
def _exchanged(t: Tensor, axis_name: Any, split: int, concat: int, groups: Groups | None, tiled: bool) -> Tensor:
    names = _names(axis_name)
    slices, sizes = _blocks(t, names, split, groups, tiled)
    for position, (name, size) in enumerate(zip(names, sizes, strict=True)):
        (swapped,) = AllToAll(name, size, groups)(slices.movedim(position, 0), _lane(name))
        slices = swapped.movedim(0, position)
    if len(names) > 1:
        slices = slices.flatten(0, len(names) - 1)
    slices = slices.movedim(0, concat)
    return slices.flatten(concat, concat + 1) if tiled else slices


def pswapaxes(x: Any, axis_name: Any, axis: int, *, axis_index_groups: Sequence[Sequence[int]] | None = None) -> Any:
    """Return `x` with the lanes of the named axis and the dimension `axis`, of the same size, exchanged."""
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


# ---------------------------------------------------------------------------------------------------------- the axes


def axis_index(axis_name: Any) -> Array:
    """Return the index of the lane along the named axis, an int32 scalar; for a tuple, the first name counts slowest.

    Raises `NameError` for a name that is not bound.
    """
    names = _names(axis_name)
    index = torch.zeros((), dtype=torch.int32, device=default_torch_device()) if len(names) != 1 else None
    for name in names:
        lane = _lane(name)
        index = lane if index is None else index * axes.axis_size(name) + lane
    assert index is not None
    return Array(index)


def axis_size(axis_name: Any) -> int:
    """Return the number of lanes of the named axis, for a tuple the product, as a Python integer.

    Raises `NameError` for a name that is not bound.
    """
    return math.prod(map(axes.axis_size, _names(axis_name)))


def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """Return `x` as a value whose type says that it varies along named axes of `shard_map`, or is reduced or unreduced there.

    The cotangent of what is reduced is an unreduced sum over the axes; what varies becomes the sum that is unreduced.
    Raises `ValueError` for another `to` and outside of shard_map, `NameError` there under jit.
    """
    if isinstance(axis_name, set | frozenset):
        raise TypeError(f"axis_name must be a tuple or a str. Got {axis_name}")
    if not axis_name:
        return x
    if to not in ("unreduced", "reduced", "varying"):
        raise ValueError(f"Got unexpected `to` value {to!r}. Allowed `to` values are: unreduced, reduced, varying")
    if not axes.environment() and not graph.is_tracing():
        raise ValueError("pcast should be called under jax.shard_map.")
    sizes = [(name, axes.axis_size(name)) for name in _names(axis_name)]

    def cast(leaf: Any) -> Any:
        array = as_array(leaf)  # keys, too
        tensor, names = tensor_of(array), [name for name, _ in sizes]
        if to != "varying":
            for name, size in sizes if to == "unreduced" else ():
                if name not in axes.varying(tensor):
                    raise ValueError(f"Unsupported pcast from=invarying, {to=}")
                (tensor,) = PSum(name, size, None)(tensor)
            return from_kind(_typed(tensor, names, to), array.kind)
        if sums_of(tensor)[1] & set(names):
            tensor = _typed(tensor, names, None)
        for name, size in sizes:
            if axes.is_checked(name):
                (tensor,) = Vary(name, size)(tensor, _lane(name))
        return from_kind(tensor, array.kind)

    return _on_leaves(cast, x) if any(axes.is_checked(name) for name, _ in sizes) else x


def _typed(tensor: Tensor, names: Sequence[Hashable], kind: str | None) -> Tensor:
    """Return a tensor whose type says that it is "reduced" or "unreduced" along named axes, or neither of them (None)."""
    unreduced, reduced = (s - set(names) for s in sums_of(tensor))
    return with_sums(
        tensor,
        unreduced | set(names) if kind == "unreduced" else unreduced,
        reduced | set(names) if kind == "reduced" else reduced,
    )


def _as_summands(tensor: Tensor, names: Sequence[Hashable]) -> Tensor:
    """Return a sum that is left unreduced along named axes as its summands: all of it on the first lane, zeros on others."""
    for name in names:
        if name in sums_of(tensor)[0]:
            (tensor,) = Vary(name, axes.axis_size(name))(_typed(tensor, [name], None), _lane(name))
            tensor = torch.where(_lane(name) == 0, tensor, torch.zeros_like(tensor))
    return tensor


# -------------------------------------------------------------------------------------------------------- not on vmap


def ragged_all_to_all(
    operand: Any,
    output: Any,
    input_offsets: Any,
    send_sizes: Any,
    output_offsets: Any,
    recv_sizes: Any,
    *,
    axis_name: Any,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
) -> Any:
    """Refused: an exchange of slices whose sizes are values has no torch operator."""
    axis_size(axis_name)
    raise NotImplementedError("ragged_all_to_all is not supported; pad the slices to one size and use all_to_all.")


def psend(x: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Refused: one-sided communication does not exist here, as in JAX outside GPUs."""
    axis_size(axis_name)
    raise NotImplementedError("psend is not supported; use ppermute, which sends and receives.")


def precv(token: Any, out_shape: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Refused: one-sided communication does not exist here, as in JAX outside GPUs."""
    axis_size(axis_name)
    raise NotImplementedError("precv is not supported; use ppermute, which sends and receives.")
