"""Calls of functions with custom derivatives as equations have them: `custom_jvp_call` and `custom_vjp_call`.

An interpreter of jaxprs binds them by what `get_bind_params` makes of an equation's parameters: `subfuns`, the function and
its rules, of which it may have replaced some. The parameters as they are will do, too.
"""

from collections.abc import Sequence
from typing import Any

from .._core.array import Array, as_array, tensor_of
from .._core.graph import ClosedGraph
from .._core.primitive import instantiate
from .._jaxprs.ir import ClosedJaxpr, DebugInfo, eval_jaxpr
from .._jaxprs.raising import graph_of
from .._transforms.custom_jvp import CustomJVPCall, custom_jvp
from .._transforms.custom_vjp import CustomVJPCall
from .._transforms.linear_util import WrappedFun, wrap_init
from .._transforms.program import trace_program
from .operands import arrays_of, in_types


class _Body:
    """What an equation's function computes."""

    def __init__(self, jaxpr: ClosedJaxpr, name: str) -> None:
        self.jaxpr, self.name = jaxpr, name

    def __call__(self, *args: Any) -> list[Any]:
        return eval_jaxpr(self.jaxpr.jaxpr, self.jaxpr.consts, *args)


class _ForwardMode:
    """An equation's rule for forward mode: of primals and tangents it makes results and theirs."""

    def __init__(self, body: _Body, rule: Any, num_consts: int) -> None:
        self.body, self.rule, self.num_consts = body, rule, num_consts

    def __call__(self, *args: Any) -> list[Any]:
        tensors, count = [tensor_of(as_array(x)) for x in args], len(args) // 2
        primals, tangents = tensors[self.num_consts : count], tensors[count + self.num_consts :]
        results, found = self.rule(primals, tangents)
        return [*map(Array, results), *(Array(instantiate(t, r)) for t, r in zip(found, results, strict=True))]


class _ReverseMode:
    """An equation's rule for one half of reverse mode, which is known to `bind` and cannot be called."""

    def __init__(self, rule: Any, num_consts: int) -> None:
        self.rule, self.num_consts = rule, num_consts

    def __call__(self, *args: Any) -> Any:
        """Raise `NotImplementedError`."""
        raise NotImplementedError(
            "The rules of a custom_vjp_call equation cannot be called; differentiate its `bind`, by jax.vjp."
        )


def _wrapped(function: Any, name: str) -> WrappedFun:
    return wrap_init(function, debug_info=DebugInfo("bind", name))


def _untouched(function: Any, kind: type) -> Any:
    """Return what `get_bind_params` wrapped, None where an interpreter has something else in its place."""
    is_ours = isinstance(function, WrappedFun) and not function.transforms and isinstance(function.f, kind)
    return function.f if is_ours else None


def jvp_bind_params(params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters to bind an equation of `custom_jvp_call` with: functions of flat arguments in `subfuns`."""
    others = dict(params)
    name = others.pop("name", "")
    body = _Body(others.pop("call_jaxpr"), name)
    rule = _ForwardMode(body, others.pop("jvp_jaxpr_fun"), others.pop("num_consts"))
    return {**others, "subfuns": (_wrapped(body, name), _wrapped(rule, "jvp"))}


def vjp_bind_params(params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters to bind an equation of `custom_vjp_call` with: the function and its rules in `subfuns`."""
    others = dict(params)
    name, count = others.pop("name", ""), others.pop("num_consts")
    body = _Body(others.pop("call_jaxpr"), name)
    rules = [_ReverseMode(others.pop(key), count) for key in ("fwd_jaxpr_thunk", "bwd")]
    return {**others, "subfuns": (_wrapped(body, name), *(_wrapped(r, "rule") for r in rules))}


def custom_jvp_call(
    *args: Any, subfuns: Sequence[Any] | None = None, symbolic_zeros: bool = False, **params: Any
) -> list[Any]:
    """Call a function with a rule for forward mode."""
    fun, jvp = subfuns or jvp_bind_params(params)["subfuns"]
    body, rule = _untouched(fun, _Body), _untouched(jvp, _ForwardMode)
    if body is None or rule is None:
        return _with_rule(fun, jvp, symbolic_zeros)(*args)
    graph = graph_of(body.jaxpr)
    call = CustomJVPCall(graph, rule.num_consts, rule.rule, body.name, symbolic_zeros)
    return arrays_of(call(*in_types(args, graph.in_types)))


def _with_rule(fun: Any, jvp: Any, symbolic_zeros: bool) -> custom_jvp:
    function = custom_jvp(lambda *args: list(fun.call_wrapped(*args)))

    def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        found = list(jvp.call_wrapped(*primals, *tangents))
        return found[: len(found) // 2], found[len(found) // 2 :]

    function.defjvp(rule, symbolic_zeros)
    return function


def custom_vjp_call(
    *args: Any, subfuns: Sequence[Any] | None = None, symbolic_zeros: bool = False, **params: Any
) -> list[Any]:
    """Call a function with rules for reverse mode. Raises `NotImplementedError` for rules that are no equation's."""
    fun, forward, backward = subfuns or vjp_bind_params(params)["subfuns"]
    forward, backward = _untouched(forward, _ReverseMode), _untouched(backward, _ReverseMode)
    if forward is None or backward is None:
        raise NotImplementedError(
            "custom_vjp_call.bind takes the rules that get_bind_params gives for an equation. Write a jax.custom_vjp function."
        )
    body = _untouched(fun, _Body)
    closed = _traced(fun, args) if body is None else ClosedGraph(graph_of(body.jaxpr), ())
    count, name = len(closed.captured), fun.debug_info.func_name if body is None else body.name
    call = CustomVJPCall(
        closed.graph, forward.rule, count + forward.num_consts, (), name, backward.rule, symbolic_zeros
    )
    return arrays_of(call(*closed.closure(), *in_types(args, closed.graph.in_types[count:])))


def _traced(fun: Any, args: Sequence[Any]) -> ClosedGraph:
    names = [f"args[{i}]" for i in range(len(args))]
    return trace_program(fun.call_wrapped, list(map(as_array, args)), lambda values: (tuple(values), {}), names).closed
