"""jax.ad_checkpoint: recomputation and its policies."""

from ._transforms.remat import checkpoint_name as checkpoint_name
from ._transforms.remat import checkpoint_policies as checkpoint_policies
