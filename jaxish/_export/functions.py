"""What an exported function computes: records (`records.py`), of which calls take the one whose guards hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .._core.graph import ClosedGraph
from .._core.levels import is_tracer
from . import sizes
from .records import Record, Tensors
from .replay import Replay


@dataclass(frozen=True)
class Case:
    """The function for the sizes of which all `guards` are true; `captured` are the numbers of its leading inputs."""

    guards: Sequence[Sequence[Any]]
    record: Record
    captured: Sequence[int]
    example: Mapping[str, int] = field(default_factory=dict)  # sizes of this case

    def covers(self, values: Mapping[str, Any]) -> bool:
        """Tell whether these sizes are this case's."""
        return all(sizes.holds(guard, values) for guard in self.guards)


@dataclass(eq=False)
class StoredFunction:
    """A function as records and tensors, and the graphs that were made of them."""

    cases: list[Case]
    tensors: Tensors
    _graphs: dict[Any, ClosedGraph] = field(default_factory=dict)

    def closed(self, values: Mapping[str, Any], device: torch.device) -> ClosedGraph:
        """Return the graph for these sizes, on a device. Raises `ValueError` for sizes that no case covers."""
        known = all(type(v) is int for v in values.values())
        key = (tuple(values.items()), device)
        found = self._graphs.get(key) if known else None
        if found is None:
            found = self._replayed(values, device)
            if known and not any(map(is_tracer, found.captured)):
                self._graphs[key] = found
        return found

    def _replayed(self, values: Mapping[str, Any], device: torch.device) -> ClosedGraph:
        case = next((case for case in self.cases if case.covers(values)), None)
        if case is None:
            given = ", ".join(f"{name} = {value}" for name, value in values.items())
            raise ValueError(
                f"The function was exported without a case for the sizes {given}: it does other things at other sizes, and "
                "these are not among those that were tried. Export it for sizes like these."
            )
        tensors = self.tensors.values
        captured: list[Tensor] = [tensors[number].to(device) for number in case.captured]
        return ClosedGraph(Replay(tensors, values, device).graph_of(case.record), tuple(captured))
