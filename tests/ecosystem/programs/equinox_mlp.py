"""A multilayer perceptron of equinox's, filtered through jit and grad, saved as a pytree."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

network = eqx.nn.MLP(2, 1, 8, 2, key=jax.random.key(0))
inputs = jax.random.normal(jax.random.key(1), (32, 2))
targets = jnp.sin(inputs[:, :1])
optimizer = optax.adam(1e-2)
state = optimizer.init(eqx.filter(network, eqx.is_array))


@eqx.filter_jit
def step(network, state):
    loss = lambda network: jnp.mean((jax.vmap(network)(inputs) - targets) ** 2)
    value, gradient = eqx.filter_value_and_grad(loss)(network)
    updates, state = optimizer.update(gradient, state)
    return eqx.apply_updates(network, updates), state, value


for _ in range(20):
    network, state, value = step(network, state)
    print(float(value))
