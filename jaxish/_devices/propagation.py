"""How what operators make lies over devices: outside of traces, in them, and through finished graphs.

What a single operator makes, sharding_rules.py says.
"""

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from .._core import dtypes, graph, operators
from .._core.avals import ShapedArray
from .._core.graph import Graph
from .._core.memory import Space
from .._core.operators import Kind, Operator
from .._core.primitive import Primitive
from . import memories
from .meshes import AbstractMesh, get_abstract_mesh
from .sharding_rules import Call, Operand, choosing, choosing_now
from .shardings import NamedSharding, Sharding, in_memory


def record(target: Any, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> None:
    """Say of fakes just made how they lie. `Trace` calls it for each operator."""
    results = [out] if isinstance(out, Tensor) else out if isinstance(out, list | tuple) else ()
    for result, sharding in zip(results, of_results(target, args, kwargs, results), strict=True):
        if sharding is not None:
            result.laid = sharding  # pyright: ignore[reportAttributeAccessIssue]


def operands_of(args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """Return the tensors, fakes or `Operand`s among arguments."""
    return [a for a in _flat((*args, *kwargs.values())) if isinstance(a, Tensor | Operand)]


def of_results(
    target: Any, args: Sequence[Any], kwargs: dict[str, Any], results: Sequence[Any]
) -> Sequence[Sharding | None]:
    """Return how results lie of an operator or a primitive whose operands are tensors, fakes or `Operand`s.

    Raises `ShardingTypeError` where operands disagree about explicit axes.
    """
    if getattr(target, "places_results", False):
        return [target.sharding] * len(results)
    operands = operands_of(args, kwargs)
    first = next((o for o in operands if getattr(o, "laid", None) is not None), None)
    if first is None:
        return [None] * len(results)
    if not isinstance(first.laid, NamedSharding):  # a device of its own  # pyright: ignore
        return _on_a_device(target, operands, results, first.laid)  # pyright: ignore
    key = (
        target,
        _described(args),
        _described(tuple(kwargs.items())),
        _described(results),
        get_abstract_mesh(),
        choosing_now(),
    )
    try:
        if (found := _known.get(key)) is not None:
            return found
    except TypeError:  # an argument that cannot be hashed
        key = None
    found = _through(target, operands, results) if isinstance(target, Primitive) else None
    if found is None:
        like: Any = in_memory(first.laid, _memory_of_results(target, operands))  # pyright: ignore
        call = Call(target, args, kwargs, operands, like)
        found = [None if result is None else call.placed(result) for result in results]  # a gradient nobody asked for
    if key is not None and not isinstance(target, Primitive):  # whose graphs would be kept alive
        if len(_known) > _MOST:
            _known.clear()
        _known[key] = found
    return found


def _on_a_device(
    target: Any, operands: Sequence[Any], results: Sequence[Any], sharding: Sharding
) -> Sequence[Sharding | None]:
    """Return how results lie of operands of which the first is on one device."""
    kind = _memory_of_results(target, operands)
    if isinstance(target, Primitive) and Space.Host in map(_space_of, operands):  # within it values may be moved
        found = _through(target, operands, results)
        if found is not None:
            return [s or in_memory(sharding, memories.DEVICE) for s in found]
    return [in_memory(sharding, kind)] * len(results)


_known: dict[Any, Sequence[Sharding | None]] = {}  # what was found of operators, by all that it depends on
_MOST = 4096


def _described(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_described, value))
    return (value.shape, value.dtype, getattr(value, "laid", None)) if isinstance(value, Tensor | Operand) else value


def check_devices(given: Sequence[tuple[str, Any, Sharding | None]], function: str) -> None:
    """Raise `ValueError` where arguments, by name and type, were laid over different devices."""
    placed = [(name, type, s) for name, type, s in given if s is not None and not _is_abstract(s)]
    other = next(
        (p for p in placed[1:] if p[2] is not placed[0][2] and p[2].device_set != placed[0][2].device_set), None
    )
    if other is None:
        return
    texts = []
    for name, type, sharding in (placed[0], other):
        devices = sharding._device_assignment
        texts.append(
            f"argument {name} of {function} with shape {_type_text(type, sharding)} and with device ids "
            f"{[d.id for d in devices]} on platform {devices[0].platform.upper()}"
        )
    raise ValueError(f"Received incompatible devices for jitted computation. Got {' and '.join(texts)}")


def _type_text(of: Any, sharding: Sharding | None) -> str:
    told, kind = (None, None) if sharding is None else (sharding.of_type, sharding.memory_kind)
    dtype = dtypes.TO_NUMPY[of.dtype] if isinstance(of.dtype, torch.dtype) else of.dtype
    return ShapedArray(of.shape, dtype, sharding=told, memory_space=memories.space_of(kind)).str_short()


def _is_abstract(sharding: Sharding) -> bool:
    return isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh)


def _flat(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from value
        else:
            yield value


def shardings_of_results(body: Graph) -> Sequence[Sharding | None]:
    """Return the sharding of each of the graph's results, as it was found while it was traced; None where nothing is known.

    From here on the graph gives its results so (`known_shardings`): it is that of a jitted function, not of a loop's body.
    """
    outputs: Any = body.module.graph.output_node().args[0]
    found = body.cache["shardings"] = [getattr(node.meta.get("val"), "laid", None) for node in outputs]
    return found


def known_shardings(body: Graph) -> Sequence[Sharding | None]:
    """Return the shardings that the results of a jitted function's graph are to have; none for other graphs."""
    found = body.cache.get("shardings", ())
    return found if any(found) else ()


def shardings_within(body: Graph, inputs: Sequence[Sharding | None]) -> dict[fx.Node, Sharding]:
    """Return the shardings of what the graph's nodes make, as far as they follow from its inputs' and from constraints."""
    nodes, known = body.module.graph, {}
    for node, sharding in zip(nodes.find_nodes(op="placeholder"), inputs, strict=False):
        known[node] = sharding
    for node in nodes.nodes:
        if node.op != "call_function":
            continue
        if node.target is operator.getitem:
            of_source = known.get(node.args[0])
            known[node] = of_source[node.args[1]] if isinstance(of_source, list) else None
            continue
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: _operand(n, known))  # pyright: ignore
        value = node.meta.get("val")
        several = isinstance(value, list | tuple)
        with choosing():
            found = list(of_results(node.target, args, kwargs, value if several else [value]))  # pyright: ignore
        known[node] = found if several else found[0]
    return {node: s for node, s in known.items() if isinstance(s, Sharding)}


def _operand(node: fx.Node, known: dict[fx.Node, Any]) -> Operand | None:
    type = graph.type_of(node)
    return None if type is None else Operand(type.shape, type.dtype, known.get(node))


def _through(target: Primitive, operands: Sequence[Any], results: Sequence[Any]) -> Sequence[Sharding | None] | None:
    """Return how the results of a call of a graph lie, of a loop or of a branch; None for other primitives."""
    body = getattr(target, "body", None) or next(iter(getattr(target, "branches", ())), None)
    if not isinstance(body, Graph) or len(body.in_types) > len(operands) or len(body.out_types) != len(results):
        return None
    operands = operands[len(operands) - len(body.in_types) :]  # which branch, and what a predicate is given, come first
    count = len(operands)
    first_operand, first_result = getattr(target, "rows_from", (count, len(body.out_types)))
    if [tuple(o.shape[i >= first_operand :]) for i, o in enumerate(operands)] != [t.shape for t in body.in_types]:
        return None
    given = [getattr(o, "laid", None) for o in operands]
    known = shardings_within(body, [s.of_a_row() if s and i >= first_operand else s for i, s in enumerate(given)])
    outputs: Any = body.module.graph.output_node().args[0]
    found = [known.get(node) for node in outputs]
    return [s.of_rows() if s and i >= first_result else s for i, s in enumerate(found)]


def _memory_of_results(target: Any, operands: Sequence[Any]) -> str:
    """Return the kind of memory in which an operator's results are: that of its operands, of which numbers tell nothing.

    Raises `ValueError` for what combines operands in the memory of the host with others.
    """
    spaces = [_space_of(o) for o in operands]
    if Space.Host not in spaces:
        return memories.DEVICE
    arrays = [(o, space) for o, space in zip(operands, spaces, strict=True) if len(o.shape)]
    if not arrays:
        return memories.PINNED_HOST if len(operands) == 1 else memories.DEVICE
    first, space = arrays[0]
    other = next((o for o, s in arrays if s is not space), None)
    if other is not None and not choosing_now() and _combines(row := operators.of(target)):
        texts = [_type_text(o, getattr(o, "laid", None)) for o in (first, other)]
        raise ValueError(
            f"memory_space of all inputs passed to `{row.jax_name}` must be the same. Got one operand with type: {texts[0]} "
            f"and another operand with type: {texts[1]}. Move one by jax.device_put(x, jax.memory.Space.Device)."
        )
    return memories.kind_in(space)


def _space_of(operand: Any) -> Space:
    sharding = getattr(operand, "laid", None)
    return Space.Device if sharding is None else memories.space_of(sharding.memory_kind)


def _combines(row: Operator) -> bool:
    """Tell whether an operator's operands stand side by side in JAX, too, so that programs have made them all."""
    return row.is_elementwise or row.kind is Kind.PRODUCT or row.jax_name in ("concatenate", "stack", "gather")
