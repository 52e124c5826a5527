"""JAX's ready-made kernels for TPUs and GPUs (`pallas.ops`): programs that import them run, and calls say what to use instead."""

from typing import Any, NoReturn

_ATTENTION = "jax.nn.dot_product_attention"


def _refused(name: str, instead: str) -> Any:
    """Return a class, which annotations can name and functions be called like, that raises instead of being made."""

    def refuse(cls: type, *args: Any, **options: Any) -> NoReturn:
        raise NotImplementedError(
            f"pallas.ops.{name} is not supported: it is a kernel for one kind of device. Use {instead}."
        )

    own = name.rpartition(".")[2]
    return type(own, (), {"__new__": refuse, "__doc__": f"Refused: `{instead}` does this on all devices."})


BlockSizes = _refused("BlockSizes", _ATTENTION)
CausalMask = _refused("CausalMask", _ATTENTION)
ChunkedCausalMask = _refused("ChunkedCausalMask", _ATTENTION)
flash_attention = _refused("flash_attention", _ATTENTION)
FullMask = _refused("FullMask", _ATTENTION)
gmm = _refused("gmm", "jax.lax.ragged_dot")
gqa = _refused("gqa", _ATTENTION)
layer_norm = _refused("layer_norm", "jax.nn.standardize")
LocalMask = _refused("LocalMask", _ATTENTION)
LogicalAnd = _refused("LogicalAnd", _ATTENTION)
LogicalOr = _refused("LogicalOr", _ATTENTION)
make_causal_mask = _refused("make_causal_mask", _ATTENTION)
make_chunk_attention_mask = _refused("make_chunk_attention_mask", _ATTENTION)
make_local_attention_mask = _refused("make_local_attention_mask", _ATTENTION)
make_masked_mha_reference = _refused("make_masked_mha_reference", _ATTENTION)
make_masked_mqa_reference = _refused("make_masked_mqa_reference", _ATTENTION)
make_random_mask = _refused("make_random_mask", _ATTENTION)
make_splash_mha = _refused("make_splash_mha", _ATTENTION)
make_splash_mha_single_device = _refused("make_splash_mha_single_device", _ATTENTION)
make_splash_mqa = _refused("make_splash_mqa", _ATTENTION)
make_splash_mqa_single_device = _refused("make_splash_mqa_single_device", _ATTENTION)
Mask = _refused("Mask", _ATTENTION)
mha = _refused("mha", _ATTENTION)
mha_reference = _refused("mha_reference", _ATTENTION)
mqa = _refused("mqa", _ATTENTION)
MultiHeadMask = _refused("MultiHeadMask", _ATTENTION)
NumpyMask = _refused("NumpyMask", _ATTENTION)
paged_attention = _refused("paged_attention", _ATTENTION)
QKVLayout = _refused("QKVLayout", _ATTENTION)
ragged_paged_attention = _refused("ragged_paged_attention", _ATTENTION)
rms_norm = _refused("rms_norm", "jax.numpy")
SegmentIds = _refused("SegmentIds", _ATTENTION)
softmax = _refused("softmax", "jax.nn.softmax")
SplashAttentionKernel = _refused("SplashAttentionKernel", _ATTENTION)
