"""Symbolic shapes: their algebra is JAX's, and functions exported for them compute what JAX's jitted functions do."""

import importlib
import itertools
import random

import jax
import jax.export
import numpy as np
import pytest
from oracle import agree, assert_same

import jaxish
import jaxish.export

pytestmark = pytest.mark.usefixtures("unoptimized_jax")

# Each is evaluated with `a, b` of one scope, `shape` and `export`, and has to print, or to fail, as in JAX.
FORMULAS = """
a + b, a - b, 3 - a, -a, a - a, a * 0, 2 * a * b * a, (a + b) * (a - b), (a + 1) ** 2, a**3
a // 2, a % 2, (2*a + 3) // 2, (a*b) // b, a // b, a % b, (a*a - b*b) // (a - b), (4*a + 2) % 4, a // -2, (-a) % 3
7 // a, 7 % a, divmod(a, 3), (3*a) // (2*a), (a*b*b) // (b*b), (a + 1) // 3 * 2 + a % 3, (a + 1) // b
a >= 1, a >= 0, a > 0, 2*a + b >= 3, a // 4 >= 0, a**2 >= 1, a + 2 >= 3, a % 3 <= 2, a % 3 >= 0, a < 1, a + 1 > a, a // 2 <= a
a == b, a == 1, a != a, a + b == b + a, hash(a + b) == hash(b + a), a == 'x', a in (b, a), bool(a), a == a + 0
a >= 2
a >= b
a - b >= 0
max(a, 1), min(a, 1)
max(a, b)
int(a)
range(a)
float(a)
a ** -1
a ** 0.5
a // 0
a * 1.5 if False else None
np.sum([a, b, 3]), np.prod([a, b, 2]), a + np.int64(3)
a.scope is b.scope, [export.is_symbolic_dim(d) for d in (a, 3, a - a, None)]
a + shape('a')[0]
a >= shape('a')[0]
a == shape('a')[0]
shape('b', scope=a.scope)[0] + a
shape('b', scope=a.scope, constraints=['b >= 2'])
shape('a, _', like=(2, 3)), shape('a, ...', like=(2, 3, 4)), shape('...', like=(2,)), shape(None, like=(2, 3)), shape('(a, b)'), shape('a,'), shape('')
shape('b, 2*n, 4*b*n + 3, -1*n + 8, mod(b, 3), floordiv(b + n, 2), max(b, n), min(b, 3), b^2 * n, max(b, 1)')
shape('c + b*c + a*b*c + 4, z + a, a*a + b, 5*a*b^2 - c, floordiv(mod(a, 2), 3)*b')
shape('a, _')
shape('a, ...')
shape('a, 3', like=(2, 4))
shape('a, _', like=(2, None))
shape('a b')
shape('a, b +')
shape('a, 3.5')
shape('a & b')
shape('mod(a)')
shape(3)
shape('a', constraints=['a >= 8'])[0] >= 8
shape('a', constraints=['a >= 8'])[0] > 8
shape('a, b', constraints=['a >= b + 8'])[0] - 8 >= 0
[2*b*a for a, b, c, d in [shape('a, b, c, d', constraints=('a * b == c + d',))]], [a*b*b for a, b, c, d in [shape('a, b, c, d', constraints=('a * b == c + d',))]]
[(a//b, a//b + c) for a, b, c in [shape('a, b, c', constraints=('floordiv(a, b) == c',))]]
[(d // 4, d % 4, (d // 4) * 4) for d in shape('a', constraints=('mod(a, 4) == 0',))]
shape('a', constraints='a >= 8')
shape('a', constraints=['a > 8'])
shape('a', constraints=['0 >= 8'])
shape('a', constraints=['a + 1 == 3'])
shape('a', constraints=['a == 3', 'a == 4'])
shape('a, b', constraints=['a*b == 3', 'b*a == 4'])
shape('a', constraints=[3])
shape('a', constraints=['a <= 10'])[0] >= 11
shape('a', constraints=['2*a <= 10', 'a >= 2'])[0] * 3 <= 15
core.max_dim(a, 1), core.max_dim(a, b), core.min_dim(a, 3), core.max_dim(3, 4), core.max_dim(4, b)
jax.ShapeDtypeStruct((a, b + 1), 'float32'), jax.ShapeDtypeStruct((a, 3), 'float32').size
[s.shape for s in export.symbolic_args_specs((np.ones((3, 1)), np.ones((3, 4))), 'a, ...')]
[s.shape for s in export.symbolic_args_specs((np.ones((3, 1)), np.ones((3, 4))), ('a, _', None))]
[s.shape for s in export.symbolic_args_specs((np.ones((3, 1)), np.ones((3, 4))), ['a, _', 'b, c'])]
export.symbolic_args_specs((np.ones((3, 1)),), ('a', 'b'))
export.symbolic_args_specs((np.ones((3, 1)),), 'a, b', constraints=['a >= 2'], scope=a.scope)
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("text", FORMULAS.strip().splitlines())
def test_formulas_print_and_compare_as_in_jax(text):
    def found(j):
        shape = j.export.symbolic_shape
        a, b = shape("a, b")
        names = {"a": a, "b": b, "shape": shape, "export": j.export, "np": np, "core": j.core, "jax": j}
        return repr(eval(text, names))

    agree(found)


CONSTRAINTS = {
    (): lambda a, b, c: True,
    ("a >= 8",): lambda a, b, c: a >= 8,
    ("a >= b + 8", "c <= 5"): lambda a, b, c: a >= b + 8 and c <= 5,
    ("mod(a, 4) == 0",): lambda a, b, c: a % 4 == 0,
    ("a == 2*c",): lambda a, b, c: a == 2 * c,
    ("b <= a", "c <= b"): lambda a, b, c: c <= b <= a,
}


def formula(draw, depth):
    if not depth:
        return draw.choice(["a", "b", "c", str(draw.randint(1, 4))])
    kind, x, y = draw.random(), formula(draw, depth - 1), formula(draw, depth - 1)
    if kind < 0.5:
        return f"{x} {draw.choice('+-')} {y}"
    if kind < 0.65:
        return f"{formula(draw, 0)}*{formula(draw, 0)}"
    return f"{draw.choice(['floordiv', 'mod'])}({x}, {draw.randint(2, 4)})" if kind < 0.9 else f"max({x}, {y})"


@pytest.mark.parametrize("seed", range(40))
def test_decisions_are_right_and_as_many_as_those_of_jax(seed):
    draw = random.Random(seed)
    for _ in range(8):
        constraints = draw.choice(list(CONSTRAINTS))
        text = f"{formula(draw, draw.randint(0, 2))}, {formula(draw, draw.randint(0, 2))}, a, b, c"
        wanted, found = (j.export.symbolic_shape(text, constraints=constraints) for j in (jax, jaxish))
        assert str(found) == str(wanted)
        decided = decision(found)
        assert decided in (decision(wanted), None) or decision(wanted) is None
        for sizes in itertools.product((1, 2, 3, 5, 8, 16, 20), (1, 2, 4, 8), (1, 2, 5, 8, 10)):
            if decided is not None and CONSTRAINTS[constraints](*sizes):
                values = dict(zip("abc", sizes, strict=True))
                first, second = (d if isinstance(d, int) else d.evaluate(values) for d in found[:2])
                assert (first >= second) == decided


def decision(shape):
    try:
        return bool(shape[0] >= shape[1])
    except (jax.errors.InconclusiveDimensionOperation, jaxish.errors.InconclusiveDimensionOperation):
        return None


# A function, the shapes that it is exported for, and shapes that it is called with.
PROGRAMS = {
    "pieces": ("lambda x: jnp.concatenate([x, x], axis=1)", ["a, b"], [[(3, 4)], [(1, 1)], [(1, 5)]]),
    "broadcasting": ("lambda x, y: x + y", ["a, 1", "a, 4"], [[(3, 1), (3, 4)], [(1, 1), (1, 4)]]),
    "two sizes": ("lambda x, y: x[:, None] * y", ["b", "c"], [[(4,), (3,)], [(1,), (1,)], [(3,), (3,)]]),
    "a product as a size": ("lambda x: jnp.reshape(x, (x.shape[0] * x.shape[1],))", ["b, 4"], [[(3, 4)], [(1, 4)]]),
    "what is left": ("lambda x: (x.reshape(-1), x.reshape(x.shape[0], -1))", ["b, c, 4"], [[(3, 2, 4)], [(1, 1, 4)]]),
    "a size as a number": ("lambda x: (jnp.array(x.shape[0]) + x, x * x.shape[0] + 0.5 * x.shape[0])", ["b"], [[(3,)], [(1,)]]),
    "a size beside NumPy's": (
        "lambda x: (x.shape[0] - np.arange(5, dtype='int32'), np.float32(2) * x.shape[0], x * (np.ones(1, 'float32') / x.shape[0]))",
        ["b"], [[(3,)], [(1,)]],
    ),
    "a size in arrays made of numbers": (
        "lambda x: (jnp.array(x.shape), jnp.array([x.shape[0], 3.0]), jnp.full(3, x.shape[0], 'int16'), jnp.float32(x.shape[0]))",
        ["b, c"], [[(3, 4)], [(1, 1)]],
    ),
    "a size of NumPy's integers": ("lambda x: x.reshape(np.prod(x.shape) // np.int64(2), np.int32(2))", ["b, 4"], [[(3, 4)], [(1, 4)]]),
    "an average": ("lambda x: (jnp.sum(x, axis=0) / x.shape[0], x.mean(), x.var(1))", ["b, c"], [[(3, 4)], [(1, 1)]]),
    "matrices": ("lambda x, y: (x @ y, jnp.einsum('bc,cb->b', x, y))", ["b, c", "c, b"], [[(3, 4), (4, 3)], [(1, 1), (1, 1)]]),
    "a layer": ("lambda x, w, b: jax.nn.relu(x @ w + b)", ["b, 8", None, None], [[(n, 8), (8, 4), (4,)] for n in (3, 1, 4, 8)]),
    "softmax": ("lambda x: (jax.nn.softmax(x), jax.nn.log_softmax(x, axis=0))", ["b, c"], [[(3, 4)], [(1, 1)]]),
    "vmap": ("jax.vmap(lambda r: jnp.dot(r, r))", ["b, 3"], [[(4, 3)], [(1, 3)]]),
    "per-example gradients": (
        "jax.vmap(jax.grad(lambda w, x: jnp.tanh(w @ x)), (None, 0))", [None, "b, 3"], [[(3,), (4, 3)], [(3,), (1, 3)]],
    ),
    "forward mode": ("lambda q: jax.jvp(jnp.sin, (q,), (q,))", ["b, c"], [[(3, 3)], [(1, 1)]]),
    "a range": ("lambda x: (jnp.arange(x.shape[0]) * x, jnp.arange(0, 2 * x.shape[0], 2))", ["b"], [[(4,)], [(1,)]]),
    "made arrays": ("lambda x: jnp.ones((x.shape[0], 2)) + jnp.zeros_like(x)[:, None] + jnp.eye(x.shape[0], 2)", ["b"], [[(4,)], [(1,)]]),
    "slices": ("lambda x: (x[1:], x[::-1], x[::2], x[-1], x[:3])", ["b + 2"], [[(4,)], [(3,)], [(9,)]]),
    "a half": ("lambda x: x[: x.shape[0] // 2]", ["b, 3"], [[(4, 3)], [(5, 3)], [(2, 3)]]),
    "at most sixteen": ("lambda x: x[0:16]", ["b"], [[(20,)], [(16,)], [(3,)]]),
    "rows by index": ("lambda x: x[jnp.array([0, 0, 2])] + x.at[0].set(1.0)[:1]", ["b, 3"], [[(4, 3)], [(3, 3)]]),
    "updates": ("lambda q: q.at[jnp.arange(q.shape[0]), 0].add(1.0)", ["b, c"], [[(2, 3)], [(1, 1)]]),
    "a scan": ("lambda x: lax.scan(lambda c, r: (c + r.sum(), c * r), 0.0, x)", ["b, 3"], [[(4, 3)], [(1, 3)]]),
    "a scan's gradient": (
        "jax.grad(lambda w, x: lax.scan(lambda c, r: (jnp.tanh(c * w + r), c.sum()), jnp.zeros(x.shape[1]), x)[0].sum())",
        [None, "t, b"], [[(), (4, 3)], [(), (1, 1)]],
    ),
    "a bound": ("lambda x: lax.fori_loop(0, x.shape[0], lambda i, v: v + x[i], jnp.zeros(3))", ["b, 3"], [[(4, 3)], [(1, 3)]]),
    "a while loop": ("lambda x: lax.while_loop(lambda v: jnp.abs(v).sum() < 100, lambda v: v * 2 + 1, x)", ["b, c"], [[(4, 3)], [(1, 1)]]),
    "a branch": ("lambda x: lax.cond(x.sum() > 0, lambda v: v, lambda v: -v, x)", ["b, c"], [[(4, 3)], [(1, 1)]]),
    "a map": ("lambda x: lax.map(lambda r: r.sum(), x)", ["b, c"], [[(4, 2)], [(1, 1)]]),
    "calls and checkpoints": (
        "lambda x: jax.grad(jax.checkpoint(lambda y: jax.jit(jnp.sin)(jnp.sin(y)).sum()))(x)", ["b, c"], [[(3, 2)], [(1, 1)]],
    ),
    "many elements": ("lambda x: (jnp.where(x > 0, x, 0.0), jnp.sort(x, 0), jnp.cumsum(x, 0))", ["b, 3"], [[(4, 3)], [(1, 3)], [(20000, 3)]]),
    "a convolution": ("lambda x, w: lax.conv(x, w, (1, 1), 'SAME')", ["b, 3, h, w", None], [[(2, 3, 8, 9), (4, 3, 2, 2)], [(1, 3, 8, 8), (4, 3, 2, 2)]]),
    "attention": ("lambda q: jax.nn.dot_product_attention(q, q, q)", ["b, c, 2, 4"], [[(2, 3, 2, 4)], [(1, 1, 2, 4)]]),
    "random numbers": ("lambda q: jax.random.normal(jax.random.key(0), q.shape)", ["b, c"], [[(2, 3)], [(1, 1)]]),
    "a factorization": ("lambda q: jnp.linalg.cholesky(q @ q.T + 10 * jnp.eye(q.shape[0]))", ["b, b"], [[(3, 3)], [(1, 1)]]),
    "copies": ("lambda q: (jnp.tile(q, (2, 1)), jnp.repeat(q, 2, axis=0), jnp.stack([q, q]), jnp.pad(q, 1))", ["b, c"], [[(2, 3)], [(1, 1)]]),
    "parts": ("lambda q: jnp.split(q, 2, axis=0)", ["2*b, c"], [[(4, 3)], [(2, 1)]]),
    "sparse arrays": (
        "lambda x, y: (lambda a: ((a * x).todense(), (a + a.T.T).todense(), a.T @ x, a[None].todense(), "
        "a.sum(0).todense(), (a / y).sort_indices().todense()))(sparse.BCOO.fromdense(x, nse=9))", ["b, 3", "b, 3"], [[(4, 3)] * 2, [(3, 3)] * 2],
    ),
    "a size from an empty array": ("lambda d, x: x[: d.shape[1]]", ["0, k + 1", "k + 3"], [[(0, 3), (5,)]]),
    "a maximum of sizes": ("lambda x: jnp.ones(jax.core.max_dim(x.shape[0], 4))", ["b"], [[(3,)], [(9,)]]),
}  # fmt: skip


def traced(j, name, constraints=()):
    text, specs, calls = PROGRAMS[name]
    sparse = importlib.import_module(f"{j.__name__}.experimental.sparse")
    function = eval(text, {"jax": j, "jnp": j.numpy, "lax": j.lax, "np": np, "sparse": sparse})
    scope = j.export.SymbolicScope(constraints)
    shapes = [c if s is None else j.export.symbolic_shape(s, scope=scope) for s, c in zip(specs, calls[0], strict=True)]
    return function, [j.ShapeDtypeStruct(s, "float32") for s in shapes]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_function_for_all_sizes_gives_what_jax_gives_for_each(name):
    (function, specs), (theirs, their_specs) = (traced(j, name) for j in (jaxish, jax))
    exported = jaxish.export.export(jaxish.jit(function))(*specs)
    stored = jaxish.export.deserialize(exported.serialize())
    wanted = [str(a) for a in jax.export.export(jax.jit(theirs))(*their_specs).out_avals]
    assert [str(a) for a in exported.out_avals] == wanted
    assert [str(a) for a in stored.out_avals] == wanted
    draw = np.random.default_rng(0)
    for shapes in PROGRAMS[name][2]:
        args = [draw.normal(size=s).astype("float32") for s in shapes]
        found = jaxish.tree.leaves(stored.call(*args))
        want = jax.tree.leaves(jax.jit(theirs)(*args))
        for f, w in zip(found, want, strict=True):
            assert_same(f, w, rtol=1e-4, atol=1e-4, weak=False)


CALLS = {
    "sizes that fit": "f('b, b, 2*d').call(jnp.ones((3, 3, 4)))",
    "sizes that differ": "f('b, b, 2*d').call(jnp.ones((3, 4, 4)))",
    "a rest": "f('b, b, 2*d').call(jnp.ones((3, 3, 5)))",
    "a size below one": "f('b + 2').call(jnp.ones(2))",
    "an empty array": "f('b').call(jnp.ones(0))",
    "a fixed size": "f('b, 3').call(jnp.ones((2, 4)))",
    "a rank": "f('b').call(jnp.ones((2, 4)))",
    "a constraint": "f('b', ['b >= 8']).call(jnp.ones(7))",
    "a constraint that holds": "f('b', ['b >= 8']).call(jnp.ones(8))",
    "an equation": "f('a, b', ['a == 2*b']).call(jnp.ones((3, 2)))",
    "an equation that holds": "f('a, b', ['a == 2*b']).call(jnp.ones((4, 2)))",
    "two unknowns": "f('a, a + b').call(jnp.ones((3, 5)))",
    "two unknowns, negative": "f('a, a + b').call(jnp.ones((3, 3)))",
    "a square": "f('a*a')",
    "a sum": "f('a + b')",
    "two scopes": "export.export(jax.jit(lambda x, y: x))(*(jax.ShapeDtypeStruct(shape('a'), 'float32') for _ in 'xy'))",
    "unequal sizes": "export.export(jax.jit(lambda x: x + jnp.ones(4)))(jax.ShapeDtypeStruct(shape('v'), 'float32'))",
    "unequal matrices": "export.export(jax.jit(lambda x: x @ x))(jax.ShapeDtypeStruct(shape('v, 4'), 'float32'))",
    "a traced size": "export.export(jax.jit(lambda x: x.reshape(jnp.array(x.shape[0]) + 2)))(jax.ShapeDtypeStruct(shape('v'), 'float32'))",
    "a gradient": "jax.grad(lambda x: f('b, c').call(x).sum())(jnp.ones((2, 3)))",
    "in jit": "jax.jit(f('b, c').call)(jnp.ones((2, 3)))",
    "in another export": "export.export(jax.jit(lambda x: f('b, c').call(x)))(jax.ShapeDtypeStruct(shape('n, 2*n'), 'float32')).call(jnp.ones((2, 4)))",
    "in another, wrongly": "export.export(jax.jit(lambda x: f('b, b').call(x)))(jax.ShapeDtypeStruct(shape('n, m'), 'float32'))",
    "the globals": "[f('b').uses_global_constants, str(f('b + 1').vjp().in_avals), str(f('b + 1').vjp().out_avals)]",
    "keys": "export.export(jax.jit(jax.random.bits))(jax.ShapeDtypeStruct((), jax.random.key(0).dtype)).call(jax.random.key(1))",
}  # fmt: skip


@pytest.mark.parametrize("what", CALLS)
def test_calls_do_what_those_of_jax_do(what):
    def call(j):
        shape = j.export.symbolic_shape

        def exported(text, constraints=()):
            spec = j.ShapeDtypeStruct(shape(text, constraints=constraints), "float32")
            return j.export.export(j.jit(lambda x: x * 2))(spec)

        return eval(CALLS[what], {"f": exported, "shape": shape, "export": j.export, "jax": j, "jnp": j.numpy})

    agree(call)


def test_a_function_may_branch_on_sizes():
    f = jaxish.jit(lambda x: x if x.shape[0] < 100 else -x if x.shape[0] % 2 else 2 * x)
    exported = jaxish.export.export(f)(jaxish.ShapeDtypeStruct(jaxish.export.symbolic_shape("b"), "float32"))
    stored = jaxish.export.deserialize(exported.serialize())
    for size, wanted in ((1, 1), (99, 1), (100, 2), (101, -1), (5000, 2)):
        assert float(stored.call(np.ones(size, "float32"))[0]) == wanted


def test_stored_functions_keep_constraints_and_derivatives():
    shape = jaxish.export.symbolic_shape("b, c", constraints=["b >= 2*c"])
    f = jaxish.jit(lambda x, n: (jaxish.numpy.sin(x) * n).sum(1))
    spec = jaxish.ShapeDtypeStruct(shape, "float32"), jaxish.ShapeDtypeStruct((shape[0], 1), "int32")
    stored = jaxish.export.deserialize(jaxish.export.export(f)(*spec).serialize(vjp_order=1))
    x, n = np.ones((4, 2), "float32"), np.ones((4, 1), "int32")
    assert_same(
        jaxish.grad(lambda x: stored.call(x, n).sum())(x),
        jax.grad(lambda x: (jax.numpy.sin(x) * n).sum())(x), weak=False,
    )  # fmt: skip
    with pytest.raises(ValueError, match="symbolic shape constraint b >= 2"):
        stored.call(x[:3], n[:3])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_types_for_all_sizes_are_those_of_jax(name):
    def types(j):
        function, specs = traced(j, name)
        found = j.eval_shape(function, *specs)
        return str(j.tree.structure(found)), [(str(t.shape), str(t.dtype), t.weak_type) for t in j.tree.leaves(found)]

    assert types(jaxish) == types(jax)


@pytest.mark.parametrize("name", ["a callback", "a size that is not to be solved", "within a trace", "a key", "jitted"])
def test_types_for_all_sizes_are_found_where_nothing_is_exported(name):
    def types(j):
        (b,) = j.export.symbolic_shape("b", constraints=["b >= 2"])
        spec, w = j.ShapeDtypeStruct((b, 3), "float32"), j.numpy.ones((3, 4))
        double = lambda x: j.numpy.concatenate([x, 2 * x])
        if name == "a callback":
            return j.eval_shape(
                lambda x: j.pure_callback(lambda x: x, j.ShapeDtypeStruct(x.shape, x.dtype), x) @ w, spec
            )
        if name == "a size that is not to be solved":
            return j.eval_shape(double, j.ShapeDtypeStruct((b * b, 3), "float32"))
        if name == "a key":
            return j.eval_shape(
                lambda k, x: j.vmap(j.random.normal)(k) + x[:, 0], j.ShapeDtypeStruct((b,), j.random.key(0).dtype), spec
            )
        if name == "jitted":
            return j.jit(double).eval_shape(spec)
        found = []
        j.jit(lambda w: found.append(j.eval_shape(lambda x: double(x) @ w, spec)))(w)
        return found

    assert str(types(jaxish)) == str(types(jax))


def test_other_traces_refuse_symbolic_shapes():
    spec = jaxish.ShapeDtypeStruct(jaxish.export.symbolic_shape("b"), "float32")
    with pytest.raises(NotImplementedError, match="only jax"):
        jaxish.jit(lambda x: x).lower(spec)
