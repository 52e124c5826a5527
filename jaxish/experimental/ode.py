"""jax.experimental.ode: integration of ordinary differential equations."""

from .._experimental.ode import abs2 as abs2
from .._experimental.ode import fit_4th_order_polynomial as fit_4th_order_polynomial
from .._experimental.ode import initial_step_size as initial_step_size
from .._experimental.ode import interp_fit_dopri as interp_fit_dopri
from .._experimental.ode import mean_error_ratio as mean_error_ratio
from .._experimental.ode import odeint as odeint
from .._experimental.ode import optimal_step_size as optimal_step_size
from .._experimental.ode import ravel_first_arg as ravel_first_arg
from .._experimental.ode import runge_kutta_step as runge_kutta_step
