"""jax.experimental.hijax: primitives written as classes."""

from .._core.avals import AbstractValue as AbstractValue
from .._core.avals import ShapedArray as ShapedArray
from .._core.refs import AbstractRef as AbstractRef
from .._core.refs import TransformedRef as TransformedRef
from .._experimental.hijax import AvalMutableQDD as AvalMutableQDD
from .._experimental.hijax import AvalQDD as AvalQDD
from .._experimental.hijax import HiPrimitive as HiPrimitive
from .._experimental.hijax import HiPspec as HiPspec
from .._experimental.hijax import HiType as HiType
from .._experimental.hijax import MutableHiType as MutableHiType
from .._experimental.hijax import VJPHiPrimitive as VJPHiPrimitive
from .._experimental.hijax import aval_method as aval_method
from .._experimental.hijax import aval_property as aval_property
from .._experimental.hijax import control_flow_allowed_effects as control_flow_allowed_effects
from .._experimental.hijax import register_hitype as register_hitype
from .._jaxprs.rules import Zero as Zero
from .._jaxprs.rules import instantiate_zeros as instantiate_zeros
from .._jaxprs.rules import is_undefined_primal as is_undefined_primal
