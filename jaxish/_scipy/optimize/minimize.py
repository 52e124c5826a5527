"""Minimization of functions of a vector, by quasi-Newton methods."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..._core.array import Array
from ..._lax.control_flow.scan import scan
from ..._lax.control_flow.while_loop import while_loop
from ..._numpy.contractions import dot, outer
from ..._numpy.creation import asarray, eye, zeros
from ..._numpy.linalg.norms import norm as vector_norm
from ..._numpy.manipulation import roll
from ..._numpy.parts import conj, real
from ..._numpy.rounding import isfinite
from ..._numpy.selection import where
from ..._numpy.ufuncs import minimum
from ..._transforms.autodiff import value_and_grad
from .line_search import Point, evaluated, line_search, slope


class OptimizeResults(NamedTuple):
    """What `minimize` found."""

    x: Array
    success: bool | Array
    status: int | Array
    fun: Array
    jac: Array
    hess_inv: Array | None
    nfev: int | Array
    njev: int | Array
    nit: int | Array


class _State(NamedTuple):
    x: Array
    point: Point  # there
    memory: Any  # what the method knows of the curvature
    before: Array  # the value a step earlier
    converged: Array
    status: Array  # other than 0: it cannot go on
    steps: Array
    evaluations: Array


Direction = Callable[[Any, Array], tuple[Any, Array]]
Update = Callable[[Any, Array, Array], Any]


def _descend(
    fun: Callable[[Array], Array],
    x0: Array,
    memory: Any,
    direction: Direction,
    update: Update,
    first: Callable[[_State, Array], Any],
    status: Callable[[_State, _State, Array], Array],
    gtol: Any,
    norm: Any,
    most: int,
) -> _State:
    """Go on along directions that the memory gives, until the gradient is small or `status` of a step is not 0."""
    evaluate = value_and_grad(fun)
    value, gradient = evaluate(x0)

    def is_small(gradient: Array) -> Array:
        return vector_norm(gradient, norm) < gtol

    def going(state: _State) -> Any:
        return ~state.converged & (state.status == 0)

    def body(state: _State) -> _State:
        memory, along = direction(state.memory, state.point.gradient)
        start = state.point._replace(step=zero, slope=slope(state.point.gradient, along))
        found = line_search(evaluated(evaluate, state.x, along), start, first(state, start.slope), most)
        move = found.point.step.astype(x0.dtype) * along
        after = _State(
            state.x + move,
            found.point,
            update(memory, move, found.point.gradient - state.point.gradient),
            state.point.value,
            is_small(found.point.gradient),
            state.status,
            state.steps + 1,
            state.evaluations + found.evaluations,
        )
        return after._replace(status=where(after.converged, 0, status(state, after, found.status)))

    zero = real(x0[:0].sum())
    value = value.astype(zero.dtype)
    point = Point(zero, value, zero, gradient.astype(x0.dtype))
    before = value + vector_norm(gradient).astype(zero.dtype) / 2
    state = _State(x0, point, memory, before, is_small(gradient), asarray(0), asarray(0), asarray(1))
    return while_loop(going, body, state)


def _bfgs(
    fun: Callable[[Array], Array],
    x0: Array,
    maxiter: Any = None,
    norm: Any = np.inf,
    gtol: float = 1e-5,
    line_search_maxiter: int = 10,
) -> OptimizeResults:
    """Source: Nocedal and Wright, Numerical optimization, algorithm 6.1; the memory is the inverse of the Hessian."""
    maxiter = 200 * x0.size if maxiter is None else maxiter

    def update(inverse: Array, move: Array, change: Array) -> Array:
        rho = 1 / dot(change, move)
        turn = unit - rho * outer(move, change)
        updated = dot(dot(turn, inverse), turn.T) + rho * outer(move, move)
        return where(isfinite(rho), updated, inverse)

    def first(state: _State, slope: Array) -> Array:
        guess = 1.01 * 2 * (state.point.value - state.before) / slope
        return minimum(where(guess == guess, guess, 1), 1)

    def status(before: _State, after: _State, search: Array) -> Array:
        return where(after.steps >= maxiter, 1, where(search != 0, 2 + search, 0))

    def direction(inverse: Array, gradient: Array) -> tuple[Array, Array]:
        # Rounding may have spoilt the inverse, as where the Hessian is very large: it starts anew.
        along = -dot(inverse, gradient)
        descends = slope(gradient, along) < 0
        return where(descends, inverse, unit), where(descends, along, -gradient)

    unit = eye(x0.size, dtype=x0.dtype)
    found = _descend(fun, x0, unit, direction, update, first, status, gtol, norm, line_search_maxiter)
    return _results(found, found.memory)


class _History(NamedTuple):
    """The last moves, the changes of the gradient with them, and one over their products, zero where there are none."""

    moves: Array
    changes: Array
    inverse_products: Array
    scale: Array


def _lbfgs(
    fun: Callable[[Array], Array],
    x0: Array,
    maxiter: Any = None,
    norm: Any = np.inf,
    maxcor: int = 10,
    ftol: float = 2.220446049250313e-09,
    gtol: float = 1e-05,
    maxfun: Any = None,
    maxgrad: Any = None,
    maxls: int = 20,
) -> OptimizeResults:
    """Source: Nocedal and Wright, algorithm 7.4. A complex vector counts as twice as many real numbers.

    The gradient is what it is in JAX: the conjugate of the direction of ascent.
    """
    if maxiter is None and maxfun is None and maxgrad is None:
        maxiter = 200 * x0.size
    real_dtype = real(x0).dtype
    empty = zeros((maxcor, x0.size), x0.dtype)

    def direction(memory: _History, gradient: Array) -> tuple[_History, Array]:
        pairs = memory.moves, memory.changes, memory.inverse_products

        def back(q: Array, pair: tuple[Array, ...]) -> tuple[Array, Array]:
            move, change, inverse = pair
            weight = inverse * real(dot(conj(move), q))
            return q - weight.astype(q.dtype) * change, weight

        def forth(q: Array, pair: tuple[Array, ...]) -> tuple[Array, None]:
            move, change, inverse, weight = pair
            return q + (weight - inverse * real(dot(conj(change), q))).astype(q.dtype) * move, None

        q, weights = scan(back, -conj(gradient), pairs, reverse=True)
        return memory, scan(forth, memory.scale.astype(q.dtype) * q, (*pairs, weights))[0]

    def update(memory: _History, move: Array, change: Array) -> _History:
        change = conj(change)
        product = real(dot(conj(change), move))
        news = move, change, 1 / product
        moves, changes, inverses = (roll(old, -1, 0).at[-1].set(new) for old, new in zip(memory[:3], news, strict=True))
        return _History(moves, changes, inverses, product / real(dot(conj(change), change)))

    def first(state: _State, slope: Array) -> Array:
        return asarray(1, real_dtype)

    limits = ((3, maxgrad), (2, maxfun))

    def status(before: _State, after: _State, search: Array) -> Array:
        found = where(before.point.value - after.point.value < ftol, 4, 0)
        for code, limit in limits:
            found = found if limit is None else where(before.evaluations >= limit, code, found)
        found = found if maxiter is None else where(before.steps >= maxiter, 1, found)
        return where(search != 0, 5, found)

    memory = _History(empty, empty, zeros(maxcor, real_dtype), asarray(1, real_dtype))
    return _results(_descend(fun, x0, memory, direction, update, first, status, gtol, norm, maxls), None)


def _results(state: _State, inverse: Array | None) -> OptimizeResults:
    count = state.evaluations
    point = state.point
    return OptimizeResults(
        state.x, state.converged & (state.status == 0), state.status, point.value, point.gradient, inverse, count, count,
        state.steps,
    )  # fmt: skip


_METHODS = {"bfgs": _bfgs, "l-bfgs-experimental-do-not-rely-on-this": _lbfgs}


def minimize(
    fun: Callable[..., Any],
    x0: Array,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """Return the x with the least `fun(x, *args)` that a descent from the vector `x0` finds, and how it went.

    `method` is "BFGS", with options `maxiter`, `norm`, `gtol` and `line_search_maxiter`; other methods raise `ValueError`.
    `tol` is `gtol`, where the options do not say it. `status` is 0, or 1 after `maxiter` steps, or more where there was no
    step that satisfies the strong Wolfe conditions. There is no derivative in reverse mode.
    """
    if not isinstance(args, tuple):
        raise TypeError(f"args argument to jax.scipy.optimize.minimize must be a tuple, got {args}")
    descend = _METHODS.get(method.lower())
    if descend is None:
        raise ValueError(f"Method {method} not recognized")
    given = dict(options or {})
    if tol is not None:
        given.setdefault("gtol", tol)
    return descend(lambda x: fun(x, *args), asarray(x0), **given)
