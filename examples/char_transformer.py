"""A small transformer that learns to write Python's documentation, character by character.

Written against `jax` alone: it runs on real JAX (`python char_transformer.py`) and, unchanged, on PyTorch
(`python -m jaxish run char_transformer.py`), with the same random bits.

The text is what `help("topics")` shows, which comes with Python. The layers' parameters are stacked, so that one `lax.scan`
runs through them, and `jax.checkpoint` recomputes each layer going back instead of keeping what is inside it. Text is
written one character at a time, with a cache of keys and values that `lax.dynamic_update_slice` fills.
"""

import argparse
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

LAYERS, WIDTH, HEADS = 3, 64, 4


def load_text():
    """Return the text as integers, the last tenth of it apart, and the characters that they stand for."""
    from pydoc_data.topics import topics

    text = "\n".join(topics[name] for name in sorted(topics))
    characters = sorted(set(text))
    number = {character: i for i, character in enumerate(characters)}
    numbers = np.array([number[character] for character in text], np.int32)
    cut = len(numbers) * 9 // 10
    return numbers[:cut], numbers[cut:], characters


def unigram_loss(text, held_out):
    """Return the loss on text that was held out of who knows how frequent each character is, and nothing else."""
    frequencies = (1 + np.bincount(text, minlength=held_out.max() + 1)) / len(text)
    return float(-np.mean(np.log(frequencies[held_out])))


# ------------------------------------------------------------------------------------------------------------ the model


def init_layer(key):
    """Return the parameters of one layer."""
    keys = random.split(key, 4)
    shapes = {"qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH), "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
    weights = {n: random.normal(k, s) / jnp.sqrt(s[0]) for k, (n, s) in zip(keys, shapes.items(), strict=True)}
    return {**weights, "norm1": jnp.ones(WIDTH), "norm2": jnp.ones(WIDTH)}


def init(key, characters, context):
    """Return all parameters; those of the layers are stacked."""
    layers, symbols, places = random.split(key, 3)
    return {
        "symbols": 0.1 * random.normal(symbols, (characters, WIDTH)),
        "places": 0.1 * random.normal(places, (context, WIDTH)),
        "layers": jax.vmap(init_layer)(random.split(layers, LAYERS)),
        "norm": jnp.ones(WIDTH),
    }


def normalized(x, scale):
    """Return x with a root mean square of one along its last axis, times the scale."""
    return x * lax.rsqrt(jnp.mean(x**2, axis=-1, keepdims=True) + 1e-6) * scale


def heads_of(layer, x):
    """Return queries, keys and values, each (..., heads, width of a head)."""
    qkv = normalized(x, layer["norm1"]) @ layer["qkv"]
    return tuple(part.reshape(*x.shape[:-1], HEADS, -1) for part in jnp.split(qkv, 3, axis=-1))


def attend(query, key, value, visible):
    """Return what each query finds in the values; `visible` says which keys it may look at."""
    scores = jnp.einsum("qhd,khd->hqk", query, key) / jnp.sqrt(query.shape[-1])
    weights = jax.nn.softmax(jnp.where(visible, scores, -jnp.inf), axis=-1)
    return jnp.einsum("hqk,khd->qhd", weights, value).reshape(query.shape[0], WIDTH)


def finish(layer, x, found):
    """Return the output of a layer, given what attention found."""
    x = x + found @ layer["out"]
    return x + jax.nn.gelu(normalized(x, layer["norm2"]) @ layer["up"]) @ layer["down"]


def logits(params, tokens):
    """Return the logits of the next character after each one of a sequence."""
    length = tokens.shape[0]
    visible = jnp.tril(jnp.ones((length, length), bool))

    @jax.checkpoint
    def block(x, layer):
        query, key, value = heads_of(layer, x)
        return finish(layer, x, attend(query, key, value, visible)), None

    x = params["symbols"][tokens] + params["places"][:length]
    x, _ = lax.scan(block, x, params["layers"])
    return normalized(x, params["norm"]) @ params["symbols"].T


def loss(params, tokens):
    """Return the mean cross-entropy of each character given those before it; tokens (batch, length + 1)."""
    log_probabilities = jax.nn.log_softmax(jax.vmap(partial(logits, params))(tokens[:, :-1]))
    return -jnp.mean(jnp.take_along_axis(log_probabilities, tokens[:, 1:, None], axis=-1))


# --------------------------------------------------------------------------------------------------------- the training


def adam(params, moments, gradient, step, rate):
    """Return parameters and moments after a step of Adam (Kingma and Ba, 2015); steps count from 1."""
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], gradient)
    second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g**2, moments[1], gradient)
    size = rate * jnp.sqrt(1 - 0.99**step) / (1 - 0.9**step)
    params = jax.tree.map(lambda p, m, v: p - size * m / (jnp.sqrt(v) + 1e-8), params, first, second)
    return params, (first, second)


def windows(text, starts, length):
    """Return the pieces of the text that begin at `starts`."""
    return jax.vmap(lambda start: lax.dynamic_slice(text, (start,), (length,)))(starts)


@partial(jax.jit, static_argnames=("batch", "context", "rate"))
def train_step(params, moments, key, step, text, *, batch, context, rate):
    """Return parameters, moments and the loss of a step on windows drawn from the text."""
    starts = random.randint(key, (batch,), 0, text.shape[0] - context)
    value, gradient = jax.value_and_grad(loss)(params, windows(text, starts, context + 1))
    rate = rate * jnp.minimum(1.0, step / 20)
    return *adam(params, moments, gradient, step, rate), value


def train(options, report=print):
    """Train; return the parameters, the losses of all steps, the loss on text that was held out, and the characters."""
    from tqdm import tqdm

    text, held_out, characters = load_text()
    text, held_out = jnp.asarray(text), jnp.asarray(held_out)
    key, init_key = random.split(random.key(options.seed))
    params = init(init_key, len(characters), options.context)
    moments = (jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params))
    losses = []
    for step in tqdm(range(1, options.steps + 1), desc="steps", disable=options.quiet, leave=False):
        params, moments, value = train_step(
            params, moments, random.fold_in(key, step), jnp.float32(step), text,
            batch=options.batch_size, context=options.context, rate=options.rate,
        )  # fmt: skip
        losses.append(value)
        if step % options.every == 0:
            report(f"step {step:4}: loss {float(jnp.mean(jnp.stack(losses[-options.every :]))):.4f}")
    starts = jnp.arange(options.batch_size) * ((held_out.shape[0] - options.context - 1) // options.batch_size)
    tested = float(jax.jit(loss)(params, windows(held_out, starts, options.context + 1)))
    return params, np.array([float(value) for value in losses]), tested, characters


# ---------------------------------------------------------------------------------------------------------- the writing


@jax.jit
def next_logits(params, cache, token, place):
    """Return the logits after one more character, and the cache of keys and values with it; cache (layers, places, ...)."""
    visible = jnp.arange(cache[0].shape[1]) <= place

    def block(x, layer_and_cache):
        layer, keys, values = layer_and_cache
        query, key, value = heads_of(layer, x)
        keys = lax.dynamic_update_slice(keys, key, (place, 0, 0))
        values = lax.dynamic_update_slice(values, value, (place, 0, 0))
        return finish(layer, x, attend(query, keys, values, visible)), (keys, values)

    x = (params["symbols"][token] + params["places"][place])[None]
    x, cache = lax.scan(block, x, (params["layers"], *cache))
    return (normalized(x, params["norm"]) @ params["symbols"].T)[0], cache


@partial(jax.jit, static_argnames="context")
def write(params, key, first, *, context, temperature=0.7):
    """Return as many characters as the context holds, which begin with `first`."""
    empty = jnp.zeros((LAYERS, context, HEADS, WIDTH // HEADS))

    def one_more(carry, place):
        cache, token = carry
        scores, cache = next_logits(params, cache, token, place)
        token = random.categorical(random.fold_in(key, place), scores / temperature)
        return (cache, token), token

    _, tokens = lax.scan(one_more, ((empty, empty), first), jnp.arange(context - 1))
    return jnp.concatenate([first[None], tokens])


def sample(params, characters, options, count=4):
    """Return texts that the model writes."""
    first = jnp.array(characters.index("T"))
    keys = random.split(random.key(options.seed + 1), count)
    tokens = jax.vmap(lambda key: write(params, key, first, context=options.context))(keys)
    return ["".join(characters[token] for token in text) for text in np.asarray(tokens)]


def draw(losses, frequency_loss, tested, path):
    """Write a picture of the loss over the steps."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    axes.plot(np.arange(1, len(losses) + 1), losses, linewidth=0.8, label="loss of a batch")
    axes.axhline(frequency_loss, color="tab:gray", linestyle="--", label="frequencies of characters alone, held out")
    axes.axhline(tested, color="tab:red", linewidth=0.8, label="the model at the end, held out")
    axes.set(
        xlabel="step", ylabel="nats per character", ylim=(0, None), title="A transformer on Python's documentation"
    )
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--every", type=int, default=50, help="steps between reports")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--context", type=int, default=64, help="characters that the model sees, and writes")
    parser.add_argument("--rate", type=float, default=6e-3, help="learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", default="char_transformer.png", help="file to draw the loss to")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args()
    print(f"{jax.__name__} {jax.__version__} on {jax.devices()[0]}: {LAYERS} layers of width {WIDTH}")
    start = time.perf_counter()
    params, losses, tested, characters = train(options)
    frequency_loss = unigram_loss(*load_text()[:2])
    print(f"trained in {time.perf_counter() - start:.1f} s")
    print(f"loss on text held out: {tested:.4f} nats per character; by frequencies alone it is {frequency_loss:.4f}")
    start = time.perf_counter()
    for text in sample(params, characters, options):
        print(f"  {text!r}")
    print(f"written in {time.perf_counter() - start:.1f} s")
    draw(losses, frequency_loss, tested, options.picture)
    print(f"wrote {options.picture}")


if __name__ == "__main__":
    main()
