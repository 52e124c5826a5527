"""The array API standard's way into this namespace: `x.__array_namespace__()` and its inspection functions."""

import importlib
import types
from typing import Any

import numpy as np

from .._core import dtypes
from .._core.array import Array
from .._devices import devices

__array_api_version__ = "2025.12"


def array_namespace(self: Array, /, *, api_version: str | None = None) -> types.ModuleType:
    """Return the jax.numpy module. Raises `ValueError` for an unknown version of the array API."""
    if api_version not in (None, *(f"20{y}.12" for y in range(21, 26))):
        raise ValueError(
            f"{api_version=} is not available; available versions are '2021.12' to {__array_api_version__!r}."
        )
    return importlib.import_module("jaxish.numpy")  # by name: it is the face that the standard asks for


class ArrayNamespaceInfo:
    """The inspection functions of the array API."""

    _KINDS = {
        "bool": ("bool",),
        "signed integer": ("int8", "int16", "int32", "int64"),
        "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
        "real floating": ("float32", "float64"),
        "complex floating": ("complex64", "complex128"),
    }
    _GROUPS = {
        "integral": ("signed integer", "unsigned integer"),
        "numeric": ("signed integer", "unsigned integer", "real floating", "complex floating"),
        None: tuple(_KINDS),
    }

    def capabilities(self) -> dict[str, Any]:
        """Return what the namespace can do with masks and shapes that depend on values."""
        return {"boolean indexing": True, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> None:
        """Return the default device: None, as each process has one by configuration."""
        return

    def devices(self) -> list[Any]:
        """Return the devices on which arrays can be made."""
        return [*devices.devices(), None]

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """Return the default dtypes by kind."""
        kinds = {"real floating": "float64", "complex floating": "complex128", "integral": "int64", "indexing": "int64"}
        return {kind: dtypes.canonicalize_dtype(name) for kind, name in kinds.items()}

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, np.dtype]:
        """Return the dtypes of a kind (or a tuple of kinds, or all) that arrays can have now, by name."""
        out: dict[str, np.dtype] = {}
        for one in kind if isinstance(kind, tuple) else (kind,):
            if one not in self._GROUPS and one not in self._KINDS:
                raise ValueError(f"Unrecognized kind {one!r}; expected one of {[*self._KINDS, *self._GROUPS]}")
            for name in (n for k in self._GROUPS.get(one, (one,)) for n in self._KINDS[k]):
                if dtypes.canonicalize_dtype(name) == np.dtype(name):
                    out[name] = np.dtype(name)
        return out


def __array_namespace_info__() -> ArrayNamespaceInfo:
    """Return the inspection functions of the array API."""
    return ArrayNamespaceInfo()
