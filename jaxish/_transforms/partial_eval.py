"""Functions on jaxprs that libraries take from `jax.interpreters.partial_eval`."""

from collections.abc import Callable, Sequence
from typing import Any

from .._core.avals import ShapeDtypeStruct, aval_of
from .._jaxprs.ir import Jaxpr, JaxprEqn, Literal, Var, eval_jaxpr
from .linear_util import wrap_init
from .make_jaxpr import make_jaxpr


def dce_jaxpr(
    jaxpr: Jaxpr, used_outputs: bool | Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[bool]]:
    """Return `jaxpr` with the results that are used and the equations that these need, and which inputs it then reads.

    `instantiate` says which inputs are kept whether or not they are read. Equations with effects stay.
    """
    used_outputs = [used_outputs] * len(jaxpr.outvars) if isinstance(used_outputs, bool) else used_outputs
    kept_inputs = [instantiate] * len(jaxpr.invars) if isinstance(instantiate, bool) else list(instantiate)
    outputs = [v for v, used in zip(jaxpr.outvars, used_outputs, strict=True) if used]
    live = {v for v in outputs if isinstance(v, Var)}
    eqns: list[JaxprEqn] = []
    for eqn in reversed(jaxpr.eqns):
        if eqn.effects or not live.isdisjoint(eqn.outvars):
            eqns.append(eqn)
            live.update(v for v in eqn.invars if not isinstance(v, Literal))
    used = [v in live or keep for v, keep in zip(jaxpr.invars, kept_inputs, strict=True)]
    inputs = [v for v, u in zip(jaxpr.invars, used, strict=True) if u]
    return jaxpr.replace(invars=inputs, outvars=outputs, eqns=eqns[::-1]), used


class PartialVal(tuple[Any, Any]):
    """A value that is known (None and the value), or of which the type is (the type and None)."""

    @staticmethod
    def known(const: Any) -> "PartialVal":
        """Return the partial value of a value."""
        return PartialVal((None, const))

    @staticmethod
    def unknown(aval: Any) -> "PartialVal":
        """Return the partial value of a type."""
        return PartialVal((aval, None))

    def is_known(self) -> bool:
        """Tell whether the value is known."""
        return self[0] is None

    def get_known(self) -> Any:
        """Return the value, None where it is not known."""
        return self[1]

    def get_aval(self) -> Any:
        """Return the type."""
        return aval_of(self[1]) if self.is_known() else self[0]


def trace_to_jaxpr_nounits(
    fun: Any, pvals: Sequence[PartialVal], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[PartialVal], list[Any]]:
    """Return a jaxpr of the unknown arguments for the unknown results of a wrapped function, all results, and its constants.

    Results that depend on no unknown argument are known, except where `instantiate` says that the jaxpr is to return them.
    """
    unknown = [i for i, p in enumerate(pvals) if not p.is_known()]

    def of_unknown(*given: Any) -> Any:
        found = dict(zip(unknown, given, strict=True))
        return fun.call_wrapped(*(found[i] if i in found else p.get_known() for i, p in enumerate(pvals)))

    closed = make_jaxpr(of_unknown)(*(_stand_in(pvals[i].get_aval()) for i in unknown))
    jaxpr = closed.jaxpr
    late = set(jaxpr.invars)
    for eqn in jaxpr.eqns:
        if not late.isdisjoint(v for v in eqn.invars if isinstance(v, Var)):
            late.update(eqn.outvars)
    wanted = [instantiate] * len(jaxpr.outvars) if isinstance(instantiate, bool) else instantiate
    traced = [w or v in late for v, w in zip(jaxpr.outvars, wanted, strict=True)]
    early, _ = dce_jaxpr(jaxpr, [not t for t in traced])
    values = iter(eval_jaxpr(early.replace(invars=[]), closed.consts))
    found = [
        PartialVal.unknown(v.aval) if t else PartialVal.known(next(values))
        for v, t in zip(jaxpr.outvars, traced, strict=True)
    ]
    return dce_jaxpr(jaxpr, traced, instantiate=True)[0], found, closed.consts


def _stand_in(aval: Any) -> ShapeDtypeStruct:
    return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=getattr(aval, "weak_type", False))


def trace_to_jaxpr_dynamic(fun: Any, in_avals: Sequence[Any]) -> tuple[Jaxpr, list[Any], list[Any]]:
    """Return the jaxpr, the types of the results and the constants of a wrapped function of flat arrays."""
    closed = make_jaxpr(fun.call_wrapped)(*map(_stand_in, in_avals))
    return closed.jaxpr, closed.out_avals, closed.consts


def abstract_eval_fun(fun: Callable[..., Any], *avals: Any, debug_info: Any, **params: Any) -> list[Any]:
    """Return the types of the results of a function of flat arrays, given those of its arguments."""
    return trace_to_jaxpr_dynamic(wrap_init(fun, params, debug_info=debug_info), avals)[1]
