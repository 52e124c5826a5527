"""The methods of ufuncs that have no faster form: by a loop over the axis."""

from typing import Any, Protocol

import torch

from .._core.array import Array, as_array, tensor_of
from .._core.dimensions import canonical_axis
from .._core.typing import ArrayLike
from .creation import asarray, full_like
from .joining import stack
from .manipulation import expand_dims, moveaxis
from .selection import where as choose_where


class Ufunc(Protocol):
    """What is known here of a ufunc: it is called, and has a name and perhaps a neutral element."""

    __name__: str
    identity: Any

    def __call__(self, *args: Any) -> Any:
        """Apply the function element by element."""


def _typed(a: Any, dtype: Any) -> Array:
    return as_array(a) if dtype is None else asarray(a, dtype=dtype)


def reduce(function: Ufunc, a: ArrayLike, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any) -> Array:
    """Combine the elements along one axis (None: all of them) from the left."""
    source = _typed(a, dtype)
    if isinstance(axis, tuple):
        raise NotImplementedError("ufunc.reduce over more than one axis is not supported. Reduce one axis at a time.")
    rank = source.ndim
    mask = None if where is None else tensor_of(as_array(where)).broadcast_to(source.shape)
    whole = axis is None
    if whole:
        source, mask = Array(tensor_of(source).flatten(), source._weak), None if mask is None else mask.flatten()
        axis = 0
    axis = canonical_axis(axis, source.ndim)
    rows = [Array(t, source._weak) for t in tensor_of(source).unbind(axis)]
    start = function.identity if initial is None else initial
    if initial is not None or not rows or where is not None:
        if start is None:
            raise ValueError(f"zero-size array to reduction operation {function.__name__} which has no identity")
        shape = source.shape[:axis] + source.shape[axis + 1 :]
        found = full_like(source, start, shape=shape)
    else:
        found, rows = rows[0], rows[1:]
    masks = None
    if mask is not None:
        masks = [Array(m) for m in mask.unbind(axis)]
    for k, row in enumerate(rows):
        combined = function(found, row)
        found = combined if masks is None else choose_where(masks[k], combined, found)
    found = Array(found._tensor)
    if not keepdims:
        return found
    return expand_dims(found, tuple(range(rank)) if whole else axis)


def accumulate(function: Ufunc, a: ArrayLike, axis: int, dtype: Any) -> Array:
    """Return all partial results along `axis`."""
    source = _typed(a, dtype)
    rows = [Array(t) for t in tensor_of(source).unbind(axis)]
    if not rows:
        return source
    kind = function(rows[0], rows[0]).dtype
    found = [asarray(rows[0], dtype=kind)]
    for row in rows[1:]:
        found.append(asarray(function(found[-1], row), dtype=kind))
    return stack(found, axis)


def at(function: Ufunc, a: ArrayLike, indices: Any, b: Any) -> Array:
    """Apply `function` at `indices` one after the other, so that repeats are applied again."""
    source = as_array(a)
    flat = Array(torch.arange(source.size, device=source._tensor.device).reshape(source.shape))
    places = flat[indices]  # pyright: ignore
    count = places.size
    values = None if b is None else tensor_of(as_array(b)).broadcast_to(places.shape).flatten()
    kind = source.dtype if values is None else function(source, Array(values[:1])[0]).dtype  # pyright: ignore
    out = asarray(Array(tensor_of(source).flatten(), source._weak), dtype=kind)
    order = tensor_of(places).flatten()
    for k in range(count):
        place = Array(order[k])
        element = out[place]  # pyright: ignore
        new = function(element) if values is None else function(element, Array(values[k]))
        out = out.at[place].set(asarray(new, dtype=kind))  # pyright: ignore
    return Array(out._tensor.reshape(source.shape))


def reduceat(function: Ufunc, a: ArrayLike, indices: Any, axis: int, dtype: Any) -> Array:
    """Reduce over the slices that start at `indices`; where the next one is not larger, take the element."""
    source = _typed(a, dtype)
    starts = as_array(indices)
    if starts.ndim != 1:
        raise ValueError(f"indices must be one-dimensional; got indices.shape={starts.shape}")
    if starts.dtype.kind not in "iu":
        raise ValueError(f"indices must be integers; got dtype {starts.dtype}")
    axis = canonical_axis(axis, source.ndim)
    partial = moveaxis(source, axis, 0)
    size = partial.shape[0]
    begin = tensor_of(starts).to(torch.int64)
    end = torch.cat([begin[1:], torch.full((1,), size, dtype=torch.int64, device=begin.device)])
    found = partial[Array(begin)]  # pyright: ignore
    column = [begin.shape[0], *[1] * (partial.ndim - 1)]
    for step in range(1, size):
        place = begin + step
        inside = Array((place < end).reshape(column))
        nxt = asarray(function(found, partial[Array(place)]), dtype=source.dtype)  # pyright: ignore
        found = choose_where(inside, nxt, found)
    return moveaxis(Array(found._tensor), 0, axis)
