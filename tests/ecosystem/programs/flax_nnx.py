"""A network of Flax NNX's, with its optimizer as mutable state of a jitted step."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx


class Network(nnx.Module):
    def __init__(self, rngs):
        self.hidden, self.out = nnx.Linear(2, 16, rngs=rngs), nnx.Linear(16, 1, rngs=rngs)

    def __call__(self, x):
        return self.out(nnx.relu(self.hidden(x)))


network = Network(nnx.Rngs(0))
optimizer = nnx.Optimizer(network, optax.adam(1e-2), wrt=nnx.Param)
inputs = jax.random.normal(jax.random.key(1), (32, 2))
targets = jnp.sin(inputs[:, :1])


@nnx.jit
def step(network, optimizer, x, y):
    value, gradient = nnx.value_and_grad(lambda m: jnp.mean((m(x) - y) ** 2))(network)
    optimizer.update(network, gradient)
    return value


for _ in range(20):
    print(float(step(network, optimizer, inputs, targets)))
