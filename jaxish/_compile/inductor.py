"""Inductor, called without Dynamo: C++ on CPU, Triton on GPU.

`compile_fx` runs AOTAutograd (decompositions, functionalisation) and hands the result to `compile_fx_inner`. What
that returns is kept and called directly: AOTAutograd's wrapper around it regenerates views and mutations for eager
PyTorch, which immutable arrays do not need, and costs 2 µs a call (3.7 against 1.2 on a small graph).

Private torch API (tried on 2.13): compile_fx, TracingContext, FakeTensorMode, the autograd-cache switch,
CppTile2DKernel, preserve_rng_state, AsyncCompile.
"""

import contextlib
import logging
import math
import pathlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, fx
from torch.fx import GraphModule

from .._core import cache, operators
from .._core.graph import TensorType
from .._core.operators import Kind, aten
from .._core.rewriting import rewritten
from . import decompositions, inductor_files, masks, onednn

_log = logging.getLogger("jaxish")


def compile_graph(module: GraphModule, examples: list[Tensor]) -> Any:
    """Compile a graph for inputs like `examples`; see registry.py for the contract. Raises `cache.Unusable`."""
    from torch._inductor.exc import InductorError

    task = _Task.of(module, [TensorType.of(e) for e in examples])
    on_cpu = all(type.device.type == "cpu" for type in task.types)
    try:
        run = inductor_files.kept(task.key, task.compiled, lasting=not on_cpu)
    except InductorError as error:  # products of narrow integers may be of another type than it takes them for (2.13)
        reason = str(error).partition("\n")[0]
        _log.warning("Inductor could not compile a graph, which runs operator by operator: %s", reason)
        return module.forward
    return task.masks.around(run) if task.masks else run


def is_kept(module: GraphModule, types: Sequence[TensorType]) -> bool:
    """Tell whether the cache on disk has the code of a graph, without importing Inductor. Raises `cache.Unusable`."""
    return cache.has(_Task.of(module, types).key)


@dataclass(frozen=True)
class _Task:
    """A graph as Inductor is given it."""

    module: GraphModule
    types: list[TensorType]  # of the inputs
    masks: masks.ByteMasks
    options: dict[str, Any]

    @staticmethod
    def of(module: GraphModule, types: Sequence[TensorType]) -> "_Task":
        threads = 1 if _mostly_adds_up(module) else module.meta.get("threads", torch.get_num_threads())
        module = onednn.with_products(_with_own_memory(module), torch.ops.jaxish.product.default)
        module, byte_masks = masks.as_bytes(masks.vectorized(module))
        types = [replace(t, dtype=torch.uint8) if i in byte_masks.inputs else t for i, t in enumerate(types)]
        # XLA contracts a * b + c into one rounding, and random numbers are JAX's to the bit only if this does too.
        # Integers wrap around; the option is the one that reaches the compiler's command line as it is.
        options: dict[str, Any] = {"cpp.enable_floating_point_contract_flag": "fast -fwrapv", "cpp.threads": threads}
        # On a GPU, where JAX's bits are others than on a CPU, contraction only costs accuracy: 1 - x * x came out rounded once
        # within a logarithm and twice beside it, and normal numbers had errors of 5e-6. The option that keeps Triton
        # from it (2.11 to 2.13) has 16-bit floats rounded after each operation too, as on the other tiers.
        options["emulate_precision_casts"] = not all(type.device.type == "cpu" for type in types)
        if _is_long_formula(module):
            options["realize_opcount_threshold"] = 8
        return _Task(module, types, byte_masks, options)

    @property
    def key(self) -> str:
        """The name of its code in the cache."""
        return cache.key_of(self.module.code, [(t.shape, t.dtype, t.device) for t in self.types], self.options)

    def compiled(self, folder: pathlib.Path) -> Any:
        """Have Inductor compile it, in this folder; or load it, where another process has done so."""
        from torch._inductor.exc import InductorError

        call = inductor_files.loaded(folder)
        if call is None:
            options = self.options
            try:
                code = _compiled(self.module, self.types, options)
            except InductorError:
                # Where an index is both read and written by, its C++ for vectors may use a name before it is declared (2.13).
                options = {**options, "cpp.simdlen": 1}
                code = _compiled(self.module, self.types, options)
            call = getattr(code, "current_callable", code)  # of a graph that comes to nothing it makes a function
            inductor_files.leave_to_be_loaded(code, options, folder)
        return _caller(call, _result_count(self.module))


def _compiled(module: GraphModule, types: list[TensorType], options: dict[str, Any]) -> Any:
    import torch._functorch.config as functorch_config
    import torch._inductor.config as inductor_config
    from torch._guards import TracingContext, tracing
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    kept: list[Any] = []

    def keep(graph: GraphModule, inputs: Sequence[Any], **options: Any) -> Any:
        kept.append(compile_fx_inner(graph, inputs, **options))
        return kept[-1]

    # It is no news to the user that complex operators are not fused.
    warnings.filterwarnings("ignore", "Torchinductor does not support code generation for complex operators")
    # Without a ShapeEnv, graphs with while_loop fail ("ignore_fresh_unbacked_symbols").
    mode = FakeTensorMode(shape_env=ShapeEnv())
    with (
        tracing(TracingContext(mode)),
        _kernels_compiled_at_once(),
        torch.no_grad(),
        functorch_config.patch(enable_autograd_cache=False),
        inductor_config.patch(options),
        _tiles_indexed_once(),
        _generators_left_alone(),
    ):
        with mode:
            fakes: list[Any] = [torch.empty(type.shape, dtype=type.dtype, device=type.device) for type in types]
        compile_fx(module, fakes, inner_compile=keep, decompositions=decompositions.table())
    return kept[-1]


def _kernels_compiled_at_once() -> Any:
    """Return the context manager within which Triton compiles all kernels of a graph in as many processes as there are cores.

    Inductor starts the processes when it begins with a graph, and compiles those kernels itself, one by one, that
    it has written before they are there: all of the first graph's, of a second each (torch 2.11 to 2.13).
    """
    from torch._inductor.async_compile import AsyncCompile

    compile = AsyncCompile.triton

    def triton(*args: Any, **options: Any) -> Any:
        AsyncCompile.wait_pool_ready()
        return compile(*args, **options)

    return mock.patch.object(AsyncCompile, "triton", triton)


@contextlib.contextmanager
def _generators_left_alone() -> Iterator[None]:
    """Within this context manager Inductor does not set torch's generators back to where they were.

    They are the process's: what other threads have drawn meanwhile would come again (a DataLoader's order, dropout's
    masks), and Inductor draws nothing for our graphs. torch's compilations of others wait for the lock that is held here.
    """
    import torch._dynamo.utils as dynamo_utils
    import torch._functorch.aot_autograd as aot_autograd

    with (
        mock.patch.object(dynamo_utils, "preserve_rng_state", contextlib.nullcontext),
        mock.patch.object(aot_autograd, "preserve_rng_state", contextlib.nullcontext),
    ):
        yield


def _tiles_indexed_once() -> Any:
    """Return the context manager within which Inductor indexes the tiles of vectorised loops right.

    A store that adds (a scatter, with several threads) adds the position within the tile to its index, and once more in
    what it calls: it wrote out of bounds (torch 2.13). The position is added once here, however often that is asked for.
    """
    from torch._inductor.codegen.cpp import CppTile2DKernel

    add_position = CppTile2DKernel.transform_indexing

    def transform_indexing(kernel: Any, index: Any) -> Any:
        return index if kernel.inner_itervar() in index.free_symbols else add_position(kernel, index)

    return mock.patch.object(CppTile2DKernel, "transform_indexing", transform_indexing)


def _is_long_formula(module: GraphModule) -> bool:
    """Tell whether a graph is elementwise and long, as the kernels of random numbers are.

    Inductor would write out each of some hundred values it keeps (by default one in 30 operations) from the inputs on:
    minutes for 1,000 operations. With more values kept the text is short, and they end up in registers all the same.
    """
    called = [operators.of(n.target) for n in module.graph.nodes if n.op == "call_function"]
    return len(called) > 200 and all(r.is_elementwise or r.is_view or r.kind in _PLAIN for r in called)


_PLAIN = (Kind.FILL, Kind.NUMBERS)
_ATOMIC = 10  # other elements that are computed while one is added with other threads at work
_ROW = (
    8  # elements that are added together: one thread has vectors for them, and for single ones it takes twice as long
)


def _mostly_adds_up(module: GraphModule) -> bool:
    """Tell whether additions to rows that indices name take most of a graph's time where several threads do them.

    Inductor makes each an atomic one then: the gradient of 256 x 64 rows of an embedding took 1.9 ms with two threads, and
    takes 0.14 with one (torch 2.13).
    """
    others = atomic = 0
    for node in module.graph.nodes:
        if node.target is aten.index_put.default and len(node.args) > 3 and node.args[3]:
            added = math.prod(node.args[2].meta["val"].shape)
            places = max(math.prod(index.meta["val"].shape) for index in node.args[1] if index is not None)
            atomic += added if added >= _ROW * places else 0
        elif node.op == "call_function" and isinstance(value := node.meta.get("val"), Tensor | TensorType):
            others += math.prod(value.shape)
    return _ATOMIC * atomic > others


def _with_own_memory(module: GraphModule) -> GraphModule:
    """Return the graph with each array that is written into in memory of its own.

    Inductor leaves out the copy where nobody reads the operand afterwards, also where that is an expanded array: its
    elements are one element in memory, and what reads the result reads out of bounds (torch 2.9 to 2.13). The copy
    here is left out where the operand is a whole array.
    """
    return rewritten(module, lambda node: operators.of(node.target).kind is Kind.WRITE, _writing_into_own_memory)


def _writing_into_own_memory(node: fx.Node) -> None:
    operand, *rest = node.args
    whole = node.graph.call_function(aten.clone.default, (operand,), {"memory_format": torch.contiguous_format})
    node.args = (whole, *rest)


# oneDNN's matrix product as an operator of our own: Inductor knows `mkldnn._linear_pointwise` with constant weights only.
_library = torch.library.Library("jaxish", "FRAGMENT")
_library.define("product(Tensor left, Tensor right) -> Tensor")
_library.impl("product", onednn.product, "CompositeExplicitAutograd")
torch.library.register_fake(
    "jaxish::product", lambda left, right: left.new_empty(left.shape[0], right.shape[1]), lib=_library
)


def _result_count(module: GraphModule) -> int:
    (results,) = module.graph.output_node().args
    return len(results)  # pyright: ignore


def _caller(call: Callable[[list[Tensor]], Sequence[Tensor]], count: int) -> Any:
    def run(*tensors: Tensor) -> Sequence[Tensor]:
        # Inductor takes its inputs in a list that it empties; bases of views may follow the results.
        return call([t if t.is_contiguous() else t.contiguous() for t in tensors])[:count]

    return run
