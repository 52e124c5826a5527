"""Linear regression by Optax: clipped gradients, AdamW, a schedule."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

generator = np.random.RandomState(0)
features = jnp.asarray(generator.randn(64, 4), jnp.float32)
targets = features @ jnp.array([1.0, -2.0, 3.0, 0.5])
params = {"w": jnp.zeros(4), "b": jnp.zeros(())}
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.cosine_decay_schedule(0.1, 200)))
state = optimizer.init(params)


@jax.jit
def step(params, state):
    loss = lambda p: jnp.mean((features @ p["w"] + p["b"] - targets) ** 2)
    value, gradient = jax.value_and_grad(loss)(params)
    updates, state = optimizer.update(gradient, state, params)
    return optax.apply_updates(params, updates), state, value


for _ in range(150):
    params, state, value = step(params, state)
print(*np.asarray(params["w"]), float(value))
