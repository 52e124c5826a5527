"""jax.extend.core: traced functions as jaxprs."""

from .._transforms.jaxpr import ClosedJaxpr as ClosedJaxpr
from .._transforms.jaxpr import Jaxpr as Jaxpr
from .._transforms.jaxpr import jaxpr_as_fun as jaxpr_as_fun
