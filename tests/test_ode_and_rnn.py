"""jax.experimental.ode and jax.experimental.rnn against JAX's."""

import importlib

import numpy as np
import pytest
from oracle import agree

import jaxish


def experimental(j, name):
    return importlib.import_module(f"{j.__name__}.experimental.{name}")


def pendulum(j):
    def slope(state, t, friction, gravity):
        angle, speed = state
        return speed, -friction * speed - gravity * j.numpy.sin(angle)

    return slope


def network(j):
    return lambda y, t, p: j.numpy.tanh(p["a"] @ y + p["b"] * t)


NETWORK = {"a": np.array([[0.1, -1.0], [1.0, 0.2]], "float32"), "b": np.array([0.3, -0.2], "float32")}


def test_solutions():
    def program(j):
        odeint, t = experimental(j, "ode").odeint, j.numpy.linspace(0.0, 2.0, 5)
        y0 = j.numpy.array([0.5, -1.0])
        batch = j.vmap(lambda y: odeint(network(j), y, t, NETWORK))(j.numpy.stack([y0, 2 * y0]))
        complex_ = odeint(lambda y, t: 1j * y, j.numpy.array([1 + 0j]), t)
        bounded = odeint(lambda y, t: -y, y0, t, rtol=1e-4, atol=1e-4, hmax=0.05)
        return odeint(pendulum(j), (y0[0], y0[1]), t, 0.25, 9.8), batch, complex_, bounded

    agree(program, rtol=1e-4, atol=1e-5, weak=False)


def test_gradients():
    def program(j):
        odeint, t = experimental(j, "ode").odeint, j.numpy.linspace(0.0, 1.0, 4)
        bias = j.numpy.float32(0.3)

        def loss(y0, t, p, bias):
            return (odeint(lambda y, t, p: network(j)(y, t, p) + bias, y0, t, p) ** 2)[1:].sum()

        return j.jit(j.grad(loss, (0, 1, 2, 3)))(j.numpy.array([0.5, -1.0]), t, NETWORK, bias)

    agree(program, rtol=1e-3, atol=1e-4)


def test_solution_without_jit():
    def program(j):
        with j.disable_jit():
            return experimental(j, "ode").odeint(lambda y, t: -y, j.numpy.ones(2), j.numpy.array([0.0, 0.1]), rtol=1e-3)

    agree(program, rtol=1e-4)


def test_solution_in_double_precision_is_exact():
    with jaxish.enable_x64(True):
        t = np.linspace(0.0, 3.0, 7)
        found = experimental(jaxish, "ode").odeint(
            lambda y, t: y * np.cos(1.0) * t, np.float64(1.0), t, rtol=1e-10, atol=1e-12
        )
    np.testing.assert_allclose(found, np.exp(np.cos(1.0) * t**2 / 2), rtol=1e-8)


def test_errors():
    agree(lambda j: experimental(j, "ode").odeint(lambda y, t: y, 1.0, np.arange(3)))
    agree(lambda j: experimental(j, "ode").odeint(lambda y, t, a: y, 1.0, np.arange(3.0), "text"))


def test_parts_of_a_step():
    def program(j):
        o = experimental(j, "ode")
        y, t, dt = j.numpy.array([1.0, 2.0]), j.numpy.float32(0.5), j.numpy.float32(0.25)
        f = lambda y, t: y * t
        y1, f1, error, k = o.runge_kutta_step(f, y, f(y, t), t, dt)
        step = o.initial_step_size(f, t, y, 4, 1e-3, 1e-3, f(y, t))
        ratio = o.mean_error_ratio(error, 1e-3, 1e-3, y, y1)
        return y1, f1, k, o.interp_fit_dopri(y, y1, k, dt), step, o.optimal_step_size(dt, ratio + 0.5), o.abs2(y * 1j)

    agree(program, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_lstm(bidirectional):
    sizes = (4, 6, 2)
    random = np.random.default_rng(0)
    x, h, c = (random.normal(size=s).astype("float32") for s in ((3, 5, 4), *[(4 if bidirectional else 2, 3, 6)] * 2))
    lengths = np.array([5, 3, 1], "int32")

    def program(j):
        r = experimental(j, "rnn")
        weights = r.init_lstm_weight(j.random.key(0), *sizes, bidirectional)

        def run(x, h, c, weights):
            parts = r.unpack_lstm_weights(weights, *sizes, bidirectional)
            return r.lstm_ref(x, h, c, *parts, lengths, *sizes, 0.0, bidirectional)

        gradient = j.grad(lambda *args: sum((part**2).sum() for part in run(*args)), (0, 1, 2, 3))
        swapped = r.swap_lstm_gates(weights, *sizes, bidirectional)
        return (
            run(x, h, c, weights),
            gradient(x, h, c, weights),
            swapped,
            r.get_num_params_in_lstm(*sizes, bidirectional),
        )

    agree(program, rtol=1e-4)
    r = experimental(jaxish, "rnn")
    weights = r.init_lstm_weight(jaxish.random.key(0), *sizes, bidirectional)
    parts = r.unpack_lstm_weights(weights, *sizes, bidirectional)
    by_layer = r.lstm_ref(x, h, c, *parts, lengths, *sizes, 0.0, bidirectional)
    static = (*sizes, 0.0, bidirectional, None)
    results, residuals = r.lstm_fwd(*map(jaxish.numpy.asarray, (x, h, c, weights, lengths)), *static)
    for a, b in zip(results, by_layer, strict=True):
        np.testing.assert_array_equal(a, b)
    *cotangents, none = r.lstm_bwd(*static, residuals, results)
    assert [g.shape for g in cotangents] == [x.shape, h.shape, c.shape, weights.shape]
    assert none.dtype == np.int32


def test_lstm_is_torchs():
    import torch

    random = np.random.default_rng(0)
    x = random.normal(size=(2, 4, 3)).astype("float32")
    module = torch.nn.LSTM(3, 5, num_layers=2, batch_first=True, bidirectional=True)
    named = dict(module.named_parameters())
    layers = [f"l{k}{d}" for k in range(2) for d in ("", "_reverse")]
    order = [
        f"{w}_{layer}"
        for kinds in (("weight_ih", "weight_hh"), ("bias_ih", "bias_hh"))
        for layer in layers
        for w in kinds
    ]
    weights = torch.cat([named[name].detach().reshape(-1) for name in order]).numpy()
    zero = np.zeros((4, 2, 5), "float32")
    y, h, c = experimental(jaxish, "rnn").lstm(
        *map(jaxish.numpy.asarray, (x, zero, zero, weights, np.full(2, 4, "int32"))), 3, 5, 2, 0.0, True
    )
    with torch.no_grad():
        wanted, (last_h, last_c) = module(torch.from_numpy(x))
    for found, torchs in ((y, wanted), (h, last_h), (c, last_c)):
        np.testing.assert_allclose(found, torchs.numpy(), atol=1e-6)
