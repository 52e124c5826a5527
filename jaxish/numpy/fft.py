"""jax.numpy.fft: discrete Fourier transforms. This module only hands names on."""

from .._numpy.fft import fft as fft
from .._numpy.fft import fft2 as fft2
from .._numpy.fft import fftfreq as fftfreq
from .._numpy.fft import fftn as fftn
from .._numpy.fft import fftshift as fftshift
from .._numpy.fft import hfft as hfft
from .._numpy.fft import ifft as ifft
from .._numpy.fft import ifft2 as ifft2
from .._numpy.fft import ifftn as ifftn
from .._numpy.fft import ifftshift as ifftshift
from .._numpy.fft import ihfft as ihfft
from .._numpy.fft import irfft as irfft
from .._numpy.fft import irfft2 as irfft2
from .._numpy.fft import irfftn as irfftn
from .._numpy.fft import rfft as rfft
from .._numpy.fft import rfft2 as rfft2
from .._numpy.fft import rfftfreq as rfftfreq
from .._numpy.fft import rfftn as rfftn
