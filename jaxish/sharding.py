"""How arrays lie over devices: the names of `jax.sharding`."""

from ._backends.meshes import AbstractDevice as AbstractDevice
from ._backends.meshes import AbstractMesh as AbstractMesh
from ._backends.meshes import AxisType as AxisType
from ._backends.meshes import Mesh as Mesh
from ._backends.meshes import get_abstract_mesh as get_abstract_mesh
from ._backends.meshes import get_mesh as get_mesh
from ._backends.meshes import set_mesh as set_mesh
from ._backends.meshes import use_abstract_mesh as use_abstract_mesh
from ._backends.shardings import NamedSharding as NamedSharding
from ._backends.shardings import PartitionSpec as PartitionSpec
from ._backends.shardings import Sharding as Sharding
from ._backends.shardings import SingleDeviceSharding as SingleDeviceSharding
from ._backends.shardings import make_single_device_sharding as make_single_device_sharding
from ._transforms.placement import reshard as reshard
