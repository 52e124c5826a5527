"""jax.scipy.interpolate: interpolation on grids. This module only hands names on."""

from .._scipy.interpolate import RegularGridInterpolator as RegularGridInterpolator
