"""jax.example_libraries: small libraries that examples are written with."""
