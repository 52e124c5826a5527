"""Names of `jax.interpreters.ad` that take and return JAX's own flattened pytrees, which no public name of JAX makes."""

from collections.abc import Callable
from typing import Any, NoReturn


def jvp(
    fun: Callable[..., Any],
    primals: Any,
    tangents: Any,
    has_aux: bool = False,
    instantiate: bool = True,
    transform_stack: bool = True,
) -> NoReturn:
    """Refused: use `jax.jvp`."""
    raise NotImplementedError(
        "interpreters.ad.jvp is not supported: it takes pytrees in a form that JAX keeps to itself. "
        "Use jax.jvp, with fun.call_wrapped where the function is a WrappedFun."
    )


def linearize(traceable: Callable[..., Any], primals_ft: Any, has_aux: bool = False, is_vjp: bool = False) -> NoReturn:
    """Refused: use `jax.linearize`."""
    raise NotImplementedError(
        "interpreters.ad.linearize is not supported: it takes pytrees in a form that JAX keeps to itself. "
        "Use jax.linearize, and jax.make_jaxpr of its linear function for the jaxpr."
    )
