"""Derivatives of mapped functions: every order of grad, jvp, vmap and jit gives what JAX's gives example by example.

`Case` holds one expression with a batch of arguments, and what JAX computes for each example: values, the gradient of a
weighted sum of the results, the results' derivative along a direction, that direction's Hessian-vector product, and the
second derivative along it. Each composition is compared with these: where an argument is the same for all examples,
with their sum. `python tests/compositions.py` runs all cases (minutes; `--help`).
"""

import argparse
import functools
import itertools
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import composition_cases
import jax
import numpy as np

import jaxish
from jaxish._core import config

BATCH = 5
TOLERANCE = 2e-3  # of the largest element: second derivatives in float32


def _values(domain: str, shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    draw = {
        "~": lambda: generator.normal(0, 1, shape),
        "+": lambda: generator.uniform(0.3, 2, shape),
        "-": lambda: generator.uniform(-0.9, 0.9, shape),
        "%": lambda: generator.uniform(0.1, 0.9, shape),
        ">": lambda: generator.uniform(1.2, 3, shape),
    }
    return draw[domain]().astype(np.float32)


def _arguments(spec: str) -> list[tuple[str, str, tuple[int, ...]]]:
    found = []
    for part in spec.split():
        name, text = part.split(":")
        domain = text[0] if text[:1] in ("~", "+", "-", "%", ">") else "~"
        found.append((name, domain, tuple(map(int, filter(None, text.lstrip("~+-%>").split(","))))))
    return found


def function_of(library: Any, expression: str, names: Sequence[str]) -> Callable[..., list[Any]]:
    """Return the expression as a function of its arguments, giving the results that have derivatives."""
    scope = {
        "jax": library, "jnp": library.numpy, "lax": library.lax, "nn": library.nn, "random": library.random, "np": np,
        "K": library.random.key(0),
    }  # fmt: skip
    code = compile(expression, expression, "eval")

    def function(*args: Any) -> list[Any]:
        leaves = library.tree_util.tree_leaves(eval(code, {**scope, **dict(zip(names, args, strict=True))}))
        return [x for x in map(library.numpy.asarray, leaves) if library.numpy.issubdtype(x.dtype, np.inexact)]

    return function


def loss_of(library: Any, function: Callable[..., list[Any]]) -> Callable[..., Any]:
    def loss(*args: Any) -> Any:
        total = library.numpy.zeros(())
        for leaf in function(*args):
            weights = np.cos(np.arange(leaf.size) + 1.0).reshape(leaf.shape).astype(np.float32)
            total += (leaf * weights).sum() if leaf.dtype.kind != "c" else (leaf.real * weights + leaf.imag).sum()
        return total

    return loss


class Case:
    """One expression, a batch of arguments and directions, and what JAX computes for each example."""

    def __init__(self, expression: str, spec: str) -> None:
        self.expression = expression.rpartition(" [")[0]
        arguments = _arguments(spec)
        self.names = [name for name, _, _ in arguments]
        generator = np.random.default_rng(zlib.crc32(expression.encode()))
        self.args = [_values(d, (BATCH, *shape), generator) for _, d, shape in arguments]
        self.directions = [_values("~", (BATCH, *shape), generator) for _, _, shape in arguments]
        self.function = function_of(jaxish, self.expression, self.names)
        self.loss = loss_of(jaxish, self.function)
        self._reference = jax.jit(jax.vmap(self._by_jax))

    def _by_jax(self, args: Any, directions: Any) -> dict[str, Any]:
        function = function_of(jax, self.expression, self.names)
        everything = tuple(range(len(args)))
        gradient = jax.grad(loss_of(jax, function), everything)
        along = lambda *a: jax.jvp(function, a, directions)[1]
        return {
            "gradient": gradient(*args),
            "derivative": along(*args),
            "hessian-vector": jax.jvp(gradient, args, directions)[1],
            "second derivative": jax.jvp(along, args, directions)[1],
        }

    def reference(self, batched: Sequence[bool]) -> tuple[list[np.ndarray], list[np.ndarray], dict[str, Any]]:
        """Return arguments and directions, the first example's where not batched, and JAX's results for each example."""
        repeat = lambda ts: [t if b else np.repeat(t[:1], BATCH, 0) for t, b in zip(ts, batched, strict=True)]
        args, directions = repeat(self.args), repeat(self.directions)
        found = self._reference(tuple(args), tuple(directions))
        return args, directions, jax.tree_util.tree_map(np.asarray, found)


def compositions(case: Case, axes: Sequence[int | None], directions: list[Any]) -> dict[str, tuple[str, str, Any]]:
    """Return by name: which reference, whether stacked or summed over examples, and the composition as a function."""
    j, f, loss = jaxish, case.function, case.loss
    axes, count = tuple(axes), len(axes)
    all_args = tuple(range(count))
    v = tuple(directions)
    total = lambda *a: j.vmap(loss, axes)(*a).sum()
    mapped = lambda *a: j.vmap(f, axes)(*a)
    dot = lambda gs: sum(((g * d).sum() for g, d in zip(gs, v, strict=True)), j.numpy.zeros(()))
    split = lambda both: (both[:count], both[count:])
    both = lambda inner: lambda *a: j.vmap(lambda *av: inner(*split(av)), axes + axes)(*a, *v)
    hessian_rev = lambda a, d: j.grad(lambda *b: j.jvp(loss, b, d)[1], all_args)(*a)
    return {
        "grad(vmap)": ("gradient", "summed", j.grad(total, all_args)),
        "vmap(grad)": ("gradient", "stacked", j.vmap(j.grad(loss, all_args), axes)),
        "jacrev(vmap)": ("gradient", "summed", lambda *a: [r.sum(0) for r in j.jacrev(j.vmap(loss, axes), all_args)(*a)]),
        "jacfwd(vmap)": ("gradient", "summed", lambda *a: [r.sum(0) for r in j.jacfwd(j.vmap(loss, axes), all_args)(*a)]),
        "vmap(jacfwd)": ("gradient", "stacked", j.vmap(j.jacfwd(loss, all_args), axes)),
        "jvp(vmap)": ("derivative", "stacked", lambda *a: j.jvp(mapped, a, v)[1]),
        "vmap(jvp)": ("derivative", "stacked", both(lambda a, d: j.jvp(f, a, d)[1])),
        "grad(grad(vmap))": ("hessian-vector", "summed", j.grad(lambda *a: dot(j.grad(total, all_args)(*a)), all_args)),
        "jvp(grad(vmap))": ("hessian-vector", "summed", lambda *a: j.jvp(j.grad(total, all_args), a, v)[1]),
        "grad(jvp(vmap))": ("hessian-vector", "summed", j.grad(lambda *a: j.jvp(total, a, v)[1], all_args)),
        "vmap(jvp(grad))": ("hessian-vector", "stacked", both(lambda a, d: j.jvp(j.grad(loss, all_args), a, d)[1])),
        "vmap(grad(jvp))": ("hessian-vector", "stacked", both(hessian_rev)),
        "jvp(jvp(vmap))": (
            "second derivative", "stacked", lambda *a: j.jvp(lambda *b: j.jvp(mapped, b, v)[1], a, v)[1],
        ),
        "vmap(jvp(jvp))": (
            "second derivative", "stacked", both(lambda a, d: j.jvp(lambda *b: j.jvp(f, b, d)[1], a, d)[1]),
        ),
    }  # fmt: skip


def _moved(t: np.ndarray, axis: int | None) -> np.ndarray:
    return t[0] if axis is None else np.moveaxis(t, 0, axis)


def _expected(reference: Any, axes: Sequence[int | None], form: str) -> list[np.ndarray]:
    if form == "stacked":
        return list(reference)
    return [r.sum(0) if axis is None else np.moveaxis(r, 0, axis) for r, axis in zip(reference, axes, strict=True)]


def difference(found: Any, wanted: Sequence[np.ndarray]) -> str | None:
    """Say how the leaves of `found` differ from `wanted`; None where they agree."""
    leaves = jaxish.tree_util.tree_leaves(found)
    if len(leaves) != len(wanted):
        return f"{len(leaves)} results, JAX has {len(wanted)}"
    for leaf, expected in zip(leaves, wanted, strict=True):
        if leaf.shape != expected.shape or leaf.dtype != expected.dtype:
            return f"{leaf.dtype}{leaf.shape}, JAX {expected.dtype}{expected.shape}"
        scale = max(1.0, float(np.max(np.abs(expected), initial=0, where=np.isfinite(expected))))
        if not np.allclose(np.asarray(leaf), expected, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True):
            return f"{np.asarray(leaf)!r}, JAX {expected!r}"
    return None


def axes_of(case: Case) -> Iterator[tuple[int | None, ...]]:
    """Yield each choice of mapped arguments, along their first and along their last axis."""
    count = len(case.args)
    for batched in itertools.product((True, False), repeat=count):
        if any(batched):
            yield tuple(0 if b else None for b in batched)
            yield tuple(a.ndim - 1 if b else None for a, b in zip(case.args, batched, strict=True))


def _lowered(function: Callable[..., Any], *args: Any) -> Any:
    """Run the graph that Inductor would be given, operator by operator: compiled code without the compiler."""
    with config.backend("interpret"):
        return jaxish.jit(function).lower(*args).compile()(*args)


def failures(expression: str, spec: str, only: Callable[[str], bool] = lambda name: True) -> Iterator[tuple[str, str]]:
    """Yield the compositions of a case that differ from JAX, and how. Each comes eagerly, under jit, and lowered."""
    case = Case(expression, spec)
    for axes in dict.fromkeys(axes_of(case)):
        args, directions, reference = case.reference([a is not None for a in axes])
        given = [_moved(a, axis) for a, axis in zip(args, axes, strict=True)]
        along = [jaxish.numpy.asarray(_moved(d, axis)) for d, axis in zip(directions, axes, strict=True)]
        for name, (which, form, function) in compositions(case, axes, along).items():
            wanted = _expected(reference[which], axes, form)
            compiled = functools.partial(_lowered, function)
            ways = {name: function, f"jit({name})": jaxish.jit(function), f"lowered({name})": compiled}
            for label, run in ways.items():
                if not only(f"{expression} {axes} {label}"):
                    continue
                try:
                    problem = difference(run(*given), wanted)
                except Exception as error:
                    problem = f"{type(error).__name__}: {error}"
                yield (f"{axes} {label}", problem or "")


def main() -> int:
    """Run the cases that the command line names; return 1 if one differs from JAX."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern", nargs="?", default="", help="only cases that contain this text")
    parser.add_argument("--part", default="0/1", help="k/n: every n-th case, from the k-th on")
    options = parser.parse_args()
    first, step = map(int, options.part.split("/"))
    count = wrong = 0
    start = time.perf_counter()
    for expression, spec in list(composition_cases.cases().items())[first::step]:
        if options.pattern not in expression:
            continue
        try:
            found = list(failures(expression, spec))
        except Exception as error:
            print(f"SKIPPED {expression}: {type(error).__name__}: {str(error)[:200]}", flush=True)
            continue
        count += len(found)
        bad = [(name, problem) for name, problem in found if problem]
        wrong += len(bad)
        if bad:
            print(f"WRONG {expression}: {len(bad)} of {len(found)}", flush=True)
            for name, problem in bad[:3]:
                print(f"    {name}: {' '.join(problem.split())[:300]}", flush=True)
    print(f"{count} compositions, {wrong} differ from JAX, {time.perf_counter() - start:.0f} s")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
