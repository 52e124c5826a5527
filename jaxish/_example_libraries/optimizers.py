"""Optimizers of pytrees: triples of functions that make a state, update it by gradients, and give its parameters.

`optimizer` makes an optimizer of pytrees of one that is written for a single array.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from .._core import tree_util
from .._core.array import Array
from .._core.tree import register_pytree_node
from .._numpy.contractions import vdot
from .._numpy.creation import array, asarray, zeros_like
from .._numpy.elementary import sqrt
from .._numpy.manipulation import atleast_1d, ndim
from .._numpy.rounding import floor
from .._numpy.selection import where
from .._numpy.ufuncs import maximum, minimum, square


class OptimizerState(NamedTuple):
    """The state of an optimizer: the leaves of each array's state, the parameters' structure, and each state's."""

    packed_state: Any
    tree_def: Any
    subtree_defs: Any


register_pytree_node(
    OptimizerState,
    lambda state: ((state.packed_state,), (state.tree_def, state.subtree_defs)),
    lambda defs, children: OptimizerState(children[0], *defs),
)

Params = Any  # a pytree of arrays
State = Any  # of one array
Updates = Params
Step = int
InitFn = Callable[[Params], OptimizerState]
UpdateFn = Callable[[Step, Updates, OptimizerState], OptimizerState]
ParamsFn = Callable[[OptimizerState], Params]
Schedule = Callable[[Step], Any]  # to a number


class Optimizer(NamedTuple):
    """The functions of an optimizer: `init_fn(params)`, `update_fn(step, gradients, state)`, `params_fn(state)`."""

    init_fn: InitFn
    update_fn: UpdateFn
    params_fn: ParamsFn


def optimizer(opt_maker: Callable[..., Any]) -> Callable[..., Optimizer]:
    """Return a maker of optimizers of pytrees, for a maker of three functions of a single array and its state.

    The optimizer raises `TypeError` for gradients whose structure is not the parameters'.
    """

    @functools.wraps(opt_maker)
    def make(*args: Any, **kwargs: Any) -> Optimizer:
        init, update, get_params = opt_maker(*args, **kwargs)

        @functools.wraps(init)
        def init_tree(params: Params) -> OptimizerState:
            leaves, structure = tree_util.tree_flatten(params)
            return _packed(structure, [init(leaf) for leaf in leaves])

        @functools.wraps(update)
        def update_tree(step: Step, gradients: Updates, state: OptimizerState) -> OptimizerState:
            leaves, structure = tree_util.tree_flatten(gradients)
            if structure != state.tree_def:
                raise TypeError(
                    "optimizer update function was passed a gradient tree that did not match the parameter tree: "
                    f"the parameters are {state.tree_def}, the gradients {structure}."
                )
            new = _packed(structure, [update(step, g, s) for g, s in zip(leaves, _unpacked(state), strict=True)])
            for before, after in zip(state.subtree_defs, new.subtree_defs, strict=True):
                if before != after:
                    raise TypeError(
                        "optimizer update function produced an output structure that did not match its input: "
                        f"it got {before} and gave {after}."
                    )
            return new

        @functools.wraps(get_params)
        def params_of(state: OptimizerState) -> Params:
            return tree_util.tree_unflatten(state.tree_def, [get_params(s) for s in _unpacked(state)])

        return Optimizer(init_tree, update_tree, params_of)

    return make


def _packed(structure: Any, states: Sequence[State]) -> OptimizerState:
    flat = [tree_util.tree_flatten(state) for state in states]
    return OptimizerState(tuple(leaves for leaves, _ in flat), structure, tuple(inner for _, inner in flat))


def _unpacked(state: OptimizerState) -> list[State]:
    return [
        tree_util.tree_unflatten(inner, leaves)
        for inner, leaves in zip(state.subtree_defs, state.packed_state, strict=True)
    ]


def _first(state: State) -> Array:
    return state[0]


# ------------------------------------------------------------------------------------------------------------ optimizers


@optimizer
def sgd(step_size: float | Schedule) -> Any:
    """Return stochastic gradient descent. `step_size` is a number, or a function of the step's."""
    rate = make_schedule(step_size)
    return (lambda x: x), (lambda i, g, x: x - rate(i) * g), (lambda x: x)


@optimizer
def momentum(step_size: float | Schedule, mass: float) -> Any:
    """Return gradient descent with momentum."""
    rate = make_schedule(step_size)

    def update(i: Step, g: Array, state: State) -> State:
        x, velocity = state
        velocity = mass * velocity + g
        return x - rate(i) * velocity, velocity

    return (lambda x: (x, zeros_like(x))), update, _first


@optimizer
def nesterov(step_size: float | Schedule, mass: float) -> Any:
    """Return gradient descent with Nesterov's momentum."""
    rate = make_schedule(step_size)

    def update(i: Step, g: Array, state: State) -> State:
        x, velocity = state
        velocity = mass * velocity + g
        return x - rate(i) * (mass * velocity + g), velocity

    return (lambda x: (x, zeros_like(x))), update, _first


def _with_two_averages(x: Array) -> State:
    return x, zeros_like(x), zeros_like(x)


@optimizer
def adagrad(step_size: float | Schedule, momentum: float = 0.9) -> Any:
    """Return Adagrad with momentum (Duchi, Hazan and Singer, JMLR 12, 2011)."""
    rate = make_schedule(step_size)

    def update(i: Step, g: Array, state: State) -> State:
        x, squares, m = state
        squares = squares + square(g)
        scale = where(squares > 0, 1.0 / sqrt(squares), 0.0)
        m = (1.0 - momentum) * (g * scale) + momentum * m
        return x - rate(i) * m, squares, m

    return _with_two_averages, update, _first


@optimizer
def rmsprop(step_size: float | Schedule, gamma: float = 0.9, eps: float = 1e-8) -> Any:
    """Return RMSProp (Tieleman and Hinton, 2012): `gamma` is the decay of the average of squares."""
    rate = make_schedule(step_size)

    def update(i: Step, g: Array, state: State) -> State:
        x, squares = state
        squares = squares * gamma + square(g) * (1.0 - gamma)
        return x - rate(i) * g / sqrt(squares + eps), squares

    return (lambda x: (x, zeros_like(x))), update, _first


@optimizer
def rmsprop_momentum(step_size: float | Schedule, gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9) -> Any:
    """Return RMSProp with momentum."""
    rate = make_schedule(step_size)

    def update(i: Step, g: Array, state: State) -> State:
        x, squares, m = state
        squares = squares * gamma + square(g) * (1.0 - gamma)
        m = momentum * m + rate(i) * g / sqrt(squares + eps)
        return x - m, squares, m

    return _with_two_averages, update, _first


@optimizer
def adam(step_size: float | Schedule, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Return Adam (Kingma and Ba, 2015): `b1` and `b2` are the decays of the averages of gradients and squares."""
    rate = make_schedule(step_size)

    def update(i: Step, g: Array, state: State) -> State:
        x, m, v = state
        m = (1 - b1) * g + b1 * m
        v = (1 - b2) * square(g) + b2 * v
        unbiased_m = m / (1 - asarray(b1, m.dtype) ** (i + 1))
        unbiased_v = v / (1 - asarray(b2, m.dtype) ** (i + 1))
        return x - rate(i) * unbiased_m / (sqrt(unbiased_v) + eps), m, v

    return _with_two_averages, update, _first


@optimizer
def adamax(step_size: float | Schedule, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Return AdaMax, Adam with the infinity norm (Kingma and Ba, 2015)."""
    rate = make_schedule(step_size)

    def update(i: Step, g: Array, state: State) -> State:
        x, m, u = state
        m = (1 - b1) * g + b1 * m
        u = maximum(b2 * u, abs(g))
        return x - (rate(i) / (1 - asarray(b1, m.dtype) ** (i + 1))) * m / (u + eps), m, u

    return _with_two_averages, update, _first


@optimizer
def sm3(step_size: float | Schedule, momentum: float = 0.9) -> Any:
    """Return SM3 (Anil, Gupta, Koren and Singer, 2019): one accumulator for each index of each axis."""
    rate = make_schedule(step_size)

    def init(x: Array) -> State:
        rows: Any = atleast_1d(x)
        return rows, zeros_like(rows), [zeros_like(rows, shape=n) for n in rows.shape], x.shape

    def update(i: Step, g: Array, state: State) -> State:
        x, m, sums, shape = state
        aligned = [s.reshape([-1 if d == axis else 1 for d in range(g.ndim)]) for axis, s in enumerate(sums)]
        total = functools.reduce(minimum, aligned) + square(g)
        scale = where(total > 0, 1.0 / sqrt(total), 0.0)
        m = (1.0 - momentum) * (g * scale) + momentum * m
        sums = [total.max(tuple(d for d in range(x.ndim) if d != axis)) for axis in range(x.ndim)]
        return x - rate(i) * m, m, sums, shape

    return init, update, lambda state: state[0].reshape(state[3])


# ------------------------------------------------------------------------------------------------------------- schedules


def constant(step_size: float) -> Schedule:
    """Return the schedule that is `step_size` at every step."""
    return lambda i: step_size


def exponential_decay(step_size: float, decay_steps: float, decay_rate: float) -> Schedule:
    """Return the schedule step_size decay_rate^(i/decay_steps)."""
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(step_size: float, decay_steps: float, decay_rate: float, staircase: bool = False) -> Schedule:
    """Return the schedule step_size / (1 + decay_rate i/decay_steps), i/decay_steps rounded down for a `staircase`."""
    if staircase:
        return lambda i: step_size / (1 + decay_rate * floor(i / decay_steps))
    return lambda i: step_size / (1 + decay_rate * i / decay_steps)


def polynomial_decay(step_size: float, decay_steps: float, final_step_size: float, power: float = 1.0) -> Schedule:
    """Return the schedule from `step_size` to `final_step_size` in `decay_steps`, along (1 - i/decay_steps)^power."""

    def schedule(i: Step) -> Any:
        return (1 - minimum(i, decay_steps) / decay_steps) ** power * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """Return the schedule that is `values[k]` after `k` of the `boundaries` were passed.

    Raises `ValueError` unless there is one value more than boundaries.
    """
    ends, levels = array(boundaries), array(values)
    if not ends.ndim == levels.ndim == 1:
        raise ValueError(f"boundaries and values must be sequences, got shapes {ends.shape} and {levels.shape}.")
    if ends.shape[0] != levels.shape[0] - 1:
        raise ValueError(
            f"boundaries length must be one shorter than values length, got {ends.shape[0]} and {levels.shape[0]}."
        )
    return lambda i: levels[(i > ends).sum()]


def make_schedule(scalar_or_schedule: float | Schedule) -> Schedule:
    """Return a schedule: what is given, or the constant one. Raises `TypeError` for an array that is no scalar."""
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    if ndim(scalar_or_schedule) == 0:
        return constant(scalar_or_schedule)
    raise TypeError(f"A step size is a number or a function of the step, got {type(scalar_or_schedule)}.")


# ------------------------------------------------------------------------------------------------------------- gradients


def l2_norm(tree: Any) -> Any:
    """Return the square root of the sum of squares of all elements of a pytree."""
    return sqrt(sum(vdot(x, x) for x in tree_util.tree_leaves(tree)))


def clip_grads(grad_tree: Any, max_norm: float) -> Any:
    """Return gradients scaled down to a norm of `max_norm`, if theirs is larger."""
    norm = l2_norm(grad_tree)
    return tree_util.tree_map(lambda g: where(norm < max_norm, g, g * (max_norm / norm)), grad_tree)


# ---------------------------------------------------------------------------------------------------------------- states


class JoinPoint:
    """Where the pytree of one array's state begins, in the pytree of the parameters."""

    def __init__(self, subtree: Any) -> None:
        self.subtree = subtree

    def __iter__(self) -> Iterator[Any]:
        yield self.subtree


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """Return a pytree of the parameters' structure with a `JoinPoint` of its state for each array: to be written."""
    return tree_util.tree_unflatten(opt_state.tree_def, [JoinPoint(state) for state in _unpacked(opt_state)])


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """Return the state that `unpack_optimizer_state` made the pytree of. Raises `TypeError` for other leaves."""
    points, structure = tree_util.tree_flatten(marked_pytree)
    for point in points:
        if not isinstance(point, JoinPoint):
            raise TypeError(f"The leaves of a marked pytree are JoinPoints, got {type(point)}.")
    return _packed(structure, [point.subtree for point in points])
