"""jax.experimental.pallas: kernels over blocks of arrays, by the interpreter alone.

`specifications` (grids, blocks, kinds of memory) `calls` (pallas_call) `kernels` (what kernels call) `triton` (likewise) `refused`.
"""
