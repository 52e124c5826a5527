"""Loops whose steps set elements of what they carry, drawn: compiled, in lanes, and differentiated in both modes.

    python tests/differential/carries.py [--seed 0] [--programs 1000] [--minutes 10]

Compiled loops set elements where they lie, as far as nothing reads later what these were. The steps here read and set one
array several times, in branches and loops within them, at indices that are fixed, counted and given.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import arrays
import numpy as np

# {s} is the array after another step, {i} and {j} are indices, {v} is a number, {n} an index that leaves room for three more.
EITHER = """
x.at[{i}].set(x[{j}] * 0.5 + v) | x.at[{i}].set(x[{j}]).at[{j}].set(x[{i}]) | x.at[{i}].add({v}) | x.at[{n}:{n}+2].set(x[{n}+1:{n}+3] * 0.9 + v)
jnp.where(k % 2 == 0, {s}, {s}) | jnp.where(k % 3 == 0, {s}, x) | lax.cond(k % 2 == 0, lambda x: {s}, lambda x: {s}, x)
lax.cond(k % 3 == 0, lambda x: {s}, lambda x: x, x) | lax.switch(k % 3, [lambda x: {s}, lambda x: {s}, lambda x: {s}], x)
lax.fori_loop(0, 2, lambda i, x: {s}, x) | (lambda x: {s})({s})
""".replace("\n", " | ").strip(" |").split(" | ")  # fmt: skip
VECTOR = """
x.at[{i}].set({v}) | x.at[{i}].multiply({v}) | x.at[{i}].max({v}) | x.at[{i}].min({v}) | x.at[{i}].set({v}).at[{j}].add({v})
lax.dynamic_update_slice(x, lax.dynamic_slice(x, ({i},), (2,)) * 0.7 + v, ({j},)) | x.at[jnp.array([{n}, {n}+2])].set({v})
""".replace("\n", " | ").strip(" |").split(" | ")  # fmt: skip
MATRIX = """
x.at[{i}, {c}].set({v}) | x.at[{i}, {c}].multiply({v}) | x.at[{i}, {c}].max({v}) | x.at[{i}, i % 3].add({v}) | x.at[{i}, :2].set(x[{j}, 1:])
lax.dynamic_update_slice(x, lax.dynamic_slice(x, ({i}, 0), (2, 2)) * 0.7 + v, ({j}, 1)) | x.at[:, {c}].set(x[:, 0] * 0.5 + v)
""".replace("\n", " | ").strip(" |").split(" | ")  # fmt: skip
INDICES = ("k", "i % len(x)", "(k + i) % len(x)", "2", "-1", "k - 1")
NUMBERS = ("v", "v * x[{i}]{e}", "jnp.sin(v) + i", "x[{i}]{e}", "x[2]{e} * 0.5", "x.sum() * 1e-3")
SIZES = (6, 40, 1500)
_OPEN = re.compile(r"\{(\w)\}")


@dataclass(frozen=True)
class Loop:
    """A program: its text, and the shape of the array and the number of steps that it takes."""

    text: str
    arguments: tuple[tuple[int, ...], int]
    seed: int
    is_wide: ClassVar[bool] = False

    def function(self, library: Any) -> Callable[..., tuple[Any, ...]]:
        """Return the program as a function of jax or jaxish, of the array, the steps' indices and their numbers."""
        space: dict[str, Any] = {"jnp": library.numpy, "lax": library.lax}
        exec(self.text, space)
        return space["program"]

    def values(self, *batch: int) -> list[np.ndarray]:
        """Return arguments for the program, drawn."""
        (shape, steps), generator = self.arguments, np.random.default_rng(self.seed)
        positive = lambda *sizes: generator.uniform(0.5, 1.5, (*batch, *sizes)).astype(np.float32)
        return [positive(*shape), generator.integers(0, shape[0], (*batch, steps), np.int32), positive(steps)]


def draw(seed: int) -> Loop:
    """Return the program of this number."""
    r = random.Random(seed)
    size, columns, steps = r.choice(SIZES), r.choice([(), (3,)]), r.choice((1, 4, 9))

    def step(depth: int) -> str:
        choices = {
            "i": lambda: r.choice(INDICES), "j": lambda: r.choice(INDICES), "n": lambda: str(r.randrange(size - 3)),
            "c": lambda: str(r.randrange(3)), "v": lambda: filled(r.choice(NUMBERS)), "e": lambda: "[1]" * bool(columns),
            "s": lambda: step(depth + 1),
        }  # fmt: skip

        def filled(template: str) -> str:
            kept: dict[str, str] = {}  # an index is the same one wherever a step names it
            return _OPEN.sub(
                lambda m: kept.setdefault(m[1], choices[m[1]]()) if m[1] in "ijn" else choices[m[1]](), template
            )

        own = MATRIX if columns else VECTOR
        return filled(r.choice([t for t in r.choice((EITHER, own)) if depth < 2 or "{s}" not in t]))

    lines = [f"    x = {step(0)}" for _ in range(r.choice((1, 2, 3)))]
    seen = r.choice(("None", "x[k]", "x[-1]"))
    inner = arrays.defined(
        "step", ["carry", "given"], ["(i, x), (k, v) = carry, given", *map(str.strip, lines)], f"(i + 1, x), {seen}"
    )
    looped = [*inner.splitlines(), "(_, x), seen = lax.scan(step, (0, x), (places, numbers))"]
    text = arrays.defined("program", ["x", "places", "numbers"], looped, "(x,) if seen is None else (x, seen)")
    return Loop(text, ((size, *columns), steps), seed)


def ways(drawn: Loop) -> list[arrays.Way]:
    """Return the ways in which a program is computed."""
    one, several = drawn.values(), drawn.values(3)

    def gradient(library: Any, f: Callable[..., Any]) -> Callable[..., Any]:
        weights = np.cos(np.arange(one[0].size, dtype=np.float32)).reshape(one[0].shape)
        return library.grad(
            lambda x, k, v: sum((y * (weights if y.shape == x.shape else y)).sum() for y in f(x, k, v)), (0, 2)
        )

    def pushed(library: Any, f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, k, v: library.jvp(lambda x, v: f(x, k, v), (x, v), (x + 1, v))[1]

    close, closer = 3 * arrays.TOLERANCE, arrays.TOLERANCE
    return [
        ("jit", lambda library, f: library.jit(f), one, closer),
        ("lanes", lambda library, f: library.jit(library.vmap(f)), several, closer),
        ("places in lanes", lambda library, f: library.jit(library.vmap(f, (None, 0, None))), [one[0], several[1], one[2]], closer),
        ("grad", lambda library, f: library.jit(gradient(library, f)), one, close),
        ("grad in lanes", lambda library, f: library.jit(library.vmap(gradient(library, f))), several, close),
        ("jvp", lambda library, f: library.jit(pushed(library, f)), one, close),
    ]  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(arrays.compare("loops that set elements", draw, __doc__, ways))
