"""jax.experimental.pallas.ops.tpu.splash_attention.splash_attention_kernel: refused, and says what to use instead. This module only hands names on."""

from ......_experimental.pallas.refused_operators import BlockSizes as BlockSizes
from ......_experimental.pallas.refused_operators import QKVLayout as QKVLayout
from ......_experimental.pallas.refused_operators import SegmentIds as SegmentIds
from ......_experimental.pallas.refused_operators import SplashAttentionKernel as SplashAttentionKernel
from ......_experimental.pallas.refused_operators import make_masked_mha_reference as make_masked_mha_reference
from ......_experimental.pallas.refused_operators import make_masked_mqa_reference as make_masked_mqa_reference
from ......_experimental.pallas.refused_operators import make_splash_mha as make_splash_mha
from ......_experimental.pallas.refused_operators import make_splash_mha_single_device as make_splash_mha_single_device
from ......_experimental.pallas.refused_operators import make_splash_mqa as make_splash_mqa
from ......_experimental.pallas.refused_operators import make_splash_mqa_single_device as make_splash_mqa_single_device
