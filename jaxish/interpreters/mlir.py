"""jax.interpreters.mlir: what compiled code has in the place of primitives that users define."""

from .._jaxprs.lowerings import LoweringRule as LoweringRule
from .._jaxprs.lowerings import LoweringRuleContext as LoweringRuleContext
from .._jaxprs.lowerings import lower_fun as lower_fun
from .._jaxprs.lowerings import register_lowering as register_lowering
