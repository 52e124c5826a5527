"""Graphs made of graphs: which results depend on which inputs, by what torch's own derivatives say; parts, and their code."""

import concurrent.futures
import gc
import pickle
import sys
from typing import Any

import pytest
import torch

from jaxish._core import derived, graph, graph_module
from jaxish._core.graph import TensorType


def through_memory(x, y):
    zeros = torch.zeros(4)
    zeros[:2].copy_(x)  # as derivative formulas of torch fill their results
    return [zeros * 2, y + 1, zeros.sum() * y]


def through_a_view(x, y):
    parts = torch.zeros(2, 2)
    row = parts[0]
    parts[:, 0].add_(x)
    return [row * 1, y * 2, parts[1] + y]


def through_two_writes(x, y):
    first, second = torch.zeros(2), torch.zeros(2)
    first.copy_(x)
    second.add_(first)
    return [second + 0, first * y, y * 3]


@pytest.mark.parametrize("function", [through_memory, through_a_view, through_two_writes])
def test_what_is_written_into_memory_is_reached(function):
    given = [torch.tensor([1.0, 2.0]), torch.tensor(3.0)]
    traced = graph.trace(function, [TensorType.of(t) for t in given]).graph
    jacobians = torch.autograd.functional.jacobian(lambda *inputs: tuple(function(*inputs)), tuple(given))
    for place in range(2):
        wanted = {i for i, row in enumerate(jacobians) if row[place].any()}
        assert derived.reached(traced, {place}) == wanted


def test_the_code_of_a_graph_is_written_when_it_runs():
    given = [torch.tensor([1.0, 2.0]), torch.tensor(3.0)]
    before = {*graph_module._sources}
    traced = graph.trace(through_a_view, [TensorType.of(t) for t in given]).graph
    inputs = traced.module.graph.find_nodes(op="placeholder")
    outputs: Any = traced.module.graph.output_node().args[0]
    part = derived.subgraph(traced, inputs, outputs[:2])
    assert not {*graph_module._sources} - before
    for found, wanted in zip(part(*given), through_a_view(*given), strict=False):
        torch.testing.assert_close(found, wanted)
    written = {*graph_module._sources} - before
    assert len(written) == 1
    assert "def forward" in traced.module.code
    del traced, part, inputs, outputs
    gc.collect()
    assert not written & graph_module._sources.keys()


def test_the_code_of_a_graph_is_written_by_one_thread():
    given, before = torch.tensor([1.0, 2.0]), sys.getswitchinterval()

    def function(x):
        for i in range(30):
            x = torch.full_like(x, i) * x + torch.full((2,), 2.0)
        return [x]

    wanted = function(given)[0]
    sys.setswitchinterval(1e-6)
    try:
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            for _ in range(20):
                traced = graph.trace(function, [TensorType.of(given)]).graph
                for found in threads.map(lambda _, traced=traced: traced(given)[0], range(8)):
                    torch.testing.assert_close(found, wanted)
    finally:
        sys.setswitchinterval(before)


def test_the_module_of_a_graph_can_be_pickled():
    x = torch.arange(3.0)
    traced = graph.trace(lambda x: [torch.sin(x) * 2], [TensorType.of(x)]).graph
    (found,) = pickle.loads(pickle.dumps(traced.module))(x)
    torch.testing.assert_close(found, torch.sin(x) * 2)
