"""SciPy's functions of matrices, on the factorizations of lax.linalg."""
