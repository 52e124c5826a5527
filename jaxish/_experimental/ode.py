"""Integration of ordinary differential equations, with gradients by the adjoint equation.

Steps of Dormand and Prince's Runge-Kutta method ("A family of embedded Runge-Kutta formulae", Journal of Computational
and Applied Mathematics 6, 1980) of adaptive size, as E. Hairer, S. Nørsett and G. Wanner, Solving Ordinary Differential
Equations I, II.4, choose it; between steps, Shampine's interpolation ("Some practical Runge-Kutta formulas",
Mathematics of Computation 46, 1986). Gradients: R. Chen et al., "Neural ordinary differential equations", 2018.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core import config, dtypes, tree_util
from .._core.array import Array, is_arraylike
from .._core.typing import ArrayLike
from .._lax.control_flow import scan, while_loop
from .._numpy.creation import array, asarray, zeros_like
from .._numpy.elementary import sqrt
from .._numpy.joining import concatenate, stack
from .._numpy.linalg.norms import norm
from .._numpy.polynomial import polyval
from .._numpy.ranges import arange
from .._numpy.selection import where
from .._numpy.ufuncs import clip, maximum, minimum
from .._transforms.autodiff import vjp
from .._transforms.closures import closure_convert
from .._transforms.custom_vjp import custom_vjp
from .._transforms.flat import name_of
from .._transforms.flatten_util import ravel_pytree
from .._transforms.jit import jit
from .._transforms.vmap import vmap

# Dormand and Prince's coefficients: the times of the stages, what each takes of the slopes before it, and the error's.
_TIMES = np.array([1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1])
_STAGES = np.array([
    [1 / 5, 0, 0, 0, 0, 0, 0],
    [3 / 40, 9 / 40, 0, 0, 0, 0, 0],
    [44 / 45, -56 / 15, 32 / 9, 0, 0, 0, 0],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0, 0],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0, 0],
    [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0],
])  # fmt: skip
_ERROR = _STAGES[-1] - [1951 / 21600, 0, 22642 / 50085, 451 / 720, -12231 / 42400, 649 / 6300, 1 / 60]
# The solution in the middle of a step, by its slopes.
_MIDDLE = np.array([
    6025192743 / 30085553152, 0, 51252292925 / 65400821598, -2691868925 / 45128329728, 187940372067 / 1594534317056,
    -1776094331 / 19743644256, 11237099 / 235043384,
]) / 2  # fmt: skip


def _combined(coefficients: np.ndarray, slopes: Array) -> Array:
    """Return the sum of slopes times coefficients."""
    return asarray(coefficients, slopes.dtype) @ slopes


def ravel_first_arg(f: Callable[..., Any], unravel: Callable[[Array], Any], debug_info: Any) -> Any:
    """Return `f` of a flat first argument with a flat result. Its name is `debug_info`'s `func_name`, or `f`'s."""

    @functools.wraps(f)
    def flat(y: Array, *args: Any) -> Array:
        return ravel_pytree(f(unravel(y), *args))[0]

    flat.__name__ = getattr(debug_info, "func_name", name_of(f))
    return flat


def runge_kutta_step(func: Callable[..., Any], y0: Array, f0: Array, t0: Array, dt: Array) -> Any:
    """Return the solution after a step of `dt`, its slope there, an estimate of the error, and the seven slopes."""
    step = dt.astype(f0.dtype)
    places = arange(len(_ERROR))[:, None]

    def stage(slopes: Array, row: tuple[Array, Array, Array]) -> tuple[Array, None]:
        number, time, coefficients = row
        found = func(y0 + step * (coefficients @ slopes), t0 + dt * time)
        return where(places == number, found, slopes), None

    # A loop, for it may stand within loops: the equation is in it once.
    rows = (arange(1, len(_ERROR)), asarray(_TIMES, dt.dtype), asarray(_STAGES, f0.dtype))
    slopes, _ = scan(stage, where(places == 0, f0, zeros_like(f0)), rows)
    y1 = y0 + step * _combined(_STAGES[-1], slopes)
    return y1, slopes[-1], step * _combined(_ERROR, slopes), slopes


def fit_4th_order_polynomial(
    y0: Array, y1: Array, y_mid: Array, dy0: Array, dy1: Array, dt: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """Return the polynomial in (t - t0)/dt, the highest power first, with these values and slopes (`y_mid` at 1/2)."""
    dt = dt.astype(y0.dtype)
    a = 2.0 * dt * (dy1 - dy0) - 8.0 * (y0 + y1) + 16.0 * y_mid
    b = dt * (5.0 * dy0 - 3.0 * dy1) + 18.0 * y0 + 14.0 * y1 - 32.0 * y_mid
    c = dt * (dy1 - 4.0 * dy0) - 11.0 * y0 - 5.0 * y1 + 16.0 * y_mid
    return a, b, c, dt * dy0, y0


def interp_fit_dopri(y0: Array, y1: Array, k: Array, dt: Array) -> Array:
    """Return the polynomial of a step from `y0` to `y1` with the slopes `k`, an array of five coefficients."""
    middle = y0 + dt.astype(y0.dtype) * _combined(_MIDDLE, k)
    return stack(fit_4th_order_polynomial(y0, y1, middle, k[0], k[-1], dt))


def initial_step_size(
    fun: Callable[..., Any], t0: Array, y0: Array, order: int, rtol: float, atol: float, f0: Array
) -> Array:
    """Return a first step for a method of this order (Hairer, Nørsett and Wanner, II.4, "starting step size")."""
    scale = atol + abs(y0) * rtol
    d0, d1 = norm(y0 / scale), norm(f0 / scale)
    tried = where((d0 < 1e-5) | (d1 < 1e-5), 1e-6, 0.01 * d0 / d1)
    f1 = fun(y0 + tried.astype(y0.dtype) * f0, t0 + tried)
    d2 = norm((f1 - f0) / scale) / tried
    found = where(
        (d1 <= 1e-15) & (d2 <= 1e-15),
        maximum(1e-6, tried * 1e-3),
        (0.01 / maximum(d1, d2)) ** (1.0 / (order + 1.0)),
    )
    return minimum(100.0 * tried, found)


def abs2(x: Array) -> Array:
    """Return the square of the absolute value."""
    return x.real**2 + x.imag**2 if x.dtype.kind == "c" else x**2


def mean_error_ratio(error_estimate: Array, rtol: float, atol: float, y0: Array, y1: Array) -> Array:
    """Return the root mean square of the error, relative to what is tolerated between `y0` and `y1`."""
    tolerated = atol + rtol * maximum(abs(y0), abs(y1))
    return sqrt(abs2(error_estimate / tolerated.astype(error_estimate.dtype)).mean())


def optimal_step_size(
    last_step: Array, mean_error_ratio: Array, safety: float = 0.9, ifactor: float = 10.0, dfactor: float = 0.2,
    order: float = 5.0,
) -> Array:  # fmt: skip
    """Return the next step: at most `ifactor` times the last one, at least `dfactor` times, never less after success."""
    least = where(mean_error_ratio < 1, 1.0, dfactor)
    factor = minimum(ifactor, maximum(mean_error_ratio ** (-1.0 / order) * safety, least))
    return last_step * where(mean_error_ratio == 0, ifactor, factor)


def odeint(
    func: Callable[..., Any], y0: Any, t: ArrayLike, *args: Any, rtol: float = 1.4e-8, atol: float = 1.4e-8,
    mxstep: float = math.inf, hmax: float = math.inf,
) -> Any:  # fmt: skip
    """Return the solution of dy/dt = func(y, t, *args) at the times `t`, which rise, with the value `y0` at the first.

    `y0` and the slopes are pytrees of arrays; the result has them with a new first dimension of length `len(t)`.
    `rtol` and `atol` are the tolerated local error relative to the solution, and absolute; `mxstep` bounds the number
    of steps between two times, `hmax` their size. Differentiable in reverse mode in `y0`, `t`, `args` and what `func`
    closes over. Raises `TypeError` for times that are not floating and for arguments that are no arrays.
    """
    for arg in tree_util.tree_leaves(args):
        if not is_arraylike(arg):
            raise TypeError(f"The contents of odeint *args must be arrays or scalars, but got {arg}.")
    times = asarray(t)
    if not dtypes.issubdtype(times.dtype, np.floating):
        raise TypeError(f"t must be an array of floats, but got {t}.")
    converted, consts = closure_convert(func, y0, times[0], *args)
    return _odeint_of_trees(converted, rtol, atol, mxstep, hmax, y0, times, *args, *consts)


@functools.partial(jit, static_argnums=(0, 1, 2, 3, 4))
def _odeint_of_trees(
    func: Callable[..., Any], rtol: float, atol: float, mxstep: float, hmax: float, y0: Any, ts: Array, *args: Any
) -> Any:
    with config.default_matmul_precision("highest"):
        flat, unravel = ravel_pytree(y0)
        return vmap(unravel)(_odeint(ravel_first_arg(func, unravel, None), rtol, atol, mxstep, hmax, flat, ts, *args))


@functools.partial(custom_vjp, nondiff_argnums=(0, 1, 2, 3, 4))
def _odeint(
    func: Callable[..., Any], rtol: float, atol: float, mxstep: float, hmax: float, y0: Array, ts: Array, *args: Any
) -> Array:
    def slope(y: Array, t: Array) -> Array:
        return func(y, t, *args)

    def to_time(carry: Any, target: Array) -> Any:
        def going(state: Any) -> Array:
            steps, _, _, t, dt, _, _ = state
            return (t < target) & (steps < mxstep) & (dt > 0)

        def stepped(state: Any) -> Any:
            steps, y, f, t, dt, last, curve = state
            new_y, new_f, error, slopes = runge_kutta_step(slope, y, f, t, dt)
            ratio = mean_error_ratio(error, rtol, atol, y, new_y)
            new_curve = interp_fit_dopri(y, new_y, slopes, dt)
            onward = clip(optimal_step_size(dt, ratio), min=0.0, max=hmax)
            new, old = (new_y, new_f, t + dt, t, new_curve), (y, f, t, last, curve)
            y, f, t, last, curve = (where(ratio <= 1.0, a, b) for a, b in zip(new, old, strict=True))
            return steps + 1, y, f, t, onward, last, curve

        _, *carry = while_loop(going, stepped, (0, *carry))
        _, _, t, _, last, curve = carry
        place = ((target - last) / (t - last)).astype(curve.dtype)
        return tuple(carry), polyval(curve, place)

    f0 = slope(y0, ts[0])
    dt = clip(initial_step_size(slope, ts[0], y0, 4, rtol, atol, f0), min=0.0, max=hmax).astype(ts.dtype)
    _, ys = scan(to_time, (y0, f0, ts[0], dt, ts[0], stack([y0] * 5)), ts[1:])
    return concatenate((y0[None], ys))


def _forward(
    func: Callable[..., Any], rtol: float, atol: float, mxstep: float, hmax: float, y0: Array, ts: Array, *args: Any
) -> Any:
    ys = _odeint(func, rtol, atol, mxstep, hmax, y0, ts, *args)
    return ys, (ys, ts, args)


def _backward(
    func: Callable[..., Any], rtol: float, atol: float, mxstep: float, hmax: float, residuals: Any, g: Array
) -> Any:
    """Return the cotangents, by integrating the adjoint equation back from one time to the one before."""
    ys, ts, args = residuals

    def backwards(state: Any, t: Array, *args: Any) -> Any:
        y, y_bar, *_ = state
        dy, pull = vjp(func, y, -t, *args)
        return (-dy, *pull(y_bar))

    def to_previous(carry: Any, row: Any) -> Any:
        y_bar, t0_bar, args_bar = carry
        y, t, t_before, g, g_before = row
        t_bar = (func(y, t, *args) * g).sum().real
        state = (y, y_bar, t0_bar - t_bar, args_bar)
        times = stack([-t, -t_before])
        found = odeint(backwards, state, times, *args, rtol=rtol, atol=atol, mxstep=mxstep, hmax=hmax)
        _, y_bar, t0_bar, args_bar = tree_util.tree_map(lambda x: x[1], found)
        return (y_bar + g_before, t0_bar, args_bar), t_bar

    with config.default_matmul_precision("highest"):
        start = (g[-1], array(0.0, dtype=ts.dtype), tree_util.tree_map(zeros_like, args))
        rows = (ys[1:], ts[1:], ts[:-1], g[1:], g[:-1])
        (y_bar, t0_bar, args_bar), ts_bar = scan(to_previous, start, rows, reverse=True)
        return y_bar, concatenate([t0_bar[None], ts_bar]), *args_bar


_odeint.defvjp(_forward, _backward)
