"""jax.interpreters.ad: derivatives of primitives that users define."""

from .._jaxprs.context import JVPTrace as JVPTrace
from .._jaxprs.context import JVPTracer as JVPTracer
from .._jaxprs.rules import UndefinedPrimal as UndefinedPrimal
from .._jaxprs.rules import Zero as Zero
from .._jaxprs.rules import add_jaxvals as add_jaxvals
from .._jaxprs.rules import add_tangents as add_tangents
from .._jaxprs.rules import defbilinear as defbilinear
from .._jaxprs.rules import defjvp as defjvp
from .._jaxprs.rules import defjvp2 as defjvp2
from .._jaxprs.rules import deflinear as deflinear
from .._jaxprs.rules import deflinear2 as deflinear2
from .._jaxprs.rules import get_primitive_transpose as get_primitive_transpose
from .._jaxprs.rules import instantiate_zeros as instantiate_zeros
from .._jaxprs.rules import is_undefined_primal as is_undefined_primal
from .._jaxprs.rules import primitive_jvps as primitive_jvps
from .._jaxprs.rules import primitive_transposes as primitive_transposes
from .._jaxprs.rules import zeros_like_aval as zeros_like_aval
from .._transforms.flat_trees import jvp as jvp
from .._transforms.flat_trees import linearize as linearize
