"""Factorizations and solvers of matrices."""
