"""Tracing: what a Python function does to tensors, as a graph with no free variables.

`trace(f, inputs)` runs `f` once on fake tensors (shape, dtype and device, no data) and records each torch operator
that it calls. The result is a `ClosedGraph`: an FX graph of aten operators and structured primitives (primitive.py),
whose leading inputs are the tensors that `f` captured from outside. Such a graph is a pure function of plain tensors,
so it can be replayed under any stack of transformations, compiled, split, printed or exported.

How a captured tensor is found: every Array hands its tensor out through `lift` while a trace is active. A tensor
that is no fake of this trace comes from outside; `lift` makes it a further input and gives a fake in its place.
Before tracing starts, all functorch levels and dispatch modes around it are put aside, so that the graph knows
nothing of the transformations that it is traced under, and traces nest.

A dispatch mode of our own records, in place of torch's make_fx: make_fx imports Dynamo, Inductor and sympy (1 s)
and spends its time on symbolic shapes, which this library does not have.

Private torch API used here (tried on 2.13): FakeTensorMode, `_disable_current_modes`,
`_register_custom_builtin`, `temporarily_clear_interpreter_stack`.
"""

import cmath
import operator
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.fx.graph import _register_custom_builtin
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

from . import (
    config,
    dtypes,
    duals,
    dynamo,
    errors,
    fake_results,
    fakes,
    functorch,
    garbage,
    in_place,
    levels,
    nodes,
    recorded,
    symbolic_shapes,
    symbolic_sizes,
)
from .graph_module import GraphModule
from .target import Target
from .torch_modes import backward_in_this_thread, no_anomaly, no_autocast, no_saving_hooks
from .user_frames import users_line

# The code of a graph writes complex numbers as Python does: (nan+nanj).
for _name in ("nanj", "infj"):
    _register_custom_builtin(_name, f"from cmath import {_name}", getattr(cmath, _name))

# How many traces are active in all threads together. Hot paths read it before anything slower.
tracing = 0
_count_lock = threading.Lock()


def _after_fork() -> None:
    global tracing, _count_lock
    tracing, _count_lock = len(_traces.stack), threading.Lock()  # other threads and their traces are not inherited
    if not tracing:
        garbage.as_before()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)


class _Traces(threading.local):
    def __init__(self) -> None:
        self.stack: list[Trace] = []
        self.folds = False  # whether what has concrete operands only is computed


_traces = _Traces()


# Within this context manager, no functorch level is active.
without_levels = temporarily_clear_interpreter_stack


@contextmanager
def outside_traces() -> Iterator[None]:
    """Within this context manager, torch calls compute on real tensors although a trace is active.

    A level within the trace would wrap what they make, so that a constant would look like a tracer.
    """
    with _disable_current_modes(), temporarily_clear_interpreter_stack():
        yield


def current_trace() -> "Trace | None":
    """Return the innermost trace of this thread."""
    stack = _traces.stack
    return stack[-1] if stack else None


def may_capture(outer: "Trace | None") -> bool:
    """Tell whether the traces of this thread within `outer` may capture what belongs to that one."""
    stack = _traces.stack
    return all(trace.captures for trace in stack[stack.index(outer) + 1 if outer in stack else 0 :])


def is_tracing() -> bool:
    """Tell whether a trace is active in this thread."""
    return bool(tracing) and bool(_traces.stack)


def active_traces() -> "list[Trace]":
    """Return the traces that are going on in this thread, the innermost first."""
    return _traces.stack[::-1]


def is_active(trace: "Trace") -> bool:
    """Tell whether `trace` is going on in this thread."""
    return trace in _traces.stack


def is_plain_evaluation() -> bool:
    """Tell whether operators run now and nobody will differentiate or batch them."""
    return not tracing and functorch.peek_interpreter_stack() is None


def lift(tensor: Tensor) -> Tensor:
    """Return `tensor` as the current trace of this thread sees it: itself, or a fake for a captured one.

    Raises `UnexpectedTracerError` for a tensor of a trace that has ended.
    """
    trace = current_trace()
    if trace is None:
        check_alive(tensor)
        return tensor
    return tensor if _traces.folds and not levels.is_fake(tensor) else trace.lift(tensor)


def in_memory(tensor: Tensor) -> Tensor:
    """Return a tensor that torch conjugates or negates only when it is read with that done: compiled code reads its memory."""
    return tensor.resolve_conj().resolve_neg() if tensor.is_conj() or tensor.is_neg() else tensor


# How operators on narrow dtypes are computed: narrow.py sets it.
narrow_rules: Any = None

# Told of each operator that is recorded, once arrays lie over devices: `_devices/laid.py` sets it.
on_record: Callable[[Any, Sequence[Any], dict[str, Any], Any], None] | None = None

# Makes the primitive that a constant of a graph is: `_compile/structured.py` sets it.
constant: Callable[[Tensor], Callable[..., Any]] | None = None


def check_alive(tensor: Tensor) -> None:
    """Raise `UnexpectedTracerError` for a tensor of a trace or of a vmap that has ended."""
    base = levels.base_of(tensor)
    if isinstance(base, FakeTensor):
        ended = all(base.fake_mode is not t.fake_mode for t in _traces.stack)
    else:
        level = functorch.maybe_get_level(tensor) if functorch.is_functorch_wrapped_tensor(tensor) else -1
        interpreter = functorch.peek_interpreter_stack()
        ended = levels.is_batched(tensor) and level > (0 if interpreter is None else interpreter.level())
    if ended:
        raise fakes.escaped(tensor)


@dataclass(frozen=True)
class TensorType:
    """What a graph knows of a tensor: shape, torch dtype and device."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @staticmethod
    def of(tensor: Tensor) -> "TensorType":
        """Return the type of `tensor`, its batched dimensions under vmap not counted."""
        return TensorType(tuple(tensor.shape), tensor.dtype, tensor.device)


def type_of(node: Any) -> TensorType | None:
    """Return the type of what a node makes: None where that is no tensor."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return TensorType.of(value) if isinstance(value, Tensor) else value if isinstance(value, TensorType) else None


class Trace(TorchDispatchMode):
    """An active trace: the graph so far, and which node made which fake tensor.

    `lowering` says for whom: None while the user's function is traced (structured primitives become one node each), a
    target while a finished graph is rewritten for it (primitives spell themselves out).
    """

    def __init__(self, lowering: Target | None, purpose: str, names: Sequence[str], captures: bool) -> None:
        super().__init__()
        self.lowering, self.purpose, self.names, self.captures = lowering, purpose, names, captures
        self.inputs: list[fx.Node] = []
        self.has_narrow = False  # whether there are tensors of dtypes that torch does not compute with
        self.root = torch.nn.Module()
        self.graph = fx.Graph(owning_module=None)
        self.fake_mode = fakes.TraceMode.new()
        self.captured: list[Tensor] = []
        self._lifted: dict[int, Tensor] = {}
        # The fakes are kept alive with their nodes, so that no id is used twice.
        self._nodes: dict[int, tuple[Tensor, fx.Node]] = {}
        self._last_captured: fx.Node | None = None
        # Cells (cells.py): those from outside with what stands for them here, where among the captured tensors they are
        # ("value" or "handle"), and those of known handles.
        self.stand_ins: dict[Any, Any] = {}
        self.borrowed: dict[int, tuple[Any, str]] = {}
        self.by_handle: dict[int, Any] = {}

    @property
    def main(self) -> "Trace":
        """The trace itself, as users' code asks for it."""
        return self

    def made(self, tensor: Tensor) -> bool:
        """Tell whether `tensor` is a fake of this trace."""
        return isinstance(tensor, FakeTensor) and tensor.fake_mode is self.fake_mode

    # -- inputs ------------------------------------------------------------------------------------------------

    def fake(self, type: TensorType) -> Tensor:
        """Return a new contiguous fake tensor of this type, known to no node yet."""
        self.has_narrow = self.has_narrow or type.dtype in dtypes.NARROW
        if self.fake_mode.shape_env is None:
            return fakes.fake(self.fake_mode, type.shape, type.dtype, type.device)
        with _disable_current_modes(), torch._C.DisableTorchFunction(), self.fake_mode:
            return torch.empty(type.shape, dtype=type.dtype, device=type.device)

    def add_input(self, type: TensorType) -> Tensor:
        """Append an input of this type to the graph."""
        tensor = self.fake(type)
        self.inputs.append(self.graph.placeholder(f"arg{len(self._nodes)}"))
        self.bind(tensor, self.inputs[-1])
        return tensor

    def lift(self, tensor: Tensor) -> Tensor:
        """Return `tensor` if this trace made it; else the fake of an input that stands for it."""
        base = levels.base_of(tensor)
        if isinstance(base, FakeTensor):
            if base.fake_mode is self.fake_mode:
                return tensor
            check_alive(tensor)
        known = self._lifted.get(id(tensor))
        if known is not None:
            return known
        with temporarily_clear_interpreter_stack():
            fake = self._captured(tensor) if self.captures else self._embedded(tensor)
        self._lifted[id(tensor)] = fake
        return fake

    def _captured(self, tensor: Tensor) -> Tensor:
        fake = self.fake(TensorType.of(tensor))
        if on_record is not None and (laid := getattr(levels.base_of(tensor), "laid", None)) is not None:
            fake.laid = laid  # pyright: ignore[reportAttributeAccessIssue]
        self.bind(fake, self._captured_node())
        self.captured.append(tensor)
        return fake

    def borrow(self, blank: Tensor, cell: Any, what: str) -> Tensor:
        """Append a captured input for something of a cell, for which callers give what it is then in place of `blank`."""
        self.borrowed[len(self.captured)] = cell, what
        with temporarily_clear_interpreter_stack():
            return self._captured(blank)

    def position_of(self, tensor: Tensor | None) -> int | None:
        """Return which input of the function `tensor` stands for, None where it is none."""
        return next((i for i, node in enumerate(self.inputs) if node.meta["val"] is tensor), None)

    def _embedded(self, tensor: Tensor) -> Tensor:
        if levels.is_tracer(tensor):
            raise errors.UnexpectedTracerError(
                "A custom rule closes over a value that a transformation around it traces. Make that value an argument "
                "of the function, or one of the residuals (jax.closure_convert does so)."
            )
        assert constant is not None
        with folding(False):  # it has no operands, and is no operation that could be computed now
            (fake,) = constant(tensor)()
        return fake

    def _captured_node(self) -> fx.Node:
        # Behind the other captured inputs, before all else. A graph's root stands before its first node.
        with self.graph.inserting_after(self._last_captured or self.graph._root):
            self._last_captured = self.graph.placeholder(f"captured{len(self.captured)}")
        return self._last_captured

    def origin(self, tensor: Tensor) -> str:
        """Say what is being traced and which named inputs `tensor` depends on, for error messages."""
        entry = self._nodes.get(id(levels.base_of(tensor)))
        if entry is None or not self.purpose:
            return ""
        found, pending = set(), [entry[1]]
        while pending:
            node = pending.pop()
            if node not in found:
                found.add(node)
                pending.extend(node.all_input_nodes)
        names = [name for name, node in zip(self.names, self.inputs, strict=False) if node in found]
        reason = f" because it depends on the value of {_listed(names)}" if names else ""
        return f"The error occurred while tracing {self.purpose}. This value was not available in Python{reason}."

    # -- operators ---------------------------------------------------------------------------------------------

    def bind(self, tensor: Tensor, node: fx.Node) -> None:
        """Note that `node` made `tensor`."""
        node.meta["val"] = tensor
        self._nodes[id(tensor)] = (tensor, node)

    def made_by(self, tensor: Tensor) -> fx.Node | None:
        """Return the node that made `tensor`, None where that is none of this trace."""
        entry = self._nodes.get(id(tensor))
        return None if entry is None else entry[1]

    def node_of(self, tensor: Tensor) -> fx.Node:
        """Return the node that made `tensor`; a real tensor that torch itself made becomes an input."""
        return self.made_by(tensor) or self._nodes[id(self.lift(tensor))][1]

    def _argument(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self.node_of(value)
        if isinstance(value, list | tuple):
            return type(value)(self._argument(v) for v in value)
        return value

    def tell(self, target: Any, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> None:
        """Tell who watches what is recorded that a call is."""
        if on_record is not None and self.captures:  # not a graph that is traced from another
            on_record(target, args, kwargs, out)

    def record(self, target: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> None:
        """Append a call of `target` whose results are the fakes in `out` (a tensor, or a flat sequence of them)."""
        given = tuple(self._argument(a) for a in args)  # which may record constants, before the node
        named = {k: self._argument(v) for k, v in kwargs.items()}
        node = self._call(target)
        _set_args(node, given)
        if named:
            node.kwargs = named
        self.tell(target, args, kwargs, out)
        written = nodes.tensors_written(target, args, kwargs)
        if written:
            node.meta["writes"] = {nodes.storage_of(t) for t in written}
        if isinstance(out, Tensor):
            self.bind(out, node)
            out.created = users_line()  # pyright: ignore
            return
        if not isinstance(out, list | tuple):
            return
        node.meta["val"], node.meta["created"] = out, users_line()
        for index, part in enumerate(out):
            if isinstance(part, Tensor) and id(part) not in self._nodes:
                self.bind(part, self.graph.call_function(operator.getitem, (node, index)))

    def _call(self, target: Callable[..., Any]) -> fx.Node:
        """Append a node that calls `target`, without arguments yet: through them fx walks to find symbols (2.13)."""
        called = target.__name__
        name = _names.get(called)
        if name is None:
            name = _names[called] = self.graph._target_to_str(target)
        return self.graph.create_node("call_function", target, name=name)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # as above

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in fake_results.ANSWERS:
            fake = args[0]
            if type(fake) is FakeTensor and not (fake.fake_mode.in_kernel_invocation or fake.fake_mode.shape_env):
                return fake_results.ANSWERS[func](*args)
            return func(*args, **(kwargs or {}))
        if func is _SIZE:
            return func(*args, **(kwargs or {}))
        if func is _TO and kwargs == _TO_META and type(args[0]) is FakeTensor:
            moved = fakes.on_meta(args[0])
            self._nodes[id(moved)] = (moved, self.node_of(args[0]))  # of which its value stays the type
            return moved
        if torch.Tag.inplace_view in func.tags:
            return in_place.reshaped(self, func, args, kwargs or {})
        if func in in_place.PURE and in_place.as_new_value(self, func, args, kwargs or {}):
            return args[0]
        if func is _COPY_IN_PLACE and in_place.copied_into_zeros(self, *args[:2]):
            return args[0]
        # torch's fakes remember results by shapes and strides, which do not tell what shares memory (2.13): forward mode,
        # which asks for that, then took tangents for laid out as they were not. What fake_results remembers shares as it should.
        self.fake_mode.cache_enabled = not duals.is_active()
        kwargs = kwargs or {}
        if self.has_narrow and narrow_rules is not None and narrow_rules.is_about(func, args, kwargs):
            with self:
                return narrow_rules.on_wide(func, args, kwargs)
        if func in _OF_NUMBERS and not isinstance(args[0], Tensor):
            args = (self._number(args[0]), *args[1:])
        if _traces.folds and not any(isinstance(t, FakeTensor) for t in tree_leaves((args, kwargs))):
            with _disable_current_modes():  # within a level that is all about concrete tensors
                return func(*args, **kwargs)
        func, args, kwargs = recorded.with_symbolic_zeros(func, args, kwargs)
        remembers = self.fake_mode.shape_env is None
        if func is torch.ops.aten.bmm.default and remembers:
            with self:
                if (product := recorded.product_with_one_matrix(*args)) is not None:
                    return product
        out = fake_results.result(self.fake_mode, func, args, kwargs) if remembers else func(*args, **kwargs)
        if func is torch.ops.aten._new_zeros_with_same_feature_meta.default:
            in_place.zeros_for_writing(self, out)
            return out
        if func is torch.ops.aten.detach.default and not (out.dtype.is_floating_point or out.dtype.is_complex):
            self.bind(out, self.node_of(args[0]))  # without a derivative there is nothing to detach from
            self.tell(func, args, kwargs, out)
            return out
        func, args, kwargs = recorded.of_values(func, args, kwargs, out)
        self.record(func, args, kwargs, out)
        return out

    def _number(self, value: Any) -> Tensor:
        """Record a Python number, to which dispatch has turned the 0-d tensor that torch wrapped it in, as a tensor again."""
        # As torch wrapped it: of this dtype, and on the CPU, from where it only goes into operators with an array.
        tensor = torch.scalar_tensor(value, dtype=_OF_NUMBER[type(value)], device="cpu")
        self.record(torch.ops.aten.scalar_tensor.default, (value,), {"dtype": tensor.dtype}, tensor)
        return tensor

    def emit(self, target: Callable[..., Any], args: Sequence[Any], out_types: Sequence[TensorType]) -> list[Tensor]:
        """Append a call of `target` that returns a tuple of tensors of these types, and return their fakes."""
        out = [self.fake(type) for type in out_types]
        self.record(target, args, {}, out)
        return out

    def attribute(self, tensor: Tensor) -> Tensor:
        """Attach a tensor to this graph and return the fake of the node that names it."""
        name = f"constant{sum(1 for _ in self.root.buffers())}"
        self.root.register_buffer(name, tensor)
        fake = self.fake(TensorType.of(tensor))
        self.bind(fake, self.graph.get_attr(name))
        return fake

    def submodule(self, module: fx.GraphModule) -> fx.Node:
        """Attach a graph to this one and return the node that names it, for operators that take graphs."""
        name = f"body{sum(1 for _ in self.root.children())}"
        self.root.add_module(name, module)
        return self.graph.get_attr(name)


# What functorch does to a number that torch wrapped as a tensor; a replay takes numbers for tensors in arithmetic only.
_OF_NUMBERS = {
    torch.ops.aten._to_copy.default, torch.ops.aten.to.dtype_layout, torch.ops.aten.alias.default,
    torch.ops.aten.detach.default,
}  # fmt: skip

_OF_NUMBER = {float: torch.float64, complex: torch.complex128, int: torch.int64, bool: torch.bool}


def _listed(names: Sequence[str]) -> str:
    return f"the argument{'s' if len(names) > 1 else ''} {', '.join(names)}"


def origin(tensor: Tensor) -> str:
    """Say which arguments of the function being traced `tensor` depends on; empty where nothing is known."""
    base = levels.base_of(tensor)
    for trace in reversed(_traces.stack):
        if isinstance(base, FakeTensor) and base.fake_mode is trace.fake_mode:
            return trace.origin(base)
    return "It stands for a batch of values under vmap." if levels.is_batched(tensor) else ""


_names: dict[str, str] = {}  # what fx makes of the names of what nodes call
_set_args: Any = fx.Node.args.fset  # past `Node.__setattr__`, which looks the node up in its graph (2.13)
_SIZE = torch.ops.aten.sym_size.int
_COPY_IN_PLACE = torch.ops.aten.copy_.default
_TO, _TO_META = torch.ops.aten.to.dtype_layout, {"device": torch.device("meta")}


@dataclass(eq=False)
class Graph:
    """A pure function of tensors: `graph(*inputs)` returns a list of tensors.

    `cache` is for what others derive from this graph (compiled code, its vjp): it lives and dies with the graph.
    """

    module: fx.GraphModule
    in_types: tuple[TensorType, ...]
    out_types: tuple[TensorType, ...]
    cache: dict[Any, Any] = field(default_factory=dict)

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        """Run the operators one by one."""
        if symbolic_sizes.environment() is not None:  # the code of a graph has no names for symbols
            return fx.Interpreter(self.module).run(*inputs)
        return self.module.forward(*inputs)


@dataclass(frozen=True)
class ClosedGraph:
    """A graph and the tensors that it captured from outside, which are its leading inputs."""

    graph: Graph
    captured: tuple[Tensor, ...]

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        """Run the operators one by one on the captured tensors and `inputs`."""
        return self.graph(*self.closure(), *inputs)

    def closure(self) -> tuple[Tensor, ...]:
        """Return the captured tensors as the current trace sees them."""
        return tuple(map(lift, self.captured)) if tracing else self.captured

    @property
    def captures_tracers(self) -> bool:
        """Whether a captured tensor belongs to a transformation that is still going on."""
        return any(map(levels.is_tracer, self.captured))


@contextmanager
def suspended() -> Iterator[None]:
    """Within this context manager no trace of this thread is active: operations on real tensors compute."""
    stack, _traces.stack = _traces.stack, []
    folds, _traces.folds = _traces.folds, False
    try:
        with _disable_current_modes(), temporarily_clear_interpreter_stack():
            yield
    finally:
        _traces.stack, _traces.folds = stack, folds


class _Folding(TorchFunctionMode):
    """Computes what has concrete operands only, although transformations are going on."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not _traces.folds:
            return func(*args, **kwargs)
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        if folds(tensors):
            with suspended():
                return func(*args, **kwargs)
        trace = current_trace()
        if trace is not None and any(map(levels.is_fake, tensors)):
            args, kwargs = tree_map_only(Tensor, lambda t: t if levels.is_tracer(t) else trace.lift(t), (args, kwargs))
        return func(*args, **kwargs)


@contextmanager
def folding(wanted: bool = True) -> Iterator[None]:
    """Within this context manager, operations on concrete tensors compute; those on tracers are traced, as before.

    Traces that begin within it do not fold: what is traced there is wanted whole.
    """
    before, _traces.folds = _traces.folds, wanted
    try:
        with _Folding() if wanted else nullcontext():
            yield
    finally:
        _traces.folds = before


def folds(tensors: Iterable[Tensor]) -> bool:
    """Tell whether an operation on these operands is to be computed although transformations are going on."""
    return _traces.folds and not any(map(levels.is_tracer, tensors))


@contextmanager
def recording_in(trace: Trace | None) -> Iterator[None]:
    """Within this context manager, torch calls on plain tensors are recorded by `trace`, an active one; None: by none."""
    with _disable_current_modes(), temporarily_clear_interpreter_stack():
        if trace is None:
            yield
            return
        with trace.fake_mode, trace:
            yield


@contextmanager
def _active(trace: Trace) -> Iterator[None]:
    global tracing
    with _count_lock:
        tracing += 1
        if tracing == 1:
            garbage.seldom()
    _traces.stack.append(trace)
    try:
        yield
    finally:
        _traces.stack.pop()
        with _count_lock:
            tracing -= 1
            if not tracing:
                garbage.as_before()


def trace(
    function: Callable[..., Sequence[Tensor]],
    in_types: Sequence[TensorType],
    lowering: Target | None = None,
    purpose: str = "",
    names: Sequence[str] = (),
    captures: bool = False,
) -> ClosedGraph:
    """Trace `function`, which maps tensors to a flat sequence of tensors, on inputs of these types.

    A tensor from outside becomes a further input if `captures`, else a constant of the graph: one that is derived from
    another has the inputs of that. `purpose` ("f for jit") and the inputs' `names` go into error messages.
    """
    if len(FakeTensorMode.cache) > _FAKE_RESULTS:
        FakeTensorMode.cache_clear()
    with (
        dynamo.put_aside(), symbolic_shapes.put_aside(), _disable_current_modes(), temporarily_clear_interpreter_stack(),
        torch.inference_mode(False),  # there composite operators are recorded whole; it ends no_grad, too
        folding(False),
    ):  # fmt: skip
        recorder = Trace(lowering, purpose, names, captures)
        inputs = [recorder.add_input(type) for type in in_types]
        try:
            with (
                no_autocast(), no_anomaly(), no_saving_hooks(), backward_in_this_thread(), _active(recorder),
                recorder.fake_mode, recorder,
            ):  # fmt: skip
                outputs = [in_memory(recorder.lift(out)) for out in function(*inputs)]
        except DynamicOutputShapeException as error:
            raise dynamic_shape_error(error) from error
        except DataDependentOutputException as error:  # an operator of torch's own looks at values
            raise errors.tracer_error(
                errors.ConcretizationTypeError, "unknown", f"{error.func} needs values; compute this part outside jit."
            ) from error
        finally:
            recorder.fake_mode.ended = True
        recorder.graph.output([recorder.node_of(out) for out in outputs])
    recorder.graph.eliminate_dead_code(nodes.is_shown if config.keeps_calls.value else nodes.must_stay)
    module = GraphModule(recorder.root, recorder.graph, "jaxish_graph")
    graph = Graph(
        module,
        (*map(TensorType.of, recorder.captured), *in_types),
        tuple(map(TensorType.of, outputs)),
    )
    return ClosedGraph(graph, tuple(recorder.captured))


_FAKE_RESULTS = 20_000  # types of results that FakeTensorMode remembers, one for each operator and constant


def dynamic_shape_error(error: Exception) -> Exception:
    """Return JAX's error for an operator whose output shape depends on values."""
    return errors.tracer_error(
        errors.ConcretizationTypeError,
        "unknown",
        f"The shape of the result of {getattr(error, 'func', 'an operator')} depends on values. "
        "Give the function its size= argument where it has one.",
    )


def has_effects(graph: Graph) -> bool:
    """Tell whether running the graph does something besides computing its results (it prints, it calls the host)."""
    found = graph.cache.get("has effects")
    if found is None:
        found = graph.cache["has effects"] = any(map(nodes.calls_for_effect, graph.module.graph.nodes))
    return found
