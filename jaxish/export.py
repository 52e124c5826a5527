"""jax.export: functions as data, for other processes."""

from ._export.checks import DisabledSafetyCheck as DisabledSafetyCheck
from ._export.checks import maximum_supported_calling_convention_version as maximum_supported_calling_convention_version
from ._export.checks import minimum_supported_calling_convention_version as minimum_supported_calling_convention_version
from ._export.dimensions import is_symbolic_dim as is_symbolic_dim
from ._export.exported import Exported as Exported
from ._export.exported import default_export_platform as default_export_platform
from ._export.exporting import export as export
from ._export.loading import deserialize as deserialize
from ._export.scopes import SymbolicScope as SymbolicScope
from ._export.specifications import symbolic_args_specs as symbolic_args_specs
from ._export.specifications import symbolic_shape as symbolic_shape
from ._export.structures import register_namedtuple_serialization as register_namedtuple_serialization
from ._export.structures import register_pytree_node_serialization as register_pytree_node_serialization
