"""jax.scipy.ndimage: interpolation in arrays. This module only hands names on."""

from .._scipy.ndimage import map_coordinates as map_coordinates
