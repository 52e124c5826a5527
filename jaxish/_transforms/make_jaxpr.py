"""make_jaxpr and eval_shape: what tracing a function finds, without running it."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from .._core import axes, config
from .._core.avals import ShapeDtypeStruct, zeros_of
from .._core.tree_util import tree_map
from .flat import TypeReturned, check_callable, wraps
from .jit import PjitFunction
from .signature import Signature


def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: int | Sequence[int] = (),
    axis_env: Sequence[tuple[Any, int]] | None = None,
    return_shape: bool = False,
) -> Callable[..., Any]:
    """Return a function that gives the `ClosedJaxpr` of `fun` for its arguments (arrays or `ShapeDtypeStruct`s).

    `axis_env` binds (name, size) pairs for collectives. With `return_shape`, the result's types come second.
    """
    check_callable(fun)

    @wraps(fun)
    def make_jaxpr_f(*args: Any, **kwargs: Any) -> Any:
        jitted = PjitFunction(fun, Signature.of(fun, static_argnums or None, None, None, None))
        with ExitStack() as stack:
            for name, size in axis_env or ():
                stack.enter_context(axes.bound(name, size))
            stack.enter_context(config.keeps_calls(True))
            traced = jitted.trace(*args, **kwargs)
        return (traced.jaxpr, traced.out_info) if return_shape else traced.jaxpr

    return make_jaxpr_f


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the types of `fun(*args, **kwargs)` as `ShapeDtypeStruct`s, without computing it.

    Arguments are arrays, `ShapeDtypeStruct`s, or anything with `shape` and `dtype`.
    """
    check_callable(fun)
    if isinstance(fun, PjitFunction):  # which says how its results lie
        return fun.eval_shape(*args, **kwargs)
    try:
        return PjitFunction(fun, Signature.of(fun, None, None, None, None)).eval_shape(*args, **kwargs)
    except TypeReturned:
        with_values = wraps(fun)(lambda *args, **kwargs: tree_map(_as_value, fun(*args, **kwargs)))
        return PjitFunction(with_values, Signature.of(fun, None, None, None, None)).eval_shape(*args, **kwargs)


def _as_value(leaf: Any) -> Any:
    """Return an array in the place of a type."""
    return zeros_of(leaf) if isinstance(leaf, ShapeDtypeStruct) else leaf
