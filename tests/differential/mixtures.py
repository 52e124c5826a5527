"""Programs of all dtypes, drawn: what sorts, scatters, contracts and joins arrays, mapped and differentiated.

    python tests/differential/mixtures.py [--seed 0] [--programs 1000] [--minutes 10]

`arrays.py` draws programs of float32, int32 and booleans. These are of all dtypes that a program may have, 64-bit
ones where its number says so, with sizes of 0 and 1, indices out of bounds in each mode, branches and loops whose predicates differ
between lanes, and functions with derivatives of their own in loops. Numbers are small integers, which no dtype rounds.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import arrays
import jax
import numpy as np

# In templates {f}, {i}, {b}, {c} are floats, integers, booleans, complex numbers, {x} any numbers, {F} and {G} numbers that are the
# same everywhere, {w} is an array of the integers that one indexes with, {T} a dtype; {axis}, {n}, {k}, {on} are as in arrays.py.
ANY = """
held({x} + {x}) | held({x} - {x}) | held({x} * {x}) | -{x} | jnp.where({b}, {x}, {x}) | jnp.where({x} != 0, {x}, {n}) | {x}.astype("{T}")
held({x}).astype("{T}") | held({x}).astype("{T}") | {x}.T | jnp.swapaxes({x}, 0, {axis}) | {x}.reshape(-1) | {x}.reshape({x}.shape[::-1])
jnp.flip({x}, {axis}) | jnp.roll({x}, {n}, {axis}) | jnp.roll({x}, {k} - {n}) | {x}[{n}:] | {x}[..., ::-2] | {x}[:, None] | jnp.squeeze({x})
jnp.concatenate([{x}, {x}], {axis}) | jnp.stack([{x}, {x}], {axis}) | jnp.hstack([{x}, {x}]) | jnp.pad({x}, {n}) | jnp.tile({x}, ({n}, 2))
lax.pad({F}, jnp.array({k}, {F}.dtype), [({k} - 1, {n}, {k}), *[(0, 0, 0)] * ({F}.ndim - 1)]) | jnp.pad({x}, (({k}, {n}),), mode="wrap")
jnp.broadcast_to({x}, ({n}, *{x}.shape)) | lax.rev({F}, range({F}.ndim)) | jnp.moveaxis({x}, 0, -1) | jnp.repeat({x}, {n}, {axis})
jnp.sort({x}, {axis}) | jnp.sort({x}, {axis}, descending=True) | jnp.argsort({x}, {axis}, descending={on}) | jnp.argsort({x}, {axis}, stable=True)
lax.top_k({F}, min({F}.shape[-1], {n}))[{k}] | lax.sort(({F}, lax.broadcasted_iota("int32", {F}.shape, {k})), dimension={k}, num_keys=1)[{k}]
lax.sort(({F}, {F} + 1), dimension={k}, num_keys=2)[{k}] | jnp.argmax({f}, {axis}) | jnp.argmin({i}, {axis}, keepdims={on}) | jnp.max({x}, {axis})
jnp.min({x}, {axis}, keepdims={on}) | held(jnp.sum({x}, {axis})) | held(jnp.sum({x}, {axis}, dtype="{T}")) | jnp.max({x}, initial={n}, where={b})
held(jnp.sum({x}, where={b})) | held(jnp.prod(jnp.sign({x}), {axis})) | jnp.any({x}, {axis}) | jnp.all({x}, {axis}) | jnp.count_nonzero({x}, {axis})
held(jnp.cumsum({x}, {axis})) | jnp.cumprod(jnp.sign({x}), {axis}) | lax.cummax({F}, {k}, reverse={on}) | lax.cummin({F}, {k}, reverse={on})
held(lax.cumsum({F}, {k}, reverse={on})) | held(jnp.diff({x}, axis={axis})) | held(jnp.trace({x})) | jnp.tril({x}, {n} - 1) | jnp.diagonal({x})
{x}[{w}] | {x}.at[{w}].get(mode="clip") | {x}.at[{w}].get(mode="fill", fill_value={n}) | {x}.at[{w}].get(mode="fill") | {x}[{w}, {w}] | {x}[..., {w}]
jnp.take({x}, {w}, axis={axis}, mode="{mode}") | jnp.take({x}, {w}, axis={axis}, fill_value={k}) | jnp.take_along_axis({x}, {w}, {axis}, mode="{mode}")
{F}.at[{w}].set({x}.astype({F}.dtype), mode="{put}") | held({F}.at[{w}].add({x}.astype({F}.dtype), mode="{put}")) | {F}.at[{w}].max({x}.astype({F}.dtype), mode="{put}")
{F}.at[{w}].min({n}, mode="{put}") | held({F}.at[{w}].multiply({n}, mode="{put}")) | held({F}.at[{w}, {w}].add({k}, mode="{put}")) | {F}.at[..., {w}].set({n}, mode="{put}")
{F}.at[{w}.sum()].set({n}) | {F}.at[{w}.sum(), {n}].set({F}.sum()) | {F}.at[:, {w}].set({k}) | held({F}.at[{w}].apply(jnp.negative)) | {F}.at[{b}].set({n})
lax.dynamic_slice_in_dim({F}, {w}.sum(), min({n}, {F}.shape[{k}]), {k}) | lax.dynamic_update_slice_in_dim({F}, {F}[:{n}] + 1, {w}.sum(), 0)
nn.one_hot({w}, {n} + 1, dtype="{T}") | nn.one_hot({w}, {n}, axis={axis}) | held(j.ops.segment_sum({F}, {w}.reshape(-1)[:len({F})], {n} + 1))
j.ops.segment_max({F}, {w}.reshape(-1)[:len({F})], {n} + 1, mode="{put}") | jnp.select([{b}, {b}], [{x}, {x}], {n}) | jnp.choose({w}, [{x}, {x}], mode="clip")
lax.select_n({b}, {F}, {F} + 1) | lax.clamp(jnp.array(0, {F}.dtype), {F}, jnp.array({n}, {F}.dtype)) | jnp.clip({x}, -{n}, {n}) | jnp.maximum({x}, {x})
held({x} @ {x}) | held({x} @ {x}.T) | held(jnp.einsum("ab,cb->ac", {x}, {x})) | held(jnp.einsum("ab,ab->b", {x}, {x})) | held(jnp.einsum("aab->ab", {x}))
held(jnp.einsum("a,b,ab->", {x}, {x}, {x})) | held(jnp.einsum("abc,cb->ca", {x}, {x})) | held(jnp.tensordot({x}, {x}, 1)) | held(jnp.vdot({x}, {x}))
held(lax.dot_general({F}, {F}, ((({k},), ({k},)), ((), ())))) | held(lax.dot_general({F}, {F}, (((0,), (0,)), ((1,), (1,)))))
held(lax.dot_general({F}, {F}, (((), ()), ((), ())), preferred_element_type={F}.dtype)) | held(jnp.kron({x}, {x})) | held(jnp.inner({x}, {x}))
{x} < {x} | {x} == {x} | {b} ^ {b} | ~{b} | {b} | jnp.sign({x}) | jnp.abs({x}) | held(jnp.square({x})) | jnp.isin({x}, {x}) | jnp.digitize({f}, jnp.arange({n}))
jnp.searchsorted(jnp.sort({x}.reshape(-1)), {x}, side="left" if {on} else "right") | jnp.bincount(jnp.abs({w}).reshape(-1), length={n} + 1)
jnp.unique({x}, size={n} + 1, fill_value=0) | jnp.nonzero({x}, size={n} + 1, fill_value=-1)[0] | held(jnp.convolve({x}, {x}, "same"))
jnp.median({f}, {axis}) | jnp.lexsort(({x}.reshape(-1), {x}.reshape(-1))) | jnp.array_equal({x}, {x}) | jnp.ptp({x}, {axis}) | jnp.partition({i}, {k}, {axis})
""".replace("\n", " | ").strip(" |").split(" | ")  # fmt: skip
INTEGERS = """
{i} + {i} | {i} * {i} | {i} - {i} | {i} // {i} | {i} % {i} | {i} & {i} | {i} | {i} ^ {i} | ~{i} | {i} << {n} | {i} >> {n} | {i} // ({n} + 1) | {i} % -3
lax.shift_right_logical({F}, jnp.array({n}, {F}.dtype)) | lax.population_count({i}) | lax.clz({i}) | jnp.bitwise_count({i}) | lax.div({F}, {F} | 1)
lax.rem({F}, {F} | 1) | jnp.gcd({i}, {i}) | jnp.left_shift({i}, {i}) | jnp.right_shift({i}, {i}) | jnp.invert({i}) | jnp.power({i}, {n}) | {i} ** 2
jnp.bitwise_or.reduce({i}, {axis}) | jnp.sum({i}, {axis}) | jnp.prod({i}, {axis}) | jnp.cumsum({i}, {axis}) | jnp.cumprod({i}, {axis}) | {i}.view("uint8")
lax.bitcast_convert_type({F}, {F}.dtype) | jnp.divmod({i}, {i})[{k}] | {i} < {i} | {i} >= {i} | jnp.maximum({i}, {i}) | jnp.minimum({i}, {i}) | abs({i})
jnp.unpackbits({i}.astype("uint8")) | jnp.packbits({b}, {axis}) | lax.reduce_or({F}, ({k},)) | lax.reduce_and({F}, ({k},)) | lax.reduce_xor({F}, ({k},))
{i}.astype("{T}") | {i}.astype("{T}") | jnp.float32({i}) | jnp.dot({i}, {i}) | {i} @ {i}.T | jnp.clip({i}, 1, 100) | jnp.floor_divide({i}, {n} - 1)
""".replace("\n", " | ").strip(" |").split(" | ")  # fmt: skip
FLOATS = """
jnp.floor({f} / 2) | jnp.round({f} / 2) | jnp.trunc({f} / 4) | held(jnp.mod({f}, {f})) | held({f} // {f}) | jnp.fmod({f}, 3) | jnp.isnan({f} / {f})
jnp.real({c}) | jnp.imag({c}) | jnp.conj({c}) | lax.complex(jnp.float32({f}), jnp.float32({f})) | held({c} * {c}) | held({c} @ {c}.T) | {c} * 1j
held({c} - {x}) | jnp.where({b}, {c}, {x}) | jnp.sum({c}, {axis}) | jnp.array([{f}, 1.0]) | jnp.maximum({f}, 0) | jnp.minimum({f}, {x}) | {f} > 0
jnp.copysign({f}, {x}) | jnp.heaviside({f}, 0.5) | jnp.nan_to_num({f} / 0) | nn.relu({f}) | held(lax.reduce_precision({f}, 8, 7)) | jnp.fmax({f}, {f})
jnp.where({f} > 0, {f}, 0) | jnp.hypot(0 * {f}, {f}) | jnp.ldexp({f}, {n}) | jnp.frexp({f})[{k}] | jnp.modf({f} / 2)[{k}] | jnp.sign({f}) * {f}
lax.reduce_window({F}, -jnp.inf, lax.max, (2,), (1,), "SAME") | lax.reduce({F}, jnp.array(jnp.inf, {F}.dtype), lax.min, ({k},))
jnp.nanmax(jnp.where({b}, {f}, jnp.nan), {axis}) | held(jnp.nansum(jnp.where({b}, {f}, jnp.nan), {axis})) | jnp.sort(jnp.where({b}, {f}, jnp.nan), {axis})
jnp.argmax(jnp.where({b}, {f}, jnp.nan), {axis}) | jnp.argsort(jnp.where({b}, {f}, jnp.nan), {axis}) | jnp.max(jnp.where({b}, {f}, jnp.nan), {axis})
lax.cummax(jnp.where({b}, {F}, jnp.nan), {k}) | jnp.maximum(jnp.where({b}, {f}, jnp.nan), {f}) | jnp.clip(jnp.where({b}, {f}, jnp.nan), 0, 1)
""".replace("\n", " | ").strip(" |").split(" | ")  # fmt: skip
NESTED = """
lax.scan({step}, {F}, {G}, reverse={on})[{k}] | lax.scan(j.checkpoint({step}), {F}, {G})[{k}] | lax.map(lambda x: {step}({F}, x)[{k}], {G})
lax.fori_loop(0, {n}, lambda i, c: {turn}(c, i), {F}) | lax.fori_loop(0, {n}, lambda i, c: own_vjp({own})(c, i), {F}) | j.jit({turn})({F}, jnp.int32({n}))
lax.scan(lambda c, i: (own_jvp({own})(c, i), c), {F}, jnp.arange({n}))[{k}] | lax.scan(lambda c, i: (own_vjp({own})(c, i), i), {F}, jnp.arange({n}))[{k}]
lax.scan(lambda c, i: (j.checkpoint({turn})(c, i), c.sum()), {F}, jnp.arange({n}))[{k}] | j.checkpoint(lambda x: lax.fori_loop(0, {n}, lambda i, c: {turn}(c, i), x))({F})
j.vmap(lambda i: lax.cond(i > 0, {turn}, {turn}, {F}, i))({I}) | j.vmap(lambda i: lax.switch(i, [{turn}, {turn}, {turn}], {F}, i))({I})
j.vmap(lambda i: lax.while_loop(lambda s: s[1] < 3, lambda s: ({turn}(*s), s[1] + 1), ({F}, i))[{k}])({I}) | own_vjp({own})({F}, jnp.int32({n})) | own_jvp({own})({F}, jnp.int32({n}))
j.vmap(lambda x, i: lax.cond(i > 0, lambda x: {turn}(x, i), lambda x: x, x), (None, 0))({F}, {I}) | j.vmap(lambda i: lax.fori_loop(0, i, lambda k, c: {turn}(c, k), {F}))({I})
lax.cond({b}.any(), lambda: {turn}({F}, jnp.int32(1)), lambda: {turn}({F}, jnp.int32(0))) | lax.switch({w}.sum(), [{turn}, {turn}, lambda c, i: c], {F}, jnp.int32({n})) | j.vmap({step}, (None, 0))({F}, {G})[{k}]
j.vmap({turn}, ({k} - 1, None))({F}[None, ..., None], jnp.int32({n})) | j.vmap(lambda i: {turn}({F}, i), out_axes=-1)({I}) | lax.associative_scan(lambda a, b: held(a + b), {F}, reverse={on}, axis={k})
lax.while_loop(lambda s: (s[1] < 4) & (s[0].sum() < 20), lambda s: ({turn}(*s), s[1] + 1), ({F}, jnp.int32({n})))[{k}] | j.vmap(j.vmap({step}, (None, 0)), (None, None))({F}, {G})[{k}]
lax.scan(lambda c, x: ({turn}(c, jnp.int32({n})), lax.cond(x.sum() > 0, lambda: {turn}(c, jnp.int32(1)), lambda: c)), {F}, {G}, unroll={n} + 1)[{k}] | lax.map(lambda i: {turn}({F}, i), {I}, batch_size=2)
""".replace("\n", " | ").strip(" |").split(" | ")  # fmt: skip

KINDS = {"f": ("float32", "float16", "bfloat16"), "i": ("int8", "uint8", "int16", "int32", "uint32", "uint16"), "b": ("bool",), "c": ("complex64",)}  # fmt: skip
WIDE = {"f": ("float64",), "i": ("int64", "uint64"), "c": ("complex128",)}
SIZES = (1, 3, 3, 5, 17)
MOST_ELEMENTS = 20_000
EXACT = 1e-6  # magnitudes of complex numbers are rounded


def kind_of(value: Any) -> str:
    """Return the letter by which templates call values of this dtype."""
    name = str(value.dtype)
    return "b" if name == "bool" else "c" if name.startswith("complex") else "f" if "float" in name else "i"


@dataclass(frozen=True)
class Drawn:
    """A program: its text, the dtypes and shapes of its arguments x0, x1, ..., and the axes along which these are mapped."""

    text: str
    arguments: list[tuple[str, tuple[int, ...]]]
    axes: tuple[int | None, ...]
    seed: int
    is_wide: bool

    def function(self, library: Any) -> Callable[..., tuple[Any, ...]]:
        """Return the program as a function of jax or jaxish."""
        space = names_of(library)
        exec(self.text, space)
        return space["program"]

    def values(self, batch: int | None = None) -> list[np.ndarray]:
        """Return arguments for the program, drawn; where there is a batch, of that size along the axes that are mapped."""
        generator = np.random.default_rng(self.seed)
        found = []
        for (dtype, shape), axis in zip(self.arguments, self.axes, strict=True):
            whole = shape if batch is None or axis is None else (*shape, batch) if axis == -1 else (batch, *shape)
            drawn = generator.integers(-4, 6, whole)
            if dtype.startswith("u"):
                drawn = np.abs(drawn)
            elif dtype == "bool":
                drawn = drawn > 0
            elif dtype.startswith("complex"):
                drawn = drawn + 1j * generator.integers(-3, 4, whole)
            found.append(np.asarray(drawn).astype(jax.numpy.dtype(dtype)))
        return found

    @property
    def floats(self) -> list[int]:
        """The places of the arguments that are differentiated."""
        return [i for i, (dtype, _) in enumerate(self.arguments) if "float" in dtype]


def names_of(library: Any) -> dict[str, Any]:
    """Return what programs call."""
    jnp = library.numpy

    def held(x: Any) -> Any:
        if x.dtype == bool:
            return x
        if jnp.issubdtype(x.dtype, jnp.complexfloating):
            return library.lax.complex(jnp.clip(x.real, -8, 8), jnp.clip(x.imag, -8, 8))
        return jnp.clip(x, 0 if jnp.issubdtype(x.dtype, jnp.unsignedinteger) else -8, 8)

    def like(x: Any, y: Any) -> Any:
        if kind_of(y) == "c" != kind_of(x):
            y = y.real
        y = held(y).astype(x.dtype)
        y = y if arrays.fits(y, x) else y.any() if x.dtype == bool else held(y.sum()).astype(x.dtype)
        return x ^ y if x.dtype == bool else held(y - x)

    def own_vjp(function: Any) -> Any:
        own = library.custom_vjp(lambda c, i: function(c, i))
        own.defvjp(lambda c, i: (function(c, i), (c, i)), lambda kept, g: (like(kept[0], g), None))
        return own

    def own_jvp(function: Any) -> Any:
        own = library.custom_jvp(lambda c, i: function(c, i))
        twice = lambda x, t: t * 2 if kind_of(x) in "fc" else t
        own.defjvp(lambda given, tangents: (function(*given), twice(given[0], tangents[0])))
        return own

    return {
        "j": library, "jnp": jnp, "lax": library.lax, "nn": library.nn,
        "held": held, "like": like, "own_vjp": own_vjp, "own_jvp": own_jvp,
    }  # fmt: skip


class Body(arrays.Body):
    """The lines of a function that is being drawn."""

    def __init__(
        self, drawn: random.Random, kinds: list[str], known: dict[str, Any], name: str = "", depth: int = 0
    ) -> None:
        super().__init__(drawn, False, known, name, depth)
        self.kinds = kinds

    def _inner(self, name: str, known: dict[str, Any]) -> "Body":
        return Body(self.drawn, self.kinds, known, name, self.depth + 1)

    def _names(self) -> dict[str, Any]:
        return names_of(jax)

    def _sources(self) -> Sequence[Sequence[str]]:
        return [ANY, ANY, INTEGERS, FLOATS, *((NESTED,) if self.depth < 2 else ())]

    def _is_kept(self, found: Any) -> bool:
        return isinstance(found, jax.ShapeDtypeStruct) and found.size <= MOST_ELEMENTS and len(found.shape) < 5

    def _one_of(self, kinds: str) -> str:
        return self._recent([name for name, value in self.known.items() if kind_of(value) in kinds])

    def _places(self, integers: str) -> str:
        """Return indices: some beyond the end, some negative, where that is not a number that XLA reads as negative."""
        less = 0 if str(self.known[integers].dtype) in ("uint32", "uint64") else self.drawn.choice((0, 0, 0, 2, 7))
        return f"({integers} % 19 - {less}){self.drawn.choice(('', '', '[0]', '.min()', '.astype(int)'))}"

    def _choices(self, template: str, functions: list[str]) -> dict[str, Callable[[], Any]]:
        r = self.drawn
        kinds = "i" if template in INTEGERS else "f" if template in FLOATS else r.choice(("fic", "fic", "fi", "ficb"))
        first, second = self._one_of(kinds), self._one_of("fib")
        return self._numbers(functions, first, second) | {
            **{kind: lambda kind=kind: self._one_of(kind) for kind in "fibc"},
            "x": lambda: self._one_of("fic"), "T": lambda: r.choice(self.kinds),
            "w": lambda: self._places(self._one_of("i")),
            "I": lambda: f"({self._one_of('i')}.reshape(-1)[:4].astype('int32') % 5 - 1)",
            "mode": lambda: r.choice(("clip", "fill", "wrap")), "put": lambda: r.choice(("clip", "drop", "fill")),
        }  # fmt: skip


def draw(seed: int) -> Drawn:
    """Return the program of this number."""
    r, is_wide = random.Random(seed), seed % 4 == 3
    shapes = arrays.drawn_shapes(r, SIZES, (0, 0, 130))
    dtypes = [KINDS[kind] + (WIDE.get(kind, ()) * 2 if is_wide else ()) for kind in "fffiiibc"]
    arguments = [(r.choice(chosen), next(shapes)) for chosen in dtypes]
    with jax.enable_x64(is_wide):
        known = {f"x{i}": jax.ShapeDtypeStruct(shape, dtype) for i, (dtype, shape) in enumerate(arguments)}
        body = Body(r, [dtype for dtype, _ in arguments], known)
        body.extend(r.choice((1, 2, 3, 5)))
    axes = tuple(r.choice((0, 0, -1, None)) for _ in arguments)
    axes = axes if set(axes) != {None} else (0, *axes[1:])
    text = arrays.defined("program", known, body.lines, ", ".join(body.values[-3:]) + ",")
    return Drawn(text, arguments, axes, seed, is_wide)


def loss(drawn: Drawn, f: Callable[..., Any], given: Any) -> Callable[..., Any]:
    """Return a number as a function of the arguments that are differentiated."""

    def square(x: Any) -> Any:
        if kind_of(x) == "c":
            return x.real * x.real + 2 * x.imag * x.imag
        return (x * x).astype("float32")

    def of(*chosen: Any) -> Any:
        whole = list(given)
        for i, x in zip(drawn.floats, chosen, strict=True):
            whole[i] = x
        return sum(square(x).sum() for x in f(*whole) if kind_of(x) in "fc") + 0.0 * chosen[0].astype("float32").sum()

    return of


def ways(drawn: Drawn) -> list[arrays.Way]:
    """Return ways in which a program is computed: by itself, in lanes, backward, and forward or in lanes; eagerly or compiled."""
    one, several = drawn.values(), drawn.values(3)
    close = 3e-2 if "float16" in drawn.text + str(drawn.arguments) else 3 * arrays.TOLERANCE
    chosen = lambda given: [given[i] for i in drawn.floats]

    def gradient(library: Any, f: Callable[..., Any]) -> Callable[..., Any]:
        places = range(len(drawn.floats))
        return lambda *given: library.grad(loss(drawn, f, given), tuple(places))(*chosen(given))

    def pushed(library: Any, f: Callable[..., Any]) -> Callable[..., Any]:
        ones = lambda given: [x * 0 + 1 for x in chosen(given)]
        return lambda *given: library.jvp(loss(drawn, f, given), chosen(given), ones(given))

    def in_lanes(of: Any) -> Any:
        return lambda library, f: library.vmap(of(library, f), drawn.axes)

    def compiled(of: Any) -> Any:
        return lambda library, f: library.jit(of(library, f))

    itself = lambda library, f: f
    r = random.Random(drawn.seed)
    last = [("jvp", pushed, one, close), ("grad in lanes", in_lanes(gradient), several, close)]
    found = [
        ("program", itself, one, EXACT),
        ("lanes", in_lanes(itself), several, EXACT),
        ("grad", gradient, one, close),
        r.choice(last),
    ]
    return [
        ("jit " + name, compiled(of), *rest) if r.random() < 0.5 else (name, of, *rest) for name, of, *rest in found
    ]


if __name__ == "__main__":
    raise SystemExit(arrays.compare("programs of all dtypes", draw, __doc__, ways))
