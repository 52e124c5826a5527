"""custom_jvp and custom_vjp against JAX, alone and under every mix of the transformations."""

import functools
import importlib

import jax
import numpy as np
import pytest
from oracle import agree

import jaxish
from jaxish._core import config

XS = np.array([1.0, 2.0, 3.0], np.float32)


def with_jvp(jax):
    jnp = jax.numpy

    @jax.custom_jvp
    def f(x, y):
        return jnp.sin(x) * y

    @f.defjvp
    def rule(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        return f(x, y), 3.0 * y * jnp.cos(x) * dx + jnp.sin(x) * dy

    return f


def with_vjp(jax):
    jnp = jax.numpy

    @jax.custom_vjp
    def f(x, y):
        return jnp.sin(x) * y

    f.defvjp(lambda x, y: (jnp.sin(x) * y, (jnp.cos(x), jnp.sin(x), y)), lambda r, g: (5.0 * r[0] * g * r[2], r[1] * g))
    return f


TRANSFORMS = {
    "call": lambda j, f: f(2.0, 3.0),
    "keywords": lambda j, f: f(y=2.0, x=3.0),
    "grad": lambda j, f: j.grad(f)(2.0, 3.0),
    "grad in y": lambda j, f: j.grad(f, 1)(2.0, 3.0),
    "grad of grad": lambda j, f: j.grad(j.grad(f))(2.0, 3.0),
    "third derivative": lambda j, f: j.grad(j.grad(j.grad(f)), 1)(2.0, 3.0),
    "vmap of grad": lambda j, f: j.vmap(j.grad(f), (0, None))(XS, 2.0),
    "grad of vmap over x": lambda j, f: j.grad(lambda w: j.vmap(f, (None, 0))(w, XS).sum())(2.0),
    "grad of vmap over y": lambda j, f: j.grad(lambda w: j.vmap(f, (0, None))(XS, w).sum())(2.0),
    "jit of grad": lambda j, f: j.jit(j.grad(f))(2.0, 3.0),
    "jit of vmap of grad of grad": lambda j, f: j.jit(j.vmap(j.grad(j.grad(f)), (0, None)))(XS, 2.0),
    "jacfwd of grad": lambda j, f: j.jacfwd(j.grad(f))(2.0, 3.0),
    "jacrev of grad": lambda j, f: j.jacrev(j.grad(f))(2.0, 3.0),
    "vmap of vmap": lambda j, f: j.vmap(j.vmap(f, (0, None)), (None, 0))(XS, XS),
    "grad of vmap of vmap": lambda j, f: j.grad(lambda w: j.vmap(j.vmap(f, (0, None)), (None, 0))(XS, w * XS).sum())(
        2.0
    ),
    "in scan": lambda j, f: j.jit(j.grad(lambda x: j.lax.scan(lambda c, y: (f(c, y), c), x, XS)[0]))(np.float32(0.5)),
    "in checkpoint": lambda j, f: j.grad(j.checkpoint(lambda x: f(f(x, 2.0), 3.0)))(np.float32(0.5)),
}


@pytest.mark.parametrize(
    "wrap", [lambda j, f: f, lambda j, f: j.jit(f), lambda j, f: j.jit(j.jit(f))], ids=["plain", "jit", "jit jit"]
)
@pytest.mark.parametrize("rule", [with_jvp, with_vjp])
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS.keys())
def test_under_transformations_like_jax(transform, rule, wrap):
    agree(lambda j: transform(j, wrap(j, rule(j))), weak=False)


def defined(jax, kind, **options):
    return lambda fun, *rules: (lambda f: (getattr(f, f"def{kind[-3:]}")(*rules), f)[1])(
        getattr(jax, kind)(fun, **options)
    )


def symbolic_zeros(jax):
    f = jax.custom_vjp(lambda x, y: x * y)

    def fwd(x, y):
        # The result tells which arguments were differentiated.
        return x.value * y.value, (x.value * (10.0 if y.perturbed else 1.0), y.value * (100.0 if x.perturbed else 1.0))

    f.defvjp(fwd, lambda r, g: (g * r[1], g * r[0]), symbolic_zeros=True)
    return f


OTHERS = {
    "jvp": lambda j: j.jvp(with_jvp(j), (1.0, 2.0), (3.0, 4.0)),
    "nondiff argnums of jvp": lambda j: j.grad(
        defined(j, "custom_jvp", nondiff_argnums=(0,))(lambda n, x: x**n, lambda n, p, t: (p[0] ** n, 10.0 * n * t[0])),
        1,
    )(3, 2.0),
    "nondiff argnums of vjp": lambda j: j.grad(
        defined(j, "custom_vjp", nondiff_argnums=(0,))(
            lambda f, x: f(x), lambda f, x: (f(x), x), lambda f, r, g: (g * f(r) * 7.0,)
        ),
        1,
    )(lambda x: x * 2, 3.0),
    "pytrees": lambda j: j.grad(
        defined(j, "custom_vjp")(
            lambda p, x: {"y": p["w"] * x},
            lambda p, x: ({"y": p["w"] * x}, (p, x)),
            lambda r, g: ({"w": 2.0 * g["y"] * r[1]}, None),
        )
        and (
            lambda p: defined(j, "custom_vjp")(
                lambda p, x: {"y": p["w"] * x},
                lambda p, x: ({"y": p["w"] * x}, (p, x)),
                lambda r, g: ({"w": 2.0 * g["y"] * r[1]}, None),
            )(p, 3.0)["y"]
        )
    )({"w": 2.0}),
    "defjvps": lambda j: j.grad(
        (lambda f: (f.defjvps(lambda t, out, x, y: 2.0 * t * y, None), f)[1])(j.custom_jvp(lambda x, y: x * y)), (0, 1)
    )(2.0, 3.0),
    "integer argument": lambda j: j.grad(
        defined(j, "custom_vjp")(lambda x, n: x * n, lambda x, n: (x * n, n), lambda n, g: (g * n, None))
    )(2.0, 3),
    "complex": lambda j: j.grad(
        defined(j, "custom_vjp")(lambda z: z * z, lambda z: (z * z, z), lambda z, g: (g * 2 * z,)), holomorphic=True
    )(np.complex64(1 + 2j)),
    "symbolic zeros forward": lambda j: j.grad(symbolic_zeros(j))(2.0, 3.0),
    "symbolic zeros forward, both": lambda j: j.grad(symbolic_zeros(j), (0, 1))(2.0, 3.0),
    "custom_gradient": lambda j: j.grad(j.custom_gradient(lambda x: (x * x, lambda g: (g * 100.0,))))(2.0),
    "python numbers in nondiff": lambda j: j.jit(
        defined(j, "custom_jvp", nondiff_argnums=(1,))(lambda x, n: x * n, lambda n, p, t: (p[0] * n, t[0] * n)),
        static_argnums=1,
    )(2.0, 3),
}
ERRORS = {
    "no jvp rule": lambda j: j.custom_jvp(lambda x: x)(1.0),
    "no vjp rule": lambda j: j.grad(j.custom_vjp(lambda x: x))(1.0),
    "jvp of custom_vjp": lambda j: j.jvp(with_vjp(j), (1.0, 2.0), (1.0, 2.0)),
    "jvp rule shape": lambda j: j.jvp(defined(j, "custom_jvp")(lambda x: x, lambda p, t: (p[0], XS)), (1.0,), (1.0,)),
    "jvp rule pair": lambda j: j.jvp(defined(j, "custom_jvp")(lambda x: x, lambda p, t: p[0]), (1.0,), (1.0,)),
    "jvp rule tree": lambda j: j.jvp(
        defined(j, "custom_jvp")(lambda x: x, lambda p, t: (p[0], (t[0],))), (1.0,), (1.0,)
    ),
    "bwd length": lambda j: j.grad(defined(j, "custom_vjp")(lambda x, y: x, lambda x, y: (x, y), lambda r, g: (g,)))(
        1.0, 2.0
    ),
    "bwd no tuple": lambda j: j.grad(defined(j, "custom_vjp")(lambda x: x, lambda x: (x, x), lambda r, g: g))(1.0),
    "bwd shape": lambda j: j.grad(defined(j, "custom_vjp")(lambda x: x, lambda x: (x, x), lambda r, g: (XS,)))(1.0),
    "fwd pair": lambda j: j.grad(defined(j, "custom_vjp")(lambda x: x, lambda x: x, lambda r, g: (g,)))(1.0),
}


@pytest.mark.parametrize("program", [*OTHERS.values(), *ERRORS.values()], ids=[*OTHERS, *ERRORS])
def test_like_jax(program):
    agree(program, weak=False)


def closing_rule(j):
    """Return a function whose backward rule closes over arrays, floating and integer."""
    scale, steps = j.numpy.array([1.0, 2.0]), j.numpy.arange(2)

    @j.custom_vjp
    def f(x):
        return x * steps

    f.defvjp(lambda x: (f(x), None), lambda _, g: (g * steps * scale,))
    return f


@pytest.mark.parametrize("tier", ["direct", "compiled"])
def test_rules_close_over_arrays(tier, request):
    if tier == "compiled":
        request.getfixturevalue("compiled")

    def program(j):
        f = closing_rule(j)
        x = j.numpy.array([3.0, 4.0])
        loop = lambda x: j.lax.scan(lambda c, _: (f(c), c), x, None, length=2)[0].sum()
        return (
            j.jit(j.grad(lambda x: f(x).sum()))(x), j.grad(lambda x: j.jit(f)(x).sum())(x), j.grad(loop)(x),
            j.vmap(j.grad(lambda x: j.jit(f)(x).sum()))(j.numpy.stack([x, x])), j.jit(j.grad(loop))(x),
        )  # fmt: skip

    agree(program)


def test_rules_do_not_close_over_what_is_traced():
    def program(j):
        def outer(scale, x):
            f = j.custom_vjp(lambda x: x)
            f.defvjp(lambda x: (x, None), lambda _, g: (g * scale,))
            return j.grad(lambda x: j.jit(f)(x))(x)

        return j.grad(outer)(2.0, 3.0)

    agree(program)


@pytest.mark.parametrize("decorator", ["custom_jvp", "custom_vjp", "custom_vmap"])
@pytest.mark.parametrize("args, kwargs", [((0.5,), {}), ((0.5, 0.1), {"z": 1.0}), ((0.5, 0.1), {"q": 1.0})])
def test_arguments_that_have_no_position(decorator, args, kwargs):
    """The text of the error is JAX's."""

    def text(j):
        f = getattr(j, decorator, None) or importlib.import_module(f"{j.__name__}.custom_batching").custom_vmap
        g = f(lambda x, y, *, z=None: x)
        for define in ("defjvp", "defvjp", "def_vmap"):
            if define in vars(type(g)):
                getattr(g, define)(*[lambda *_: None] * (2 if define == "defvjp" else 1))
        with pytest.raises(TypeError) as error:
            g(*args, **kwargs)
        return str(error.value)

    assert text(jaxish) == text(jax)


def test_rules_optimized_for_remat():
    def program(j):
        f = j.custom_vjp(lambda x, y: j.numpy.sin(x) * y)
        f.defvjp(
            lambda x, y: (f(x, y), (j.numpy.cos(x), j.numpy.sin(x), y)),
            lambda r, g: (5.0 * r[0] * g * r[2], r[1] * g),
            optimize_remat=True,
        )
        return (
            j.grad(f)(3.2, 1.0), j.vmap(j.grad(f))(XS, XS), j.value_and_grad(j.checkpoint(f))(3.2, 1.0),
            j.jit(j.grad(j.checkpoint(f)))(3.2, 1.0),
        )  # fmt: skip

    agree(program)


def test_results_whose_tangents_are_zero():
    """One of two results has a tangent, the other is floating without one or an integer."""

    def program(j):
        f = j.custom_jvp(lambda x, y: (x * 2, y, j.numpy.int32(3)))
        zero = j.custom_derivatives.zero_from_primal

        @functools.partial(f.defjvp, symbolic_zeros=True)
        def rule(primals, tangents):
            x, y = primals
            return f(x, y), (3.0 * tangents[0], tangents[1], zero(j.numpy.int32(3), symbolic_zeros=True))

        g = lambda x: f(x, 1.0)[:2]
        return (
            j.jvp(g, (2.0,), (1.0,)), j.jvp(j.jit(g), (2.0,), (1.0,)), j.jvp(j.vmap(g), (XS,), (XS,)),
            j.jacfwd(j.jacrev(g))(2.0), j.jvp(lambda x: g(x)[1], (2.0,), (1.0,)),
        )  # fmt: skip

    agree(program, weak=False)


@pytest.mark.parametrize("wrap", [lambda j, f: f, lambda j, f: j.jit(f)], ids=["plain", "jit"])
def test_no_cotangent_reaches_what_is_differentiated(wrap):
    def program(j):
        f = j.custom_jvp(lambda x, y: (x, y))
        f.defjvp(lambda p, t: (f(*p), t), symbolic_zeros=True)
        second = lambda x, y: f(x, y)[1] * 2.0
        return (
            wrap(j, j.grad(second))(1.0, 2.0),
            wrap(j, j.grad(second, (0, 1)))(1.0, 2.0),
            wrap(j, j.grad(second, 1))(1.0, 2.0),
        )

    agree(program)


def test_roots_with_a_constant_beside_them():
    def program(j):
        def root(x):
            solve = lambda f, y: (y + 0.0, j.numpy.float32(7))
            transpose = lambda g, y: y / g(1.0)
            return j.lax.custom_root(lambda y: y - x * x, x * x, solve, transpose, has_aux=True)

        return root(3.0), j.jvp(lambda x: root(x)[0], (3.0,), (1.0,)), j.grad(lambda x: root(x)[0])(3.0)

    agree(program)


def branching_jvp(j):
    f = j.custom_jvp(lambda x: j.numpy.sin(x) if x > 0 else j.numpy.cos(x))
    f.defjvp(lambda p, t: (f(*p), (2.0 if p[0] > 0 else 3.0) * t[0] * p[0]))
    return f


def branching_vjp(j):
    f = j.custom_vjp(lambda x: j.numpy.sin(x) if x > 0 else j.numpy.cos(x))
    f.defvjp(lambda x: (f(x), x), lambda x, g: ((2.0 if x > 0 else 3.0) * x * g,))
    return f


@pytest.mark.parametrize("x", [2.0, -2.0])
@pytest.mark.parametrize("make", [branching_jvp, branching_vjp])
def test_rules_see_concrete_values(make, x):
    agree(lambda j: (j.value_and_grad(make(j))(x), j.grad(j.grad(make(j)))(x), j.vjp(make(j), x)[1](1.0)))
    agree(lambda j: j.grad(lambda x: make(j)(2.0) * x)(x))
    agree(lambda j: j.jvp(make(j), (x,), (1.0,)))


@pytest.mark.parametrize("transform", ["jit", "vmap"])
@pytest.mark.parametrize("make", [branching_jvp, branching_vjp])
def test_rules_see_no_values_in_traces(make, transform):
    agree(lambda j: getattr(j, transform)(j.grad(make(j)))(XS if transform == "vmap" else XS[0]))


def closing_jvp(j, x):
    f = j.custom_jvp(lambda y: x + y)
    f.defjvp(lambda p, t: (f(*p), x * t[0]))
    return f


def closing_vjp(j, x):
    f = j.custom_vjp(lambda y: 2.0 * j.numpy.sin(y))
    f.defvjp(lambda y: (f(y), x), lambda x, g: (2.0 * j.numpy.cos(x) * g,))
    return f


CLOSURES = {
    "of a level further out": lambda j, make: j.grad(lambda x: j.grad(make(j, x))(3.0))(2.0),
    "of jit": lambda j, make: j.jit(lambda x: j.grad(make(j, x))(3.0))(2.0),
    "of vmap": lambda j, make: j.vmap(lambda x: j.grad(make(j, x))(3.0))(XS),
    "of jit of vmap": lambda j, make: j.jit(j.vmap(lambda x: j.grad(make(j, x))(3.0)))(XS),
    "of vmap of jit": lambda j, make: j.vmap(j.jit(lambda x: j.grad(make(j, x))(3.0)))(XS),
    "of a loop": lambda j, make: j.lax.scan(lambda c, x: (c + j.grad(make(j, x))(3.0), c), 0.0, XS),
    "of the same level": lambda j, make: j.grad(lambda x: make(j, x)(x))(2.0),
    "of the same level in forward mode": lambda j, make: j.jvp(lambda x: make(j, x)(1.0), (2.0,), (1.0,)),
}


@pytest.mark.parametrize("name", CLOSURES)
@pytest.mark.parametrize("make", [closing_jvp, closing_vjp])
def test_rules_close_over_tracers(make, name):
    agree(lambda j: CLOSURES[name](j, make), weak=False)


@pytest.mark.parametrize("wrap", [lambda j, f: f, lambda j, f: j.jit(f)], ids=["plain", "jit"])
def test_custom_gradients_that_close_over_their_arguments(wrap):
    def program(j):
        f = j.custom_gradient(lambda x, y: (x**2 * y, lambda g: (g * x, j.numpy.cos(x) * y)))
        g = wrap(j, f)
        grad = j.grad(g, (0, 1))
        total = lambda x: g(x, 2.0) + g(2.0, x)
        return (
            g(3.0, 4.0), grad(3.0, 4.0), j.grad(j.grad(g))(3.0, 4.0), j.vmap(grad)(XS, XS), j.grad(total)(3.0),
            j.jit(grad)(3.0, 4.0), j.grad(lambda x: j.vmap(g, (0, None))(XS, x).sum())(2.0),
        )  # fmt: skip

    agree(program, weak=False)


@pytest.mark.parametrize("result", ["structure", "shape"])
@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_results_of_rules_that_differ_from_the_functions(kind, result):
    """The text of the error is JAX's."""

    def text(j):
        wrong = (lambda x: (x, x)) if result == "structure" else lambda x: j.numpy.zeros(3)
        f = getattr(j, kind)(lambda x: x)
        if kind == "custom_jvp":
            f.defjvp(lambda p, t: (wrong(p[0]), wrong(t[0]) if result == "structure" else t[0]))
        else:
            f.defvjp(lambda x: (wrong(x), None), lambda _, g: (g,))
        loop = lambda x: j.lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0]
        with pytest.raises(TypeError) as error:
            j.grad(loop)(1.0)
        return str(error.value)

    assert text(jaxish) == text(jax)


def test_inputs_of_converted_closures():
    def text(j, wrong):
        f, consts = j.closure_convert(j.vjp(lambda x, z: z * x, 2.0, 3.0)[1], 2.0)
        with pytest.raises(TypeError) as error:
            f(*wrong(consts))
        return str(error.value).split(".")[0]

    for wrong in (lambda consts: (2.0, consts), lambda consts: ((2.0, 2.0), *consts)):
        assert text(jaxish, wrong) == text(jax, wrong)


@pytest.mark.parametrize("wrap", [lambda j, f: f, lambda j, f: j.jit(f)], ids=["plain", "jit"])
def test_rules_know_what_is_differentiated(wrap):
    def program(j):
        seen = []
        f = j.custom_vjp(lambda x, y: x * y)

        def fwd(x, y):
            seen.append((x.perturbed, y.perturbed))
            return x.value * y.value, (x.value, y.value)

        f.defvjp(fwd, lambda r, g: (r[1] * g, r[0] * g), symbolic_zeros=True)
        g = wrap(j, f)
        values = j.grad(g)(2.0, 3.0), j.grad(lambda y: g(2.0, y))(3.0), j.grad(g, (0, 1))(2.0, 3.0)
        return values, [bool(x) for pair in seen for x in pair]

    agree(program)


def _scaled_by(j, factor):
    """Return a function with a reverse rule that closes over `factor`."""

    @j.custom_vjp
    def scaled(x):
        return x * factor

    scaled.defvjp(lambda x: (x * factor, factor), lambda factor, c: (c * factor,))
    return scaled


STOPPED = {
    "once": lambda j, g: (j.grad(g)(3.0), j.value_and_grad(g)(3.0)),
    "twice": lambda j, g: j.grad(j.grad(g))(3.0),
    "batched": lambda j, g: j.vmap(j.grad(g))(np.arange(3.0, dtype=np.float32)),
    "traced": lambda j, g: j.jit(j.grad(g))(3.0),
    "forward over reverse": lambda j, g: j.jvp(j.grad(g), (3.0,), (1.0,)),
}


@pytest.mark.parametrize("name", STOPPED)
def test_a_rule_closes_over_what_has_no_derivative(name):
    def scaled_by_itself(j):
        def g(x):
            factor = j.lax.stop_gradient(x) - 1.0
            return _scaled_by(j, factor)(x) ** 2 + x * factor

        return g

    agree(lambda j: STOPPED[name](j, scaled_by_itself(j)))


def test_a_rule_does_not_close_over_what_is_differentiated():
    agree(lambda j: j.grad(lambda x: _scaled_by(j, x * 2)(x))(3.0))


def test_a_rule_returns_what_has_no_derivative():
    def program(j):
        @j.custom_vjp
        def held(x):
            return factor

        held.defvjp(lambda x: (factor, factor), lambda factor, c: (c * factor,))

        def g(x):
            nonlocal factor
            factor = j.lax.stop_gradient(x)
            return held(x) * x

        factor = None
        return j.grad(g)(3.0), j.grad(j.grad(g))(3.0)

    agree(program)


def with_nondiff(j):
    f = j.custom_vjp(lambda x, y: x * y, nondiff_argnums=(0,))
    f.defvjp(lambda x, y: (x * y, y), lambda x, y, g: (x * g,))
    return f


NONDIFF = {
    "a number": lambda j: j.grad(with_nondiff(j), 1)(2.0, 3.0),
    "an array": lambda j: j.grad(with_nondiff(j), 1)(j.numpy.ones(()), 3.0),
    "in jit": lambda j: j.jit(lambda x, y: with_nondiff(j)(x, y))(2.0, 3.0),
    "in jit of grad": lambda j: j.jit(j.grad(with_nondiff(j), 1))(2.0, 3.0),
    "under vmap": lambda j: j.vmap(lambda x: with_nondiff(j)(x, 3.0))(XS),
    "differentiated": lambda j: j.grad(lambda x: with_nondiff(j)(x, 3.0))(2.0),
}


@pytest.mark.parametrize("name", NONDIFF)
def test_nondifferentiable_arguments_of_custom_vjp_are_not_traced(name):
    agree(NONDIFF[name], weak=False)


def converted(j, f, x):
    _, further = j.closure_convert(f, x)
    return len(further)


CLOSURES = {
    "constants": lambda j: converted(j, lambda x: x * XS, XS),
    "what is differentiated": lambda j: j.grad(lambda c: c * converted(j, lambda x: x * c * XS, XS))(2.0),
    "beside what is not": lambda j: j.grad(lambda c, s: c * converted(j, lambda x: x * c * s, XS))(2.0, 3.0),
    "in jit": lambda j: j.jit(lambda c, s: converted(j, lambda x: x * c * s, XS))(2.0, 3.0),
}


@pytest.mark.parametrize("name", CLOSURES)
def test_closures_are_converted_for_what_may_be_differentiated(name):
    agree(CLOSURES[name], weak=False)


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_concrete_arguments_at_compile_time(kind):
    def program(j):
        f = getattr(j, kind)(lambda x: x * 2 if x > 0 else x)
        if kind == "custom_jvp":
            f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
        else:
            f.defvjp(lambda x: (f(x), None), lambda _, g: (g,))

        def at_once(y):
            with j.ensure_compile_time_eval():
                return f(j.numpy.float32(3)) + y

        return j.jit(at_once)(1.0)

    agree(program, weak=False)


def test_rules_run_in_the_precision_of_the_call():
    def program(j):
        seen = []
        f = j.custom_jvp(lambda x: x * 2.0)

        def rule(primals, tangents):
            seen.append(str(j.numpy.asarray(1.5).dtype))
            return f(*primals), tangents[0] * 3.0

        f.defjvp(rule)

        def g(x):
            with j.enable_x64():
                return f(j.numpy.array(x, "float64"))

        found = [j.jvp(g, (5.0,), (1.0,))[1], j.grad(g)(5.0), j.grad(j.grad(g))(5.0)]
        return found, sorted(set(seen))

    agree(program, weak=False)


def with_nondiff_jvp(j):
    f = j.custom_jvp(lambda x, y: x * y, nondiff_argnums=(0,))
    f.defjvp(lambda x, primals, tangents: (f(x, *primals), 5.0 * x * tangents[0]))
    return f


MAPPED_NONDIFF = {
    "jvp of vmap": lambda j: j.jvp(lambda y: j.vmap(with_nondiff_jvp(j))(XS, y), (XS,), (XS,)),
    "grad of vmap": lambda j: j.grad(lambda y: j.vmap(with_nondiff_jvp(j))(XS, y).sum())(XS),
    "beside what is not mapped": lambda j: j.grad(lambda y: j.vmap(with_nondiff_jvp(j), (0, None))(XS, y).sum())(2.0),
    "vmap of grad": lambda j: j.vmap(j.grad(with_nondiff_jvp(j), 1))(XS, XS),
    "vmap of jvp": lambda j: j.vmap(lambda x, y: j.jvp(lambda y: with_nondiff_jvp(j)(x, y), (y,), (1.0,)))(XS, XS),
    "jit of grad of vmap": lambda j: j.jit(j.grad(lambda y: j.vmap(with_nondiff_jvp(j))(XS, y).sum()))(XS),
    "vmap alone": lambda j: j.vmap(with_nondiff_jvp(j))(XS, XS),
    "vmap of vmap": lambda j: j.grad(
        lambda y: j.vmap(lambda x: j.vmap(lambda z: with_nondiff_jvp(j)(x * z, y))(XS).sum())(XS).sum()
    )(2.0),
}


@pytest.mark.parametrize("name", MAPPED_NONDIFF)
def test_nondifferentiable_arguments_of_custom_jvp_that_are_mapped(name):
    agree(MAPPED_NONDIFF[name], weak=False)


SECOND = {
    "grad of grad": lambda j, f: j.grad(j.grad(f))(2.0),
    "third": lambda j, f: j.grad(j.grad(j.grad(f)))(2.0),
    "hessian": lambda j, f: j.hessian(f)(2.0),
    "jacrev of jacfwd": lambda j, f: j.jacrev(j.jacfwd(f))(2.0),
    "jit": lambda j, f: j.jit(j.grad(j.grad(f)))(2.0),
    "vmap": lambda j, f: j.vmap(j.grad(j.grad(f)))(XS),
    "grad of vmap of grad": lambda j, f: j.grad(lambda x: j.vmap(j.grad(f))(x * XS).sum())(2.0),
}


@pytest.mark.parametrize("transform", SECOND.values(), ids=SECOND.keys())
@pytest.mark.parametrize("on_host", [False, True])
def test_tangents_that_are_made_by_the_function(transform, on_host):
    def program(j):
        def sine(x):
            if not on_host:
                return j.numpy.sin(x)
            result = j.ShapeDtypeStruct(j.numpy.shape(x), "float32")
            return j.pure_callback(lambda x: np.sin(np.asarray(x)), result, x, vmap_method="expand_dims")

        f = j.custom_jvp(sine)
        f.defjvp(lambda primals, tangents: (f(*primals), 2 * f(*primals) * tangents[0]))  # not that of sine
        return transform(j, f)

    agree(program)


def counted(jax):
    """Return a function whose rule returns another result than it, and a list of which of the two was called."""
    jnp, calls = jax.numpy, []

    @jax.custom_jvp
    def f(x):
        calls.append("function")
        return jnp.sin(x)

    @f.defjvp
    def rule(primals, tangents):
        calls.append("rule")
        return 2.0 * jnp.sin(primals[0]), jnp.cos(primals[0]) * tangents[0]

    return f, calls


RULE_ALONE = {
    "value_and_grad": lambda j, f: j.value_and_grad(f)(2.0),
    "of a square": lambda j, f: j.value_and_grad(lambda x: f(x) ** 2)(2.0),
    "jvp": lambda j, f: j.jvp(f, (2.0,), (1.0,)),
    "vjp": lambda j, f: j.vjp(f, 2.0)[0],
    "vmap": lambda j, f: j.vmap(j.value_and_grad(f))(XS),
    "grad of grad": lambda j, f: j.value_and_grad(j.grad(lambda x: f(x) ** 2))(2.0),
    "jvp of grad": lambda j, f: j.jvp(j.grad(lambda x: f(x) ** 2), (2.0,), (1.0,)),
    "jacrev": lambda j, f: j.jacrev(lambda x: f(x) ** 2)(XS),
}
RESULTS_OF_RULE = {
    "grad of vmap": lambda j, f: j.value_and_grad(lambda x: j.vmap(lambda y: f(y) ** 2)(x).sum())(XS),
    "jit of grad": lambda j, f: j.jit(j.value_and_grad(f))(2.0),
    "grad of jit": lambda j, f: j.value_and_grad(j.jit(f))(2.0),
    "checkpoint": lambda j, f: j.value_and_grad(j.checkpoint(f))(2.0),
    "scan": lambda j, f: j.value_and_grad(lambda x: j.lax.scan(lambda c, _: (f(c), c), x, None, 3)[0])(2.0),
    "cond": lambda j, f: j.value_and_grad(lambda x: j.lax.cond(x > 0, f, lambda x: x, x))(2.0),
    "jit of cond": lambda j, f: j.jit(j.value_and_grad(lambda x: j.lax.cond(x > 0, f, lambda x: x, x)))(2.0),
    "vmap of cond": lambda j, f: j.vmap(j.value_and_grad(lambda x: j.lax.cond(x > 1, f, lambda x: x, x)))(XS),
    "not differentiated": lambda j, f: j.value_and_grad(lambda x: x * f(3.0))(2.0),
}


@pytest.mark.parametrize("name", RULE_ALONE)
def test_where_it_is_differentiated_the_rule_alone_is_called(name):
    found = {j: counted(j) for j in (jaxish, jax)}
    agree(lambda j: RULE_ALONE[name](j, found[j][0]), rtol=1e-5)
    assert found[jaxish][1] == found[jax][1]


@pytest.mark.parametrize("name", RESULTS_OF_RULE)
def test_where_it_is_differentiated_the_result_is_the_rule_s(name):
    agree(lambda j: RESULTS_OF_RULE[name](j, counted(j)[0]), rtol=1e-5)


def test_a_rule_that_uses_what_is_differentiated_beside_its_arguments_raises():
    def of(jax):
        def outer(y):
            h = jax.custom_jvp(lambda x: x * 1.0)
            h.defjvp(lambda primals, tangents: (primals[0] * y, tangents[0]))
            return h(y)

        return outer

    for j in (jaxish, jax):
        with pytest.raises(j.errors.UnexpectedTracerError):
            j.grad(of(j))(2.0)


@pytest.mark.parametrize("tier", ["direct", "compiled", "auto"])
def test_a_rule_may_call_jitted_functions_of_complex_cotangents(tier):
    z = (XS + 0.3j * XS[::-1]).astype(np.complex64)

    def gradients(j):
        parts = j.jit(lambda g, z: (j.numpy.sin(g) * z, g.imag * 2 + g.real))
        square = j.custom_vjp(lambda z: z * z)
        square.defvjp(lambda z: (z * z, z), lambda z, g: ((lambda a, b: a + b * 1j)(*parts(g, z)),))
        gradient = j.grad(lambda z: (square(z) * (1 + 2j)).sum().real)
        return [gradient(z) for _ in range(3)], j.jit(gradient)(z), j.vmap(j.grad(lambda z: square(z).real))(z)

    with config.jit_tier(tier):
        agree(gradients, rtol=1e-5)


# Where a result has no cotangent its rule is not run, whatever the rule makes of one; beside others it is given zeros.
NOT_ALL_USED = {
    "a result of jit": lambda j, f, g: lambda x: j.jit(lambda x: (f(x), 3 * x))(x)[1],
    "a result of cond": lambda j, f, g: lambda x: j.lax.cond(x > 0, lambda x: (f(x), x * x), lambda x: (x, x), x)[1],
    "a result of checkpoint": lambda j, f, g: lambda x: j.checkpoint(lambda x: (f(x), x * x))(x)[1],
    "outputs of scan": lambda j, f, g: (
        lambda x: j.lax.scan(lambda c, y: (c + f(y) * y, f(c)), 0.0, x * np.ones(3, "float32"))[0]
    ),
    "a batch": lambda j, f, g: lambda x: j.jit(lambda x: (j.vmap(f)(x * np.ones(3, "float32")), x))(x)[1],
    "used": lambda j, f, g: lambda x: j.jit(lambda x: f(x) + 3 * x)(x),
    "one of two": lambda j, f, g: lambda x: j.jit(lambda x: (*g(x, x), x))(x)[0],
    "the other of two": lambda j, f, g: lambda x: j.jit(lambda x: (*g(x, x), x))(x)[1],
    "neither of two": lambda j, f, g: lambda x: j.jit(lambda x: (*g(x, x), x))(x)[2],
}


@pytest.mark.parametrize("how", ["grad", "jit of grad", "vmap of grad", "grad of vmap", "hessian"])
@pytest.mark.parametrize("name", NOT_ALL_USED)
def test_rules_that_read_no_cotangent_are_left_out_with_it(name, how):
    def program(j):
        f, g = j.custom_vjp(lambda x: x * x), j.custom_vjp(lambda x, y: (x * x, y * x))
        f.defvjp(lambda x: (x * x, 2 * x), lambda kept, ct: (kept,))
        g.defvjp(lambda x, y: ((x * x, y * x), x), lambda kept, cts: (kept, cts[1] * kept))
        loss = NOT_ALL_USED[name](j, f, g)
        if how == "vmap of grad":
            return j.vmap(j.grad(loss))(XS)
        if how == "grad of vmap":
            return j.grad(lambda x: j.vmap(loss)(x).sum())(XS)
        return {"grad": j.grad(loss), "jit of grad": j.jit(j.grad(loss)), "hessian": j.hessian(loss)}[how](XS[1])

    agree(program, rtol=1e-5)


# Pairs of results, of which the second has no derivative.
WITHOUT_A_DERIVATIVE = {
    "jit": lambda j, stop, x: j.jit(lambda x: (x * 2, stop(x) * 3))(x),
    "integers": lambda j, stop, x: j.jit(lambda x: (x * 2, x.astype(int).astype(x.dtype)))(x),
    "captured": lambda j, stop, x: (x, j.jit(lambda: j.jvp(lambda y: y**2, (stop(x),), (stop(x),))[1])()),
    "cond": lambda j, stop, x: j.jit(
        lambda p, x: j.lax.cond(p, lambda x: (x * 2, stop(x) * 3), lambda x: (x * 4, stop(x) ** 2), x)
    )(True, x),
    "carry": lambda j, stop, x: (
        j.lax.scan(lambda c, _: ((c[0] * 2, stop(c[0]) + c[1]), None), (x, stop(x)), None, 3)[0]
    ),
    "outputs": lambda j, stop, x: j.lax.scan(lambda c, y: (c * y, stop(c)), x, np.ones(3, "float32")),
    "checkpoint": lambda j, stop, x: j.checkpoint(lambda x: (x * 2, stop(x) * 3))(x),
    "while_loop": lambda j, stop, x: j.jit(
        lambda x: j.lax.while_loop(lambda c: c[0] < 20, lambda c: (c[0] * 2, stop(c[0]) + c[1]), (x, stop(x)))
    )(x),
}  # fmt: skip


@pytest.mark.parametrize("how", ["grad", "jit of grad", "vmap of grad", "grad of jit", "linearize", "jvp"])
@pytest.mark.parametrize("name", WITHOUT_A_DERIVATIVE)
def test_what_has_no_derivative_has_no_tangent(name, how):
    def program(j):
        refuses = j.custom_jvp(lambda x: x)

        @refuses.defjvp
        def rule(primals, tangents):
            raise RuntimeError("It is differentiated.")

        def f(x):
            first, second = WITHOUT_A_DERIVATIVE[name](j, j.lax.stop_gradient, x)
            return first * refuses(second).sum()

        x = XS[1]
        return {
            "grad": lambda: j.grad(f)(x),
            "jit of grad": lambda: j.jit(j.grad(f))(x),
            "vmap of grad": lambda: j.vmap(j.grad(f))(XS),
            "grad of jit": lambda: j.grad(j.jit(f))(x),
            "linearize": lambda: j.linearize(f, x)[1](x),
            "jvp": lambda: j.jvp(f, (x,), (x,)),
        }[how]()

    agree(program, rtol=1e-5)


def test_all_results_of_a_rule_have_tangents():
    def program(j):
        f, refuses = j.custom_vjp(lambda x: (x * 2, x * 0 + 1)), j.custom_jvp(lambda x: x)
        f.defvjp(lambda x: ((x * 2, j.lax.stop_gradient(x) * 0 + 1), x), lambda x, cts: (cts[0] * 2 + cts[1] * x,))
        refuses.defjvp(lambda primals, tangents: (primals[0], 5 * tangents[0]))
        loss = lambda x: f(x)[0] * refuses(f(x)[1])
        looped = lambda x: j.lax.scan(lambda c, _: (loss(c), c), x, None, length=2)[0]
        return [g(XS[1]) for h in (loss, j.jit(loss), looped) for g in (j.grad(h), j.jit(j.grad(h)))]

    agree(program, rtol=1e-5)


@pytest.mark.parametrize("y", [3, True, np.arange(2)])
def test_rules_in_a_scan_that_carries_integers(y):
    def program(j):
        f = j.custom_vjp(lambda x: x)
        f.defvjp(lambda x: (x, None), lambda _, g: ((g[0] * 2, None),))
        looped = lambda x, y: j.lax.scan(lambda c, _: (f(c), None), (x, y), None, length=2)[0][0]
        return j.grad(looped)(3.0, y), j.jit(j.grad(looped))(3.0, y)

    agree(program)


LANES_WITHIN = {
    "branch": lambda j, f: lambda x: j.lax.cond(x > 0, f, lambda x: x, x),
    "branch that all lanes take": lambda j, f: lambda x: j.lax.cond(j.lax.psum(x, "i") > 0, f, lambda x: x, x),
    "scan": lambda j, f: lambda x: j.lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0],
    "branch in a scan": lambda j, f: (
        lambda x: j.lax.scan(lambda c, _: (j.lax.cond(c > 0, f, lambda c: c, c), None), x, None, length=2)[0]
    ),
    "checkpoint": lambda j, f: j.checkpoint(f),
}


@pytest.mark.parametrize("within", LANES_WITHIN)
def test_rules_that_ask_which_lane_they_are_in(within):
    def program(j):
        def scaled(x):  # each time a function of its own, whose rule nobody has traced
            f = j.custom_vjp(lambda x: x * j.lax.axis_index("i"))
            f.defvjp(lambda x: (f(x), x), lambda x, g: (g * x * (j.lax.axis_index("i") + 1) + j.lax.psum(g, "i"),))
            return f(x)

        g = LANES_WITHIN[within](j, scaled)
        mapped = lambda xs: (j.vmap(g, axis_name="i")(xs) * xs).sum()
        one = j.vmap(j.grad(g), axis_name="i")
        return [h(XS) for h in (j.grad(mapped), j.jit(j.grad(mapped)), one, j.jit(one))]

    agree(program, rtol=1e-5)


@pytest.mark.parametrize("within", ["scan", "loop", "checkpoint", "branch", "one of branches", "jit", "nothing"])
@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("rule", ["custom_vjp", "custom_jvp"])
def test_lanes_differ_by_the_rule_alone(within, once, rule):
    more = {
        "loop": lambda j, f: lambda x: j.lax.fori_loop(0, 2, lambda _, c: f(c), x),
        "one of branches": lambda j, f: lambda x: j.lax.switch(j.numpy.int32(x), [lambda x: x, f], x),
        "jit": lambda j, f: j.jit(f),
        "nothing": lambda j, f: f,
    }

    def program(j):
        def doubled():
            f = getattr(j, rule)(lambda x: 2 * x)
            if rule == "custom_vjp":
                f.defvjp(lambda x: (2 * x, j.lax.axis_index("i")), lambda lane, g: (g * lane,))
            else:
                f.defjvp(lambda p, t: (2 * p[0], t[0] * j.lax.axis_index("i")))
            return f

        # What wraps the function keeps its trace, and so the rule's.
        g = {**LANES_WITHIN, **more}[within](j, doubled() if once else lambda x: doubled()(x))
        of_one = j.vmap(lambda x: j.grad(g)(1.0) + x, axis_name="i")
        pulled = j.vmap(lambda x: j.vjp(g, x)[1](np.float32(1))[0], axis_name="i")
        jitted = j.vmap(j.jit(j.grad(g)), axis_name="i")
        return [h(XS) for f in (of_one, pulled, jitted) for h in (f, j.jit(f), f)]

    agree(program)


def nothing_back(j):
    """Return a function whose rule says that the cotangent is zero."""
    f = j.custom_vjp(lambda x: x * 1)
    f.defvjp(lambda x: (f(x), None), lambda _, g: (None,))
    return f


# What gives a rule no cotangent but zero, from a rule or by itself.
ZERO_FROM = {
    "rule": lambda j, zero: zero,
    "rule within operators": lambda j, zero: lambda x: j.numpy.sin(zero(j.numpy.sin(x))),
    "jitted rule": lambda j, zero: j.jit(zero),
    "rule in a branch": lambda j, zero: lambda x: j.lax.cond(True, zero, lambda x: x * 1, x),
    "rule in a scan": lambda j, zero: lambda x: j.lax.scan(lambda c, _: (zero(c), None), x, None, length=2)[0],
    "rule in a checkpoint": lambda j, zero: j.checkpoint(zero),
    "product": lambda j, zero: lambda x: x * 0,
    "constant": lambda j, zero: j.lax.stop_gradient,
}


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("zero", ZERO_FROM)
def test_rules_are_asked_where_cotangents_are_zero(zero, which):
    def program(j):
        noted = j.custom_vjp(lambda x, h: (x * 2, h + 1))
        noted.defvjp(lambda x, h: (noted(x, h), h + 5), lambda h, g: (None, h))
        after = ZERO_FROM[zero](j, nothing_back(j))
        f = lambda h: after(noted(h * 1, h)[which]) + h
        pulled = lambda x: j.vjp(f, x)[1](np.float32(1))[0]
        mapped = j.vmap(j.grad(f))
        h = np.float32(1)
        return [*(g(h) for g in (j.grad(f), j.jit(j.grad(f)), j.grad(j.jit(f)), pulled)), mapped(XS), j.jit(mapped)(XS)]

    agree(program)


def closing_over(jax, weight):
    """Return a function whose rule, which is wrong for the weight, closes over it."""
    f = jax.custom_vjp(lambda x: x * weight)
    f.defvjp(lambda x: (x * weight, None), lambda _, ct: (ct * weight,))
    return f


WITHIN = {
    "itself": lambda jax, f, x: f(x),
    "jit": lambda jax, f, x: jax.jit(f)(x),
    "vmap": lambda jax, f, x: jax.vmap(f)(jax.numpy.stack([x, x])).sum(),
    "a branch": lambda jax, f, x: jax.lax.cond(x > 0, f, lambda x: x, x),
    "a fixed branch": lambda jax, f, x: jax.lax.switch(0, [f, lambda x: x], x),
    "scan": lambda jax, f, x: jax.lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0],
    "checkpoint": lambda jax, f, x: jax.checkpoint(f)(x),
}


@pytest.mark.parametrize("within", WITHIN)
def test_what_a_rule_closes_over_is_not_differentiated(within):
    function = lambda jax: lambda w, x: WITHIN[within](jax, closing_over(jax, w), x)
    agree(lambda jax: jax.grad(function(jax), 1)(2.0, 3.0))
    for library, refused in ((jax, Exception), (jaxish, jaxish.errors.UnexpectedTracerError)):
        for place in (0, (0, 1)):
            gradient = library.grad(function(library), place)
            for run in (gradient, library.jit(gradient)):
                with pytest.raises(refused):
                    run(2.0, 3.0)
