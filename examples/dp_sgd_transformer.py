"""A small transformer that learns to write Python's documentation under differential privacy, character by character.

Written against `jax` alone: it runs on real JAX (`python dp_sgd_transformer.py`) and, unchanged, on PyTorch
(`python -m jaxish run dp_sgd_transformer.py`), with the same random bits.

An example is a piece of the text. Each step draws a Poisson sample of them, padded to a fixed number so that one graph
serves all steps, goes through it in microbatches, clips the gradient of every example to a fixed norm and adds Gaussian
noise to the sum. The clipping is written out below; `--clipping optax` leaves it, and the noise, to Optax's
`differentially_private_aggregate`. The picture shows how the norms and the share of clipped gradients develop.
"""

import argparse
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

WIDTH, HEADS = 64, 4
DELTA = 1e-5


def load_text(length):
    """Return the text that comes with Python in pieces of `length + 1` characters, as numbers, and the characters."""
    from pydoc_data.topics import topics

    text = "\n".join(topics[name] for name in sorted(topics))
    characters = sorted(set(text))
    number = {character: i for i, character in enumerate(characters)}
    numbers = np.array([number[character] for character in text], np.int32)
    pieces = numbers[: len(numbers) // (length + 1) * (length + 1)].reshape(-1, length + 1)
    order = np.random.default_rng(0).permutation(len(pieces))
    return pieces[order], characters


# ------------------------------------------------------------------------------------------------------------ the model


def init(key, characters, length):
    """Return the parameters: an embedding, which is also the output layer, and one layer."""
    shapes = {
        "symbols": (characters, WIDTH), "places": (length, WIDTH), "qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH),
        "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH),
    }  # fmt: skip
    keys = random.split(key, len(shapes))
    params = {n: random.normal(k, s) / jnp.sqrt(WIDTH) for k, (n, s) in zip(keys, shapes.items(), strict=True)}
    norms = {f"norm{i}": {"scale": jnp.ones(WIDTH), "bias": jnp.zeros(WIDTH)} for i in range(3)}
    return {**params, **norms, "bias": jnp.zeros(4 * WIDTH)}


def layer_norm(x, norm):
    """Return x with mean zero and variance one along its last axis, scaled and shifted."""
    x = x - x.mean(-1, keepdims=True)
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * norm["scale"] + norm["bias"]


def logits(params, tokens):
    """Return the logits of the next character after each one of a sequence."""
    length = len(tokens)
    x = params["symbols"][tokens] + params["places"]
    qkv = layer_norm(x, params["norm0"]) @ params["qkv"]
    query, key, value = (part.reshape(length, HEADS, -1) for part in jnp.split(qkv, 3, -1))
    scores = jnp.einsum("qhd,khd->hqk", query, key) / jnp.sqrt(query.shape[-1])
    weights = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -jnp.inf))
    x = x + jnp.einsum("hqk,khd->qhd", weights, value).reshape(length, WIDTH) @ params["out"]
    x = x + jax.nn.gelu(layer_norm(x, params["norm1"]) @ params["up"] + params["bias"]) @ params["down"]
    return layer_norm(x, params["norm2"]) @ params["symbols"].T


def loss(params, piece):
    """Return the mean cross-entropy of each character of a piece given those before it."""
    log_probabilities = jax.nn.log_softmax(logits(params, piece[:-1]))
    return -jnp.mean(jnp.take_along_axis(log_probabilities, piece[1:, None], -1))


# --------------------------------------------------------------------------------------------------------- the training


def norm_of(gradient):
    """Return the norm over all parameters."""
    return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))


def clipped_sum(params, pieces, included, max_norm, microbatch):
    """Return the sum of the clipped gradients of the pieces that are included, and the norms of all gradients."""

    def add(total, pieces_and_mask):
        pieces, included = pieces_and_mask
        gradients = jax.vmap(jax.grad(loss), (None, 0))(params, pieces)
        norms = jax.vmap(norm_of)(gradients)
        scale = included * jnp.minimum(1.0, max_norm / (norms + 1e-12))
        return jax.tree.map(lambda t, g: t + jnp.tensordot(scale, g, 1), total, gradients), norms

    parts = (pieces.reshape(-1, microbatch, pieces.shape[1]), included.reshape(-1, microbatch))
    total, norms = lax.scan(add, jax.tree.map(jnp.zeros_like, params), parts)
    return total, norms.reshape(-1)


def adam(params, moments, gradient, step, rate):
    """Return parameters and moments after a step of Adam (Kingma and Ba, 2015); steps count from 1."""
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], gradient)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, moments[1], gradient)
    size = rate * jnp.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    params = jax.tree.map(lambda p, m, v: p - size * m / (jnp.sqrt(v) + 1e-8), params, first, second)
    return params, (first, second)


@partial(jax.jit, static_argnames=("max_norm", "noise", "expected", "rate", "microbatch"))
def private_step(params, moments, key, step, pieces, included, *, max_norm, noise, expected, rate, microbatch):
    """Return parameters, moments and gradient norms; `included` masks the pieces that pad the Poisson sample."""
    total, norms = clipped_sum(params, pieces, included, max_norm, microbatch)
    leaves, treedef = jax.tree.flatten(total)
    keys = random.split(key, len(leaves))
    noisy = [g + noise * max_norm * random.normal(k, g.shape) for g, k in zip(leaves, keys, strict=True)]
    mean = treedef.unflatten([g / expected for g in noisy])
    return *adam(params, moments, mean, step, rate), norms


def by_optax(options, params):
    """Return a step like `private_step` with Optax's clipping, noise and Adam, and its first state."""
    import optax

    private = optax.contrib.differentially_private_aggregate(options.clip, options.noise, options.seed)
    optimizer = optax.chain(private, optax.adam(options.rate))

    @jax.jit
    def step(params, state, key, count, pieces, included):
        gradients = jax.vmap(jax.grad(loss), (None, 0))(params, pieces)
        norms = jax.vmap(norm_of)(gradients)
        # Examples that are padding have a gradient of zero, which is not clipped and adds nothing.
        real = jax.tree.map(lambda g: jnp.where(included.reshape(-1, *[1] * (g.ndim - 1)) > 0, g, 0), gradients)
        updates, state = optimizer.update(real, state, params)
        return optax.apply_updates(params, updates), state, norms

    return step, optimizer.init(params)


@jax.jit
def mean_loss(params, pieces):
    """Return the mean loss over pieces."""
    return jax.vmap(partial(loss, params))(pieces).mean()


def poisson_sample(rng, size, probability, capacity):
    """Return `capacity` indices and a mask: each of `size` examples is in with this probability."""
    chosen = np.flatnonzero(rng.random(size) < probability)[:capacity]
    indices = np.zeros(capacity, np.int32)
    indices[: len(chosen)] = chosen
    return indices, (np.arange(capacity) < len(chosen)).astype(np.float32)


def epsilon_after(steps, probability, noise):
    """Return the epsilon at DELTA of so many steps on Poisson samples."""
    import dp_accounting
    from dp_accounting import rdp

    event = dp_accounting.PoissonSampledDpEvent(probability, dp_accounting.GaussianDpEvent(noise))
    accountant = rdp.RdpAccountant(orders=range(2, 129))
    accountant.compose(event, steps)
    return float(accountant.get_epsilon(DELTA))


def train(options, report=print):
    """Train; return a row (step, loss on held out pieces, epsilon) per report, and for each step the norms' quartiles and clipped share."""
    from tqdm import tqdm

    pieces, characters = load_text(options.length)
    held_out, pieces = pieces[: options.held_out], pieces[options.held_out :]
    key, init_key = random.split(random.key(options.seed))
    params = init(init_key, len(characters), options.length)
    probability = options.batch_size / len(pieces)
    most = options.batch_size + 6 * np.sqrt(options.batch_size)
    capacity = int(np.ceil(most / options.microbatch)) * options.microbatch
    if options.clipping == "optax":
        step, state = by_optax(options, params)
    else:
        step = partial(
            private_step, max_norm=options.clip, noise=options.noise, expected=float(options.batch_size),
            rate=options.rate, microbatch=options.microbatch,
        )  # fmt: skip
        state = (jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params))
    rng = np.random.default_rng(options.seed)
    rows, norms_over_time = [], []
    for count in tqdm(range(1, options.steps + 1), desc="steps", disable=options.quiet, leave=False):
        indices, included = poisson_sample(rng, len(pieces), probability, capacity)
        params, state, norms = step(
            params, state, random.fold_in(key, count), jnp.float32(count), pieces[indices], included
        )
        norms = np.asarray(norms)[included > 0]
        norms_over_time.append([*np.quantile(norms, (0.25, 0.5, 0.75)), np.mean(norms > options.clip)])
        if count % options.every == 0:
            rows.append((count, float(mean_loss(params, held_out)), epsilon_after(count, probability, options.noise)))
            report(
                f"step {count:4}: loss {rows[-1][1]:.4f} on pieces held out, epsilon {rows[-1][2]:.3f} at delta {DELTA:g}"
            )
    return rows, np.array(norms_over_time)


def draw(rows, norms, clip, path):
    """Write a picture of the norms, the share of clipped gradients, and the loss."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    steps = np.arange(1, len(norms) + 1)
    figure, (top, bottom) = plt.subplots(2, sharex=True, figsize=(7, 6))
    top.fill_between(steps, norms[:, 0], norms[:, 2], alpha=0.3, label="norms of gradients, middle half")
    top.plot(steps, norms[:, 1], label="their median")
    top.axhline(clip, color="tab:gray", linestyle="--", label="clipped to")
    share = top.twinx()
    share.plot(steps, norms[:, 3], color="tab:red", linewidth=0.8, label="share that is clipped")
    share.set(ylim=(0, 1.05), ylabel="share")
    top.set(ylabel="norm", ylim=(0, None), title="DP-SGD: a transformer on Python's documentation")
    top.legend(handles=[*top.get_legend_handles_labels()[0], *share.get_lines()], loc="lower right")
    bottom.plot([row[0] for row in rows], [row[1] for row in rows], marker="o")
    bottom.set(xlabel="step", ylabel="nats per character, held out")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clipping", choices=["by hand", "optax"], default="by hand")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--every", type=int, default=20, help="steps between reports")
    parser.add_argument("--batch-size", type=int, default=256, help="expected size of a Poisson sample")
    parser.add_argument("--microbatch", type=int, default=88, help="examples whose gradients are taken at once")
    parser.add_argument("--length", type=int, default=32, help="characters of an example")
    parser.add_argument("--held-out", type=int, default=500, help="examples that the loss is reported on")
    parser.add_argument("--rate", type=float, default=5e-3, help="learning rate")
    parser.add_argument("--clip", type=float, default=1.0, help="largest norm of one example's gradient")
    parser.add_argument("--noise", type=float, default=0.6, help="noise deviation over the clipping norm")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", default="dp_sgd_transformer.png", help="file to draw norms and loss to")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args()
    print(f"{jax.__name__} {jax.__version__} on {jax.devices()[0]}: clipping {options.clipping}, {options.steps} steps")
    start = time.perf_counter()
    rows, norms = train(options)
    print(f"trained in {time.perf_counter() - start:.1f} s")
    draw(rows, norms, options.clip, options.picture)
    print(f"wrote {options.picture}")


if __name__ == "__main__":
    main()
