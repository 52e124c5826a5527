"""jaxish.interop: functions, modules and optimizers of PyTorch in JAX programs, and the other way round."""

from ._interop.export import export as export
from ._interop.from_torch import from_torch_function as from_torch_function
from ._interop.from_torch import from_torch_module as from_torch_module
from ._interop.module import Module as Module
from ._interop.optimizers import Optimizer as Optimizer
from ._interop.optimizers import from_torch_optimizer as from_torch_optimizer
from ._interop.to_torch import to_torch as to_torch
