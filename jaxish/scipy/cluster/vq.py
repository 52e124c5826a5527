"""jax.scipy.cluster.vq: vector quantization. This module only hands names on."""

from ..._scipy.cluster import vq as vq
