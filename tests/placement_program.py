"""Programs on the second device of second_device.py, which is the default one: `python placement_program.py SECTION`.

Each is run on the CPU and on the second device. Prints a JSON object of what was wrong: an error, a result that lies
elsewhere, other values.
"""

import importlib.util
import json
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import composition_cases
import numpy as np
import second_device
from random_programs import DRAWS, GRAPHS, LOOPS

import jaxish
from jaxish import dropin
from jaxish._core import graph
from jaxish._core.array import default_torch_device, tensor_of
from jaxish._random.key_array import KeyArray
from jaxish.flatten_util import ravel_pytree

jnp, lax, random = jaxish.numpy, jaxish.lax, jaxish.random
Program = Callable[[], Any]

DOMAINS = {"~": (-2.0, 2.0), "+": (0.3, 2.0), "-": (-0.9, 0.9), "%": (0.1, 0.9), ">": (1.2, 3.0)}


def arguments(spec: str) -> dict[str, np.ndarray]:
    """Return arrays as a case of composition_cases.py describes them."""
    generator, found = np.random.default_rng(0), {}
    for name, text in (part.split(":") for part in spec.split()):
        sizes = [int(n) for n in text.lstrip("~+-%>").split(",") if n]
        found[name] = generator.uniform(*DOMAINS.get(text[:1], DOMAINS["~"]), sizes).astype(np.float32)
    return found


def expressions(share: int, apart: bool = False) -> Iterator[tuple[str, Program]]:
    """Yield one in `share` of the cases of composition_cases.py; with `apart` of those that make no arrays themselves."""
    for name, spec in composition_cases.cases().items():
        if zlib.crc32(name.encode()) % share == 0 and not (apart and MAKES_ARRAYS.search(name)):
            yield name, partial(expression, name.rsplit(" [", 1)[0], spec, apart)


MAKES_ARRAYS = re.compile(r"jnp\.(array|asarray|int32|eye|identity|tri|ones|zeros|arange|fromfunction)\(|one_hot")


def expression(text: str, spec: str, apart: bool) -> Any:
    """Return the value of an expression; with `apart`, the default device is the one where the arguments are not."""
    scope = {"jax": jaxish, "jnp": jnp, "lax": lax, "nn": jaxish.nn, "random": random, "np": np, "K": random.key(0)}
    scope |= {name: jnp.asarray(value) for name, value in arguments(spec).items()}
    is_far = default_torch_device() == second_device.FAR
    with jaxish.default_device(PLACES[is_far is not apart]):
        return eval(text, scope)


PLACES = {False: jaxish.devices("cpu")[0], True: second_device.DEVICE}  # by whether it is the second device


@jaxish.custom_vjp
def halves(x):
    """Return two results, of which the second may have no cotangent."""
    return x / 2, x * 3


halves.defvjp(lambda x: (halves(x), None), lambda _, cotangents: (cotangents[0] / 2 + cotangents[1] * 3,))


@jaxish.custom_jvp
def cube(x):
    """Return x cubed, with a rule of its own."""
    return x**3


cube.defjvp(lambda primals, tangents: (cube(*primals), 3 * primals[0] ** 2 * tangents[0]))


def drift(x):
    """Return x after some steps of each kind of loop."""
    x = lax.scan(lambda c, t: (jnp.sin(c) + t, c.sum()), x, jnp.arange(3.0))[0]
    x = lax.fori_loop(0, 4, lambda i, c: c * 0.9 + i, x)
    return lax.cond(x[0] > 0, jnp.sin, jnp.cos, x)


X = np.array([0.3, -0.7, 1.1], np.float32)
W = np.array([[2.0, 0.5, 0.0], [0.5, 3.0, 0.2], [0.0, 0.2, 1.0]], np.float32)

TRANSFORMATIONS: dict[str, Callable[[], Any]] = {
    "numbers": lambda: (jnp.asarray(2), jnp.float32(3), jnp.array([1, 2.5]), jnp.arange(3), jnp.linspace(0, 1, 5)),
    "nothing given": lambda: (jnp.zeros(3), jnp.ones((2, 2)), jnp.full(2, 7), jnp.eye(3), jnp.empty(2), lax.iota("int32", 3)),
    "empty": lambda: (jnp.sum(jnp.zeros((0, 3)), 0), jnp.array([]), jnp.prod(jnp.zeros(0)), jnp.fft.fft(jnp.zeros((0, 4)))),
    "answers": lambda: (jnp.array_equal(X, X[:2]), jnp.array_equiv(X, X[:2]), jnp.allclose(X, X), jnp.lexsort([jnp.int32(1)])),
    "keys": lambda: [random.key_data(k) for k in (random.key(1), random.fold_in(random.key(1), 2), *random.split(random.key(3)))],
    "raw keys": lambda: (random.PRNGKey(0), random.split(random.PRNGKey(1), 3), random.fold_in(random.PRNGKey(1), 5)),
    "other generators": lambda: [random.normal(random.key(0, impl=i), (3,)) for i in ("rbg", "unsafe_rbg")],
    "a sample beside an operand": lambda: jnp.asarray(X) + random.normal(random.key(0), (3,)),
    "grad": lambda: jaxish.grad(lambda x: jnp.sum(jnp.tanh(x) * 2))(jnp.asarray(X)),
    "grad of NumPy": lambda: jaxish.value_and_grad(lambda x: jnp.sum(x**2))(X),
    "grad of a number": lambda: jaxish.grad(lambda x: 3.0 * x**2)(2.0),
    "unused argument": lambda: jaxish.grad(lambda x, y: jnp.sum(x), argnums=(0, 1))(jnp.asarray(X), jnp.asarray(W)),
    "constant": lambda: jaxish.grad(lambda x: 2.0)(jnp.asarray(X)),
    "jvp": lambda: jaxish.jvp(lambda x: (x * 2, jnp.ones(2)), (jnp.asarray(X),), (jnp.ones(3),)),
    "linearize": lambda: jaxish.linearize(jnp.sin, jnp.asarray(X))[1](jnp.ones(3)),
    "vjp": lambda: jaxish.vjp(lambda x: (x, jnp.sum(x)), jnp.asarray(X))[1]((jnp.ones(3), jnp.float32(2))),
    "hessian": lambda: jaxish.hessian(lambda x: jnp.sum(x**3))(jnp.asarray(X)),
    "jacobians": lambda: (jaxish.jacfwd(jnp.sin)(jnp.asarray(X)), jaxish.jacrev(jnp.sin)(jnp.asarray(X))),
    "jacobian of integers": lambda: jaxish.jacrev(lambda x: x * 1.0, allow_int=True)(jnp.arange(3)) is None,
    "vmap": lambda: jaxish.vmap(lambda w, x: w @ x + jnp.arange(3), (0, None))(jnp.asarray(W), jnp.asarray(X)),
    "vmap of a constant": lambda: jaxish.vmap(lambda x: jnp.zeros(2))(jnp.asarray(X)),
    "vmap of a grad": lambda: jaxish.vmap(jaxish.grad(lambda x: jnp.dot(x, x)))(jnp.asarray(W)),
    "collective": lambda: jaxish.vmap(lambda x: lax.psum(x, "i") + lax.axis_index("i"), axis_name="i")(jnp.asarray(X)),
    "jit": lambda: jaxish.jit(lambda x: (x + 1, jnp.zeros(2), 3, random.normal(random.key(0))))(jnp.asarray(X)),
    "jit of a grad": lambda: jaxish.jit(jaxish.grad(lambda x: jnp.sum(drift(x))))(jnp.asarray(X)),
    "grad of a jit": lambda: jaxish.grad(lambda x: jaxish.jit(lambda y: jnp.sum(drift(y)))(x))(jnp.asarray(X)),
    "forward over reverse of a jit": lambda: jaxish.hessian(jaxish.jit(lambda x: jnp.sum(drift(x))))(jnp.asarray(X)),
    "grad under another configuration": lambda: jaxish.grad(lambda x: jnp.sum(drift(cube(x)) @ W))(jnp.asarray(X)),
    "while": lambda: lax.while_loop(lambda c: c[1] < 5, lambda c: (c[0] * 1.5, c[1] + 1), (jnp.asarray(X), 0)),
    "fori, bounds unknown": lambda: jaxish.jit(lambda n: lax.fori_loop(0, n, lambda i, c: c + i, jnp.asarray(X)))(4),
    "fori, counting": lambda: lax.fori_loop(0, 4, lambda i, c: i, 0),
    "scan without arguments": lambda: lax.scan(lambda c, _: (c + 1, c), 0, None, length=3),
    "switch": lambda: lax.switch(jnp.int32(1), [jnp.sin, jnp.cos, jnp.tanh], jnp.asarray(X)),
    "map": lambda: lax.map(lambda x: x * 2, jnp.asarray(W)),
    "associative_scan": lambda: lax.associative_scan(jnp.add, jnp.asarray(X)),
    "custom_vjp": lambda: jaxish.grad(lambda x: jnp.sum(halves(x)[0]))(jnp.asarray(X)),
    "custom_vjp under vmap": lambda: jaxish.vmap(jaxish.grad(lambda x: halves(x)[0]))(jnp.asarray(X)),
    "custom_jvp": lambda: (jaxish.grad(lambda x: jnp.sum(cube(x)))(jnp.asarray(X)), jaxish.jvp(cube, (X,), (X,))),
    "checkpoint": lambda: jaxish.grad(lambda x: jnp.sum(jaxish.checkpoint(drift)(x)))(jnp.asarray(X)),
    "linear_transpose": lambda: jaxish.linear_transpose(lambda x: W @ x, jaxish.ShapeDtypeStruct((3,), "float32"))(X),
    "linear_transpose of an array": lambda: jaxish.linear_transpose(lambda x: jnp.asarray(W) @ x, jnp.asarray(X))(X),
    "custom_root": lambda: lax.custom_root(
        lambda x: x**2 - 2, 1.0, lambda f, x: lax.fori_loop(0, 20, lambda _, x: x - f(x) / (2 * x), x), lambda g, y: y / g(1.0)
    ),
    "pure_callback": lambda: jaxish.pure_callback(np.sin, jaxish.ShapeDtypeStruct((3,), "float32"), jnp.asarray(X)),
    "eig": lambda: jnp.abs(lax.linalg.eig(jnp.asarray(W))[0]),
    "schur": lambda: jnp.abs(lax.linalg.schur(jnp.asarray(W))[0]),
    "ravel_pytree": lambda: (
        ravel_pytree({})[0],
        ravel_pytree({"a": 1.0, "b": X})[0],
    ),
    "updates": lambda: (jnp.asarray(W).at[([0, 2],)].set(1.0), jnp.asarray(W)[np.array([1, 0])], jnp.asarray(W)[X > 0]),
    "copied": lambda: (jnp.array(jnp.asarray(X)), jnp.copy(jnp.asarray(X)), jnp.asarray(X).astype("int32")),
}  # fmt: skip


def samplers(share: int) -> Iterator[tuple[str, Program]]:
    """Yield one in `share` of the draws of random_programs.py, and of the graphs and loops with draws in them."""
    for name, draw in [*{**DRAWS, **GRAPHS, **LOOPS}.items()][::share]:
        yield name, partial(draw, jaxish)


def step() -> Iterator[tuple[str, Program]]:
    """Yield a training step of the example, jitted."""
    dropin.install()
    path = Path(__file__).parent.parent / "examples" / "dp_sgd_digits.py"
    spec: Any = importlib.util.spec_from_file_location("dp_sgd_digits", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    images = np.random.default_rng(0).uniform(0, 1, (6, 8, 8)).astype(np.float32)
    labels, included = np.arange(6, dtype=np.int32), np.ones(6, np.float32)

    def run(init: Any, apply: Any) -> Any:
        params = init(random.key(0))
        rest = jaxish.tree.map(jnp.zeros_like, params), random.key(1), images, labels, included
        new = example.private_step(params, *rest, apply=apply, max_norm=1.0, noise=2.0, expected=6.0, rate=0.5)
        return new, example.evaluate(new[0], images, labels, apply=apply)

    for name, parts in example.MODELS.items():
        yield name, partial(run, *parts)


def arrays(result: Any) -> list[Any]:
    """Return the arrays in a result, keys as their words."""
    leaves = [x for x in jaxish.tree.leaves(result) if isinstance(x, jaxish.Array)]
    return [random.key_data(x) if isinstance(x, KeyArray) else x for x in leaves]


def wrong(program: Program) -> str | None:
    """Say what is wrong with a program on the second device, or on the CPU."""
    results: list[list[Any]] = []
    made: list[str] = []
    for place in PLACES.values():
        with jaxish.default_device(place):
            try:
                results.append(arrays(program()))
                made = list(made_on_the_cpu(program)) if place is second_device.DEVICE else []
            except Exception as error:
                return f"{type(error).__name__}: {error}"
        strays = [x for x in results[-1] if x._tensor.device != place.torch_device]
        if strays:
            return f"of {place.torch_device}, a result of shape {strays[0].shape} lies on {strays[0]._tensor.device}"
    for x, y in zip(*results, strict=True):
        if not np.allclose(np.asarray(x), np.asarray(y), rtol=1e-4, atol=1e-4, equal_nan=True):
            return f"{y} is not {x}"
    return f"its trace has {made}" if made else None


def made_on_the_cpu(program: Program) -> Iterator[str]:
    """Yield what a trace of the program makes on the CPU; numbers that torch wrapped are there, and are no results."""
    closed = graph.trace(lambda: [tensor_of(x) for x in arrays(program())], [])
    for node in closed.graph.module.graph.nodes:
        type = graph.type_of(node)
        if type is not None and type.device.type == "cpu" and type.shape:
            yield f"{node.target}: {type}"


SECTIONS: dict[str, Callable[[], Any]] = {
    "expressions": lambda: expressions(15),
    "apart": lambda: expressions(15, apart=True),
    "all expressions": lambda: expressions(1),
    "all apart": lambda: expressions(1, apart=True),
    "transformations": TRANSFORMATIONS.items,
    "samplers": lambda: samplers(8),
    "all samplers": lambda: samplers(1),
    "step": step,
}

if __name__ == "__main__":
    outcomes = {name: wrong(program) for name, program in SECTIONS[sys.argv[1]]()}
    print(json.dumps({"run": len(outcomes), "wrong": {name: text for name, text in outcomes.items() if text}}))
