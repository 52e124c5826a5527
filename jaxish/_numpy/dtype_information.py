"""Questions about dtypes, and the abstract scalar types and constants of the namespace."""

from typing import Any

import numpy as np

from .._core import dtypes
from .._core.array import Array
from .._core.dtypes import finfo as finfo
from .._core.dtypes import iinfo as iinfo
from .._core.dtypes import promote_types as promote_types
from .._core.typing import DTypeLike

ndarray = Array
dtype = np.dtype
generic = np.generic
number = np.number
integer = np.integer
signedinteger = np.signedinteger
unsignedinteger = np.unsignedinteger
inexact = np.inexact
floating = np.floating
complexfloating = np.complexfloating
flexible = np.flexible
character = np.character
object_ = np.object_
ComplexWarning = np.exceptions.ComplexWarning

e = np.e
euler_gamma = np.euler_gamma
inf = np.inf
nan = np.nan
newaxis = None
pi = np.pi

_KINDS = {
    "bool": {"b"}, "signed integer": {"i"}, "unsigned integer": {"u"}, "integral": {"i", "u"},
    "real floating": {"f"}, "complex floating": {"c"}, "numeric": {"i", "u", "f", "c"},
}  # fmt: skip


def result_type(*args: Any) -> Any:
    """Return the dtype of an operation on `args` (arrays, scalars or dtypes) under JAX's promotion rules."""
    return dtypes.result_type(*args)


def issubdtype(arg1: DTypeLike, arg2: DTypeLike) -> bool:
    """Tell whether dtype `arg1` is `arg2` or below it in NumPy's hierarchy; see `jax.dtypes.issubdtype`."""
    return dtypes.issubdtype(arg1, arg2)


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """Tell whether NumPy casts one dtype to another under its rule `casting`."""
    return bool(np.can_cast(dtypes.dtype_of(from_), dtypes.dtype_of(to), casting))  # pyright: ignore


def isdtype(dtype: DTypeLike | None, kind: Any) -> bool:
    """Tell whether `dtype` is of a kind of the array API ("integral", ...), equals a dtype, or any of a tuple of these."""
    wanted = dtypes.dtype_of(dtype) if not isinstance(dtype, str) else np.dtype(dtype)
    for option in kind if isinstance(kind, tuple) else (kind,):
        if isinstance(option, str) and option in _KINDS:
            if dtypes.kind_of(wanted) in _KINDS[option]:
                return True
        elif isinstance(option, str):
            try:
                if wanted == np.dtype(option):
                    return True
            except TypeError:
                raise ValueError(f"Unrecognized kind {option!r}; expected one of {', '.join(_KINDS)}") from None
        elif wanted == dtypes.dtype_of(option):
            return True
    return False


def isscalar(element: Any) -> bool:
    """Tell whether `element` is a scalar or an array without dimensions."""
    if isinstance(element, Array | np.ndarray):
        return not element.ndim
    if hasattr(element, "__jax_array__"):
        return isscalar(element.__jax_array__())
    return bool(np.isscalar(element))


def iterable(y: Any) -> bool:
    """Tell whether `y` can be iterated over."""
    if isinstance(y, Array):
        return bool(y.ndim)
    return bool(np.iterable(y))
