"""Steps of programs as one trains and simulates with, of sizes for which one may take a GPU: `python -m benchmarks.first steps`."""

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

Step = Callable[[], Any]
_RATE = 1e-3


def _draw(*shape: int, scale: float = 1.0) -> np.ndarray:
    return scale * np.random.default_rng(math.prod(shape)).normal(size=shape).astype(np.float32)


def _labels(high: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(high).integers(0, high, shape).astype(np.int32)


def _repeated(step: Callable[..., Any], state: Any, *data: Any) -> Step:
    """Return what makes a step from the state that the last one left."""

    def run() -> Any:
        nonlocal state
        state = step(state, *data)
        return state

    return run


def _adam(j: Any, loss: Callable[..., Any], params: Any, *data: Any) -> Step:
    """Steps of Adam (Kingma and Ba, 2015)."""

    @j.jit
    def step(state: Any, *data: Any) -> Any:
        params, m, v, t = state
        grads = j.grad(loss)(params, *data)
        t = t + 1
        m = j.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
        v = j.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, grads)
        rate = _RATE * j.numpy.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        params = j.tree.map(lambda p, m, v: p - rate * m / (j.numpy.sqrt(v) + 1e-8), params, m, v)
        return params, m, v, t

    params, data = j.tree.map(j.numpy.asarray, (params, data))
    zeros = j.tree.map(j.numpy.zeros_like, params)
    return _repeated(step, (params, zeros, zeros, j.numpy.zeros((), j.numpy.float32)), *data)


def _cross_entropy(j: Any, logits: Any, labels: Any) -> Any:
    return -j.numpy.take_along_axis(j.nn.log_softmax(logits), labels[..., None], axis=-1).mean()


def mlp(j: Any) -> Step:
    def loss(params: Any, x: Any, y: Any) -> Any:
        for w, b in params[:-1]:
            x = j.nn.relu(x @ w + b)
        w, b = params[-1]
        return _cross_entropy(j, x @ w + b, y)

    params = [(_draw(n, m, scale=n**-0.5), np.zeros(m, np.float32)) for n, m in itertools.pairwise((784, 512, 512, 10))]
    return _adam(j, loss, params, _draw(128, 784), _labels(10, 128))


def convolutions(j: Any) -> Step:
    def loss(params: Any, x: Any, y: Any) -> Any:
        *filters, w = params
        for n, (f, b) in enumerate(filters):
            strides = (1 + n % 2,) * 2
            x = j.lax.conv_general_dilated(x, f, strides, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = j.nn.relu(x + b)
        return _cross_entropy(j, x.mean((1, 2)) @ w, y)

    widths = (3, 32, 64, 64, 128)
    filters = [
        (_draw(3, 3, n, m, scale=(9 * n) ** -0.5), np.zeros(m, np.float32)) for n, m in itertools.pairwise(widths)
    ]
    return _adam(j, loss, [*filters, _draw(128, 10, scale=0.1)], _draw(128, 32, 32, 3), _labels(10, 128))


def transformer(j: Any) -> Step:
    layers, width, heads, words, batch, length = 4, 256, 8, 1000, 32, 128
    mask = np.tril(np.ones((length, length), bool))

    def normed(x: Any, scale: Any) -> Any:
        return scale * (x - x.mean(-1, keepdims=True)) / j.numpy.sqrt(x.var(-1, keepdims=True) + 1e-5)

    def attention(x: Any, qkv: Any, out: Any) -> Any:
        q, k, v = j.numpy.split((x @ qkv).reshape(batch, length, heads, -1), 3, axis=-1)
        scores = j.numpy.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(width / heads)
        weights = j.nn.softmax(j.numpy.where(mask, scores, -1e9))
        return j.numpy.einsum("bhqk,bkhd->bqhd", weights, v).reshape(batch, length, width) @ out

    def loss(params: Any, tokens: Any, following: Any) -> Any:
        x = params["words"][tokens] + params["places"]
        for layer in params["layers"]:
            x = x + attention(normed(x, layer["norm"]), layer["qkv"], layer["out"])
            x = x + j.nn.gelu(normed(x, layer["norm2"]) @ layer["up"]) @ layer["down"]
        return _cross_entropy(j, x @ params["words"].T, following)

    def layer() -> dict[str, np.ndarray]:
        matrices = {
            "qkv": (width, 3 * width),
            "out": (width, width),
            "up": (width, 4 * width),
            "down": (4 * width, width),
        }
        ones = np.ones(width, np.float32)
        return {"norm": ones, "norm2": ones} | {k: _draw(*s, scale=s[0] ** -0.5) for k, s in matrices.items()}

    params = {
        "words": _draw(words, width, scale=0.02),
        "places": _draw(length, width, scale=0.02),
        "layers": [layer() for _ in range(layers)],
    }
    return _adam(j, loss, params, _labels(words, batch, length), _labels(words - 1, batch, length))


def recurrent(j: Any) -> Step:
    def loss(params: Any, xs: Any, y: Any) -> Any:
        w, u, b = params

        def step(h: Any, x: Any) -> tuple[Any, None]:
            return j.numpy.tanh(h @ w + x @ u + b), None

        h, _ = j.lax.scan(step, j.numpy.zeros((64, 128)), xs)
        return ((h - y) ** 2).mean()

    params = _draw(128, 128, scale=0.08), _draw(128, 128, scale=0.08), np.zeros(128, np.float32)
    return _adam(j, loss, params, _draw(100, 64, 128), _draw(64, 128))


def lorenz(j: Any) -> Step:
    def slope(s: Any) -> Any:
        x, y, z = s
        return j.numpy.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    def runge_kutta(s: Any, _: Any) -> tuple[Any, Any]:
        h = 0.01
        a = slope(s)
        b = slope(s + h / 2 * a)
        c = slope(s + h / 2 * b)
        d = slope(s + h * c)
        s = s + h / 6 * (a + 2 * b + 2 * c + d)
        return s, s[0]

    @j.jit
    def step(states: Any) -> Any:
        return j.vmap(lambda s: j.lax.scan(runge_kutta, s, None, length=100)[0])(states)

    return _repeated(step, j.numpy.asarray(1 + _draw(4096, 3, scale=0.1)))


def gaussian_process(j: Any) -> Step:
    def loss(params: Any, x: Any, y: Any) -> Any:
        size, length, noise = (j.numpy.exp(p) for p in params)
        distances = ((x[:, None] - x[None]) ** 2).sum(-1)
        lower = j.numpy.linalg.cholesky(size * j.numpy.exp(-distances / length) + (noise + 1e-3) * j.numpy.eye(len(x)))
        solved = j.scipy.linalg.solve_triangular(lower, y, lower=True)
        return (solved**2).sum() / 2 + j.numpy.log(j.numpy.diagonal(lower)).sum()

    return _adam(j, loss, [np.float32(0.0), np.float32(0.0), np.float32(-1.0)], _draw(512, 4), _draw(512))


def particles(j: Any) -> Step:
    """50 steps of 512 particles that attract and repel each other, in a periodic box."""
    box = 10.0

    def energy(x: Any) -> Any:
        d = x[:, None] - x[None]
        d = d - box * j.numpy.round(d / box)
        r2 = (d**2).sum(-1) + j.numpy.eye(len(x))
        s6 = (0.5 / r2) ** 3
        return 2 * (s6 * s6 - s6).sum()

    def leapfrog(state: Any, _: Any) -> tuple[Any, None]:
        x, v = state
        v = v - 1e-4 * j.grad(energy)(x)
        return ((x + 1e-4 * v) % box, v), None

    step = j.jit(lambda state: j.lax.scan(leapfrog, state, None, length=50)[0])
    x = np.stack(np.meshgrid(*[np.arange(8) * box / 8] * 3), -1).reshape(-1, 3).astype(np.float32)
    return _repeated(step, j.tree.map(j.numpy.asarray, (x, _draw(512, 3))))


def draws(j: Any) -> Step:
    @j.jit
    def step(key: Any) -> Any:
        key, one, other = j.random.split(key, 3)
        inside = (j.random.uniform(one, (4_000_000,)) + j.random.normal(other, (4_000_000,)) > 1).mean()
        return j.random.fold_in(key, (inside * 1000).astype(int))

    return _repeated(step, j.random.key(0))


def autoencoder(j: Any) -> Step:
    """Adam on a variational autoencoder (Kingma and Welling, 2014), with noise and dropout of its own at every step."""

    def loss(params: Any, key: Any, x: Any) -> Any:
        a, b, c, d = params
        one, other = j.random.split(key)
        h = j.nn.relu(x @ a) * j.random.bernoulli(one, 0.9, (256, 400)) / 0.9
        mean, log_scale = j.numpy.split(h @ b, 2, axis=1)
        z = mean + j.numpy.exp(log_scale) * j.random.normal(other, mean.shape)
        logits = j.nn.relu(z @ c) @ d
        divergence = (mean**2 + j.numpy.exp(2 * log_scale) - 1 - 2 * log_scale).sum(1) / 2
        return (j.nn.softplus(logits) - x * logits).sum(1).mean() + divergence.mean()

    @j.jit
    def step(state: Any, x: Any) -> Any:
        params, key = state
        key, now = j.random.split(key)
        return j.tree.map(lambda p, g: p - _RATE * g, params, j.grad(loss)(params, now, x)), key

    params = [_draw(n, m, scale=n**-0.5) for n, m in ((784, 400), (400, 40), (20, 400), (400, 784))]
    images = np.random.default_rng(0).uniform(size=(256, 784)).astype(np.float32)
    return _repeated(step, (j.tree.map(j.numpy.asarray, params), j.random.key(0)), j.numpy.asarray(images))


def monte_carlo(j: Any) -> Step:
    """A step of Hamiltonian Monte Carlo of 64 chains on a logistic regression."""
    x, y = _draw(2000, 20), _labels(2, 2000)

    def log_density(w: Any) -> Any:
        logits = x @ w
        return (y * logits - j.nn.softplus(logits)).sum() - (w**2).sum() / 2

    def trajectory(w: Any, key: Any) -> Any:
        one, other = j.random.split(key)
        p = j.random.normal(one, w.shape)

        def leapfrog(_: Any, state: Any) -> Any:
            w, p = state
            p = p + 0.005 * j.grad(log_density)(w)
            w = w + 0.01 * p
            return w, p + 0.005 * j.grad(log_density)(w)

        new, q = j.lax.fori_loop(0, 10, leapfrog, (w, p))
        gain = log_density(new) - log_density(w) + (p @ p - q @ q) / 2
        return j.numpy.where(j.numpy.log(j.random.uniform(other)) < gain, new, w)

    @j.jit
    def step(state: Any) -> Any:
        w, key = state
        key, *now = j.random.split(key, 65)
        return j.vmap(trajectory)(w, j.numpy.stack(now)), key

    return _repeated(step, (j.numpy.zeros((64, 20)), j.random.key(0)))


def clipped(j: Any) -> Step:
    """DP-SGD of a batch of 256."""

    def loss(params: Any, x: Any, y: Any) -> Any:
        a, b, c = params
        return -j.nn.log_softmax(j.numpy.tanh(j.numpy.tanh(x @ a) @ b) @ c)[y]

    @j.jit
    def step(state: Any, x: Any, y: Any) -> Any:
        params, key = state
        key, now = j.random.split(key)
        grads = j.vmap(j.grad(loss), (None, 0, 0))(params, x, y)
        norms = j.numpy.sqrt(sum((g**2).sum((1, 2)) for g in grads))
        scale = 1 / j.numpy.maximum(1, norms)
        sums = [(g * scale[:, None, None]).sum(0) for g in grads]
        noise = [j.random.normal(k, p.shape) for k, p in zip(j.random.split(now, 3), params, strict=True)]
        return [p - 0.1 / 256 * (g + n) for p, g, n in zip(params, sums, noise, strict=True)], key

    params = [_draw(n, m, scale=n**-0.5) for n, m in ((784, 256), (256, 256), (256, 10))]
    data = j.tree.map(j.numpy.asarray, (_draw(256, 784), _labels(10, 256)))
    return _repeated(step, (j.tree.map(j.numpy.asarray, params), j.random.key(0)), *data)


def waves(j: Any) -> Step:
    """20 steps of the vorticity of a plane, by Fourier transforms of 512 x 512."""
    k = np.fft.fftfreq(512, 1 / 512).astype(np.float32)
    kx, ky = k[:, None], k[None, :257].copy()
    ky[0, -1] = 256
    square = kx**2 + ky**2
    inverse = np.where(square == 0, 0, 1 / np.where(square == 0, 1, square)).astype(np.float32)

    def step(w: Any, _: Any) -> tuple[Any, None]:
        back = functools.partial(j.numpy.fft.irfft2, s=(512, 512))
        u, v, wx, wy = (back(f) for f in (1j * ky * w * inverse, -1j * kx * w * inverse, 1j * kx * w, 1j * ky * w))
        return (w - 1e-3 * j.numpy.fft.rfft2(u * wx + v * wy)) / (1 + 1e-6 * square), None

    run = j.jit(lambda w: j.lax.scan(step, w, None, length=20)[0])
    return _repeated(run, j.numpy.fft.rfft2(j.numpy.asarray(_draw(512, 512))))


def operators(j: Any) -> Step:
    """No jit: a gradient of a few operators, and what one does with arrays between."""
    x = j.numpy.asarray(_draw(256, 256))
    gradient = j.grad(lambda x: (j.numpy.tanh(x @ x.T) ** 2).mean())

    def step() -> Any:
        y = x - 0.1 * gradient(x)
        y = y.at[0].set(1.0)
        return j.numpy.where(y > 0, y, 0).sum(), j.numpy.linalg.norm(y), y[:10].T @ y[:10]

    return step


PROGRAMS: dict[str, Callable[[Any], Step]] = {
    "adam, mlp": mlp,
    "adam, convolutions": convolutions,
    "adam, transformer": transformer,
    "adam, rnn": recurrent,
    "adam, gaussian process": gaussian_process,
    "adam, autoencoder": autoencoder,
    "dp-sgd, mlp": clipped,
    "hmc, 64 chains": monte_carlo,
    "lorenz, 4096": lorenz,
    "particles, 512": particles,
    "waves, 512 x 512": waves,
    "draws, 4M": draws,
    "eager, 256 x 256": operators,
}
