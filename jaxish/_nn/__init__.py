"""Floor 7: jax.nn."""
