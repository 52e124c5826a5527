"""Structured primitives inside compiled graphs: one opaque operator, `jaxish::structured`.

A loop or a branch in a graph that a backend compiles stays a call of this operator, where the target can call the
host. Its kernel runs the primitive, whose bodies are graphs with executables of their own, compiled in turn. So the
size of the compiled code and the time to compile it do not grow with a loop's trip count, and one body compiles once
for all its uses. For other targets the primitive is spelled out in operators that every backend knows.

The operator names its primitive by a string that is the same in every process (a hash of the primitive's graphs and
parameters, and its input types), since backends cache compiled code on disk by the text of the graph.
"""

import hashlib
import itertools
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, fx

from .._core import graph
from .._core.graph import TensorType
from .._core.primitive import Primitive, Undifferentiated
from .._core.target import Target


@dataclass(frozen=True, eq=False)
class _Call:
    """What a key stands for: a primitive, which a process that only compiles does not have, and the types of its results."""

    primitive: Primitive | None
    types: tuple[TensorType, ...]


_CALLS: "weakref.WeakValueDictionary[str, _Call]" = weakref.WeakValueDictionary()
_KNOWN_TO_TORCH: dict[str, _Call] = {}  # code of torch.compile, which lives as long as it likes, has the key only

_library = torch.library.Library("jaxish", "DEF")
_library.define("structured(Tensor[] inputs, str primitive, Device device) -> Tensor[]")


def _kernel(inputs: list[Tensor], primitive: str, device: torch.device) -> list[Tensor]:
    called = _CALLS[primitive].primitive
    assert called is not None
    with torch.no_grad():
        results = called.run(*inputs)
    # The operator's contract with compiled code: results share no memory, are contiguous, and start aligned.
    taken = {i.untyped_storage().data_ptr() for i in inputs}
    return [_owned(result, taken) for result in results]


def _owned(result: Tensor, taken: set[int]) -> Tensor:
    if result.storage_offset() or not result.is_contiguous() or result.untyped_storage().data_ptr() in taken:
        result = result.clone(memory_format=torch.contiguous_format)
    taken.add(result.untyped_storage().data_ptr())
    return result


def _fake(inputs: list[Tensor], primitive: str, device: torch.device) -> list[Tensor]:
    return [torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in _CALLS[primitive].types]


_library.impl("structured", _kernel, "CompositeExplicitAutograd")
torch.library.register_fake("jaxish::structured", _fake, lib=_library)


class Opaque(Primitive):
    """A primitive that compiled code calls as one operator. It is told from others by its parameters, `vars(self)`."""

    def stays(self, target: Target) -> bool:
        return target.has_primitives or super().stays(target)

    def lower(self, target: Target, *inputs: Tensor) -> list[Tensor]:
        return call(self, inputs) if target.calls_host else self.spelled_out(target, *inputs)

    def spelled_out(self, target: Target, *inputs: Tensor) -> list[Tensor]:
        """Compute the results while a graph is traced for a target that cannot call the host.

        A subclass whose `run` looks at values, or goes block by block, has another way.
        """
        return self.run(*inputs)


class Constant(Opaque, Undifferentiated):
    """A tensor that a user's rule closes over, in a graph of derivatives."""

    __name__ = "constant"
    _count = itertools.count()

    def __init__(self, tensor: Tensor) -> None:
        self._tensor, self._number = tensor, next(self._count)

    def identity(self) -> str:
        return f"constant#{self._number}"

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(self._tensor)]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return [self._tensor.clone()]  # compiled code may write into what an operator gives it

    def spelled_out(self, target: Target, *inputs: Tensor) -> list[Tensor]:
        trace = graph.current_trace()
        assert trace is not None
        return [trace.attribute(self._tensor)]


graph.constant = Constant


def call(primitive: Primitive, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Append a call of `primitive` to the graph that is being lowered."""
    trace = graph.current_trace()
    assert trace is not None
    key, called, device = _called(primitive, inputs)
    if not called.types:
        return []
    results = trace.emit(torch.ops.jaxish.structured.default, (list(inputs), key, device), called.types)
    # Compiled code knows the primitive by its key only: the graph, which its executable holds, keeps it alive.
    (node,) = trace.node_of(results[0]).all_input_nodes  # not its first result, which nothing may read
    node.meta["called"] = called
    return results


def call_in_torch(primitive: Primitive, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Call `primitive` as an operator that torch traces: torch.compile, or make_fx. It is known for good then."""
    key, called, device = _called(primitive, inputs)
    _KNOWN_TO_TORCH.setdefault(key, called)
    return torch.ops.jaxish.structured(list(inputs), key, device)


def _called(primitive: Primitive, inputs: Sequence[Tensor]) -> tuple[str, _Call, torch.device]:
    types = tuple(primitive.out_types(*inputs))
    text = f"{primitive.identity()}|{[TensorType.of(i) for i in inputs]}|{types}"
    key = hashlib.sha256(text.encode()).hexdigest()[:32]
    called = _CALLS.setdefault(key, _Call(primitive, types))
    return key, called, types[0].device if types else torch.device("cpu")


def types_in(module: fx.GraphModule) -> dict[str, tuple[TensorType, ...]]:
    """Return the result types of the structured calls in a graph, for a process that has not traced it."""
    calls = module.graph.find_nodes(op="call_function", target=torch.ops.jaxish.structured.default)
    return {str(node.args[1]): _CALLS[str(node.args[1])].types for node in calls}


@contextmanager
def declared(types: dict[str, tuple[TensorType, ...]]) -> Iterator[None]:
    """Within this context manager structured calls of another process are known here, for compiling only."""
    known = [_CALLS.setdefault(key, _Call(None, of_results)) for key, of_results in types.items()]
    try:
        yield
    finally:
        del known
