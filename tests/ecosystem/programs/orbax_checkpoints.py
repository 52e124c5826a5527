"""A training run that is written to disk by Orbax, stopped, and gone on with from there: parameters, optimizer, keys, steps."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp

X = jnp.asarray(np.random.default_rng(0).normal(size=(64, 5)), jnp.float32)
Y = X @ jnp.arange(5.0)
optimizer = optax.adam(0.05)


def fresh():
    parameters = {"w": jnp.zeros(5), "b": jnp.zeros((), jnp.bfloat16)}
    return {"parameters": parameters, "state": optimizer.init(parameters), "key": jax.random.PRNGKey(1), "step": 0}


@jax.jit
def update(parameters, state, key):
    key, own = jax.random.split(key)
    rows = jax.random.choice(own, len(X), (16,), replace=False)

    def loss(p):
        return jnp.mean((X[rows] @ p["w"] + p["b"].astype(jnp.float32) - Y[rows]) ** 2)

    value, slopes = jax.value_and_grad(loss)(parameters)
    changes, state = optimizer.update(slopes, state)
    return optax.apply_updates(parameters, changes), state, key, value


def train(run, steps):
    for _ in range(steps):
        run["parameters"], run["state"], run["key"], value = update(run["parameters"], run["state"], run["key"])
        run["step"] += 1
    return float(value)


folder = pathlib.Path.cwd() / "run"
run = fresh()
with ocp.CheckpointManager(folder, options=ocp.CheckpointManagerOptions(max_to_keep=2)) as manager:
    for _ in range(3):
        print(train(run, 20))
        manager.save(run["step"], args=ocp.args.StandardSave(run))
    manager.wait_until_finished()
    print(*manager.all_steps())

with ocp.CheckpointManager(folder) as manager:
    found = manager.restore(40, args=ocp.args.StandardRestore(fresh()))
print(found["step"], *np.asarray(found["parameters"]["w"]), float(found["parameters"]["b"]))
print(train(found, 20))
