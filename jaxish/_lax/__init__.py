"""Floor 4: jax.lax. Strict operations on arrays, and control flow."""
