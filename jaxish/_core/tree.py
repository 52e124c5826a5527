"""Pytrees: optree's flattening with JAX's semantics.

None is an empty node, dict keys are sorted and come back so, namedtuples, OrderedDict and defaultdict are nodes, and classes join by
registration. Inside the library, hot paths call `flatten` and `PyTreeSpec.unflatten` of optree; what users see is
`PyTreeDef`, which prints and compares as JAX's does. Key paths are computed by a walk of our own, since optree
knows nothing of JAX's key classes.
"""

import collections
import dataclasses
import functools
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

import optree

NAMESPACE = "jaxish"
Spec: TypeAlias = Any  # optree.PyTreeSpec, whose own annotations are generic in the leaves
IsLeaf = Callable[[Any], bool] | None
ClassT = TypeVar("ClassT", bound=type)

# ----------------------------------------------------------------------------------------- flattening, for the library


def flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], Spec]:
    """Return the leaves of `tree` and its optree spec: the fast form that the transformations use."""
    try:
        leaves, spec = optree.tree_flatten(tree, is_leaf, namespace=NAMESPACE)
    except TypeError as error:
        raise _sorting_error(error) from error
    if spec.num_nodes == 1 and type(tree) is not collections.deque:
        return leaves, spec
    found = _in_order(spec)
    if found is None:
        return flatten(tree, lambda node: _is_foreign(type(node)) or (is_leaf is not None and is_leaf(node)))
    return leaves, found


def leaves(tree: Any) -> list[Any]:
    """Return the leaves of `tree`: less work than `flatten`."""
    try:
        return optree.tree_leaves(tree, namespace=NAMESPACE)
    except TypeError as error:
        raise _sorting_error(error) from error


_LEAF = optree.treespec_leaf(namespace=NAMESPACE)
_ordered: dict[Spec, Spec] = {}  # specs that compare equal whatever order their keys were given in
# Hashes of specs with users' classes: what those hold is not kept alive here. The kinds of all nodes belong to a hash.
_without_dicts: set[int] = set()
_MOST_ORDERED = 4096


def _is_foreign(kind: Any) -> bool:
    """Tell whether a class is a node to optree and not to JAX: deques, and the kind of time.struct_time."""
    return kind is collections.deque or (kind not in _REGISTRY and optree.is_structseq_class(kind))


def _in_order(spec: Spec) -> Spec | None:
    """Return the spec with the keys of dicts in order: so JAX makes them anew, where optree keeps the order it found.

    Programs see it when they iterate over an argument or a result, and split a key at each step. None for a spec with
    nodes that are leaves to JAX.
    """
    try:
        found, key = _ordered.get(spec, _LEAF), None
        if found is _LEAF and (key := hash(spec)) in _without_dicts:
            found = spec
    except (TypeError, ValueError):  # static data that cannot be looked up
        key, found = None, _LEAF
    if found is not _LEAF:
        return found
    is_plain, has_dicts, has_foreign = True, False, False

    def ordered(node: Spec) -> Spec:
        nonlocal is_plain, has_dicts, has_foreign
        kind = node.type
        has_foreign = has_foreign or _is_foreign(kind)
        has_dicts = has_dicts or kind in (dict, collections.defaultdict)
        if kind is dict:
            return optree.treespec_dict(dict.fromkeys(_comparable(node.entries()), _LEAF), namespace=NAMESPACE)
        if kind is collections.defaultdict:
            is_plain, factory = False, node.unflatten([None] * node.num_children).default_factory
            keys = dict.fromkeys(sorted(node.entries()), _LEAF)
            return optree.treespec_defaultdict(factory, keys, namespace=NAMESPACE)
        is_plain = is_plain and kind not in _REGISTRY
        return node

    found = spec.transform(ordered)
    if has_foreign:
        return None
    if is_plain:
        if len(_ordered) >= _MOST_ORDERED:
            _ordered.clear()
        _ordered[found] = found
    elif not has_dicts and key is not None:
        if len(_without_dicts) >= _MOST_ORDERED:
            _without_dicts.clear()
        _without_dicts.add(key)
    return found


def _comparable(keys: list[Any]) -> list[Any]:
    """Return a dictionary's keys; raise `ValueError` where optree sorted them by their types' names, since they do not compare."""
    try:
        sorted(keys)
    except TypeError as error:
        raise _sorting_error(error) from error
    return keys


def _sorting_error(error: Exception) -> Exception:
    if "'<' not supported" in str(error):
        return ValueError(f"Comparator raised exception while sorting pytree dictionary keys: {error}")
    return error


class PyTreeDef:
    """The structure of a pytree, without its leaves. Made by `tree_structure` and `tree_flatten`."""

    __slots__ = ("_spec",)

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    num_leaves = property(lambda self: self._spec.num_leaves, doc="The number of leaves.")
    num_nodes = property(lambda self: self._spec.num_nodes, doc="The number of nodes, leaves included.")

    def unflatten(self, leaves: Iterable[Any], /) -> Any:
        """Return the tree of this structure with these leaves. Raises `ValueError` when their number is wrong."""
        return self._spec.unflatten(leaves)

    def flatten_up_to(self, tree: Any, /) -> list[Any]:
        """Return the subtrees of `tree` that stand where this structure has leaves. Raises `ValueError` where they do not."""
        try:
            return self._spec.flatten_up_to(tree)
        except ValueError as error:
            raise ValueError(_mismatch(self._spec, tree) or str(error)) from None

    def children(self) -> list["PyTreeDef"]:
        """Return the structures of the children of the root."""
        return [PyTreeDef(child) for child in self._spec.children()]

    def node_data(self) -> tuple[type, Any] | None:
        """Return the root's type and its static data, or None for a leaf."""
        if self._spec.is_leaf():
            return None
        kind = self._spec.type
        return kind, self._spec.entries() if kind is dict else _metadata(self._spec)

    def compose(self, inner: "PyTreeDef", /) -> "PyTreeDef":
        """Return this structure with `inner` in the place of every leaf."""
        return PyTreeDef(self._spec.compose(inner._spec))

    def walk(
        self, f_node: Callable[[Any, Any], Any], f_leaf: Callable[[Any], Any] | None, leaves: Iterable[Any]
    ) -> Any:
        """Fold the tree from the leaves up: `f_leaf(leaf)` at leaves, `f_node(children, node_data)` at nodes."""
        remaining = iter(leaves)

        def fold(treedef: PyTreeDef) -> Any:
            if treedef._spec.is_leaf():
                leaf = next(remaining)
                return leaf if f_leaf is None else f_leaf(leaf)
            return f_node(tuple(map(fold, treedef.children())), (treedef.node_data() or (None, None))[1])

        return fold(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PyTreeDef) and self._spec == other._spec

    def __hash__(self) -> int:
        return hash(self._spec)

    def __repr__(self) -> str:
        return f"PyTreeDef({_structure_text(self._spec)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return PyTreeDef, (self._spec,)


def _metadata(spec: Spec) -> Any:
    kind = spec.type
    if kind in (tuple, list, type(None)) or optree.is_namedtuple_class(kind):
        return None
    if kind is collections.OrderedDict:
        return tuple(spec.entries())
    # optree keeps the other kinds' metadata to itself; a tree of placeholders tells it.
    probe = skeleton(spec)
    if kind is collections.defaultdict:
        return probe.default_factory, tuple(spec.entries())
    return _REGISTRY[kind].flatten(probe)[1]


def _mismatch(spec: Spec, tree: Any) -> str | None:
    """Say, as JAX does, where a tree is not as the structure has it; None where it is."""
    kind = spec.type
    if spec.is_leaf():
        return None
    if kind is type(None):
        return None if tree is None else f"Expected None, got {tree!r}."
    if kind in (tuple, list):
        if type(tree) is not kind:
            return f"Expected {kind.__name__}, got {tree!r}."
        if len(tree) != spec.num_children:
            name = kind.__name__
            return f"{name.capitalize()} arity mismatch: {len(tree)} != {spec.num_children}; {name}: {tree!r}."
        children = list(tree)
    elif optree.is_namedtuple_class(kind):
        if not optree.is_namedtuple_instance(tree):
            return f"Expected named tuple, got {tree!r}."
        if type(tree) is not kind:
            return f"Named tuple type mismatch: expected type: {kind}, tuple: {tree!r}."
        children = list(tree)
    elif kind is dict:
        if type(tree) is not dict:
            return f"Expected dict, got {tree!r}."
        if tree.keys() != set(spec.entries()):
            return f"Dict key mismatch; expected keys: {spec.entries()}; present keys: {sorted(tree, key=str)}."
        children = [tree[key] for key in spec.entries()]
    else:
        if type(tree) is not kind:
            return f"Custom node type mismatch: expected type: {kind}, value: {tree!r}."
        data, wanted = _metadata(flatten(tree, lambda node: node is not tree)[1]), _metadata(spec)
        if data != wanted:
            return f"Mismatch custom node data: {wanted} != {data}; value: {tree!r}."
        children = flatten(tree, lambda node: node is not tree)[0]
    return next(filter(None, map(_mismatch, spec.children(), children)), None)


def _structure_text(spec: Spec) -> str:
    nodes, ahead = [], [spec]
    while ahead:  # no recursion: Python's limit is below the depth that a tree may have
        nodes.append(node := ahead.pop())
        ahead.extend(node.children())
    texts: list[str] = []
    for node in reversed(nodes):  # each after its children
        first = len(texts) - node.num_children
        texts[first:] = [_node_text(node, texts[first:])]
    return texts[0]


def _node_text(spec: Spec, children: list[str]) -> str:
    if spec.is_leaf():
        return "*"
    kind = spec.type
    if kind is type(None):
        return "None"
    if kind is tuple:
        return f"({children[0]},)" if len(children) == 1 else f"({', '.join(children)})"
    if kind is list:
        return f"[{', '.join(children)}]"
    if kind is dict:
        return "{" + ", ".join(f"{k!r}: {c}" for k, c in zip(spec.entries(), children, strict=True)) + "}"
    if optree.is_namedtuple_class(kind):
        return f"CustomNode(namedtuple[{kind.__name__}], [{', '.join(children)}])"
    return f"CustomNode({kind.__name__}[{_metadata(spec)}], [{', '.join(children)}])"


# ------------------------------------------------------------------------------------------------------- registration


class _Registration(NamedTuple):
    flatten: Callable[[Any], tuple[Iterable[Any], Any]]
    unflatten: Callable[[Any, Iterable[Any]], Any]
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]] | None


_REGISTRY: dict[type, _Registration] = {}


class NodeFunctions(NamedTuple):
    """How a node is taken apart, into children and static data, and made of the data and other children."""

    to_iter: Callable[[Any], tuple[Iterable[Any], Any]]
    from_iter: Callable[[Any, Iterable[Any]], Any]


def _sorted_items(node: dict[Any, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    keys = tuple(sorted(node))
    return tuple(node[key] for key in keys), keys


def _default_items(node: Any) -> tuple[tuple[Any, ...], Any]:
    children, keys = _sorted_items(node)
    return children, (node.default_factory, keys)


_BUILTIN_NODES = {
    tuple: NodeFunctions(lambda node: (node, None), lambda _, children: tuple(children)),
    list: NodeFunctions(lambda node: (node, None), lambda _, children: list(children)),
    dict: NodeFunctions(_sorted_items, lambda keys, children: dict(zip(keys, children, strict=True))),
    type(None): NodeFunctions(lambda _: ((), None), lambda _, children: None),
    collections.OrderedDict: NodeFunctions(
        lambda node: (list(node.values()), tuple(node)),
        lambda keys, children: collections.OrderedDict(zip(keys, children, strict=True)),
    ),
    collections.defaultdict: NodeFunctions(
        _default_items, lambda data, children: collections.defaultdict(data[0], zip(data[1], children, strict=True))
    ),
}


class _NodeTypes(Mapping[type, NodeFunctions]):
    """The classes that are inner nodes of pytrees, those of named tuples apart, as they are registered."""

    def __getitem__(self, kind: type) -> NodeFunctions:
        return _BUILTIN_NODES[kind] if kind in _BUILTIN_NODES else NodeFunctions(*_REGISTRY[kind][:2])

    def __iter__(self) -> Iterator[type]:
        return iter((*_BUILTIN_NODES, *_REGISTRY))

    def __len__(self) -> int:
        return len(_BUILTIN_NODES) + len(_REGISTRY)


node_types = _NodeTypes()


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Hashable]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]] | None = None,
) -> None:
    """Make `nodetype` an inner node of pytrees.

    `flatten_func(obj)` returns (children, hashable static data), `unflatten_func(data, children)` inverts it.
    Raises `ValueError` when the class is a node already.
    """
    if not isinstance(nodetype, type):
        raise TypeError(f"register_pytree_node needs a class, got {nodetype!r}")
    if nodetype in _REGISTRY or nodetype in _BUILTIN_NODES:
        raise ValueError(f"Duplicate custom PyTreeDef type registration for {nodetype}.")

    def flatten_children(obj: Any) -> tuple[tuple[Any, ...], Any]:
        found = flatten_func(obj)
        if type(found) is tuple and len(found) == 2 and type(found[0]) is tuple:
            return found  # pyright: ignore[reportReturnType]
        if not isinstance(found, tuple | list) or len(found) != 2:
            raise ValueError(
                "The to_iterable function for a custom PyTree node should return a (children, aux_data) tuple, got "
                f"{found!r}"
            )
        children, data = found
        if not isinstance(children, Iterable):
            raise ValueError(
                "The to_iterable function for a custom PyTree node should return a (children, aux_data) tuple where "
                f"'children' is iterable, got {found!r}"
            )
        return tuple(children), data

    with warnings.catch_warnings():  # of named tuples, which JAX registers without a word
        warnings.filterwarnings("ignore", "PyTree type", UserWarning)
        optree.register_pytree_node(nodetype, flatten_children, unflatten_func, namespace=NAMESPACE)
    _REGISTRY[nodetype] = _Registration(flatten_children, unflatten_func, flatten_with_keys_func)


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Like `register_pytree_node`, for a class that names its children: pairs (key, child) in place of children."""

    def without_keys(obj: Any) -> tuple[Iterable[Any], Any]:
        pairs, data = flatten_with_keys(obj)
        return [child for _, child in pairs], data

    flatten_func = without_keys if flatten_func is None else flatten_func
    register_pytree_node(nodetype, flatten_func, unflatten_func, flatten_with_keys)


def register_pytree_node_class(cls: ClassT) -> ClassT:
    """Class decorator: make a class with `tree_flatten` and classmethod `tree_unflatten` a pytree node."""
    register_pytree_node(cls, lambda obj: obj.tree_flatten(), cls.tree_unflatten)  # pyright: ignore
    return cls


def register_pytree_with_keys_class(cls: ClassT) -> ClassT:
    """Class decorator: as `register_pytree_node_class`, with `tree_flatten_with_keys` giving (key, child) pairs."""
    flatten_func = (lambda obj: obj.tree_flatten()) if hasattr(cls, "tree_flatten") else None
    register_pytree_with_keys(
        cls,
        lambda obj: obj.tree_flatten_with_keys(),
        cls.tree_unflatten,  # pyright: ignore
        flatten_func,
    )
    return cls


def register_dataclass(
    nodetype: type,
    data_fields: Iterable[str] | None = None,
    meta_fields: Iterable[str] | None = None,
    drop_fields: Iterable[str] = (),
) -> type:
    """Make a dataclass a pytree node: its data fields are children, its meta fields hashable static data.

    Without field lists, fields marked `dataclasses.field(metadata={"static": True})` are meta fields.
    Raises `ValueError` when the lists and the dataclass's init fields differ.
    """
    if (data_fields is None) != (meta_fields is None):
        raise TypeError("register_dataclass: data_fields and meta_fields must both be specified or both be None.")
    if data_fields is None or meta_fields is None:
        if not dataclasses.is_dataclass(nodetype):
            raise TypeError(
                "register_dataclass: data_fields and meta_fields are required when nodetype is not a dataclass. "
                f"Got {nodetype=}."
            )
        fields = [f for f in dataclasses.fields(nodetype) if f.init]
        data_fields = [f.name for f in fields if not f.metadata.get("static")]
        meta_fields = [f.name for f in fields if f.metadata.get("static")]
    data, meta = tuple(data_fields), tuple(meta_fields)
    if set(data) & set(meta):
        raise ValueError(f"data_fields and meta_fields must not overlap. Overlapping fields: {set(data) & set(meta)}.")
    if dataclasses.is_dataclass(nodetype):
        _check_fields(nodetype, {*data, *meta}, set(drop_fields))

    def flatten_func(obj: Any) -> tuple[Iterable[Any], Any]:
        return [getattr(obj, name) for name in data], tuple(getattr(obj, name) for name in meta)

    def flatten_with_keys(obj: Any) -> tuple[Iterable[tuple[Any, Any]], Any]:
        children, aux = flatten_func(obj)
        return zip(map(GetAttrKey, data), children, strict=True), aux

    def unflatten_func(aux: Any, children: Iterable[Any]) -> Any:
        return nodetype(**dict(zip(data, children, strict=True)), **dict(zip(meta, aux, strict=True)))

    register_pytree_node(nodetype, flatten_func, unflatten_func, flatten_with_keys)
    return nodetype


def _check_fields(nodetype: type, given: set[str], dropped: set[str]) -> None:
    init = {f.name for f in dataclasses.fields(nodetype) if f.init} - dropped
    problems = [
        f"Missing fields: {init - given}. Add them to drop_fields to suppress this error." if init - given else "",
        f"Unexpected fields: {given - init}." if given - init else "",
    ]
    if any(problems):
        raise ValueError(
            "data_fields and meta_fields must include all dataclass fields with ``init=True`` and only them. "
            + " ".join(filter(None, problems))
        )


def register_static(cls: ClassT) -> ClassT:
    """Class decorator: make instances of `cls` (hashable, comparable) nodes without leaves, static under jit."""
    register_pytree_with_keys(cls, lambda obj: ((), obj), lambda obj, _: obj)
    return cls


# ----------------------------------------------------------------------------------------------------------- key paths


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """The key of a child of a sequence: its index."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@dataclasses.dataclass(frozen=True)
class DictKey:
    """The key of a child of a dict."""

    key: Hashable

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """The key of a child that is an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@dataclasses.dataclass(frozen=True)
class FlattenedIndexKey:
    """The key of a child of a class that was registered without keys: its index among the children."""

    key: int

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


KeyEntry = SequenceKey | DictKey | GetAttrKey | FlattenedIndexKey
KeyPath = tuple[Any, ...]


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """Return a key path as text: `['w'][0]`, or with `simple` the bare keys joined by `separator`."""
    if not simple:
        return separator.join(map(str, keys))
    return separator.join(str(_simple_key(key)) for key in keys)


def _simple_key(key: Any) -> Any:
    for name in ("idx", "key", "name"):
        if hasattr(key, name):
            return getattr(key, name)
    return key


def children_with_keys(tree: Any) -> list[tuple[Any, Any]] | None:
    """Return the (key, child) pairs of the root of `tree`, or None when it is a leaf."""
    kind = type(tree)
    if tree is None:
        return []
    if kind in _REGISTRY:
        registration = _REGISTRY[kind]
        if registration.flatten_with_keys is not None:
            return list(registration.flatten_with_keys(tree)[0])
        return [(FlattenedIndexKey(i), child) for i, child in enumerate(registration.flatten(tree)[0])]
    if kind in (tuple, list):
        return [(SequenceKey(i), child) for i, child in enumerate(tree)]
    if kind is collections.OrderedDict:
        return [(DictKey(k), child) for k, child in tree.items()]
    if kind in (dict, collections.defaultdict):
        return [(DictKey(k), tree[k]) for k in sorted(tree)]
    if optree.is_namedtuple_class(kind):
        return [(GetAttrKey(name), getattr(tree, name)) for name in kind._fields]
    return None


def unflattening(kind: type) -> Callable[[Any, Iterable[Any]], Any] | None:
    """Return what makes a node of a registered class, of its static data and children; None for other classes."""
    return _REGISTRY[kind].unflatten if kind in _REGISTRY else None


def is_node_type(kind: type) -> bool:
    """Tell whether instances of a class are inner nodes."""
    return kind in _BUILTIN_NODES or kind in _REGISTRY or optree.is_namedtuple_class(kind)


def leaves_with_path(tree: Any, is_leaf: Callable[..., bool] | None = None, with_path: bool = False) -> list:
    """Return the (key path, leaf) pairs of `tree`."""
    found: list[tuple[KeyPath, Any]] = []

    pending: list[tuple[KeyPath, Any]] = [((), tree)]  # trees may be deeper than Python recurses
    while pending:
        path, node = pending.pop()
        stop = is_leaf is not None and (is_leaf(path, node) if with_path else is_leaf(node))
        pairs = None if stop else children_with_keys(node)
        if pairs is None:
            found.append((path, node))
        else:
            pending.extend(((*path, key), child) for key, child in reversed(pairs))
    return found


# ------------------------------------------------------------------------------------------- prefixes and broadcasting


def skeleton(spec: Spec) -> Any:
    """Return a tree of this structure without values.

    Its leaves are of the class `object`, as JAX's are: classes that take numbers for metadata do not take those.
    """
    return spec.unflatten([object()] * spec.num_leaves)


def broadcast_prefix(prefix: Any, spec: Spec, is_leaf: IsLeaf = None) -> list[Any]:
    """Return one value per leaf of `spec`: `prefix` is a tree whose leaves stand for whole subtrees.

    Raises `ValueError` when `prefix` is no prefix of the structure.
    """
    leaves, prefix_spec = flatten(prefix, is_leaf)
    subtrees = prefix_spec.flatten_up_to(skeleton(spec))
    return [leaf for leaf, subtree in zip(leaves, subtrees, strict=True) for _ in flatten(subtree)[0]]


class _Static:
    """A partial function that functools does not take apart; it equals the one it is made of."""

    def __init__(self, inner: functools.partial[Any]) -> None:
        functools.update_wrapper(self, inner.func)
        self._inner = inner

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._inner(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return self._inner == (other._inner if isinstance(other, _Static) else other)

    def __hash__(self) -> int:
        return hash(self._inner)

    def __repr__(self) -> str:
        return repr(self._inner)


class Partial(functools.partial):
    """`functools.partial` as a pytree: the function is static, the bound arguments are children."""

    def __new__(cls, func: Callable[..., Any], *args: Any, **keywords: Any) -> "Partial":
        if isinstance(func, functools.partial) and not isinstance(func, Partial):
            # functools would merge the two partials; the inner one's arguments must stay static.
            func = _Static(func)
        return super().__new__(cls, func, *args, **keywords)


register_pytree_with_keys(
    Partial,
    lambda p: (((GetAttrKey("args"), p.args), (GetAttrKey("keywords"), p.keywords)), p.func),
    lambda func, children: Partial(func, *children[0], **children[1]),  # pyright: ignore
)
