"""jax.experimental.pallas.ops.gpu: kernels for GPUs, which are refused. This module has nothing of its own."""
