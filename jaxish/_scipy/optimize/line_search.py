"""A step along a direction that satisfies the strong Wolfe conditions.

Source: Nocedal and Wright, Numerical optimization, algorithms 3.5 and 3.6: a bracket is doubled until it holds such a
step, and narrowed until that is found. Both are one loop here, which evaluates the function once in its body.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import torch

from ..._core.array import Array
from ..._lax.control_flow.while_loop import while_loop
from ..._numpy.contractions import dot
from ..._numpy.creation import asarray
from ..._numpy.elementary import sqrt
from ..._numpy.parts import real
from ..._numpy.selection import where
from ..._numpy.ufuncs import abs as magnitude
from ..._numpy.ufuncs import maximum, minimum

Evaluate: TypeAlias = Callable[[Array], tuple[Array, Array]]

SUFFICIENT_DECREASE, CURVATURE = 1e-4, 0.9
MOST_NARROWINGS = 30


class Point(NamedTuple):
    """A step, and the function there: its value, its slope along the direction, and its gradient."""

    step: Array
    value: Array
    slope: Array
    gradient: Array


class Search(NamedTuple):
    """What a search found. `status` is 0, or 1 where narrowing failed, or 3 where there were too many steps."""

    point: Point
    evaluations: Array
    status: Array


class _State(NamedTuple):
    low: Point  # the best one; before there is a bracket, the step before
    high: Point  # the other end of the bracket
    dropped: Point  # the end that the bracket had before
    trial: Array
    doublings: Array
    narrowings: Array
    is_bracketed: Array
    is_done: Array
    has_failed: Array


def _chosen(condition: Any, new: Point, old: Point) -> Point:
    return Point(*(where(condition, a, b) for a, b in zip(new, old, strict=True)))


def evaluated(evaluate: Evaluate, x: Array, direction: Array) -> Callable[[Array], Point]:
    """Return the function that makes a point of a step from `x`."""

    def at(step: Array) -> Point:
        value, gradient = evaluate(x + step.astype(x.dtype) * direction)
        return Point(step, value.astype(step.dtype), slope(gradient, direction), gradient.astype(x.dtype))

    return at


def slope(gradient: Array, direction: Array) -> Array:
    """Return the derivative along a direction."""
    return real(dot(gradient, direction))


def line_search(at: Callable[[Array], Point], start: Point, first: Array, most: int) -> Search:
    """Search from the point `start`, whose step is 0, with `first` as the first step to try, and `most` doublings."""

    def going(state: _State) -> Any:
        return ~state.is_done & ~state.has_failed & (state.doublings <= most)

    def body(state: _State) -> _State:
        trial = at(state.trial)
        is_first = ~state.is_bracketed & (state.doublings == 1)
        too_high = trial.value > start.value + SUFFICIENT_DECREASE * trial.step * start.slope
        too_high = too_high | ((trial.value >= state.low.value) & ~is_first) | (trial.value != trial.value)
        is_done = ~too_high & (magnitude(trial.slope) <= -CURVATURE * start.slope)
        # The minimum lies before the trial where the function rises there, else behind it.
        span = where(state.is_bracketed, state.high.step - state.low.step, trial.step - state.low.step)
        turns = ~too_high & (trial.slope * span >= 0)
        high = _chosen(too_high, trial, _chosen(turns, state.low, state.high))
        dropped = _chosen(too_high | turns, state.high, state.low)
        low = _chosen(too_high, state.low, trial)
        was_bracketed = state.is_bracketed
        is_bracketed = was_bracketed | too_high | turns
        narrowings = where(is_bracketed, state.narrowings + 1, 0)
        doublings = where(is_bracketed, state.doublings, state.doublings + 1)
        following = where(is_bracketed, _within(low, high, dropped, was_bracketed), 2 * trial.step)
        has_failed = (narrowings > MOST_NARROWINGS) | (is_bracketed & _is_narrow(low.step, high.step))
        return _State(
            low, high, dropped, following, doublings, narrowings, is_bracketed, is_done,
            has_failed & ~is_done,
        )  # fmt: skip

    yes, no = asarray(True), asarray(False)
    state = while_loop(going, body, _State(start, start, start, first, asarray(1), asarray(0), no, no, ~yes))
    status = where(state.is_done, 0, where(state.has_failed, 1, 3))
    return Search(state.low, state.doublings + state.narrowings - 1, status)


def _is_narrow(a: Array, b: Array) -> Array:
    eps = torch.finfo(a._tensor.dtype).eps
    return magnitude(a - b) <= 4 * eps * maximum(magnitude(a), magnitude(b))


def _within(low: Point, high: Point, dropped: Point, has_three: Array) -> Array:
    """Return a step within the bracket: the minimum of a cubic, of a parabola, or the middle, whichever is well inside.

    The cubic goes through three points, the parabola through two, both with the slope at `low`.
    """
    span = high.step - low.step
    left, right = minimum(low.step, high.step), maximum(low.step, high.step)

    def is_inside(step: Array, margin: float) -> Array:
        room = margin * magnitude(span)
        return (step > left + room) & (step < right - room)

    rise = high.value - low.value - low.slope * span
    parabola = low.step - low.slope * span * span / (2 * rise)
    other = dropped.step - low.step
    other_rise = dropped.value - low.value - low.slope * other
    scale = (span * other) ** 2 * (span - other)
    third = (other**2 * rise - span**2 * other_rise) / scale
    second = (span**3 * other_rise - other**3 * rise) / scale
    cubic = low.step + (-second + sqrt(second * second - 3 * third * low.slope)) / (3 * third)
    middle = low.step + span / 2
    step = where(is_inside(parabola, 0.1), parabola, middle)
    return where(has_three & is_inside(cubic, 0.2), cubic, step)
