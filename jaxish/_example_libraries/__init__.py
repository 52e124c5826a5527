"""Floor 8: jax.example_libraries."""
