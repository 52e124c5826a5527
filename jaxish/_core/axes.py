"""Named axes: which names `vmap`, `pmap` and `shard_map` have bound, how large they are, and at which functorch level.

A collective is a structured primitive that carries axis *names*. Its vmap rule is called with one functorch level
popped; `frame_at` tells which name, if any, that level was given. Frames are kept per trace, since a trace puts the
levels around it aside and counts its own from one again; sizes are visible from within it all the same.
"""

import functools
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from . import functorch, graph, levels


@dataclass(frozen=True)
class Frame:
    """A bound axis name: its size and the functorch level that maps it (None where no vmap does).

    `spmd` names the mesh axes over which sharding constraints lay the new dimension; with these, `name` may be None.
    `checked` says that along this axis what is the same for all devices and what varies are of different types
    (`shard_map(check_vma=True)`), which derivatives depend on: `varying.py`.
    """

    name: Hashable
    size: int
    level: int | None
    trace: "graph.Trace | None"
    spmd: tuple[Hashable, ...] = ()
    checked: bool = False


Axes = Sequence[tuple[Hashable, int]]


class _Frames(threading.local):
    def __init__(self) -> None:
        self.stack: list[Frame] = []
        self.of_devices: frozenset[Hashable] = frozenset()
        self.checked: frozenset[Hashable] = frozenset()
        self.text: Callable[[Any], str] | None = None


_frames = _Frames()


def current_level() -> int:
    """Return the number of functorch levels that are active in this thread."""
    interpreter = functorch.peek_interpreter_stack()
    return 0 if interpreter is None else interpreter.level()


def map_tensors(
    function: Callable[..., Sequence[Tensor]],
    tensors: Sequence[Tensor],
    dims: Sequence[int | None],
    size: int,
    name: Hashable | None = None,
    spmd: tuple[Hashable, ...] = (),
) -> list[tuple[Tensor, int | None]]:
    """Call `function` on all slices of `tensors` along `dims` at once: every batching in the library goes here.

    Returns each result with its batch dimension, None where it is the same for all slices. `name` is bound to the
    new functorch level. torch.func.vmap is this loop too, but says neither the level nor what was left unbatched.
    """
    _load_decompositions()
    try:
        return _mapped(function, tensors, dims, size, name, spmd)
    except IndexError:
        # torch's batching rules for two numbers look at the first of each (handleScalarTypePromotion, up to 2.13).
        if size:
            raise
        return _mapped_over_nothing(function, tensors, dims, name, spmd)


def _mapped(
    function: Callable[..., Sequence[Tensor]], tensors: Sequence[Tensor], dims: Sequence[int | None], size: int,
    name: Hashable | None, spmd: tuple[Hashable, ...],
) -> list[tuple[Tensor, int | None]]:  # fmt: skip
    level = functorch.vmap_increment_nesting(size, "different")
    try:
        slices = [t if d is None else functorch.add_batch_dim(t, d, level) for t, d in zip(tensors, dims, strict=True)]
        # Rules run with the levels above theirs put aside, and count their own from there on: that a level has no name
        # is said where others have, lest it has the name of one that is put aside.
        is_plain = name is None and not spmd and not _frames.stack
        with nullcontext() if is_plain else bound(name, size, level, spmd):
            return [functorch.unwrap_batched(out, level) for out in function(*slices)]
    finally:
        functorch.vmap_decrement_nesting()


def _mapped_over_nothing(
    function: Callable[..., Sequence[Tensor]], tensors: Sequence[Tensor], dims: Sequence[int | None],
    name: Hashable | None, spmd: tuple[Hashable, ...],
) -> list[tuple[Tensor, int | None]]:  # fmt: skip
    """Trace the function for one slice that is never there, and compute what is the same for all slices."""
    found: list[int | None] = []

    def of_one_slice(*inputs: Tensor) -> list[Tensor]:
        results = _mapped(function, inputs, dims, 1, name, spmd)
        trace = graph.current_trace()
        if trace is not None and trace.borrowed:
            raise NotImplementedError(
                "vmap over nothing of a function that uses a mutable array reference is not supported."
            )
        found.extend(dim for _, dim in results)
        return [tensor for tensor, _ in results]

    shapes = [[1 if i == d else n for i, n in enumerate(t.shape)] for t, d in zip(tensors, dims, strict=True)]
    types = [graph.TensorType(tuple(shape), t.dtype, t.device) for shape, t in zip(shapes, tensors, strict=True)]
    closed = graph.trace(of_one_slice, types, captures=True)
    body, (outputs,) = closed.graph.module.graph, closed.graph.module.graph.output_node().args
    body.output_node().args = ([node for node, d in zip(outputs, found, strict=True) if d is None],)  # pyright: ignore
    body.eliminate_dead_code()
    closed.graph.module.recompile()
    same = iter(closed.graph.module(*closed.closure(), *tensors) if None in found else ())
    results: list[tuple[Tensor, int | None]] = []
    for type, dim in zip(closed.graph.out_types, found, strict=True):
        sizes = [0 if i == dim else n for i, n in enumerate(type.shape)]
        results.append((next(same) if dim is None else torch.empty(sizes, dtype=type.dtype, device=type.device), dim))
    return results


@functools.cache
def _load_decompositions() -> None:
    # Forward-mode derivatives under vmap need decompositions that torch registers on the first torch.func.vmap.
    from torch._functorch.vmap import lazy_load_decompositions  # pyright: ignore[reportPrivateImportUsage]

    lazy_load_decompositions()


@contextmanager
def bound(name: Hashable, size: int, level: int | None = None, spmd: tuple[Hashable, ...] = ()) -> Iterator[None]:
    """Bind an axis name for a block; `level` is the functorch level that maps it."""
    _frames.stack.append(Frame(name, size, level, graph.current_trace(), spmd, name in _frames.checked))
    try:
        yield
    finally:
        _frames.stack.pop()


@contextmanager
def over_devices(
    names: Iterable[Hashable], checked: bool = False, text: Callable[[Any], str] | None = None
) -> Iterator[None]:
    """Say for a block that the lanes of these axes are devices, which each run the program on their own.

    `text` returns what an array prints there that has a value for each of them.
    """
    before = _frames.of_devices, _frames.checked, _frames.text
    names, _frames.text = frozenset(names), text
    _frames.of_devices |= names
    _frames.checked = _frames.checked | names if checked else _frames.checked - names
    try:
        yield
    finally:
        _frames.of_devices, _frames.checked, _frames.text = before


def text_per_device(array: Any) -> str | None:
    """Return what an array prints where every device runs the program on its own; None where none does, or its values are unknown."""
    if _frames.text is None or levels.is_fake(array._tensor) or levels.has_derivative(array._tensor):
        return None
    return _frames.text(array)


def lane_of(tensor: Tensor, place: dict[Hashable, int]) -> Tensor:
    """Return the plain tensor that a batched one stands for at a place along the bound axes."""
    found = []
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.is_batchedtensor(tensor):
            found.append((functorch.maybe_get_bdim(tensor), place[name_at(functorch.maybe_get_level(tensor))]))
        tensor = functorch.get_unwrapped(tensor)
    with graph.suspended():
        for dim, index in reversed(found):
            tensor = tensor.select(dim, index)
    return tensor


def are_devices(name: Hashable) -> bool:
    """Tell whether the lanes of this axis are devices."""
    return name in _frames.of_devices


def is_checked(name: Hashable) -> bool:
    """Tell whether values that vary along this axis are of another type than those that do not."""
    return any(f.checked and f.name == name for f in _frames.stack)


def checked_axes() -> Axes:
    """Return the names and sizes of the axes along which types tell what varies."""
    return [(f.name, f.size) for f in _frames.stack if f.checked]


def unchecked_devices() -> Axes:
    """Return the names and sizes of the axes of devices along which no type tells what varies."""
    return [(f.name, f.size) for f in _frames.stack if f.name in _frames.of_devices and not f.checked]


def varying(tensor: Tensor) -> frozenset[Hashable]:
    """Return the names of the axes along which the type of a tensor tells that it varies, as far as this trace maps them."""
    found: set[Hashable] = set()
    while _frames.checked and functorch.is_functorch_wrapped_tensor(tensor):
        frame = _frame_at(functorch.maybe_get_level(tensor)) if functorch.is_batchedtensor(tensor) else None
        if frame is not None and frame.checked:
            found.add(frame.name)
        tensor = functorch.get_unwrapped(tensor)
    return frozenset(found)


def axis_size(name: Hashable, function: str = "the function") -> int:
    """Return the size of a bound axis for a `function`. Raises `NameError` when the name is not bound."""
    return _frame(name, function).size


def lane_index(name: Hashable, device: torch.device) -> Tensor | None:
    """Return the index of each lane along an axis, an int32 scalar that differs between the lanes.

    It belongs to the level that maps the axis, so that a trace inside that level captures it. None where no level maps it,
    and in a trace that may not capture it.
    """
    frame = _bound(name)
    if frame is None or frame.level is None or not graph.may_capture(frame.trace):
        return None
    with graph.recording_in(frame.trace):
        indices = torch.arange(frame.size, dtype=torch.int32, device=device)
    return functorch.add_batch_dim(indices, 0, frame.level)


def _bound(name: Hashable) -> Frame | None:
    return next((f for f in reversed(_frames.stack) if f.name == name), None)


def _frame(name: Hashable, function: str = "the function") -> Frame:
    frame = _bound(name)
    if frame is not None:
        return frame
    known = ", ".join(repr(f.name) for f in _frames.stack if f.name is not None) or "none"
    raise NameError(
        f"Found an unbound axis name: {name}. To fix this, please call {function} under `jax.shard_map`, or under "
        f"`jax.vmap` with axis_name=. The names bound here are: {known}."
    )


def name_at(level: int) -> Hashable | None:
    """Return the axis name that the functorch level `level` of the current trace maps, or None."""
    frame = _frame_at(level)
    return None if frame is None else frame.name


def is_mapped_within(level: int) -> bool:
    """Tell whether a level within this one maps an axis that has a name."""
    return bool(_frames.stack) and any(name_at(inner) is not None for inner in range(level + 1, current_level() + 1))


def spmd_at(level: int) -> tuple[Hashable, ...]:
    """Return the mesh axes that the dimension of the functorch level `level` goes along in sharding constraints."""
    frame = _frame_at(level)
    return () if frame is None else frame.spmd


def _frame_at(level: int) -> Frame | None:
    trace = graph.current_trace()
    return next((f for f in reversed(_frames.stack) if f.level == level and f.trace is trace), None)


def remembered(for_graphs: bool = False) -> Callable[[], AbstractContextManager[None]]:
    """Return what binds the names that are bound now within a block that runs later, as far as no level maps them there.

    No level maps them then: what is traced there is mapped when it is there. Graphs that outlive the levels in which they are
    traced are made with `for_graphs`: there no level maps any name.
    """
    frames = [replace(frame, level=None, trace=None) for frame in _frames.stack if frame.name is not None]
    names = _frames.of_devices, _frames.checked

    @contextmanager
    def bound_again() -> Iterator[None]:
        before = _frames.stack, _frames.of_devices, _frames.checked
        stack = [
            replace(frame, level=None, trace=None) if for_graphs or _is_left(frame) else frame
            for frame in _frames.stack
        ]
        known = {frame.name for frame in stack}
        _frames.stack = [*(frame for frame in frames if frame.name not in known), *stack]
        _frames.of_devices, _frames.checked = _frames.of_devices | names[0], _frames.checked | names[1]
        try:
            yield
        finally:
            _frames.stack, _frames.of_devices, _frames.checked = before

    return bound_again if frames else nullcontext


def _is_left(frame: Frame) -> bool:
    """Tell whether a rule is being applied outside the level that maps this axis, although its vmap goes on."""
    return frame.level is not None and frame.trace is graph.current_trace() and frame.level > current_level()


def environment() -> tuple[tuple[Hashable, int, bool, bool], ...]:
    """Return the bound names, outermost first, with what a traced function depends on: sizes, `checked`, and whether they are devices."""
    named = (frame for frame in _frames.stack if frame.name is not None or frame.spmd)
    return tuple((frame.name, frame.size, frame.checked, frame.name in _frames.of_devices) for frame in named)
