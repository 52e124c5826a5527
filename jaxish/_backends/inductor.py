"""Inductor, called without Dynamo: C++ on CPU, Triton on GPU.

`compile_fx` runs AOTAutograd (decompositions, functionalisation) and hands the result to `compile_fx_inner`. What
that returns is kept and called directly: AOTAutograd's wrapper around it regenerates views and mutations for eager
PyTorch, which immutable arrays do not need, and costs 2 µs a call (3.7 against 1.2 on a small graph).

Private torch API (tried on 2.13): compile_fx, TracingContext, FakeTensorMode, the autograd-cache switch.
"""

import os
import pathlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule


def cache_directory() -> str:
    """Return where compiled kernels are kept: TORCHINDUCTOR_CACHE_DIR, or jaxish's part of the user's cache."""
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return os.environ.get("TORCHINDUCTOR_CACHE_DIR") or str(pathlib.Path(home, "jaxish", "inductor"))


def compile_graph(module: GraphModule, examples: list[Tensor]) -> Any:
    """Compile a graph for inputs like `examples`; see registry.py for the contract."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache_directory()
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

    # Without a ShapeEnv, graphs with while_loop fail ("ignore_fresh_unbacked_symbols").
    mode = FakeTensorMode(shape_env=ShapeEnv())
    # XLA contracts a * b + c into one rounding, and random numbers are JAX's to the bit only if this does too.
    contracted = inductor_config.patch({"cpp.enable_floating_point_contract_flag": "fast"})
    with (
        tracing(TracingContext(mode)),
        torch.no_grad(),
        functorch_config.patch(enable_autograd_cache=False),
        contracted,
    ):
        fakes = [_fake_like(e, mode) for e in examples]
        compile_fx(module, fakes, inner_compile=keep)
    return _caller(kept[-1], _result_count(module))


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
