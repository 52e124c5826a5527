"""Taylor-mode derivatives: a function of truncated power series, by the arithmetic of power series.

The function is traced to a jaxpr, whose equations are evaluated on series: a value and its coefficients c_1, c_2, ...
of x(t) = x + c_1 t + c_2 t^2 + ... Inside this module coefficients are not scaled by factorials. For most primitives a rule
says what comes out, in time that grows with the square of the order; for the others nested forward mode does, which
doubles the time with every order. Formulas: Griewank and Walther, Evaluating Derivatives (2008), chapter 13.
"""

import functools
import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from .._core import graph, tree
from .._core.array import Array, as_array
from .._core.dtypes import is_inexact
from .._core.tree_util import register_pytree_node
from .._jaxprs.context import trace_of
from .._jaxprs.ir import ClosedJaxpr, Jaxpr, Literal, literal_value
from .._jaxprs.primitive import Primitive, named
from .._lax.special import lgamma
from .._lax.transcendental import exp
from .._numpy.creation import zeros_like
from .._transforms.autodiff import jvp
from .._transforms.flat import wraps
from .._transforms.make_jaxpr import make_jaxpr

Terms = list[Any]  # the coefficients of one value, None for a value that does not depend on t
# rule(primals, series, **params) -> (result, its coefficients): lists where the primitive has several results
Rule = Callable[..., tuple[Any, Any]]


class ZeroTerm:
    """A coefficient that is zero."""


class ZeroSeries:
    """A series of which all coefficients are zero."""


zero_term, zero_series = ZeroTerm(), ZeroSeries()
for _kind, _value in ((ZeroTerm, zero_term), (ZeroSeries, zero_series)):
    register_pytree_node(_kind, lambda z: ((), None), lambda _, children, value=_value: value)

jet_rules: dict[Primitive, Rule] = {}


def jet(
    fun: Callable[..., Any], primals: Sequence[Any], series: Sequence[Any], factorial_scaled: bool = True, **_: Any
) -> tuple[Any, Any]:
    """Return `fun(*primals)` and the Taylor series of `fun` along the curves that `primals` and `series` give.

    `series` has a list of coefficients for each primal, an array (all of one length): the derivatives of its curve, or with
    `factorial_scaled=False` these divided by the factorials of their orders. The second result is of the same kind, a
    list in the place of each leaf of the result.

    Raises `ValueError` for lists of different lengths and for primals or coefficients that are pytrees.
    """
    lengths = {len(terms) for terms in series if terms is not zero_series}
    if len(lengths) > 1 or not series:
        raise ValueError("jet terms have inconsistent lengths for different arguments")
    order = lengths.pop() if lengths else 0
    for i, (x, terms) in enumerate(zip(primals, series, strict=False)):
        if not tree.flatten(x)[1].is_leaf():
            raise ValueError(f"primal value at position {i} is not an array")
        for k, term in enumerate([] if terms is zero_series else terms):
            if term is not zero_term and not tree.flatten(term)[1].is_leaf():
                raise ValueError(f"term {k} for argument {i} is not an array")
    scale = [fact(k + 1) if factorial_scaled else 1.0 for k in range(order)]
    given = [_coefficients(x, terms, order, scale) for x, terms in zip(primals, series, strict=True)]
    jaxpr, out_info = make_jaxpr(_marked(fun), return_shape=True)(*primals)
    found = _evaluated(jaxpr, list(zip(map(as_array, primals), given, strict=True)))
    spec = tree.flatten(out_info)[1]
    out_terms = [
        [zeros_like(x)] * order if terms is None else [t * s for t, s in zip(terms, scale, strict=True)]
        for x, terms in found
    ]
    return spec.unflatten([x for x, _ in found]), spec.unflatten(out_terms)


_traces: ContextVar[tuple[Any, ...]] = ContextVar("traces", default=())  # in which functions are traced for jet


def _marked(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with the trace in which it is called known as one of jet."""

    @wraps(fun)
    def called(*args: Any) -> Any:
        before = _traces.set((*_traces.get(), graph.current_trace()))
        try:
            return fun(*args)
        finally:
            _traces.reset(before)

    return called


class _JetTraceMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return any(instance is t for t in _traces.get())


class JetTrace(metaclass=_JetTraceMeta):
    """What the traces of a jet's arrays are: `isinstance(x._trace, JetTrace)`. Never instantiated."""


class _JetTracerMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Array) and isinstance(trace_of(instance), JetTrace)


class JetTracer(Array, metaclass=_JetTracerMeta):
    """What the arrays are that a function gets from jet: `isinstance(x, JetTracer)`. Never instantiated."""

    __slots__ = ()


def fact(n: Any) -> Any:
    """Return n!, as a number for an integer."""
    return float(math.factorial(n)) if isinstance(n, int) else exp(lgamma(n + 1.0))


def _coefficients(x: Any, terms: Any, order: int, scale: Sequence[float]) -> Terms | None:
    if not order or terms is zero_series or not is_inexact(as_array(x).dtype):
        return None
    zero = zeros_like(x)
    return [zero if t is zero_term else as_array(t) / s for t, s in zip(terms, scale, strict=True)]


def _evaluated(closed: ClosedJaxpr, inputs: Sequence[tuple[Any, Terms | None]]) -> list[tuple[Any, Terms | None]]:
    """Evaluate a jaxpr on values with their coefficients."""
    jaxpr: Jaxpr = closed.jaxpr
    known: dict[Any, tuple[Any, Terms | None]] = {
        **{v: (c, None) for v, c in zip(jaxpr.constvars, closed.consts, strict=True)},
        **dict(zip(jaxpr.invars, inputs, strict=True)),
    }

    def read(atom: Any) -> tuple[Any, Terms | None]:
        return (literal_value(atom), None) if isinstance(atom, Literal) else known[atom]

    results: Any
    terms: Any
    for eqn in jaxpr.eqns:
        pairs = [read(a) for a in eqn.invars]
        values = [x for x, _ in pairs]
        if all(terms is None for _, terms in pairs):
            results = eqn.primitive.bind(*values, **eqn.params)
            terms = [None] * len(eqn.outvars) if eqn.primitive.multiple_results else None
        elif (inner := _INLINED.get(eqn.primitive.name)) is not None:
            found = _evaluated(_closed(eqn.params[inner]), pairs)
            results, terms = [x for x, _ in found], [t for _, t in found]
        else:
            rule = jet_rules.get(eqn.primitive) or functools.partial(_by_forward_mode, eqn.primitive)
            results, terms = rule(values, [t for _, t in pairs], **eqn.params)
        if not eqn.primitive.multiple_results:
            results, terms = [results], [terms]
        known.update(zip(eqn.outvars, zip(results, terms, strict=True), strict=True))
    return [read(v) for v in jaxpr.outvars]


# A custom derivative is of first order: its function is followed.
_INLINED = {"jit": "jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr", "remat2": "jaxpr"}


def _closed(jaxpr: Jaxpr | ClosedJaxpr) -> ClosedJaxpr:
    return jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, [])


def _by_forward_mode(primitive: Primitive, primals: Sequence[Any], series: Sequence[Any], **params: Any) -> Any:
    """Differentiate the primitive along the curves, once for each order."""
    order = next(len(terms) for terms in series if terms is not None)

    def at(t: Any) -> list[Any]:
        curve = [
            x if terms is None else x + sum(c * t**k for k, c in enumerate(terms, 1))
            for x, terms in zip(primals, series, strict=True)
        ]
        found = primitive.bind(*curve, **params)
        return list(found) if primitive.multiple_results else [found]

    def derivatives(k: int) -> Callable[[Any], list[list[Any]]]:
        if not k:
            return lambda t: [at(t)]
        lower = derivatives(k - 1)

        def of(t: Any) -> list[list[Any]]:
            values, tangents = jvp(lower, (t,), (as_array(1.0),))
            return [*values, tangents[-1]]

        return of

    values, *found = derivatives(order)(as_array(0.0))
    terms: Any = [
        [level[i] / fact(k) for k, level in enumerate(found, 1)] if is_inexact(as_array(x).dtype) else None
        for i, x in enumerate(values)
    ]
    return (values, terms) if primitive.multiple_results else (values[0], terms[0])


# ------------------------------------------------------------------------------------------------------ kinds of rules


def _filled(primals: Sequence[Any], series: Sequence[Any]) -> list[Terms]:
    """Return all series, those of constants as zeros."""
    order = next(len(terms) for terms in series if terms is not None)
    pairs = zip(primals, series, strict=True)
    return [[zeros_like(x)] * order if terms is None else terms for x, terms in pairs]


def zero_prop(prim: Primitive, primals_in: Sequence[Any], series_in: Sequence[Any], **params: Any) -> Any:
    """The rule of a primitive whose result is constant between its jumps."""
    result = prim.bind(*primals_in, **params)
    return result, [None] * len(result) if prim.multiple_results else None


def linear_prop(prim: Primitive, primals_in: Sequence[Any], series_in: Sequence[Any], **params: Any) -> Any:
    """The rule of a primitive that is linear in all its arguments together."""
    result = prim.bind(*primals_in, **params)
    terms = [prim.bind(*column, **params) for column in zip(*_filled(primals_in, series_in), strict=True)]
    if prim.multiple_results:
        return result, [list(column) for column in zip(*terms, strict=True)]
    return result, terms


def _linear_in(count: int, prim: Primitive, primals: Sequence[Any], series: Sequence[Any], **params: Any) -> Any:
    """The rule of a primitive that is linear in its first arguments; the others are indices."""
    rest = primals[count:]
    result = prim.bind(*primals, **params)
    columns = zip(*_filled(primals[:count], series[:count]), strict=True)
    return result, [prim.bind(*column, *rest, **params) for column in columns]


def _bilinear(prim: Primitive, primals: Sequence[Any], series: Sequence[Any], **params: Any) -> Any:
    xs: Any
    ys: Any
    multiply = functools.partial(prim.bind, **params)
    (x, y), (xs, ys) = primals, series
    if xs is None:
        return multiply(x, y), [multiply(x, c) for c in ys]
    if ys is None:
        return multiply(x, y), [multiply(c, y) for c in xs]
    xs, ys = [x, *xs], [y, *ys]
    terms = [_sum(multiply(xs[j], ys[k - j]) for j in range(k + 1)) for k in range(len(xs))]
    return terms[0], terms[1:]


def deriv_prop(
    prim: Primitive, deriv: Callable[[Any], Any], primals_in: Sequence[Any], series_in: Sequence[Any]
) -> Any:
    """The rule of a function of one argument whose derivative is `deriv`."""
    (x,), (xs,) = primals_in, series_in
    slope, slopes = jet(deriv, (x,), (xs[:-1],), factorial_scaled=False)
    return prim.bind(x), _integrated([slope, *slopes], xs)


def _integrated(slopes: Sequence[Any], xs: Terms) -> Terms:
    """Return the coefficients of y with y' = slope * x', for the coefficients of the slope and of x."""
    return [_sum(slopes[k - j] * (xs[j - 1] * (j / k)) for j in range(1, k + 1)) for k in range(1, len(xs) + 1)]


def _sum(terms: Any) -> Any:
    return functools.reduce(lambda a, b: a + b, terms)


def def_deriv(prim: Primitive, deriv: Callable[[Any], Any]) -> None:
    """Set the rule of a function of one argument by its derivative, which may use any function."""
    jet_rules[prim] = lambda primals, series, **_: deriv_prop(prim, deriv, primals, series)


def def_comp(prim: Primitive, comp: Callable[..., Any], **kwargs: Any) -> None:
    """Set the rule of a primitive by writing it as other functions."""

    def rule(primals: Sequence[Any], series: Sequence[Any], **params: Any) -> Any:
        function = functools.partial(comp, **{k: params.get(k, v) for k, v in kwargs.items()})
        terms = [zero_series if t is None else t for t in series]
        return jet(function, primals, terms, factorial_scaled=False)

    jet_rules[prim] = rule


def defzero(prim: Primitive) -> None:
    """Say that a primitive's result is constant between its jumps."""
    jet_rules[prim] = functools.partial(zero_prop, prim)


def deflinear(prim: Primitive) -> None:
    """Say that a primitive is linear in all its arguments together."""
    jet_rules[prim] = functools.partial(linear_prop, prim)


_CONSTANT = (
    "lt le gt ge eq ne not and or xor floor ceil round sign is_finite argmax argmin iota stop_gradient "
    "shift_left shift_right_arithmetic shift_right_logical population_count clz axis_index"
)
for _name in _CONSTANT.split():
    defzero(named(_name))

_LINEAR = (
    "neg add sub add_any real imag conj complex reduce_sum reshape transpose slice rev broadcast_in_dim squeeze split "
    "concatenate pad convert_element_type copy cumsum psum all_gather name optimization_barrier stack unstack tile"
)
for _name in _LINEAR.split():
    deflinear(named(_name))

for _name, _count in {"gather": 1, "dynamic_slice": 1, "dynamic_update_slice": 2}.items():
    jet_rules[named(_name)] = functools.partial(_linear_in, _count, named(_name))

for _name in ("mul", "dot_general", "conv_general_dilated"):
    jet_rules[named(_name)] = functools.partial(_bilinear, named(_name))


# ----------------------------------------------------------------------------------------------------- the elementary


def _select_n(primals: Sequence[Any], series: Sequence[Any]) -> Any:
    select, (which, *cases) = named("select_n").bind, primals
    columns = zip(*_filled(cases, series[1:]), strict=True)
    return select(which, *cases), [select(which, *column) for column in columns]


def _div(primals: Sequence[Any], series: Sequence[Any]) -> Any:
    (x, y), (xs, ys) = primals, series
    if ys is None:
        return x / y, [c / y for c in xs]
    (xs,) = _filled([x, y], [xs, ys])[:1]
    found = [x / y]
    for k in range(1, len(ys) + 1):
        found.append((xs[k - 1] - _sum(found[k - j] * ys[j - 1] for j in range(1, k + 1))) / y)
    return found[0], found[1:]


def _exp(primals: Sequence[Any], series: Sequence[Any], **_: Any) -> Any:
    (x,), (xs,) = primals, series
    found = [exp(x)]
    for k in range(1, len(xs) + 1):
        found.append(_sum(found[k - j] * (xs[j - 1] * (j / k)) for j in range(1, k + 1)))
    return found[0], found[1:]


def _sine_and_cosine(x: Any, xs: Terms, sine: str, cosine: str, sign: float) -> tuple[list[Any], list[Any]]:
    """Return the series of s and c with s' = c x' and c' = sign * s x'."""
    s, c = [named(sine).bind(x)], [named(cosine).bind(x)]
    for k in range(1, len(xs) + 1):
        weighted = [xs[j - 1] * (j / k) for j in range(1, k + 1)]
        s_next = _sum(w * c[k - j] for j, w in enumerate(weighted, 1))
        c.append(_sum(w * s[k - j] for j, w in enumerate(weighted, 1)) * sign)
        s.append(s_next)
    return s, c


def _pair_rule(sine: str, cosine: str, sign: float, which: int) -> Rule:
    def rule(primals: Sequence[Any], series: Sequence[Any], **_: Any) -> Any:
        found = _sine_and_cosine(primals[0], series[0], sine, cosine, sign)[which]
        return found[0], found[1:]

    return rule


def _by_own_slope(name: str, slope: Callable[[Any], Any]) -> Rule:
    """The rule of a y whose derivative is a polynomial of y itself: `slope`, on lists of coefficients."""

    def rule(primals: Sequence[Any], series: Sequence[Any], **_: Any) -> Any:
        (x,), (xs,) = primals, series
        found = [named(name).bind(x)]
        for _ in xs:
            found = [found[0], *_integrated(slope(found), xs[: len(found)])]
        return found[0], found[1:]

    return rule


def _times(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    return [_sum(a[j] * b[k - j] for j in range(k + 1)) for k in range(len(a))]


def _tanh_slope(y: Sequence[Any]) -> list[Any]:
    square = _times(y, y)
    return [1.0 - square[0], *(-c for c in square[1:])]


def _logistic_slope(y: Sequence[Any]) -> list[Any]:
    return [a - b for a, b in zip(y, _times(y, y), strict=True)]


def _integer_pow(primals: Sequence[Any], series: Sequence[Any], *, y: int) -> Any:
    (x,), (xs,) = primals, series
    base, count = [x, *xs], abs(y)
    found: Any = None
    while count:
        if count & 1:
            found = base if found is None else _times(found, base)
        base, count = _times(base, base), count >> 1
    value = named("integer_pow").bind(x, y=y)
    if found is None:
        return value, None
    if y < 0:
        return value, _div((value * found[0], found[0]), (None, found[1:]))[1]
    return value, found[1:]


jet_rules |= {
    named("select_n"): _select_n,
    named("div"): _div,
    named("exp"): _exp,
    named("integer_pow"): _integer_pow,
    named("sin"): _pair_rule("sin", "cos", -1.0, 0),
    named("cos"): _pair_rule("sin", "cos", -1.0, 1),
    named("sinh"): _pair_rule("sinh", "cosh", 1.0, 0),
    named("cosh"): _pair_rule("sinh", "cosh", 1.0, 1),
    named("tanh"): _by_own_slope("tanh", _tanh_slope),
    named("logistic"): _by_own_slope("logistic", _logistic_slope),
}

_SLOPES: dict[str, Callable[[Any], Any]] = {
    "log": lambda x: 1.0 / x,
    "log1p": lambda x: 1.0 / (1.0 + x),
    "expm1": exp,
    "sqrt": lambda x: 0.5 / named("sqrt").bind(x),
    "asin": lambda x: named("rsqrt").bind(1.0 - x * x),
    "acos": lambda x: -named("rsqrt").bind(1.0 - x * x),
    "atan": lambda x: 1.0 / (1.0 + x * x),
    "asinh": lambda x: named("rsqrt").bind(1.0 + x * x),
    "atanh": lambda x: 1.0 / (1.0 - x * x),
    "erf": lambda x: exp(-(x * x)) * (2.0 / math.sqrt(math.pi)),
    "erfc": lambda x: exp(-(x * x)) * (-2.0 / math.sqrt(math.pi)),
    "square": lambda x: x * 2.0,
}
for _name, _slope in _SLOPES.items():
    def_deriv(named(_name), _slope)
