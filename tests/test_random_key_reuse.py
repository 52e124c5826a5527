"""`jax_debug_key_reuse`: which programs use a key twice. JAX says which; it and jaxish must refuse the same ones."""

import importlib

import jax
import jax.experimental.key_reuse
import numpy as np
import pytest

import jaxish
import jaxish.experimental.key_reuse

SETTING = """
k, ks, r = j.random.key(0), j.random.split(j.random.key(1), 4), j.new_ref(3)
n, u, split, fold_in, clone = j.random.normal, j.random.uniform, j.random.split, j.random.fold_in, j.random.clone
jit, vmap, grad, lax, np = j.jit, j.vmap, j.grad, j.lax, j.numpy

def two(k):
    a, b = split(k)
    return n(a) + n(b)

def same(k):
    a, b = split(k)
    return n(a) + n(a)

def twice(f, *args):
    return f(*args), f(*args)

def put(r, k):
    r[...] += u(k) < 0
    return n(k)

def carried(k, _):
    k, a = split(k)
    return k, n(a)

def step(c):
    k, a = split(c[0])
    return k, c[1] + 1 + 0 * n(a)

def draw(c, k):
    return c + n(k), None

def below(c):
    return c[1] < 3.

@j.custom_jvp
def ruled(x, k):
    return x * n(k)

ruled.defjvp(lambda p, t: (ruled(*p), t[0]))
"""

EAGERLY = [
    "n(k), n(k)",
    "split(k), n(k)",
    "n(ks[0]), n(ks[1])",
    "n(ks[0]), n(ks[0])",
    "n(ks[0]), vmap(n)(ks)",
    "vmap(n)(ks), n(ks[0])",
    "ks[:2], ks[2:]",
    "ks[:2], ks[1:3]",
    "ks[:2], vmap(n)(ks)",
    "ks[:], ks[...], vmap(n)(ks)",
    "n(ks[np.int32(0)]), n(ks[np.int32(0)])",
    "two(k)",
    "same(k)",
    "(a := list(ks)), n(a[0]), n(a[1])",
    "n(fold_in(k, 0)), n(fold_in(k, 1)), n(k)",
    "n(k), n(fold_in(k, 0))",
    "n(k), n(clone(k))",
    "(c := clone(k)), n(k), n(c)",
    "(c := clone(k)), n(c), n(c)",
    "n(k), n(j.random.wrap_key_data(j.random.key_data(k)))",
    "k == k, k != k, n(k), k == k",
    "(r := np.reshape(ks, (2, 2))), vmap(n)(ks), vmap(vmap(n))(r)",
    "vmap(n)(ks), vmap(vmap(n))(np.reshape(ks, (2, 2)))",
    "(r := j.random.PRNGKey(0)), n(r), n(r)",
    "repr(k), k.block_until_ready(), n(k)",
    "j.eval_shape(n, k), j.make_jaxpr(n)(k), jit(n).lower(k), n(k)",
    "j.tree.map(lambda x: x, [k]), n(k)",
    "np.stack([k, ks[0]]), n(k)",
    "np.stack([k, k])",
    "np.concatenate([ks, ks[:1]])",
    "np.append(ks, ks[:1])",
    "vmap(n)(np.concatenate([ks[:2], ks[2:]]))",
    "np.where(True, k, fold_in(k, 1)), n(k)",
    "lax.slice(ks, (0,), (2,)), vmap(n)(ks)",
    "lax.slice(ks, (0,), (2,)), lax.slice(ks, (2,), (4,))",
    "lax.slice_in_dim(ks, 0, 2), n(ks[1])",
    "lax.slice_in_dim(ks, 0, 2), n(ks[3])",
    "lax.index_in_dim(ks, 1), n(ks[1])",
    "(r := np.reshape(ks, (2, 2))), lax.slice(r, (0, 0), (2, 1)), lax.slice(r, (0, 1), (2, 2))",
    "lax.dynamic_update_slice(ks, (s := split(k)), (0,)), n(s[0])",
    "lax.dynamic_update_slice(ks, split(k), (0,)), vmap(n)(ks)",
    "vmap(n)(lax.dynamic_update_slice(ks, split(k), (0,)))",
    "np.full_like(ks, 0), lax.eq(ks, ks), np.isnan(ks), vmap(n)(ks)",
    "j.random.choice(k, ks, (2,)), n(k)",
]
JITTED = [
    "jit(lambda k: n(k) + u(k))(k)",
    "(f := jit(n)), f(k), f(k)",
    "(f := jit(n)), f(k), n(k)",
    "(f := jit(n)), n(k), f(k)",
    "(f := jit(n)), f(k), f(clone(k))",
    "(f := jit(lambda k: 1.)), f(k), f(k), n(k)",
    "jit(lambda x: x + n(k))(1.)",
    "(f := jit(lambda x: x + n(k))), f(1.), f(1.)",
    "jit(lambda x: x + n(k))(1.), n(k)",
    "jit(lambda ks: n(ks[0]) + n(ks[1]))(ks)",
    "jit(lambda ks: n(ks[0]) + n(ks[0]))(ks)",
    "jit(lambda ks: n(ks[0]) + vmap(n)(ks[1:]).sum())(ks)",
    "jit(lambda ks: n(ks[0]) + vmap(n)(ks).sum())(ks)",
    "jit(lambda ks: n(ks[0]))(ks), n(ks[1])",
    "jit(lambda ks: n(ks[0]))(ks), vmap(n)(ks)",
    "(f := jit(lambda ks: n(ks[0]))), f(ks), f(ks)",
    "jit(lambda ks: n(ks[0]))(ks), jit(lambda ks: n(ks[1]))(ks)",
    "jit(lambda ks, i: n(ks[i]) + n(ks[i]))(ks, 0)",
    "jit(lambda ks: vmap(n)(ks) + vmap(n)(np.ravel(ks)))(ks)",
    "jit(two)(k)",
    "jit(same)(k)",
    "jit(lambda k: n(fold_in(k, 0)) + n(fold_in(k, 1)))(k), n(k)",
    "jit(lambda k: n(k) + n(clone(k)))(k)",
    "jit(lambda k: n(k) + n(j.random.wrap_key_data(j.random.key_data(k))))(k)",
    "jit(lambda k: (k == k) * n(k) * (k != k))(k)",
    "(f := jit(lambda s: n(j.random.key(s)))), f(0), f(0)",
    "(f := jit(lambda k: k)), n(f(k)), n(k)",
    "n(k), n(jit(lambda k: k)(k))",
    "n(jit(lambda k: (n(k), k))(k)[1])",
    "vmap(n)(jit(split)(k))",
    "(r := jit(split)(k)), vmap(n)(r), vmap(n)(r)",
    "(f := jit(lambda s: n(s['key']) * s['x'])), (s := {'key': k, 'x': 1.}), f(s), f(s)",
    "jit(lambda a, b: n(a) + n(b))(k, k)",
    "(f := jit(lambda a, b: n(a))), f(k, k), f(k, k)",
    "(g := jit(n)), jit(lambda k: g(k) + g(k))(k)",
    "(g := jit(n)), jit(lambda k: g(split(k)[0]))(k), g(k)",
    "(g := jit(n)), jit(lambda k: g(k))(k), g(k)",
    "(f := jit(step)), f(f(f((k, 0.))))",
    "jit(lambda k: j.debug.callback(lambda x: None, n(k)))(k)",
    "jit(lambda k: np.stack([k, k]))(k)",
    "jit(lambda ks: (lax.slice(ks, (0,), (2,)), n(ks[0])))(ks)",
    "jit(lambda ks: (lax.slice(ks, (0,), (2,)), n(ks[3])))(ks)",
    "jit(lambda ks: vmap(n)(np.concatenate([ks[:2], ks[2:]])))(ks)",
]
MAPPED = [
    "vmap(n)(ks), vmap(n)(ks)",
    "vmap(lambda k: n(k) + n(k))(ks)",
    "vmap(lambda x: x + n(k))(np.arange(3.)), n(k)",
    "(f := vmap(lambda k, x: x + n(k), in_axes=(None, 0))), f(k, np.arange(3.)), f(k, np.arange(3.))",
    "vmap(vmap(n))(vmap(split)(ks))",
    "vmap(split)(ks), vmap(n)(ks)",
    "vmap(two)(ks)",
    "vmap(same)(ks)",
    "jit(vmap(two))(ks)",
    "jit(vmap(same))(ks)",
    "jit(vmap(lambda k: (a := split(k)) is None or n(a[0]) + n(a[0])))(ks)",
    "jit(vmap(lambda k: (a := split(k)) is None or n(a[0]) + n(a[1])))(ks)",
    "(f := vmap(jit(n))), f(ks), f(ks)",
    "vmap(jit(lambda k: n(k) + n(k)))(ks)",
    "(f := vmap(lambda r: lax.scan(draw, 0., r)[0])), (r := np.reshape(ks, (2, 2))), f(r), f(r)",
    "vmap(lambda k: lax.scan(lambda c, x: (c + n(k), None), 0., np.arange(3.))[0])(ks)",
    "vmap(lambda k, p: lax.cond(p, lambda: n(k), lambda: 0.))(ks, np.arange(4) > 1), vmap(n)(ks)",
]
DIFFERENTIATED = [
    "grad(lambda x: x * n(k))(1.)",
    "(f := grad(lambda x: x * n(k))), f(1.), f(1.)",
    "grad(lambda x, k: x * n(k) * n(k))(1., k)",
    "(f := grad(jit(lambda x, k: x * n(k)))), f(1., k), f(1., k)",
    "(f := jit(grad(lambda x, k: x * n(k)))), f(1., k), f(1., k)",
    "jit(j.value_and_grad(lambda x, k: x * n(k)))(1., k)",
    "(f := lambda: j.jvp(lambda x: x * n(k), (1.,), (1.,))), f(), f()",
    "grad(lambda x: lax.scan(lambda c, k: (c * n(k), None), x, ks)[0])(1.)",
    "(f := j.checkpoint(lambda x, k: x * n(k))), f(1., k), f(1., k)",
    "j.checkpoint(lambda x, k: x * n(k) * n(k))(1., k)",
    "j.checkpoint(lambda x: x * n(k))(1.), n(k)",
    "(f := jit(grad(j.checkpoint(lambda x, k: np.sin(x * n(k)))))), f(1., k), f(1., k)",
    "jit(lambda k: j.checkpoint(lambda x, k: x * n(k))(1., k) + n(k))(k)",
    "ruled(1., k), ruled(1., k)",
    "jit(ruled)(1., k)",
    "jit(ruled)(1., k), n(k)",
    "jit(lambda x, k: ruled(x, k) + ruled(x, k))(1., k)",
]
LOOPS = [
    "lax.scan(lambda c, x: (c + n(k), None), 0., np.arange(3.))",
    "lax.scan(lambda c, x: (c + n(fold_in(k, x)), None), 0., np.arange(3)), n(k)",
    "lax.scan(lambda c, x: (c + n(clone(k)), None), 0., np.arange(3)), n(k)",
    "lax.scan(draw, 0., ks)",
    "lax.scan(draw, 0., ks), lax.scan(draw, 0., ks)",
    "lax.scan(draw, 0., ks), vmap(n)(ks)",
    "lax.scan(lambda c, k: (c + n(k) + n(k), None), 0., ks)",
    "n(lax.scan(carried, k, None, length=3)[0])",
    "lax.scan(carried, k, None, length=3), n(k)",
    "lax.scan(lambda k, x: (k, n(k)), k, None, length=3)",
    "lax.scan(lambda k, x: (k, n(split(k)[0])), k, None, length=3)",
    "n(lax.scan(lambda k, x: (k, n(fold_in(k, x))), k, np.arange(3))[0])",
    "vmap(n)(lax.scan(lambda k, x: tuple(split(k)), k, None, length=3)[1])",
    "jit(lambda k: lax.scan(lambda c, x: (c + n(k), None), 0., np.arange(3.)))(k)",
    "jit(lambda ks: (lax.scan(draw, 0., ks), vmap(n)(ks)))(ks)",
    "(f := jit(lambda ks: lax.scan(draw, 0., ks))), f(ks), f(ks)",
    "jit(lambda k: lax.scan(carried, k, None, length=3))(k)",
    "jit(lambda k: lax.scan(lambda k, x: (k, n(split(k)[0])), k, None, length=3))(k)",
    "lax.map(n, ks), lax.map(n, ks)",
    "lax.fori_loop(0, 3, lambda i, c: c + n(k), 0.)",
    "lax.fori_loop(0, 3, lambda i, c: c + n(fold_in(k, i)), 0.), n(k)",
    "n(lax.fori_loop(0, 3, lambda i, c: step(c), (k, 0.))[0])",
    "lax.fori_loop(0, 3, lambda i, c: step(c), (k, 0.)), n(k)",
    "lax.fori_loop(0, 3, lambda i, c: (c[0], c[1] + n(c[0])), (k, 0.))",
    "jit(lambda m: lax.fori_loop(0, m, lambda i, c: c + n(k), 0.))(3)",
    "lax.while_loop(lambda c: c < 3., lambda c: c + 1 + 0 * n(k), 0.)",
    "lax.while_loop(lambda c: c + u(k) < 3., lambda c: c + 1, 0.)",
    "lax.while_loop(lambda c: c < 3., lambda c: c + 1 + 0 * n(fold_in(k, 1)), 0.), n(k)",
    "n(lax.while_loop(below, step, (k, 0.))[0])",
    "lax.while_loop(below, step, (k, 0.)), n(k)",
    "lax.while_loop(below, lambda c: (c[0], c[1] + 1 + 0 * n(c[0])), (k, 0.))",
    "lax.while_loop(lambda c: c[1] + u(c[0]) < 3., step, (k, 0.))",
    "lax.while_loop(lambda c: c[1] + u(c[0]) < 3., lambda c: (c[0], c[1] + 1), (k, 0.))",
    "lax.while_loop(lambda c: c[1] + u(c[0]) < 3., lambda c: (fold_in(c[0], 1), c[1] + 1), (k, 0.))",
]
BRANCHES = [
    "lax.cond(True, n, lambda k: 0., k)",
    "lax.cond(False, n, lambda k: 0., k), n(k)",
    "lax.cond(True, lambda: n(k), lambda: 0.), n(k)",
    "jit(lambda p, k: lax.cond(p, n, lambda k: 0., k) + n(k))(False, k)",
    "jit(lambda p, k: lax.cond(p, n, u, k))(False, k)",
    "jit(lambda p, k: lax.cond(p, lambda: n(k), lambda: u(k)))(False, k)",
    "jit(lambda p, k: lax.cond(p, n, lambda k: 0., k))(False, k), n(k)",
    "jit(lambda p, k: lax.cond(p, lambda: n(k), lambda: 0.))(False, k), n(k)",
    "jit(lambda p, k: lax.cond(p, lambda k: n(k) + n(k), lambda k: 0., k))(False, k)",
    "jit(lambda p, k: n(lax.cond(p, lambda k: split(k)[0], lambda k: fold_in(k, 1), k)))(False, k)",
    "jit(lambda i, k: lax.switch(i, [lambda k: 0., n, u], k) + n(k))(0, k)",
    "lax.switch(0, [lambda k: 0., n, u], k), n(k)",
]

REFERENCES = [
    "twice(jit(lambda: fold_in(k, r[...])))",
    "twice(jit(lambda k: (r.__setitem__(..., 5), n(k))), k)",
    "jit(put)(r, k), jit(put)(r, k)",
    "jit(put)(r, ks[0]), jit(put)(r, ks[1])",
    "lax.scan(lambda c, k: (c, put(r, k)), 0, ks)",
]


def _outcome(library, program):
    names = {"j": library}
    with library.debug_key_reuse(True):
        exec(SETTING, names)
        try:
            eval(program, names)
        except library.errors.KeyReuseError:
            return "refused"
    return "fine"


@pytest.mark.parametrize("program", [*EAGERLY, *JITTED, *MAPPED, *DIFFERENTIATED, *LOOPS, *BRANCHES, *REFERENCES])
def test_the_programs_that_jax_refuses_are_refused(program):
    assert _outcome(jaxish, program) == _outcome(jax, program)


def test_what_was_used_before_the_flag_was_set_counts_as_new():
    for library in (jax, jaxish):
        key = library.random.key(0)
        library.random.normal(key)
        with library.debug_key_reuse(True):
            library.random.normal(key)
        with library.debug_key_reuse(False):
            library.random.normal(key)


@pytest.mark.parametrize(
    "program", ["jit(two)(k)", "lax.scan(carried, k, None, length=3)[1]", "vmap(two)(ks)", "ks[1]"]
)
def test_checking_changes_no_value(program):
    found = []
    for checked in (False, True):
        names = {"j": jaxish}
        with jaxish.debug_key_reuse(checked):
            exec(SETTING, names)
            value = eval(program, names)
            found.append(np.asarray(jaxish.random.key_data(value) if program == "ks[1]" else value))
    np.testing.assert_array_equal(*found)


# ------------------------------------------------------------------------------- what a function does to keys, asked for

ASKED = {
    "a draw": ("n", "k"),
    "a split": ("split", "k"),
    "a clone": ("clone", "k"),
    "a seed": ("j.random.key", "0"),
    "the key itself": ("lambda k: k", "k"),
    "both arguments": ("lambda a, b: n(a) + n(b)", "k, fold_in(k, 1)"),
    "one of a batch": ("lambda ks: n(ks[0])", "ks"),
    "a loop": ("lambda ks: lax.scan(draw, 0., ks)[0]", "ks"),
    "a branch": ("lambda p, k: lax.cond(p, n, lambda k: 0., k)", "True, k"),
    "asserted unconsumed": ("lambda k: core.assert_unconsumed(k)", "k"),
    "asserted consumed": ("lambda k: (n(k), core.assert_consumed(k))[0]", "k"),
    "asserted consumed in part": ("lambda ks: (n(ks[0]), core.assert_consumed(ks, onp.arange(4) < 1))[0]", "ks"),
    "asserted wrongly": ("lambda k: core.assert_consumed(k)", "k"),
    "asserted wrongly after a draw": ("lambda k: (n(k), core.assert_unconsumed(k))[0]", "k"),
    "consumed": ("lambda k: core.consume(k)", "k"),
    "consumed twice": ("lambda k: core.consume(core.consume(k))", "k"),
    "twice": ("lambda k: n(k) + n(k)", "k"),
    "a predicate": ("lambda k: lax.while_loop(lambda c: n(k) + c < 3., lambda c: c + 1., 0.)", "k"),
}


@pytest.mark.parametrize("name", ASKED)
def test_what_a_function_does_to_keys(name):
    def said(library):
        core = importlib.import_module(f"{library.__name__}.experimental.key_reuse._core")
        names = {"j": library, "core": core, "onp": np}
        exec(SETTING, names)
        function, args = (eval(text, names) for text in (ASKED[name][0], f"({ASKED[name][1]},)"))
        try:
            core.check_key_reuse(function, *args)
            return repr(core.function_type_signature(function, *args))
        except (library.errors.KeyReuseError, AssertionError) as error:
            return type(error).__name__

    assert said(jaxish) == said(jax)


@pytest.mark.parametrize(
    ("first", "second"),
    [("Sink(0)", "Sink(0, np.array([True, True]))"), ("Sink(0)", "Source(0)"), ("Sink(0)", "Sink(1)"),
     ("Source(0, np.array([True, False]))", "Source(0, np.array([True, False]))"), ("Forward(0, 1)", "Forward(0, 1)"),
     ("Sink(0, np.zeros(0, bool))", "Sink(0, False)"),
     ("KeyReuseSignature(Sink(1), Source(0))", "KeyReuseSignature(Source(0), Sink(1))")],
)  # fmt: skip
def test_signatures_are_compared_and_shown_as_jax_does(first, second):
    def said(library):
        core = importlib.import_module(f"{library.__name__}.experimental.key_reuse._core")
        pair = [eval(text, {"np": np, **vars(core)}) for text in (first, second)]
        return [*map(repr, pair), pair[0] == pair[1], hash(pair[0]) == hash(pair[1])]

    assert said(jaxish) == said(jax)
