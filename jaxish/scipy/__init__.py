"""jax.scipy: SciPy's functions, module by module as SciPy has them. A module loads when it is first named."""

from .._core.lazy_modules import attach as _attach

__getattr__, __dir__ = _attach(
    __name__,
    [
        "cluster",
        "fft",
        "integrate",
        "interpolate",
        "linalg",
        "ndimage",
        "optimize",
        "signal",
        "sparse",
        "spatial",
        "special",
        "stats",
    ],
)
