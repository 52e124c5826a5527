"""jax.experimental.pallas.ops.tpu: kernels for TPUs, which are refused. This module has nothing of its own."""
