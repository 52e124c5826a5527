"""Arrays from files, buffers, strings and functions, and to files, by way of NumPy; printing options."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .._core.array import Array
from .._core.dimensions import canonical_shape
from .._core.typing import DTypeLike
from .._transforms.vmap import vmap
from . import dlpack
from .arguments import torch_device
from .creation import asarray
from .ranges import iota

array_repr = np.array_repr
array_str = np.array_str
save = np.save
savez = np.savez


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the array (or the mapping of arrays) in a file that `save` or `savez` wrote; arguments of `numpy.load`.

    An array of objects stays NumPy's.
    """
    found = np.load(file, *args, **kwargs)
    if isinstance(found, np.ndarray):
        if found.dtype == np.dtype("V2"):
            import ml_dtypes

            found = found.view(ml_dtypes.bfloat16)  # NumPy writes bfloat16 as raw bytes
        return found if found.dtype == object else asarray(found)
    return found


def frombuffer(buffer: Any, dtype: DTypeLike = float, count: int = -1, offset: int = 0) -> Array:
    """Return the bytes of `buffer`, from `offset` on, as a vector of `count` (-1: all) elements."""
    return asarray(np.frombuffer(buffer, dtype=dtype, count=count, offset=offset))


def fromfile(*args: Any, **kwargs: Any) -> Array:
    """Refuse: reading a file here is not what JAX does."""
    raise NotImplementedError(
        "jnp.fromfile() is not implemented because it may be non-pure and thus unsafe for use with JIT and other JAX "
        "transformations. Consider using jnp.asarray(np.fromfile(...)) instead."
    )


def fromiter(*args: Any, **kwargs: Any) -> Array:
    """Refuse: an iterator changes when it is read."""
    raise NotImplementedError(
        "jnp.fromiter() is not implemented because it may be non-pure and thus unsafe for use with JIT and other JAX "
        "transformations. Consider using jnp.asarray(np.fromiter(...)) instead."
    )


def fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str) -> Array:
    """Return the numbers in a text, separated by `sep`, as a vector."""
    return asarray(np.fromstring(string=string, dtype=dtype, count=count, sep=sep))


def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: DTypeLike = float, **kwargs: Any) -> Any:
    """Return the values of `function` at the indices of an array of this shape; the function is mapped over them."""
    sizes = canonical_shape(shape)
    for d in range(len(sizes)):
        in_axes = [0 if i == d else None for i in range(len(sizes))]
        function = vmap(function, in_axes=tuple(in_axes[::-1]))
    indices = [asarray(Array(iota(n, torch.int32, torch_device(None))), dtype=dtype) for n in sizes]
    return function(*indices, **kwargs)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """Return an array that shares the memory of an object with `__dlpack__`: `jax.dlpack.from_dlpack`."""
    return dlpack.from_dlpack(x, device, copy)


def set_printoptions(*args: Any, **kwargs: Any) -> None:
    """Set NumPy's printing options, which arrays here follow."""
    np.set_printoptions(*args, **kwargs)


def get_printoptions() -> Any:
    """Return NumPy's printing options, which arrays here follow."""
    return np.get_printoptions()


def printoptions(*args: Any, **kwargs: Any) -> Any:
    """Return a context manager that sets NumPy's printing options, which arrays here follow."""
    return np.printoptions(*args, **kwargs)
