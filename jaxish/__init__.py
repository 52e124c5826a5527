"""jaxish: JAX's programming model on PyTorch's machinery.

`import jaxish as jax` is all that a JAX program needs; `python -m jaxish run program.py` needs not even that.
This module hands on the names of `jax`; what there is besides is in the table of `_core/additions.py`.
"""

from functools import partial as _partial
from typing import TYPE_CHECKING as _TYPE_CHECKING

from ._core import garbage as _garbage

with _garbage.no_collection():
    from . import lax, nn, numpy, random, scipy  # and with them nearly all that there is

from . import core as core
from . import custom_batching as custom_batching
from . import debug as debug
from . import distributed as distributed
from . import dlpack as dlpack
from . import dtypes as dtypes
from . import errors as errors
from . import image as image
from . import lax as lax
from . import monitoring as monitoring
from . import nn as nn
from . import numpy as numpy
from . import ops as ops
from . import random as random
from . import ref as ref
from . import scipy as scipy
from . import sharding as sharding
from . import stages as stages
from . import tree as tree
from . import tree_util as tree_util
from . import typing as typing
from ._core import memory as memory
from ._core.additions import names_besides as _names_besides
from ._core.array import Array as Array
from ._core.avals import ShapeDtypeStruct as ShapeDtypeStruct
from ._core.collection_guard import array_garbage_collection_guard as array_garbage_collection_guard
from ._core.config import allow_f16_reductions as allow_f16_reductions
from ._core.config import auto_pcast as auto_pcast
from ._core.config import check_tracer_leaks as check_tracer_leaks
from ._core.config import checking_leaks as checking_leaks
from ._core.config import config as config
from ._core.config import debug_infs as debug_infs
from ._core.config import debug_key_reuse as debug_key_reuse
from ._core.config import debug_nans as debug_nans
from ._core.config import default_device as default_device
from ._core.config import default_matmul_precision as default_matmul_precision
from ._core.config import default_prng_impl as default_prng_impl
from ._core.config import enable_checks as enable_checks
from ._core.config import enable_custom_prng as enable_custom_prng
from ._core.config import enable_x64 as enable_x64
from ._core.config import explain_cache_misses as explain_cache_misses
from ._core.config import jax2tf_associative_scan_reductions as jax2tf_associative_scan_reductions
from ._core.config import legacy_prng_key as legacy_prng_key
from ._core.config import log_compiles as log_compiles
from ._core.config import make_user_context as make_user_context
from ._core.config import no_execution as no_execution
from ._core.config import no_tracing as no_tracing
from ._core.config import numpy_dtype_promotion as numpy_dtype_promotion
from ._core.config import numpy_rank_promotion as numpy_rank_promotion
from ._core.config import remove_size_one_mesh_axis_from_type as remove_size_one_mesh_axis_from_type
from ._core.config import softmax_custom_jvp as softmax_custom_jvp
from ._core.config import thread_guard as thread_guard
from ._core.config import threefry_partitionable as threefry_partitionable
from ._core.config import transfer_guard as transfer_guard
from ._core.config import transfer_guard_device_to_device as transfer_guard_device_to_device
from ._core.config import transfer_guard_device_to_host as transfer_guard_device_to_host
from ._core.config import transfer_guard_host_to_device as transfer_guard_host_to_device
from ._core.dtypes import float0 as float0
from ._core.lazy_modules import attach as _attach
from ._core.refs import Ref as Ref
from ._core.refs import empty_ref as empty_ref
from ._core.refs import free_ref as free_ref
from ._core.refs import freeze as freeze
from ._core.refs import new_ref as new_ref
from ._core.torch_tensors import from_torch as from_torch
from ._core.tracers import ensure_compile_time_eval as ensure_compile_time_eval
from ._devices.devices import Device as Device
from ._devices.devices import default_backend as default_backend
from ._devices.devices import device_count as device_count
from ._devices.devices import devices as devices
from ._devices.devices import host_count as host_count
from ._devices.devices import host_id as host_id
from ._devices.devices import host_ids as host_ids
from ._devices.devices import local_device_count as local_device_count
from ._devices.devices import local_devices as local_devices
from ._devices.devices import process_count as process_count
from ._devices.devices import process_index as process_index
from ._devices.devices import process_indices as process_indices
from ._devices.meshes import make_mesh as make_mesh
from ._devices.meshes import set_mesh as set_mesh
from ._devices.shardings import NamedSharding as NamedSharding
from ._devices.shardings import Shard as Shard
from ._numpy.dynamic_index import dslice as _dslice
from ._transforms.assembly import make_array_from_callback as make_array_from_callback
from ._transforms.assembly import make_array_from_process_local_data as make_array_from_process_local_data
from ._transforms.assembly import make_array_from_single_device_arrays as make_array_from_single_device_arrays
from ._transforms.autodiff import grad as grad
from ._transforms.autodiff import jvp as jvp
from ._transforms.autodiff import linear_transpose as linear_transpose
from ._transforms.autodiff import value_and_grad as value_and_grad
from ._transforms.autodiff import vjp as vjp
from ._transforms.callbacks import effects_barrier as effects_barrier
from ._transforms.callbacks import pure_callback as pure_callback
from ._transforms.closures import closure_convert as closure_convert
from ._transforms.cotangent_places import ad as ad
from ._transforms.custom_jvp import custom_jvp as custom_jvp
from ._transforms.custom_vjp import custom_gradient as custom_gradient
from ._transforms.custom_vjp import custom_vjp as custom_vjp
from ._transforms.environment import live_arrays as live_arrays
from ._transforms.environment import named_call as named_call
from ._transforms.environment import named_scope as named_scope
from ._transforms.environment import print_environment_info as print_environment_info
from ._transforms.forward_backward import fwd_and_bwd as fwd_and_bwd
from ._transforms.jacobians import hessian as hessian
from ._transforms.jacobians import jacfwd as jacfwd
from ._transforms.jacobians import jacobian as jacobian
from ._transforms.jacobians import jacrev as jacrev
from ._transforms.jit import disable_jit as disable_jit
from ._transforms.jit import jit as jit
from ._transforms.linear_map import linearize as linearize
from ._transforms.make_jaxpr import eval_shape as eval_shape
from ._transforms.make_jaxpr import make_jaxpr as make_jaxpr
from ._transforms.placement import block_until_ready as block_until_ready
from ._transforms.placement import copy_to_host_async as copy_to_host_async
from ._transforms.placement import device_get as device_get
from ._transforms.placement import device_put as device_put
from ._transforms.placement import reshard as reshard
from ._transforms.placement import typeof as typeof
from ._transforms.program import clear_caches as clear_caches
from ._transforms.remat import checkpoint as checkpoint
from ._transforms.remat import checkpoint_policies as checkpoint_policies
from ._transforms.remat import remat as remat
from ._transforms.shard_map import pmap as pmap
from ._transforms.shard_map import shard_map as shard_map
from ._transforms.shard_map import smap as smap
from ._transforms.vmap import vmap as vmap
from .version import __version__ as __version__
from .version import __version_info__ as __version_info__

P = sharding.PartitionSpec
ds = _dslice

if _TYPE_CHECKING:
    from . import api_util as api_util
    from . import custom_derivatives as custom_derivatives
    from . import experimental as experimental
    from . import ffi as ffi
    from . import functorch as functorch
    from . import interop as interop
    from . import interpreters as interpreters
    from . import lib as lib
    from . import profiler as profiler

# What most programs do not need loads when it is named.
_LAZY = (
    "api_util",
    "custom_derivatives",
    "experimental",
    "export",
    "ffi",
    "functorch",
    "interop",
    "interpreters",
    "lib",
    "profiler",
)
__getattr__, _ = _attach(__name__, _LAZY)
__dir__ = _partial(_names_besides, globals(), _LAZY)
