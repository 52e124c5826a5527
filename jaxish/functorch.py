"""jaxish.functorch: functorch's names, for functions of tensors and of arrays."""

from torch.func import replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_
from torch.func import stack_module_state as stack_module_state

from ._interop.functorch import combine_state_for_ensemble as combine_state_for_ensemble
from ._interop.functorch import functional_call as functional_call
from ._interop.functorch import functionalize as functionalize
from ._interop.functorch import grad as grad
from ._interop.functorch import grad_and_value as grad_and_value
from ._interop.functorch import hessian as hessian
from ._interop.functorch import jacfwd as jacfwd
from ._interop.functorch import jacrev as jacrev
from ._interop.functorch import jvp as jvp
from ._interop.functorch import linearize as linearize
from ._interop.functorch import lookup as _lookup
from ._interop.functorch import make_functional as make_functional
from ._interop.functorch import make_functional_with_buffers as make_functional_with_buffers
from ._interop.functorch import make_fx as make_fx
from ._interop.functorch import vjp as vjp
from ._interop.functorch import vmap as vmap

__getattr__ = _lookup
