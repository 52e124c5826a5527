"""jax.cloud_tpu_init: nothing to call, as in JAX, which warns of the import."""

import warnings

warnings.warn(
    "jax.cloud_tpu_init was deprecated in JAX v0.8.1: there is nothing to call. Remove the import.",
    DeprecationWarning,
    stacklevel=2,
)
del warnings
