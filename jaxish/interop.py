"""jaxish.interop: functions, modules and optimizers of PyTorch in JAX programs, and the other way round."""

from ._interop.to_torch import to_torch as to_torch
