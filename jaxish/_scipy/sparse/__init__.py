"""SciPy's functions of sparse matrices."""
