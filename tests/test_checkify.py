"""checkify against JAX: messages and results, alone, in jit, loops, branches, vmap and grad."""

import importlib
import warnings

import numpy as np
import pytest
from oracle import agree

X = np.arange(3.0, dtype=np.float32)


def of(j):
    return importlib.import_module(f"{j.__name__}.experimental.checkify")


def positive(j):
    def f(x):
        of(j).check(x > 0, "{x} must be positive {}", j.numpy.float32(1), x=x)
        return x * 2

    return f


def scanned(j):
    def step(c, x):
        of(j).check(x < 2, "x is {}", x)
        return c + x, c

    return lambda xs: j.lax.scan(step, j.numpy.float32(0), xs)


def looped(j):
    def body(i):
        of(j).check(i < 3, "i is {}", i)
        return i + 1

    return lambda n: j.lax.while_loop(lambda i: i < n, body, j.numpy.int32(0))


def checked_twice(j):
    def f(x):
        error, out = j.jit(of(j).checkify(positive(j)))(x)
        of(j).check_error(error)
        return out

    return f


N, P, I32 = np.float32(-1), np.float32(3), np.int32

# by name: the function, its arguments, and the checks
PROGRAMS = {
    "passes": (positive, (P,), "user_checks"),
    "fails": (positive, (N,), "user_checks"),
    "in a checkpoint": (lambda j: j.checkpoint(positive(j)), (N,), "user_checks"),
    "derivative of a checkpoint": (lambda j: j.grad(j.checkpoint(positive(j))), (N,), "user_checks"),
    "not asked for": (positive, (N,), "nan_checks"),
    "nan": (lambda j: j.numpy.sin, (np.float32(np.inf),), "float_checks"),
    "nan goes through relu": (lambda j: j.nn.relu, (np.float32(np.nan),), "nan_checks"),
    "division": (lambda j: lambda x, y: x / y, (P, np.float32(0)), "float_checks"),
    "no error at all": (lambda j: lambda x, y: x / y, (P, N), "all_checks"),
    "read": (lambda j: lambda x, i: x[i], (X, I32(5)), "index_checks"),
    "read several": (lambda j: lambda x, i: x[i], (X, np.array([0, -7], np.int32)), "index_checks"),
    "read in bounds": (lambda j: lambda x, i: x[i], (X, I32(2)), "all_checks"),
    "write": (lambda j: lambda x, i: x.at[i].set(1.0), (X, I32(4)), "index_checks"),
    "add": (lambda j: lambda x, i: x.at[i].add(1.0), (X, np.array([1, 9], np.int32)), "index_checks"),
    "read around a slice": (lambda j: lambda x, i: x[i, :, i], (np.ones((2, 3, 7), np.float32), I32(8)), "index_checks"),
    "write around a slice": (
        lambda j: lambda x, i: x.at[i, :, i].set(1.0), (np.ones((2, 3, 7), np.float32), I32(9)), "index_checks"
    ),
    "add around a slice": (
        lambda j: lambda x, i: x.at[i, :, i].add(1.0), (np.ones((2, 3, 7), np.float32), I32(-5)), "index_checks"
    ),
    "write behind a slice": (
        lambda j: lambda x, i: x.at[:, i].multiply(2.0),
        (np.ones((2, 3, 7), np.float32), np.array([2, 5], np.int32)), "index_checks",
    ),
    "raised at several": (
        lambda j: lambda x, i: x.at[i, :, i].power(2.0),
        (np.ones((2, 3, 7), np.float32), np.array([1, 8], np.int32)), "index_checks",
    ),
    "dynamic slice": (lambda j: lambda x, i: j.lax.dynamic_slice(x, (i,), (2,)), (X, I32(2)), "index_checks"),
    "cond": (lambda j: lambda x: j.lax.cond(x > 0, lambda x: j.numpy.log(-x), lambda x: x, x), (P,), "float_checks"),
    "other branch": (lambda j: lambda x: j.lax.cond(x > 0, positive(j), lambda x: x, x), (N,), "user_checks"),
    "scan": (scanned, (X,), "user_checks"),
    "division in scan": (lambda j: lambda xs: j.lax.scan(lambda c, x: (c / x, c), P, xs), (X,), "div_checks"),
    "while": (looped, (I32(5),), "user_checks"),
    "while in bounds": (looped, (I32(2),), "user_checks"),
    "vmap within": (lambda j: j.vmap(positive(j)), (X - 1,), "user_checks"),
    "grad within": (lambda j: j.grad(positive(j)), (N,), "user_checks"),
    "jit within": (lambda j: j.jit(positive(j)), (N,), "user_checks"),
    "derivative by zero": (lambda j: j.grad(j.numpy.sqrt), (np.float32(0),), "div_checks"),
    "debug_check": (lambda j: lambda x: of(j).debug_check(x > 0, "dbg"), (N,), "user_checks"),
    "error raised again": (checked_twice, (N,), "user_checks"),
    "values in a dictionary": (
        lambda j: lambda x: of(j).check(x > 0, "it is {} {y:.2f}", {"x": x}, y=x), (N,), "user_checks"
    ),
    "first of two": (
        lambda j: lambda x: (of(j).check(x > 5, "first {}", x), of(j).check(x > 0, "second"))[0], (N,), "user_checks"
    ),
}  # fmt: skip


def checked(j, name, around):
    make, args, errors = PROGRAMS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        error, out = around(j, of(j).checkify(make(j), getattr(of(j), errors)))(*map(j.numpy.asarray, args))
    return out, error.get()


@pytest.mark.parametrize("around", [lambda j, f: f, lambda j, f: j.jit(f)], ids=["plain", "jit"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_errors_and_results(name, around):
    found = {}

    def program(j):
        out, found[j.__name__] = checked(j, name, around)
        return out

    agree(program, weak=False)
    assert found["jaxish"] == found["jax"]


def test_mapped_errors():
    messages = {}

    def program(j):
        error, out = j.jit(j.vmap(of(j).checkify(positive(j))))(X - 1)
        messages[j.__name__] = error.get()
        return out

    agree(program)
    assert messages["jaxish"] == messages["jax"]


@pytest.mark.parametrize(
    "call",
    [
        lambda j: positive(j)(j.numpy.float32(-1)),
        lambda j: j.jit(positive(j))(N),
        lambda j: j.vmap(positive(j))(X - 1),
        lambda j: of(j).check(1, "a"),
        lambda j: of(j).check(True, "{}", 1),
        lambda j: of(j).checkify(positive(j))(j.numpy.float32(-1))[0].throw(),
        lambda j: of(j).check_error(1),
        lambda j: of(j).debug_check(False, "a"),
    ],
)
def test_raised(call):
    agree(call)


@pytest.mark.parametrize("values", [[1, 5, -1, 11], [5, 11, -1], [5], [1, 2], [-1, 11, 5, 2]])
def test_one_error_of_a_batch_is_raised(values):
    def program(j):
        def f(x):
            of(j).check(x > 0, "first {x}", x=x)
            of(j).check(x < 10, "second {x}", x=x)
            of(j).check(x != 5, "third")
            return j.numpy.arange(3)[x]

        error, _ = j.vmap(of(j).checkify(f, errors=of(j).all_checks))(np.array(values, np.int32))
        try:
            error.throw()
        except ValueError as raised:
            return str(raised) == raised_by.setdefault("jax", str(raised))

    raised_by = {}
    agree(program)


def test_types_of_what_is_checked():
    agree(lambda j: j.eval_shape(positive(j), N).dtype)
    agree(lambda j: j.make_jaxpr(positive(j))(N).out_avals[0].dtype)


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_custom_rules_stay(kind):
    def program(j):
        f = getattr(j, kind)(lambda x: j.numpy.log(x))
        if kind == "custom_jvp":
            f.defjvp(lambda primals, tangents: (f(*primals), 100 * tangents[0]))
        else:
            f.defvjp(lambda x: (f(x), None), lambda _, g: (100 * g,))

        def loss(x):
            error, y = of(j).checkify(lambda x: f(x) * 2, errors=of(j).nan_checks)(x)
            return y, error.get() is None

        return [j.grad(loss, has_aux=True)(x) for x in (np.float32(2), np.float32(-2))]

    agree(program)
