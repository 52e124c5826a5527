"""A convolutional net of Flax NNX's, trained by Optax on the handwritten digits that scikit-learn bundles.

Written against `jax`, Flax and Optax alone: it runs on real JAX (`python flax_digits.py`) and, unchanged, on PyTorch
(`python -m jaxish run flax_digits.py`), with the same random bits.

The net has batch normalisation and dropout, so its module holds more than parameters: running means, and a stream of random
keys. `nnx.jit` takes modules and changes them in place. The picture shows the loss, the accuracy, and digits that the net gets wrong.
"""

import argparse
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx


def load_digits_split(test_fraction=0.2, seed=0):
    """Return (train images, train labels), (test images, test labels); images are (n, 8, 8, 1) in [0, 1]."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits: Any = load_digits()
    images = (digits.images[..., None] / 16.0).astype(np.float32)
    labels = digits.target.astype(np.int32)
    split = train_test_split(images, labels, test_size=test_fraction, random_state=seed, stratify=labels)
    return (split[0], split[2]), (split[1], split[3])


class Network(nnx.Module):
    """Two convolutions with batch normalisation and pooling, and two dense layers with dropout between them."""

    def __init__(self, rngs):
        # No biases before a normalisation, which takes them away again.
        self.first = nnx.Conv(1, 16, (3, 3), use_bias=False, rngs=rngs)
        self.first_norm = nnx.BatchNorm(16, momentum=0.9, rngs=rngs)
        self.second = nnx.Conv(16, 32, (3, 3), use_bias=False, rngs=rngs)
        self.second_norm = nnx.BatchNorm(32, momentum=0.9, rngs=rngs)
        self.hidden, self.out = nnx.Linear(2 * 2 * 32, 64, rngs=rngs), nnx.Linear(64, 10, rngs=rngs)
        self.dropout = nnx.Dropout(0.3, rngs=rngs)

    def __call__(self, x):
        x = nnx.avg_pool(nnx.relu(self.first_norm(self.first(x))), (2, 2), strides=(2, 2))
        x = nnx.avg_pool(nnx.relu(self.second_norm(self.second(x))), (2, 2), strides=(2, 2))
        x = nnx.relu(self.hidden(x.reshape(x.shape[0], -1)))
        return self.out(self.dropout(x))


def loss(network, images, labels):
    """Return the mean cross-entropy, and the logits."""
    logits = network(images)
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), logits


@nnx.jit
def train_step(network, optimizer, metrics, images, labels):
    """Take a step on a batch; network, optimizer and metrics change."""
    (value, logits), gradient = nnx.value_and_grad(loss, has_aux=True)(network, images, labels)
    optimizer.update(network, gradient)
    metrics.update(loss=value, logits=logits, labels=labels)


@nnx.jit
def evaluate(network, images, labels):
    """Return the loss, and which digits the network reads."""
    value, logits = loss(network, images, labels)
    return value, logits.argmax(1)


def train(options, report=print):
    """Train; return a row (epoch, training loss, training accuracy, test loss, test accuracy) per epoch, and what it reads."""
    from tqdm import tqdm

    (images, labels), (test_images, test_labels) = load_digits_split()
    network = Network(nnx.Rngs(options.seed))
    steps = len(images) // options.batch_size
    schedule = optax.warmup_cosine_decay_schedule(0.0, options.rate, steps, options.epochs * steps)
    transform = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, weight_decay=1e-3))
    optimizer = nnx.Optimizer(network, transform, wrt=nnx.Param)
    metrics = nnx.MultiMetric(loss=nnx.metrics.Average("loss"), accuracy=nnx.metrics.Accuracy())
    rng = np.random.default_rng(options.seed)
    rows, read = [], test_labels
    for epoch in range(1, options.epochs + 1):
        network.train()
        metrics.reset()
        batches = rng.permutation(len(images))[: steps * options.batch_size].reshape(steps, -1)
        for batch in tqdm(batches, desc=f"epoch {epoch}", disable=options.quiet, leave=False):
            train_step(network, optimizer, metrics, images[batch], labels[batch])
        network.eval()
        value, read = evaluate(network, test_images, test_labels)
        found = metrics.compute()
        accuracy = float(jnp.mean(read == test_labels))
        rows.append((epoch, float(found["loss"]), float(found["accuracy"]), float(value), accuracy))
        report(f"epoch {epoch:2}: loss {rows[-1][1]:.4f}, test loss {rows[-1][3]:.4f}, test accuracy {accuracy:.4f}")
    return rows, np.asarray(read)


def draw(rows, read, path):
    """Write a picture of the losses and accuracies over the epochs, and of digits that are read wrongly."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    images, labels = (np.asarray(part) for part in load_digits_split()[1])
    epochs, losses, accuracies, test_losses, test_accuracies = zip(*rows, strict=True)
    figure = plt.figure(figsize=(10, 4), layout="constrained")
    parts: Any = figure.subfigures(1, 2, width_ratios=(2, 1))
    left, right = parts
    for axes, (name, trained, tested) in zip(
        left.subplots(1, 2),
        [("loss", losses, test_losses), ("accuracy", accuracies, test_accuracies)],
        strict=True,
    ):
        axes.plot(epochs, trained, marker=".", label="training, with dropout")
        axes.plot(epochs, tested, marker=".", label="test")
        axes.set(xlabel="epoch", title=name)
        axes.legend()
    wrong = np.flatnonzero(read != labels)
    right.suptitle(f"{len(wrong)} of {len(labels)} test images are read wrongly")
    for i, axes in enumerate(right.subplots(3, 3).flat):
        axes.axis("off")
        if i < len(wrong):
            axes.imshow(images[wrong[i], :, :, 0], cmap="gray_r")
            axes.set_title(f"{labels[wrong[i]]} as {read[wrong[i]]}", fontsize=8)
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rate", type=float, default=5e-3, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", default="flax_digits.png", help="file to draw losses and accuracies to")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args()
    print(f"{jax.__name__} {jax.__version__} on {jax.devices()[0]}: {options.epochs} epochs")
    start = time.perf_counter()
    rows, read = train(options)
    print(f"trained in {time.perf_counter() - start:.1f} s")
    draw(rows, read, options.picture)
    print(f"wrote {options.picture}")


if __name__ == "__main__":
    main()
