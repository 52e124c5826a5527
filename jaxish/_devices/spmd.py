"""Graphs and primitives in a program of several processes, each of which makes its own part of what is distributed.

A graph whose inputs are the same in all processes, and whose results are to be distributed, is cut down to this
process's part (partition.py). With distributed inputs a graph runs operator by operator on DTensors, by torch's rules for
them; a primitive makes its part of them where it has a rule for that, else it is given all of its inputs.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, fx

from .._core import config
from .._core.boxes import Box
from .._core.errors import JaxRuntimeError
from .._core.graph import Graph, TensorType
from .._core.primitive import Primitive
from . import partition, processes, propagation
from .shardings import NamedSharding, PartitionSpec, Sharding

Run = Callable[..., Sequence[Tensor]]


_guarding: int | None = None  # the thread that `jax_thread_guard` was set in


def _follow_guard() -> None:
    global _guarding
    _guarding = threading.get_ident() if config.thread_guard.value else None


config.thread_guard.on_change.append(_follow_guard)


def _check_thread() -> None:
    if _guarding not in (None, threading.get_ident()):
        raise JaxRuntimeError(
            "FAILED_PRECONDITION: jax_thread_guard is set in another thread: what runs on several processes has to be "
            "asked for in one order by all of them, so in one thread."
        )


def run(body: Graph, inputs: Sequence[Tensor], alone: Run, run_graph: Callable[[Graph], Run]) -> Sequence[Tensor]:
    """Return a graph's results: `alone` runs it on plain tensors, `run_graph` gives what runs another graph."""
    shardings = propagation.known_shardings(body)
    if any(map(processes.is_distributed, inputs)):
        _check_thread()
        results = _Interpreter(body.module).run(*inputs)
        return [_placed(r, s) for r, s in zip(results, shardings, strict=True)] if shardings else results
    if not shardings:
        return alone(*inputs)
    _check_thread()
    boxes = [None if s is None else _own_box(s, t.shape) for s, t in zip(shardings, body.out_types, strict=True)]
    local = partition.local_graph(body, boxes)
    parts = run_graph(local.graph)(*local.captured, *inputs)
    return [
        part if s is None else processes.from_part(part, s, type.shape)
        for part, s, type in zip(parts, shardings, body.out_types, strict=True)
    ]


def _placed(result: Tensor, sharding: Sharding | None) -> Tensor:
    """Return a result of DTensors' operators, which is the same in all processes where none of them made it."""
    if sharding is None or processes.is_distributed(result):
        return result
    return processes.distributed(result, sharding)


def _own_box(sharding: Sharding, shape: tuple[int, ...]) -> Box:
    return Box.of(processes.own_index(sharding, shape), shape)


class _Interpreter(fx.Interpreter):
    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        return run_primitive(target, args) if isinstance(target, Primitive) else target(*args, **kwargs)


def run_primitive(primitive: Primitive, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Return the results of a primitive whose inputs may be distributed."""
    if not any(map(processes.is_distributed, inputs)) or primitive.places_results:
        return primitive.run(*inputs)
    _check_thread()
    types = primitive.out_types(*inputs)
    results = [_by_part(primitive, index, type, inputs) for index, type in enumerate(types)]
    if any(r is None for r in results):
        sharding = _like_first(inputs, ())
        return [
            processes.from_part(whole, sharding, tuple(whole.shape))
            for whole in primitive.run(*map(processes.replicated, inputs))
        ]
    return results  # pyright: ignore


def _by_part(primitive: Primitive, index: int, result: TensorType, inputs: Sequence[Tensor]) -> Tensor | None:
    sharding = _like_first(inputs, result.shape)
    if sharding.is_fully_replicated:
        return None
    box = _own_box(sharding, result.shape)
    plan = partition.part_of(primitive, index, box, [TensorType.of(i) for i in inputs])
    if plan is None:
        return None
    boxes, make = plan
    part = make(*(_cut(i, b) for i, b in zip(inputs, boxes, strict=True)))
    return processes.from_part(part.reshape(box.sizes), sharding, result.shape)


def _like_first(inputs: Sequence[Tensor], shape: tuple[int, ...]) -> NamedSharding:
    """Return the sharding of the first distributed input, of what leading dimensions a result has in common with it."""
    first = next(i for i in inputs if processes.is_distributed(i))
    sharding = processes.sharding_of(first, first.dim())
    spec = []
    for part, size, own in zip(sharding.spec, first.shape, shape, strict=False):
        if size != own:
            break
        spec.append(part)
    return sharding.update(spec=PartitionSpec(*spec))


def _cut(tensor: Tensor, box: Box | None) -> Tensor:
    if box is None:
        return processes.replicated(tensor)
    if processes.is_distributed(tensor):
        own = _own_box(processes.sharding_of(tensor, tensor.dim()), tuple(tensor.shape))
        if own.fitted(box.shape) == box:
            return processes.local_part(tensor).reshape(box.sizes)
    return box.cut(processes.replicated(tensor))
