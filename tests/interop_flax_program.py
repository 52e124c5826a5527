"""Trains a Flax model with BatchNorm: as torch's module with an optax optimizer where jaxish runs as JAX, else as in JAX."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax


class Model(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.Dense(8, use_bias=False)(x)  # whose slope would be rounding errors, which Adam makes large
        x = nn.BatchNorm(use_running_average=not train, momentum=0.9)(x)
        return nn.Dense(1)(nn.relu(x))


model = Model()
x = np.random.RandomState(0).standard_normal((16, 3)).astype(np.float32)
y = x[:, :1] * x[:, 1:2]
variables = model.init(jax.random.key(0), jnp.asarray(x), train=False)
transformation = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-2))


def loss(params, state, x, y):
    out, after = model.apply({"params": params, **state}, x, train=True, mutable=["batch_stats"])
    return ((out - y) ** 2).mean(), after


def in_jax(params, state):
    optimizer = transformation.init(params)
    for _ in range(5):
        (value, state), slopes = jax.value_and_grad(loss, has_aux=True)(params, state, x, y)
        updates, optimizer = transformation.update(slopes, optimizer, params)
        params = optax.apply_updates(params, updates)
        print(float(value))
    return params, state


def in_torch(params, state):
    import torch

    from jaxish.interop import Module, Optimizer

    def run(params, state, x, train):
        return model.apply({"params": params, **state}, x, train=train, mutable=["batch_stats"])

    module = Module(run, params, state)
    optimizer = Optimizer(module.parameters(), transformation)
    assert "Dense_0.kernel" in module.state_dict()
    assert "batch_stats.BatchNorm_0.mean" in module.state_dict()
    for _ in range(5):
        optimizer.zero_grad()
        value = ((module(torch.tensor(x), train=True) - torch.tensor(y)) ** 2).mean()
        value.backward()
        optimizer.step()
        print(value.item())
    return module.to_jax()


run = in_torch if "jaxish" in type(jnp.ones(1)).__module__ else in_jax
params, state = run(variables["params"], {"batch_stats": variables["batch_stats"]})
for leaf in jax.tree.leaves((params, state)):
    print(float(jnp.sum(leaf)), float(jnp.sum(leaf * leaf)))
