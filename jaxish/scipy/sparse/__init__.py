"""jax.scipy.sparse: linear algebra of sparse matrices."""

from . import linalg as linalg
