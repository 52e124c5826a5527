"""jax.ref: references to mutable arrays."""

from ._core.refs import AbstractRef as AbstractRef
from ._core.refs import Ref as Ref
from ._core.refs import addupdate as addupdate
from ._core.refs import empty_ref as empty_ref
from ._core.refs import free_ref as free_ref
from ._core.refs import freeze as freeze
from ._core.refs import get as get
from ._core.refs import new_ref as new_ref
from ._core.refs import set as set
from ._core.refs import swap as swap

__all__ = ["AbstractRef", "Ref", "addupdate", "empty_ref", "free_ref", "freeze", "get", "new_ref", "set", "swap"]
