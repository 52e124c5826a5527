"""What all sparse formats have, and the warnings about what costs more than it seems."""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ..._core.array import Array, is_abstract
from ..._core.dimensions import canonical_shape

Shape: TypeAlias = tuple[int, ...]


class SparseEfficiencyError(ValueError):
    """A layout would store so many zeros that it is probably a mistake."""


class SparseEfficiencyWarning(UserWarning):
    """A layout stores many zeros."""


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """JAX's warning of operations that cuSPARSE does not do. It is not given here."""


def _missing(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{self.__class__}.{name}")

    return method


class JAXSparse:
    """Base class of sparse arrays: pytrees of their arrays, with a shape."""

    data: Array
    shape: Shape

    __hash__ = None  # pyright: ignore

    def __init__(self, args: tuple[Array, ...], *, shape: Sequence[int]) -> None:
        del args
        self.shape = canonical_shape(shape)

    @property
    def dtype(self) -> Any:
        """The NumPy dtype of the elements."""
        return self.data.dtype

    @property
    def nse(self) -> int:
        """The number of elements that are stored, in each batch."""
        raise NotImplementedError(f"{self.__class__}.nse")

    @property
    def size(self) -> int:
        """The number of elements, stored or not."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        try:
            text = f"{type(self).__name__}({self.dtype}{list(self.shape)}, nse={self.nse}{self._layout_text()})"
        except Exception:  # leaves that are no arrays, as while a pytree is looked at
            return f"{type(self).__name__}(<invalid>)"
        return f"Traced[{text}]" if isinstance(self.data, Array) and is_abstract(self.data) else text

    def _layout_text(self) -> str:
        return ""

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """Return the arrays, and what else makes up the sparse array."""
        raise NotImplementedError(f"{self.__class__}.tree_flatten")

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> "JAXSparse":
        """Return the sparse array of its parts."""
        raise NotImplementedError(f"{cls}.tree_unflatten")

    def transpose(self, axes: Sequence[int] | None = None) -> "JAXSparse":
        """Return the array with its dimensions reversed, or in the order `axes`."""
        raise NotImplementedError(f"{self.__class__}.transpose")

    def todense(self) -> Array:
        """Return the dense array."""
        raise NotImplementedError(f"{self.__class__}.todense")

    # What only some formats have.
    sum = _missing("sum")
    __neg__ = _missing("__neg__")
    __pos__ = _missing("__pos__")
    __matmul__ = _missing("__matmul__")
    __rmatmul__ = _missing("__rmatmul__")
    __mul__ = _missing("__mul__")
    __rmul__ = _missing("__rmul__")
    __add__ = _missing("__add__")
    __radd__ = _missing("__radd__")
    __sub__ = _missing("__sub__")
    __rsub__ = _missing("__rsub__")
    __getitem__ = _missing("__getitem__")

    @property
    def T(self) -> "JAXSparse":
        """The array with its dimensions reversed."""
        return self.transpose()

    def block_until_ready(self) -> "JAXSparse":
        """Wait until the arrays are computed."""
        for array in self.tree_flatten()[0]:
            array.block_until_ready()
        return self
