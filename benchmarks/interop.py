"""What the way between the two worlds costs: `python -m benchmarks.interop [--only TEXT] [--json FILE]`.

Each case has two thunks that compute the same: what one would write without jaxish.interop, and with it. They run in turn, on the
compiled tier, and the best round of each counts.
"""

import argparse
import dataclasses
import itertools
import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from .harness import rounds_of

Thunk = Callable[[], Any]


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two ways to compute the same: what makes their thunks, and what the second may cost: a factor, or so many us more."""

    name: str
    make: Callable[[], tuple[Thunk, Thunk]]
    factor: float | None = None
    more: float | None = None


def _draw(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (np.random.RandomState(len(shape) + shape[0]).standard_normal(shape) * scale).astype(np.float32)


# ------------------------------------------------------------------------------------------ JAX functions in torch code


def call() -> tuple[Thunk, Thunk]:
    """A small function, by jit and as a function of tensors."""
    import jaxish as jax

    jitted = jax.jit(lambda x: jax.numpy.tanh(x) * x)
    of_tensors = jax.interop.to_torch(jitted)
    x = jax.numpy.arange(10.0)
    tensor = torch.arange(10.0)
    return lambda: jitted(x), lambda: of_tensors(tensor)


def call_with_history() -> tuple[Thunk, Thunk]:
    """The same, where torch's autograd is to go back through it: the forward half, and a node in the graph."""
    import jaxish as jax

    jitted = jax.jit(lambda x: jax.numpy.tanh(x) * x)
    of_tensors = jax.interop.to_torch(jitted)
    x, tensor = jax.numpy.arange(10.0), torch.arange(10.0, requires_grad=True)
    return lambda: jitted(x), lambda: of_tensors(tensor)


def training(*sizes: int, batch: int) -> tuple[Thunk, Thunk]:
    """A step of SGD for an MLP: JAX style under jit, and as a module with torch's optimizer."""
    import jaxish as jax

    jnp = jax.numpy
    params = {
        f"layer{i}": {"w": jnp.asarray(_draw(a, b, scale=a**-0.5)), "b": jnp.zeros(b)}
        for i, (a, b) in enumerate(itertools.pairwise(sizes))
    }

    def apply(params: Any, x: Any) -> Any:
        for layer in params.values():
            x = jnp.tanh(x @ layer["w"] + layer["b"])
        return x

    def loss(params: Any, x: Any, y: Any) -> Any:
        return ((apply(params, x) - y) ** 2).mean()

    @jax.jit
    def step(params: Any, x: Any, y: Any) -> Any:
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params, x, y))

    module = jax.interop.Module(loss, params)
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    x, y = _draw(batch, sizes[0]), _draw(batch, sizes[-1])
    tensors = torch.tensor(x), torch.tensor(y)
    x, y = jnp.asarray(x), jnp.asarray(y)

    def in_torch() -> None:
        optimizer.zero_grad()
        module(*tensors).backward()
        optimizer.step()

    return lambda: step(params, x, y), in_torch


# --------------------------------------------------------------------------------------------- torch code in JAX programs


def compiled(make: Callable[[], nn.Module], *shape: int) -> tuple[Thunk, Thunk]:
    """A module's forward pass: by torch.compile, and as a function of arrays under jit."""
    import jaxish as jax

    torch.manual_seed(0)
    module, x = make().eval(), torch.tensor(_draw(*shape))
    apply, params, buffers = jax.interop.from_torch_module(module)
    jitted, array = jax.jit(lambda params, buffers, x: apply(params, buffers, x)[0]), jax.from_torch(x)
    theirs = torch.compile(module)

    def by_torch() -> Any:
        with torch.no_grad():
            return theirs(x)

    np.testing.assert_allclose(by_torch(), jitted(params, buffers, array), rtol=1e-3, atol=1e-4)
    return by_torch, lambda: jitted(params, buffers, array)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 10))


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def convolutions() -> nn.Module:
    def block(before: int, after: int) -> list[nn.Module]:
        return [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]

    return nn.Sequential(*block(3, 16), *block(16, 32), nn.Flatten(), nn.Linear(32 * 64, 10))


PAIRS = [
    Pair("to_torch(f) over jit(f)", call, more=10),
    Pair("to_torch(f) with history over jit(f)", call_with_history),
    Pair("step of a Module, mlp 64-128-10, batch 64", lambda: training(64, 128, 10, batch=64), factor=1.1),
    Pair("step of a Module, mlp 784-512-512-10, batch 256", lambda: training(784, 512, 512, 10, batch=256), factor=1.1),
    Pair("mlp, batch 128, over torch.compile", lambda: compiled(mlp, 128, 784), factor=1.1),
    Pair("encoder, 8 x 32 x 64, over torch.compile", lambda: compiled(encoder, 8, 32, 64), factor=1.1),
    Pair("convolutions, 16 x 3 x 32 x 32, over torch.compile", lambda: compiled(convolutions, 16, 3, 32, 32), factor=1.1),
]  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.interop", description=__doc__)
    parser.add_argument("--only", default="", help="run the pairs whose name contains this")
    parser.add_argument("--json", type=pathlib.Path, help="file to write the figures to")
    options = parser.parse_args()
    os.environ["JAXISH_JIT_TIER"] = "compiled"
    figures = {}
    print(f"{'':52} {'without us':>11} {'with us':>11} {'ratio':>7} {'target':>9}")
    for pair in PAIRS:
        if options.only not in pair.name:
            continue
        without, with_ = (min(times) for times in rounds_of(list(pair.make())))
        figures[pair.name] = {"without": without, "with": with_, "factor": pair.factor, "more": pair.more}
        target = f"{pair.factor:.1f}x" if pair.factor else f"+{pair.more:.0f} us" if pair.more else ""
        print(f"  {pair.name:50} {without:11.2f} {with_:11.2f} {with_ / without:7.2f} {target:>9}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
