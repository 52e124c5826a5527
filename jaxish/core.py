"""jax.core: abstract values, and the classes that tell traced values from concrete ones."""

from ._core import lazy_modules as _lazy_modules
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

# What JAX keeps here for those who have not moved on to jax.extend.core.
_MOVED = (
    "CallPrimitive", "DebugInfo", "DropVar", "Effect", "Effects", "check_jaxpr", "concrete_or_error", "find_top_trace",
    "gensym", "get_opaque_trace_state", "jaxprs_in_params", "new_jaxpr_eqn", "no_effects",
    "primal_dtype_to_tangent_dtype", "valid_jaxtype",
)  # fmt: skip
# What it keeps here alone.
_OF_CONTEXT = (
    "OutputType", "abstract_token", "aval_mapping_handlers", "call", "concretization_function_error", "is_concrete",
    "is_constant_dim", "is_constant_shape", "literalable_types", "no_axis_name", "nonempty_axis_env_DO_NOT_USE", "trace_ctx",
    "unsafe_am_i_under_a_jit_DO_NOT_USE", "unsafe_am_i_under_a_vmap_DO_NOT_USE", "unsafe_get_axis_names_DO_NOT_USE",
)  # fmt: skip
__getattr__ = _lazy_modules.deprecated(
    __name__,
    {name: ("jaxish.extend.core", name) for name in _MOVED}
    | {name: ("jaxish.errors", name) for name in ("InconclusiveDimensionOperation", "JaxprTypeError")}
    | {name: ("jaxish._jaxprs.context", name) for name in _OF_CONTEXT}
    | {"pytype_aval_mappings": ("jaxish._core.foreign_arrays", "abstract_values")},
)
