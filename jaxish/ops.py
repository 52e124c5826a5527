"""jax.ops: reductions over segments of an array."""

from ._numpy.segments import segment_max as segment_max
from ._numpy.segments import segment_min as segment_min
from ._numpy.segments import segment_prod as segment_prod
from ._numpy.segments import segment_sum as segment_sum
