"""jax.ffi: foreign functions of XLA. This module only hands names on."""

from ._experimental.foreign_functions import build_ffi_lowering_function as build_ffi_lowering_function
from ._experimental.foreign_functions import ffi_call as ffi_call
from ._experimental.foreign_functions import ffi_lowering as ffi_lowering
from ._experimental.foreign_functions import include_dir as include_dir
from ._experimental.foreign_functions import pycapsule as pycapsule
from ._experimental.foreign_functions import register_ffi_target as register_ffi_target
from ._experimental.foreign_functions import (
    register_ffi_target_as_batch_partitionable as register_ffi_target_as_batch_partitionable,
)
from ._experimental.foreign_functions import register_ffi_type as register_ffi_type
from ._experimental.foreign_functions import register_ffi_type_id as register_ffi_type_id
