"""jax.interpreters.batching: how primitives that users define are mapped over a batch."""

from .._jaxprs.rules import axis_primitive_batchers as axis_primitive_batchers
from .._jaxprs.rules import bdim_at_front as bdim_at_front
from .._jaxprs.rules import broadcast as broadcast
from .._jaxprs.rules import defbroadcasting as defbroadcasting
from .._jaxprs.rules import defreducer as defreducer
from .._jaxprs.rules import defvectorized as defvectorized
from .._jaxprs.rules import fancy_primitive_batchers as fancy_primitive_batchers
from .._jaxprs.rules import primitive_batchers as primitive_batchers
from .._transforms.vmappables import register_vmappable as register_vmappable
from .._transforms.vmappables import unregister_vmappable as unregister_vmappable
