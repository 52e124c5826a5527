"""jax.api_util: functions on pytrees as functions on leaves."""

from ._transforms.api_util import argnums_partial as argnums_partial
from ._transforms.api_util import debug_info as debug_info
from ._transforms.api_util import donation_vector as donation_vector
from ._transforms.api_util import flatten_axes as flatten_axes
from ._transforms.api_util import flatten_fun as flatten_fun
from ._transforms.api_util import flatten_fun_nokwargs as flatten_fun_nokwargs
from ._transforms.api_util import rebase_donate_argnums as rebase_donate_argnums
from ._transforms.api_util import safe_map as safe_map
from ._transforms.api_util import shaped_abstractify as shaped_abstractify
