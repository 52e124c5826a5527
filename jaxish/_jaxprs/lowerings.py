"""How primitives of users are spelled out in compiled code: `jax.interpreters.mlir` as far as functions of JAX go."""

from collections.abc import Callable
from typing import Any

from . import custom


class LoweringRuleContext:
    """What JAX gives a lowering rule, as the type in its signature: nothing makes one, there is no MLIR to write into."""


class LoweringRule:
    """What `lower_fun` makes of a function of arrays."""

    def __init__(self, fun: Callable[..., Any], multiple_results: bool) -> None:
        self.fun, self.multiple_results = fun, multiple_results

    def __call__(self, ctx: Any, *args: Any, **params: Any) -> Any:
        """Raise `NotImplementedError`: there is no MLIR to write into."""
        raise NotImplementedError(
            "A lowering rule writes MLIR, which PyTorch's compilers do not read; call the function given to lower_fun."
        )


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> LoweringRule:
    """Return the lowering rule of a primitive that is a function of arrays: it is traced where code is compiled."""
    return LoweringRule(fun, multiple_results)


def apply_primitive(prim: Any, *args: Any, **params: Any) -> Any:
    """Return what the lowering rule of a primitive computes: for `def_impl(partial(apply_primitive, prim))`.

    Raises `NotImplementedError` where that rule is not one of `lower_fun`.
    """
    lowering = custom.lowerings.get(prim)
    if lowering is None:
        raise NotImplementedError(
            f"No lowering rule of primitive {prim} is a function of arrays: register one of mlir.lower_fun, or call {prim}.bind."
        )
    return lowering(*args, **params)


def register_lowering(
    prim: Any, rule: Callable[..., Any], platform: str | None = None, inline: bool = True, cacheable: bool = True
) -> Callable[..., Any]:
    """Set what compiled code has in the place of a primitive: a rule of `lower_fun`.

    A rule that writes MLIR means nothing here; its primitive is called by its `impl`. A rule for one platform holds on
    that only, which here is as good as none: the primitive's `impl` runs wherever its arrays are.
    """
    if isinstance(rule, LoweringRule) and platform is None:
        custom.lowerings[prim] = rule.fun
    return rule
