"""jax.scipy.stats: probability distributions, a module for each, and statistics of samples."""
