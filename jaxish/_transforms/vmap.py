"""vmap: a function of one example made a function of a batch, through functorch's batching rules."""

import inspect
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from torch import Tensor

from .._core import axes, errors, graph, levels, tree
from .._core.array import Array, as_array, from_kind, is_arraylike, tensor_of
from .._core.avals import ShapeDtypeStruct, aval_of
from .._core.primitive import batch_front
from .._core.refs import Ref, RefArgument, check_aliases
from .._core.tree_differences import broadcast_prefix
from . import leaks, vmappables
from .flat import FlatFunction, Output, argument_names, as_argument, check_callable, described, name_of, wraps
from .program import reference


def vmap(
    fun: Callable[..., Any],
    in_axes: int | None | Sequence[Any] = 0,
    out_axes: Any = 0,
    axis_name: Hashable | None = None,
    axis_size: int | None = None,
    spmd_axis_name: Hashable | tuple[Hashable, ...] | None = None,
    sum_match: bool = False,
) -> Callable[..., Any]:
    """Return `fun` mapped over an axis of its arguments.

    `in_axes` is an integer, None (not mapped) or a tuple of these per positional argument, each of which may be a
    prefix of that argument's pytree; keyword arguments are mapped over their axis 0. `out_axes` says where the mapped
    axis stands in each result. `axis_name` binds the axis for collectives, `axis_size` gives its size where no
    argument does. `spmd_axis_name` names the mesh axes over which sharding constraints inside `fun` lay the new axis.

    Raises `ValueError` when sizes differ, an axis is out of range, or a mapped result has None in `out_axes`.
    """
    check_callable(fun)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not (in_axes is None or type(in_axes) is tuple or type(in_axes) in vmappables.spec_types):
        raise TypeError(
            "vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments passed "
            f"to the function, but got {in_axes}."
        )
    if not all(type(a) in vmappables.spec_types for a in tree.flatten(in_axes)[0]):
        raise TypeError(
            f"vmap in_axes must be an int, None, or (nested) container with those types as leaves, got {in_axes}."
        )
    if not all(type(a) in vmappables.spec_types for a in tree.flatten(out_axes)[0]):
        raise TypeError(
            f"vmap out_axes must be an int, None, or (nested) container with those types as leaves, got {out_axes}."
        )
    if sum_match:
        raise NotImplementedError("vmap(sum_match=True) is not supported; sum over the mapped axis explicitly.")

    spmd = spmd_axis_name if isinstance(spmd_axis_name, tuple) else () if spmd_axis_name is None else (spmd_axis_name,)

    @wraps(fun)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(
                "vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments "
                f"passed to the function, but got {len(in_axes)=}, {len(args)=}"
            )
        if vmappables.registered:
            return _call_with_vmappables(fun, args, kwargs, in_axes, out_axes, axis_name, axis_size, spmd)
        leaves, spec = tree.flatten((args, kwargs))
        dims = [0] * len(leaves) if in_axes == 0 and type(in_axes) is int else _dims(in_axes, args, kwargs)
        size = _mapped_size(fun, args, kwargs, leaves, dims, axis_size)
        return _call(fun, leaves, spec, dims, size, out_axes, axis_name, spmd)

    return mapped


def _call_with_vmappables(
    fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], in_axes: Any, out_axes: Any,
    axis_name: Hashable | None, axis_size: int | None, spmd: tuple[Hashable, ...],
) -> Any:  # fmt: skip
    leaves, spec = tree.flatten((args, kwargs), vmappables.is_vmappable)
    dims = _dims(in_axes, args, kwargs, vmappables.is_vmappable)
    sized = [None if vmappables.is_vmappable(x) else d for x, d in zip(leaves, dims, strict=True)]
    size = _mapped_size(fun, args, kwargs, leaves, sized, axis_size)
    elements = vmappables.Elements(fun, leaves, spec, dims, size, out_axes)
    others = [leaves[i] for i in elements.others]
    structure = tree.flatten((tuple(others), {}))[1]
    own_dims = [sized[i] for i in elements.others]
    results = _call(
        wraps(fun)(lambda *values: elements(*values)),
        others,
        structure,
        own_dims,
        size,
        elements.out_axes,
        axis_name,
        spmd,
    )
    return elements.rebuilt(results)


def _dims(
    in_axes: Any, args: tuple[Any, ...], kwargs: dict[str, Any], is_leaf: Callable[[Any], bool] | None = None
) -> list[int | None]:
    dims = broadcast_prefix(in_axes, tree.flatten(args, is_leaf)[1], "vmap in_axes", _is_none)
    return dims + [0] * len(tree.flatten(kwargs, is_leaf)[0])


def _is_none(x: Any) -> bool:
    return x is None


def _mapped_size(
    fun: Callable[..., Any],
    args: Any,
    kwargs: Any,
    leaves: list[Any],
    dims: Sequence[int | None],
    axis_size: int | None,
) -> int:
    if not leaves and axis_size is None:
        raise ValueError(
            "vmap wrapped function must be passed at least one argument containing an array or axis_size must be "
            f"specified, got empty *args={args} and **kwargs={kwargs}"
        )
    sizes = [_size_along(leaf, dim) for leaf, dim in zip(leaves, dims, strict=True) if dim is not None]
    if axis_size is not None:
        sizes.append(axis_size)
    if not sizes:
        raise ValueError("vmap must have at least one non-None value in in_axes or axis_size must be specified")
    if any(size != sizes[0] for size in sizes):
        raise ValueError(_mismatch(fun, args, kwargs, dims, axis_size))
    return sizes[0]


def _size_along(leaf: Any, dim: int) -> int:
    shape = leaf._tensor.shape if type(leaf) is Array else leaf.shape if isinstance(leaf, Ref) else _shape_of(leaf)
    try:
        return shape[dim]
    except IndexError:
        rank = dim + 1 if dim >= 0 else -dim
        raise ValueError(
            f"vmap was requested to map its argument along axis {dim}, which implies that its rank should be at least "
            f"{rank}, but is only {len(shape)} (its shape is {tuple(shape)})"
        ) from None


def _shape_of(leaf: Any) -> Sequence[int]:
    if isinstance(leaf, ShapeDtypeStruct):
        return leaf.shape
    if not is_arraylike(leaf):
        raise TypeError(
            f"Output from batched function {leaf!r} with type {type(leaf)} is not a valid JAX type; vmap maps arrays. "
            f"Use in_axes=None for an argument that is no array.{errors.way_from_torch(leaf)}"
        )
    return as_array(leaf).shape


def _mismatch(
    fun: Callable[..., Any], args: Any, kwargs: Any, dims: Sequence[int | None], axis_size: int | None
) -> str:
    try:
        names = list(inspect.signature(fun).bind(*args, **kwargs).signature.parameters)
    except (TypeError, ValueError):
        names = []
    lines = ["vmap got inconsistent sizes for array axes to be mapped:"]
    paths = tree.leaves_with_path(args) + tree.leaves_with_path(kwargs)
    count = len(tree.leaves_with_path(args))
    for position, ((path, leaf), dim) in enumerate(zip(paths, dims, strict=True)):
        if dim is None:
            continue
        if position >= count:
            name = f"kwargs{tree.keystr(path)}"
        elif path[0].idx < len(names):
            name = f"argument {names[path[0].idx]}{tree.keystr(path[1:])}"
        else:
            name = f"args{tree.keystr(path)}"
        lines.append(f"  * axis {dim} of {name} of type {aval_of(leaf).str_short()} has size {_size_along(leaf, dim)};")
    if axis_size is not None:
        lines.append(f"  * axis_size was given as {axis_size};")
    return "\n".join(lines)


def _call(
    fun: Callable[..., Any], leaves: list[Any], spec: tree.Spec, dims: Sequence[int | None], size: int,
    out_axes: Any, axis_name: Hashable | None, spmd: tuple[Hashable, ...],
) -> Any:  # fmt: skip
    types: dict[int, tuple[ShapeDtypeStruct, int]] = {}
    if ShapeDtypeStruct in map(type, leaves):
        leaves, dims, types = _of_elements(leaves, dims)
    # Unmapped leaves pass as they are: Python scalars stay Python scalars, and objects that are no arrays stay objects.
    mapped = [i for i, dim in enumerate(dims) if dim is not None]
    if Ref in map(type, leaves):
        leaves = [
            RefArgument.of(x) if d is not None and isinstance(x, Ref) else x for x, d in zip(leaves, dims, strict=True)
        ]
        check_aliases(leaves, lambda: argument_names(fun, *spec.unflatten(leaves)), lambda: described(fun), "vmap")
    arrays = [as_argument(leaves[i], "vmap") for i in mapped]
    tensors = [tensor_of(a) for a in arrays]
    positive = [d if d >= 0 else d + a.ndim for d, a in zip((dims[i] for i in mapped), arrays, strict=True)]  # pyright: ignore

    def rebuild(slices: Sequence[Array]) -> tuple[Sequence[Any], dict[str, Any]]:
        whole = list(leaves)
        for index, array in zip(mapped, slices, strict=True):
            whole[index] = array
        if Ref in map(type, slices):
            _connect(slices, arrays, positive, size)
        return spec.unflatten(whole)

    flat = FlatFunction(fun, [a.kind for a in arrays], rebuild, takes_types=True)
    with leaks.checked("BatchTrace", fun):
        results = axes.map_tensors(flat, tensors, positive, size, axis_name, spmd)
    output = flat.output
    if flat.written:
        count = len(output.arrays)
        _write_back(flat.written, results[count:], arrays, positive, size)
        results = results[:count]
    placed = _placed(results, output, out_axes, size, fun, types)
    given = {id(t): a for t, a in zip(tensors, arrays, strict=True)}  # what is handed on comes back as it is
    return output.spec.unflatten(
        t if not isinstance(t, Tensor)  # a scalar of Python or NumPy, or a type, handed through
        else a if (a := given.get(id(t))) is not None and a.kind == kind else from_kind(t, kind)
        for t, kind in zip(placed, output.kinds, strict=True)
    )  # fmt: skip


def _of_elements(
    leaves: list[Any], dims: Sequence[int | None]
) -> tuple[list[Any], list[int | None], dict[int, tuple[ShapeDtypeStruct, int]]]:
    """Return leaves in which types of mapped arrays are those of one element, which is all that `fun` can ask them for.

    Also returned are the whole ones, and where they are mapped, by the `id`s of those of elements.
    """
    leaves, dims, whole = list(leaves), list(dims), {}
    for i, (leaf, dim) in enumerate(zip(leaves, dims, strict=True)):
        if dim is not None and isinstance(leaf, ShapeDtypeStruct):
            rest = list(leaf.shape)
            del rest[dim]
            leaves[i], dims[i] = ShapeDtypeStruct(rest, leaf.dtype, weak_type=leaf.weak_type), None
            whole[id(leaves[i])] = leaf, dim % len(leaf.shape)
    return leaves, dims, whole


def _type_of_batch(
    leaf: ShapeDtypeStruct, axis: int, size: int, given: ShapeDtypeStruct | None = None, dim: int | None = None
) -> ShapeDtypeStruct:
    """Return the type of a batch of results for each of which a function returned a type; what was `given` along that axis.

    Raises `TypeError` outside of traces, where an array would have to be repeated, `ValueError` for an axis out of range.
    """
    rank = len(leaf.shape) + 1
    axis += rank if -rank <= axis < 0 else 0
    if given is not None and axis == dim:
        return given
    if not graph.is_tracing():
        raise TypeError(
            f"vmap: a result of shape {leaf.dtype.name}{[*leaf.shape]} of type {type(leaf)} is not a valid JAX type: it has no "
            "values. Give it None in out_axes."
        )
    if not 0 <= axis < rank:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {rank}: check vmap's out_axes")
    shape = [*leaf.shape]
    shape.insert(axis, size)
    return ShapeDtypeStruct(shape, leaf.dtype, weak_type=leaf.weak_type)


def _connect(slices: Sequence[Any], arrays: Sequence[Array], dims: Sequence[int | None], size: int) -> None:
    """Tell the references that a function gets of which batch each is the lanes."""
    for position, own in enumerate(slices):
        if isinstance(own, Ref) and dims[position] == 0:
            own._lanes_of = reference(position, arrays), size


def _write_back(
    written: Sequence[int], results: Sequence[tuple[Tensor, int | None]], arrays: Sequence[Array],
    dims: Sequence[int | None], size: int,
) -> None:  # fmt: skip
    for position, (tensor, dim) in zip(written, results, strict=True):
        whole = batch_front(tensor, dim, size).movedim(0, dims[position] or 0)
        reference(position, arrays)._write(from_kind(whole, arrays[position].kind.inner))


def _placed(
    results: list[tuple[Tensor, int | None]], output: Output, out_axes: Any, size: int, fun: Callable[..., Any],
    types: dict[int, tuple[ShapeDtypeStruct, int]],
) -> list[Any]:  # fmt: skip
    if out_axes == 0 and type(out_axes) is int and ShapeDtypeStruct not in map(type, output.leaves):
        return [tensor if dim == 0 else batch_front(tensor, dim, size) for tensor, dim in results]
    wanted = broadcast_prefix(out_axes, output.spec, "vmap out_axes", _is_none)
    placed = []
    for index, ((tensor, dim), target, array) in enumerate(zip(results, wanted, output.arrays, strict=True)):
        leaf = output.leaves[index]
        if isinstance(leaf, ShapeDtypeStruct):
            given, dim = types.get(id(leaf), (None, None))
            if target is not None:
                placed.append(_type_of_batch(leaf, target, size, given, dim))
                continue
        if target is None:
            if dim is not None:
                path, _ = tree.leaves_with_path(output.spec.unflatten(wanted), _is_none)[index]
                raise ValueError(
                    f"at vmap out_axes{tree.keystr(path)}, got axis spec None but output was batched on axis {dim}: a "
                    f"result of {name_of(fun)} with shape {tuple(array.shape)} differs between examples. Give its axis in "
                    f"out_axes."
                )
            placed.append(tensor if isinstance(leaf, Array | Ref) else leaf)
            continue
        rank = array.ndim + 1
        if not -rank <= target < rank:
            raise ValueError(f"axis {target} is out of bounds for array of dimension {rank}: check vmap's out_axes")
        target %= rank
        placed.append(tensor if dim == target else batch_front(tensor, dim, size).movedim(0, target))
    return placed


def is_batched(x: Array) -> bool:
    """Tell whether `x` stands for a batch of values of some vmap that is going on."""
    return levels.is_batched(x._tensor)
