"""jax.ad_checkpoint: recomputation and its policies."""

from ._transforms.remat import Offloadable as Offloadable
from ._transforms.remat import Recompute as Recompute
from ._transforms.remat import Saveable as Saveable
from ._transforms.remat import checkpoint_name as checkpoint_name
from ._transforms.remat import checkpoint_policies as checkpoint_policies
from ._transforms.saved_residuals import print_saved_residuals as print_saved_residuals
