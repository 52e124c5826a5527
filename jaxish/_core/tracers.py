"""Traced values as users tell them from concrete ones, and the way out of a trace."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch._subclasses.fake_tensor import FakeTensor

from . import graph
from .array import Array, is_tracer


class _TracerMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return is_tracer(instance)


class Tracer(Array, metaclass=_TracerMeta):
    """What arrays are while a transformation goes on: `isinstance(x, Tracer)`. Never instantiated."""

    __slots__ = ()


class _DynamicJaxprTracerMeta(_TracerMeta):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Array) and isinstance(instance._tensor, FakeTensor)


class DynamicJaxprTracer(Tracer, metaclass=_DynamicJaxprTracerMeta):
    """What arrays are while a function is traced, by no other transformation within: `isinstance(x, DynamicJaxprTracer)`.

    Never instantiated.
    """

    __slots__ = ()


class _JaxprTracerMeta(_TracerMeta):
    def __instancecheck__(cls, instance: Any) -> bool:
        return False


class JaxprTracer(Tracer, metaclass=_JaxprTracerMeta):
    """What no array is. In JAX those are that `trace_to_jaxpr_nounits` traces, which here are as those of `jit`."""

    __slots__ = ()


@contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """Within the block, operations on concrete arrays are computed at once, although transformations are going on."""
    with graph.folding():
        yield
