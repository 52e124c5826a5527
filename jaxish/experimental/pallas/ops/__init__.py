"""jax.experimental.pallas.ops: ready-made kernels, which are refused. This module has nothing of its own."""
