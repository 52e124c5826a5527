"""shard_map and pmap: a function of one device's part of arrays, run for all devices of this process.

The devices of one process share memory, so that its parts are the lanes of nested vmaps, one per mesh axis, which the
function's collectives name.
"""

import functools
import inspect
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from .._core import axes, graph, tree, unsigned
from .._core.array import Array, as_array, from_kind, is_abstract, tensor_of, type_text
from .._core.tree_differences import broadcast_prefix
from .._devices import laid, processes
from .._devices.constraint import constrained, lay, sharding_given, sharding_of
from .._devices.devices import devices as all_devices
from .._devices.meshes import AbstractMesh, AxisType, Mesh, get_abstract_mesh, mesh_in_force, use_abstract_mesh
from .._devices.shardings import IndivisibleError, NamedSharding, PartitionSpec, names_in
from .callbacks import refuse_ordered
from .flat import Output, arrays_from, check_callable, name_of, wraps
from .jit import jit
from .signature import positions_of
from .stages import Lowered
from .vmap import vmap


class _Infer:
    def __repr__(self) -> str:
        return "jax.sharding.Infer"


Infer = _Infer()


def _refuse_processes(function: str) -> None:
    if processes.are_several():
        raise NotImplementedError(
            f"{function} runs on the devices of one process; in a program of several lay arrays over a mesh "
            "(jax.device_put, jit(out_shardings=...)), and jit splits the work."
        )


def _refuse_ordered(count: int) -> None:
    trace = graph.current_trace()
    if trace is not None:
        refuse_ordered(trace.graph.nodes, count)


# ------------------------------------------------------------------------------------------------------- shard_map


def shard_map(
    f: Callable[..., Any] | None = None, /, *, out_specs: Any, in_specs: Any = Infer,
    mesh: Mesh | AbstractMesh | None = None, axis_names: Iterable[Hashable] = frozenset(), check_vma: bool = True,
) -> Any:  # fmt: skip
    """Return `f`, a function of parts, as a function of whole arrays.

    `in_specs` says how each argument is split over the axes of `mesh` (by default the mesh in force): partition specs
    as a prefix of the arguments' pytree, None for arguments that are passed as they are, of any type; left out, it is how
    the arguments lie already. `out_specs` says how results are put together; a result that names not all axes is the same
    along the others, which `check_vma` checks. `axis_names` restricts the map to some axes of the mesh. Collectives
    within `f` go by the axes' names. Without `f`, return a decorator.

    Raises `ValueError` for sizes that do not divide, specs that do not fit and results that differ between devices
    where they should not; `TypeError` for what is no spec or mesh.
    """
    if f is None:
        return functools.partial(
            shard_map, out_specs=out_specs, in_specs=in_specs, mesh=mesh, axis_names=axis_names, check_vma=check_vma
        )
    check_callable(f)
    _refuse_processes("shard_map")

    @wraps(f)
    def mapped(*args: Any) -> Any:
        return _ShardMap(f, _mesh_for(mesh, args), axis_names, check_vma)(args, in_specs, out_specs)

    return mapped


def smap(
    f: Callable[..., Any] | None = None, /, *, in_axes: Any = Infer, out_axes: Any, axis_name: Hashable
) -> Any:  # fmt: skip
    """Return `f` mapped over the parts along one axis of the mesh in force: `shard_map` with axes in place of specs.

    `in_axes` says along which dimension each argument is split, None for one that every device gets whole; left out, it is
    how the arguments lie already.
    `out_axes` says along which dimension results are put together. Without `f`, return a decorator.
    Raises `TypeError` for what is no axis.
    """
    if f is None:
        return functools.partial(smap, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)
    if isinstance(axis_name, list | tuple):
        raise TypeError(f"smap axis_name should be a `str` or a `Hashable`, but got {axis_name}")
    if in_axes is not None and in_axes is not Infer and not isinstance(in_axes, int | tuple):
        raise TypeError(
            "smap in_axes must be an int, None, jax.sharding.Infer, or a tuple of entries corresponding to the positional "
            f"arguments passed to the function, but got {in_axes}."
        )
    in_specs = Infer if in_axes is Infer else _specs_of(in_axes, "in_axes", axis_name)
    return shard_map(f, in_specs=in_specs, out_specs=_specs_of(out_axes, "out_axes", axis_name), axis_names={axis_name})


def _specs_of(axes: Any, name: str, axis_name: Hashable) -> Any:
    leaves, spec = tree.flatten(axes, is_leaf=lambda axis: axis is None)
    if not all(axis is None or isinstance(axis, int) for axis in leaves):
        raise TypeError(
            f"smap {name} must be an int, None, or (nested) container with those types as leaves, but got {axes}."
        )
    return spec.unflatten(PartitionSpec() if a is None else PartitionSpec(*[None] * a, axis_name) for a in leaves)


def _mesh_for(mesh: Any, args: tuple[Any, ...]) -> Mesh:
    found = mesh_in_force() if mesh is None or isinstance(mesh, AbstractMesh) else mesh
    if found is None and isinstance(mesh, AbstractMesh):
        found = next((m for m in map(_mesh_of, tree.flatten(args)[0]) if m and m.shape_tuple == mesh.shape_tuple), None)
    if found is None:
        raise ValueError("The context mesh cannot be empty. Use `jax.set_mesh(mesh)` to enter into a mesh context")
    if not isinstance(found, Mesh):
        raise TypeError(
            "shard_map requires a `jax.sharding.Mesh` or a `jax.sharding.AbstractMesh` instance for its second "
            f"argument, but got {mesh} of type {type(mesh)}."
        )
    return found


def _mesh_of(leaf: Any) -> Mesh | None:
    sharding = sharding_given(leaf) if isinstance(leaf, Array) else None
    found = sharding.mesh if isinstance(sharding, NamedSharding) else None
    return found if isinstance(found, Mesh) else None


class _ShardMap:
    """One call of a function mapped over the axes of a mesh."""

    def __init__(self, f: Callable[..., Any], mesh: Mesh, axis_names: Iterable[Hashable], check: bool) -> None:
        self.f, self.mesh, self.check = f, mesh, check
        chosen = frozenset(axis_names)
        if not chosen <= set(mesh.axis_names):
            raise ValueError(
                f"jax.shard_map requires axis_names={chosen} to be a subset of "
                f"mesh.axis_names={frozenset(mesh.axis_names)}"
            )
        self.names = [n for n in mesh.axis_names if not chosen or n in chosen]
        self.output: Output | None = None

    def __call__(self, args: tuple[Any, ...], in_specs: Any, out_specs: Any) -> Any:
        self._check_specs(tree.flatten(out_specs, _is_none)[0], "out_specs")
        leaves, spec = tree.flatten(args)
        if in_specs is Infer:
            inputs: list[PartitionSpec | None] = [self._inferred(as_array(leaf)) for leaf in leaves]
        else:
            inputs = self._specs(in_specs, args, "in_specs")
        specs = {i: s for i, s in enumerate(inputs) if s is not None}
        given = {i: as_array(leaves[i]) for i in specs}
        for i, array in given.items():
            self._check_argument(array, specs[i], i)
        for i, array in given.items():
            self._check_lies(array, specs[i])
        split = [self._split(a, specs[i]) for i, a in given.items()]
        inspect.signature(self.f).bind(*args)
        kinds = [a.kind for a in given.values()]

        def of_parts(*parts: Tensor) -> list[Tensor]:
            arrays = dict(zip(given, arrays_from(parts, kinds), strict=True))
            result = self.f(*spec.unflatten(arrays.get(i, leaf) for i, leaf in enumerate(leaves)))
            self.output = Output(result, name_of(self.f))
            return self.output.tensors

        with axes.over_devices(self.names, self.check, self._text), use_abstract_mesh(self._mesh_within()):
            results = self._mapped(of_parts, self.names, split)
        _refuse_ordered(self.mesh.size)
        assert self.output is not None
        values = self.output.spec.unflatten(self.output.arrays)
        wanted = self._specs(out_specs, values, "out_specs")
        wanted = [PartitionSpec() if spec is None else spec for spec in wanted]
        placed = [self._joined(*r) for r in zip(results, self.output.arrays, wanted, strict=True)]
        return self.output.spec.unflatten(placed)

    def _text(self, array: Array) -> str:
        """Return what an array prints within the function, which has a value for each device."""
        names, found = self.mesh.axis_names, []
        for index, device in np.ndenumerate(self.mesh.devices):
            lane = axes.lane_of(array._tensor, dict(zip(names, index, strict=True)))
            with axes.over_devices(()):
                value = from_kind(lane, array.kind)
                found.append(f"On {device} at mesh coordinates ({', '.join(map(str, names))},) = {index}:\n{value}\n")
        return "\n".join(found)

    def _mesh_within(self) -> AbstractMesh:
        """Return the mesh as the function sees it: it goes through the axes that are mapped itself."""
        now = get_abstract_mesh()
        outer = now if now.shape_tuple == self.mesh.shape_tuple else self.mesh.abstract_mesh
        kinds = zip(outer.axis_names, outer.axis_types, strict=True)
        return outer.update(axis_types=tuple(AxisType.Manual if n in self.names else t for n, t in kinds))

    def _specs(self, given: Any, value: Any, what: str) -> list[PartitionSpec | None]:
        found = broadcast_prefix(given, tree.flatten(value)[1], f"shard_map {what}", _is_none)
        self._check_specs(found, what)
        return found

    def _check_specs(self, specs: Iterable[Any], what: str) -> None:
        for spec in specs:
            if spec is not None and not isinstance(spec, PartitionSpec):
                raise TypeError(
                    f"shard_map {what} argument must be a pytree of `jax.sharding.PartitionSpec` instances, but: "
                    f"{what} is {spec} of type {type(spec).__name__}."
                )
            for name in (n for part in spec or () for n in names_in(part)):
                if name not in self.names:
                    raise ValueError(
                        f"shard_map {what} argument must refer to an axis marked as manual ({set(self.names)}), but: "
                        f"{what} refers to {name!r}. Check the {what} values passed to shard_map."
                    )
            if spec is not None and (spec.unreduced or spec.reduced):
                self._check_sums(what)

    def _check_sums(self, what: str) -> None:
        if len(self.names) < len(self.mesh.axis_names):
            raise NotImplementedError(
                f"unreduced and reduced can only be passed to {what} when shard_map is in full manual mode: map all axes of "
                "the mesh."
            )
        if self.mesh.explicit_axes != self.mesh.axis_names:
            raise ValueError(
                "unreduced and reduced can only be used when the mesh passed to shard_map contains axis names all of type "
                f"`Explicit`. Got mesh: {self.mesh}"
            )

    def _inferred(self, array: Array) -> PartitionSpec:
        sharding = sharding_of(array)
        if not isinstance(sharding, NamedSharding) or sharding.mesh.shape_tuple != self.mesh.shape_tuple:
            return PartitionSpec()
        mapped = (tuple(n for n in names_in(part) if n in self.names) for part in sharding.spec)
        return sharding.spec.update(partitions=mapped)

    def _check_lies(self, array: Array, spec: PartitionSpec) -> None:
        """Raise `ValueError` for an array that was laid over no devices where types would tell how."""
        if self.mesh.explicit_axes != self.mesh.axis_names or len(self.names) < len(self.mesh.axis_names):
            return
        parts = getattr(sharding_given(array), "spec", ())
        if is_abstract(array) or any(map(names_in, parts)) or not any(map(names_in, spec)):
            return
        wanted = PartitionSpec(*spec, *[None] * (array.ndim - len(spec)))
        raise ValueError(
            f"in_specs passed to shard_map: {wanted} does not match the specs of the input: "
            f"{PartitionSpec(*[None] * array.ndim)} for arg: {type_text(array)}. `in_specs` is an optional argument so you "
            "can omit specifying it and shard_map will infer the in_specs from the arguments. If you want to reshard your "
            "inputs, you can use `jax.reshard` on the arguments and then pass those args to shard_map."
        )

    def _split(self, array: Array, spec: PartitionSpec) -> tuple[Tensor, dict[Hashable, int]]:
        """Return the tensor with a dimension of its own for each mesh axis that splits it, and which these are."""
        tensor = self._laid(tensor_of(array), spec)
        sizes, where = [], {}
        for dim, size in enumerate(tensor.shape):
            names = names_in(spec[dim]) if dim < len(spec) else ()
            for name in names:
                where[name] = len(sizes)
                sizes.append(self.mesh.shape[name])
            sizes.append(size // math.prod(self.mesh.shape[n] for n in names))
        return tensor.reshape(sizes), where

    def _laid(self, tensor: Tensor, spec: PartitionSpec) -> Tensor:
        """Return a tensor that lies as its parts are given out, which goes for its cotangent, too."""
        if len(self.names) < len(self.mesh.axis_names):  # the other axes may split it
            return tensor
        if self.check and (spec.unreduced or spec.reduced):
            return lay(tensor, NamedSharding(self.mesh, spec))
        if graph.is_plain_evaluation():
            return laid.plain(tensor)
        return lay(tensor, NamedSharding(self.mesh, spec)) if any(map(names_in, spec)) else tensor

    def _check_argument(self, array: Array, spec: PartitionSpec, position: int) -> None:
        if array.ndim < len(spec):
            raise ValueError(
                f"shard_map applied to the function {name_of(self.f)!r} was given an in_specs entry which is too long to "
                f"be compatible with the corresponding input value: in_specs is {spec} which has length {len(spec)}, but "
                f"array number {position} has shape {type_text(array)}, which has rank {array.ndim}."
                + ("" if array.ndim else " For a scalar consider using an in_specs entry of `P()`.")
            )
        for size, part in zip(array.shape, spec, strict=False):
            count = math.prod(self.mesh.shape[n] for n in names_in(part))
            if size % count:
                raise ValueError(
                    f"shard_map applied to the function {name_of(self.f)!r} was given argument arrays with axis sizes "
                    f"that are not evenly divisible by the corresponding mesh axis sizes: array number {position} of "
                    f"shape {type_text(array)} has an axis of size {size}, which {part!r} splits into {count} parts. "
                    "Pad the array."
                )

    def _mapped(
        self, function: Callable[..., Sequence[Tensor]], names: Sequence[Hashable],
        given: Sequence[tuple[Tensor, dict[Hashable, int]]],
    ) -> list[tuple[Tensor, dict[Hashable, int]]]:  # fmt: skip
        """Call `function` on all parts; return each result and which of its dimensions the mesh axes are."""
        if not names:
            return [(result, {}) for result in function(*(tensor for tensor, _ in given))]
        name, *inner = names
        dims = [where.get(name) for _, where in given]
        rests = [
            {n: d - (dim is not None and d > dim) for n, d in where.items() if n != name}
            for (_, where), dim in zip(given, dims, strict=True)
        ]
        found: list[dict[Hashable, int]] = []

        def of_lanes(*lanes: Tensor) -> list[Tensor]:
            results = self._mapped(function, inner, list(zip(lanes, rests, strict=True)))
            found.extend(where for _, where in results)
            return [tensor for tensor, _ in results]

        mapped = axes.map_tensors(of_lanes, [t for t, _ in given], dims, self.mesh.shape[name], name)
        results = []
        for (tensor, dim), where in zip(mapped, found, strict=True):
            if dim is not None:
                where = {n: d + (d >= dim) for n, d in where.items()} | {name: dim}
            results.append((tensor, where))
        return results

    def _joined(self, result: tuple[Tensor, dict[Hashable, int]], array: Array, spec: PartitionSpec) -> Array:
        """Return the whole array of what all devices made."""
        tensor, where = result
        rank = tensor.dim() - len(where)
        ndim = array.ndim
        if ndim < len(spec):
            raise ValueError(
                f"shard_map applied to the function {name_of(self.f)!r} was given an out_specs entry which is too long "
                f"to be compatible with the corresponding output value: out_specs is {spec} which has length "
                f"{len(spec)}, but the result has shape {type_text(array)}, which has rank {ndim}."
            )
        named = [n for part in spec for n in names_in(part)]
        for name in [n for n in where if n in spec.unreduced]:
            tensor = unsigned.sum(tensor, [where[name]])
            where = {n: d - (d > where[name]) for n, d in where.items() if n != name}
        for name in [n for n in where if n not in named]:
            if self.check:
                raise ValueError(self._varies(spec, where))
            tensor = tensor.select(where[name], 0)
            where = {n: d - (d > where[name]) for n, d in where.items() if n != name}
        order, sizes = [], []
        own = [d for d in range(tensor.dim()) if d not in where.values()]
        for dim in range(rank):
            names = names_in(spec[dim]) if dim < len(spec) else ()
            for name in names:
                if name not in where:  # the same for all devices along this axis
                    tensor = tensor.unsqueeze(-1).expand(*tensor.shape, self.mesh.shape[name])
                    where = {**where, name: tensor.dim() - 1}
                order.append(where[name])
            order.append(own[dim])
            sizes.append(math.prod(self.mesh.shape[n] for n in names) * tensor.shape[own[dim]])
        tensor = tensor.permute(order).reshape(sizes)
        return constrained(from_kind(tensor, array.kind), self._sharding(tensor, spec), "shard_map")

    def _varies(self, spec: PartitionSpec, varying: Iterable[Hashable]) -> str:
        """Say that a result may vary along axes that its spec does not name."""
        own = [n for part in spec for n in names_in(part)]
        unnamed = [n for n in self.mesh.axis_names if n not in own]
        if len(unnamed) > 1:
            needed, found, more = (
                ",".join(str(n) for n in self.mesh.axis_names if n in names)
                for names in (own, list(varying), [n for n in varying if n not in own])
            )
            what = (
                f"is only varying across mesh axes {{{needed}}} and not {{{more}}}, but it was inferred to be possibly "
                f"varying over {{{found}}}"
            )
        else:
            what = f"is replicated across mesh axis '{unnamed[0]}', but could not infer replication over any axes"
        return (
            f"shard_map applied to the function {name_of(self.f)!r} was given out_specs which require replication which "
            f"can't be statically inferred given the mesh:\n\nThe mesh given has shape {self.mesh.axis_sizes} with "
            f"corresponding axis names {self.mesh.axis_names}.\n\nout_specs is {spec} which implies that the corresponding "
            f"output value {what}\n\nCheck if these output values are meant to be replicated over those mesh axes. If not, "
            "consider revising the corresponding out_specs entries. If so, consider disabling the check by passing the "
            "check_vma=False argument to `jax.shard_map`."
        )

    def _sharding(self, tensor: Tensor, spec: PartitionSpec) -> NamedSharding:
        """Return how a result lies: over the axes that were mapped as `spec` says, over others as it does already."""
        found = laid.sharding_of(tensor)
        if not isinstance(found, NamedSharding) or len(self.names) == len(self.mesh.axis_names):
            whole = NamedSharding(self.mesh, spec)
            return whole.of_rank(tensor.dim()) if self.mesh.explicit_axes and graph.is_tracing() else whole
        own = found.of_rank(tensor.dim()).spec
        named = [*map(names_in, spec), *[()] * (tensor.dim() - len(spec))]
        rest = [tuple(n for n in names_in(part) if n not in self.names) for part in own]
        parts = [(*names, *other) for names, other in zip(named, rest, strict=True)]
        return NamedSharding(self.mesh, PartitionSpec(*parts))


# ------------------------------------------------------------------------------------------------------------ pmap


def _is_none(x: Any) -> bool:
    return x is None


_PMAP_AXIS = "_internal_pmap_axis_name"


def pmap(
    fun: Callable[..., Any], axis_name: Hashable | None = None, *, in_axes: Any = 0, out_axes: Any = 0,
    static_broadcasted_argnums: int | Iterable[int] = (), devices: Sequence[Any] | None = None,
    backend: str | None = None, axis_size: int | None = None, donate_argnums: int | Iterable[int] = (),
) -> Callable[..., Any]:  # fmt: skip
    """Return `fun` compiled and mapped over an axis of its arguments, one device for each slice.

    Like `jit(vmap(fun))`, with results that lie over `devices`, or the first ones of `backend`; there have to be as
    many as slices. `static_broadcasted_argnums` are positions of hashable arguments that all devices get.

    Raises `ValueError` where there are too few devices, or where no argument is mapped.
    """
    check_callable(fun)
    _refuse_processes("pmap")
    if devices is not None and not devices:
        raise ValueError("pmap's devices are none; give at least one, or None for the first ones that there are.")
    statics, donated = positions_of(static_broadcasted_argnums), positions_of(donate_argnums)

    def lanes(*args: Any, **kwargs: Any) -> Any:
        placed = [None if i in statics else _axis_of(in_axes, i) for i in range(len(args))]
        given, prefix = tree.flatten(out_axes, _is_none)
        stacked = prefix.unflatten(axis or 0 for axis in given)
        name = axis_name or _PMAP_AXIS
        with axes.over_devices([name]):
            result = vmap(fun, tuple(placed), stacked, axis_name=name)(*args, **kwargs)
        _refuse_ordered(_size_of(args, kwargs, in_axes, statics, axis_size))
        leaves, spec = tree.flatten(result)
        dims = broadcast_prefix(out_axes, spec, "pmap out_axes", _is_none)
        return spec.unflatten(x[0] if axis is None else x for x, axis in zip(leaves, dims, strict=True))

    jitted = jit(wraps(fun)(lanes), static_argnums=statics or None, donate_argnums=donated)

    @wraps(fun)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        if any(i >= len(args) for i in statics):
            raise ValueError(
                f"The pmapped function {name_of(fun)} has static_broadcasted_argnums={statics} and was called with "
                f"{len(args)} positional arguments. Pass static arguments by position."
            )
        size = _size_of(args, kwargs, in_axes, statics, axis_size)
        mesh = _pmap_mesh(size, devices, backend, axis_name)
        result = jitted(*args, **kwargs)
        leaves, spec = tree.flatten(result)
        dims = broadcast_prefix(out_axes, spec, "pmap out_axes", _is_none)
        return spec.unflatten(_over_mesh(x, d, mesh) for x, d in zip(leaves, dims, strict=True))

    def lower(*args: Any, **kwargs: Any) -> Lowered:
        """Return the program for these arguments, traced; what it compiles to gives results that lie on one device."""
        _pmap_mesh(_size_of(args, kwargs, in_axes, statics, axis_size), devices, backend, axis_name)
        return jitted.lower(*args, **kwargs)

    mapped.lower = lower  # pyright: ignore[reportFunctionMemberAccess]
    return mapped


def _axis_of(in_axes: Any, position: int) -> Any:
    return in_axes[position] if isinstance(in_axes, list | tuple) else in_axes


def _size_of(args: Any, kwargs: Any, in_axes: Any, statics: Sequence[int], axis_size: int | None) -> int:
    """Return the number of slices: the size of the first mapped axis."""
    if isinstance(in_axes, list | tuple) and len(in_axes) != len(args):
        raise ValueError(
            f"pytree structure error: pmap in_axes has length {len(in_axes)}, but there are {len(args)} positional "
            "arguments."
        )
    for position, arg in enumerate(args):
        axis = None if position in statics else _axis_of(in_axes, position)
        leaves, spec = tree.flatten(arg)
        name = f"pmap in_axes[0][{position}]"  # of the pair of positional and keyword arguments, as JAX counts
        for leaf, dim in zip(leaves, broadcast_prefix(axis, spec, name, _is_none), strict=True):
            if dim is not None and getattr(leaf, "shape", ()):
                return _checked_size(leaf.shape[dim], axis_size)
    for leaf in tree.flatten(kwargs)[0]:
        if getattr(leaf, "shape", ()):
            return _checked_size(leaf.shape[0], axis_size)
    raise ValueError("pmap requires at least one argument with a mapped axis.")


def _checked_size(size: int, axis_size: int | None) -> int:
    if axis_size not in (None, size):
        raise ValueError(f"Specified axis_size {axis_size} doesn't match received axis_size {size}.")
    return size


def _pmap_mesh(size: int, given: Sequence[Any] | None, backend: str | None, axis_name: Hashable | None) -> Mesh:
    available = list(all_devices(backend) if given is None else given)
    if size > len(available):
        raise IndivisibleError(
            f"pmap over an axis of size {size} needs as many devices, and there are {len(available)}. Set "
            "jax_num_cpu_devices before devices are asked for, or use jax.vmap."
        )
    return Mesh(available[:size], (axis_name or _PMAP_AXIS,))


def _over_mesh(array: Array, dim: int | None, mesh: Mesh) -> Array:
    spec = () if dim is None else (*(None,) * (dim % array.ndim), mesh.axis_names[0])
    return constrained(array, NamedSharding(mesh, PartitionSpec(*spec)), "pmap")


def experimental_shard_map(
    f: Callable[..., Any], mesh: Any, in_specs: Any, out_specs: Any, check_rep: bool = True
) -> Callable[..., Any]:
    """Return `jax.shard_map(f, ...)`, with its `check_vma` under the name `check_rep`."""
    return shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_rep)
