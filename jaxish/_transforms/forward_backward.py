"""fwd_and_bwd: the forward and the backward pass of a function as two functions, each compiled once."""

from collections.abc import Callable, Sequence
from typing import Any

from .api_util import positions_within
from .autodiff import VJP, parse_argnums, vjp
from .flat import check_callable
from .jit import jit


def fwd_and_bwd(
    fun: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool = False, jitted: bool = True
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the forward and the backward pass of `fun` for cotangents of the arguments at `argnums`.

    `fwd(*args)` gives `(fun(*args), residuals)`, with `has_aux` the auxiliary result third. `bwd(residuals, cotangents)`
    gives the arguments' cotangents. Both are jitted unless `jitted` is False: the backward pass is compiled once, where
    the function that `vjp` returns is another one at each call.
    """
    check_callable(fun)
    positions = parse_argnums(argnums)

    def fwd(*args: Any, **kwargs: Any) -> Any:
        chosen = positions_within(positions, len(args))

        def of_chosen(*values: Any) -> Any:
            given = dict(zip(chosen, values, strict=True))
            return fun(*(given.get(i, x) for i, x in enumerate(args)), **kwargs)

        return vjp(of_chosen, *(args[i] for i in chosen), has_aux=has_aux)

    def bwd(residuals: VJP, outgrad: Any) -> Any:
        found = residuals(outgrad)
        return found[0] if isinstance(positions, int) else found

    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)
