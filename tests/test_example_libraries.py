"""jax.example_libraries against JAX's: the same networks from the same keys, the same steps of the optimizers."""

import importlib

import numpy as np
import pytest
from oracle import agree

pytestmark = pytest.mark.usefixtures("unoptimized_jax")


def library(j, name):
    return importlib.import_module(f"{j.__name__}.example_libraries.{name}")


RATES = {
    "sgd": (), "momentum": (0.9,), "nesterov": (0.9,), "adagrad": (), "rmsprop": (), "rmsprop_momentum": (), "adam": (),
    "adamax": (), "sm3": (),
}  # fmt: skip


@pytest.mark.parametrize("name", RATES)
def test_optimizers(name):
    def program(j):
        o = library(j, "optimizers")
        init, update, get = getattr(o, name)(o.inverse_time_decay(0.1, 3, 0.5), *RATES[name])
        params = {"w": j.numpy.arange(6.0).reshape(2, 3) / 5, "b": (j.numpy.float32(0.5),)}
        state = init(params)
        gradient = j.grad(lambda p: ((p["w"] - 1) ** 2).sum() + p["b"][0] ** 2)
        step = j.jit(lambda i, s: update(i, gradient(get(s)), s))
        for i in range(5):
            state = step(i, state)
        packed = o.pack_optimizer_state(o.unpack_optimizer_state(state))
        return get(state), get(packed), j.tree.leaves(state)

    agree(program)


def test_schedules_and_gradients():
    def program(j):
        o = library(j, "optimizers")
        schedules = [
            o.constant(0.3), o.exponential_decay(0.1, 3, 0.9), o.inverse_time_decay(0.1, 3, 0.5, staircase=True),
            o.polynomial_decay(1.0, 50, 0.1, 2.0), o.piecewise_constant([25, 75], [2.0, 1.0, 0.5]), o.make_schedule(0.5),
        ]  # fmt: skip
        tree = {"a": j.numpy.arange(3.0), "b": j.numpy.ones((2, 2))}
        return (
            [[s(i) for i in (0, 30, 80)] for s in schedules],
            o.l2_norm(tree),
            o.clip_grads(tree, 1.5),
            o.clip_grads(tree, 9.0),
        )

    agree(program, weak=False)


@pytest.mark.parametrize(
    "program",
    [
        lambda o: o.piecewise_constant([1, 2], [1.0, 2.0]), lambda o: o.make_schedule(np.ones(2)),
        lambda o: o.sgd(0.1).update_fn(0, (1.0,), o.sgd(0.1).init_fn([1.0])),
    ],
)  # fmt: skip
def test_errors_of_optimizers(program):
    agree(lambda j: program(library(j, "optimizers")))


IMAGES = np.random.default_rng(0).normal(size=(2, 9, 10, 3)).astype("float32")
LAYERS = {
    "dense": lambda s: s.serial(s.Flatten, s.Dense(7), s.Tanh, s.Dense(3), s.LogSoftmax),
    "convolutions": lambda s: s.serial(
        s.Conv(4, (3, 2), (2, 1), "SAME"), s.BatchNorm(), s.Relu, s.ConvTranspose(5, (2, 2), (2, 2)), s.Softplus
    ),
    "general": lambda s: s.GeneralConv(("NHWC", "OIHW", "NCHW"), 4, (3, 3), padding="SAME"),
    "pools": lambda s: s.serial(s.MaxPool((2, 2), (2, 2)), s.AvgPool((3, 3), padding="SAME"), s.SumPool((2, 1))),
    "fans": lambda s: s.serial(
        s.FanOut(3), s.parallel(s.Identity, s.elementwise(abs), s.Exp), s.FanInConcat(-1), s.FanOut(2), s.FanInSum
    ),
    "activations": lambda s: s.serial(s.Elu, s.LeakyRelu, s.Selu, s.Gelu, s.Sigmoid, s.Softmax),
    "dropout": lambda s: s.serial(s.Dropout(0.7), s.Dropout(0.7, mode="test")),
    "dependent": lambda s: s.shape_dependent(lambda shape: s.Dense(shape[-1] + 1)),
    "normalisation": lambda s: s.BatchNorm(axis=(0, 1), center=False, epsilon=1e-3),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    def program(j):
        init, apply = LAYERS[name](library(j, "stax"))
        shape, params = init(j.random.key(3), IMAGES.shape)
        found = apply(params, j.numpy.asarray(IMAGES), rng=j.random.key(4))
        gradient = j.grad(lambda p: (apply(p, j.numpy.asarray(IMAGES), rng=j.random.key(4)) ** 2).sum())(params)
        return [int(n) for n in shape], params, found, gradient

    agree(program, rtol=2e-4, atol=2e-4)


def test_dropout_needs_a_key():
    agree(lambda j: library(j, "stax").Dropout(0.5)[1]((), IMAGES))
