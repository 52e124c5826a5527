"""Structures of pytrees as data. Classes of one's own take part once their name and static data are registered.

`["leaf"]`, `["none"]`, `["tuple" | "list", children]`, `["dict", keys, children]` and `["custom", name, static data, children]`.
"""

import base64
import collections
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import optree

from .._core import tree
from .._core.tree import PyTreeDef

ClassT = TypeVar("ClassT", bound=type)


class _Written(NamedTuple):
    name: str
    of_auxdata: Callable[[Any], bytes]


class _Read(NamedTuple):
    nodetype: type
    of_bytes: Callable[[bytes], Any]
    from_children: Callable[[Any, Sequence[Any]], Any]


_written: dict[type, _Written] = {}
_read: dict[str, _Read] = {}


def register_pytree_node_serialization(
    nodetype: ClassT,
    *,
    serialized_name: str,
    serialize_auxdata: Callable[[Any], bytes],
    deserialize_auxdata: Callable[[bytes], Any],
    from_children: Callable[[Any, Sequence[Any]], Any] | None = None,
) -> ClassT:
    """Say how nodes of a class are stored in exported functions: under this name, their static data as bytes.

    `from_children(static data, children)` makes a node; without it, what the class was registered with as a pytree node does.
    Returns the class. Raises `ValueError` for a class or a name that is registered, and for a class that is no pytree node.
    """
    if nodetype in _written:
        raise ValueError(
            f"Duplicate serialization registration for type `{nodetype}`: it is stored as `{_written[nodetype].name}`."
        )
    if serialized_name in _read:
        raise ValueError(
            f"Duplicate serialization registration for serialized_name `{serialized_name}`, which is that of "
            f"`{_read[serialized_name].nodetype}`."
        )
    make = tree.unflattening(nodetype) if from_children is None else from_children
    if make is None:
        raise ValueError(
            f"If `from_children` is not present, you must call first `jax.tree_util.register_pytree_node` for `{nodetype}`"
        )
    _written[nodetype] = _Written(serialized_name, serialize_auxdata)
    _read[serialized_name] = _Read(nodetype, deserialize_auxdata, make)
    return nodetype


def register_namedtuple_serialization(nodetype: ClassT, *, serialized_name: str) -> ClassT:
    """Say under which name instances of a named tuple are stored in exported functions; the class needs no more.

    Returns the class. Raises `ValueError` for what is no named tuple, and as `register_pytree_node_serialization`.
    """
    if not optree.is_namedtuple_class(nodetype):
        raise ValueError(
            "Use `jax.export.register_pytree_node_serialization` for types other than `collections.namedtuple`."
        )

    def from_children(names: Any, children: Sequence[Any]) -> Any:
        return nodetype(**dict(zip(names, children, strict=True)))

    return register_pytree_node_serialization(
        nodetype,
        serialized_name=serialized_name,
        serialize_auxdata=lambda _: json.dumps(nodetype._fields).encode(),  # pyright: ignore
        deserialize_auxdata=lambda stored: json.loads(stored.decode()),
        from_children=from_children,
    )


def _ordered_keys(keys: Sequence[Any]) -> bytes:
    if not all(isinstance(k, str) for k in keys):
        raise NotImplementedError(
            f"Serialization of collections.OrderedDict is supported only when the keys are strings. Found keys: {keys}."
        )
    return json.dumps(list(keys)).encode()


register_pytree_node_serialization(
    collections.OrderedDict,
    serialized_name="collections.OrderedDict",
    serialize_auxdata=_ordered_keys,
    deserialize_auxdata=lambda stored: json.loads(stored.decode()),
    from_children=lambda keys, children: collections.OrderedDict(zip(keys, children, strict=True)),
)


def stored(structure: PyTreeDef) -> list[Any]:
    """Return a structure as data. Raises `TypeError` for keys that are no strings, `ValueError` for unregistered classes."""
    data = structure.node_data()
    if data is None:
        return ["leaf"]
    kind, auxdata = data
    children = [*map(stored, structure.children())]
    if kind is type(None):
        return ["none"]
    if kind in (tuple, list):
        return [kind.__name__, children]
    if kind is dict:
        for key in auxdata:
            if not isinstance(key, str):
                raise TypeError(
                    f"Serialization is supported only for dictionaries with string keys. Found key {key} of type {type(key)}."
                )
        return ["dict", list(auxdata), children]
    if kind not in _written:
        raise ValueError(
            f"Cannot serialize PyTreeDef containing an unregistered type `{kind}`. Use "
            "`export.register_pytree_node_serialization` or `export.register_namedtuple_serialization`."
        )
    name, of_auxdata = _written[kind]
    as_bytes = of_auxdata(auxdata)
    if not isinstance(as_bytes, bytes | bytearray):
        raise ValueError(
            f"The custom serialization function for `{kind}` must return a `bytes` object. It returned a {type(as_bytes)}."
        )
    return ["custom", name, base64.b64encode(as_bytes).decode(), children]


def loaded(said: Sequence[Any], leaves: Iterable[Any]) -> PyTreeDef:
    """Return the structure that data says; classes of one's own are made with these leaves.

    Raises `ValueError` for a class that is not registered, and for what is no structure.
    """
    remaining = iter(leaves)
    return PyTreeDef(tree.flatten(_tree(said, remaining))[1])


def _tree(said: Sequence[Any], leaves: Iterator[Any]) -> Any:
    match said:
        case ["leaf"]:
            return next(leaves)
        case ["none"]:
            return None
        case ["tuple", list(children)]:
            return tuple(_tree(c, leaves) for c in children)
        case ["list", list(children)]:
            return [_tree(c, leaves) for c in children]
        case ["dict", list(keys), list(children)]:
            return {k: _tree(c, leaves) for k, c in zip(keys, children, strict=True)}
        case ["custom", str(name), str(stored), list(children)] if name in _read:
            auxdata = _read[name].of_bytes(base64.b64decode(stored))
            return _read[name].from_children(auxdata, [_tree(c, leaves) for c in children])
        case ["custom", str(name), str(), list()]:
            raise ValueError(
                f"Cannot deserialize a PyTreeDef containing an unregistered type `{name}`. Use "
                "`export.register_pytree_node_serialization` or `export.register_namedtuple_serialization`."
            )
    raise ValueError(f"{said!r} is no structure of a pytree.")
