"""jax.extend: for those who build on the library's inner parts."""

from . import backend as backend
from . import core as core
from . import linear_util as linear_util
from . import random as random
from . import source_info_util as source_info_util
