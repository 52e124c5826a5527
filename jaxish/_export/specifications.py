"""Symbolic shapes, and types of arguments with them, as users ask for them."""

from collections.abc import Sequence
from typing import Any

from .._core import tree
from .._core.avals import ShapeDtypeStruct, aval_of
from .._core.tree_differences import broadcast_prefix
from .dimensions import Dimension
from .parsing import Parser
from .scopes import SymbolicScope


def symbolic_shape(
    shape_spec: str | None,
    *,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
    like: Sequence[int | None] | None = None,
) -> Sequence[Dimension]:
    """Return the shape that a text like `"a, 2*b, _, ..."` says: integers, and formulas of variables that are at least 1.

    Formulas have `+ - * ^` and `floordiv, mod, max, min` of two. `_` stands for one size and `...` for all further ones of
    `like`; None is `"..."`. `constraints` (`"a >= b + 8"`, with `<=` and `==`, too) hold in the scope that is made, unless a
    `scope` is given. Raises `ValueError` for what is no shape, and for constraints that cannot be.
    """
    if shape_spec is not None and not isinstance(shape_spec, str):
        raise ValueError(f"polymorphic shape spec should be None or a string. Found {shape_spec!r}.")
    text = "..." if shape_spec is None else shape_spec
    return Parser(text, repr(shape_spec), _scope(scope, constraints), like).shape()


def symbolic_args_specs(
    args: Any, shapes_specs: Any, constraints: Sequence[str] = (), scope: SymbolicScope | None = None
) -> Any:
    """Return the pytree `args` as `ShapeDtypeStruct`s whose shapes are those of `shapes_specs`, a prefix of texts or None.

    All are of one scope; see `symbolic_shape`. Raises `ValueError` as that does, and for what is no prefix.
    """
    leaves, spec = tree.flatten(args)
    avals = [leaf if isinstance(leaf, ShapeDtypeStruct) else aval_of(leaf) for leaf in leaves]
    given = tuple(shapes_specs) if isinstance(args, tuple) and isinstance(shapes_specs, list) else shapes_specs
    texts = broadcast_prefix(given, spec, "export.symbolic_args_specs shapes_specs", is_leaf=lambda x: x is None)
    own = _scope(scope, constraints)
    shapes = [symbolic_shape(t, like=a.shape, scope=own) for t, a in zip(texts, avals, strict=True)]
    return spec.unflatten(ShapeDtypeStruct(s, a.dtype) for s, a in zip(shapes, avals, strict=True))


def _scope(scope: SymbolicScope | None, constraints: Sequence[str]) -> SymbolicScope:
    if scope is None:
        return SymbolicScope(constraints)
    if constraints:
        raise ValueError("Cannot specify both a `scope` and `constraints`.")
    return scope
