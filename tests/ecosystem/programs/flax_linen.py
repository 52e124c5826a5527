"""A network of Flax linen's with batch normalization and dropout."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class Network(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.BatchNorm(use_running_average=False)(nn.Dense(16)(x)))
        return nn.Dense(1)(nn.Dropout(0.1, deterministic=False)(x))


network = Network()
inputs = jax.random.normal(jax.random.key(1), (32, 2))
targets = jnp.sin(inputs[:, :1])
variables = network.init({"params": jax.random.key(0), "dropout": jax.random.key(2)}, inputs)
params, statistics = variables["params"], variables["batch_stats"]
optimizer = optax.adam(1e-2)
state = optimizer.init(params)


@jax.jit
def step(params, statistics, state, key):
    def loss(params):
        variables = {"params": params, "batch_stats": statistics}
        outputs, changed = network.apply(variables, inputs, rngs={"dropout": key}, mutable=["batch_stats"])
        return jnp.mean((outputs - targets) ** 2), changed["batch_stats"]

    (value, statistics_now), gradient = jax.value_and_grad(loss, has_aux=True)(params)
    updates, state = optimizer.update(gradient, state)
    return optax.apply_updates(params, updates), statistics_now, state, value


for i in range(20):
    params, statistics, state, value = step(params, statistics, state, jax.random.key(i))
    print(float(value))
