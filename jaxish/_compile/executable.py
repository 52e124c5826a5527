"""How a graph runs: operator by operator at first, compiled once that pays.

Each graph has one `Executable`, kept in its cache. `run` is an attribute that is replaced as the graph moves up the
tiers, so that a call pays for no decision. The tiers (config `jaxish_jit_tier`):

  direct     the graph's operators, one by one, always
  compiled   it is compiled at the first call
  auto       the first call runs directly, so that it answers at once; from the second on it is compiled beside the calls
             (background.py), which switch over when that is done

Both compile to the same. A small graph that does not repeat itself is written out as one C++ function (native_graph.py), which
takes the compiler 0.1 s. Any other is cut into pieces (piecewise.py), and stays so where nearly all is in them. What is left is for the
backend, which takes seconds: on `auto` a worker process calls it, and the graph runs piece by piece until it is done.
On a machine without a compiler a graph stays direct, with one warning.
"""

import functools
import math
import operator
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx import GraphModule

from .._core import cache, config, debugging, dtypes, dynamo, graph, machine, monitoring, narrow, operators, unsigned
from .._core.graph import Graph, TensorType
from .._core.operators import Kind, aten
from .._core.rewriting import rewritten
from .._core.target import PIECES
from .._core.torch_modes import in_own_dtypes
from .._devices import processes, spmd
from . import (
    background,
    cuda_graphs,
    donation,
    loop_sources,
    lowering,
    native_graph,
    native_loop,
    onednn,
    pieces,
    piecewise,
    progress,
    registry,
    special_products,
    structured,
)
from .factored import rewriting
from .loop_values import Unsupported

# What is waited for at the second call where a graph has loops: a compiler that needs this many seconds, as most do, or as
# long as so many runs step by step would take. Longer it is at work beside the calls.
_PATIENCE, _RUNS_TO_WAIT_FOR = 1.0, 2

_NOTHING_WRITTEN = nullcontext()


class Executable:
    """One graph's way to run: call `run(*tensors)`.

    Inputs at the positions `donated` may be written into: once compiled code does that, they are `written`, where the call
    says so (`donation.writable`).
    """

    written: tuple[int, ...] = ()

    def __init__(self, body: Graph, name: str, donated: Sequence[int] = ()) -> None:
        self.body, self.name, self._donated = body, name, donated
        self._is_one_function = True  # where it is small, until its loops have taken long, or it has called Python
        self._meanwhile: Callable[..., Sequence[Tensor]] | None = None  # what runs until it is compiled, else `direct`
        self._seconds = math.inf  # that a run takes operator by operator
        self._is_compiled = self._is_cut = False
        self._threads = torch.get_num_threads()  # the program's: while a compiler is at work it may be one less
        self._request: Request | None = None  # its graph holds the primitives that the backend's code calls
        self.backend = registry.name_for((*body.in_types, *body.out_types))
        self._feels_autocast = _feels_autocast(body)
        types = [graph.type_of(node) for node in body.module.graph.nodes]
        self._narrow = any(type.dtype in dtypes.NARROW for type in body.out_types)
        # Compilers know nothing of what torch has no operator for.
        self._compilers_know = not any(type and type.dtype in dtypes.NARROW - dtypes.TORCH_FLOATS for type in types)
        direct = narrow.marks(self.direct) if self._narrow else self.direct
        self._run_directly = in_own_dtypes(direct) if self._feels_autocast else direct
        # A compiler drops calls whose results are not used; where they have effects, the graph runs as it is.
        direct = debugging.is_on() or graph.has_effects(body) or not self._compilers_know
        later = self._run_first if registry.keeps_code(self.backend) else self._compile_and_run
        tiers = {"direct": self.direct, "compiled": self._compile_and_run, "auto": later}
        self._use(tiers["direct" if direct else config.jit_tier.value])

    def _use(self, run: Callable[..., Sequence[Tensor]]) -> None:
        """Run by `run` from here on."""
        several = processes.are_several()
        self._is_waiting = run in (self._run_first, self._run_again) and not several
        run = narrow.marks(run) if self._narrow else run
        self._run_alone = run = in_own_dtypes(run) if self._feels_autocast else run
        self.run: Callable[..., Sequence[Tensor]] = self._run_among_processes if several else run

    def writing(self, first: int, tensors: Sequence[Tensor]) -> AbstractContextManager[None]:
        """Return the context of a run that may write into `tensors`, inputs from `first` on, if nothing else holds them.

        That is but the list, and one tuple or `Array`.
        """
        if not self.written:
            return _NOTHING_WRITTEN
        return donation.writable(donation.places_held_once(tensors, [i - first for i in self.written]))

    def run_for_now(self, *tensors: Tensor) -> Sequence[Tensor]:
        """Run as `run` does, without that being a reason to compile."""
        if not self._is_waiting:
            return self.run(*tensors)
        with background.room_beside():
            return self._run_directly(*tensors)

    @functools.cached_property
    def direct(self) -> Callable[..., Sequence[Tensor]]:
        """Run the graph's operators, one by one."""
        return onednn.with_products_of_bytes(special_products.respelled(self.body).module).forward

    def compile(self) -> None:
        """Compile now, whatever the tier, and run compiled from here on."""
        impossible = registry.keeps_code(self.backend) and not can_compile()
        if impossible or graph.has_effects(self.body) or not self._compilers_know:
            self._use(self.direct)
            return
        registry.forks_wait()
        with registry.one_at_a_time, graph.folding(False):
            if self._is_compiled:  # another thread was here
                return
            try:
                whole = self._whole()
                if whole is not None or not self.compile_pieces(is_for_now=False):
                    self._use(whole or self._from_backend())
            except cache.Unusable as error:
                cache.warn(str(error))
                self._use(self.direct)
            else:
                self._is_compiled, self._meanwhile = True, None

    def _from_backend(self) -> Callable[..., Sequence[Tensor]]:
        self._request = request = self.request()
        if not request.is_worthwhile():
            return self._recorded(_unfused(self.body.module), self._use)
        with progress.told(self.name), monitoring.timed(monitoring.COMPILE):
            run = request.compile()
        return self._recorded(run, self._use)

    def _recorded(
        self, run: Callable[..., Sequence[Tensor]], use: Callable[..., None], is_for_now: bool = False
    ) -> Callable[..., Sequence[Tensor]]:
        types = (*self.body.in_types, *self.body.out_types)
        return run if processes.are_several() else cuda_graphs.recorded(run, use, types, is_for_now)

    def _may_be_written(self) -> bool:
        may = self.backend == registry.DEFAULT and self._is_one_function and loop_sources.is_small(self.body)
        may = may and not any(map(onednn.multiplies_bytes, self.body.module.graph.nodes))
        return may and not pieces.repeats(self.body) and not self._donated

    def _whole(self) -> Callable[..., Sequence[Tensor]] | None:
        """Return a small graph as one C++ function, None where it is not written out."""
        if not self._may_be_written():
            return None
        try:
            with monitoring.timed(monitoring.COMPILE):
                return self._in_writing().run_when_compiled()
        except Unsupported:
            return None

    def _in_writing(self) -> native_graph.Whole:
        return native_graph.Whole(self.body, self.name, self._run_long, self._run_with_host)

    def _run_long(self, *tensors: Tensor) -> Sequence[Tensor]:
        """Run a graph whose loops take so long that they are to be interrupted: by themselves, in parts."""
        self._use_several_functions()
        return self.run(*tensors)

    def _run_with_host(self, *tensors: Tensor) -> Sequence[Tensor]:
        """Run a graph that takes a branch that calls Python; one that returns from there is expected to take it again."""
        results = self._run_directly(*tensors)
        self._use_several_functions()
        return results

    def _use_several_functions(self) -> None:
        self._is_one_function = self._is_compiled = False
        self._use(self._compile_and_run if config.jit_tier.value == "compiled" else self._run_again)

    def request(self) -> "Request":
        """Return what compiling takes: lowered graph, input types and backend."""
        with monitoring.timed(monitoring.LOWER):
            module = lowering.lowered(self.body, registry.lookup(self.backend).target)
        return Request(module, self.body.in_types, self.backend, structured.types_in(module), self._threads)

    def _run_among_processes(self, *tensors: Tensor) -> Sequence[Tensor]:
        return spmd.run(self.body, tensors, self._run_alone, lambda body: of(body).run)

    def _compile_and_run(self, *tensors: Tensor) -> Sequence[Tensor]:
        self.compile()
        return self.run(*tensors)

    def _run_first(self, *tensors: Tensor) -> Sequence[Tensor]:
        self._use(self._run_again)
        return self._timed(self._run_beside_compiler, *tensors)

    def _timed(self, run: Callable[..., Sequence[Tensor]], *tensors: Tensor) -> Sequence[Tensor]:
        start = time.perf_counter()
        results = run(*tensors)
        self._seconds = min(self._seconds, time.perf_counter() - start)
        return results

    def start_over(self) -> None:
        """Run directly, and wait for another reason to compile: what was under way will not be finished."""
        self._use(self._run_again)

    def _run_again(self, *tensors: Tensor) -> Sequence[Tensor]:
        if not can_compile():
            self._use(self.direct)
        elif self._may_be_written():
            self._use(functools.partial(self._run_until_written, self._in_writing()))
        else:
            self._submit()
        return self.run(*tensors)

    def _run_until_written(self, whole: native_graph.Whole, *tensors: Tensor) -> Sequence[Tensor]:
        """Run directly until the graph is a C++ function; a graph that is not written out is handed to the worker."""
        try:
            run = whole.run(max(_PATIENCE, _RUNS_TO_WAIT_FOR * self._seconds))
        except Unsupported:
            self._submit()
            return self.run(*tensors)
        if run is None:
            with native_loop.beside_a_whole():
                return self._timed(self._run_directly, *tensors)
        self._feels_autocast = False  # it calls no operator of torch
        self._use(run)
        return self.run(*tensors)

    def _submit(self) -> None:
        registry.forks_wait()
        if self._meanwhile is None:  # a fork's child may have pieces
            use = functools.partial(setattr, self, "_meanwhile")
            self._meanwhile = self._recorded(self.direct, use, is_for_now=True)
        self._use(self._run_beside_compiler)
        background.compiler().submit(self)

    def compile_pieces(self, is_for_now: bool = True) -> bool:
        """Compile the graph piece by piece, and run it so from here on; tell whether that is all there is to do.

        Where it is not, the pieces are compiled if they are to run until the backend is done.
        """
        is_on_cpu = all(type.device.type == "cpu" for type in (*self.body.in_types, *self.body.out_types))
        if self.backend != registry.DEFAULT or self._is_cut or not is_on_cpu:
            return False
        with monitoring.timed(monitoring.LOWER):
            body = lowering.spelled_out(self.body, PIECES)
        with monitoring.timed(monitoring.COMPILE):
            found = piecewise.compiled(body, self.name, is_for_now, self._donated)
        self._is_cut = True  # not before: a fork's child has none of it if its parent was not done
        if found is None:
            return False
        self.written = found.written
        self._meanwhile = _unfused(found.module)
        if found.is_enough:
            self._use(self._meanwhile)
        return found.is_enough

    def _run_beside_compiler(self, *tensors: Tensor) -> Sequence[Tensor]:
        with background.room_beside():
            return (self._meanwhile or self.direct)(*tensors)


def _feels_autocast(body: Graph) -> bool:
    """Tell whether a graph computes something that torch's autocast would do in other dtypes."""
    return any(
        operators.of(node.target).kind is Kind.PRODUCT
        or ((type := graph.type_of(node)) is not None and type.dtype in dtypes.HALVES)
        for node in body.module.graph.nodes
    )


# The functions by which Python reaches views fastest, and what is faster than an operator.
_FASTEST: dict[Any, Callable[..., Any]] = {
    aten.reshape.default: torch.reshape, aten.unsqueeze.default: torch.unsqueeze, aten.squeeze.dim: torch.squeeze,
    aten.permute.default: torch.permute, aten.transpose.int: torch.transpose, aten.t.default: torch.t,
    aten.select.int: torch.select, aten.expand.default: Tensor.expand, aten.view.dtype: Tensor.view,
    aten.unbind.int: torch.unbind, aten.sort.stable: unsigned.sort_of_many,
}  # fmt: skip


def _unfused(module: GraphModule) -> Callable[..., Sequence[Tensor]]:
    """Return the graph as a Python function, its views and sorts by their fastest ways."""

    def by_fastest_way(node: fx.Node) -> None:
        node.target = _FASTEST[node.target]

    return rewritten(module, lambda node: node.target in _FASTEST, by_fastest_way).forward


@dataclass(frozen=True)
class Request:
    """A graph to be compiled, here or in another process."""

    module: GraphModule
    in_types: tuple[TensorType, ...]
    backend: str
    structured_types: dict[str, tuple[TensorType, ...]]
    threads: int

    def __post_init__(self) -> None:
        self.module.meta["threads"] = self.threads

    def compile(self) -> Callable[..., Sequence[Tensor]]:
        """Return the compiled graph."""
        with structured.declared(self.structured_types):
            return registry.lookup(self.backend).compile(self.module, _examples(self.in_types))

    def is_kept(self) -> bool:
        """Tell whether the cache on disk has the compiled graph, so that compiling means loading it."""
        with structured.declared(self.structured_types):
            return registry.is_kept(self.backend, self.module, self.in_types)

    def is_worthwhile(self) -> bool:
        """Tell whether a compiler has something to fuse: what a primitive is made of, it compiles by itself."""
        called = [n.target for n in self.module.graph.nodes if n.op == "call_function"]
        called = [target for target in called if not operators.of(target).is_view]
        computing = [t for t in called if t is not torch.ops.jaxish.structured.default]
        return len(computing) > 1 or len(computing) == len(called) > 0

    def __reduce__(self) -> tuple[Any, ...]:
        # A pickled GraphModule is traced anew where it is loaded, which turns operators without inputs (full, arange)
        # into constants: another graph, which the cache on disk does not know. So the nodes travel one by one.
        to_name: Any = lambda node: _NodeName(node.name)  # noqa: E731
        nodes = [
            (n.op, n.name, _target_name(n.target), fx.map_arg((n.args, n.kwargs), to_name), graph.type_of(n))
            for n in self.module.graph.nodes
        ]
        return _request, (nodes, self.in_types, self.backend, self.structured_types, self.threads)


@dataclass(frozen=True)
class _NodeName:
    """A reference to a node in a pickled graph."""

    name: str


def _target_name(target: Any) -> str:
    if target is operator.getitem:
        return "getitem"
    return str(target)


def _target(name: str) -> Any:
    if name == "getitem":
        return operator.getitem
    namespace, function, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), function), overload)


def _request(nodes: list[Any], in_types: Any, backend: str, structured_types: Any, threads: int) -> Request:
    graph, made = fx.Graph(), {}
    for op, name, target, (args, kwargs), type in nodes:
        args, kwargs = _with_nodes(args, made), _with_nodes(kwargs, made)
        function = _target(target) if op == "call_function" else target
        made[name] = graph.create_node(op, function, args, kwargs, name)
        made[name].meta["val"] = type
    module = GraphModule(torch.nn.Module(), graph, "jaxish_graph")
    return Request(module, in_types, backend, structured_types, threads)


def _with_nodes(value: Any, made: dict[str, fx.Node]) -> Any:
    if isinstance(value, _NodeName):
        return made[value.name]
    if isinstance(value, dict):
        return {k: _with_nodes(v, made) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_with_nodes(v, made) for v in value)
    return value


def of(body: Graph, donated: Sequence[int] = ()) -> Executable:
    """Return the executable of a graph of which inputs at the positions `donated` may be written into."""
    key = ("executable", *donated) if donated else "executable"
    found = body.cache.get(key)
    if found is None:
        if donated and not _updates(body, donated):
            found = of(body)
        else:
            found = Executable(rewriting.factored(body), body.cache.get("name", "a graph"), donated)
        body.cache[key] = found
    return found


def _updates(body: Graph, donated: Sequence[int]) -> bool:
    """Tell whether a graph sets elements of inputs that may be written into."""
    if not donation.may_update(body, donated):
        return False
    return bool(donation.updates(lowering.spelled_out(body, PIECES), donated))


def examples(body: Graph) -> list[Tensor]:
    """Return example inputs of a graph: tensors of its input types without memory."""
    return _examples(body.in_types)


def _examples(types: Sequence[TensorType]) -> list[Tensor]:
    from torch._subclasses.fake_tensor import FakeTensorMode

    dynamo.import_all()
    with FakeTensorMode():
        return [torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in types]


def can_compile() -> bool:
    """Tell whether there is a C++ compiler and a folder for what it makes; warn once where there is not."""
    try:
        cache.folder()
    except cache.Unusable as error:
        cache.warn(str(error))
        return False
    if machine.compiler() is None:
        cache.warn("there is no C++ compiler (g++ or clang++). Install one.")
        return False
    return True
