"""jax.core: abstract values, and the classes that tell traced values from concrete ones."""

from ._core.avals import AbstractValue as AbstractValue
from ._core.avals import ShapedArray as ShapedArray
from ._core.graph import Trace as Trace
from ._core.tracers import Tracer as Tracer
from ._core.tracers import ensure_compile_time_eval as ensure_compile_time_eval
from ._jaxprs.context import ParamDict as ParamDict
from ._jaxprs.context import Value as Value
from ._jaxprs.context import eval_context as eval_context
from ._jaxprs.context import max_dim as max_dim
from ._jaxprs.context import min_dim as min_dim
from ._jaxprs.ir import Atom as Atom
from ._jaxprs.ir import eval_jaxpr as eval_jaxpr
