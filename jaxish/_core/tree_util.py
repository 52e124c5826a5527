"""Functions on pytrees: jax.tree_util's."""

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import optree

from . import tree as _tree
from .tree import IsLeaf, KeyPath, PyTreeDef, register_pytree_node
from .tree_differences import prefix_errors

_MISSING = object()


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], PyTreeDef]:
    """Return the leaves of `tree` and its structure. A node for which `is_leaf` is true counts as a leaf."""
    leaves, spec = _tree.flatten(tree, is_leaf)
    return leaves, PyTreeDef(spec)


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """Return the tree of this structure with these leaves. Raises `ValueError` when their number is wrong."""
    return treedef.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """Return the leaves of `tree`."""
    return _tree.flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> PyTreeDef:
    """Return the structure of `tree`."""
    return PyTreeDef(_tree.flatten(tree, is_leaf)[1])


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """Return the tree of `f` of the leaves of `tree` and of what stands at the same places in `rest`.

    Raises `ValueError` when a tree of `rest` does not have the structure of `tree` as a prefix.
    """
    leaves, spec = _tree.flatten(tree, is_leaf)
    return spec.unflatten(map(f, leaves, *_parts("tree_map", spec, tree, rest, is_leaf)))


def _parts(function: str, spec: Any, tree: Any, rest: Sequence[Any], is_leaf: IsLeaf) -> list[list[Any]]:
    """Return what other trees have where `tree` has leaves. Raises `ValueError` where it is no prefix of one."""
    try:
        return [spec.flatten_up_to(r) for r in rest]
    except ValueError as error:
        errors = (e(f"{function} tree") for r in rest for e in prefix_errors(tree, r, is_leaf))
        raise next(errors, error) from None


def tree_reduce(
    function: Callable[[Any, Any], Any], tree: Any, initializer: Any = _MISSING, is_leaf: IsLeaf = None
) -> Any:
    """Fold `function` over the leaves from the left, starting with `initializer` where one is given."""
    leaves = tree_leaves(tree, is_leaf)
    return (
        functools.reduce(function, leaves)
        if initializer is _MISSING
        else functools.reduce(function, leaves, initializer)
    )


def tree_reduce_associative(
    operation: Callable[[Any, Any], Any], tree: Any, *, identity: Any = _MISSING, is_leaf: IsLeaf = None
) -> Any:
    """Fold an associative `operation` over the leaves by halves; `identity` is what no leaves give."""
    leaves = tree_leaves(tree, is_leaf)
    if not leaves:
        if identity is _MISSING:
            raise TypeError("Must specify identity for parallel reduction of empty sequence.")
        return identity
    while len(leaves) > 1:
        pairs = [operation(*leaves[i : i + 2]) for i in range(0, len(leaves) - 1, 2)]
        leaves = pairs + leaves[len(leaves) // 2 * 2 :]
    return leaves[0]


def tree_all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Tell whether all leaves are true."""
    return all(tree_leaves(tree, is_leaf))


def tree_transpose(outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any) -> Any:
    """Turn a tree of trees inside out. Without `inner_treedef`, the inner structure is that of the first subtree."""
    leaves, spec = _tree.flatten(pytree_to_transpose)
    if inner_treedef is None:
        inner_treedef = tree_structure(outer_treedef.flatten_up_to(pytree_to_transpose)[0])
    if spec.num_leaves != outer_treedef.num_leaves * inner_treedef.num_leaves:
        expected = outer_treedef.compose(inner_treedef)
        raise TypeError(f"Mismatch: the tree has structure {PyTreeDef(spec)}, expected outer of inner, {expected}.")
    size = inner_treedef.num_leaves
    columns = [outer_treedef.unflatten(leaves[i::size]) for i in range(size)]
    return inner_treedef.unflatten(columns)


def tree_broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> Any:
    """Return a tree like `full_tree` whose leaves are those of its prefix `prefix_tree`, repeated."""
    spec = _tree.flatten(full_tree, is_leaf)[1]
    return spec.unflatten(_tree.broadcast_prefix(prefix_tree, spec, is_leaf))


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """Return the structure of a tuple of trees of these structures."""
    return PyTreeDef(optree.treespec_tuple([t._spec for t in treedefs], namespace=_tree.NAMESPACE))


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """Return the structures of the root's children."""
    return treedef.children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Tell whether the structure is a single leaf."""
    return treedef.num_nodes == 1 and treedef.num_leaves == 1


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf = None) -> bool:
    """Tell whether every element is a leaf."""
    values = list(iterable)
    found = tree_leaves(values, is_leaf)
    return len(found) == len(values) and all(map(operator.is_, found, values))


def is_tree_node(typ: type) -> bool:
    """Tell whether instances of the class `typ` are inner nodes."""
    return isinstance(typ, type) and _tree.is_node_type(typ)


def tree_leaves_with_path(
    tree: Any, is_leaf: IsLeaf = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """Return the (key path, leaf) pairs; with `is_leaf_takes_path`, `is_leaf` is called with path and node."""
    return _tree.leaves_with_path(tree, is_leaf, is_leaf_takes_path)


def tree_flatten_with_path(
    tree: Any, is_leaf: IsLeaf = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """Return the (key path, leaf) pairs and the structure."""
    pairs = _tree.leaves_with_path(tree, is_leaf, is_leaf_takes_path)
    if not is_leaf_takes_path or is_leaf is None:
        return pairs, tree_structure(tree, is_leaf)
    stops = {id(leaf) for _, leaf in pairs}
    return pairs, tree_structure(tree, lambda node: id(node) in stops)


def tree_map_with_path(
    f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None, is_leaf_takes_path: bool = False
) -> Any:
    """Like `tree_map`, with the key path as first argument of `f`."""
    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    others = _parts("tree_map_with_path", treedef, tree, rest, None if is_leaf_takes_path else is_leaf)
    paths, leaves = zip(*pairs, strict=True) if pairs else ((), ())
    return treedef.unflatten(map(f, paths, leaves, *others))


def flatten_one_level(tree: Any) -> tuple[Iterable[Any], Any]:
    """Return the children and the static data of the root. Raises `ValueError` for a leaf."""
    pairs, data = flatten_one_level_with_keys(tree)
    children = [child for _, child in pairs]
    return tuple(children) if type(tree) in (dict, tuple, type(None)) else children, data


def flatten_one_level_with_keys(tree: Any) -> tuple[Iterable[tuple[Any, Any]], Any]:
    """Return the (key, child) pairs and the static data of the root. Raises `ValueError` for a leaf."""
    pairs = _tree.children_with_keys(tree)
    if pairs is None:
        raise ValueError(f"can't tree-flatten type: {type(tree)}")
    kind, data = tree_structure(tree).node_data() or (None, None)
    if kind is dict:
        return pairs, tuple(data or ())  # static data can be hashed
    return pairs, kind if optree.is_namedtuple_class(kind) else data


class _Registry:
    """`default_registry`: the flattening functions as methods. Those of one level return None for a leaf."""

    flatten = staticmethod(tree_flatten)
    flatten_with_path = staticmethod(tree_flatten_with_path)
    is_node = staticmethod(is_tree_node)
    register_node = staticmethod(register_pytree_node)

    @staticmethod
    def flatten_one_level(tree: Any) -> tuple[Iterable[Any], Any] | None:
        """Return the children and the static data of the root."""
        return None if _tree.children_with_keys(tree) is None else flatten_one_level(tree)

    @staticmethod
    def flatten_one_level_with_keys(tree: Any) -> tuple[Iterable[tuple[Any, Any]], Any] | None:
        """Return the (key, child) pairs and the static data of the root."""
        return None if _tree.children_with_keys(tree) is None else flatten_one_level_with_keys(tree)


default_registry = _Registry()


def static(**kwargs: Any) -> Any:
    """Return a `dataclasses.field` (which takes the same arguments) that `register_dataclass` takes for static."""
    return dataclasses.field(**{**kwargs, "metadata": {**(kwargs.get("metadata") or {}), "static": True}})
