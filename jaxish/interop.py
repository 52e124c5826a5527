"""jaxish.interop: functions, modules, optimizers and meshes of PyTorch in JAX programs, and the other way round."""

from ._devices.device_meshes import from_device_mesh as from_device_mesh
from ._devices.device_meshes import from_placements as from_placements
from ._devices.device_meshes import to_device_mesh as to_device_mesh
from ._devices.device_meshes import to_placements as to_placements
from ._interop.export import export as export
from ._interop.from_torch import from_torch_function as from_torch_function
from ._interop.from_torch import from_torch_module as from_torch_module
from ._interop.module import Module as Module
from ._interop.optimizers import Optimizer as Optimizer
from ._interop.optimizers import from_torch_optimizer as from_torch_optimizer
from ._interop.to_torch import to_torch as to_torch
