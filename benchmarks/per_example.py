"""What gradients per example cost: `python -m benchmarks.per_example [MODEL ...] [--batch N ...] [--json FILE]`.

Each figure is of a fresh process, on the compiled tier: the best time of a call, as a multiple of the plain gradient of
the same batch under the same library, and the growth of the peak resident memory over a call. The four ways of writing
the clipping are those that one finds in programs; `norms` and `noise` scale take norms without clipping. Where Opacus is
installed (the extra `bench`), torch's own ways stand beside them: `per_example_torch.py`.
"""

import argparse
import ctypes
import functools
import importlib
import importlib.util
import itertools
import json
import math
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Loss = Callable[[Any, Any, Any, Any], Any]  # (library, parameters, example, label)
LIMIT = 1.0  # the norm that gradients are clipped to


def _draw(*shape: int, scale: float = 1.0) -> np.ndarray:
    return scale * np.random.default_rng(len(shape) + shape[-1]).normal(size=shape).astype(np.float32)


def _labels(high: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(high).integers(0, high, shape).astype(np.int32)


# -- models: parameters, a batch, and the loss of one example


def mlp(*sizes: int) -> Callable[[int], tuple[Any, Any, Any, Loss]]:
    """Dense layers with tanh."""

    def loss(j: Any, params: Any, x: Any, y: Any) -> Any:
        for w, b in params[:-1]:
            x = j.numpy.tanh(x @ w + b)
        w, b = params[-1]
        return -j.nn.log_softmax(x @ w + b)[y]

    def make(batch: int) -> tuple[Any, Any, Any, Loss]:
        params = [(_draw(n, m, scale=n**-0.5), np.zeros(m, np.float32)) for n, m in itertools.pairwise(sizes)]
        return params, _draw(batch, sizes[0]), _labels(sizes[-1], batch), loss

    return make


def deep(batch: int) -> tuple[Any, Any, Any, Loss]:
    """Six convolutions on images of 32 x 32, every other one of which halves them: most parameters lie in the last."""

    def loss(j: Any, params: Any, x: Any, y: Any) -> Any:
        for index, filters in enumerate(params["filters"]):
            x = j.nn.relu(j.lax.conv_general_dilated(x[None], filters, (2 - index % 2,) * 2, [(1, 1), (1, 1)])[0])
        return -j.nn.log_softmax(x.mean((1, 2)) @ params["w"])[y]

    filters = [_draw(m, n, 3, 3, scale=(9 * n) ** -0.5) for n, m in itertools.pairwise(DEEP)]
    return {"filters": filters, "w": _draw(DEEP[-1], 10, scale=0.1)}, _draw(batch, 3, 32, 32), _labels(10, batch), loss


DEEP = (3, 64, 64, 128, 128, 256, 256)  # channels


def cnn(batch: int) -> tuple[Any, Any, Any, Loss]:
    """Two convolutions, with 16 and 32 filters, and a dense layer, on 28 x 28."""

    def pooled(z: Any) -> Any:
        c, h, w = z.shape
        return z.reshape(c, h // 2, 2, w // 2, 2).mean((2, 4))

    def loss(j: Any, params: Any, x: Any, y: Any) -> Any:
        z = x[None]
        for filters in params["filters"]:
            z = pooled(j.numpy.tanh(j.lax.conv_general_dilated(z[None], filters, (1, 1), "SAME")[0]))
        return -j.nn.log_softmax(z.ravel() @ params["w"] + params["b"])[y]

    filters = [_draw(16, 1, 3, 3, scale=0.3), _draw(32, 16, 3, 3, scale=0.1)]
    params = {"filters": filters, "w": _draw(32 * 49, 10, scale=0.02), "b": np.zeros(10, np.float32)}
    return params, _draw(batch, 28, 28), _labels(10, batch), loss


def transformer(batch: int, length: int = 64, width: int = 128, vocabulary: int = 256) -> tuple[Any, Any, Any, Loss]:
    """One block of four heads, with an embedding that is also the output layer."""

    def normed(j: Any, z: Any, scale: Any) -> Any:
        z = z - z.mean(-1, keepdims=True)
        return z * j.lax.rsqrt((z * z).mean(-1, keepdims=True) + 1e-5) * scale

    def loss(j: Any, p: Any, x: Any, y: Any) -> Any:
        e = p["embedding"][x] + p["position"]
        z = normed(j, e, p["scale"][0])
        q, k, v = (j.numpy.reshape(z @ p[n], (length, 4, width // 4)) for n in ("q", "k", "v"))
        scores = j.numpy.einsum("thc,shc->hts", q, k) * (width // 4) ** -0.5
        scores = j.numpy.where(j.numpy.tril(j.numpy.ones((length, length), bool)), scores, -j.numpy.inf)
        attended = j.numpy.einsum("hts,shc->thc", j.nn.softmax(scores), v).reshape(length, width)
        e = e + attended @ p["out"]
        e = e + j.nn.gelu(normed(j, e, p["scale"][1]) @ p["up"] + p["bias"]) @ p["down"]
        scores = j.nn.log_softmax(e @ p["embedding"].T)
        return -j.numpy.take_along_axis(scores, y[:, None], 1).mean()

    square = {n: _draw(width, width, scale=width**-0.5) for n in ("q", "k", "v", "out")}
    params = square | {
        "embedding": _draw(vocabulary, width, scale=0.1), "position": _draw(length, width, scale=0.1),
        "up": _draw(width, 4 * width, scale=width**-0.5), "bias": np.zeros(4 * width, np.float32),
        "down": _draw(4 * width, width, scale=0.04), "scale": np.ones((2, width), np.float32),
    }  # fmt: skip
    return params, _labels(vocabulary, batch, length), _labels(vocabulary - 1, batch, length), loss


def rnn(batch: int, length: int = 32, inputs: int = 64, width: int = 128) -> tuple[Any, Any, Any, Loss]:
    """A recurrent layer by scan."""

    def loss(j: Any, p: Any, x: Any, y: Any) -> Any:
        def step(state: Any, x: Any) -> tuple[Any, None]:
            return j.numpy.tanh(x @ p["x"] + state @ p["state"] + p["b"]), None

        state, _ = j.lax.scan(step, j.numpy.zeros(width), x)
        return -j.nn.log_softmax(state @ p["out"])[y]

    params = {
        "x": _draw(inputs, width, scale=inputs**-0.5), "state": _draw(width, width, scale=width**-0.5),
        "b": np.zeros(width, np.float32), "out": _draw(width, 10, scale=0.1),
    }  # fmt: skip
    return params, _draw(batch, length, inputs), _labels(10, batch), loss


MODELS: dict[str, Callable[[int], tuple[Any, Any, Any, Loss]]] = {
    "mlp": mlp(784, 256, 256, 10), "wide mlp": mlp(1024, 1024, 1024, 10), "cnn": cnn, "deep cnn": deep, "transformer": transformer, "rnn": rnn,
}  # fmt: skip

# -- what is computed of a batch


def _norm(j: Any, gradient: Any) -> Any:
    return j.numpy.sqrt(sum(j.numpy.sum(leaf**2) for leaf in j.tree.leaves(gradient)))


def _gradients(j: Any, loss: Loss, params: Any, x: Any, y: Any) -> Any:
    return j.vmap(j.grad(functools.partial(loss, j)), (None, 0, 0))(params, x, y)


def _scale(j: Any, norm: Any) -> Any:
    return j.numpy.minimum(1.0, LIMIT / (norm + 1e-12))


def plain(j: Any, loss: Loss, params: Any, x: Any, y: Any) -> Any:
    """The gradient of the mean loss."""
    return j.grad(lambda p: j.vmap(functools.partial(loss, j), (None, 0, 0))(p, x, y).mean())(params)


def tensordot(j: Any, loss: Loss, params: Any, x: Any, y: Any) -> Any:
    """Clipping as a product with the scales."""
    g = _gradients(j, loss, params, x, y)
    scale = _scale(j, j.vmap(functools.partial(_norm, j))(g))
    return j.tree.map(lambda leaf: j.numpy.tensordot(scale, leaf, 1) / len(scale), g)


def mean(j: Any, loss: Loss, params: Any, x: Any, y: Any) -> Any:
    """Clipping as a function of one gradient, and the mean."""

    def clipped(params: Any, x: Any, y: Any) -> Any:
        g = j.grad(functools.partial(loss, j))(params, x, y)
        scale = _scale(j, _norm(j, g))
        return j.tree.map(lambda leaf: leaf * scale, g)

    return j.tree.map(lambda leaf: leaf.mean(0), j.vmap(clipped, (None, 0, 0))(params, x, y))


def leaves(j: Any, loss: Loss, params: Any, x: Any, y: Any) -> Any:
    """Clipping leaf by leaf, with scales that are broadcast."""
    g = _gradients(j, loss, params, x, y)
    squares = sum(j.numpy.sum(leaf.reshape(leaf.shape[0], -1) ** 2, 1) for leaf in j.tree.leaves(g))
    scale = _scale(j, j.numpy.sqrt(squares))
    return j.tree.map(lambda leaf: (leaf * scale.reshape(-1, *[1] * (leaf.ndim - 1))).sum(0) / len(scale), g)


def concatenated(j: Any, loss: Loss, params: Any, x: Any, y: Any) -> Any:
    """Clipping by the norm of all leaves as one vector."""

    def clipped(params: Any, x: Any, y: Any) -> Any:
        g = j.grad(functools.partial(loss, j))(params, x, y)
        scale = _scale(j, j.numpy.linalg.norm(j.numpy.concatenate([leaf.ravel() for leaf in j.tree.leaves(g)])))
        return j.tree.map(lambda leaf: leaf * scale, g)

    return j.tree.map(lambda leaf: leaf.sum(0) / len(x), j.vmap(clipped, (None, 0, 0))(params, x, y))


def norms(j: Any, loss: Loss, params: Any, x: Any, y: Any) -> Any:
    """Norms alone."""
    return j.vmap(functools.partial(_norm, j))(_gradients(j, loss, params, x, y))


def noise(j: Any, loss: Loss, params: Any, x: Any, y: Any) -> Any:
    """The gradient noise scale, |mean g|^2 / mean |g|^2."""
    g = _gradients(j, loss, params, x, y)
    total = _norm(j, j.tree.map(lambda leaf: leaf.mean(0), g)) ** 2
    return total / (j.vmap(functools.partial(_norm, j))(g) ** 2).mean()


WAYS = {way.__name__: way for way in (plain, tensordot, mean, leaves, concatenated, norms, noise)}


def measured(library: str, model: str, way: str, batch: int) -> tuple[float, float]:
    """Return the best time of a call, in milliseconds, and by how many megabytes it raises the peak of memory."""
    step = (_torch_step if library == "torch" else _step)(library, model, way, batch)
    for _ in range(3):
        step()
    times, end = [], time.perf_counter() + 3
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    ctypes.CDLL(None).malloc_trim(0)
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = _status("VmRSS")
    step()
    return min(times) * 1e3, (_status("VmHWM") - before) / 1024


def _step(library: str, model: str, way: str, batch: int) -> Callable[[], Any]:
    j = importlib.import_module(library)
    params, x, y, loss = MODELS[model](batch)
    params, x, y = j.tree.map(j.numpy.asarray, (params, x, y))
    step = j.jit(functools.partial(WAYS[way], j, loss))
    return lambda: j.block_until_ready(step(params, x, y))


def _torch_step(library: str, model: str, way: str, batch: int) -> Callable[[], Any]:
    from . import per_example_torch

    _, x, y, _ = MODELS[model](batch)
    return per_example_torch.step(model, way, x, y)


def _status(field: str) -> int:
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


TORCH_WAYS = ("plain", "func", "hooks", "ghost")  # those of `per_example_torch.py`


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.per_example", description=__doc__)
    parser.add_argument("models", nargs="*", help=f"of {', '.join(MODELS)}; all by default")
    parser.add_argument("--batch", nargs="*", type=int, default=[64, 256])
    parser.add_argument("--json", type=pathlib.Path, help="file to write the figures to")
    options = parser.parse_args()
    libraries: dict[str, Any] = {"jax": WAYS, "jaxish": WAYS}
    if importlib.util.find_spec("opacus"):
        libraries["torch"] = TORCH_WAYS
    figures = {}
    models: list[str] = options.models or list(MODELS)
    batches: list[int] = options.batch
    for (model, batch), library in itertools.product(itertools.product(models, batches), libraries):
        rows = {way: _in_own_process(library, model, way, batch) for way in libraries[library]}
        figures[f"{model}, {batch}, {library}"] = rows
        _print_rows(f"{model}, batch {batch}, {library}", rows)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


def _print_rows(title: str, rows: dict[str, tuple[float, float] | None]) -> None:
    base, _ = rows["plain"] or (math.nan, math.nan)
    print(title)
    for way, found in rows.items():
        text = f"{found[0]:9.2f} ms {found[0] / base:8.2f}x {found[1]:7.0f} MB" if found else "cannot"
        print(f"  {way:14}{text}", flush=True)


def _in_own_process(library: str, model: str, way: str, batch: int) -> tuple[float, float] | None:
    code = f"from benchmarks.per_example import measured; print(*measured({library!r}, {model!r}, {way!r}, {batch}))"
    environment = {**os.environ, "JAXISH_JIT_TIER": "compiled", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, text=True, capture_output=True)
    if "NotImplementedError" in done.stderr:
        return None  # a way that a library does not have for a model
    done.check_returncode()
    milliseconds, megabytes = map(float, done.stdout.split())
    return milliseconds, megabytes


if __name__ == "__main__":
    main()
