"""Floor 5: jax.numpy."""
