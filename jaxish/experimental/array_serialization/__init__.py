"""jax.experimental.array_serialization: writers of arrays."""
