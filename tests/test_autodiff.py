"""Derivatives against JAX: grad, vjp, jvp, linearize, jacobians, complex numbers, bad input."""

import functools

import numpy as np
import pytest
from oracle import agree

X = np.array([0.5, -1.0, 2.0], np.float32)
A = np.random.RandomState(0).randn(3, 3).astype(np.float32)
FLOAT0 = np.zeros((), np.dtype([("float0", np.void, 0)]))


def f(jax):
    return lambda x: jax.numpy.tanh(x) * jax.numpy.sum(x)


def scalar(jax):
    return lambda x, y: jax.numpy.sum(jax.numpy.sin(x) * y["a"]) + y["b"][0] ** 2


ARGS = (X, {"a": A[0], "b": (np.float32(3), np.float32(1))})
VALUES = {
    "grad": lambda j: j.grad(scalar(j))(*ARGS),
    "grad of a pytree": lambda j: j.grad(scalar(j), 1)(*ARGS),
    "grad of several": lambda j: j.grad(scalar(j), (0, 1))(*ARGS),
    "grad of a negative argnum": lambda j: j.grad(scalar(j), -1)(*ARGS),
    "value and grad": lambda j: j.value_and_grad(scalar(j))(*ARGS),
    "aux": lambda j: j.value_and_grad(lambda x: (x.sum(), {"y": x * 2}), has_aux=True)(X),
    "grad with aux": lambda j: j.grad(lambda x: (x * x, x), has_aux=True)(1.0),
    "keyword argument": lambda j: j.grad(lambda x, *, k: (x * k).sum())(X, k=A[0]),
    "independent output": lambda j: j.grad(lambda x: 3.0)(1.0),
    "partly independent": lambda j: j.grad(lambda x, y: x.sum(), (0, 1))(X, X),
    "integers allowed": lambda j: j.grad(lambda x: x * 1.0, allow_int=True)(3),
    "argument used twice": lambda j: j.grad(lambda x: (x * x[::-1]).sum())(X),
    "complex to real": lambda j: j.grad(lambda z: j.numpy.real(z) ** 2 - 3 * j.numpy.imag(z))(np.complex64(1 + 2j)),
    "holomorphic": lambda j: j.grad(lambda z: z**3, holomorphic=True)(np.complex64(1 + 2j)),
    "absolute value of complex": lambda j: j.grad(lambda z: j.numpy.abs(z))(np.complex64(3 + 4j)),
    "vjp": lambda j: (lambda out, pull: (out, pull((np.float32(1), {"a": np.float32(2)}))))(
        *j.vjp(lambda x, y: (x * y, {"a": x}), np.float32(2), np.float32(3))
    ),
    "vjp with aux": lambda j: (lambda out, pull, aux: (out, pull(X), aux))(
        *j.vjp(lambda x: (x * 2, x), X, has_aux=True)
    ),
    "vjp of an integer primal": lambda j: j.vjp(lambda x, y: x * y, np.float32(2), 3)[1](np.float32(1)),
    "vjp of an integer result": lambda j: j.vjp(lambda x, y: y, np.float32(2), 3)[1](FLOAT0),
    "vjp of complex": lambda j: j.vjp(lambda z: z * z, np.complex64(1 + 2j))[1](np.complex64(1 - 1j)),
    "jvp": lambda j: j.jvp(f(j), (X,), (X + 1,)),
    "jvp of lists": lambda j: j.jvp(lambda x, y: x * y, [2.0, 3.0], [1.0, 1.0])[0],
    "jvp with aux": lambda j: j.jvp(lambda x: (x * 2, x), (X,), (X,), has_aux=True),
    "jvp of integers": lambda j: j.jvp(lambda x: (x, x * 2.0), (1,), (FLOAT0,)),
    "jvp of complex": lambda j: j.jvp(lambda z: z * z, (np.complex64(1 + 2j),), (np.complex64(1j),)),
    "linearize": lambda j: j.linearize(f(j), X)[1](X + 1),
    "linearize holomorphic": lambda j: j.linearize(lambda z: z**3, np.complex64(1 + 2j))[1](np.complex64(1j)),
    "linear transpose": lambda j: j.linear_transpose(lambda x: A @ x, X)(X),
    "jacfwd": lambda j: j.jacfwd(f(j))(X),
    "jacrev": lambda j: j.jacrev(f(j))(X),
    "jacobian of pytrees": lambda j: j.jacrev(lambda p: {"u": p["a"] * p["b"], "v": p["a"].sum()})({"a": X, "b": X}),
    "jacfwd of pytrees": lambda j: j.jacfwd(lambda p: {"u": p["a"] * p["b"], "v": p["a"].sum()})({"a": X, "b": X}),
    "jacobians of several": lambda j: j.jacfwd(lambda x, y: x * y, (0, 1))(X, X),
    "jacrev of several": lambda j: j.jacrev(lambda x, y: x * y, (0, 1))(X, X),
    "jacobian with aux": lambda j: j.jacrev(lambda x: (x**2, x), has_aux=True)(X),
    "hessian": lambda j: j.hessian(lambda x: (f(j)(x) ** 2).sum())(X),
    "hessian of several": lambda j: j.hessian(lambda x, y: (x * y * y).sum(), (0, 1))(X, X),
    "jit of hessian": lambda j: j.jit(j.hessian(lambda x: (f(j)(x) ** 2).sum()))(X),
    "hessian of jit": lambda j: j.hessian(j.jit(lambda x: (f(j)(x) ** 2).sum()))(X),
    "third derivative of jit": lambda j: j.grad(j.grad(j.grad(j.jit(j.numpy.tanh))))(np.float32(1)),
    "grad of vmap of jit": lambda j: j.grad(lambda x: j.vmap(j.jit(lambda r: (r * r).sum()))(x).sum())(A),
    "forward over reverse over vmap": lambda j: j.jacfwd(lambda x: j.vmap(j.grad(lambda r: (r**3).sum()))(x))(A),
    "checkpoint": lambda j: j.grad(j.checkpoint(lambda x: j.numpy.sin(j.numpy.sin(x)).sum()))(X),
    "jit of checkpoint": lambda j: j.jit(j.grad(j.checkpoint(lambda x: j.numpy.sin(j.numpy.sin(x)).sum())))(X),
    "hessian of checkpoint": lambda j: j.hessian(j.checkpoint(lambda x: j.numpy.sin(j.numpy.sin(x)).sum()))(X),
    "checkpoint policy": lambda j: j.grad(
        j.checkpoint(lambda x: j.numpy.sin(A @ j.numpy.sin(x)).sum(), policy=j.checkpoint_policies.dots_saveable)
    )(X),
    "closure_convert": lambda j: closure_converted(j),
    "stop_gradient": lambda j: j.grad(lambda x: x * j.lax.stop_gradient(x))(np.float32(3)),
}


def square(x):
    return x * x


WEAK_JACOBIANS = {
    "jacfwd": lambda j: j.jacfwd(square)(2.0),
    "jit of jacfwd": lambda j: j.jit(j.jacfwd(square))(2.0),
    "jacfwd twice": lambda j: j.jacfwd(j.jacfwd(square))(2.0),
    "holomorphic": lambda j: j.jacfwd(square, holomorphic=True)(1j),
    "hessian": lambda j: j.hessian(lambda x, y: x * x * y, (0, 1))(2.0, 3.0),
    "some outputs": lambda j: j.jacfwd(lambda p: {"weak": p["a"] * 2, "not": X * p["a"]})({"a": 2.0}),
    "some inputs": lambda j: j.jacfwd(lambda x, y: x * y, (0, 1))(2.0, X),
    "gradient of a complex number": lambda j: [j.grad(f)(3 + 4j) for f in (j.numpy.abs, lambda z: (z * z).real)],
    "holomorphic gradient": lambda j: j.grad(square, holomorphic=True)(3 + 4j),
}


@pytest.mark.parametrize("name", WEAK_JACOBIANS)
def test_jacobians_are_weakly_typed_where_outputs_are(name):
    agree(WEAK_JACOBIANS[name])


def closure_converted(jax):
    def outer(x):
        converted, consts = jax.closure_convert(lambda y: y * x, 1.0)
        return converted(2.0, *consts) * len(consts)

    return jax.grad(outer)(np.float32(3))


ERRORS = {
    "not scalar": lambda j: j.grad(lambda x: x)(X),
    "integer input": lambda j: j.grad(lambda x: x * 1.0)(3),
    "string input": lambda j: j.grad(lambda x: 1.0)("a"),
    "integer output": lambda j: j.grad(lambda x: 3)(1.0),
    "string output": lambda j: j.grad(lambda x: "a")(1.0),
    "no output": lambda j: j.grad(lambda x: None)(1.0),
    "tuple output": lambda j: j.grad(lambda x: (x, x))(1.0),
    "complex output": lambda j: j.grad(lambda x: x * 1j)(1.0),
    "holomorphic real": lambda j: j.grad(lambda x: x * x, holomorphic=True)(1.0),
    "argnums out of range": lambda j: j.grad(lambda x: x, argnums=2)(1.0),
    "argnums type": lambda j: j.grad(lambda x: x, argnums="a"),
    "no pair for aux": lambda j: j.grad(lambda x: x * x, has_aux=True)(1.0),
    "cotangent tree": lambda j: j.vjp(lambda x: (x, x), 2.0)[1](1.0),
    "cotangent dtype": lambda j: j.vjp(lambda x: x, 2.0)[1](1),
    "cotangent shape": lambda j: j.vjp(lambda x: x, 2.0)[1](X),
    "tangent dtype": lambda j: j.jvp(lambda x: x, (1.0,), (1,)),
    "tangent shape": lambda j: j.jvp(lambda x: x, (1.0,), (X,)),
    "tangent tree": lambda j: j.jvp(lambda x: x, (1.0,), (1.0, 2.0)),
    "tangents no tuple": lambda j: j.jvp(lambda x: x, 1.0, 1.0),
    "jacfwd of integers": lambda j: j.jacfwd(lambda x: x)(3),
    "jacrev of integers": lambda j: j.jacrev(lambda x: x)(3),
    "jacrev to integers": lambda j: j.jacrev(lambda x: 3)(3.0),
    "linearized dtype": lambda j: j.linearize(lambda x: x * x, 3.0)[1](1),
    "linearized count": lambda j: j.linearize(lambda x: x * x, 3.0)[1](1.0, 2.0),
    "transposed shape": lambda j: j.linear_transpose(lambda x: x * 2.0, 3.0)(X),
    "not callable": lambda j: j.grad(3),
}


@pytest.mark.parametrize("program", VALUES.values(), ids=VALUES.keys())
def test_values_like_jax(program):
    # JAX's derivatives are weakly typed by the operations that made them, ours by their primals.
    agree(program, weak=False)


@pytest.mark.parametrize("program", ERRORS.values(), ids=ERRORS.keys())
def test_errors_like_jax(program):
    agree(program)


@pytest.mark.parametrize(
    ("policy", "saved"), [("nothing_saveable", 0), ("dots_saveable", 1), ("dots_with_no_batch_dims_saveable", 1)]
)
def test_a_checkpoint_keeps_what_its_policy_says(policy, saved):
    import jaxish
    from jaxish._core import residuals
    from jaxish._transforms import remat

    traced = jaxish.jit(lambda x: jaxish.numpy.sin(A @ jaxish.numpy.sin(x)).sum()).trace(X)
    body = traced._program.closed.graph
    save = remat._saver(getattr(jaxish.checkpoint_policies, policy))
    forward, _ = residuals.split(body, [True] * len(body.in_types), save)
    assert len(forward.out_types) - len(body.out_types) == saved


def test_a_checkpoint_has_no_option_concrete():
    agree(lambda j: j.checkpoint(j.numpy.sin, concrete=True)(1.0))


def test_a_checkpoint_keeps_named_values():
    import jaxish
    from jaxish._core import residuals
    from jaxish._transforms import remat
    from jaxish.ad_checkpoint import checkpoint_name

    traced = jaxish.jit(lambda x: jaxish.numpy.sin(checkpoint_name(jaxish.numpy.sin(x), "kept")).sum()).trace(X)
    body = traced._program.closed.graph
    for names, saved in [(["kept"], 1), (["other"], 0)]:
        save = remat._saver(jaxish.checkpoint_policies.save_only_these_names(*names))
        forward, _ = residuals.split(body, [True], save)
        assert len(forward.out_types) - len(body.out_types) == saved


def _with_custom_rule(jax):
    @jax.custom_jvp
    def f(x):
        return jax.numpy.sin(x)

    f.defjvp(lambda primals, tangents: (f(primals[0]), jax.numpy.cos(primals[0]) * tangents[0]))
    return f


@pytest.mark.parametrize(
    "part", ["x[:2]", "x[1:]", "x[::-1]", "j.numpy.broadcast_to(x[1], (4,))", "x[None, :2].T", "x"]
)
def test_second_derivatives_by_forward_mode_at_parts_of_arrays(part):
    def program(j, x):
        def second(x):
            y = eval(part, {"j": j, "x": x})
            first = lambda y: j.jvp(j.numpy.sin, (y,), (j.numpy.ones_like(y),))[1]
            return j.jvp(first, (y,), (j.numpy.ones_like(y),))[1]

        def nested(x):
            part_of = lambda x: eval(part, {"j": j, "x": x})
            inner = lambda x: j.jvp(j.numpy.sin, (part_of(x),), (part_of(j.numpy.ones_like(x)),))[1]
            return j.jvp(inner, (x,), (x,))

        traced = j.core.eval_jaxpr(*(lambda c: (c.jaxpr, c.consts))(j.make_jaxpr(second)(x)), x)
        return (
            second(x),
            nested(x),
            traced,
            j.jit(j.grad(lambda x: second(x).sum()))(x),
            j.vmap(second)(j.numpy.stack([x, x])),
        )

    agree(program, X, rtol=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        lambda j: j.numpy.cbrt,
        lambda j: lambda x: x**1.5,
        lambda j: j.lax.erf_inv,
        lambda j: j.jit(lambda x: j.numpy.sin(x) * x),
        lambda j: lambda x: j.lax.fori_loop(0, 3, lambda i, c: j.numpy.sin(c) * x, x),
        lambda j: lambda x: j.lax.cond(x > 0, j.numpy.sin, j.numpy.cos, x),
        _with_custom_rule,
    ],
)
def test_forward_mode_over_forward_mode(make):
    def twice(j, f):
        return lambda x: j.jvp(lambda y: j.jvp(f, (y,), (1.0,))[1], (x,), (1.0,))[1]

    agree(
        lambda j: [twice(j, make(j))(0.7), j.jit(twice(j, make(j)))(0.7), j.jvp(twice(j, make(j)), (0.7,), (1.0,))],
        weak=False,
    )
    agree(lambda j: j.vmap(twice(j, make(j)))(np.array([0.3, 0.7], np.float32)), weak=False)


def test_second_derivative_beside_an_operand_that_has_none():
    # The derivative of igamma in a has no derivative itself, which matters only where a is differentiated.
    agree(lambda j: j.hessian(lambda x: j.lax.igamma(np.float32(2.5), x))(np.float32(2.0)))
    agree(lambda j: j.jit(j.hessian(lambda x: j.lax.igamma(np.float32(2.5), x)))(np.float32(2.0)))
    agree(lambda j: j.hessian(lambda a: j.lax.igamma(a, np.float32(1.5)))(2.5))


def test_clamp_drops_cotangents_that_are_not_finite():
    def program(j):
        _, pull = j.vjp(
            lambda low, x, high: j.lax.clamp(low, x, high), *np.array([[0] * 3, [-1, 0.5, 2], [1] * 3], "float32")
        )
        return pull(np.full(3, np.inf, "float32")), pull(np.full(3, np.nan, "float32"))

    agree(program)


def test_clamp_between_bounds_in_any_order():
    values = np.array([-1, 0, 1, np.nan, np.inf], np.float32)
    cases = [c.ravel() for c in np.meshgrid(values, values, values)]

    def program(j):
        every = lambda f: j.vmap(f((0, 1, 2)))(*cases)
        return [every(lambda n, way=way: way(j.lax.clamp, n)) for way in (j.grad, j.jacfwd)]

    agree(program)


def test_auxiliary_results_are_anything():
    class Thing:
        __repr__ = lambda self: "thing"

    def program(j, name, arg):
        f = lambda x: (x * 2, ("text", Thing(), 3, None, {"a": x * 3, "b": int}))
        return repr(getattr(j, name)(f, has_aux=True)(j.numpy.asarray(arg))[-1])

    for name in ("grad", "value_and_grad", "jacrev"):
        if name != "value_and_grad":
            agree(lambda j, name=name: program(j, name, np.float32(2)))
    agree(lambda j: repr(j.vjp(lambda x: (x, ["text", 3, x * 2]), np.ones(2, np.float32), has_aux=True)[2]))
    agree(
        lambda j: j.jit(j.vmap(lambda x: j.grad(lambda y: (y * y, "text"), has_aux=True)(x)[0]))(np.ones(2, np.float32))
    )


def test_python_numbers_among_residuals_stay():
    def program(j, transform):
        f = j.custom_vjp(lambda x: x * 2)
        f.defvjp(lambda x: (x * 2, (x, True, 3)), lambda res, g: ((g * res[2] if res[1] else g) * res[0],))
        return transform(j, f)

    x = np.float32(5)
    for transform in (
        lambda j, f: j.grad(f)(x),
        lambda j, f: j.jit(j.grad(f))(x),
        lambda j, f: j.grad(j.jit(f))(x),
        lambda j, f: j.vmap(j.grad(f))(np.ones(2, np.float32)),
        lambda j, f: j.grad(lambda y: j.lax.scan(lambda c, _: (f(c), None), y, None, length=2)[0])(x),
    ):
        agree(lambda j, transform=transform: program(j, transform))


def test_checkpoint_takes_static_arguments_that_have_no_hash():
    f = lambda x, d: x * d["by"]
    agree(lambda j: j.grad(j.checkpoint(f, static_argnums=1))(np.float32(2), {"by": 3}))
    agree(lambda j: j.jit(j.grad(lambda x: j.checkpoint(f, static_argnums=(1,))(x, {"by": 3})))(np.float32(2)))


def test_functions_with_names_that_are_no_text():
    class Callable:
        def __getattr__(self, name):
            return (
                3
                if name in ("__name__", "__qualname__", "__annotations__", "__doc__")
                else super().__getattribute__(name)
            )

        def __call__(self, x):
            return x * 2

    agree(lambda j: j.grad(Callable())(np.float32(3)))
    agree(lambda j: j.vmap(Callable())(np.ones(2, np.float32)))


LOGGED = {
    "nothing": lambda j: None,
    "everything": lambda j: lambda *_, **__: True,
    "cosines": lambda j: lambda prim, *_, **__: str(prim) == "cos",
}


@pytest.mark.parametrize("flag", [False, True])
@pytest.mark.parametrize("policy", LOGGED)
def test_what_checkpoint_keeps_is_logged(policy, flag, caplog):
    def program(j):
        caplog.clear()
        caplog.set_level("WARNING" if flag else "DEBUG", "jax._src.ad_checkpoint")
        before = j.config.jax_log_checkpoint_residuals
        j.config.update("jax_log_checkpoint_residuals", flag)
        try:
            f = j.checkpoint(lambda x: j.numpy.cos(j.numpy.sin(x).sum()), policy=LOGGED[policy](j))
            j.grad(f)(np.arange(3.0, dtype=np.float32))
        finally:
            j.config.update("jax_log_checkpoint_residuals", before)
        found = [(r.levelname, r.message) for r in caplog.records if r.name == "jax._src.ad_checkpoint"]
        # JAX adds places in the source.
        words = (
            "saving inputs with shapes:\n  float32[3]",
            "saving these intermediates:",
            "output of cos",
            "and saving",
        )
        return [(level, [word in text for word in words]) for level, text in found]

    agree(program)


def test_remat_takes_no_static_argnames():
    agree(lambda j: j.remat(lambda x, n: x * n, static_argnames="n")(2.0, n=3))
    agree(lambda j: j.grad(j.remat(lambda x, n: j.numpy.sin(x) * n, static_argnums=(1,)))(2.0, 3))


# --------------------------------------------------------------------------------------------------- Python's own numbers


def power(lib, p, flag):
    assert type(p["n"]) is not lib.Array
    y = p["x"]
    for _ in range(p["n"]):
        y = lib.numpy.sin(y) * p["x"]
    return (y, p["n"]) if flag else (y * 2, p["n"])


def with_number(lib, transform):
    return transform(functools.partial(power, lib), {"x": lib.numpy.float32(0.5), "n": 3}, True)


def push_number(lib, f, p, flag):
    zero = np.zeros((), lib.dtypes.float0)
    return lib.jvp(f, (p, flag), ({"x": np.float32(2.0), "n": zero}, zero))


def pull_number(lib, f, p, flag):
    value, pull = lib.vjp(f, p, flag)
    cotangent = np.float32(2.0), np.zeros((), lib.dtypes.float0)
    return value, pull(cotangent), lib.jit(lambda pull: pull(cotangent))(pull)


def linear_number(lib, f, p, flag):
    value, push = lib.linearize(f, p, flag)
    zero = np.zeros((), lib.dtypes.float0)
    return value, push({"x": np.float32(2.0), "n": zero}, zero)


def aux_of_number(lib, f, p, flag):
    return lib.vjp(lambda p, flag: (f(p, flag)[0], p["n"] + 1), p, flag, has_aux=True)[::2]


@pytest.mark.parametrize("transform", [push_number, pull_number, linear_number, aux_of_number])
def test_functions_get_pythons_numbers_as_they_are(transform):
    agree(lambda lib: with_number(lib, functools.partial(transform, lib)))


@pytest.mark.parametrize("policy", ["nothing_saveable", "dots_saveable"])
def test_a_scan_stacks_what_its_checkpointed_body_saves(policy):
    """As many arrays as JAX: what a policy lets be computed again is not stacked for the way back."""

    def layer(j, c, w):
        h = j.numpy.cos(j.numpy.sin(c @ w) * 2)
        return j.numpy.exp(-j.numpy.tanh(h + c)), None

    def stacked(j):
        body = j.checkpoint(functools.partial(layer, j), policy=getattr(j.checkpoint_policies, policy))
        loss = lambda x, ws: j.lax.scan(body, x, ws)[0].sum()
        jaxpr = j.make_jaxpr(j.grad(loss, (0, 1)))(np.ones((4, 4), np.float32), np.ones((7, 4, 4), np.float32))
        way_there = next(e for e in jaxpr.eqns if e.primitive.name == "scan")
        return sum(v.aval.ndim == 3 for v in way_there.outvars)

    agree(stacked)


WITHOUT_TANGENTS = {"index": lambda j, x: j.numpy.argmax(x), "number": lambda j, x: 3, "nothing": lambda j, x: None}
DERIVATIVES = {
    "used": lambda j, f: j.grad(lambda x: (x * (1 if f(x) is None else f(x))).sum())(X),
    "mapped": lambda j, f: j.vmap(j.grad(lambda x: (f(x), (x * x).sum())[1]))(A),
    "jitted": lambda j, f: j.jit(j.grad(lambda x: (f(x), (x * x).sum())[1]))(X),
    "second": lambda j, f: j.hessian(lambda x: (f(x), (x * x).sum())[1])(X),
    "vjp": lambda j, f: j.vjp(f, X)[0],
    "linearize": lambda j, f: j.linearize(f, X)[0],
    "grad": lambda j, f: j.grad(f)(X),
}


CALLS = {
    "jit": lambda j, f: j.jit(f),
    "checkpoint": lambda j, f: j.checkpoint(f),
    "scan": lambda j, f: lambda x: j.tree.map(lambda y: y[0], j.lax.map(f, x[None])),
}


@pytest.mark.parametrize("name", WITHOUT_TANGENTS)
@pytest.mark.parametrize("derivative", DERIVATIVES)
@pytest.mark.parametrize("call", CALLS)
def test_calls_whose_results_have_no_derivative(call, derivative, name):
    def program(j):
        return DERIVATIVES[derivative](j, CALLS[call](j, functools.partial(WITHOUT_TANGENTS[name], j)))

    agree(program)
