"""Primitives written as classes against JAX: each rule, alone and composed."""

import importlib
from dataclasses import dataclass

import numpy as np
import pytest
from oracle import agree

X, Y = np.float32(0.7), np.float32(1.3)
XS, YS = np.linspace(-1, 1, 3, dtype=np.float32), np.linspace(0.5, 2, 3, dtype=np.float32)


def of(j):
    return importlib.import_module(f"{j.__name__}.experimental.hijax")


def multiply(j):
    """Both rules, a parameter, residuals by what is differentiated."""

    class Multiply(of(j).VJPHiPrimitive):
        def __init__(self, x_aval, y_aval, by):
            self.in_avals, self.out_aval, self.params = (x_aval, y_aval), x_aval, {"by": by}
            super().__init__()

        def expand(self, x, y):
            return j.numpy.sin(x) * y * self.by

        def vjp_fwd(self, nzs_in, x, y):
            return self(x, y), (x, y if nzs_in[0] else None)

        def vjp_bwd_retval(self, res, g):
            x, y = res
            return g * j.numpy.cos(x) * y * self.by if y is not None else None, g * j.numpy.sin(x) * self.by

        def jvp(self, primals, tangents):
            (x, y), (dx, dy) = primals, map(of(j).instantiate_zeros, tangents)
            return self(x, y), (j.numpy.cos(x) * dx * y + j.numpy.sin(x) * dy) * self.by

        def batch_dim_rule(self, axis_data, dims):
            return next(d for d in dims if d is not None)

        def batch(self, axis_data, args, dims):
            x, y = (
                a if d is not None else j.numpy.broadcast_to(a, (axis_data.size, *a.shape)) for a, d in zip(args, dims)
            )
            return Multiply(j.typeof(x), j.typeof(y), self.by)(x, y), 0

    return lambda x, y: Multiply(j.typeof(x), j.typeof(y), 3.0)(j.numpy.asarray(x), j.numpy.asarray(y))


def accumulated(j):
    """A backward rule with accumulators, and the default rule for batches."""

    class Accumulated(of(j).VJPHiPrimitive):
        def __init__(self, x_aval, y_aval):
            self.in_avals, self.out_aval, self.params = (x_aval, y_aval), x_aval, {}
            super().__init__()

        def expand(self, x, y):
            return x * x * y

        def vjp_fwd(self, nzs_in, x, y):
            return self(x, y), (x, y)

        def vjp_bwd_retval(self, res, g):
            return 2 * res[0] * res[1] * g, res[0] ** 2 * g

        def jvp(self, primals, tangents):
            (x, y), (dx, dy) = primals, map(of(j).instantiate_zeros, tangents)
            return self(x, y), 2 * x * y * dx + x * x * dy

        def batch_dim_rule(self, axis_data, dims):
            return 0

    return lambda x, y: Accumulated(j.typeof(x), j.typeof(y))(j.numpy.asarray(x), j.numpy.asarray(y))


PRIMITIVES = [multiply, accumulated]
COMPOSITIONS = {
    "eager": lambda j, f: f(X, Y),
    "jit": lambda j, f: j.jit(f)(X, Y),
    "grad": lambda j, f: j.grad(f, (0, 1))(X, Y),
    "grad of one": lambda j, f: [j.grad(f, i)(X, Y) for i in (0, 1)],
    "jit of grad": lambda j, f: j.jit(j.grad(f, (0, 1)))(X, Y),
    "grad of jit": lambda j, f: j.grad(j.jit(f), (0, 1))(X, Y),
    "jvp": lambda j, f: j.jvp(f, (X, Y), (Y, X)),
    "jvp of jit": lambda j, f: j.jvp(j.jit(f), (X, Y), (Y, X)),
    "jvp of one": lambda j, f: j.jvp(lambda x: f(x, Y), (X,), (Y,)),
    "vmap": lambda j, f: j.vmap(f)(XS, YS),
    "vmap of one": lambda j, f: [j.vmap(f, (0, None))(XS, Y), j.vmap(f, (None, 0))(X, YS)],
    "grad of grad": lambda j, f: j.grad(j.grad(f))(X, Y),
    "jvp of grad": lambda j, f: j.jvp(j.grad(f), (X, Y), (Y, X)),
    "grad of vmap": lambda j, f: j.grad(lambda x, y: j.vmap(f)(x, y).sum(), (0, 1))(XS, YS),
    "vmap of grad": lambda j, f: j.jit(j.vmap(j.grad(f, (0, 1))))(XS, YS),
    "scan": lambda j, f: j.lax.scan(lambda c, y: (f(c, y), c), X, YS),
    "grad of scan": lambda j, f: j.grad(lambda x: j.lax.scan(lambda c, y: (f(c, y), c), x, YS)[0])(X),
    "checkpoint": lambda j, f: j.grad(j.checkpoint(lambda x: f(f(x, Y), Y)))(X),
    "equations": lambda j, f: [e.primitive.name for e in j.make_jaxpr(f)(X, Y).eqns].count("call_hi_primitive"),
}


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("primitive", PRIMITIVES)
def test_rules_compose(primitive, composition):
    agree(lambda j: COMPOSITIONS[composition](j, primitive(j)), rtol=1e-5, weak=False)


def pair(j, backward):
    class Pair(of(j).VJPHiPrimitive):
        def __init__(self, aval):
            self.in_avals, self.out_aval, self.params = ({"a": aval, "b": aval},), [aval, aval], {}
            super().__init__()

        def expand(self, d):
            return [d["a"] * d["b"], d["a"] + 1]

        def vjp_fwd(self, nzs_in, d):
            return self(d), d

    if backward == "vjp_bwd":

        def vjp_bwd(self, d, g, accum):
            g = [of(j).instantiate_zeros(x) for x in g]
            accum["a"].accum(g[0] * d["b"] + g[1])
            accum["b"].accum(g[0] * d["a"])

        Pair.vjp_bwd = vjp_bwd
    else:
        Pair.vjp_bwd_retval = lambda self, d, g: (
            {"a": g[0] * d["b"] + of(j).instantiate_zeros(g[1]), "b": g[0] * d["a"]},
        )
    return lambda x, y: Pair(j.typeof(x))({"a": x, "b": y})


@pytest.mark.parametrize("backward", ["vjp_bwd", "vjp_bwd_retval"])
def test_pytrees_and_zero_cotangents(backward):
    agree(lambda j: j.grad(lambda x, y: pair(j, backward)(x, y)[0], (0, 1))(j.numpy.asarray(X), j.numpy.asarray(Y)))
    agree(lambda j: j.jit(pair(j, backward))(X, Y), weak=False)


def missing(j):
    class Missing(of(j).VJPHiPrimitive):
        def __init__(self, aval):
            self.in_avals, self.out_aval, self.params = (aval,), aval, {}
            super().__init__()

        def expand(self, x):
            return x

    return lambda x: Missing(j.typeof(XS))(j.numpy.asarray(x))


@pytest.mark.parametrize("transform", ["grad", "jvp", "vmap", "wrong type"])
def test_missing_rules(transform):
    calls = {
        "grad": lambda j: j.grad(lambda x: missing(j)(x).sum())(XS),
        "jvp": lambda j: j.jvp(missing(j), (XS,), (XS,)),
        "vmap": lambda j: j.vmap(missing(j))(XS[None]),
        "wrong type": lambda j: type("P", (of(j).VJPHiPrimitive,), {})(),
    }
    agree(calls[transform])


def test_linear_primitive():
    def program(j):
        class Twice(of(j).VJPHiPrimitive):
            def __init__(self, aval):
                self.in_avals, self.out_aval, self.params = (aval,), aval, {}
                super().__init__()

            def expand(self, x):
                return x * 2

            def transpose(self, ct, accum):
                accum.accum(ct * 2)

        return j.linear_transpose(lambda x: Twice(j.typeof(x))(x) * 3, XS)(YS)

    agree(program)


def test_types_of_ones_own():
    def program(j):
        @dataclass(frozen=True)
        class Scaled:
            values: object
            scale: object

        @dataclass(frozen=True)
        class ScaledType(of(j).HiType):
            shape: tuple

            def lo_ty(self):
                return [of(j).ShapedArray(self.shape, np.dtype("int8")), of(j).ShapedArray((), np.dtype("float32"))]

            def lower_val(self, s):
                return [s.values, s.scale]

            def raise_val(self, values, scale):
                return Scaled(values, scale)

            def to_tangent_aval(self):
                return of(j).ShapedArray(self.shape, np.dtype("float32"))

        of(j).register_hitype(Scaled, lambda s: ScaledType(s.values.shape))

        class Quantize(of(j).VJPHiPrimitive):
            def __init__(self, aval):
                self.in_avals, self.out_aval, self.params = (aval,), ScaledType(aval.shape), {}
                super().__init__()

            def expand(self, x):
                scale = j.numpy.abs(x).max() / 127
                return Scaled(j.numpy.round(x / scale).astype("int8"), scale)

        class Dequantize(of(j).VJPHiPrimitive):
            def __init__(self, aval):
                self.in_avals, self.params = (aval,), {}
                self.out_aval = of(j).ShapedArray(aval.shape, np.dtype("float32"))
                super().__init__()

            def expand(self, s):
                return s.values * s.scale

        there = lambda x: Quantize(j.typeof(x))(x)
        back = lambda s: Dequantize(ScaledType(XS.shape))(s)
        scaled = there(j.numpy.asarray(XS))
        assert j.typeof(scaled) == ScaledType(XS.shape)
        return back(scaled), j.jit(back)(scaled), j.jit(lambda x: back(there(x)))(XS), back(j.jit(there)(XS))

    agree(program)


def test_what_is_in_a_value_that_changes_in_place():
    def program(j):
        class BoxType(of(j).MutableHiType):
            pass

        class Box:
            def __init__(self, held):
                self.held = held

            def cur_qdd(self):
                return tuple(str(j.typeof(x)) for x in self.held)

        of(j).register_hitype(Box, lambda box: BoxType())
        box = Box([1.0, j.numpy.arange(3)])
        seen = [j.experimental.cur_qdd(box)]
        box.held.append(j.numpy.zeros((2, 2)))
        return [*seen, j.experimental.cur_qdd(box), type(j.typeof(box)).__name__]

    agree(program)
    agree(lambda j: j.experimental.cur_qdd(j.numpy.zeros(2)))


@pytest.mark.parametrize("x", [X, -X])
def test_rules_of_concrete_values_are_python(x):
    def program(j):
        class ByCases(of(j).VJPHiPrimitive):
            def __init__(self, aval):
                self.in_avals, self.out_aval, self.params = (aval,), aval, {}
                super().__init__()

            def expand(self, x):
                return j.numpy.sin(x) if x > 0 else j.numpy.cos(x)

            def vjp_fwd(self, nzs_in, x):
                return self(x), x

            def vjp_bwd_retval(self, x, g):
                return (2 * g if x > 0 else 3 * g,)

            def jvp(self, primals, tangents):
                return self(*primals), tangents[0] * (2 if primals[0] > 0 else 3)

        f = lambda x: ByCases(j.typeof(x))(x)
        x_ = j.numpy.asarray(x)
        others = j.grad(lambda y: f(x_) * y)(x_), j.jvp(f, (x_,), (x_,)), j.jvp(lambda y: f(x_) * y, (x_,), (x_,))
        return j.value_and_grad(f)(x_), j.grad(lambda x: x * f(x))(x_), *others

    agree(program)


@pytest.mark.parametrize("jitted", [False, True])
def test_linearize_by_the_methods_for_it(jitted):
    def program(j):
        class Sine(of(j).VJPHiPrimitive):
            def __init__(self, aval):
                self.in_avals, self.out_aval, self.params = (aval, aval), aval, {}
                super().__init__()

            def expand(self, x, y):
                return j.numpy.sin(x) * y

            def lin(self, nzs_in, x, y):
                return self(x, y), (j.numpy.cos(x) * y, j.numpy.sin(x))

            def linearized(self, residuals, x_dot, y_dot):
                return sum(r * t for r, t in zip(residuals, (x_dot, y_dot)) if not isinstance(t, of(j).Zero))

        f = lambda x, y: Sine(j.typeof(x))(x, y)
        f = j.jit(f) if jitted else f
        x, y = map(j.numpy.asarray, (X, Y))
        found, push = j.linearize(f, x, y)
        return found, push(x, y), j.linearize(lambda x: f(x, y), x)[1](y)

    agree(program)
