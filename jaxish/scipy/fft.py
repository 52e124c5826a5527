"""jax.scipy.fft: discrete cosine transforms. This module only hands names on."""

from .._scipy.fft import dct as dct
from .._scipy.fft import dctn as dctn
from .._scipy.fft import idct as idct
from .._scipy.fft import idctn as idctn
