"""jax.experimental.layout: the order of elements in memory."""

from .._devices.layouts import Format as Format
from .._devices.layouts import Layout as Layout
from .._devices.layouts import with_layout_constraint as with_layout_constraint
