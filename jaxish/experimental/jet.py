"""jax.experimental.jet: Taylor series of functions."""

from .._experimental.jet import JetTrace as JetTrace
from .._experimental.jet import JetTracer as JetTracer
from .._experimental.jet import ZeroSeries as ZeroSeries
from .._experimental.jet import ZeroTerm as ZeroTerm
from .._experimental.jet import def_comp as def_comp
from .._experimental.jet import def_deriv as def_deriv
from .._experimental.jet import deflinear as deflinear
from .._experimental.jet import defzero as defzero
from .._experimental.jet import deriv_prop as deriv_prop
from .._experimental.jet import fact as fact
from .._experimental.jet import jet as jet
from .._experimental.jet import linear_prop as linear_prop
from .._experimental.jet import zero_prop as zero_prop
from .._experimental.jet import zero_series as zero_series
from .._experimental.jet import zero_term as zero_term
