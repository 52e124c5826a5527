"""jax.extend.core: jaxprs and primitives, for those who look at programs or extend what they are made of."""

from ..._jaxprs.ir import ClosedJaxpr as ClosedJaxpr
from ..._jaxprs.ir import DebugInfo as DebugInfo
from ..._jaxprs.ir import DropVar as DropVar
from ..._jaxprs.ir import Effects as Effects
from ..._jaxprs.ir import Jaxpr as Jaxpr
from ..._jaxprs.ir import JaxprEqn as JaxprEqn
from ..._jaxprs.ir import JaxprTypeError as JaxprTypeError
from ..._jaxprs.ir import Literal as Literal
from ..._jaxprs.ir import Var as Var
from ..._jaxprs.ir import check_jaxpr as check_jaxpr
from ..._jaxprs.ir import gensym as gensym
from ..._jaxprs.ir import jaxpr_as_fun as jaxpr_as_fun
from ..._jaxprs.ir import jaxprs_in_params as jaxprs_in_params
from ..._jaxprs.ir import new_jaxpr_eqn as new_jaxpr_eqn
from ..._jaxprs.ir import no_effects as no_effects
from ..._jaxprs.ir import subjaxprs as subjaxprs
from ..._jaxprs.primitive import Primitive as Primitive
