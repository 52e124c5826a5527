"""Rows of a tensor at places set, added to, multiplied or taken extrema of: how torch does it, and how it is differentiated.

The derivatives are ours: torch's make arrays of zeros of the size of all rows, of products they look at values, and of rows that
are overwritten they hand the cotangent to each update.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._core import axes
from .._core.graph import TensorType, is_plain_evaluation
from .._core.primitive import Dims, Primitive, batch_front, conjugate, differentiable, instantiate


def _spare_row(flat: Tensor) -> Tensor:
    """Return `flat` with one more row, the place for what is dropped."""
    return torch.cat([flat, flat[:1]])


def _scatter_add(flat: Tensor, places: Tensor, updates: Tensor) -> Tensor:
    if not flat.is_complex() or flat.is_cpu:
        return flat.scatter_add(0, places, updates)
    places = places.unsqueeze(-1).expand(*places.shape, 2)  # torch has it for complex numbers on the CPU alone
    return torch.view_as_complex(torch.view_as_real(flat).scatter_add(0, places, torch.view_as_real(updates)))


def _index_put(accumulate: bool) -> Any:
    def make(drop: bool, unique: bool) -> Any:
        def put(flat: Tensor, places: Tensor, updates: Tensor) -> Tensor:
            padded = _spare_row(flat) if drop else flat
            if accumulate and flat.dim() == 1 and flat.dtype.itemsize > 1:  # a third of index_put's time
                out = _scatter_add(padded, places, updates)
            else:
                out = padded.index_put((places,), updates, accumulate)
            return out[:-1] if drop else out

        return put

    return make


def _extremum(reduce: str) -> Any:
    def make(drop: bool, unique: bool) -> Any:
        def put(flat: Tensor, places: Tensor, updates: Tensor) -> Tensor:
            dtype = flat.dtype
            if dtype is torch.bool or dtype.itemsize == 1:
                wide = torch.float32 if dtype.is_floating_point else torch.int16
                flat, updates = flat.to(wide), updates.to(wide)
            places = places.reshape((-1, *(1,) * (flat.dim() - 1))).expand_as(updates)
            padded = _spare_row(flat) if drop else flat
            if dtype.is_complex:
                out = _complex_extremum(padded, places, updates, reduce)
            else:
                out = padded.scatter_reduce(0, places, updates, reduce)
            return (out[:-1] if drop else out).to(dtype)

        return put

    return make


def _complex_extremum(flat: Tensor, places: Tensor, updates: Tensor, reduce: str) -> Tensor:
    # The extreme real part, then the extreme imaginary part of those that have it.
    real = flat.real.scatter_reduce(0, places, updates.real, reduce)
    outside = -torch.inf if reduce == "amax" else torch.inf
    imag = torch.where(flat.real == real, flat.imag, outside)
    candidates = torch.where(updates.real == real.gather(0, places), updates.imag, outside)
    imag = imag.scatter_reduce(0, places, candidates, reduce)
    return torch.complex(real, torch.where(torch.isnan(real), 0.0, imag))


def _multiply(drop: bool, unique: bool) -> Any:
    def put(flat: Tensor, places: Tensor, updates: Tensor) -> Tensor:
        padded = _spare_row(flat) if drop else flat
        if unique:
            out = padded.index_put((places,), padded[places] * updates)
        else:
            dtype = torch.float32 if padded.dtype.itemsize == 1 and padded.dtype.is_floating_point else padded.dtype
            places = places.reshape((-1, *(1,) * (flat.dim() - 1))).expand_as(updates)
            out = padded.to(dtype).scatter_reduce(0, places, updates.to(dtype), "prod").to(padded.dtype)
        return out[:-1] if drop else out

    return put


_PUT = {
    "set": _index_put(False),
    "add": _index_put(True),
    "mul": _multiply,
    "min": _extremum("amin"),
    "max": _extremum("amax"),
}


def put(combine: str, drop: bool, unique: bool, dtype: torch.dtype) -> Callable[..., Tensor]:
    """Return what combines updates with rows at places, of which `unique` says that none repeats."""
    repeats = combine == "set" and not unique
    is_ours = combine in _LINEAR or (unique and dtype.itemsize > 1 and not dtype.is_complex)
    if repeats or (is_ours and differentiable(dtype) and not is_plain_evaluation()):
        primitive = _PutElements(combine, drop, unique)
        return lambda flat, places, updates: primitive(flat, places, updates)[0]
    return _PUT[combine](drop, unique)


_LINEAR = ("set", "add", "mul")  # in the rows, and in the updates


class _PutElements(Primitive):
    """Rows of a tensor overwritten at places, or added to, or multiplied; or the extrema of rows at places that do not repeat.

    torch's derivative hands the cotangent of an overwritten row to each update of it; only the last one counts. And it makes
    arrays of zeros, of the size of all rows, for the one behind them and for those that are multiplied.
    """

    __name__ = "put_elements"

    def __init__(self, combine: str, drop: bool, unique: bool) -> None:
        self.combine, self.drop, self.unique = combine, drop, unique

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(inputs[0])]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return [_PUT[self.combine](self.drop, self.unique)(*inputs)]

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        if self.combine == "set" and not self.unique:
            return self._in_one_row(size, dims, *inputs)
        flat, places, updates = inputs
        flat, updates = batch_front(flat, dims[0], size), batch_front(updates, dims[2], size)
        return _PutInLanes(self, dims[1], size)(flat, places, updates), [0]

    def _in_one_row(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        flat, places, updates = inputs
        if dims[1] is None:
            flat, updates = batch_front(flat, dims[0], size), batch_front(updates, dims[2], size)
            return self(flat.movedim(0, 1), places, updates.movedim(0, 1)), [1]
        flat, places, updates = (batch_front(t, d, size) for t, d in zip(inputs, dims, strict=True))
        rows = flat.shape[1]
        lane = torch.arange(size, device=places.device).unsqueeze(1) * rows
        places = torch.where(places < rows, places + lane, size * rows) if self.drop else places + lane
        (out,) = self(flat.flatten(0, 1), places.flatten(), updates.flatten(0, 1))
        return [out.unflatten(0, (size, rows))], [0]

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        flat, places, updates = primals
        of_flat, of_updates = instantiate(tangents[0], flat), instantiate(tangents[2], updates)
        if self.combine in ("min", "max"):
            old, new = self._shares(flat, places, updates)
            moved = old * self._read(of_flat, places) + new * of_updates
            return [*_PutElements("set", self.drop, True)(of_flat, places, moved)]
        if self.combine != "mul":
            return [*self(of_flat, places, of_updates)]
        moved = torch.zeros_like(flat) if tangents[0] is None else self(of_flat, places, updates)[0]
        if tangents[2] is None:
            return [moved]
        return [*_PutElements("add", self.drop, self.unique)(moved, places, self._factors(*primals) * of_updates)]

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        (flat, places, updates), (cotangent,) = primals, cotangents
        assert cotangent is not None
        if self.combine == "add":
            return [cotangent, None, self._read(cotangent, places)]
        if self.combine == "set":
            return [*self(cotangent, places, torch.zeros_like(updates)), None, self._read(cotangent, places)]
        if self.combine in ("min", "max"):
            (old, new), found = self._shares(flat, places, updates), self._read(cotangent, places)
            return [*_PutElements("set", self.drop, True)(cotangent, places, old * found), None, new * found]
        of_flat = self(cotangent, places, conjugate(updates))
        return [*of_flat, None, self._read(cotangent, places) * conjugate(self._factors(flat, places, updates))]

    def _read(self, flat: Tensor, places: Tensor) -> Tensor:
        """Return the rows at the places of updates, zeros for what is dropped or overwritten."""
        rows = flat.shape[0]
        found = flat[places.clamp(max=rows - 1)]
        counts = places < rows if self.drop else None
        if self.combine == "set" and not self.unique:
            order = torch.arange(places.shape[0], device=places.device)
            (last,) = self(torch.full((rows,), -1, device=places.device), places, order)
            wins = last[places.clamp(max=rows - 1)] == order
            counts = wins if counts is None else wins & counts
        if counts is None:
            return found
        counts = counts.reshape((-1, *(1,) * (flat.dim() - 1)))
        return torch.where(counts, found, torch.zeros((), dtype=flat.dtype, device=flat.device))

    def _shares(self, flat: Tensor, places: Tensor, updates: Tensor) -> tuple[Tensor, Tensor]:
        """Return which parts rows and updates have in their extrema: each half where they are equal, none in NaN."""
        rows = self._read(flat, places)
        extrema = (torch.maximum if self.combine == "max" else torch.minimum)(rows, updates)
        old, new = ((t == extrema).to(flat.dtype) for t in (rows, updates))
        count = (old + new).clamp(min=1)
        return old / count, new / count

    def _factors(self, flat: Tensor, places: Tensor, updates: Tensor) -> Tensor:
        """Return by what each update is multiplied: the row, and the other updates at its place.

        torch's own derivatives of such products look at values, and in forward mode are zero (scatter_reduce, 2.13).
        """
        rows = self._read(flat, places)
        if self.unique:
            return rows
        is_zero = updates == 0
        given = torch.where(is_zero, 1, updates)
        (product,) = self(torch.ones_like(flat), places, given)
        (zeros,) = _PutElements("add", self.drop, False)(torch.zeros_like(flat), places, is_zero.to(flat.dtype))
        count = self._read(zeros, places)
        others = torch.where(count == is_zero, self._read(product, places) / given, 0)
        return rows * others


class _PutInLanes(Primitive):
    """Elements put into each of a batch of tensors, by torch's batching rules, with the derivative of one."""

    __name__ = "put_in_lanes"

    def __init__(self, put: "_PutElements | _PutInLanes", dim: int | None, size: int) -> None:
        self.put, self.dim, self.size = put, dim, size

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(inputs[0])]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return self._mapped(self.put.run, *inputs)

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        flat, places, updates = inputs
        flat, updates = batch_front(flat, dims[0], size), batch_front(updates, dims[2], size)
        return _PutInLanes(self, dims[1], size)(flat, places, updates), [0]

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        given = [t for t in tangents if t is not None]

        def rule(*tensors: Tensor) -> list[Tensor]:
            found = iter(tensors[3:])
            return self.put.jvp(tensors[:3], [None if t is None else next(found) for t in tangents])  # pyright: ignore

        return [*self._mapped(rule, *primals, *given)]

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:

        def rule(*tensors: Tensor) -> list[Tensor]:
            return [c for c in self.put.vjp(tensors[:3], [], tensors[3:]) if c is not None]

        (cotangent,) = cotangents
        assert cotangent is not None
        of_flat, of_updates = self._mapped(rule, *primals, cotangent)
        return [of_flat, None, of_updates]

    def _mapped(self, function: Callable[..., list[Tensor]], *inputs: Tensor) -> list[Tensor]:
        dims = [0, self.dim, *[0] * (len(inputs) - 2)]
        found = axes.map_tensors(function, inputs, dims, self.size, None)
        return [batch_front(out, dim, self.size) for out, dim in found]
