"""functorch's names and documented examples, on tensors as in torch.func and on arrays as in JAX."""

import copy
import subprocess
import sys

import functorch as theirs
import jax
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves, tree_structure

import jaxish
import jaxish.functorch as ours
import jaxish.numpy as jnp

X = np.linspace(-1, 2, 6, dtype=np.float32).reshape(2, 3)
V = np.array([0.5, -1.0, 2.0], np.float32)

PROGRAMS = {
    "vmap": lambda lib, np, x, v: lib.vmap(lambda a, b: np.tanh(a) * b, (0, None))(x, v),
    "vmap in chunks": lambda lib, np, x, v: lib.vmap(np.sin, chunk_size=1)(x),
    "vmap of another axis": lambda lib, np, x, v: lib.vmap(lambda a: {"r": np.cumsum(a, 0)}, 1, 1)(x),
    "grad": lambda lib, np, x, v: lib.grad(lambda a: np.sum(np.sin(a) * v))(v),
    "grad of pytrees": lambda lib, np, x, v: lib.grad(lambda p, a: np.sum(p["w"] * a), has_aux=False)({"w": v}, v),
    "grad_and_value": lambda lib, np, x, v: lib.grad_and_value(lambda a: (np.sum(a * a), np.exp(a)), has_aux=True)(v),
    "two arguments": lambda lib, np, x, v: lib.grad(lambda a, b: np.sum(a * b * b), argnums=(0, 1))(v, v),
    "jacrev": lambda lib, np, x, v: lib.jacrev(lambda a: np.sin(a) * np.sum(a))(v),
    "jacfwd": lambda lib, np, x, v: lib.jacfwd(lambda a: np.sin(a) * np.sum(a))(v),
    "hessian": lambda lib, np, x, v: lib.hessian(lambda a: np.sum(a * a * a) * np.sum(a))(v),
    "jvp": lambda lib, np, x, v: lib.jvp(lambda a, b: np.sin(a) * b, (v, v), (v, v * 2)),
    "vjp": lambda lib, np, x, v: (lambda r: (r[0], r[1](v)))(lib.vjp(lambda a: np.sin(a) * a, v)),
    "vjp with aux": lambda lib, np, x, v: (lambda r: (r[0], r[1](v), r[2]))(lib.vjp(lambda a: (np.sin(a), a * 2), v, has_aux=True)),
    "nested": lambda lib, np, x, v: lib.vmap(lib.grad(lambda a: np.sum(np.exp(a)) ** 2))(x),
    "examples' Hessians": lambda lib, np, x, v: lib.vmap(lib.hessian(lambda a: np.sum(a**4)))(x),
}  # fmt: skip


def leaves(result):
    return [np.asarray(x.detach() if isinstance(x, torch.Tensor) else x) for x in tree_leaves(result)]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_transformations(name):
    program = PROGRAMS[name]
    wanted = program(theirs, torch, torch.tensor(X), torch.tensor(V))
    of_tensors = program(ours, torch, torch.tensor(X), torch.tensor(V))
    of_arrays = program(ours, jnp, jnp.asarray(X), jnp.asarray(V))
    for result, kind in ((of_tensors, torch.Tensor), (of_arrays, jaxish.Array)):
        assert all(isinstance(x, kind) for x in tree_leaves(result))
        assert tree_structure(result) == tree_structure(wanted)
        for a, b in zip(leaves(result), leaves(wanted), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning")  # of torch.func.linearize itself
def test_linearize():
    for x, np_ in ((torch.tensor(V), torch), (jnp.asarray(V), jnp)):
        value, pushed = ours.linearize(lambda a, np_=np_: np_.sin(a) * a, x)
        np.testing.assert_allclose(leaves(value)[0], np.sin(V) * V, rtol=1e-5)
        np.testing.assert_allclose(leaves(pushed(x))[0], (np.sin(V) + V * np.cos(V)) * V, rtol=1e-5)
        assert type(value) is type(pushed(x)) is type(x)


def test_jitted_functions_and_keys():
    f = jaxish.jit(lambda key, x: (x * jaxish.random.normal(key, x.shape)).sum())
    keys = jaxish.random.split(jaxish.random.key(0), 2)
    found = jaxish.vmap(lambda k, x: ours.grad(lambda x: f(k, x))(x))(keys, jnp.asarray(X))
    wanted = jax.vmap(lambda k: jax.random.normal(k, (3,)))(jax.random.split(jax.random.key(0), 2))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_functions_of_tensors_that_use_jaxish():
    inner = jaxish.interop.to_torch(lambda x: jnp.sin(x).sum())
    found = ours.vmap(ours.grad(inner))(torch.tensor(X))
    np.testing.assert_allclose(found, np.cos(X), rtol=1e-5)


def test_functionalize_and_make_fx():
    def written(x):
        y = x.clone()
        y.add_(1)
        return y

    graph = ours.make_fx(ours.functionalize(written))(torch.tensor(V))
    assert {node.target for node in graph.graph.nodes if node.op == "call_function"} == {
        torch.ops.aten.clone.default,
        torch.ops.aten.add.Tensor,
    }
    traced = ours.make_fx(lambda x: jnp.sin(x) * 2)(jnp.asarray(V))
    np.testing.assert_allclose(traced(torch.tensor(V)), np.sin(V) * 2, rtol=1e-6)


def test_functionalize_of_jitted_functions_and_loops():
    def program(lib):
        return lambda x: lib.lax.fori_loop(0, 2, lambda _, c: lib.numpy.sin(c), lib.jit(lib.numpy.sin)(x) * 2).sum()

    found, wanted = program(jaxish), program(jax)
    np.testing.assert_allclose(ours.functionalize(found)(jnp.asarray(V)), wanted(V), rtol=1e-6)
    wanted = jax.grad(wanted)(V)
    for derivative in (ours.functionalize(ours.grad(found)), ours.grad(ours.functionalize(found))):
        np.testing.assert_allclose(derivative(jnp.asarray(V)), wanted, rtol=1e-5)


# ------------------------------------------------------------------------------------ examples of functorch's tutorials


class SimpleCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(1, 4, 3), nn.Linear(4 * 9, 3)

    def forward(self, x):
        return F.log_softmax(self.fc(F.relu(F.max_pool2d(self.conv(x), 2)).flatten(1)), 1)


def test_per_sample_gradients():
    torch.manual_seed(0)
    model, data, targets = SimpleCNN(), torch.randn(4, 1, 8, 8), torch.randint(0, 3, (4,))
    fmodel, params, buffers = ours.make_functional_with_buffers(model)

    def loss(params, buffers, sample, target):
        return F.nll_loss(fmodel(params, buffers, sample.unsqueeze(0)), target.unsqueeze(0))

    found = ours.vmap(ours.grad(loss), in_dims=(None, None, 0, 0))(params, buffers, data, targets)
    for index in range(4):
        single = F.nll_loss(model(data[index : index + 1]), targets[index : index + 1])
        for slope, wanted in zip(found, torch.autograd.grad(single, tuple(model.parameters())), strict=True):
            torch.testing.assert_close(slope[index], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("arrays", [False, True])
def test_ensembles(arrays):
    models = [nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.BatchNorm1d(4), nn.Linear(4, 2)).eval() for _ in range(3)]
    x = torch.randn(5, 3)
    fmodel, params, buffers = ours.combine_state_for_ensemble(models)
    given = [params, buffers, x]
    if arrays:
        given = jaxish.tree.map(jnp.asarray, given)
    found = ours.vmap(fmodel, in_dims=(0, 0, None))(*given)
    assert isinstance(found, jaxish.Array if arrays else torch.Tensor)
    wanted = torch.stack([model(x) for model in models])
    np.testing.assert_allclose(leaves(found)[0], wanted.detach(), rtol=1e-4, atol=1e-5)
    minibatches = torch.randn(3, 5, 3)
    found = ours.vmap(fmodel)(params, buffers, minibatches)
    torch.testing.assert_close(found, torch.stack([m(x) for m, x in zip(models, minibatches, strict=True)]))
    for wrong in ([], [models[0], nn.Linear(3, 2)], [models[0], copy.deepcopy(models[1]).train()]):
        with pytest.raises(RuntimeError, match="combine_state_for_ensemble"):
            ours.combine_state_for_ensemble(wrong)


def test_neural_tangent_kernels():
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    fnet, params = ours.make_functional(net, disable_autograd_tracking=True)
    assert not any(p.requires_grad for p in params)
    a, b = torch.randn(4, 3), torch.randn(3, 3)
    single = lambda params, x: fnet(params, x.unsqueeze(0)).squeeze(0)

    def by_jacobians(a, b):
        jacobians = [ours.vmap(ours.jacrev(single), (None, 0))(params, x) for x in (a, b)]
        pairs = zip(*([j.flatten(2) for j in js] for js in jacobians), strict=True)
        return sum(torch.einsum("Naf,Mbf->NMab", p, q) for p, q in pairs)

    def by_products(a, b):
        def of_pair(x, y):
            def product(vector):
                _, pullback = ours.vjp(lambda p: single(p, x), params)
                return ours.jvp(lambda p: single(p, y), (params,), pullback(vector))[1]

            return ours.vmap(product)(torch.eye(2))

        return ours.vmap(ours.vmap(of_pair, (None, 0)), (0, None))(a, b)

    wanted = torch.zeros(4, 3, 2, 2)
    slopes = [[torch.autograd.grad(net(x)[i], tuple(net.parameters())) for i in range(2)] for x in (*a, *b)]
    for n, m, i, j in np.ndindex(4, 3, 2, 2):
        wanted[n, m, i, j] = sum((p * q).sum() for p, q in zip(slopes[n][i], slopes[4 + m][j], strict=True))
    torch.testing.assert_close(by_jacobians(a, b), wanted, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(by_products(a, b), wanted, rtol=1e-4, atol=1e-4)


def test_maml():
    net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
    fnet, params = ours.make_functional(net)
    x = torch.linspace(-1, 1, 10)[:, None].repeat(3, 1, 1)
    y = torch.stack([torch.sin(x[0] * k) for k in (1, 2, 3)])

    def adapted(params, x, y):
        slopes = ours.grad(lambda p: F.mse_loss(fnet(p, x), y))(params)
        params = [p - 0.1 * g for p, g in zip(params, slopes, strict=True)]
        return F.mse_loss(fnet(params, x), y)

    ours.vmap(adapted, in_dims=(None, 0, 0))(params, x, y).mean().backward()
    wanted = []
    for task in range(3):
        inner = F.mse_loss(net(x[task]), y[task])
        slopes = torch.autograd.grad(inner, tuple(net.parameters()), create_graph=True)
        names = [n for n, _ in net.named_parameters()]
        moved = {n: p - 0.1 * g for n, p, g in zip(names, net.parameters(), slopes, strict=True)}
        wanted.append(F.mse_loss(torch.func.functional_call(net, moved, (x[task],)), y[task]))
    torch.stack(wanted).mean().backward()
    for found, parameter in zip(params, net.parameters(), strict=True):
        torch.testing.assert_close(found.grad, parameter.grad, rtol=1e-4, atol=1e-5)


def test_buffers_are_asked_for():
    with pytest.raises(RuntimeError, match="make_functional_with_buffers"):
        ours.make_functional(nn.BatchNorm1d(3))
    _, params, buffers = ours.make_functional_with_buffers(nn.BatchNorm1d(3))
    assert (len(params), len(buffers)) == (2, 3)
    assert ours.make_functional(nn.ReLU())[1] == ()


# ------------------------------------------------------------------------------------------------------------- names


def test_every_name_of_functorch_is_there_or_told():
    for name in [n for n in dir(theirs) if not n.startswith("_")] + ["dim", "experimental", "einops"]:
        if name == "torch":
            continue
        if not hasattr(ours, name):
            with pytest.raises(AttributeError, match="; use "):
                getattr(ours, name)
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        ours.nonsense


def test_compile_is_torchs():
    program = """
import jaxish.functorch, torch
graphs = []
def compiler(graph, inputs):
    graphs.append(graph)
    return jaxish.functorch.compile.make_boxed_func(graph.forward)
f = jaxish.functorch.compile.aot_function(lambda x: x.sin() * 2, fw_compiler=compiler)
x = torch.ones(3, requires_grad=True)
f(x).sum().backward()
assert torch.allclose(x.grad, 2 * torch.ones(3).cos()) and len(graphs) == 2
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
