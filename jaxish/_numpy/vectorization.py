"""Functions of arrays made from functions of elements, slices or pieces."""

import functools
import re
import warnings
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import torch

from .._core import config
from .._core.array import Array, as_array, check_arraylike, tensor_of
from .._core.dimensions import broadcast_shape, canonical_axis
from .._core.promotion import convert, tensor
from .._core.typing import ArrayLike
from .._transforms.vmap import vmap
from .arguments import selected
from .creation import asarray
from .manipulation import expand_dims, squeeze

_NAME = r"\w+"
_GROUP = rf"\((?:{_NAME}(?:,{_NAME})*)?\)"
_SIGNATURE = re.compile(rf"{_GROUP}(?:,{_GROUP})*->{_GROUP}(?:,{_GROUP})*")


def _parse_signature(signature: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    if not _SIGNATURE.fullmatch(signature):
        raise ValueError(f"not a valid gufunc signature: {signature}")
    sides = signature.split("->")
    inputs, outputs = ([tuple(re.findall(_NAME, group)) for group in re.findall(_GROUP, side)] for side in sides)
    return inputs, outputs


def _note_sizes(sizes: dict[str, int], shape: tuple[int, ...], names: tuple[str, ...], context: str) -> None:
    for name, n in zip(names, shape, strict=True):
        if sizes.setdefault(name, n) != n:
            raise ValueError(f"inconsistent size for core dimension {name!r}: {n} vs {sizes[name]} {context}")


def vectorize(
    pyfunc: Callable[..., Any], *, excluded: Collection[int | str] = frozenset(), signature: str | None = None
) -> Callable[..., Any]:
    """Return `pyfunc` mapped over the leading dimensions of its arguments, which are broadcast.

    `signature`, such as "(n,m),(m)->(n)", names the trailing dimensions that `pyfunc` itself takes and gives; without
    it `pyfunc` maps scalars to scalars. `excluded` are positions and names of arguments passed on as they are.
    """
    if any(not isinstance(e, str | int) for e in excluded):
        raise TypeError(f"jax.numpy.vectorize can only exclude integer or string arguments, but excluded={excluded!r}")
    if any(isinstance(e, int) and e < 0 for e in excluded):
        raise ValueError(f"excluded={excluded!r} contains negative numbers")

    @functools.wraps(pyfunc)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        context = f"on vectorized function with excluded={excluded!r} and signature={signature!r}"
        fixed = {i: a for i, a in enumerate(args) if i in excluded}
        fixed_names = {k: v for k, v in kwargs.items() if k in excluded}
        mapped_names = {k: v for k, v in kwargs.items() if k not in excluded}
        places = [i for i in range(len(args)) if i not in fixed]
        if signature is None:
            inputs: list[tuple[str, ...]] = [()] * len(places)
            outputs = None
        else:
            inputs, outputs = _parse_signature(signature)
        nones = {i for i in places if args[i] is None}
        if nones:
            if signature is not None and any(inputs[places.index(i)] for i in nones if places.index(i) < len(inputs)):
                raise ValueError(f"Cannot pass None at locations {nones} with signature={signature!r}")
            inputs = [core for i, core in zip(places, inputs, strict=True) if i not in nones]
            fixed |= dict.fromkeys(nones)
            places = [i for i in places if i not in nones]
        if len(places) != len(inputs):
            raise TypeError(
                f"wrong number of positional arguments: expected {len(inputs)}, got {len(places)} {context}"
            )

        def call(*elements: Any) -> Any:
            given = {**fixed, **dict(zip(places, elements, strict=True))}
            out = pyfunc(*(given[i] for i in range(len(args))), **fixed_names, **mapped_names)
            if outputs is not None:
                _check_outputs(out, outputs, sizes, context)
            return out

        arrays = [asarray(args[i]) for i in places]
        sizes: dict[str, int] = {}
        shapes = []
        for array, core in zip(arrays, inputs, strict=True):
            if array.ndim < len(core):
                raise ValueError(
                    f"input with shape {array.shape} does not have enough dimensions for all core dimensions {core} {context}"
                )
            rank = array.ndim - len(core)
            _note_sizes(sizes, array.shape[rank:], core, context)
            shapes.append(array.shape[:rank])
        _check_ranks(arrays, shapes, signature)
        return _mapped(call, arrays, shapes)

    return wrapped


def _check_ranks(arrays: Sequence[Array], shapes: Sequence[tuple[int, ...]], signature: str | None) -> None:
    mode = config.numpy_rank_promotion.value
    if mode == "allow" or len({len(s) for a, s in zip(arrays, shapes, strict=True) if a.ndim}) < 2:
        return
    message = (
        f"operands with shapes {[a.shape for a in arrays]} require rank promotion for jnp.vectorize function with "
        f"signature {signature}. Set the jax_numpy_rank_promotion config option to 'allow' to disable this message."
    )
    if mode == "raise":
        raise ValueError(message)
    warnings.warn(message, stacklevel=3)


def _check_outputs(out: Any, outputs: Sequence[tuple[str, ...]], sizes: dict[str, int], context: str) -> None:
    if len(outputs) > 1 and not isinstance(out, tuple):
        raise TypeError(f"output must be a tuple when multiple outputs are expected, got: {out!r} {context}")
    found = out if isinstance(out, tuple) else (out,)
    if len(found) != len(outputs):
        raise TypeError(f"wrong number of output arguments: expected {len(outputs)}, got {len(found)} {context}")
    known = dict(sizes)
    for value, names in zip(found, outputs, strict=True):
        shape = tuple(np.shape(value)) if not isinstance(value, Array) else value.shape
        if len(shape) != len(names):
            raise ValueError(f"output shape {shape} does not match core dimensions {names} {context}")
        _note_sizes(known, shape, names, context)


def _mapped(call: Callable[..., Any], arrays: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> Any:
    """Map `call` over the leading dimensions of `arrays`, those of size one not mapped but put back afterwards."""
    common = broadcast_shape(*shapes)
    rank = len(common)
    filled = [(1,) * (rank - len(s)) + s for s in shapes]
    given = [squeeze(a, tuple(d for d, n in enumerate(s) if n == 1)) for a, s in zip(arrays, shapes, strict=True)]
    single = []
    for d in reversed(range(rank)):
        axes = tuple(None if s[d] == 1 else 0 for s in filled)
        if any(axis is not None for axis in axes):
            call = vmap(call, axes)
        else:
            single.append(d)
    out = call(*given)
    if not single:
        return out
    return tuple(expand_dims(o, single) for o in out) if isinstance(out, tuple) else expand_dims(out, single)


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any) -> Array:
    """Return the results of `func1d(vector, *args, **kwargs)` for the vectors of `arr` along `axis`."""
    check_arraylike("apply_along_axis", arr)
    source = as_array(arr)
    rank = source.ndim
    axis = canonical_axis(axis, rank)

    def function(vector: Any) -> Any:
        return func1d(vector, *args, **kwargs)

    for d in range(1, rank - axis):
        function = vmap(function, in_axes=d, out_axes=-1)
    for _ in range(axis):
        function = vmap(function, in_axes=0, out_axes=0)
    return function(source)


def apply_over_axes(func: Callable[[ArrayLike, int], Array], a: ArrayLike, axes: Sequence[int]) -> Array:
    """Return `func(a, axis)` applied for one axis after the other; results that lose the axis get it back."""
    found = as_array(a)
    for axis in axes:
        reduced = func(found, axis)
        if reduced.ndim == found.ndim - 1:
            reduced = expand_dims(reduced, axis)
        if reduced.ndim != found.ndim:
            raise ValueError("function is not returning an array of the correct shape")
        found = reduced
    return found


def piecewise(x: ArrayLike, condlist: Any, funclist: list[Any], *args: Any, **kw: Any) -> Array:
    """Return, where condition k holds (the last one that does), the value or function k of `funclist` at `x`.

    A further function is for where no condition holds; the default is zero. All functions are computed everywhere.
    """
    source = as_array(x)
    t = tensor("piecewise", source)
    # Not stacked: each mask stays in registers.
    conditions = [tensor_of(asarray(c, dtype=bool, device=t.device)) for c in condlist]
    if not conditions:
        raise ValueError("piecewise: at least one condition is expected; got an empty condlist")
    if len({c.shape for c in conditions}) > 1:
        shapes = [tuple(c.shape) for c in conditions]
        raise TypeError(f"piecewise: conditions of one shape are expected; got {shapes}; broadcast them first")
    count, given = len(conditions), len(funclist)
    if given == count + 1:
        default, choices = funclist[-1], funclist[:-1]
    elif given == count:
        default, choices = 0, funclist
    else:
        raise ValueError(
            f"with {count} condition(s), either {count} or {count + 1} functions are expected; got {given}"
        )

    def value(choice: Any) -> torch.Tensor:
        found = choice(source, *args, **kw) if callable(choice) else choice
        return convert(tensor_of(asarray(found, device=t.device)), t.dtype)

    out = value(default).broadcast_to(t.shape)
    for condition, choice in zip(conditions, choices, strict=True):
        out = selected(condition, value(choice), out)
    return Array(out, source._weak)
