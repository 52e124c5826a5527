"""Tokens, which order effects in JAX. Here operations run in the order of the program, so they carry nothing."""

from typing import Any

from .._core import tree
from .._core.extended import ExtendedArray
from .operands import array_of


class Token:
    """What `create_token` returns: it stands for a point in the order of effects."""


def create_token(_: Any = None) -> Token:
    """Return a new token. The argument is for compatibility with older code, as in JAX."""
    return Token()


def after_all(*operands: Any) -> Token:
    """Return a token for the point after those of all `operands`. Raises `TypeError` for what is no token."""
    if not all(isinstance(token, Token) for token in operands):
        raise TypeError("Arguments to after_all must be tokens")
    return Token()


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Mark the pytree of arrays `val` as used. Nothing can tell here: a value without use is not seen by anyone.

    Raises `TypeError` for a leaf that is no array.
    """
    if prevent_mlir_dce:
        raise NotImplementedError("dce_sink(prevent_mlir_dce=True) needs MLIR; return the value to keep it computed.")
    for leaf in tree.flatten(val)[0]:
        if not isinstance(leaf, ExtendedArray):
            array_of("dce_sink", leaf)
