"""Floor 6: jax.random. Keys, draws and samplers."""
