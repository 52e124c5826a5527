"""jax.experimental.colocated_python.func: how JAX sends functions to other hosts, of which nothing is here."""
