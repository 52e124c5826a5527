"""JAX's ready-made kernels for TPUs and GPUs (`pallas.ops`): programs that import them run, and calls say what to use instead."""

from typing import Any

from .refused import refused


def _kernel(name: str, instead: str = "jax.nn.dot_product_attention") -> Any:
    return refused(f"pallas.ops.{name}", "it is a kernel for one kind of device", instead)


BlockSizes = _kernel("BlockSizes")
CausalMask = _kernel("CausalMask")
ChunkedCausalMask = _kernel("ChunkedCausalMask")
flash_attention = _kernel("flash_attention")
FullMask = _kernel("FullMask")
gmm = _kernel("gmm", "jax.lax.ragged_dot")
gqa = _kernel("gqa")
layer_norm = _kernel("layer_norm", "jax.nn.standardize")
LocalMask = _kernel("LocalMask")
LogicalAnd = _kernel("LogicalAnd")
LogicalOr = _kernel("LogicalOr")
make_causal_mask = _kernel("make_causal_mask")
make_chunk_attention_mask = _kernel("make_chunk_attention_mask")
make_local_attention_mask = _kernel("make_local_attention_mask")
make_masked_mha_reference = _kernel("make_masked_mha_reference")
make_masked_mqa_reference = _kernel("make_masked_mqa_reference")
make_random_mask = _kernel("make_random_mask")
make_splash_mha = _kernel("make_splash_mha")
make_splash_mha_single_device = _kernel("make_splash_mha_single_device")
make_splash_mqa = _kernel("make_splash_mqa")
make_splash_mqa_single_device = _kernel("make_splash_mqa_single_device")
Mask = _kernel("Mask")
mha = _kernel("mha")
mha_reference = _kernel("mha_reference")
mqa = _kernel("mqa")
MultiHeadMask = _kernel("MultiHeadMask")
NumpyMask = _kernel("NumpyMask")
paged_attention = _kernel("paged_attention")
QKVLayout = _kernel("QKVLayout")
ragged_paged_attention = _kernel("ragged_paged_attention")
rms_norm = _kernel("rms_norm", "jax.numpy")
SegmentIds = _kernel("SegmentIds")
softmax = _kernel("softmax", "jax.nn.softmax")
SplashAttentionKernel = _kernel("SplashAttentionKernel")
