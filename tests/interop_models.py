"""A model that JAX and jaxish both run, its parameters as NumPy arrays, and batches for training it."""

import numpy as np
import torch


def params():
    random = np.random.RandomState(0)
    shapes = {"layers": [{"kernel": (3, 8), "bias": (8,)}, {"kernel": (8, 8), "bias": (8,)}], "head": (8, 2)}
    make = lambda shape: (random.standard_normal(shape) * 0.4).astype(np.float32)
    return {
        "layers": [{name: make(shape) for name, shape in layer.items()} for layer in shapes["layers"]],
        "head": make(shapes["head"]),
    }


def apply(params, x):
    for layer in params["layers"]:
        x = x @ layer["kernel"] + layer["bias"]
        x = x / (1 + abs(x))
    return x @ params["head"]


def _batches():
    random = np.random.RandomState(1)
    rows = random.standard_normal((5, 8, 3)).astype(np.float32)
    return [(torch.tensor(x), torch.tensor(np.stack([x.sum(1), x[:, 0] * x[:, 1]], 1))) for x in rows]


BATCHES = _batches()
