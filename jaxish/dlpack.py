"""jax.dlpack: arrays of other libraries, without a copy."""

from ._numpy.dlpack import from_dlpack as from_dlpack
from ._numpy.dlpack import is_supported_dtype as is_supported_dtype
