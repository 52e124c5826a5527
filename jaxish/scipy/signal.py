"""jax.scipy.signal: convolutions, trends and spectra of signals. This module only hands names on."""

from .._scipy.signal.convolution import convolve as convolve
from .._scipy.signal.convolution import convolve2d as convolve2d
from .._scipy.signal.convolution import correlate as correlate
from .._scipy.signal.convolution import correlate2d as correlate2d
from .._scipy.signal.convolution import fftconvolve as fftconvolve
from .._scipy.signal.spectra import csd as csd
from .._scipy.signal.spectra import istft as istft
from .._scipy.signal.spectra import stft as stft
from .._scipy.signal.spectra import welch as welch
from .._scipy.signal.trends import detrend as detrend
