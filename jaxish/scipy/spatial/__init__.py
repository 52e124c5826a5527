"""jax.scipy.spatial: rotations."""

from ..._core.lazy_modules import attach as _attach

__getattr__, __dir__ = _attach(__name__, ["transform"])
