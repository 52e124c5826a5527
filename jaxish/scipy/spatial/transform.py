"""jax.scipy.spatial.transform: rotations in three dimensions. This module only hands names on."""

from ..._scipy.spatial import Rotation as Rotation
from ..._scipy.spatial import Slerp as Slerp
