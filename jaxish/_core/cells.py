"""Cells: what mutable references (`refs.py`) hold their arrays in, across traces and functorch levels.

Arrays and graphs stay immutable. A cell belongs to the trace and the functorch level in which it was made; there,
reading and writing are Python. A trace that reads or writes a cell from outside has a stand-in for it, whose first value
is a further input of the graph; what the stand-in holds in the end is a further result, which the caller writes back
(`_transforms/program.py`). So a graph that uses references is a pure function, and every transformation applies to it.

A cell is not written with values that a level further in differentiates, whose derivatives would be lost, nor under a
vmap further in, where there is one cell for many values.

Where no caller can hand a value in and out, as for a backward rule that runs in a graph made later, a cell is reached by
its *handle*, an integer that is data, by the effects `ReadCell` and `WriteCell`.
"""

import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Self

import torch
from torch import Tensor
from torch.autograd import forward_ad

from . import axes, errors, functorch, graph, levels
from .array import Array, from_kind, tensor_of
from .graph import TensorType
from .levels import is_tracked
from .primitive import Dims, Undifferentiated, batch_front, differentiable
from .target import Target

NO_GRADIENT = "no_grad_no_remat"  # the purpose of cells that take values without their derivatives

# Tells whether a result has no derivative by those inputs of which the given function is true.
Unaffected = Callable[[Callable[[Tensor], bool]], bool]


class Cell:
    """A place that holds one array at a time."""

    __slots__ = (
        "__weakref__",
        "_array",
        "_freed",
        "_given",
        "_handle",
        "_home",
        "_lanes_of",
        "_level",
        "_purpose",
        "_remote",
        "_serial",
        "_written",
    )

    def __init__(self, array: Array, purpose: str | None = None, given: Tensor | None = None) -> None:
        self._array, self._purpose = array, purpose
        self._home, self._level = graph.current_trace(), axes.current_level()
        self._given = given  # the tensor that a function was given for it, by which a trace knows its arguments
        self._written = self._freed = self._remote = False
        self._handle: Tensor | None = None
        self._serial: int | None = None
        self._lanes_of: tuple[Cell, int] | None = None  # the cell of a whole batch, which this one is under vmap

    def _here(self) -> Self:
        """Return the cell that holds the value in the trace that is active: this one, or its stand-in."""
        trace = graph.current_trace()
        if trace is self._home:
            return self
        if trace is None or not (self._home is None or graph.is_active(self._home)):
            raise errors.tracer_error(errors.UnexpectedTracerError, self._array.shape)
        found = trace.stand_ins.get(self)
        if found is None:
            found = trace.stand_ins[self] = self._stand_in(trace)
        return found

    def _stand_in(self, trace: graph.Trace) -> Self:
        with graph.without_levels():
            if not trace.captures:  # no caller would give it a value
                return self._by_handle(graph.lift(self._outside()))
            value = trace.borrow(_blank(self._array._tensor), self, "value")
            return type(self)(from_kind(value, self._array.kind), self._purpose)

    def _outside(self) -> Tensor:
        if self._home is not None:
            raise errors.tracer_error(errors.UnexpectedTracerError, self._array.shape)
        return _registered(self)

    def _by_handle(self, handle: Tensor) -> Self:
        found = type(self)(self._array, self._purpose)
        found._handle, found._remote = handle, True
        return found

    # -- reading and writing -----------------------------------------------------------------------------------------

    def _alive(self, what: str) -> Self:
        if self._freed:
            raise ValueError(f"`{what}` must be called on `Ref` types: this reference was freed or frozen before.")
        return self

    def _read(self) -> Array:
        holder = self._here()._alive("get")
        if not holder._remote:
            return holder._array
        (tensor,) = ReadCell(TensorType.of(self._array._tensor))(_late(holder._handle))
        return from_kind(tensor, self._array.kind)

    def _write(self, value: Array) -> None:
        holder = self._here()._alive("swap")
        tensor = holder._own(tensor_of(value))
        if self._purpose == NO_GRADIENT and differentiable(tensor.dtype):
            tensor = tensor.detach()
        if holder._remote:
            WriteCell()(_late(holder._handle), tensor)
            return
        unchanged = value._tensor is tensor and value.kind == self._array.kind
        new = value if unchanged else from_kind(tensor, self._array.kind)
        placed = getattr(holder._array, "_sharding", None)
        if placed is not None and getattr(new, "_sharding", None) is None:
            new._sharding = placed
        holder._array, holder._written = new, True

    def _take_back(self, tensor: Tensor, unaffected: Unaffected) -> None:
        """Hold what a stand-in held when its graph ended."""
        self._write(from_kind(self._here()._own(tensor, unaffected), self._array.kind))

    def _own(self, tensor: Tensor, unaffected: Unaffected = lambda _: False) -> Tensor:
        """Return `tensor` without the levels further in than the cell. Raises `ValueError` where they change it.

        Under a vmap further in nothing is written: it would be written once for each of the batch.
        """
        for level in functorch.get_interpreter_stack() or ():
            if level.key() == functorch.TransformType.Vmap and level.level() > self._level:
                raise ValueError(_REFUSED.format("vmapped", "an unbatched", self._text(), "to", "vmapped"))
        while functorch.is_functorch_wrapped_tensor(tensor):
            level = functorch.maybe_get_level(tensor)
            if level <= self._level:
                break
            differs = self._purpose != NO_GRADIENT and has_derivative(tensor, level)
            if differs and not unaffected(lambda t, at=level: has_derivative(t, at)):
                given = ("a differentiated", "a non-differentiated", self._text(), "of", "differentiated")
                raise ValueError(_REFUSED.format(*given))
            tensor = functorch.get_unwrapped(tensor)
        return tensor

    def _text(self) -> str:
        raise NotImplementedError

    # -- its handle --------------------------------------------------------------------------------------------------

    def handle(self) -> Tensor:
        """Return the integer by which graphs reach this cell, as the active trace and level see it."""
        holder = self._here()
        if holder._home is None and holder._lanes_of is None:
            return _registered(holder)
        if holder._handle is None and holder._lanes_of is not None:
            holder._handle = holder._handle_of_lanes(*holder._lanes_of)
            holder._use_by_handle()
        if holder._handle is None:
            holder._handle = holder._own_handle(self)
        if holder._home is not None and not holder._remote:
            holder._home.by_handle[id(levels.base_of(holder._handle))] = holder
        return holder._handle

    def _own_handle(self, borrower: "Cell") -> Tensor:
        assert self._home is not None
        if borrower is not self or self._home.position_of(self._given) is not None:
            return self._home.borrow(_number(0, self._array._tensor.device), borrower, "handle")
        with _at_level(self._level):
            return NewCell(self._array.kind, type(self))(tensor_of(self._array))[0]

    def _handle_of_lanes(self, whole: "Cell", size: int) -> Tensor:
        with _at_level(self._level - 1):
            handles = whole.given_away().expand(size)
        return functorch.add_batch_dim(handles, 0, self._level)

    def given_away(self) -> Tensor:
        """Return the handle for a graph that uses the cell itself: from here on the active trace does so too."""
        holder, handle = self._here(), self.handle()
        if holder._home is not None and not holder._remote:
            holder._use_by_handle()
        return handle

    def _use_by_handle(self) -> None:
        if self._written:
            assert self._handle is not None
            with _at_level(self._level):
                WriteCell()(self._handle, tensor_of(self._array))
        self._remote, self._written = True, False


_REFUSED = (
    "performing a set/swap operation with {} value on {} array reference of type {}. Move the array reference to be an "
    "argument {} the {} function?"
)


@contextmanager
def _at_level(level: int) -> Iterator[None]:
    """Within this context manager the functorch levels further in than `level` are put aside."""
    with ExitStack() as stack:
        while axes.current_level() > level:
            stack.enter_context(functorch.current_interpreter().lower())
        yield


def unaffected(reached: Callable[[set[int]], set[int] | None], output: int, inputs: Sequence[Tensor]) -> Unaffected:
    """Return what tells whether one result of a primitive has no derivative by some inputs, by its `reached`."""

    def test(changes: Callable[[Tensor], bool]) -> bool:
        found = reached({i for i, tensor in enumerate(inputs) if changes(tensor)})
        return found is not None and output not in found

    return test


def _blank(tensor: Tensor) -> Tensor:
    """Return a tensor of the type of `tensor` that takes no memory."""
    with graph.outside_traces():
        return torch.zeros((), dtype=tensor.dtype, device=tensor.device).expand(tensor.shape)


def has_derivative(tensor: Tensor, level: int) -> bool:
    """Tell whether a level that differentiates, in either mode, follows `tensor`."""
    if is_tracked(tensor, level):
        return True
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.maybe_get_level(tensor) == level:
            return forward_ad.unpack_dual(tensor, level=0).tangent is not None
        tensor = functorch.get_unwrapped(tensor)
    return False


# -------------------------------------------------------------------------------------------------- cells by handle

_numbers = itertools.count()
_cells: "weakref.WeakValueDictionary[int, Cell]" = weakref.WeakValueDictionary()


def _number(number: int, device: torch.device) -> Tensor:
    with graph.outside_traces():
        return torch.full((), number, dtype=torch.int64, device=device)


def _registered(cell: Cell) -> Tensor:
    """Return a handle of a cell outside of traces, which keeps the cell alive: a backward rule may be all that uses it."""
    if cell._serial is None:
        cell._serial = next(_numbers)
        _cells[cell._serial] = cell
    handle: Any = _number(cell._serial, cell._array._tensor.device)
    handle.cell = cell
    return handle


def handle_type(cell: Cell) -> TensorType:
    """Return the type of the handle of a cell."""
    return TensorType((), torch.int64, cell._array._tensor.device)


def by_handle(handle: Tensor, kind: Any, type: TensorType) -> Any:
    """Return the reference of this kind that a handle stands for."""
    base, trace, level = levels.base_of(handle), graph.current_trace(), _batch_level(handle)
    if not level:
        known = trace.by_handle.get(id(base)) if trace is not None else None
        if known is not None or not levels.is_fake(base):
            return _cell(base) if known is None else known
    with graph.outside_traces():
        blank = torch.zeros((), dtype=type.dtype, device=type.device).expand(type.shape)
    with graph.without_levels():
        found = kind.wrap(blank)._by_handle(handle if level else base)
    found._level = level
    return found


def _batch_level(tensor: Tensor) -> int:
    """Return the innermost vmap's level among the wrappers of `tensor`, 0 where there is none."""
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.is_batchedtensor(tensor):
            return functorch.maybe_get_level(tensor)
        tensor = functorch.get_unwrapped(tensor)
    return 0


def _cell(handle: Tensor) -> Cell:
    found = _cells.get(int(handle))
    if found is None:
        raise NotImplementedError(
            "A backward rule uses a mutable array reference that is gone. Make the reference outside of the function that "
            "is differentiated, and give it to the function."
        )
    return found


class _After(threading.local):
    tensors: Sequence[Tensor] = ()


_after = _After()


@contextmanager
def after(tensors: Sequence[Tensor]) -> Iterator[None]:
    """Within this context manager cells are reached by handle when these tensors are known, and not before."""
    before, _after.tensors = _after.tensors, tensors
    try:
        yield
    finally:
        _after.tensors = before


def _late(handle: Tensor | None) -> Tensor:
    assert handle is not None
    return After()(handle, *_after.tensors)[0] if _after.tensors else handle


class After(Undifferentiated):
    """The first input, once the others are known: what splits a graph looks at what depends on what."""

    __name__ = "after"

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(inputs[0])]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return [inputs[0]]

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        return self(*inputs), [dims[0]]


class _OfCell(Undifferentiated):
    has_effect = True  # pyright: ignore[reportAssignmentType,reportIncompatibleVariableOverride]

    def lower(self, target: Target, *inputs: Tensor) -> list[Tensor]:
        if not target.calls_host:
            raise NotImplementedError(
                f"A backward rule uses a mutable array reference, which a graph for {target.name!r} cannot do."
            )
        trace = graph.current_trace()
        assert trace is not None
        return trace.emit(self, inputs, self.out_types(*inputs))


class NewCell(_OfCell):
    """A cell for each call, which lives as long as its handle: one that was made within a trace."""

    __name__ = "new_ref"

    def __init__(self, kind: Any, cell_type: type[Cell]) -> None:
        self.kind, self.cell_type = kind, cell_type

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType((), torch.int64, inputs[0].device)]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        with graph.suspended():
            cell = self.cell_type(from_kind(inputs[0].detach(), self.kind))
            return [_registered(cell)]

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        assert dims[0] is not None
        (handle,) = self(inputs[0].movedim(dims[0], 0))
        return [handle.expand(size)], [0]


class ReadCell(_OfCell):
    """What the cell of a handle holds when the graph runs. A batch of handles is that of one cell, for a whole batch."""

    __name__ = "get"

    def __init__(self, type: TensorType) -> None:
        self.type = type

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [self.type]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        with graph.suspended():
            return [tensor_of(_cell(inputs[0])._read())]

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        assert dims[0] is not None
        whole = TensorType((size, *self.type.shape), self.type.dtype, self.type.device)
        return ReadCell(whole)(inputs[0].select(dims[0], 0)), [0]


class WriteCell(_OfCell):
    """Puts the second input into the cell of a handle when the graph runs. Its result is the handle."""

    __name__ = "swap"

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(inputs[0])]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        with graph.suspended():
            cell = _cell(inputs[0])
            cell._write(from_kind(inputs[1].detach(), cell._array.kind))
        return [inputs[0]]

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        handle, value = inputs
        if dims[0] is None:
            raise ValueError(_REFUSED.format("vmapped", "an unbatched", "Ref", "to", "vmapped"))
        self(handle.select(dims[0], 0), batch_front(value, dims[1], size))
        return [handle], [dims[0]]
