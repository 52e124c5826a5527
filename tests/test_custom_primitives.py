"""Primitives that users define, with rules of their own, against JAX."""

import functools
import importlib
from types import SimpleNamespace

import numpy as np
import pytest
from oracle import agree

from jaxish._core import config

X, Y = np.float32(0.7), np.float32(0.3)
XS, YS = np.linspace(0.1, 0.9, 3, dtype=np.float32), np.linspace(1, 2, 3, dtype=np.float32)


def modules(j):
    """The modules that a library which defines primitives imports."""
    of = lambda path: importlib.import_module(f"{j.__name__}.{path}")
    return SimpleNamespace(
        core=of("core"), Primitive=of("extend.core").Primitive, ad=of("interpreters.ad"),
        batching=of("interpreters.batching"), mlir=of("interpreters.mlir"),
    )  # fmt: skip


def with_lowering(m, primitive, fun, multiple_results=False):
    m.mlir.register_lowering(primitive, m.mlir.lower_fun(fun, multiple_results=multiple_results))


def multiply_add(j):
    """x * y + z in NumPy, with a rule of each kind."""
    m = modules(j)
    p = m.Primitive("multiply_add")
    bind = p.bind
    p.def_impl(lambda x, y, z: np.add(np.multiply(x, y), z))
    p.def_abstract_eval(lambda x, y, z: m.core.ShapedArray(x.shape, x.dtype))
    with_lowering(m, p, lambda x, y, z: x * y + z)
    zeros = lambda t, x: j.numpy.zeros_like(x) if type(t) is m.ad.Zero else t

    def jvp(primals, tangents):
        x, y, z = primals
        dx, dy, dz = (zeros(t, x) for t in tangents)
        return bind(x, y, z), bind(dx, y, bind(x, dy, dz))

    def transpose(cotangent, x, y, z):
        linear = m.ad.is_undefined_primal
        assert not (linear(x) and linear(y))
        nothing = j.numpy.zeros_like(cotangent)
        by_x = bind(cotangent, y, nothing) if linear(x) else None
        by_y = bind(x, cotangent, nothing) if linear(y) else None
        return by_x, by_y, cotangent if linear(z) else None

    def batch(args, dims):
        size = next(x.shape[d] for x, d in zip(args, dims, strict=True) if d is not None)
        return bind(*(m.batching.bdim_at_front(x, d, size) for x, d in zip(args, dims, strict=True))), 0

    m.ad.primitive_jvps[p], m.ad.primitive_transposes[p] = jvp, transpose
    m.batching.primitive_batchers[p] = batch
    return lambda x, y: bind(x, x, bind(x, y, y)), (X, Y), (XS, YS)


def linear(j):
    m = modules(j)
    p = m.Primitive("scale")
    p.def_impl(lambda x, *, by: j.numpy.asarray(x) * by)
    p.def_abstract_eval(lambda x, *, by: m.core.ShapedArray(x.shape, x.dtype))
    with_lowering(m, p, lambda x, *, by: x * by)
    m.ad.deflinear(p, lambda cotangent, *, by: [p.bind(cotangent, by=by)])
    m.batching.defvectorized(p)
    return lambda x: j.numpy.sin(p.bind(x, by=3.0)) * p.bind(x, by=2.0), (X,), (XS,)


def bilinear(j):
    m = modules(j)
    p = m.Primitive("product")
    p.def_impl(lambda x, y: j.numpy.asarray(x) * y)
    p.def_abstract_eval(lambda x, y: m.core.ShapedArray(np.broadcast_shapes(x.shape, y.shape), x.dtype))
    with_lowering(m, p, lambda x, y: x * y)
    m.ad.defbilinear(p, lambda c, x, y: p.bind(c, y), lambda c, x, y: p.bind(x, c))
    m.batching.defbroadcasting(p)
    return lambda x, y: j.numpy.sin(p.bind(x, p.bind(x, y))), (X, Y), (XS, YS)


def by_argument(j):
    """A function whose derivative is given for each argument, which needs no transpose: that of its rule is JAX's."""
    m = modules(j)
    p = m.Primitive("quotient")
    p.def_impl(lambda x, y: j.numpy.asarray(x) / y)
    p.def_abstract_eval(lambda x, y: m.core.ShapedArray(x.shape, x.dtype))
    with_lowering(m, p, lambda x, y: x / y)
    m.ad.defjvp(p, lambda t, x, y: t / y, lambda t, x, y: -t * p.bind(x, y) / y)
    m.batching.defbroadcasting(p)
    return lambda x, y: p.bind(x, y) ** 2, (X, Y), (XS, YS)


def several_results(j):
    m = modules(j)
    p = m.Primitive("multiples")
    p.multiple_results = True
    p.def_impl(lambda x, *, n: [j.numpy.asarray(x) * i for i in range(n)])
    p.def_abstract_eval(lambda x, *, n: [m.core.ShapedArray(x.shape, x.dtype)] * n)
    with_lowering(m, p, lambda x, *, n: [x * i for i in range(n)], multiple_results=True)
    m.ad.primitive_jvps[p] = lambda primals, tangents, *, n: (p.bind(*primals, n=n), p.bind(*tangents, n=n))
    m.ad.primitive_transposes[p] = lambda cts, x, *, n: [
        sum(0.0 if type(c) is m.ad.Zero else c * i for i, c in enumerate(cts))
    ]
    m.batching.primitive_batchers[p] = lambda args, dims, *, n: (p.bind(*args, n=n), [dims[0]] * n)
    return lambda x: j.numpy.sin(p.bind(x, n=3)[2]) * p.bind(x, n=2)[1], (X,), (XS,)


PRIMITIVES = [multiply_add, linear, bilinear, by_argument, several_results]
COMPOSITIONS = {
    "eager": lambda j, f, one, many: f(*one),
    "jit": lambda j, f, one, many: j.jit(f)(*one),
    "jvp": lambda j, f, one, many: j.jvp(f, one, one),
    "grad": lambda j, f, one, many: j.grad(f, tuple(range(len(one))))(*one),
    "grad of jit": lambda j, f, one, many: j.grad(j.jit(f))(*one),
    "jit of grad": lambda j, f, one, many: j.jit(j.grad(f))(*one),
    "vmap": lambda j, f, one, many: j.vmap(f)(*many),
    "vmap of one argument": lambda j, f, one, many: j.vmap(lambda x: f(x, *one[1:]))(many[0]),
    "vmap of grad": lambda j, f, one, many: j.vmap(j.grad(f))(*many),
    "grad of vmap": lambda j, f, one, many: j.grad(lambda *a: j.vmap(f)(*a).sum())(*many),
    "all": lambda j, f, one, many: j.jit(j.vmap(j.grad(j.jit(f))))(*many),
    "grad of grad": lambda j, f, one, many: j.grad(j.grad(f))(*one),
    "hessian": lambda j, f, one, many: j.hessian(f)(*one),
    "jacfwd of jacrev": lambda j, f, one, many: j.jacfwd(j.jacrev(f))(*one),
    "scan": lambda j, f, one, many: j.lax.scan(lambda c, x: (f(*[c] * len(one)) * x, c), one[0], many[0]),
    "grad of scan": lambda j, f, one, many: j.grad(
        lambda x: j.lax.scan(lambda c, y: (f(*[c] * len(one)) * y, c), x, many[0])[0]
    )(one[0]),
    "equations": lambda j, f, one, many: [
        (e.primitive.name, sorted(e.params.items())) for e in j.make_jaxpr(f)(*one).eqns
    ].count(("scale", [("by", 3.0)])),
}


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("primitive", PRIMITIVES)
def test_rules_compose(primitive, composition):
    agree(lambda j: COMPOSITIONS[composition](j, *primitive(j)), rtol=1e-4, weak=False)


def test_compiled_code_has_the_lowering():
    def program(j):
        f, _, many = multiply_add(j)
        return j.jit(j.vmap(j.grad(f)))(*many)

    with config.jit_tier("compiled"):
        agree(program, rtol=1e-6, weak=False)


@pytest.mark.parametrize("tier", ["auto", "compiled"])
def test_implementations_in_numpy_of_what_is_lowered_to_mlir(tier):
    def program(j):
        m = modules(j)
        p = m.Primitive("sine")
        p.def_impl(lambda x: j.numpy.asarray(np.sin(np.asarray(x))))
        p.def_abstract_eval(lambda x: m.core.ShapedArray(x.shape, x.dtype))
        m.mlir.register_lowering(p, lambda ctx, x: m.mlir.lower_fun(j.numpy.sin, multiple_results=False)(ctx, x))
        f = j.jit(lambda x: p.bind(x) * 2 + x)
        looped = j.jit(lambda x: j.lax.fori_loop(0, 5, lambda _, y: p.bind(y) + x, x))
        return [g(x) for g in (f, looped) for x in (XS, YS, XS + YS)]

    with config.jit_tier(tier):
        agree(program, rtol=1e-5, weak=False)


def test_transposed_alone():
    def program(j):
        m = modules(j)
        p = m.Primitive("only_transposed")
        p.def_impl(lambda x: j.numpy.asarray(x) * 2)
        p.def_abstract_eval(lambda x: x)
        with_lowering(m, p, lambda x: x * 2)
        m.ad.deflinear2(p, lambda c, x: [c * 2])
        return j.linear_transpose(lambda x: p.bind(x) * 3, XS)(YS)

    agree(program, weak=False)


@pytest.mark.parametrize(
    "call",
    [
        lambda j, p: p.bind(X),
        lambda j, p: j.jit(p.bind)(X),
        lambda j, p: j.vmap(p.bind)(XS),
        lambda j, p: j.grad(p.bind)(X),
        lambda j, p: j.jvp(p.bind, (X,), (X,)),
        lambda j, p: j.jit(p.bind)("text"),
    ],
)
def test_missing_rules(call):
    agree(lambda j: call(j, modules(j).Primitive("nothing")))


def test_linear_transpose_prefers_the_rule_for_it():
    def program(j):
        m = modules(j)
        p = m.Primitive("both_rules")
        p.def_impl(lambda x: j.numpy.asarray(x) * 2)
        p.def_abstract_eval(lambda x: x)
        with_lowering(m, p, lambda x: x * 2)
        m.ad.primitive_jvps[p] = lambda primals, tangents: (p.bind(*primals), primals[0] * tangents[0])
        m.ad.primitive_transposes[p] = lambda ct, x: [ct * 7]
        kinds = []
        m.batching.primitive_batchers[p] = lambda args, dims: (
            kinds.extend([type(args), type(dims)]),
            (p.bind(*args), dims[0]),
        )[1]
        return j.linear_transpose(p.bind, XS)(YS), j.vmap(p.bind)(XS), [k.__name__ for k in kinds]

    agree(program, weak=False)


@pytest.mark.parametrize("used", [True, False])
def test_rules_may_refuse_cotangents(used):
    """A jitted function's way back is known before its cotangents are: what has none is not refused."""

    def program(j):
        m = modules(j)
        p = m.Primitive("forward_only")
        p.def_impl(lambda x: j.numpy.asarray(x))
        p.def_abstract_eval(lambda x: x)
        with_lowering(m, p, lambda x: x)
        m.ad.primitive_jvps[p] = lambda primals, tangents: (p.bind(*primals), p.bind(*tangents))

        def refuse(ct, x):
            raise RuntimeError("no way back")

        m.ad.primitive_transposes[p] = refuse
        f = j.jit(lambda x: (x * 2, p.bind(x * 3)))
        return j.grad(lambda x: f(x)[1 if used else 0])(np.float32(2))

    agree(program)


def test_zeros_of_trees():
    def program(j):
        derivatives = importlib.import_module(f"{j.__name__}.custom_derivatives")
        tree = {"a": np.float32(1), "b": [np.ones(2, np.float32), np.arange(3)]}
        zeros = derivatives.zero_from_primal(tree)
        symbolic = derivatives.zero_from_primal(tree, symbolic_zeros=True)
        return zeros["a"], zeros["b"][0], zeros["b"][1].shape, type(symbolic["b"][0]).__name__

    agree(program, weak=False)


@pytest.mark.parametrize("tier", ["direct", "compiled"])
def test_lowerings_with_compile_time_values(tier):
    def program(j):
        m = modules(j)
        p, yes, no = m.Primitive("chosen"), j.numpy.float32(3), j.numpy.float32(4)

        def chosen(x):
            with j.ensure_compile_time_eval():
                return x * j.numpy.where(x > 0, yes, no)

        p.def_impl(chosen)
        p.def_abstract_eval(lambda x: x)
        with_lowering(m, p, chosen)
        step = lambda s: (s[0] + 1, p.bind(s[1]))
        return j.jit(lambda x: j.lax.while_loop(lambda s: s[0] < 5, step, (0, x)))(X)

    with config.jit_tier(tier):
        agree(program)


def test_weak_types_of_results():
    def program(j):
        m, seen = modules(j), []
        p = m.Primitive("same")
        p.def_impl(lambda x: x)
        p.def_abstract_eval(lambda x: x)
        m.ad.primitive_jvps[p] = lambda primals, tangents: (p.bind(*primals), tangents[0])
        m.batching.primitive_batchers[p] = lambda args, dims: (p.bind(*args), dims[0])

        def f(x):
            results = p.bind(j.numpy.asarray(5)), p.bind(x), p.bind(j.numpy.float32(3))
            seen.extend([j.typeof(r).weak_type for r in results])
            return x

        j.grad(f)(4.0), j.grad(f)(X), j.vmap(f)(XS), j.jvp(f, (1.0,), (1.0,)), f(1.0), j.jit(j.grad(f))(2.0)
        return seen

    agree(program)


@pytest.mark.parametrize("jitted", [False, True])
def test_marks_that_nothing_uses_stay_in_jaxprs(jitted):
    def program(j):
        m = modules(j)
        mark = m.Primitive("mark")
        mark.multiple_results = True
        mark.def_impl(lambda *args, name: args)
        mark.def_abstract_eval(lambda *avals, name: avals)
        with_lowering(m, mark, lambda *args, name: args, multiple_results=True)

        def f(x):
            mark.bind(x, x + 1, name="loss")
            return x * 2

        g = j.jit(f) if jitted else f
        jaxpr = j.make_jaxpr(g)(X).jaxpr
        body = jaxpr.eqns[0].params["jaxpr"].jaxpr if jitted else jaxpr
        marks = [e for e in body.eqns if e.primitive is mark]
        shapes = [[v.aval.shape for v in (*e.invars, *e.outvars)] for e in marks]
        return shapes, [e.params["name"] for e in marks], j.jit(f)(X), m.core.eval_jaxpr(jaxpr, [], X)

    agree(program)


def test_a_primitive_is_computed_by_its_lowering_rule():
    def program(j, x):
        m, xla = modules(j), importlib.import_module(f"{j.__name__}.interpreters.xla")
        p = m.Primitive("shifted")
        p.def_impl(functools.partial(xla.apply_primitive, p))
        p.def_abstract_eval(lambda x, by: m.core.ShapedArray(x.shape, x.dtype))
        with_lowering(m, p, lambda x, by: x + by)
        without = m.Primitive("without")
        without.def_impl(functools.partial(xla.apply_primitive, without))
        without.def_abstract_eval(lambda x: x)
        with pytest.raises(NotImplementedError):
            without.bind(x)
        return p.bind(x, by=2.0), j.jit(lambda x: p.bind(x, by=2.0))(x)

    agree(lambda j, x: program(j, j.numpy.asarray(x)), XS)
