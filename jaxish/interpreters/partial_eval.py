"""jax.interpreters.partial_eval: functions on jaxprs."""

from .._core.tracers import DynamicJaxprTracer as DynamicJaxprTracer
from .._core.tracers import JaxprTracer as JaxprTracer
from .._transforms.partial_eval import PartialVal as PartialVal
from .._transforms.partial_eval import dce_jaxpr as dce_jaxpr
from .._transforms.partial_eval import trace_to_jaxpr_dynamic as trace_to_jaxpr_dynamic
from .._transforms.partial_eval import trace_to_jaxpr_nounits as trace_to_jaxpr_nounits
