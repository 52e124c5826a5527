"""What vjp and linearize return, as pytrees: through jit, loops, vmap and custom rules, against JAX."""

import importlib

import numpy as np
import pytest
from oracle import agree

pytestmark = pytest.mark.usefixtures("unoptimized_jax")

X, Y = np.arange(1.0, 4.0, dtype=np.float32), np.arange(2.0, 5.0, dtype=np.float32)
CT = {"a": np.ones(3, np.float32), "b": np.float32(2)}


def f(j):
    return lambda x, y: {"a": j.numpy.sin(x) * y, "b": x @ y}


def pulled(j):
    return j.vjp(f(j), X, Y)[1]


def with_its_pullback(j):
    g = j.custom_vjp(j.numpy.sin)
    g.defvjp(lambda x: j.vjp(j.numpy.sin, x), lambda pull, ct: pull(ct))
    return g


def given_arguments(j):
    x, y = map(j.numpy.asarray, (X, Y))
    _, pull = j.vjp(lambda x, y: x * y, x, y)
    pull.args_res = [None, None]
    pull.args_res = [x + 1, y + 1]
    return pull(x)


def given_tree(j):
    x, y = map(j.numpy.asarray, (X, Y))
    _, pull = j.vjp(lambda x: [x["a"] * x["b"]], {"a": x, "b": y})
    pull.args_res = [{"a": x + 1, "b": y + 1}]
    return pull([x])


def parts(j):
    _, pull = j.vjp(j.numpy.sin, 3.0)
    return bool(pull.opaque_residuals), type(pull.args_res[0]).__name__ == "NotNeeded"


PROGRAMS = {
    "out of jit": lambda j: j.jit(lambda x, y: j.vjp(f(j), x, y)[1])(X, Y)(CT),
    "into jit": lambda j: j.jit(lambda pull, ct: pull(ct))(pulled(j), CT),
    "scan": lambda j: (lambda pull: j.lax.scan(lambda c, _: (c, pull(CT)), X, None, length=2))(pulled(j)),
    "carried": lambda j: j.lax.fori_loop(0, 2, lambda i, pull: pull, pulled(j))(CT),
    "mapped over its leaves": lambda j: j.tree.map(lambda t: t * 1.0, pulled(j))(CT),
    "linearize": lambda j: j.jit(lambda x, y: j.linearize(f(j), x, y))(X, Y)[1](X, Y),
    "linearize into jit": lambda j: j.jit(lambda push, x, y: push(x, y))(j.linearize(f(j), X, Y)[1], X, Y),
    "linearize under vmap": lambda j: j.vmap(j.linearize(f(j), X, Y)[1], (0, None))(np.eye(3, dtype=np.float32), Y),
    "out of vmap": lambda j: j.vmap(lambda pull: pull(CT))(
        j.vmap(lambda x: j.vjp(f(j), x, Y)[1])(np.eye(3, dtype=np.float32))
    ),
    "differentiated": lambda j: j.grad(lambda x: j.jit(lambda x: j.vjp(f(j), x, Y)[1])(x)(CT)[1].sum())(X),
    "residual of a rule": lambda j: (
        j.grad(with_its_pullback(j))(1.0), j.jit(j.grad(with_its_pullback(j)))(1.0), j.vmap(j.grad(with_its_pullback(j)))(X)
    ),
    "closure": lambda j: j.tree.map(lambda t: t, j.vjp(lambda x: x * Y, X)[1])(X),
    "auxiliary result": lambda j: j.tree.map(lambda t: t, j.vjp(lambda x: (x * x, x), X, has_aux=True)[1])(X),
    "integers": lambda j: j.tree.map(lambda t: t, j.vjp(lambda x, n: x * n, X, 2)[1])(X)[0],
    "complex": lambda j: j.tree.map(lambda t: t, j.vjp(lambda z: j.numpy.real(z * z * 1j), 1.0 + 2j)[1])(1.0),
    "other arguments": given_arguments,
    "another tree": given_tree,
    "parts": parts,
    "too many": lambda j: pulled(j)(CT, CT),
    "another structure": lambda j: j.tree.map(lambda t: t, pulled(j))(X),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    agree(PROGRAMS[name], weak=False)


@pytest.mark.parametrize("wrap", [lambda j, f: f, lambda j, f: j.jit(f)], ids=["plain", "jit"])
def test_linearize_of_loops_of_unknown_length(wrap):
    def program(j, transform):
        f = wrap(j, lambda x: j.lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * x), (0, x))[1])

        def linearized(x):
            y, push = j.linearize(f, x)
            return y, push(j.numpy.ones_like(x)), push(2 * j.numpy.ones_like(x))

        return transform(j, linearized)

    x = np.float32(1.5)
    for transform in (lambda j, f: f(x), lambda j, f: j.jit(f)(x), lambda j, f: j.vmap(f)(np.ones(2, np.float32) * x)):
        agree(lambda j, transform=transform: program(j, transform), weak=False)


def test_rules_run_when_a_function_is_linearized():
    def program(j):
        f, seen = j.custom_jvp(lambda x, y: x * y), []

        def rule(primals, tangents):
            seen.append([type(t).__name__ for t in tangents])
            (x, y), (t, _) = primals, tangents
            return f(x, y), t * y

        f.defjvp(rule, symbolic_zeros=True)
        j.eval_shape(lambda x: j.linearize(lambda x: f(x, 2.0), x)[0], np.float32(3))
        return [kinds[1] for kinds in seen], len(seen)

    agree(program)


M, V = np.arange(1.0, 7.0, dtype=np.float32).reshape(2, 3), np.array([1.0, 2.0, 3.0], np.float32)
LINEAR = {
    "vjp": lambda j, m: j.vjp(lambda v: m @ v**2, V)[1],
    "linearize": lambda j, m: j.linearize(lambda v: j.numpy.sin(m.T @ v), V[:2])[1],
    "transpose": lambda j, m: j.linear_transpose(lambda v: m @ v, V),
    "of the argument": lambda j, m: j.vjp(lambda v: v * v * m.sum(), m[:, 0])[1],
}
CALLED = {
    "jit": lambda j, pull, w: j.jit(lambda w: pull(w))(w),
    "scan": lambda j, pull, w: j.lax.scan(lambda c, x: (c, pull(w * x)), 0, V)[1],
    "cond": lambda j, pull, w: j.lax.cond(w[0] > 0, lambda: pull(w), lambda: pull(-w)),
    "jaxpr": lambda j, pull, w: evaluated(j, pull, w),
}
OUTER = {
    "grad": lambda j, f: j.grad(lambda m: sum(x.sum() for x in j.tree.leaves(f(m))))(M),
    "jvp": lambda j, f: j.jvp(f, (M,), (np.cos(M),)),
    "vmap": lambda j, f: j.vmap(f)(np.stack([M, M + 1])),
    "jit of grad": lambda j, f: j.jit(j.grad(lambda m: sum((x**2).sum() for x in j.tree.leaves(f(m)))))(M),
    "hessian": lambda j, f: j.hessian(lambda m: sum((x**2).sum() for x in j.tree.leaves(f(m))))(M),
}


def evaluated(j, f, x):
    closed = j.make_jaxpr(f)(x)
    return importlib.import_module(f"{j.__name__}.core").eval_jaxpr(closed.jaxpr, closed.consts, x)


@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("called", CALLED)
@pytest.mark.parametrize("linear", LINEAR)
def test_called_in_a_trace_under_a_transformation(linear, called, outer):
    """A pullback reads values that a transformation around it traces, wherever it is called."""

    def program(j):
        w = j.numpy.asarray([0.5, 2.0], "float32")
        return OUTER[outer](j, lambda m: CALLED[called](j, LINEAR[linear](j, m), w))

    agree(program, weak=False, rtol=1e-4, atol=1e-5)


# ----------------------------------------------------------------------------- the parts of a linear function, as a Partial


def applied(push, *tangents):
    return push.func(*push.args, *tangents, **push.keywords)


FUNCTIONS = {
    "several": lambda j: applied(j.linearize(f(j), X, Y)[1], X, Y),
    "integers": lambda j: applied(j.linearize(lambda x, n: (x * n, n + 1), X, 3)[1], X, np.zeros((), j.dtypes.float0)),
    "complex": lambda j: applied(j.linearize(lambda x: x * x, np.complex64(1 + 2j))[1], np.complex64(3j)),
    "nothing differentiable": lambda j: applied(j.linearize(lambda n: n, 3)[1], np.zeros((), j.dtypes.float0)),
    "differentiated": lambda j: j.grad(lambda y: applied(j.linearize(lambda x: x * y, X)[1], Y).sum())(Y),
    "under jit": lambda j: j.jit(lambda y: applied(j.linearize(lambda x: x * y, X)[1], Y))(Y),
    "under vmap": lambda j: j.vmap(lambda y: applied(j.linearize(lambda x: j.numpy.sin(x) * y, X)[1], Y))(Y),
    "out of jit": lambda j: applied(j.jit(lambda x: j.linearize(j.numpy.sin, x)[1])(X), Y),
    "loop": lambda j: applied(j.linearize(lambda x: j.lax.fori_loop(0, 3, lambda i, c: c * x, x), X)[1], Y),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_function_without_what_it_reads(name):
    agree(FUNCTIONS[name], weak=False)


POLICIES = {
    "nothing": lambda p: None,
    "everything": lambda p: p.everything_saveable,
    "dots": lambda p: p.dots_saveable,
    "dots without batch": lambda p: p.dots_with_no_batch_dims_saveable,
    "by name": lambda p: p.save_only_these_names("sine"),
    "all but a name": lambda p: p.save_anything_except_these_names("sine"),
}
SHAPES = {"product": ((2, 2), "ij,jk->ik"), "products": ((3, 2, 2), "nij,njk->nik")}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("policy", POLICIES)
def test_its_program_shows_what_checkpoint_computes_again(policy, shape):
    size, formula = SHAPES[shape]

    def counts(j):
        checkpoint_name = importlib.import_module(f"{j.__name__}.ad_checkpoint").checkpoint_name

        def step(x):
            return checkpoint_name(j.numpy.sin(j.numpy.einsum(formula, x, x)), "sine")

        kept = POLICIES[policy](j.checkpoint_policies)
        _, push = j.linearize(j.checkpoint(lambda x: step(step(step(x))), policy=kept), j.numpy.ones(size))
        text = str(push.func.args[0])
        return [text.count(f" {name}") for name in ("sin ", "cos ", "dot_general")]

    agree(counts)


def _layer(j):
    return lambda x, w: j.numpy.sin((x @ w["in"]) @ w["out"])


WEIGHTS = {name: np.arange(6, dtype=np.float32).reshape(shape) / 9 for name, shape in (("in", (2, 3)), ("out", (3, 2)))}
ROWS = np.arange(8, dtype=np.float32).reshape(4, 2) / 7


def _without_weights(j, x):
    y, pull = j.vjp(_layer(j), x, WEIGHTS)
    pull.args_res[1] = None
    return y, pull


def _with_weights(pull, ct):
    pull.args_res[1] = WEIGHTS
    return pull(ct)


TAKEN_OUT = {
    "at once": lambda j: _with_weights(_without_weights(j, ROWS)[1], ROWS),
    "in jit": lambda j: j.jit(lambda x: _with_weights(_without_weights(j, x)[1], x))(ROWS),
    "from a jit to another": lambda j: j.jit(_with_weights)(j.jit(lambda x: _without_weights(j, x))(ROWS)[1], ROWS),
    "between loops": lambda j: j.lax.scan(
        lambda ct, pull: _with_weights(pull, ct),
        *j.lax.scan(lambda x, _: _without_weights(j, x), ROWS, None, length=3),
        reverse=True,
    ),
    "without them": lambda j: _without_weights(j, ROWS)[1](ROWS),
    "what is left": lambda j: [len(j.tree.leaves(a)) for a in _without_weights(j, ROWS)[1].args_res],
}


@pytest.mark.parametrize("name", TAKEN_OUT)
def test_weights_are_taken_out_and_put_back(name):
    agree(TAKEN_OUT[name], rtol=1e-4)


SCALE = 1.0


def _scaled(w):
    return w * SCALE


def _through_a_helper(w):
    return _scaled(w) + w


@pytest.mark.parametrize("fun", [_scaled, _through_a_helper])
def test_derivatives_are_of_the_variables_that_the_function_read(fun, monkeypatch):
    def program(j):
        apply, found = j.jit(lambda f, x: f(x)), []
        for scale in (1.0, 5.0, j.numpy.array(7.0)):
            monkeypatch.setitem(globals(), "SCALE", scale)
            _, pullback = j.vjp(fun, 2.0)
            _, pushed = j.linearize(fun, 2.0)
            found += [apply(pullback, 1.0), apply(pushed, 1.0), pullback(1.0), pushed(1.0)]
        return found

    agree(program)


def test_variables_that_are_changed_before_a_derivative_is_taken_apart():
    def program(j):
        scale, unset = j.numpy.array(2.0), None
        fun = lambda w, by=3.0, *, plus=1.0: w * scale * by + plus * (0 if unset is None else w)
        _, pullback = j.vjp(fun, X)
        _, pushed = j.linearize(fun, X)
        scale, unset = j.numpy.array(5.0), 1.0
        apply = j.jit(lambda f, x: f(x))
        return apply(pullback, Y), apply(pushed, Y), pullback(Y), pushed(Y)

    agree(program)
