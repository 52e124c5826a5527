"""jax.custom_derivatives: functions with derivatives of the user's own."""

from ._lax.vocabulary import custom_jvp_call_p as custom_jvp_call_p
from ._lax.vocabulary import custom_vjp_call_p as custom_vjp_call_p
from ._transforms.closures import closure_convert as closure_convert
from ._transforms.custom_function import SymbolicZero as SymbolicZero
from ._transforms.custom_function import zero_from_primal as zero_from_primal
from ._transforms.custom_jvp import custom_jvp as custom_jvp
from ._transforms.custom_vjp import CustomVJPPrimal as CustomVJPPrimal
from ._transforms.custom_vjp import custom_gradient as custom_gradient
from ._transforms.custom_vjp import custom_vjp as custom_vjp
from ._transforms.custom_vjp import custom_vjp_primal_tree_values as custom_vjp_primal_tree_values
from ._transforms.linear_call import linear_call as linear_call
