"""jax.ad: what stands in an argument's place when a pullback is told what to do with its cotangent (`VJP.with_refs`)."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from .._core.array import Array
from .._core.refs import Ref
from .._core.tree_util import register_pytree_node


@dataclass(frozen=True, slots=True)
class GradValue:
    """Asks for the cotangent itself."""


@dataclass(frozen=True, slots=True)
class DontWant:
    """Asks for nothing."""


@dataclass(frozen=True, slots=True)
class GradRef:
    """Says that the cotangent was added to a reference."""


@dataclass(frozen=True, slots=True)
class DidntWant:
    """Says that the cotangent was not wanted."""


# What a pullback returns goes through jit, so these have no leaves; what it is given are leaves.
for _answer in (GradRef, DidntWant):
    register_pytree_node(_answer, lambda _: ((), None), lambda _, __, answer=_answer: answer())


def settled(place: Any, cotangent: Any) -> Any:
    """Return what the pullback answers for an argument's cotangent, when it has done what its place says."""
    if isinstance(place, DontWant):
        return DidntWant()
    if not isinstance(place, Ref):
        return cotangent
    if isinstance(cotangent, Array):
        place.addupdate(cotangent)
    return GradRef()


ad = SimpleNamespace(DontWant=DontWant, DidntWant=DidntWant, GradRef=GradRef, GradValue=GradValue)
