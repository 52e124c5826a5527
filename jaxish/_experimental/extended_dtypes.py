"""Extended dtypes of one's own: refused. Those that are there are of random keys."""

from typing import Any, NoReturn

from .._core.array import Array


class EArray(Array):
    """Refused: an array of an extended dtype of one's own. No array is an instance."""

    __slots__ = ()

    def __init__(self, aval: Any, data: Any) -> None:
        raise NotImplementedError(
            "EArray is not supported: extended dtypes are those of random keys. "
            "Register a class that holds the array as a pytree node, or use jax.experimental.hijax."
        )


def primal_tangent_dtype(primal_dtype: Any, tangent_dtype: Any, name: str | None = None) -> NoReturn:
    """Refused: a dtype with tangents of another dtype."""
    raise NotImplementedError(
        "primal_tangent_dtype is not supported: tangents have the dtypes of their primals. "
        "Write a custom_vjp whose rule returns cotangents of the dtype that you want, for a floating copy of the argument."
    )
