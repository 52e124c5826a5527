"""Floor 7: jax.scipy."""
