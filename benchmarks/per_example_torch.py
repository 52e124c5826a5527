"""The models of `per_example.py` as torch's users write them, and their ways to clip gradients per example.

`func` is torch.func under torch.compile, `hooks` and `ghost` are Opacus's two ways. The transformer's output layer is a matrix
of its own here, since Opacus refuses shared ones.
"""

import importlib
import itertools
import logging
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from .per_example import DEEP, LIMIT


def mlp(*sizes: int) -> nn.Module:
    layers = [layer for n, m in itertools.pairwise(sizes) for layer in (nn.Linear(n, m), nn.Tanh())]
    return nn.Sequential(*layers[:-1])


def cnn() -> nn.Module:
    def convolved(n: int, m: int) -> list[nn.Module]:
        return [nn.Conv2d(n, m, 3, padding="same", bias=False), nn.Tanh(), nn.AvgPool2d(2)]

    return nn.Sequential(
        nn.Unflatten(1, (1, 28)), *convolved(1, 16), *convolved(16, 32), nn.Flatten(), nn.Linear(32 * 49, 10)
    )


def deep() -> nn.Module:
    layers = [
        layer
        for index, (n, m) in enumerate(itertools.pairwise(DEEP))
        for layer in (nn.Conv2d(n, m, 3, 2 - index % 2, padding=1, bias=False), nn.ReLU())
    ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(DEEP[-1], 10, bias=False))


class Transformer(nn.Module):
    """One block of four heads."""

    def __init__(self, length: int = 64, width: int = 128, vocabulary: int = 256) -> None:
        super().__init__()
        self.embedding, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width, bias=False)
        self.scores = nn.Linear(width, vocabulary, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        e = self.embedding(x) + self.position(torch.arange(x.shape[1]).repeat(len(x), 1))
        z = self.norms[0](e)
        q, k, v = (layer(z).unflatten(-1, (4, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        scores = (q @ k.mT) * q.shape[-1] ** -0.5
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -torch.inf)
        e = e + self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        e = e + self.down(functional.gelu(self.up(self.norms[1](e)), approximate="tanh"))
        return self.scores(e)


class Recurrent(nn.Module):
    """A recurrent layer, by Opacus's cell: a loop over linear layers."""

    def __init__(self, inputs: int = 64, width: int = 128) -> None:
        super().__init__()
        layers: Any = importlib.import_module("opacus.layers")
        self.layer, self.out = layers.DPRNN(inputs, width, batch_first=True), nn.Linear(width, 10, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.layer(x)
        return self.out(states[:, -1])


MODELS: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: mlp(784, 256, 256, 10), "wide mlp": lambda: mlp(1024, 1024, 1024, 10), "cnn": cnn, "deep cnn": deep,
    "transformer": Transformer, "rnn": Recurrent,
}  # fmt: skip


def step(model: str, way: str, x: np.ndarray, y: np.ndarray) -> Callable[[], Any]:
    """Return a step that makes the mean of clipped gradients, or with `plain` that of the mean loss."""
    warnings.simplefilter("ignore")
    logging.disable()
    torch.manual_seed(0)
    module = MODELS[model]()
    return WAYS[way](module, torch.from_numpy(x), torch.from_numpy(y).long())


def _losses(scores: Tensor, y: Tensor) -> Tensor:
    """Return the loss of each example, which is a mean if it has several labels."""
    found = functional.cross_entropy(scores.flatten(0, -2), y.flatten(), reduction="none")
    return found.view(len(y), -1).mean(1)


def _plain(module: nn.Module, x: Tensor, y: Tensor) -> Callable[[], Any]:
    compiled = torch.compile(module)

    def run() -> None:
        module.zero_grad()
        _losses(compiled(x), y).mean().backward()

    return run


def _func(module: nn.Module, x: Tensor, y: Tensor) -> Callable[[], Any]:
    params = {name: p.detach() for name, p in module.named_parameters()}

    def loss(params: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return _losses(functional_call(module, params, (x[None],)), y[None])[0]

    def clipped(params: dict[str, Tensor], x: Tensor, y: Tensor) -> dict[str, Tensor]:
        g = vmap(grad(loss), (None, 0, 0))(params, x, y)
        scale = _scale(torch.stack([leaf.flatten(1).norm(dim=1) for leaf in g.values()]).norm(dim=0))
        return {name: torch.tensordot(scale, leaf, 1) / len(x) for name, leaf in g.items()}

    compiled = torch.compile(clipped)
    return lambda: compiled(params, x, y)


def _scale(norms: Tensor) -> Tensor:
    return (LIMIT / (norms + 1e-12)).clamp(max=1.0)


def _hooks(module: nn.Module, x: Tensor, y: Tensor) -> Callable[[], Any]:
    opacus: Any = importlib.import_module("opacus")
    wrapped = opacus.GradSampleModule(module, loss_reduction="mean")

    def run() -> list[Tensor]:
        wrapped.zero_grad()
        _losses(wrapped(x), y).mean().backward()
        parameters: list[Any] = list(wrapped.parameters())
        samples = [p.grad_sample for p in parameters]
        scale = _scale(torch.stack([g.flatten(1).norm(dim=1) for g in samples]).norm(dim=0))
        return [torch.tensordot(scale, g, 1) / len(x) for g in samples]

    return run


def _ghost(module: nn.Module, x: Tensor, y: Tensor) -> Callable[[], Any]:
    clipping: Any = importlib.import_module("opacus.grad_sample.grad_sample_module_fast_gradient_clipping")

    wrapped = clipping.GradSampleModuleFastGradientClipping(module, max_grad_norm=LIMIT, use_ghost_clipping=True)

    def run() -> None:
        wrapped.zero_grad()
        wrapped.enable_hooks()
        each = _losses(wrapped(x), y)
        each.mean().backward(retain_graph=True)
        scale = _scale(wrapped.get_norm_sample())
        wrapped.zero_grad()
        wrapped.disable_hooks()
        (scale * each).mean().backward()

    return run


WAYS = {"plain": _plain, "func": _func, "hooks": _hooks, "ghost": _ghost}
