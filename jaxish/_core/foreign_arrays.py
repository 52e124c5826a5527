"""Classes that are arrays because a program has registered them, as `jax.core` and `jax.interpreters.xla` let it.

A registered value may stand wherever an array may. Classes that NumPy or jaxish own are in the tables as well, so that
a program can register its own under the same functions.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from . import dtypes


def _canonical(x: Any) -> np.ndarray:
    return np.asarray(x).astype(dtypes.canonicalize_dtype(np.asarray(x).dtype), copy=False)


# By class: the function that makes a NumPy array of a value.
plain_values: dict[type, Callable[[Any], Any]] = dict.fromkeys((np.ndarray, bool, int, float, complex), _canonical)

# By class: the function that gives a value's type. `avals` fills in what is known from the start.
abstract_values: dict[type, Callable[[Any], Any]] = {}


def found(table: dict[type, Callable[[Any], Any]], x: Any) -> Callable[[Any], Any] | None:
    """Return the function that is registered for the class of `x` or the nearest one that it inherits from."""
    return next((table[kind] for kind in type(x).__mro__ if kind in table), None)
