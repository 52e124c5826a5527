"""jax.experimental.key_reuse: nothing to call, as in JAX. The checks are on while `jax_debug_key_reuse` is set:

with jax.debug_key_reuse(True):
    key = jax.random.key(0)
    jax.random.normal(key)
    jax.random.normal(key)  # KeyReuseError
"""
