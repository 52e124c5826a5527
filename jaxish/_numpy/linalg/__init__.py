"""Linear algebra of jax.numpy."""
