"""Graphs as data: what a graph for `STORED` holds, in lists, numbers and texts that JSON can say.

A record is `{"inputs": types, "nodes": nodes, "outputs": numbers}`. Values are numbered: the inputs first, then what each
node makes. A node is `[operator, positional arguments, named arguments]`; an operator is one of aten by its full name, or
`scan`, `while`, `cond`, `item` (one of several results), `constant` (a tensor that is kept beside the records). Arguments
that JSON has no word for are dicts with one key, which says what they are. `replay.py` makes graphs of records.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from .._core.graph import TensorType, type_of
from .._lax.control_flow.scan import Scan

Record = dict[str, Any]


class Tensors:
    """The tensors that records name by number, each once."""

    def __init__(self) -> None:
        self.values: list[Tensor] = []
        self._numbers: dict[int, int] = {}

    def number(self, tensor: Tensor) -> int:
        """Return the number of a tensor."""
        if id(tensor) not in self._numbers:
            self._numbers[id(tensor)] = len(self.values)
            self.values.append(tensor)
        return self._numbers[id(tensor)]


class Writer:
    """Makes records of graphs whose tensors lie on `device`; `size` makes formulas of symbolic sizes."""

    def __init__(self, tensors: Tensors, device: torch.device, size: Callable[[Any], Any]) -> None:
        self._tensors, self._device, self._size = tensors, device, size

    def record(self, module: fx.GraphModule) -> Record:
        """Return the record of a lowered graph. Raises `NotImplementedError` for what cannot be stored."""
        numbers: dict[fx.Node, int] = {}
        held: dict[fx.Node, fx.GraphModule] = {}
        inputs, nodes, outputs = [], [], []
        for node in module.graph.nodes:
            if node.op == "placeholder":
                inputs.append(self.type(type_of(node)))
            elif node.op == "get_attr":
                found: Any = getattr(module, str(node.target))
                if isinstance(found, fx.GraphModule):
                    held[node] = found
                    continue
                nodes.append(["constant", [self._tensors.number(found)], {}])
            elif node.op == "output":
                outputs = self._results(node.args[0], numbers)
                continue
            else:
                nodes.append(self._call(node, numbers, held))
            numbers[node] = len(numbers)
        return {"inputs": inputs, "nodes": nodes, "outputs": outputs}

    def type(self, type: TensorType | None) -> dict[str, Any]:
        """Return a type as data."""
        assert type is not None
        shape = [self._argument(n, {}) for n in type.shape]
        found = {"shape": shape, "dtype": str(type.dtype).removeprefix("torch.")}
        return found if type.device == self._device else {**found, "device": str(type.device)}

    def _results(self, results: Any, numbers: dict[fx.Node, int]) -> list[int]:
        return [numbers[r] for r in (results if isinstance(results, list | tuple) else [results])]

    def _call(self, node: fx.Node, numbers: dict[fx.Node, int], held: dict[fx.Node, fx.GraphModule]) -> list[Any]:
        target, args = node.target, node.args
        several = lambda given: [self._argument(g, numbers) for g in given]  # noqa: E731
        if target is operator.getitem:
            return ["item", several(args), {}]
        if isinstance(target, Scan):
            counts = [target.consts, target.carries, self._argument(target.length, numbers)]
            return [
                "scan",
                [self.record(target.body.module), *counts, target.reverse, target.unroll, several(args)],
                {},
            ]
        name = getattr(target, "__name__", "")
        if isinstance(target, torch._ops.HigherOrderOperator) and name == "while_loop":
            test, body, state, constants = args
            graphs = [self.record(held[g]) for g in (test, body)]  # pyright: ignore
            return ["while", [*graphs, several(state), several(constants)], {}]
        if isinstance(target, torch._ops.HigherOrderOperator) and name == "cond":
            taken, first, second, operands = args
            graphs = [self.record(held[g]) for g in (first, second)]  # pyright: ignore
            return ["cond", [*graphs, self._argument(taken, numbers), several(operands)], {}]
        if not isinstance(target, torch._ops.OpOverload):
            raise NotImplementedError(
                f"an exported function cannot have {name or target!r} in it; leave that outside of the function."
            )
        named = {k: self._argument(v, numbers) for k, v in node.kwargs.items()}
        return [f"{target.namespace}.{target.__name__}", several(args), named]

    def _argument(self, value: Any, numbers: dict[fx.Node, int]) -> Any:
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, fx.Node):
            return {"value": numbers[value]}
        if isinstance(value, torch.SymInt | torch.SymFloat):
            return {"size": self._size(value)}
        if isinstance(value, list | tuple):
            return [self._argument(v, numbers) for v in value]
        if isinstance(value, complex):
            return {"complex": [value.real, value.imag]}
        if isinstance(value, torch.device):
            return {"device": None if value == self._device else str(value)}
        for kind, name in KINDS.items():
            if isinstance(value, kind):
                return {name: str(value).removeprefix("torch.")}
        raise NotImplementedError(f"an exported function cannot hold {value!r}, of type {type(value)}.")


KINDS: dict[type, str] = {torch.dtype: "dtype", torch.layout: "layout", torch.memory_format: "memory_format"}


def operators_in(records: Sequence[Record]) -> list[str]:
    """Return the names of the operators of aten in records, those within loops and branches included."""
    found: dict[str, None] = {}
    pending = list(records)
    while pending:
        for name, args, _ in pending.pop()["nodes"]:
            if name in ("scan", "while", "cond"):
                pending.extend(a for a in args if isinstance(a, dict) and "nodes" in a)
            elif name not in ("item", "constant"):
                found[name] = None
    return list(found)
