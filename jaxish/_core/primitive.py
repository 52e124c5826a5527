"""Structured primitives: operations that torch.func cannot see through, each with rules of its own.

A compiled call, a loop, a branch, a function with a custom derivative, a collective: each is a subclass of
`Primitive`. An instance carries its static parameters (its graphs among them) and is called with plain tensors.

What an instance is called under decides what happens (`Primitive.__call__`):

  1. functorch levels are active: the innermost one applies its rule (`vmap`, `jvp` or `vjp` below), which calls
     primitives again, one level further out (`level_rules.py`);
  2. else, a trace is active: the call becomes one node of its graph;
     a trace that lowers a graph for a backend calls `lower` instead, which spells the operation out;
  3. else: `run` computes.

The contract of the rules: tensors are given and returned as flat lists; `out_types` must be exact; a rule may call
any torch function and any primitive, and may not look at values. Rules are written with torch.func over the
primitive's graphs, so that they nest to any order.
"""

import dataclasses
import enum
import hashlib
import itertools
import sys
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import axes, functorch, graph, level_rules
from .boxes import Box
from .graph import Graph, TensorType
from .levels import is_tracked
from .target import Target

Dims = Sequence[int | None]

# What runs primitives whose inputs may lie over devices: of several processes (`_devices/spmd.py`), or of this one
# (`_devices/laid.py`), once an array does.
among_devices: "Callable[[Primitive, Sequence[Tensor]], list[Tensor]] | None" = None


class Primitive:
    """Base class; a subclass gives `out_types`, `run` and the three rules, and `lower` where it differs from `run`."""

    __name__ = "primitive"  # FX names nodes by these two
    __module__ = "jaxish"

    is_users = False  # whether a user defined it: jaxprs show it though its results are unused
    is_elementwise = False  # whether each element of the result is made of one element of each operand, broadcast
    places_results = False  # whether it lays its results over devices
    is_instruction = False  # whether loops in C++ (`_compile/loop_nodes.py`) have it as an operation of its own
    factorizes = False  # whether it factorizes matrices, which C++ does by LAPACK whatever their size
    is_smooth = True  # whether results have derivatives
    rules: tuple[str, ...] = ()  # the attributes that say how it is transformed, and nothing of what it computes

    @property
    def goes_back_from_zero(self) -> bool:
        """Whether its reverse rule is asked where all cotangents that come to it are zero, too."""
        return False

    @property
    def has_effect(self) -> bool:
        """Whether a call does something besides computing its results, so that it must stay although they are unused."""
        return any(map(graph.has_effects, graphs_of(self)))

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        """Return the types of the results."""
        raise NotImplementedError

    def run(self, *inputs: Tensor) -> list[Tensor]:
        """Compute the results of plain tensors."""
        raise NotImplementedError

    def lower(self, target: Target, *inputs: Tensor) -> list[Tensor]:
        """Compute the results while a graph is traced for a backend, by what its target can run."""
        return self.run(*inputs)

    def stays(self, target: Target) -> bool:
        """Tell whether graphs for `target` have calls of the primitive as they are, so that it need not be lowered."""
        return (self.is_instruction and target.has_instructions) or (self.is_elementwise and target.has_primitives)

    def part(
        self, index: int, box: Box, types: Sequence[TensorType]
    ) -> "tuple[list[Box | None], Callable[..., Tensor]] | None":
        """Return the boxes of the inputs (None: all) that a box of result `index` is made of, and what makes it.

        None where it takes all of the inputs. The function's result has the box's elements, in any shape.
        """
        return None

    def reached(self, changed: set[int]) -> set[int] | None:
        """Return which results have a derivative by the inputs at these positions; None: all that can."""
        return None

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        """Return results and their batch dimensions, for inputs batched along `dims` (None: not batched)."""
        raise NotImplementedError(f"vmap of {self.__name__} is not implemented")

    def lanes_told(self) -> frozenset[Hashable]:
        """Return the axes along which its results may vary whatever its inputs do: its graphs ask which lane they are in."""
        return frozenset().union(*map(_lanes_told_in, graphs_of(self)))

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Return the tangents of the results; a tangent of None is zero."""
        raise NotImplementedError(f"forward-mode differentiation of {self.__name__} is not implemented")

    def pushed(
        self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]
    ) -> tuple[Sequence[Tensor], Sequence[Tensor | None]]:
        """Return the results and their tangents, which some rules compute together."""
        return self(*primals), self.jvp(primals, tangents)

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        """Return the cotangents of the inputs; a cotangent of None is zero."""
        raise NotImplementedError(f"reverse-mode differentiation of {self.__name__} is not implemented")

    def vjp_of(
        self,
        needed: Sequence[bool],
        primals: Sequence[Tensor],
        results: Sequence[Tensor],
        cotangents: Sequence[Tensor | None],
    ) -> Sequence[Tensor | None]:
        """Return what `vjp` does, for the inputs that are being differentiated; the others' cotangents are not used."""
        return self.vjp(primals, results, cotangents)

    def linked(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Return the results at the innermost level, which goes back from them by the rule for reverse mode."""
        results = level_rules.one_level_out(self, inputs)
        found = self.reached({i for i, t in enumerate(inputs) if is_tracked(t, axes.current_level())})
        smooth = [differentiable(r.dtype) and (found is None or i in found) for i, r in enumerate(results)]
        return level_rules.linked(inputs, results, smooth, self.vjp_of, self.goes_back_from_zero)

    def at_level(self, level: int) -> "Primitive":
        """Return the primitive whose rules the functorch level `level`, which differentiates, applies: almost always this one."""
        return self

    def identity(self) -> str:
        """Return a text that differs between primitives that compute different things.

        It is the same in every process, so that compiled code with a primitive in it can be kept on disk.
        """
        parameters = sorted((k, v) for k, v in vars(self).items() if k not in self.rules)
        return f"{self.__name__}({', '.join(f'{k}={_described(v)}' for k, v in parameters)})"

    def equation(self) -> tuple[Any, dict[str, Any]] | None:
        """Return what this is in a jaxpr: JAX's name, or a user's primitive, and parameters, graphs standing for jaxprs.

        None where JAX has no such operation.
        """
        return None

    def __repr__(self) -> str:
        return self.__name__

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        if functorch.peek_interpreter_stack() is not None:
            return self._computed(inputs) if graph.folds(inputs) else level_rules.applied(self, inputs)
        return self._base(*inputs)

    def _computed(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        with graph.suspended():
            return self.run(*inputs)

    def _base(self, *given: Tensor) -> list[Tensor]:
        inputs = [*map(graph.in_memory, given)]
        trace = graph.current_trace() if graph.tracing else None
        if trace is not None and graph.folds(inputs):
            return self._computed(inputs)
        if trace is None:
            return self.run(*inputs) if among_devices is None else among_devices(self, inputs)
        inputs = [*map(trace.lift, inputs)]
        target = trace.lowering
        if target is None or self.stays(target):
            return trace.emit(self, inputs, self.out_types(*inputs))
        return self.lower(target, *inputs)


class Undifferentiated(Primitive):
    """Base class of primitives whose results do not depend on their inputs smoothly: all tangents are zero."""

    is_smooth = False

    def reached(self, changed: set[int]) -> set[int]:
        return set()


def graph_identity(body: Graph) -> str:
    """Return a text that is equal in every process for equal graphs."""
    found = body.cache.get("identity")
    if found is None:
        inner = [n.target.identity() for n in body.module.graph.nodes if isinstance(n.target, Primitive)]
        text = f"{body.module.code}{body.in_types}{inner}"
        found = body.cache["identity"] = hashlib.sha256(text.encode()).hexdigest()[:32]
    return found


def graphs_of(primitive: Primitive) -> list[Graph]:
    """Return the graphs that a primitive holds, each once."""
    return list({id(body): body for body in _graphs_in(vars(primitive).values())}.values())


def _lanes_told_in(body: Graph) -> frozenset[Hashable]:
    found = body.cache.get("lanes told")
    if found is None:
        targets = (node.target for node in body.module.graph.nodes)
        told = (t.lanes_told() for t in targets if isinstance(t, Primitive))
        found = body.cache["lanes told"] = frozenset().union(*told)
    return found


def _graphs_in(values: Iterable[Any]) -> Iterator[Graph]:
    for value in values:
        if isinstance(value, Graph):
            yield value
        elif isinstance(value, tuple | list):
            yield from _graphs_in(value)


_PLAIN = (type(None), bool, int, float, complex, str, bytes, enum.Enum, torch.dtype, torch.device, np.dtype, np.generic)


def _described(value: Any) -> str:
    """Return a text that differs between values that are not equal, and is the same in every process where there is one."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, Graph):
        return graph_identity(value)
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_described, value))})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_described(k)}: {_described(v)}' for k, v in value.items())}}}"
    if _is_found_by(value):
        return f"{value.__module__}.{value.__qualname__}"
    if dataclasses.is_dataclass(value):  # fields that repr leaves out follow from the others
        fields = (_described(getattr(value, f.name)) for f in dataclasses.fields(value) if f.repr)
        return f"{type(value).__qualname__}({', '.join(fields)})"
    return f"{getattr(value, '__qualname__', type(value).__qualname__)}#{_number_of(value)}"


def _is_found_by(value: Any) -> bool:
    """Tell whether a function or class is what its module has under its name, so that the name says all."""
    found: Any = sys.modules.get(getattr(value, "__module__", None) or "")
    for part in getattr(value, "__qualname__", "").split("."):
        found = getattr(found, part, None)
    return found is value


_numbers: "weakref.WeakKeyDictionary[Any, int]" = weakref.WeakKeyDictionary()
_counter = itertools.count()


def _number_of(value: Any) -> int:
    """Return the number of a value that does not describe itself, a closure for one: no other has it in this process.

    Compiled code on disk calls a primitive of the process that loads it, so that equal numbers there do no harm.
    """
    return _numbers.setdefault(value, next(_counter))


def differentiable(dtype: torch.dtype) -> bool:
    """Tell whether tensors of this dtype have tangents."""
    return dtype.is_floating_point or dtype.is_complex


def popped_axis() -> Any:
    """Return the axis name of the level whose vmap rule is being applied, or None."""
    return axes.name_at(axes.current_level() + 1)


def batch_front(tensor: Tensor, dim: int | None, size: int) -> Tensor:
    """Return `tensor` with its batch dimension in front, repeated `size` times where it has none."""
    return tensor.unsqueeze(0).expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def batches_aligned(tensors: Sequence[Tensor], dims: Dims) -> list[Tensor]:
    """Return operands of an elementwise function with their batch dimensions in front, so that they broadcast together."""
    rank = max(t.dim() - (d is not None) for t, d in zip(tensors, dims, strict=True))
    aligned = []
    for tensor, dim in zip(tensors, dims, strict=True):
        if dim is not None:
            tensor = tensor.movedim(dim, 0)
            tensor = tensor.reshape(tensor.shape[0], *(1,) * (rank + 1 - tensor.dim()), *tensor.shape[1:])
        aligned.append(tensor)
    return aligned


def instantiate(tangent: Tensor | None, primal: Tensor) -> Tensor:
    """Return a tangent or cotangent, a None made zeros of the primal's type."""
    return torch.zeros_like(primal) if tangent is None else tangent


def conjugate(tensor: Tensor) -> Tensor:
    """Return the complex conjugate; real tensors as they are. torch.conj_physical has no batching rule (2.13)."""
    if not tensor.is_complex():
        return tensor
    tensor = tensor.resolve_conj()  # of a batch that is conjugated lazily torch does not know that it is (2.13)
    return torch.complex(tensor.real, -tensor.imag)
