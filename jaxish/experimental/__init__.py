"""jax.experimental: what may still change."""

from .._transforms.callbacks import io_callback as io_callback
