"""Programs of several operations on arrays, drawn: views, reductions, elements at indices, loops, and their derivatives.

    python tests/differential/arrays.py [--seed 0] [--programs 1000] [--minutes 10]

A program is lines of text, each an operation of values drawn from those before it. jaxish computes it eagerly, compiled,
differentiated and batched, JAX compiled. Exact programs are of small integers, as floats too, which are never rounded, so that
they may compare and round; smooth ones are continuous, and agree to a tolerance. Where JAX's compiled program itself is not
what its operations give one by one (XLA's, in place, may be wrong), these count.
"""

import argparse
import random
import re
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import numpy as np
import tiers

import jaxish
from jaxish._core.errors import NoReverseMode

# In templates {f}, {i} and {b} are floats, integers and booleans of any shape, {F} is the same one everywhere; {axis}, {n} and {k}
# are small numbers, {on} is True or False.
# `held` keeps what may grow within bounds. {G} is another float, {step} a function drawn of one like {F} and an element of {G},
# {turn} one of the first and an integer: both give what is like {F}, the step another value beside it.
EITHER = """
-{f} | jnp.abs({f}) | jnp.maximum({f}, 0) | 1.5 - {f} | held({f} * {f}) | held({f} + {f}) | held({f} - {f}) | jnp.minimum({f}, {f})
jnp.where({b}, {f}, {f}) | jnp.where({b}, {f}, 0) | {b} & ~{b} | {b} | {b} | held({i} + {i}) | {i} % ({n} + 1)
held(jnp.sum({f}, {axis}, keepdims={on})) | jnp.max({f}, {axis}, keepdims={on}) | jnp.min({f}, {axis}) | held(jnp.sum({f}))
held(jnp.cumsum({f}, {axis})) | lax.cummax({f}, {k}, reverse={on}) | jnp.sort({f}, {axis}) | held(jnp.diff({f}, axis={axis}))
{f}.T | jnp.swapaxes({f}, 0, {axis}) | {f}.reshape(-1) | {f}.reshape(2, -1) | {f}[::-1] | {f}[{n}:] | {f}[:, ::2] | {f}[..., {n}]
jnp.flip({f}, {axis}) | jnp.roll({f}, {n}, {axis}) | {f}[:, None] | {f}[None] | jnp.squeeze({f}) | jnp.repeat({f}, 2, {axis}) | jnp.tril({f})
jnp.concatenate([{f}, {f}], {axis}) | jnp.stack([{f}, {f}], {axis}) | jnp.pad({f}, {n}) | jnp.pad({f}, (({n}, {k}),), mode="reflect")
jnp.pad({f}, (({k}, {n}), (0, 1)), mode="edge") | lax.pad({f}, jnp.float32(1), [(-1, {n}, {k})])
jnp.take({f}, {i}, axis={axis}, mode="clip") | {f}[{i}] | {f}.at[{i}].get(mode="clip") | {f}[{i}, {i}] | nn.one_hot({i}, {n} + 1)
jnp.take_along_axis({f}, {i} % 2, {axis}) | lax.dynamic_slice_in_dim({f}, {i}.sum(), {k} + 1, 0)
{f}.at[{n}].set({f}) | {f}.at[{n}:].set({f}) | {f}.at[..., {n}].min({f}) | held({f}.at[{i}].add({f})) | {f}.at[{i}].max({f})
{f}.at[{n}].add(1) | lax.dynamic_update_slice_in_dim({f}, {f}, {i}.sum(), 0) | held(j.ops.segment_sum({f}, {i} % 3, 3))
held({f} @ {f}) | held({f} @ {f}.T) | held(jnp.einsum("ab,ab->a", {f}, {f})) | held(jnp.einsum("ab,ac->bc", {f}, {f})) | held(jnp.outer({f}, {f}))
lax.reduce_window({f}, -jnp.inf, lax.max, (2,), (1,), "SAME") | held(lax.reduce_window({f}, 0.0, lax.add, (3, 2), (1, 2), "VALID"))
held(jnp.convolve({f}, jnp.array([1.0, -2.0, 1.0]), "same")) | held({F} + lax.broadcasted_iota(jnp.int32, {F}.shape, {k}))
lax.scan(lambda c, x: (held(c + x), held(c - x)), jnp.zeros({F}.shape[1:]), {F}, reverse={on})[1]
lax.scan(lambda c, x: (jnp.maximum(c, x), c), {F}[0], {F})[1] | lax.fori_loop(0, {n}, lambda i, c: c.at[i].set(c[-1] - 1), {f})
held(lax.fori_loop(0, 3, lambda i, c: c.at[i % {n}].add(1), {f})) | lax.map(lambda x: x[::-1], {f})
lax.cond({b}.any(), lambda x: x + 1, lambda x: jnp.minimum(x, 0), {f}) | lax.cond({b}.all(), lambda x, y: x, lambda x, y: y, {f}, {f})
j.vmap(lambda x: x.at[0].set(x[-1]), {k})({f}) | j.vmap(lambda x: x[::-1] - x.max(), {k})({f}) | held(j.vmap(jnp.cumsum, {k})({f}))
j.vmap(lambda x, y: jnp.where(x > y, x, y))({f}, {f}) | {b}.astype("float32") | {i}.astype("float32")
""".replace("\n", " | ").strip(" |").split(" | ")  # fmt: skip
EXACT = """
jnp.sign({f}) | jnp.floor({f} / 2) | {f} < {f} | {f} == {f} | {f} >= 1 | {f}.astype("int32") | jnp.argmax({f}, {axis}).astype("int32")
jnp.argsort({f}, {axis}).astype("int32") | jnp.any({b}, {axis}) | jnp.all({b}, {axis}, keepdims={on}) | {i} // ({n} + 1) | {i} & {i}
jnp.searchsorted(jnp.sort({f}), {f}).astype("int32") | jnp.sum({b}, {axis}, dtype="int32") | jnp.where({f} > 0, {f}, {f}) | {i} < {i}
lax.while_loop(lambda c: c.sum() > 9, lambda c: c // 2, jnp.abs({i})) | held(jnp.cumsum({i}, {axis}, dtype="int32"))
""".replace("\n", " | ").strip(" |").split(" | ")  # fmt: skip
SMOOTH = """
jnp.tanh({f}) | jnp.exp(-jnp.abs({f})) | jnp.sin({f}) | jnp.log1p(jnp.abs({f})) | jnp.sqrt(jnp.abs({f}) + 1) | nn.sigmoid({f})
nn.softplus({f}) | {f} / (1 + jnp.abs({f})) | nn.gelu({f}) | nn.softmax({f}, {axis}) | nn.log_softmax({f}, {axis}) | jnp.mean({f}, {axis})
nn.logsumexp({f}, {axis}) | jnp.var({f}, {axis}) | jnp.logaddexp({f}, {f}) | ({f} - jnp.mean({f})) / jnp.sqrt(jnp.var({f}) + 0.1)
lax.scan(lambda c, x: (jnp.tanh(c + x), c * x), jnp.zeros({F}.shape[1:]), {F})[0] | j.vmap(lambda x: nn.softmax(x) * x, {k})({f})
""".replace("\n", " | ").strip(" |").split(" | ")  # fmt: skip
NESTED = """
lax.scan({step}, {F}, {G}, reverse={on})[{k}] | lax.scan({step}, {F}, {G}, unroll={k} + 1)[{k}] | lax.map(lambda x: {step}({F}, x)[{k}], {G})
lax.fori_loop(0, {n}, lambda i, c: {turn}(c, i), {F}) | lax.fori_loop(0, {i}.sum() % 4, lambda i, c: {turn}(c, i), {F})
lax.while_loop(lambda s: s[1] < {n}, lambda s: ({turn}(*s), s[1] + 1), ({F}, jnp.int32(0)))[0] | j.jit({turn})({F}, jnp.int32({n}))
lax.while_loop(lambda s: (s[0].sum() < 9) & (s[1] < 5), lambda s: ({turn}(*s), s[1] + 1), ({F}, {i}.min()))[{k}]
lax.cond({b}.any(), {turn}, {turn}, {F}, jnp.int32({n})) | lax.switch({i}.sum() % 3, [{turn}, {turn}, {turn}], {F}, jnp.int32({n}))
j.vmap({step}, (None, 0))({F}, {G})[{k}] | j.vmap({turn}, (0, None))({F}[None], jnp.int32({n})) | j.checkpoint({turn})({F}, jnp.int32({n}))
j.vmap(lambda i: {turn}({F}, i))(jnp.arange(3)) | lax.scan({step}, {F}, {G}[:0])[{k}] | j.vmap(lambda x: {step}(x, {G}[0])[{k}])({F}[None])
""".replace("\n", " | ").strip(" |").split(" | ")  # fmt: skip

_OPEN = re.compile(r"\{(\w+)\}")
SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 17, 33)
MOST_ELEMENTS = 40_000
TOLERANCE = 3e-4  # of the largest element, and thrice that for derivatives


@dataclass(frozen=True)
class Drawn:
    """A program: its text, the kinds and shapes of its arguments x0, x1, ..., and whether it is a smooth one."""

    text: str
    arguments: list[tuple[str, tuple[int, ...]]]
    is_smooth: bool
    seed: int
    is_wide: ClassVar[bool] = False  # whether it has 64-bit numbers

    def function(self, library: Any) -> Callable[..., tuple[Any, ...]]:
        """Return the program as a function of jax or jaxish."""
        space = names_of(library, self.is_smooth)
        exec(self.text, space)
        return space["program"]

    def values(self, batch: tuple[int, ...] = ()) -> list[np.ndarray]:
        """Return arguments for the program, drawn."""
        generator = np.random.default_rng(self.seed)
        draw = {
            "f": lambda s: generator.standard_normal(s) if self.is_smooth else generator.integers(-6, 7, s),
            "i": lambda s: generator.integers(-4, 6, s),
            "b": lambda s: generator.random(s) < 0.5,
        }
        dtypes = {"f": np.float32, "i": np.int32, "b": np.bool_}
        return [np.asarray(draw[kind]((*batch, *shape)), dtypes[kind]) for kind, shape in self.arguments]


def names_of(library: Any, is_smooth: bool) -> dict[str, Any]:
    """Return what programs call."""
    jnp = library.numpy
    held = (lambda x: jnp.tanh(x / 4)) if is_smooth else (lambda x: jnp.clip(x, -64, 64))

    def like(x: Any, y: Any) -> Any:
        y = y.astype("float32")
        return held(y - x if fits(y, x) else x + y.sum())

    return {"j": library, "jnp": jnp, "lax": library.lax, "nn": library.nn, "held": held, "like": like}


def fits(y: Any, x: Any) -> bool:
    """Tell whether y can be broadcast to the shape of x."""
    return len(y.shape) <= len(x.shape) and all(m in (1, n) for m, n in zip(y.shape[::-1], x.shape[::-1], strict=False))


class Body:
    """The lines of a function that is being drawn, and what they may name: arguments, earlier lines, and what is around it."""

    dtypes: ClassVar = {"f": "float32", "i": "int32", "b": "bool"}

    def __init__(
        self, drawn: random.Random, is_smooth: bool, known: dict[str, Any], name: str = "", depth: int = 0
    ) -> None:
        self.drawn, self.is_smooth, self.known, self.name, self.depth = drawn, is_smooth, dict(known), name, depth
        self.lines: list[str] = []
        self.values: list[str] = []
        self._functions = 0

    def extend(self, wanted: int) -> None:
        """Draw lines until there are as many values as wanted."""
        names, sources = self._names(), self._sources()
        while len(self.values) < wanted:
            functions: list[str] = []

            def value(known: dict[str, Any]) -> Any:
                space = {**names, **known}
                exec("\n".join(functions), space)
                return eval(text, space)

            try:
                text = self._filled(self.drawn.choice(self.drawn.choice(sources)), functions)
                found = jax.eval_shape(value, self.known)
            except Exception:
                continue  # the operands do not fit, or there are none yet
            if self._is_kept(found):
                self.values.append(f"{self.name}v{len(self.values)}")
                self.lines += [*functions, f"{self.values[-1]} = {text}"]
                self.known[self.values[-1]] = found

    def _names(self) -> dict[str, Any]:
        return names_of(jax, self.is_smooth)

    def _sources(self) -> Sequence[Sequence[str]]:
        """Return the lists of templates to draw from."""
        return [EITHER, EITHER, SMOOTH if self.is_smooth else EXACT, *((NESTED,) if self.depth < 2 else ())]

    def _is_kept(self, found: Any) -> bool:
        return found.size <= MOST_ELEMENTS and str(found.dtype) in self.dtypes.values()

    def _filled(self, template: str, functions: list[str]) -> str:
        """Return a template with values and numbers for what it leaves open; the latest values come most often."""
        choices = self._choices(template, functions)
        return _OPEN.sub(lambda found: str(choices[found[1]]()), template)

    def _choices(self, template: str, functions: list[str]) -> dict[str, Callable[[], Any]]:
        """Return what draws each thing that a template leaves open."""
        first, second = self._one_of("float32"), self._one_of("float32")
        return self._numbers(functions, first, second) | {
            "f": lambda: self._one_of("float32"), "i": lambda: self._one_of("int32"), "b": lambda: self._one_of("bool"),
        }  # fmt: skip

    def _numbers(self, functions: list[str], first: str, second: str) -> dict[str, Callable[[], Any]]:
        """Return what draws small numbers, and functions of these two values."""
        r, index = self.drawn, jax.ShapeDtypeStruct((), "int32")
        return {
            "F": lambda: first, "G": lambda: second,
            "axis": lambda: r.randint(-2, 1), "n": lambda: r.randint(0, 3), "k": lambda: r.randint(0, 1),
            "on": lambda: r.random() < 0.5,
            "step": lambda: self._function(functions, {"c": self.known[first], "x": self._element(second)}, "x"),
            "turn": lambda: self._function(functions, {"c": self.known[first], "i": index}),
            "own": lambda: self._function(functions, {"c": self.known[first], "i": index}, closed=True),
        }  # fmt: skip

    def _one_of(self, dtype: str) -> str:
        return self._recent([name for name, value in self.known.items() if value.dtype == dtype])

    def _recent(self, names: list[str]) -> str:
        return self.drawn.choice(names[-4:] if self.drawn.random() < 0.6 else names)

    def _element(self, name: str) -> Any:
        value = self.known[name]
        return jax.ShapeDtypeStruct(value.shape[1:], value.dtype)

    def _inner(self, name: str, known: dict[str, Any]) -> "Body":
        """Return the body of a function within."""
        return Body(self.drawn, self.is_smooth, known, name, self.depth + 1)

    def _function(self, functions: list[str], arguments: dict[str, Any], beside: str = "", closed: bool = False) -> str:
        """Draw a function of these arguments (a closed one: of nothing else), whose result is like the first; return its name."""
        self._functions += 1
        name = f"{self.name}f{self._functions}"
        given = {name + argument: value for argument, value in arguments.items()}
        body = self._inner(name, given if closed else {**self.known, **given})
        body.extend(self.drawn.choice((1, 2, 4)))
        first, second = given
        result = f"like({first}, {body.values[-1]})"
        result += f", {self.drawn.choice([second, *body.values])}" if beside else ""
        functions.append(defined(name, given, body.lines, result))
        return name


def defined(name: str, arguments: Iterable[str], lines: list[str], result: str) -> str:
    """Return the text of a function."""
    return f"def {name}({', '.join(arguments)}):\n" + textwrap.indent("\n".join([*lines, f"return {result}"]), "    ")


def drawn_shapes(r: random.Random, sizes: Sequence[int], odd: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield shapes of up to three dimensions of the same three sizes, of which one may be an odd one, or 1 in their place."""
    chosen = [r.choice(sizes) for _ in range(3)]
    if r.random() < 0.2:
        chosen[r.randrange(3)] = r.choice(odd)
    while True:
        dims = sorted(r.sample(range(3), r.choice((0, 1, 1, 2, 2, 3))))
        yield tuple(chosen[d] if r.random() < 0.9 else 1 for d in dims)


def draw(seed: int) -> Drawn:
    """Return the program of this number."""
    r, is_smooth = random.Random(seed), seed % 2 == 1
    shapes = drawn_shapes(r, SIZES, (130, 257, 600))
    arguments = [(kind, next(shapes)) for kind in "fffiib"]
    known = {f"x{i}": jax.ShapeDtypeStruct(shape, Body.dtypes[kind]) for i, (kind, shape) in enumerate(arguments)}
    body = Body(r, is_smooth, known)
    body.extend(r.choice((4, 8, 14)))
    return Drawn(defined("program", known, body.lines, ", ".join(body.values[-3:])), arguments, is_smooth, seed)


Way = tuple[str, Callable[[Any, Callable[..., Any]], Callable[..., Any]], list[np.ndarray], float]


def ways(drawn: Drawn) -> list[Way]:
    """Return the ways in which a program is computed: a name, what is made of it, arguments, and the tolerance."""
    values, tolerance = drawn.values(), TOLERANCE if drawn.is_smooth else 0
    return [
        ("eager", lambda library, f: f, values, tolerance),
        ("jit", lambda library, f: library.jit(f), values, tolerance),
        ("grad", lambda library, f: library.jit(_gradient(library, f)), values, 3 * TOLERANCE),
        ("vmap", lambda library, f: library.jit(library.vmap(f)), drawn.values((3,)), tolerance),
    ]


def differences(drawn: Any, ways: Callable[[Any], list[Way]] = ways) -> Iterator[str]:
    """Yield a sentence for each way in which jaxish computes a program and that differs from JAX."""
    with jax.enable_x64(drawn.is_wide), jaxish.enable_x64(drawn.is_wide):
        ours, theirs = drawn.function(jaxish), drawn.function(jax)
        for way, transform, given, tolerance in ways(drawn):
            wanted = _computed(jax, jax.jit(transform(jax, theirs)), given)
            found = _computed(jaxish, transform(jaxish, ours), given)
            if wanted is None or isinstance(found, NoReverseMode):
                continue  # what a derivative or a batch would ask for; JAX finds more loops from which nothing is gone back
            if agree(found, wanted, tolerance):
                continue
            with jax.disable_jit():
                one_by_one = _computed(jax, transform(jax, theirs), given)
            if not agree(found, one_by_one, 3 * tolerance):
                yield f"{way}: {found!r:.300} instead of {wanted!r:.300}"


def _gradient(library: Any, f: Callable[..., Any]) -> Callable[..., Any]:
    def loss(*values: Any) -> Any:
        return sum((x * x).sum() for x in f(*values) if x.dtype == "float32") + 0.0 * values[0].sum()

    return library.grad(loss, (0, 1, 2))


def _computed(library: Any, function: Callable[..., Any], values: list[np.ndarray]) -> Any:
    """Return the results as NumPy's arrays; None where JAX refuses to compute them, or what was raised elsewhere."""
    try:
        found = function(*map(library.numpy.asarray, values))
        return [np.asarray(x) for x in library.tree_util.tree_leaves(found)]
    except Exception as error:
        return None if library is jax else error


def agree(found: Any, wanted: Any, tolerance: float) -> bool:
    """Tell whether two lists of results agree; what refuses to be computed is none, and agrees with its like."""
    if not (isinstance(found, list) and isinstance(wanted, list)):
        return wanted is None and not isinstance(found, list)
    return all(_is_close(x, y, tolerance) for x, y in zip(found, wanted, strict=True))


def _is_close(x: np.ndarray, y: np.ndarray, tolerance: float) -> bool:
    if (x.shape, x.dtype) != (y.shape, y.dtype):
        return False
    if x.dtype.kind in "biu":
        return np.array_equal(x, y)
    kind = np.complex128 if x.dtype.kind == "c" else np.float64
    x, y = x.astype(kind), y.astype(kind)
    largest = np.abs(y[np.isfinite(y)]).max(initial=0)
    return np.allclose(x, y, rtol=0, atol=tolerance * (1 + largest), equal_nan=True)


def compare(
    what: str, draw: Callable[[int], Any], document: str | None, ways: Callable[[Any], list[Way]] = ways
) -> int:
    """Do what the command line says: draw programs and print what differs."""
    parser = argparse.ArgumentParser(description=(document or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=10)
    given = parser.parse_args()
    start, count, failed = time.monotonic(), 0, 0
    for seed in range(given.seed, given.seed + given.programs):
        if time.monotonic() - start > 60 * given.minutes:
            break
        drawn, count = draw(seed), count + 1
        with tiers.tier("compiled"):
            for difference in differences(drawn, ways):
                failed += 1
                print(f"program {seed}, {difference}\n{drawn.arguments}\n{drawn.text}", flush=True)
    print(f"{count} {what} in {time.monotonic() - start:.0f} s, from seed {given.seed}: {failed} differences")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(compare("programs on arrays", draw, __doc__))
