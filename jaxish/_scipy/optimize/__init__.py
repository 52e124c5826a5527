"""SciPy's minimization."""
