"""Many threads, many graphs, killed compilations: `python -m tests.stress`, bounded by its arguments.

Each part prints what it did. It ends with an error when a value was wrong, when something was lost, or when memory,
descriptors, threads or processes grew.
"""

import argparse
import collections
import gc
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

import jaxish as jax
import jaxish.numpy as jnp
from jaxish._core import config

X = np.linspace(0.1, 1, 50, dtype=np.float32)
PROGRAM = pathlib.Path(__file__).parent.parent / "compiling_program.py"


def close(found, expected):
    np.testing.assert_allclose(np.asarray(found), expected, atol=1e-4, rtol=1e-4)


# ---------------------------------------------------------------------------------------------------------- threads

_shared = jax.jit(lambda x, n: jnp.sin(x) * n + jnp.cos(x))
_loop = jax.jit(lambda c: jax.lax.fori_loop(0, 5, lambda i, c: c * 1.5 + 1, c))
_gradient = jax.jit(jax.grad(lambda x: (jnp.sin(x) ** 2).sum()))
_hessian = jax.jit(jax.hessian(lambda x: (x**3).sum()))
_product = jax.jit(lambda x: jnp.outer(x, x) @ x)
_draw = jax.jit(lambda key: jax.random.normal(key, (9,)))
_DRAWN = np.asarray(jax.random.normal(jax.random.key(0), (9,)))  # before there are threads


def _own(x, chance):
    factor = chance.random()
    jitted = jax.jit(lambda x: jnp.exp(x) * factor - x)
    for _ in range(3):
        close(jitted(x), np.exp(x) * factor - x)


CALLS = {
    "shared": lambda x, _: close(_shared(x, 2.0), np.sin(x) * 2 + np.cos(x)),
    "loop": lambda x, _: close(_loop(x), x * 1.5**5 + sum(1.5**i for i in range(5))),
    "gradient": lambda x, _: close(_gradient(x), 2 * np.sin(x) * np.cos(x)),
    "hessian": lambda x, _: close(_hessian(x[:5]), np.diag(6 * x[:5])),
    "product": lambda x, _: close(_product(x), np.outer(x, x) @ x),
    "own": _own,
    "eager": lambda x, _: close(jax.grad(lambda x: jax.vmap(jnp.tanh)(x).sum())(jnp.asarray(x)), 1 - np.tanh(x) ** 2),
    "draw": lambda x, _: close(_draw(jax.random.key(0)), _DRAWN),
}


def threads(count, seconds):
    """Call, trace and compile the same and different functions in many threads at once."""
    failures, done = [], collections.Counter()
    end = time.monotonic() + seconds

    def work(seed):
        chance = random.Random(seed)
        name = ""
        try:
            while time.monotonic() < end and not failures:
                name = chance.choice(list(CALLS))
                CALLS[name](X[: chance.randint(5, 9)], chance)
                done[name] += 1
        except Exception as error:
            failures.append(f"{name}: {type(error).__name__}: {error}")

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    workers = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    sys.setswitchinterval(before)
    assert not failures, failures
    print(f"threads: {count}, {sum(done.values())} calls ({dict(done)}), none wrong")


# ----------------------------------------------------------------------------------------------------------- graphs


def _held():
    gc.collect()
    memory = int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    children = [pid for path in pathlib.Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()]
    return memory, len(os.listdir("/proc/self/fd")), threading.active_count(), len(children)


def graphs(count, growth=20_000):
    """Trace and run many distinct functions; what is held per function must be next to nothing."""

    def one(i):
        jitted = jax.jit(lambda x: jnp.sin(x) * (i + 0.5) + jnp.cos(x))
        for _ in range(3):
            close(jitted(X), np.sin(X) * (i + 0.5) + np.cos(X)) if i % 100 == 0 else jitted(X)
        if i % 10 == 0:
            jax.jit(jax.grad(lambda x: jax.lax.scan(lambda c, a: (c * a + i % 7, None), 0.0, x)[0]))(X)

    for i in range(count // 10):
        one(i)
    before = _held()
    for i in range(count // 10, count):
        one(i)
    after = _held()
    per_graph = (after[0] - before[0]) / (count * 0.9)
    print(f"graphs: {count}, memory {before[0] >> 20} to {after[0] >> 20} MB ({per_graph:.0f} bytes a graph), "
          f"descriptors {before[1]} to {after[1]}, threads {before[2]} to {after[2]}, processes {before[3]} to {after[3]}")  # fmt: skip
    assert per_graph < growth and after[1] <= before[1] + 3 and after[2:] == before[2:], (before, after)


def large(operators, leaves, levels):
    """Trace a long graph, and trees that are wide and deep."""

    def long(x):
        for _ in range(operators // 2):
            x = jnp.sin(x) + 0.125
        return x

    expected = 1.0
    for _ in range(operators // 2):
        expected = np.sin(expected) + 0.125
    close(jax.jit(long)(1.0), expected)
    jax.jit(jax.grad(long))(1.0)
    wide = [np.float32(i) for i in range(leaves)]
    close(jax.jit(lambda t: t[1] + t[-1])(wide), leaves)
    deep = np.float32(2)
    for _ in range(levels):
        deep = [deep]
    close(jax.tree.leaves(jax.jit(lambda t: jax.tree.map(lambda a: a * 2, t))(deep))[0], 4)
    assert len(jax.tree_util.tree_leaves_with_path(deep)) == 1
    print(f"large: a graph of {operators} operators, trees of {leaves} leaves and of {levels} levels")


# ------------------------------------------------------------------------------------------------------------ kills


def kills(count, seed=0):
    """End processes that compile, at any moment, with and without the compilers that they started."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "JAXISH_CACHE_DIR": f"{folder}/cache", "JAXISH_JIT_TIER": "compiled"}
        for _ in range(count):
            started = subprocess.Popen(
                [sys.executable, PROGRAM], env=environment, start_new_session=True,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            time.sleep(chance.uniform(1, 9))
            if chance.random() < 0.5:
                os.killpg(started.pid, signal.SIGKILL)
            else:
                started.kill()
            started.wait()
        last = subprocess.run([sys.executable, PROGRAM], env=environment, capture_output=True, text=True)
    assert last.returncode == 0 and last.stdout.startswith("compiled"), last.stderr
    print(f"kills: {count} survived")


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m tests.stress", description=__doc__)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=600, help="of calls in threads, on each tier")
    parser.add_argument("--tiers", nargs="*", default=["direct", "auto", "compiled"])
    parser.add_argument("--graphs", type=int, default=10_000)
    parser.add_argument("--compiled-graphs", type=int, default=200, help="of them with the backend's compiler")
    parser.add_argument("--operators", type=int, default=10_000)
    parser.add_argument("--leaves", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=40)
    options = parser.parse_args(argv)
    config.jit_tier.set("direct")
    graphs(options.graphs)
    large(options.operators, options.leaves, levels=990)
    if options.compiled_graphs:
        config.jit_tier.set("compiled")
        graphs(options.compiled_graphs, growth=400_000)  # Python never unloads a library
    for tier in options.tiers:
        config.jit_tier.set(tier)
        print(f"tier {tier}, ", end="")
        threads(options.threads, options.seconds)
    kills(options.kills)


if __name__ == "__main__":
    main()
