"""jax.scipy.special."""
