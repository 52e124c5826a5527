"""`x.at[index]`: functional forms of in-place updates."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._core import dtypes, unsigned
from .._core.array import Array, is_abstract, tensor_of
from .._core.promotion import convert
from .._core.typing import ArrayLike
from .._lax.out_sharding import laid_over
from .arguments import converted
from .creation import asarray
from .indexing import fill_of, may_repeat, mode_of, put_index, set_plainly, take_index


class _IndexUpdateHelper:
    """What `x.at` is; indexing it gives an object with the update methods."""

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> "_IndexUpdateRef":
        return _IndexUpdateRef(self.array, index)

    def __repr__(self) -> str:
        return f"_IndexUpdateHelper({self.array!r})"


def _own_dtype(value: Any, t: Tensor) -> Any:
    """Return the dtype of `t` for numbers that it holds and int32 does not; None, where a value has a dtype of its own."""
    is_wide = type(value) is int and t.dtype in (torch.uint32, torch.uint64)
    return dtypes.TO_NUMPY[t.dtype] if is_wide and 0 <= value <= torch.iinfo(t.dtype).max else None


class _IndexUpdateRef:
    """What `x.at[index]` is. Its methods return a new array; updates out of bounds are dropped by default.

    `mode` is "fill"/"drop", "clip" or "promise_in_bounds". `indices_are_sorted` and `unique_indices` are promises
    that may make an update faster. With `wrap_negative_indices` False, negative indices are out of bounds.
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Array, index: Any) -> None:
        self.array, self.index = array, index

    def __repr__(self) -> str:
        return f"_IndexUpdateRef({self.array!r}, {self.index!r})"

    def get(
        self, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
        fill_value: ArrayLike | None = None, out_sharding: Any = None, wrap_negative_indices: bool = True,
    ) -> Array:  # fmt: skip
        """Return the elements at the index; in mode "fill", those out of bounds are `fill_value` (default NaN)."""
        t = tensor_of(self.array)
        fill = fill_of(fill_value, t)
        found = Array(take_index(t, self.index, mode_of(mode), fill, wrap_negative_indices), self.array._weak)
        return laid_over(out_sharding, "get", found)

    def _put(self, values: Any, combine: str, unique: bool, mode: Any, out_sharding: Any, wrap: bool) -> Array:
        if combine == "set" and mode is None and out_sharding is None and wrap:
            new = set_plainly(self.array._tensor, self.index, values)
            if new is not None:
                return Array(new, self.array._weak)
        t = tensor_of(self.array)
        source = values if isinstance(values, Array) else asarray(values, _own_dtype(values, t), device=t.device)
        _warn_unsafe(source, t.dtype)
        common = t.dtype if combine == "set" else _common_dtype(self.array, source)
        refuse_booleans(combine, common)
        given = converted(tensor_of(source), common)
        if combine == "sub":
            given, combine = unsigned.neg(given), "add"
        new = put_index(convert(t, common), self.index, given, combine, mode_of(mode), unique, wrap)
        return laid_over(out_sharding, combine, Array(converted(new, t.dtype), self.array._weak))

    def set(
        self, values: ArrayLike, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
        out_sharding: Any = None, wrap_negative_indices: bool = True,
    ) -> Array:  # fmt: skip
        """Return `x` after `x[index] = values`; where an element is set more than once, the last one stays."""
        return self._put(values, "set", unique_indices, mode, out_sharding, wrap_negative_indices)

    def add(
        self, values: ArrayLike, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
        out_sharding: Any = None, wrap_negative_indices: bool = True,
    ) -> Array:  # fmt: skip
        """Return `x` after `x[index] += values`, repeated indices added repeatedly."""
        return self._put(values, "add", unique_indices, mode, out_sharding, wrap_negative_indices)

    def subtract(
        self, values: ArrayLike, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
        out_sharding: Any = None, wrap_negative_indices: bool = True,
    ) -> Array:  # fmt: skip
        """Return `x` after `x[index] -= values`, repeated indices subtracted repeatedly."""
        return self._put(values, "sub", unique_indices, mode, out_sharding, wrap_negative_indices)

    def multiply(
        self, values: ArrayLike, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
        out_sharding: Any = None, wrap_negative_indices: bool = True,
    ) -> Array:  # fmt: skip
        """Return `x` after `x[index] *= values`, repeated indices multiplied repeatedly."""
        return self._put(values, "mul", unique_indices, mode, out_sharding, wrap_negative_indices)

    mul = multiply

    def _factors(self, values: Any, unique: bool, mode: Any, out_sharding: Any, wrap: bool) -> Array:
        ones = Array(torch.ones_like(tensor_of(self.array)), self.array._weak)
        return _IndexUpdateRef(ones, self.index)._put(values, "mul", unique, mode, out_sharding, wrap)

    def divide(
        self, values: ArrayLike, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
        out_sharding: Any = None, wrap_negative_indices: bool = True,
    ) -> Array:  # fmt: skip
        """Return `x` after `x[index] /= values`; integers become floating."""
        return self.array / self._factors(values, unique_indices, mode, out_sharding, wrap_negative_indices)  # pyright: ignore

    def power(
        self, values: ArrayLike, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
        out_sharding: Any = None, wrap_negative_indices: bool = True,
    ) -> Array:  # fmt: skip
        """Return `x` after `x[index] **= values`."""
        return self.array ** self._factors(values, unique_indices, mode, out_sharding, wrap_negative_indices)  # pyright: ignore

    def min(
        self, values: ArrayLike, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
        out_sharding: Any = None, wrap_negative_indices: bool = True,
    ) -> Array:  # fmt: skip
        """Return `x` after `x[index] = minimum(x[index], values)`."""
        return self._put(values, "min", unique_indices, mode, out_sharding, wrap_negative_indices)

    def max(
        self, values: ArrayLike, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
        out_sharding: Any = None, wrap_negative_indices: bool = True,
    ) -> Array:  # fmt: skip
        """Return `x` after `x[index] = maximum(x[index], values)`."""
        return self._put(values, "max", unique_indices, mode, out_sharding, wrap_negative_indices)

    def apply(
        self, func: Callable[[ArrayLike], Array], *, indices_are_sorted: bool = False, unique_indices: bool = False,
        mode: Any = None, wrap_negative_indices: bool = True,
    ) -> Array:  # fmt: skip
        """Return `x` after `x[index] = func(x[index])`; an index given n times applies `func` n times.

        With traced indices that are not promised unique, `func` is called once per update.
        """
        t = tensor_of(self.array)
        if unique_indices or not may_repeat(self.index):
            new = func(Array(take_index(t, self.index, wrap=wrap_negative_indices), self.array._weak))
            new = convert(tensor_of(asarray(new)), t.dtype)
            return Array(
                put_index(t, self.index, new, "set", mode_of(mode), True, wrap_negative_indices), self.array._weak
            )
        counts = torch.zeros_like(t, dtype=torch.int32)
        ones = torch.ones((), dtype=torch.int32, device=t.device)
        counts = put_index(counts, self.index, ones, "add", mode_of(mode), False, wrap_negative_indices)
        out = self.array
        for time in range(self._most(counts)):
            new = convert(tensor_of(asarray(func(out))), t.dtype)
            out = Array(torch.where(counts > time, new, tensor_of(out)), out._weak)
        return out

    def _most(self, counts: Tensor) -> int:
        if not counts.numel():
            return 1
        if not is_abstract(Array(counts)):
            return int(Array(counts)._concrete(RuntimeError).max())
        chosen = take_index(torch.zeros_like(counts), self.index)
        return max(1, chosen.numel())


def refuse_booleans(combine: str, dtype: torch.dtype) -> None:
    """Raise `TypeError` where booleans were to be added or multiplied."""
    if dtype is torch.bool and combine in ("add", "sub", "mul"):
        raise TypeError(f"{combine} does not accept dtype bool. Convert the array to integers first.")


def _common_dtype(array: Array, values: Array) -> torch.dtype:
    """Return the dtype in which an array's elements are combined with these values."""
    own = array._tensor.dtype
    if values._tensor.dtype is own:
        return own
    return dtypes.to_torch(dtypes.promote((array.dtype, array._weak), (values.dtype, values._weak))[0])


def _warn_unsafe(values: Array, dtype: torch.dtype) -> None:
    source = values._tensor.dtype
    if source is dtype or (values._weak and _kind(source) <= _kind(dtype)):
        return
    weak = (values.dtype, values._weak), (dtypes.TO_NUMPY[dtype], False)
    if dtypes.promote(*weak)[0] != dtypes.TO_NUMPY[dtype]:
        warnings.warn(
            f"scatter inputs have incompatible types: cannot safely cast value from dtype={values.dtype} to "
            f"dtype={dtypes.TO_NUMPY[dtype]} with jax_numpy_dtype_promotion=standard. Convert the values explicitly.",
            FutureWarning,
            stacklevel=4,
        )


def _kind(dtype: torch.dtype) -> int:
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 0 if dtype is torch.bool else 1
