"""Inductor, called without Dynamo: C++ on CPU, Triton on GPU.

`compile_fx` runs AOTAutograd (decompositions, functionalisation) and hands the result to `compile_fx_inner`. What
that returns is kept and called directly: AOTAutograd's wrapper around it regenerates views and mutations for eager
PyTorch, which immutable arrays do not need, and costs 2 µs a call (3.7 against 1.2 on a small graph).

Private torch API (tried on 2.13): compile_fx, TracingContext, FakeTensorMode, the autograd-cache switch,
CppTile2DKernel, preserve_rng_state.
"""

import contextlib
import logging
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch import Tensor, fx
from torch.fx import GraphModule

from .._core import cache, operators
from .._core.operators import Kind, aten
from .._core.rewriting import rewritten
from . import decompositions, inductor_files, masks, onednn

_log = logging.getLogger("jaxish")


def compile_graph(module: GraphModule, examples: list[Tensor]) -> Any:
    """Compile a graph for inputs like `examples`; see registry.py for the contract. Raises `cache.Unusable`."""
    from torch._inductor.exc import InductorError

    task = _Task.of(module, examples)
    on_cpu = all(e.device.type == "cpu" for e in task.examples)
    try:
        run = inductor_files.kept(task.key, task.compiled, lasting=not on_cpu)
    except InductorError as error:  # products of narrow integers may be of another type than it takes them for (2.13)
        reason = str(error).partition("\n")[0]
        _log.warning("Inductor could not compile a graph, which runs operator by operator: %s", reason)
        return module.forward
    return task.masks.around(run) if task.masks else run


def is_kept(module: GraphModule, examples: list[Tensor]) -> bool:
    """Tell whether the cache on disk has the code of a graph. Raises `cache.Unusable`."""
    return cache.has(_Task.of(module, examples).key)


@dataclass(frozen=True)
class _Task:
    """A graph as Inductor is given it."""

    module: GraphModule
    examples: list[Tensor]
    masks: masks.ByteMasks
    options: dict[str, Any]

    @staticmethod
    def of(module: GraphModule, examples: list[Tensor]) -> "_Task":
        module = onednn.with_products(_with_own_memory(module), torch.ops.jaxish.product.default)
        module, byte_masks = masks.as_bytes(masks.vectorized(module))
        examples = [e.view(torch.uint8) if i in byte_masks.inputs else e for i, e in enumerate(examples)]
        # XLA contracts a * b + c into one rounding, and random numbers are JAX's to the bit only if this does too.
        # Integers wrap around; the option is the one that reaches the compiler's command line as it is.
        options: dict[str, Any] = {"cpp.enable_floating_point_contract_flag": "fast -fwrapv"}
        # On a GPU, where JAX's bits are others than on a CPU, contraction only costs accuracy: 1 - x * x came out rounded once
        # within a logarithm and twice beside it, and normal numbers had errors of 5e-6. The option that keeps Triton
        # from it (2.11 to 2.13) has 16-bit floats rounded after each operation too, as on the other tiers.
        options["emulate_precision_casts"] = not all(e.device.type == "cpu" for e in examples)
        if _is_long_formula(module):
            options["realize_opcount_threshold"] = 8
        return _Task(module, examples, byte_masks, options)

    @property
    def key(self) -> str:
        """The name of its code in the cache."""
        return cache.key_of(self.module.code, [(e.shape, e.dtype, e.device) for e in self.examples], self.options)

    def compiled(self) -> Any:
        """Have Inductor compile it."""
        from torch._inductor.exc import InductorError

        try:
            return _compiled(self.module, self.examples, self.options)
        except InductorError:
            # Where an index is both read and written by, its C++ for vectors may use a name before it is declared (2.13).
            return _compiled(self.module, self.examples, {**self.options, "cpp.simdlen": 1})


def _compiled(module: GraphModule, examples: list[Tensor], options: dict[str, Any]) -> Any:
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
        torch.no_grad(),
        functorch_config.patch(enable_autograd_cache=False),
        inductor_config.patch(options),
        _tiles_indexed_once(),
        _generators_left_alone(),
    ):
        fakes = [_fake_like(e, mode) for e in examples]
        compile_fx(module, fakes, inner_compile=keep, decompositions=decompositions.table())
    return _caller(kept[-1], _result_count(module))


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


def _fake_like(example: Tensor, mode: Any) -> Tensor:
    with mode:
        return torch.empty(example.shape, dtype=example.dtype, device=example.device)


def _result_count(module: GraphModule) -> int:
    (results,) = module.graph.output_node().args
    return len(results)  # pyright: ignore


def _caller(compiled: Any, count: int) -> Any:
    call = getattr(compiled, "current_callable", None) or compiled

    def run(*tensors: Tensor) -> Sequence[Tensor]:
        # Inductor takes its inputs in a list that it empties; bases of views may follow the results.
        return call([t if t.is_contiguous() else t.contiguous() for t in tensors])[:count]

    return run
