"""jax.scipy.special: special functions."""

from .._numpy.logsumexp import logsumexp as logsumexp
