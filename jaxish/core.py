"""jax.core: abstract values, and the classes that tell traced values from concrete ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ._core import graph as _graph
from ._core.array import Array, is_tracer
from ._core.avals import AbstractValue as AbstractValue
from ._core.avals import ShapedArray as ShapedArray
from ._core.graph import Trace as Trace
from ._transforms.jaxpr import ClosedJaxpr as ClosedJaxpr
from ._transforms.jaxpr import Jaxpr as Jaxpr
from ._transforms.jaxpr import eval_jaxpr as eval_jaxpr
from ._transforms.jaxpr import jaxpr_as_fun as jaxpr_as_fun


class _TracerMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return is_tracer(instance)


class Tracer(Array, metaclass=_TracerMeta):
    """What arrays are while a transformation goes on: `isinstance(x, Tracer)`. Never instantiated."""

    __slots__ = ()


@contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """Within the block, operations on concrete arrays are computed at once, although a trace is active."""
    with _graph.suspended():
        yield
