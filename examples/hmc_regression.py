"""Bayesian linear regression by Hamiltonian Monte Carlo, on the diabetes data that scikit-learn bundles: 442 patients.

Written against `jax` alone: it runs on real JAX (`python hmc_regression.py`) and, unchanged, on PyTorch
(`python -m jaxish run hmc_regression.py`), with the same random bits.

The sampler knows nothing but the log density, and `jax.grad` of it: leapfrog steps by `lax.fori_loop`, iterations by
`lax.scan`, chains by `jax.vmap`. While it warms up it finds its step size by dual averaging (Hoffman and Gelman, "The
No-U-Turn sampler", 2014). The weights' posterior is also known in closed form, given the noise, which the draws must agree with.
"""

import argparse
import time
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

PRIOR_DEVIATION = 1.0  # of each weight, for features and targets of unit variance


def load_data():
    """Return features (442, 10) and targets (442,), standardised, and the features' names."""
    from sklearn.datasets import load_diabetes

    data: Any = load_diabetes(scaled=False)
    standardised = [(x - x.mean(0)) / x.std(0) for x in (data.data, data.target)]
    return *(x.astype(np.float32) for x in standardised), list(data.feature_names)


def log_density(position, features, targets):
    """Return the log of the posterior density of weights and log noise, up to a constant; position (features + 1,)."""
    weights, log_noise = position[:-1], position[-1]
    residuals = (targets - features @ weights) / jnp.exp(log_noise)
    prior = -0.5 * jnp.sum((weights / PRIOR_DEVIATION) ** 2) - 0.5 * log_noise**2
    return prior - 0.5 * jnp.sum(residuals**2) - targets.shape[0] * log_noise


# ---------------------------------------------------------------------------------------------------------- the sampler


class StepSize(NamedTuple):
    """What dual averaging keeps: log step sizes, of now and averaged, and by how much acceptance fell short on average."""

    log_step: jax.Array
    log_average: jax.Array
    shortfall: jax.Array


def adapted(state, acceptance, iteration, first_log_step, target=0.8):
    """Return the step size after an iteration that accepted with this probability (Hoffman and Gelman, section 3.2)."""
    weight = 1 / (iteration + 10)
    shortfall = (1 - weight) * state.shortfall + weight * (target - acceptance)
    log_step = jnp.log(10.0) + first_log_step - jnp.sqrt(iteration) / 0.05 * shortfall
    eta = iteration**-0.75
    return StepSize(log_step, eta * log_step + (1 - eta) * state.log_average, shortfall)


def leapfrog(log_density, position, momentum, step_size, steps):
    """Return position and momentum after steps along the Hamiltonian's flow."""
    gradient = jax.grad(log_density)
    momentum = momentum + 0.5 * step_size * gradient(position)

    def step(_, state):
        position, momentum = state
        position = position + step_size * momentum
        return position, momentum + step_size * gradient(position)

    position, momentum = lax.fori_loop(0, steps, step, (position, momentum))
    return position, momentum - 0.5 * step_size * gradient(position)  # the last kick was a whole one


def transition(log_density, key, position, step_size, steps):
    """Return the next position of a chain, and the probability with which the proposal was accepted.

    The step size varies by a fifth, so that no trajectory comes back to where it began (Neal, "MCMC using Hamiltonian
    dynamics", 2011).
    """
    momentum_key, size_key, accept_key = random.split(key, 3)
    momentum = random.normal(momentum_key, position.shape)
    step_size = step_size * random.uniform(size_key, minval=0.8, maxval=1.2)
    proposal, proposed_momentum = leapfrog(log_density, position, momentum, step_size, steps)
    before = log_density(position) - 0.5 * jnp.sum(momentum**2)
    after = log_density(proposal) - 0.5 * jnp.sum(proposed_momentum**2)
    acceptance = jnp.nan_to_num(jnp.exp(jnp.minimum(0.0, after - before)), nan=0.0)
    accepted = random.uniform(accept_key) < acceptance
    return jnp.where(accepted, proposal, position), acceptance


def warm_up(log_density, key, position, iterations, steps, first_step=0.01):
    """Return a chain's position after warming up, and the step size that it found."""
    first_log_step = jnp.log(first_step)

    def iterate(carry, iteration):
        position, state = carry
        step_size = jnp.exp(state.log_step)
        position, acceptance = transition(log_density, random.fold_in(key, iteration), position, step_size, steps)
        return (position, adapted(state, acceptance, iteration.astype(jnp.float32), first_log_step)), None

    start = StepSize(first_log_step, jnp.float32(0), jnp.float32(0))
    (position, state), _ = lax.scan(iterate, (position, start), jnp.arange(1, iterations + 1))
    return position, jnp.exp(state.log_average)


def draws(log_density, key, position, step_size, iterations, steps):
    """Return a chain's positions, and how probable it was that each was accepted."""

    def iterate(position, iteration):
        position, acceptance = transition(log_density, random.fold_in(key, iteration), position, step_size, steps)
        return position, (position, acceptance)

    _, found = lax.scan(iterate, position, jnp.arange(iterations))
    return found


@partial(jax.jit, static_argnames=("warm_ups", "steps"))
def warm_up_all(keys, positions, features, targets, *, warm_ups, steps):
    """Return the positions of all chains after warming up, and their step sizes."""
    density = partial(log_density, features=features, targets=targets)
    return jax.vmap(lambda key, position: warm_up(density, key, position, warm_ups, steps))(keys, positions)


@partial(jax.jit, static_argnames=("iterations", "steps"))
def draws_of_all(keys, positions, step_sizes, features, targets, *, iterations, steps):
    """Return draws (chains, iterations, parameters) and acceptance (chains, iterations)."""
    density = partial(log_density, features=features, targets=targets)
    sample = partial(draws, density, iterations=iterations, steps=steps)
    return jax.vmap(sample)(keys, positions, step_sizes)


# ------------------------------------------------------------------------------------------------- what the draws tell


def r_hat(chains):
    """Return by how much the spread between half chains exceeds that within them (Gelman and Rubin), 1 when they agree."""
    halves = chains.reshape(2 * chains.shape[0], chains.shape[1] // 2, -1)
    length = halves.shape[1]
    within = halves.var(1, ddof=1).mean(0)
    between = length * halves.mean(1).var(0, ddof=1)
    return jnp.sqrt((length - 1) / length + between / (length * within))


def effective_sample_size(chains):
    """Return how many independent draws tell as much, by Geyer's initial positive sequence of autocorrelations."""
    count, length, _ = chains.shape
    centred = chains - chains.mean(1, keepdims=True)
    spectrum = jnp.abs(jnp.fft.rfft(centred, 2 * length, axis=1)) ** 2
    covariance = jnp.fft.irfft(spectrum, axis=1)[:, :length].mean(0) / length
    within = covariance[0] * length / (length - 1)
    total = covariance[0] + chains.mean(1).var(0, ddof=1)
    correlation = 1 - (within - covariance) / total
    pairs = correlation[: length // 2 * 2].reshape(length // 2, 2, -1).sum(1)
    positive = jnp.cumprod(pairs > 0, axis=0)
    return count * length / (2 * (pairs * positive).sum(0) - 1)


def closed_form(features, targets, noise):
    """Return means and standard deviations of the weights' posterior, given the noise: the prior is conjugate."""
    precision = features.T @ features / noise**2 + jnp.eye(features.shape[1]) / PRIOR_DEVIATION**2
    covariance = jnp.linalg.inv(precision)
    return covariance @ features.T @ targets / noise**2, jnp.sqrt(jnp.diagonal(covariance))


def infer(options, report=print):
    """Sample; return the draws (chains, iterations, parameters) and, for each feature, a row of what they tell."""
    from tqdm import tqdm

    features, targets, names = load_data()
    start_key, warm_key, key = random.split(random.key(options.seed), 3)
    positions = 0.1 * random.normal(start_key, (options.chains, features.shape[1] + 1))
    positions, step_sizes = warm_up_all(
        random.split(warm_key, options.chains),
        positions,
        features,
        targets,
        warm_ups=options.warm_up,
        steps=options.steps,
    )
    report(f"step sizes {np.array2string(np.asarray(step_sizes), precision=4)}")
    blocks, acceptances = [], []
    for block in tqdm(range(options.blocks), desc="draws", disable=options.quiet, leave=False):
        found, acceptance = draws_of_all(
            random.split(random.fold_in(key, block), options.chains), positions, step_sizes, features, targets,
            iterations=options.draws // options.blocks, steps=options.steps,
        )  # fmt: skip
        positions = found[:, -1]
        blocks.append(found)
        acceptances.append(acceptance)
    chains = jnp.concatenate(blocks, axis=1)
    report(
        f"accepted {float(jnp.concatenate(acceptances).mean()):.3f} of {chains.shape[0]} x {chains.shape[1]} proposals"
    )
    means, deviations = chains.mean((0, 1)), chains.std((0, 1))
    wanted, wanted_deviations = closed_form(features, targets, jnp.exp(means[-1]))
    told = [
        means[:-1],
        deviations[:-1],
        wanted,
        wanted_deviations,
        r_hat(chains)[:-1],
        effective_sample_size(chains)[:-1],
    ]
    return np.asarray(chains), names, np.stack([np.asarray(column) for column in told], axis=1)


def draw(chains, names, rows, path):
    """Write a picture of the chains, and of the posterior's closed form, for some weights."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = [names.index(name) for name in ("bmi", "bp", "s1", "s5")]
    figure, axes = plt.subplots(len(shown), 2, figsize=(9, 7), width_ratios=(3, 1), sharey="row")
    for (trace, histogram), feature in zip(axes, shown, strict=True):
        mean, deviation = rows[feature, 2:4]
        for chain in chains[..., feature]:
            trace.plot(chain, linewidth=0.3)
        trace.set(ylabel=names[feature])
        histogram.hist(chains[..., feature].ravel(), bins=50, density=True, orientation="horizontal", alpha=0.5)
        grid = np.linspace(mean - 4 * deviation, mean + 4 * deviation, 200)
        density = np.exp(-0.5 * ((grid - mean) / deviation) ** 2) / (deviation * np.sqrt(2 * np.pi))
        histogram.plot(density, grid, color="black", linewidth=0.8)
    axes[0, 0].set(title="weights, by chain")
    axes[0, 1].set(title="closed form in black")
    axes[-1, 0].set(xlabel="draw")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--warm-up", type=int, default=500, help="iterations that find the step size")
    parser.add_argument("--draws", type=int, default=2000, help="iterations after that")
    parser.add_argument("--blocks", type=int, default=10, help="calls that the draws are made in")
    parser.add_argument("--steps", type=int, default=12, help="leapfrog steps of an iteration")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", default="hmc_regression.png", help="file to draw the chains to")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args()
    print(f"{jax.__name__} {jax.__version__} on {jax.devices()[0]}: {options.chains} chains")
    start = time.perf_counter()
    chains, names, rows = infer(options)
    print(f"sampled in {time.perf_counter() - start:.1f} s")
    print("feature    mean     sd   closed form     sd  R-hat  effective draws")
    for name, (mean, deviation, wanted, wanted_deviation, ratio, size) in zip(names, rows, strict=True):
        print(
            f"{name:7} {mean:7.3f} {deviation:6.3f}   {wanted:11.3f} {wanted_deviation:6.3f}  {ratio:5.3f}  {size:15.0f}"
        )
    farthest = np.max(np.abs(rows[:, 0] - rows[:, 2]) / rows[:, 3])
    print(f"means are within {farthest:.3f} posterior standard deviations of the closed form: {farthest < 0.2}")
    draw(chains, names, rows, options.picture)
    print(f"wrote {options.picture}")


if __name__ == "__main__":
    main()
