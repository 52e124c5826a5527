"""jax.scipy.signal: convolutions, trends and spectra."""
