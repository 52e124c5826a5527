"""Sparse arrays: formats, operations on them, and functions of dense arrays made to take them."""
