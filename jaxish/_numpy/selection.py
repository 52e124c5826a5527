"""Choosing elements: by condition (`where`, `select`, `clip`) or by index (`take`, `choose`, `put` and their like)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._core import errors, narrow, selection, unsigned
from .._core.array import Array, as_array, check_arraylike, default_torch_device, is_weak, tensor_of
from .._core.dimensions import broadcast_shape, canonical_axis, static_int
from .._core.extended import moves_elements
from .._core.promotion import convert, promote, tensor, tensors
from .._core.typing import ArrayLike, DTypeLike, Shape
from .._tensors.elements import GatherScatterMode, default_fill, put_elements, take_elements
from .._transforms.shown_calls import shown_as_jit
from .arguments import concrete_values, dtype_or, int_dtype, no_out
from .choosing import chosen, chosen_tensors
from .creation import asarray
from .indexing import fill_of
from .searching import nonzero


@moves_elements(1, 2)
def where(
    condition: Any, x: ArrayLike | None = None, y: ArrayLike | None = None, /, *, size: int | None = None,
    fill_value: Any = None,
) -> Any:  # fmt: skip
    """Return x where the condition holds and y elsewhere; with the condition alone, `nonzero` of it.

    Raises `TypeError` when only one of x and y is given, `ValueError` for `size` or `fill_value` together with them.
    """
    if x is None and y is None:
        check_arraylike("where", condition)
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise TypeError("Either both or neither of the x and y arguments should be provided to jax.numpy.where.")
    if size is not None or fill_value is not None:
        raise ValueError("size and fill_value arguments cannot be used in three-term where function.")
    return chosen(condition, x, y)


@moves_elements(1, 2)
def select(condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0) -> Array:
    """Return elements of the first choice whose condition holds, `default` where none does."""
    if len(condlist) != len(choicelist):
        raise ValueError(f"condlist must have length equal to choicelist ({len(condlist)} vs {len(choicelist)})")
    if not len(condlist):
        raise ValueError("condlist must be non-empty")
    check_arraylike("select", *condlist, *choicelist, default)
    found, weak = promote("select", *choicelist, default)
    masks = [convert(tensor("select", c), torch.bool) for c in condlist]
    shape = broadcast_shape(*(tuple(t.shape) for t in [*found, *masks]))
    out = found[-1].broadcast_to(shape)
    for mask, choice in zip(reversed(masks), reversed(found[:-1]), strict=True):
        out = selection.where(mask, choice, out)
    return Array(out, weak)


# -------------------------------------------------------------------------------------------------------- by index


def _index_modes(mode: str | None, function: str) -> str:
    if mode == "raise":
        raise NotImplementedError(
            f"The 'raise' mode to jnp.{function} is not supported: values are not known. Use 'clip'."
        )
    if mode not in (None, "fill", "wrap", "clip"):
        raise ValueError(f"Invalid mode '{mode}' for np.{function}")
    return mode or "fill"


@shown_as_jit("axis", "out", "mode", "unique_indices", "indices_are_sorted", "fill_value", name="_take")
@moves_elements(0)
def take(
    a: ArrayLike, indices: ArrayLike, axis: int | None = None, out: None = None, mode: str | None = None,
    unique_indices: bool = False, indices_are_sorted: bool = False, fill_value: Any = None,
) -> Array:  # fmt: skip
    """Return the elements (along `axis`; None: of the flattened array) at `indices`.

    Indices out of bounds give `fill_value` (mode "fill", the default: NaN, or the extreme integer), the nearest
    element ("clip") or wrap around ("wrap"). `unique_indices` and `indices_are_sorted` are promises.
    """
    no_out("take", out)
    check_arraylike("take", a, indices)
    t, index = tensors("take", a, indices)
    if index.is_floating_point() or index.is_complex():
        raise ValueError(f"indices must have an integer type, got {str(index.dtype).removeprefix('torch.')}")
    if index.dtype is torch.bool:
        index = index.to(torch.int32)
    if axis is None:
        t, axis = t.flatten(), 0
    axis = canonical_axis(static_int(axis, "axis"), t.dim())
    mode, size = _index_modes(mode, "take"), t.shape[axis]
    if not size:
        if index.numel():
            raise IndexError("Cannot do a non-empty jnp.take() from an empty axis.")
        return Array(t, is_weak(a))
    if mode == "wrap":
        index = torch.remainder(_signed(index), size)
    elif mode == "fill" and index.dtype.is_signed:
        index = chosen_tensors(index < 0, index + size, index)
    how = GatherScatterMode.FILL_OR_DROP if mode == "fill" else GatherScatterMode.CLIP
    moved = t.movedim(axis, 0) if axis else t
    found = take_elements(moved, [index], how, fill_of(fill_value, t))
    rank = index.dim()
    if axis and rank:
        found = found.movedim(list(range(rank)), list(range(axis, axis + rank)))
    return Array(found, is_weak(a))


def _signed(index: Tensor) -> Tensor:
    return index if index.dtype in (torch.int32, torch.int64) else index.to(torch.int64)


def _check_integer(index: Tensor, what: str) -> None:
    if index.is_floating_point() or index.is_complex() or index.dtype is torch.bool:
        raise TypeError(f"{what} must be of integer type, got {str(index.dtype).removeprefix('torch.')}")


@shown_as_jit("axis", "mode", "fill_value", "wrap_negative_indices")
@moves_elements(0)
def take_along_axis(
    arr: ArrayLike, indices: ArrayLike, axis: int | None = -1, mode: Any = None, fill_value: Any = None, *,
    wrap_negative_indices: bool | None = None,
) -> Array:  # fmt: skip
    """Return elements along `axis` at indices that differ from line to line; other axes are broadcast.

    Indices out of bounds give `fill_value` (default NaN, or the extreme integer), or the nearest element in mode
    "clip". `axis` None flattens `arr`, and needs 1-d indices.
    """
    check_arraylike("take_along_axis", arr, indices)
    t, index = tensor("take_along_axis", arr), tensor("take_along_axis", indices)
    _check_integer(index, "take_along_axis indices")
    if axis is None:
        if index.dim() != 1:
            raise ValueError(f"take_along_axis indices must be 1D if axis=None, got shape {tuple(index.shape)}")
        t, axis = t.flatten(), 0
    if t.dim() != index.dim():
        raise ValueError(f"indices and arr must have the same number of dimensions; {index.dim()} vs. {t.dim()}")
    axis = canonical_axis(axis, t.dim())
    chosen = GatherScatterMode.from_any(mode)
    size, signed = t.shape[axis], index.dtype.is_signed
    index = _signed(index) if size <= torch.iinfo(torch.int32).max else index.to(torch.int64)
    if wrap_negative_indices is None:
        wrap_negative_indices = mode != "promise_in_bounds"
    if wrap_negative_indices and signed:
        index = selection.where(index < 0, index + size, index)
    lines = [1 if d == axis else n for d, n in enumerate(t.shape)]
    shape = broadcast_shape(tuple(index.shape), tuple(lines))
    if not size:
        return Array(torch.zeros(shape, dtype=t.dtype, device=t.device), is_weak(arr))
    index = index.expand(shape)
    t = t.expand([size if d == axis else n for d, n in enumerate(shape)])
    places = index.clamp(0, size - 1).to(torch.int64)
    found = unsigned.via_bits(lambda x: torch.gather(x, axis, places), t)
    if chosen is GatherScatterMode.FILL_OR_DROP:
        fill = fill_of(fill_value, t)
        if fill is None:
            fill = narrow.full((), default_fill(t.dtype), t.dtype, t.device)
        found = selection.where((index >= 0) & (index < size), found, fill)
    return Array(found, is_weak(arr))


def _not_in_place(function: str, inplace: bool) -> None:
    if inplace:
        raise ValueError(
            f"jax.numpy.{function} cannot modify arrays in-place, because JAX arrays are immutable. Pass "
            "inplace=False to instead return an updated array."
        )


@moves_elements(0, 2, updates=True)
def put_along_axis(
    arr: ArrayLike, indices: ArrayLike, values: ArrayLike, axis: int | None, inplace: bool = True, *,
    mode: str | None = None,
) -> Array:  # fmt: skip
    """Return `arr` with `values` put at the places that `take_along_axis` reads; needs `inplace=False`."""
    _not_in_place("put_along_axis", inplace)
    check_arraylike("put_along_axis", arr, indices, values)
    t, index = tensor("put_along_axis", arr), tensor("put_along_axis", indices)
    shape = t.shape
    if axis is None:
        t, axis = t.flatten(), 0
    if t.dim() != index.dim():
        raise ValueError(
            f"put_along_axis arguments 'arr' and 'indices' must have same ndim. Got {t.dim()} and {index.dim()}."
        )
    new = convert(tensor("put_along_axis", values), t.dtype)
    try:
        new = new.broadcast_to(index.shape)
    except RuntimeError:
        raise ValueError(
            f"put_along_axis argument 'values' must be broadcastable to 'indices'. Got {tuple(new.shape)} and "
            f"{tuple(index.shape)}."
        ) from None
    axis = canonical_axis(axis, t.dim())
    index = index.to(torch.int64)
    index = selection.where(index < 0, index + t.shape[axis], index)
    places = [
        index if d == axis else torch.arange(n, device=t.device).reshape([-1 if i == d else 1 for i in range(t.dim())])
        for d, n in enumerate(t.shape)
    ]
    found = put_elements(t, places, new, "set", GatherScatterMode.from_any(mode))
    return Array(found.reshape(shape), is_weak(arr))


@moves_elements(0, 2, updates=True)
def put(a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = True) -> Array:
    """Return `a` with the values `v` (repeated or cut) at the flat indices `ind`; needs `inplace=False`.

    Indices out of bounds are moved to the nearest element, in mode "wrap" wrapped around; negative ones count from the
    end, except in mode "clip".
    """
    _not_in_place("put", inplace)
    t, index = tensor("put", a), tensor("put", ind).flatten()
    values = convert(tensor_of(asarray(v)), t.dtype).flatten()
    if not t.numel() or not index.numel() or not values.numel():
        return Array(t, is_weak(a))
    if mode == "raise":
        raise NotImplementedError("The 'raise' mode to jnp.put is not supported. Use 'clip' or 'wrap'.")
    if mode not in (None, "clip", "wrap"):
        raise ValueError(f"mode should be one of 'wrap' or 'clip'; got mode={mode!r}")
    size, index = t.numel(), index.to(torch.int64)
    if mode == "wrap":
        index = torch.remainder(index, size)
    elif mode == "clip":
        index = index.clamp(0, size - 1)
    else:
        index = selection.where(index < 0, index + size, index).clamp(0, size - 1)
    repeats = -(-index.numel() // values.numel())
    values = values.repeat(repeats)[: index.numel()]
    found = put_elements(t.flatten(), [index], values, "set", GatherScatterMode.FILL_OR_DROP)
    return Array(found.reshape(t.shape), is_weak(a))


@moves_elements(0, 2, updates=True)
def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Array:
    """Return `arr` with the values `vals` (repeated or cut) where `mask` holds, in order; needs `inplace=False`."""
    _not_in_place("place", inplace)
    t, chosen = tensor("place", arr), convert(tensor("place", mask, arr), torch.bool)
    values = convert(tensor("place", vals, arr), t.dtype).flatten()
    if t.numel() != chosen.numel():
        raise ValueError("place: arr and mask must be the same size")
    if not values.numel():
        raise ValueError("Cannot place values from an empty array")
    if not t.numel():
        return Array(t, is_weak(arr))
    flat = chosen.flatten()
    rank = torch.remainder(torch.cumsum(flat, 0) - 1, values.numel())
    new = unsigned.via_bits(lambda x: torch.index_select(x, 0, rank), values)
    return Array(selection.where(flat, new, t.flatten()).reshape(t.shape), is_weak(arr))


@moves_elements(1)
def choose(a: ArrayLike, choices: Any, out: None = None, mode: str = "raise") -> Array:
    """Return elements of the arrays `choices`, `a` saying which for each place.

    In mode "raise", values of `a` must be known and in range (`ValueError`); "wrap" and "clip" bring them there.
    """
    no_out("choose", out)
    check_arraylike("choose", a)
    index = tensor("choose", a)
    if index.is_floating_point() or index.is_complex() or index.dtype is torch.bool:
        raise ValueError("`a` array must be integer typed")
    if not isinstance(choices, list | tuple):
        choices = [Array(t) for t in tensor("choose", choices).unbind(0)]
    count = len(choices)
    if mode == "raise":
        known = concrete_values(
            as_array(a),
            errors.ConcretizationTypeError,
            "The error occurred because jnp.choose was jit-compiled with mode='raise'. Use mode='wrap' or "
            "mode='clip' instead.",
        )
        if ((known < 0) | (known >= count)).any():
            raise ValueError("invalid entry in choice array")
    elif mode == "wrap":
        index = torch.remainder(index.to(torch.int64), count)
    elif mode == "clip":
        index = index.to(torch.int64).clamp(0, count - 1)
    else:
        raise ValueError(f"mode={mode!r} not understood. Must be 'raise', 'wrap', or 'clip'")
    found, _ = promote("choose", *choices)
    shape = broadcast_shape(tuple(index.shape), *(tuple(t.shape) for t in found))
    index = index.to(torch.int64).broadcast_to(shape)
    stacked = torch.stack([t.broadcast_to(shape) for t in found])
    return Array(unsigned.via_bits(lambda s: torch.gather(s, 0, index.unsqueeze(0)).squeeze(0), stacked))


@moves_elements(1)
def compress(
    condition: ArrayLike, a: ArrayLike, axis: int | None = None, *, size: int | None = None, fill_value: ArrayLike = 0,
    out: None = None,
) -> Array:  # fmt: skip
    """Return the slices of `a` along `axis` (None: of the flattened array) where the 1-d `condition` holds.

    With `size`, which tracing needs, the result is cut, or filled with `fill_value`.
    """
    no_out("compress", out)
    check_arraylike("compress", condition, a, fill_value)
    mask, t = convert(tensor("compress", condition, a), torch.bool), tensor("compress", a, condition)
    if mask.dim() != 1:
        raise ValueError("condition must be a 1D array")
    t = t.flatten() if axis is None else t.movedim(canonical_axis(axis, t.dim()), 0)
    place = 0 if axis is None else canonical_axis(axis, t.dim())
    length = min(mask.shape[0], t.shape[0])
    extra, mask, t = mask[t.shape[0] :], mask[:length], t[:length]
    if size is None:
        known = concrete_values(Array(mask), errors.NonConcreteBooleanIndexError)
        if concrete_values(Array(extra), errors.NonConcreteBooleanIndexError).any():
            raise ValueError("condition contains entries that are out of bounds")
        found = Array(t, is_weak(a))[known]  # pyright: ignore
    elif not 0 <= size <= t.shape[0]:
        raise ValueError(
            f"size must be positive and not greater than the size of the array axis; got size={size} for "
            f"a.shape[axis]={t.shape[0]}"
        )
    else:
        filler = convert(tensor("compress", fill_value, a), t.dtype)
        t = selection.where(mask.reshape([-1, *[1] * (t.dim() - 1)]), t, filler)
        order = torch.sort(mask.to(torch.uint8), descending=True, stable=True).indices[:size]
        found = Array(unsigned.via_bits(lambda x: torch.index_select(x, 0, order), t), is_weak(a))
    return Array(found._tensor.movedim(0, place), found._weak) if place else found


@moves_elements(1)
def extract(condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: ArrayLike = 0) -> Array:
    """Return the elements of the flattened `arr` where the flattened condition holds; `size` as in `compress`."""
    check_arraylike("extract", condition, arr, fill_value)
    flat, mask = tensor("extract", arr).flatten(), tensor("extract", condition, arr).flatten()
    return compress(Array(mask), Array(flat, is_weak(arr)), size=size, fill_value=fill_value)


def ravel_multi_index(
    multi_index: Sequence[ArrayLike],
    dims: Sequence[int],
    mode: str = "raise",
    order: str = "C",
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """Return flat indices of a tuple of indices into an array of shape `dims`.

    Mode "raise" needs known indices (`ValueError` out of bounds); "clip" and "wrap" bring them into bounds, "ignore"
    takes them as they are. Without `dtype` the result has the indices' common dtype.
    """
    if len(multi_index) != len(dims):
        raise ValueError(f"len(multi_index)={len(multi_index)} != len(dims)={len(dims)}")
    sizes = [static_int(d, "in `dims` argument of ravel_multi_index()") for d in dims]
    check_arraylike("ravel_multi_index", *multi_index)
    found = [tensor("ravel_multi_index", i) for i in multi_index]
    for t in found:
        _check_integer(t, "only int indices permitted: they")
    found = [t.to(torch.int64) for t in found]
    if mode == "raise":
        for index, size in zip(multi_index, sizes, strict=True):
            known = concrete_values(as_array(index), errors.ConcretizationTypeError, "Use mode='wrap' or mode='clip'.")
            if ((known < 0) | (known >= size)).any():
                raise ValueError("invalid entry in coordinates array")
    elif mode == "clip":
        found = [t.clamp(0, n - 1) for t, n in zip(found, sizes, strict=True)]
    elif mode == "wrap":
        found = [torch.remainder(t, n or 1) for t, n in zip(found, sizes, strict=True)]
    elif mode != "ignore":
        raise ValueError(f"invalid mode={mode!r}. Expected 'raise', 'wrap', 'clip' or 'ignore'")
    if order not in ("C", "F"):
        raise ValueError(f"invalid order={order!r}. Expected 'C' or 'F'")
    pairs = list(zip(found, sizes, strict=True))
    common = promote("ravel_multi_index", *multi_index)[0][0].dtype if len(multi_index) else int_dtype()
    target = common if dtype is None else dtype_or(dtype, "ravel_multi_index", None)
    flat = torch.zeros((), dtype=torch.int64, device=found[0].device if found else default_torch_device())
    for index, size in pairs if order == "C" else reversed(pairs):
        flat = flat * size + index
    return Array(convert(flat, target))


def unravel_index(indices: ArrayLike, shape: Shape | ArrayLike) -> tuple[Array, ...]:
    """Return flat indices into an array of this shape, which may be traced, as one index per axis; those out of bounds are clipped."""
    check_arraylike("unravel_index", indices)
    sizes: Any = shape if isinstance(shape, Sequence) else as_array(shape)
    if isinstance(sizes, Array):
        if sizes.ndim > 1:
            raise ValueError("unravel_index: shape should be a scalar or 1D sequence.")
        sizes = list(sizes) if sizes.ndim else [sizes]
    rest, found = as_array(indices), []
    for size in reversed(sizes):
        found.append(rest % size)
        rest = rest // size
    beyond, before = rest > 0, rest + 1 < 0
    return tuple(where(beyond, n - 1, where(before, 0, i)) for n, i in zip(sizes, reversed(found), strict=True))
