"""Differentially private SGD on the handwritten digits that scikit-learn bundles: 1,797 real images of 8 x 8.

Written against `jax` alone: it runs on real JAX (`python dp_sgd_digits.py`) and, unchanged, on PyTorch
(`python -m jaxish run dp_sgd_digits.py`), with the same random bits.

Each step draws a Poisson sample of the training images, takes the gradient of every one by `vmap(grad(loss))`, clips
it to a fixed norm, and adds Gaussian noise to the sum (Abadi et al., "Deep learning with differential privacy",
2016). How much privacy was spent, epsilon at delta = 1e-5, is what the RDP accountant of Google's dp-accounting says.
"""

import argparse
import time
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

DELTA = 1e-5


def load_digits_split(test_fraction=0.2, seed=0):
    """Return (train images, train labels), (test images, test labels); images are (n, 8, 8) in [0, 1]."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits: Any = load_digits()
    images = (digits.images / 16.0).astype(np.float32)
    labels = digits.target.astype(np.int32)
    split = train_test_split(images, labels, test_size=test_fraction, random_state=seed, stratify=labels)
    return (split[0], split[2]), (split[1], split[3])


def dense_layer(key, inputs, outputs):
    """Return the parameters of a dense layer, He-initialised."""
    return {"w": random.normal(key, (inputs, outputs)) * jnp.sqrt(2.0 / inputs), "b": jnp.zeros(outputs)}


def init_mlp(key):
    """Return the parameters of an MLP 64-128-10."""
    first, second = random.split(key)
    return {"hidden": dense_layer(first, 64, 128), "out": dense_layer(second, 128, 10)}


def apply_mlp(params, image):
    """Return the ten logits of one image (8, 8)."""
    x = jnp.tanh(image.reshape(-1) @ params["hidden"]["w"] + params["hidden"]["b"])
    return x @ params["out"]["w"] + params["out"]["b"]


def init_cnn(key):
    """Return the parameters of a CNN: 16 filters of 3 x 3, average pooling, 10 logits."""
    first, second = random.split(key)
    return {"filters": random.normal(first, (16, 1, 3, 3)) * jnp.sqrt(2.0 / 9), "out": dense_layer(second, 16 * 16, 10)}


def apply_cnn(params, image):
    """Return the ten logits of one image (8, 8)."""
    x = lax.conv_general_dilated(image[None, None], params["filters"], (1, 1), "SAME")
    x = jnp.tanh(x).reshape(16, 4, 2, 4, 2).mean((2, 4))
    return x.reshape(-1) @ params["out"]["w"] + params["out"]["b"]


MODELS = {"mlp": (init_mlp, apply_mlp), "cnn": (init_cnn, apply_cnn)}


def loss(apply, params, image, label):
    """Return the cross-entropy of one example."""
    return -jax.nn.log_softmax(apply(params, image))[label]


def clipped(gradient, max_norm):
    """Return one example's gradient, scaled so that its norm over all parameters is at most `max_norm`."""
    norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))
    scale = jnp.minimum(1.0, max_norm / (norm + 1e-12))
    return jax.tree.map(lambda leaf: leaf * scale, gradient)


def noisy(gradient, key, deviation):
    """Return the gradient with Gaussian noise added to every entry."""
    leaves, treedef = jax.tree.flatten(gradient)
    keys = random.split(key, len(leaves))
    return treedef.unflatten(
        [leaf + deviation * random.normal(k, leaf.shape) for leaf, k in zip(leaves, keys, strict=True)]
    )


@partial(jax.jit, static_argnames=("apply", "max_norm", "noise", "expected", "rate"))
def private_step(params, velocity, key, images, labels, included, *, apply, max_norm, noise, expected, rate):
    """Return parameters and momentum after one private step; `included` masks the rows that pad the Poisson sample."""
    example_gradient = jax.grad(partial(loss, apply))
    gradients = jax.vmap(example_gradient, (None, 0, 0))(params, images, labels)
    gradients = jax.vmap(lambda g: clipped(g, max_norm))(gradients)
    total = jax.tree.map(lambda g: jnp.tensordot(included, g, 1), gradients)
    mean = jax.tree.map(lambda g: g / expected, noisy(total, key, noise * max_norm))
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, mean)
    return jax.tree.map(lambda p, v: p - rate * v, params, velocity), velocity


@partial(jax.jit, static_argnames="apply")
def evaluate(params, images, labels, *, apply):
    """Return mean loss and accuracy."""
    logits = jax.vmap(partial(apply, params))(images)
    losses = -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
    return losses.mean(), (logits.argmax(1) == labels).mean()


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
    # Integer orders: the series for fractional ones does not converge at large sampling rates.
    accountant = rdp.RdpAccountant(orders=range(2, 129))
    accountant.compose(event, steps)
    return accountant.get_epsilon(DELTA)


def train(options, report=print):
    """Train and return a row (epoch, test loss, test accuracy, epsilon) per epoch, and one for the untrained model."""
    from tqdm import tqdm

    (images, labels), (test_images, test_labels) = load_digits_split()
    init, apply = MODELS[options.model]
    key = random.PRNGKey(options.seed)
    key, init_key = random.split(key)
    params = init(init_key)
    velocity = jax.tree.map(jnp.zeros_like, params)
    size = len(images)
    probability = options.batch_size / size
    capacity = int(options.batch_size + 6 * np.sqrt(options.batch_size)) + 1
    steps = round(1 / probability)
    rng = np.random.default_rng(options.seed)
    test_loss, accuracy = evaluate(params, test_images, test_labels, apply=apply)
    rows = [(0, float(test_loss), float(accuracy), 0.0)]
    report(f"epoch  0: test loss {float(test_loss):.6f}, accuracy {float(accuracy):.4f}")
    for epoch in range(1, options.epochs + 1):
        for _ in tqdm(range(steps), desc=f"epoch {epoch}", disable=options.quiet, leave=False):
            key, step_key = random.split(key)
            indices, included = poisson_sample(rng, size, probability, capacity)
            params, velocity = private_step(
                params, velocity, step_key, images[indices], labels[indices], included,
                apply=apply, max_norm=options.clip, noise=options.noise, expected=float(options.batch_size),
                rate=options.rate,
            )  # fmt: skip
        test_loss, accuracy = evaluate(params, test_images, test_labels, apply=apply)
        epsilon = float(epsilon_after(epoch * steps, probability, options.noise))
        rows.append((epoch, float(test_loss), float(accuracy), epsilon))
        report(
            f"epoch {epoch:2}: test loss {float(test_loss):.6f}, accuracy {float(accuracy):.4f}, "
            f"epsilon {epsilon:.3f} at delta {DELTA:g}"
        )
    return rows


def draw(rows, path):
    """Write a picture of accuracy and epsilon over epochs."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    epochs, _, accuracies, epsilons = zip(*rows, strict=True)
    figure, left = plt.subplots(figsize=(7, 4))
    left.plot(epochs, accuracies, color="tab:blue", marker="o", label="test accuracy")
    left.axhline(0.9, color="tab:blue", linewidth=0.5, linestyle="--")
    left.set(xlabel="epoch", ylabel="test accuracy", ylim=(0, 1), title="DP-SGD on scikit-learn's digits")
    right = left.twinx()
    right.plot(epochs, epsilons, color="tab:red", marker=".", label=f"epsilon at delta = {DELTA:g}")
    right.set(ylabel="epsilon", ylim=(0, None))
    left.legend(handles=[*left.get_lines()[:1], *right.get_lines()], loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=sorted(MODELS), default="mlp")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=256, help="expected size of a Poisson sample")
    parser.add_argument("--rate", type=float, default=0.5, help="learning rate")
    parser.add_argument("--clip", type=float, default=1.0, help="largest norm of one example's gradient")
    parser.add_argument("--noise", type=float, default=2.0, help="noise deviation over the clipping norm")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", default="dp_sgd_digits.png", help="file to draw accuracy and epsilon to")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args()
    print(f"{jax.__name__} {jax.__version__} on {jax.devices()[0]}: {options.model}, {options.epochs} epochs")
    start = time.perf_counter()
    rows = train(options)
    print(f"trained in {time.perf_counter() - start:.1f} s")
    draw(rows, options.picture)
    print(f"wrote {options.picture}")


if __name__ == "__main__":
    main()
