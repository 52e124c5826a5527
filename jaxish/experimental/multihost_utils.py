"""Values that processes exchange: names of `jax.experimental.multihost_utils`."""

from .._core.tree_util import tree_flatten as tree_flatten
from .._core.tree_util import tree_unflatten as tree_unflatten
from .._devices.shardings import PartitionSpec
from .._transforms.api_util import safe_zip as safe_zip
from .._transforms.assembly import assert_equal as assert_equal
from .._transforms.assembly import broadcast_one_to_all as broadcast_one_to_all
from .._transforms.assembly import process_allgather as process_allgather
from .._transforms.assembly import sync_global_devices as sync_global_devices
from .._transforms.host_local import ProcessFailureError as ProcessFailureError
from .._transforms.host_local import global_array_to_host_local_array as global_array_to_host_local_array
from .._transforms.host_local import global_array_to_host_local_array_impl as global_array_to_host_local_array_impl
from .._transforms.host_local import gtl_abstract_eval as gtl_abstract_eval
from .._transforms.host_local import host_local_array_to_global_array as host_local_array_to_global_array
from .._transforms.host_local import host_local_array_to_global_array_impl as host_local_array_to_global_array_impl
from .._transforms.host_local import live_devices as live_devices
from .._transforms.host_local import ltg_abstract_eval as ltg_abstract_eval
from .._transforms.host_local import ltg_batcher as ltg_batcher
from .._transforms.host_local import reached_preemption_sync_point as reached_preemption_sync_point

P = PartitionSpec
del PartitionSpec
