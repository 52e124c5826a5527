"""Programs as text: `agree_on("lax.add(f, 1.0)")` means the same on JAX and on jaxish.

Expressions see `lax`, `jnp`, `np`, `jax`, the linear algebra of lax as `linalg`, `arr(values, dtype)`, and a few
arrays: `f` float32[2,3], `i` int32[3], `u` uint32[2], `b` bool[2], `c` complex64[2], `h` float16[2], `m` float32[2,2],
`w` a weakly typed float32 scalar.
"""

from types import ModuleType
from typing import Any

import numpy as np
from oracle import agree


def namespace(library: ModuleType) -> dict[str, Any]:
    """Return the names that expressions see, made with `library`."""
    jnp = library.numpy

    def arr(values: Any, dtype: Any = "float32") -> Any:
        return jnp.asarray(np.asarray(values).astype(dtype))

    return {
        "jax": library,
        "lax": library.lax,
        "linalg": library.lax.linalg,
        "jnp": jnp,
        "np": np,
        "arr": arr,
        "f": arr(np.arange(6.0).reshape(2, 3)),
        "i": arr(np.arange(3), "int32"),
        "u": arr([1, 1], "uint32"),
        "b": arr([True, True], "bool"),
        "c": arr([1, 1], "complex64"),
        "h": arr([1, 1], "float16"),
        "m": arr([[4, 1], [1, 3]]),
        "w": library.lax.add(0.0, 1.0),
    }


def agree_on(expression: str, **tolerances: Any) -> None:
    """Assert that an expression has the same value, or raises the same class of error, in both libraries."""
    agree(lambda library: eval(expression, namespace(library)), **tolerances)
