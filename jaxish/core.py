"""jax.core: abstract values, and the classes that tell traced values from concrete ones."""

from ._core.avals import AbstractValue as AbstractValue
from ._core.avals import ShapedArray as ShapedArray
from ._core.graph import Trace as Trace
from ._core.tracers import Tracer as Tracer
from ._core.tracers import ensure_compile_time_eval as ensure_compile_time_eval
from ._jaxprs.ir import eval_jaxpr as eval_jaxpr
