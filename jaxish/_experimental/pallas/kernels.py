"""What kernels call: parts of references, branches, loops, memory to work with."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core import refs
from ..._core.array import Array, as_array
from ..._lax.control_flow.cond import cond
from ..._lax.control_flow.while_loop import fori_loop
from ..._numpy import manipulation
from ..._transforms import debug
from .specifications import uninitialized


def when(condition: Any, /) -> Callable[[Callable[[], None]], None]:
    """Return a decorator that calls a function without arguments where the condition holds."""

    def decorated(function: Callable[[], None]) -> None:
        if isinstance(condition, bool):
            if condition:
                function()
            return
        cond(condition, function, lambda: None)

    return decorated


def loop(
    lower: Any, upper: Any, *, init_carry: Any = None, step: Any = 1, unroll: int | bool | None = None
) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that calls a function for each number from `lower` to `upper`, which is excluded."""

    def decorated(body: Callable[..., Any]) -> Any:
        if init_carry is None:
            stepped = lambda i, _: body(lower + i * step)  # noqa: E731
        else:
            stepped = lambda i, carry: body(lower + i * step, carry)  # noqa: E731
        return fori_loop(0, cdiv(upper - lower, step), stepped, init_carry, unroll=unroll)

    return decorated


def run_scoped(f: Callable[..., Any], *types: Any, collective_axes: Any = (), **kw_types: Any) -> Any:
    """Call a function with references to memory of these types, and return what it returns."""
    if collective_axes:
        raise NotImplementedError("run_scoped(collective_axes=) is not supported: there is one program at a time.")
    made = lambda t: refs.new_ref(uninitialized(t.inner_aval.shape, t.inner_aval.dtype))  # noqa: E731
    return f(*map(made, types), **{name: made(t) for name, t in kw_types.items()})


def cdiv(a: Any, b: Any) -> Any:
    """Return the quotient, rounded up."""
    return (a + b - 1) // b


def align_to(a: Any, alignment: Any) -> Any:
    """Return the least multiple of `alignment` that is not less."""
    return cdiv(a, alignment) * alignment


def next_power_of_2(x: int) -> int:
    """Return the least power of two that is not less. Raises `ValueError` for negative numbers."""
    if x < 0:
        raise ValueError("`next_power_of_2` requires a non-negative integer.")
    return 1 if x == 0 else 1 << (x - 1).bit_length()


def strides_from_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return how far elements are apart along each dimension, in rows one after the other."""
    return tuple(int(np.prod(shape[d + 1 :], dtype=np.int64)) for d in range(len(shape)))


def debug_print(fmt: str, *args: Any) -> None:
    """Print from a kernel, as `jax.debug.print` does."""
    debug.print(fmt, *args)


def multiple_of(x: Any, values: Any) -> Any:
    """Return `x`, of which `values` say to compilers what it is a multiple of."""
    return x


def broadcast_to(a: Array, shape: tuple[int, ...]) -> Array:
    """Return an array repeated along new and single dimensions."""
    return manipulation.broadcast_to(a, shape)


def reciprocal(x: Any, *, approx: bool = False, full_range: bool = True) -> Array:
    """Return `1 / x`, which is no approximation here."""
    return 1 / as_array(x)
