"""Inputs that a graph may write into, as those that are donated to it: where a result is one with some elements set.

So a step adds to a replay buffer, or to a cache of keys and values, in the time that the new elements take. A graph says
which inputs may be written into at all, each call which of its tensors nobody else holds (`writable`): others are copied first.
"""

import contextlib
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import getitem

import torch
from torch import Tensor, fx

from .._core import operators
from .._core.fakes import fake
from .._core.graph import Graph
from .._core.primitive import Primitive
from .._core.rewriting import rewritten
from . import loop_nodes
from .loop_indexing import changes_or_views, followed, is_first_slice, keeps_places
from .loop_operators import SETTING, name_of

_LEAST = 1 << 14  # elements: fewer are copied in less time than a call takes


@dataclass(frozen=True)
class Update:
    """Nodes that set elements of an input, one after the other; the last one is a result. The `others` read it before."""

    buffer: fx.Node
    nodes: tuple[fx.Node, ...]
    others: frozenset[fx.Node]


def may_update(body: Graph, donated: Sequence[int]) -> bool:
    """Tell whether a graph, whose primitives are not spelled out, may have updates."""
    large = _large(body, donated)
    made = [node for node in _results(body) if node.op == "call_function"] if large else []
    return any(followed(node, lambda node: _passes(node) or _is_primitive(node)) in large for node in made)


def _passes(node: fx.Node) -> bool:
    return changes_or_views(node) or keeps_places(node)


def _is_primitive(node: fx.Node) -> bool:
    return bool(node.args) and (isinstance(node.target, Primitive) or node.target is getitem)


def _large(body: Graph, donated: Sequence[int]) -> set[fx.Node]:
    inputs = body.module.graph.find_nodes(op="placeholder")
    return {inputs[i] for i in donated if body.in_types[i].device.type == "cpu" and _size(inputs[i]) >= _LEAST}


def _results(body: Graph) -> list[fx.Node]:
    (found,) = body.module.graph.output_node().args
    return [node for node in (found if isinstance(found, list | tuple) else [found]) if isinstance(node, fx.Node)]


def updates(body: Graph, donated: Sequence[int]) -> list[Update]:
    """Return how results are made of inputs that may be written into: those of which nothing is read later."""
    place = {node: i for i, node in enumerate(body.module.graph.nodes)}
    results, may, found = _results(body), _large(body, donated), []
    for end in results:
        if results.count(end) > 1 or not (update := _update_to(end)):
            continue
        first = min(map(place.__getitem__, update.nodes))
        if update.buffer in may and all(place[reader] < first for reader in update.others):
            may.remove(update.buffer)
            found.append(update)
    return found


def _size(node: fx.Node) -> int:
    return node.meta["val"].numel()


def _update_to(end: fx.Node) -> Update | None:
    """Return the nodes that a result is made by of something of its shape, if they set elements and nothing else reads them."""
    chain: list[fx.Node] = []

    def follows(node: fx.Node) -> bool:
        chain.extend([node] if _passes(node) else [])
        return _passes(node)

    buffer = followed(end, follows)
    if not all(map(loop_nodes.is_known, chain)):
        return None
    while chain and operators.of(chain[-1].target).is_view:  # which others may read through, too
        chain.pop()
    if not chain or not any(name_of(node) in SETTING for node in chain) or not isinstance(buffer, fx.Node):
        return None
    own = set(chain)
    own |= {user for node in chain for user in node.users if own.issuperset(user.users) and is_first_slice(user, node)}
    old, new = buffer.meta["val"], end.meta["val"]
    if (old.shape, old.dtype) != (new.shape, new.dtype) or not own.issuperset(u for n in chain[1:] for u in n.users):
        return None
    return Update(buffer, tuple(reversed(chain)), frozenset(_readers(buffer, own)))


def _readers(buffer: fx.Node, own: set[fx.Node]) -> set[fx.Node]:
    """Return what reads an input, through views, but for its own update."""
    readers, pending = set(), [buffer]
    for node in pending:  # which grows
        for user in node.users:
            if user in own:
                continue
            if user.op == "call_function" and operators.of(user.target).is_view:
                pending.append(user)
            else:
                readers.add(user)
    return readers


def laid_out(body: Graph, donated: Sequence[int]) -> Graph:
    """Return the graph with the results that are updates as their inputs lie in memory, in order."""
    ends = {update.nodes[-1] for update in updates(body, donated)}

    def in_order(node: fx.Node) -> None:
        value = node.meta["val"]
        node.meta["val"] = fake(value.fake_mode, value.shape, value.dtype, value.device)

    module = rewritten(body.module, ends.__contains__, in_order)
    return body if module is body.module else Graph(module, body.in_types, body.out_types)


# -- calls -------------------------------------------------------------------------------------------------------


class _Writable(threading.local):
    places: frozenset[int] = frozenset()  # the addresses of tensors


_writable = _Writable()


def is_writable(tensor: Tensor) -> bool:
    """Tell whether the call that is going on may write into a tensor."""
    return tensor.data_ptr() in _writable.places


@contextlib.contextmanager
def writable(places: frozenset[int]) -> Iterator[None]:
    """Let what is called write into the tensors at these addresses."""
    before, _writable.places = _writable.places, places
    try:
        yield
    finally:
        _writable.places = before


def places_held_once(tensors: Sequence[Tensor], positions: Sequence[int]) -> frozenset[int]:
    """Return the addresses of those tensors that nobody holds but a list, which is given, and one `Array` or the like."""
    return frozenset(tensors[i].data_ptr() for i in positions if _holders(tensors, i) == _ALONE)


def _holders(tensors: Sequence[Tensor], position: int) -> tuple[int, ...]:
    """Return how often a tensor is held in Python, in C++, and its memory, and whether that is torch's own and in order."""
    tensor = tensors[position]
    if type(tensor) is not Tensor or tensor.requires_grad or not tensor.is_contiguous():
        return ()
    storage = tensor.untyped_storage()
    # torch has no public function for either count (2.9 to 2.13). Memory of NumPy's or others' cannot be resized.
    return (
        sys.getrefcount(tensor),
        tensor._use_count(),  # pyright: ignore[reportAttributeAccessIssue]
        torch._C._storage_Use_Count(storage._cdata),
        storage.resizable(),
    )


def _alone() -> tuple[int, ...]:
    held = [torch.empty(1)]
    array = (held[0],)
    return _holders(held, array.index(held[0]))


_ALONE = _alone()
