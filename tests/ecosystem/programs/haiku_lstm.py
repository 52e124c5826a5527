"""An LSTM of Haiku's, unrolled by scan, trained to add up its inputs."""

import haiku as hk
import jax
import jax.numpy as jnp
import optax

inputs = jax.random.normal(jax.random.key(1), (7, 16, 3))
targets = inputs.sum((0, 2))


def unrolled(x):
    core = hk.LSTM(8)
    outputs, _ = hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))
    return hk.Linear(1)(outputs[-1])[:, 0]


network = hk.without_apply_rng(hk.transform(unrolled))
params = network.init(jax.random.key(0), inputs)
optimizer = optax.adam(1e-2)
state = optimizer.init(params)


@jax.jit
def step(params, state):
    value, gradient = jax.value_and_grad(lambda p: jnp.mean((network.apply(p, inputs) - targets) ** 2))(params)
    updates, state = optimizer.update(gradient, state)
    return optax.apply_updates(params, updates), state, value


for _ in range(20):
    params, state, value = step(params, state)
    print(float(value))
