"""Floor 8: jax.experimental."""
