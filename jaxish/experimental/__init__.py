"""jax.experimental: what may still change."""

from .._experimental.extended_dtypes import EArray as EArray
from .._experimental.extended_dtypes import primal_tangent_dtype as primal_tangent_dtype
from .._experimental.hijax import cur_qdd as cur_qdd
from .._transforms.callbacks import io_callback as io_callback
from . import compilation_cache as compilation_cache
