"""How arrays lie over devices: the names of `jax.sharding`."""

from ._core.axis_types import ManualAxisType as ManualAxisType
from ._devices.meshes import AbstractDevice as AbstractDevice
from ._devices.meshes import AbstractMesh as AbstractMesh
from ._devices.meshes import AxisType as AxisType
from ._devices.meshes import Mesh as Mesh
from ._devices.meshes import get_abstract_mesh as get_abstract_mesh
from ._devices.meshes import get_mesh as get_mesh
from ._devices.meshes import set_mesh as set_mesh
from ._devices.meshes import use_abstract_mesh as use_abstract_mesh
from ._devices.shardings import NamedSharding as NamedSharding
from ._devices.shardings import PartitionSpec as PartitionSpec
from ._devices.shardings import Sharding as Sharding
from ._devices.shardings import SingleDeviceSharding as SingleDeviceSharding
from ._devices.shardings import make_single_device_sharding as make_single_device_sharding
from ._transforms.axis_kinds import auto_axes as auto_axes
from ._transforms.axis_kinds import explicit_axes as explicit_axes
from ._transforms.placement import reshard as reshard
