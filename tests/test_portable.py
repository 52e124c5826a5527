"""Graphs lowered for the portable target: operators of torch alone, and the values that JAX computes."""

import subprocess
import sys

import jax
import numpy as np
import pytest
import torch
from oracle import compare_values
from portable_programs import PROGRAMS, program

import jaxish
from jaxish._compile.lowering import lowered
from jaxish._compile.structured import Opaque
from jaxish._core.array import tensor_of
from jaxish._core.primitive import Primitive
from jaxish._core.target import PORTABLE


def targets(module):
    """Return what a graph and all graphs within it call."""
    graphs = [m.graph for m in module.modules() if isinstance(m, torch.fx.GraphModule)]
    return {n.target for g in graphs for n in g.nodes if n.op == "call_function"}


def portable(function, *args):
    """Return the portable graph of a function, and the tensors to call it with."""
    closed = jaxish.jit(function).trace(*args)._program.closed
    tensors = [tensor_of(jaxish.numpy.asarray(leaf)) for leaf in jaxish.tree.leaves(args)]
    return lowered(closed.graph, PORTABLE), [*closed.captured, *tensors]


def plain(library, leaf):
    is_key = library.numpy.issubdtype(leaf.dtype, library.dtypes.prng_key)
    return np.asarray(library.random.key_data(leaf) if is_key else leaf)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_in_plain_operators_gives_what_jax_gives(name):
    function, args = program(jaxish, name)
    module, tensors = portable(function, *args)
    assert not [t for t in targets(module) if isinstance(t, Primitive) or "jaxish" in str(t)]
    found = torch.fx.Interpreter(module).run(*tensors)
    function, args = program(jax, name)
    for f, w in zip(found, jax.tree.leaves(function(*args)), strict=True):
        compare_values(f.resolve_conj().numpy(), plain(jax, w), 1e-5, 1e-5)


def test_a_loop_is_one_operator_whatever_its_trip_count():
    def graph_of(count):
        return portable(lambda x: jaxish.lax.fori_loop(0, count, lambda i, c: c * x, 1.0), 1.5)[0]

    assert torch.ops.higher_order.while_loop in targets(graph_of(3))
    assert len(graph_of(3).graph.nodes) == len(graph_of(3000).graph.nodes)


def test_random_numbers_are_equal_to_the_last_bit():
    for draw in (jaxish.random.normal, jaxish.random.exponential, jaxish.random.gumbel):
        module, tensors = portable(lambda k, draw=draw: draw(k, (1000,)), jaxish.random.key(3))
        (found,) = torch.fx.Interpreter(module).run(*tensors)
        wanted = getattr(jax.random, draw.__name__)(jax.random.key(3), (1000,))
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_a_callback_cannot_leave_the_host():
    def doubled(x):
        return jaxish.pure_callback(twice, jaxish.ShapeDtypeStruct((), np.float32), x)

    def twice(x):
        return x * 2

    with pytest.raises(NotImplementedError, match="twice"):
        portable(doubled, 1.0)

    def printed(x):
        jaxish.debug.callback(twice, x)
        return x

    with pytest.raises(NotImplementedError, match="twice"):
        portable(printed, 1.0)


def test_a_factorization_that_torch_has_not_is_named():
    with pytest.raises(NotImplementedError, match="Schur"):
        portable(jaxish.lax.linalg.schur, np.eye(2, dtype=np.float32))


def test_loops_that_differ_in_a_parameter_are_different_code():
    def scan_of(bits):
        step = lambda c, x: (c, jaxish.lax.reduce_precision(x, 8, bits))
        traced = jaxish.jit(lambda xs: jaxish.lax.scan(step, 0.0, xs)).trace(jaxish.numpy.ones(3))
        return next(n.target for n in traced._program.closed.graph.module.graph.nodes if hasattr(n.target, "carries"))

    assert scan_of(3).identity() == scan_of(3).identity()
    assert scan_of(3).identity() != scan_of(4).identity()


def test_a_primitive_with_another_parameter_has_another_name():
    def opaque_of(*args):
        nodes = jaxish.jit(jaxish.random.gamma).trace(*args)._program.closed.graph.module.graph.nodes
        return {n.target.identity() for n in nodes if isinstance(n.target, Opaque)}

    key, other = jaxish.random.key(0), jaxish.random.key(0, impl="rbg")
    assert opaque_of(key, 2.0) == opaque_of(key, 3.0)
    assert opaque_of(key, 2.0) != opaque_of(other, 2.0)


def test_names_of_primitives_are_the_same_in_every_process():
    text = (
        "import jaxish as j; f = lambda k: (j.random.gamma(k, 2.0), j.random.poisson(k, 3.0), j.random.permutation(k, 99999),"
        " j.random.normal(k), j.lax.scan(lambda c, x: (c, j.nn.relu(x)), 0, j.numpy.ones(2)));"
        "nodes = j.jit(f).trace(j.random.key(0))._program.closed.graph.module.graph.nodes;"
        "names = [n.target.identity() for n in nodes if hasattr(n.target, 'identity')];"
        "print(names); assert len(names) == 5 and not any('#' in n for n in names)"
    )
    backwards = f"import jaxish as j; j.jit(lambda k: j.random.beta(k, 1., 2.))(j.random.key(0)); {text}"
    first, second = (
        subprocess.run([sys.executable, "-c", t], capture_output=True, text=True) for t in (text, backwards)
    )
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout


def test_what_a_rule_closes_over_is_in_the_graph():
    def gradient(j):
        scale = j.numpy.array([1.0, 2.0])
        f = j.custom_vjp(lambda x: x)
        f.defvjp(lambda x: (x, None), lambda _, g: (g * scale,))
        return lambda x: j.grad(lambda x: (j.jit(f)(x) ** 2).sum())(x)

    x = np.array([3.0, 4.0], "float32")
    module, tensors = portable(gradient(jaxish), x)
    assert not any(isinstance(t, Primitive) for t in targets(module))
    (found,) = torch.fx.Interpreter(module).run(*tensors)
    compare_values(found.numpy(), np.asarray(gradient(jax)(x)), None, None)
