"""JAX models as modules of torch, and optimizers both ways: held against JAX with optax, and against torch."""

import copy
import io
import pickle
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import optax
import pytest
import torch
from interop_models import BATCHES, apply, params
from launched import in_processes
from torch import nn

import jaxish
import jaxish.numpy as jnp
from jaxish.interop import Module, Optimizer, from_torch_module, from_torch_optimizer, to_torch


def module():
    return Module(apply, jaxish.tree.map(jnp.asarray, params()))


def trained_by_jax(transformation, clip=None):
    """Return the parameters, by their names in a module, that JAX and optax come to."""

    def loss(p, x, y):
        return ((apply(p, x) - y) ** 2).mean()

    if clip is not None:
        transformation = optax.chain(optax.clip_by_global_norm(clip), transformation)
    p = jax.tree.map(jax.numpy.asarray, params())
    state = transformation.init(p)
    for x, y in BATCHES:
        updates, state = transformation.update(jax.grad(loss)(p, x.numpy(), y.numpy()), state, p)
        p = optax.apply_updates(p, updates)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in jax.tree.leaves_with_path(p)}


def assert_parameters(found, wanted):
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name].detach(), value, rtol=1e-4, atol=1e-5, err_msg=name)


def train(model, optimizer, clip=None):
    for x, y in BATCHES:
        optimizer.zero_grad()
        ((model(x) - y) ** 2).mean().backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()


# ---------------------------------------------------------------------------------------------------------- modules


@pytest.mark.parametrize(
    ("of_torch", "of_optax", "clip"),
    [
        (lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), optax.sgd(0.1, momentum=0.9), None),
        (lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.1), optax.adamw(0.01, weight_decay=0.1), None),
        (lambda p: torch.optim.Adam(p, 0.01), optax.adam(0.01), 0.5),
    ],
)
def test_training_with_torchs_optimizers(of_torch, of_optax, clip):
    model = module()
    train(model, of_torch(model.parameters()), clip)
    assert_parameters(dict(model.named_parameters()), trained_by_jax(of_optax, clip))
    assert (
        model.to_jax()["layers"][1]["bias"].unsafe_buffer_pointer() == model.get_parameter("layers.1.bias").data_ptr()
    )


def test_names_are_key_paths():
    leaves = {
        "b": [jnp.ones(2), {"c": jnp.zeros(1)}],
        "a": (jnp.ones(1),),
        "steps": jnp.arange(3),
        "activation": jnp.tanh,
    }
    model = Module(lambda p, x: p["activation"](x * p["b"][0]), leaves)
    assert set(model.state_dict()) == {"a.0", "b.0", "b.1.c", "steps"}
    assert {n for n, _ in model.named_parameters()} == {"a.0", "b.0", "b.1.c"}
    assert all(type(p) is nn.Parameter and p.is_leaf for p in model.parameters())
    with pytest.raises(ValueError, match="Two leaves"):
        Module(apply, {"a": {"b": jnp.ones(1)}, "a.b": jnp.ones(1)})
    taken = Module(lambda p, x: p["training"]["forward"] * x, {"training": {"forward": jnp.ones(1)}})
    assert taken.training is True
    assert taken(torch.ones(1)).item() == 1
    assert [n for n, _ in Module(lambda p, x: p * x, jnp.ones(2)).named_parameters()] == ["params"]


def test_parameters_are_copies():
    array = jnp.ones(2)
    model = Module(lambda p, x: p * x, array)
    with torch.no_grad():
        next(model.parameters()).add_(1)
    np.testing.assert_array_equal(array, [1, 1])
    assert model(torch.ones(2)).tolist() == [2, 2]


def test_saving_loading_and_copying():
    model, other = module(), module()
    train(model, torch.optim.SGD(model.parameters(), 0.1))
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    x = BATCHES[0][0]
    for same in (other, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(same(x), model(x))
        with torch.no_grad():
            next(same.parameters()).add_(1)
        assert not torch.equal(same(x), model(x))


def test_dtypes_follow_the_module():
    model = module().to(torch.bfloat16)
    assert model(BATCHES[0][0].to(torch.bfloat16)).dtype == torch.bfloat16
    with jaxish.enable_x64(True):
        model = module().double()
        x = BATCHES[0][0][:2].double().requires_grad_()
        assert torch.autograd.gradcheck(lambda x, *p: model(x), (x, *model.parameters()))


def test_gradients_reach_inputs_and_modules_around():
    before, model = nn.Linear(3, 3), module()
    x = BATCHES[0][0].clone().requires_grad_()
    nn.Sequential(before, model)(x).square().sum().backward()
    tensors = {n: p.detach() for n, p in model.named_parameters()}

    def wanted(x, weight, bias):
        p = {
            "layers": [{k: tensors[f"layers.{i}.{k}"] for k in ("kernel", "bias")} for i in (0, 1)],
            "head": tensors["head"],
        }
        return apply(p, nn.functional.linear(x, weight, bias)).square().sum()

    slopes = torch.func.grad(wanted, (0, 1, 2))(x.detach(), before.weight.detach(), before.bias.detach())
    for found, slope in zip((x.grad, before.weight.grad, before.bias.grad), slopes, strict=True):
        torch.testing.assert_close(found, slope, rtol=1e-4, atol=1e-5)


def test_torch_func_over_a_module():
    model = module()
    state = {n: p.detach() for n, p in model.named_parameters()}
    x, y = BATCHES[0]

    def loss(state, x, y):
        return ((torch.func.functional_call(model, state, (x[None],)) - y) ** 2).mean()

    found = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(state, x, y)
    wanted = jax.vmap(jax.grad(lambda p, x, y: ((apply(p, x[None]) - y) ** 2).mean()), (None, 0, 0))(
        params(), x.numpy(), y.numpy()
    )
    assert_parameters(found, {"head": wanted["head"], **{
        f"layers.{i}.{k}": wanted["layers"][i][k] for i in (0, 1) for k in ("kernel", "bias")
    }})  # fmt: skip


def test_state_is_kept_in_training_mode():
    def normalized(p, state, x, *, train):
        if not train:
            return (x - state["mean"]) * p, state
        mean = x.mean(0)
        return (x - mean) * p, {"mean": 0.9 * state["mean"] + 0.1 * mean, "calls": state["calls"] + 1}

    model = Module(normalized, jnp.ones(3), {"mean": jnp.zeros(3), "calls": jnp.int32(0)})
    assert {n for n, _ in model.named_buffers()} == {"mean", "calls"}
    theirs = nn.BatchNorm1d(3, affine=False)
    x = BATCHES[-1][0]
    for x, _ in BATCHES:
        torch.testing.assert_close(model(x, train=True), x - x.mean(0))
        theirs(x)
    torch.testing.assert_close(model.mean, theirs.running_mean)
    assert model.calls == theirs.num_batches_tracked == len(BATCHES)
    model.eval()
    model(x, train=True)
    torch.testing.assert_close(model.mean, theirs.running_mean)
    torch.testing.assert_close(model(x, train=False), x - model.get_buffer("mean"))
    params, state = model.to_jax()
    assert (params.shape, state["calls"].dtype) == ((3,), np.int32)
    with pytest.raises(ValueError, match="structure"):
        Module(lambda p, s, x: (x, {}), jnp.ones(1), {"a": jnp.ones(1)})(x)


def test_inside_torch_compile():
    torch._dynamo.reset()

    def scaled(p, state, x, *, twice=False):
        return x @ p["w"] * (2 if twice else 1), {"calls": state["calls"] + 1}

    model = Module(scaled, {"w": jnp.arange(4.0).reshape(2, 2)}, {"calls": jnp.int32(0)})
    program = torch.compile(model, fullgraph=True, backend="aot_eager")
    x, w = torch.ones(3, 2), model.get_parameter("w")
    for calls, twice in enumerate((False, True, False), 1):
        w.grad = None
        y = program(x, twice=twice)
        torch.testing.assert_close(y, x @ w * (1 + twice))
        y.sum().backward()
        torch.testing.assert_close(w.grad, torch.full((2, 2), 3.0 * (1 + twice)))
        assert model.calls == calls


def test_safetensors(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    model, other = module(), module()
    train(model, torch.optim.SGD(model.parameters(), 0.1))
    safetensors.save_model(model, tmp_path / "model.safetensors")
    assert safetensors.load_model(other, tmp_path / "model.safetensors") == (set(), [])
    assert torch.equal(other(BATCHES[0][0]), model(BATCHES[0][0]))


def test_keys_in_the_state():
    def noisy(p, state, x):
        now, after = jaxish.random.split(state["key"])
        return x * p + jaxish.random.normal(now, x.shape), {"key": after}

    model = Module(noisy, jnp.ones(()), {"key": jaxish.random.key(7)})
    key = jax.random.key(7)
    for _ in range(3):
        now, key = jax.random.split(key)
        np.testing.assert_allclose(model(torch.zeros(4)).detach(), jax.random.normal(now, (4,)), rtol=1e-5)
    model(torch.ones(4)).sum().backward()  # the key that was drawn from has been written over
    assert [p.grad.item() for p in model.parameters() if p.grad is not None] == [4]
    _, key = jax.random.split(key)
    assert model.state_dict()["key"].dtype == torch.uint32
    assert jaxish.random.key_data(model.to_jax()[1]["key"]).tolist() == jax.random.key_data(key).tolist()


def test_torch_models_through_both_ways():
    theirs = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    pure, p, buffers = from_torch_module(theirs)
    model = Module(lambda p, x: pure(p, buffers, x)[0], p)
    assert model.state_dict().keys() == theirs.state_dict().keys()
    x = BATCHES[0][0]
    model(x).sum().backward()
    theirs(x).sum().backward()
    for (name, ours), wanted in zip(model.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.get_parameter(name).grad)
        assert wanted.grad is not None


def test_data_parallel_training_over_two_processes(tmp_path):
    wanted = trained_by_jax(optax.sgd(0.1, momentum=0.9))
    for found in in_processes("interop_processes.py", 2, tmp_path):
        assert_parameters(found["ddp"], wanted)
        assert_parameters(found["fsdp"], wanted)


# ------------------------------------------------------------------------------------------------------- optimizers

OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True},
    "Adam": {"lr": 0.01, "amsgrad": True},
    "AdamW": {"lr": 0.01, "weight_decay": 0.1},
    "RMSprop": {"lr": 0.01, "momentum": 0.5},
    "NAdam": {"lr": 0.01},
    "RAdam": {"lr": 0.01},
    "Adamax": {"lr": 0.01},
    "Adadelta": {"lr": 1.0},
    "Rprop": {"lr": 0.01},
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_torchs_optimizers_as_pure_functions(name):
    make = getattr(torch.optim, name)
    init, update = from_torch_optimizer(make, **OPTIMIZERS[name])
    start = {"a": np.linspace(-1, 1, 3, dtype=np.float32), "b": [np.eye(2, dtype=np.float32)]}
    loss = lambda lib, p: (p["a"] ** 4).sum() + lib.sin(p["b"][0] * 2).sum()

    def step(carry, _):
        p, state = carry
        updates, state = update(jaxish.grad(lambda p: loss(jnp, p))(p), state, p)
        return (jaxish.tree.map(jnp.add, p, updates), state), None

    p = jaxish.tree.map(jnp.asarray, start)
    (found, _), _ = jaxish.lax.scan(step, (p, init(p)), None, length=6)
    tensors = {"a": nn.Parameter(torch.tensor(start["a"])), "b": [nn.Parameter(torch.tensor(start["b"][0]))]}
    optimizer = make([tensors["a"], *tensors["b"]], **OPTIMIZERS[name])
    for _ in range(6):
        optimizer.zero_grad()
        loss(torch, tensors).backward()
        optimizer.step()
    np.testing.assert_allclose(found["a"], tensors["a"].detach(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found["b"][0], tensors["b"][0].detach(), rtol=1e-4, atol=1e-5)


def test_steps_of_an_optimizer_are_differentiated():
    def after(scale):
        init, update = from_torch_optimizer(torch.optim.SGD, lr=0.1)
        p, state = jnp.ones(2), init(jnp.ones(2))
        for _ in range(2):
            updates, state = update(p * scale, state, p)
            p = p + updates
        return p.sum()

    wanted = jax.grad(lambda s: 2 * (1 - s / 10) ** 2)(2.0)
    np.testing.assert_allclose(jaxish.grad(after)(2.0), wanted, rtol=1e-5)


def test_optimizers_that_look_at_values_are_refused():
    init, update = from_torch_optimizer(torch.optim.Adagrad, lr=0.1)
    with pytest.raises(jaxish.errors.ConcretizationTypeError):
        update(jnp.ones(2), init(jnp.ones(2)), jnp.ones(2))
    init, update = from_torch_optimizer(torch.optim.SGD, lr=0.1)
    with pytest.raises(ValueError, match="needs the parameters"):
        update(jnp.ones(2), init(jnp.ones(2)))


class Momentum:
    """A transformation by optax's convention, with state that is a pytree."""

    def init(self, params):
        return {"trace": jaxish.tree.map(jnp.zeros_like, params), "count": jnp.int32(0)}

    def update(self, updates, state, params=None):
        trace = jaxish.tree.map(lambda g, t: g + 0.9 * t, updates, state["trace"])
        return jaxish.tree.map(lambda t: -0.1 * t, trace), {"trace": trace, "count": state["count"] + 1}


def test_optaxs_convention_as_an_optimizer_of_torch():
    model, theirs = module(), module()
    optimizer = Optimizer(model.parameters(), Momentum())
    train(model, optimizer)
    train(theirs, torch.optim.SGD(theirs.parameters(), 0.1, momentum=0.9))
    for ours, wanted in zip(model.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(ours, wanted, rtol=1e-4, atol=1e-5)
    resumed = copy.deepcopy(model)
    other = Optimizer(resumed.parameters(), Momentum())
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    train(model, optimizer)
    train(resumed, other)
    for ours, wanted in zip(resumed.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours, wanted)
    assert other.step(lambda: 3.0) == 3.0


def test_flax_and_optax_in_torchs_loop(tmp_path):
    """The program prints the same numbers where torch's loop trains the model and where Flax and optax do."""
    program = Path(__file__).with_name("interop_flax_program.py")
    command = [sys.executable, "-m", "jaxish", "run", str(program)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    wanted = subprocess.run([sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert wanted.returncode == 0, wanted.stderr
    np.testing.assert_allclose(
        np.array(done.stdout.split(), float), np.array(wanted.stdout.split(), float), rtol=2e-3, atol=1e-4
    )


def test_the_compiled_tier(compiled):
    jaxish.clear_caches()
    model = module()
    train(model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9))
    assert_parameters(dict(model.named_parameters()), trained_by_jax(optax.sgd(0.1, momentum=0.9)))
    close = to_torch(lambda x: x.T)(torch.ones(2, 3))
    assert close.shape == (3, 2)
