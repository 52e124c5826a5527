"""jax.custom_derivatives: functions with derivatives of the user's own."""

from ._transforms.closures import closure_convert as closure_convert
from ._transforms.custom_rules import CustomVJPPrimal as CustomVJPPrimal
from ._transforms.custom_rules import SymbolicZero as SymbolicZero
from ._transforms.custom_rules import custom_gradient as custom_gradient
from ._transforms.custom_rules import custom_jvp as custom_jvp
from ._transforms.custom_rules import custom_vjp as custom_vjp
from ._transforms.custom_rules import custom_vjp_primal_tree_values as custom_vjp_primal_tree_values
from ._transforms.custom_rules import zero_from_primal as zero_from_primal
