"""Graphs made of records (`records.py`): the operators that a record names, run once on fake tensors for given sizes.

A record says what to call by names, which are looked up here: operators of aten that return tensors, and this library's
loops and branches. So a file can ask for arithmetic, and for nothing else.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .._core import graph
from .._core.graph import Graph, TensorType
from .._lax.control_flow.cond import Cond
from .._lax.control_flow.scan import Scan
from .._lax.control_flow.while_loop import While
from . import sizes
from .records import KINDS, Record

_NAMESPACES = ("aten", "prims")


@functools.cache
def operator_named(name: str) -> torch._ops.OpOverload:
    """Return the operator of torch with this name. Raises `ValueError` where there is none that a file may name."""
    namespace, _, rest = name.partition(".")
    packet, _, overload = rest.partition(".")
    found = None
    if namespace in _NAMESPACES:
        found = getattr(getattr(getattr(torch.ops, namespace), packet, None), overload, None)
    if not isinstance(found, torch._ops.OpOverload):
        raise ValueError(
            f"the operator {name} is not one of torch {torch.__version__}; export again with this version."
        )
    schema = found._schema
    computes = schema.returns and all("Tensor" in str(r.type) for r in schema.returns)
    if not computes or any(a.name == "filename" for a in schema.arguments):
        raise ValueError(f"the operator {name} does something besides computing tensors, which a file may not ask for.")
    return found


class Replay:
    """Makes graphs of records, for these sizes, on `device`; `tensors` are those that records name by number."""

    def __init__(self, tensors: Sequence[Tensor], values: Mapping[str, Any], device: torch.device) -> None:
        self._tensors, self._sizes, self._device = tensors, values, device

    def graph_of(self, record: Record) -> Graph:
        """Return the graph that a record says."""
        return graph.trace(lambda *inputs: self.run(record, inputs), [*map(self._type, record["inputs"])]).graph

    def run(self, record: Record, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Return the results of a record for tensors, operator by operator."""
        values: list[Any] = list(inputs)
        for name, args, kwargs in record["nodes"]:
            values.append(self._made(name, args, kwargs, values))
        return [values[number] for number in record["outputs"]]

    def _made(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], values: Sequence[Any]) -> Any:
        read = lambda given: self._argument(given, values)  # noqa: E731
        if name == "constant":
            assert graph.constant is not None
            return graph.constant(self._tensors[args[0]])()[0]
        if name == "item":
            return read(args[0])[args[1]]
        if name == "scan":
            body, consts, carries, length, reverse, unroll, inputs = args
            return Scan(self.graph_of(body), consts, carries, read(length), reverse, unroll)(*read(inputs))
        if name == "while":
            return self._loop(args[0], args[1], read(args[2]), read(args[3]))
        if name == "cond":
            first, second, taken, operands = args
            branches = Cond([self.graph_of(second), self.graph_of(first)])
            return branches(read(taken).to(torch.int32), *read(operands))
        return operator_named(name)(*map(read, args), **{k: read(v) for k, v in kwargs.items()})

    def _loop(self, test: Record, body: Record, state: list[Tensor], constants: list[Tensor]) -> list[Tensor]:
        """Run a loop whose graphs take the state and then the constants, which `While` takes in front, of each."""
        count = len(constants)

        def turned(record: Record) -> Graph:
            types = [*map(self._type, record["inputs"])]
            order = [*types[len(state) :], *types[: len(state)]]
            return graph.trace(lambda *xs: self.run(record, [*xs[count:], *xs[:count]]), order).graph

        return While(turned(test), turned(body), count, count)(*constants, *constants, *state)

    def _type(self, type: Mapping[str, Any]) -> TensorType:
        shape = tuple(self._argument(n, ()) for n in type["shape"])
        device = torch.device(type["device"]) if "device" in type else self._device
        return TensorType(shape, torch_constant(type["dtype"], torch.dtype), device)

    def _argument(self, value: Any, values: Sequence[Any]) -> Any:
        if isinstance(value, list):
            return [self._argument(v, values) for v in value]
        if not isinstance(value, dict):
            return value
        ((kind, said),) = value.items()
        if kind == "value":
            return values[said]
        if kind == "size":
            return sizes.evaluate(said, self._sizes)
        if kind == "complex":
            return complex(*said)
        if kind == "device":
            return self._device if said is None else torch.device(said)
        return torch_constant(said, next(k for k, name in KINDS.items() if name == kind))


def torch_constant(name: str, kind: type) -> Any:
    """Return torch's dtype, layout or memory format of this name. Raises `ValueError` where it has none."""
    found = getattr(torch, name, None)
    if not isinstance(found, kind):
        raise ValueError(f"torch {torch.__version__} has no {kind.__name__} {name!r}.")
    return found
