"""jax.api_util and jax.extend.linear_util, as libraries that wrap functions use them."""

import functools
import inspect
from typing import Any

import numpy as np
import pytest
from oracle import agree

from jaxish._transforms import signature

TREE = {"b": (1.0, [2.0]), "a": 3.0}


def named(x, y=2, *rest, z, **others):
    return x


def info(lib, f=named, args=(1.0,), kwargs=None):
    return lib.api_util.debug_info("test", f, args, {"z": 1} if kwargs is None else kwargs)


def wrapped(lib, f, **params):
    return lib.extend.linear_util.wrap_init(f, params or None, debug_info=info(lib))


@pytest.mark.parametrize(
    ("f", "args", "kwargs", "static"),
    [
        (named, (1.0, TREE), {"z": [1, 2]}, {}),
        (named, (1.0, 2.0, 3.0, 4.0), {"z": 1, "w": TREE}, {}),
        (named, (1.0, TREE), {"z": 1}, {"static_argnums": (1,), "static_argnames": ("z",)}),
        (named, (1.0, TREE, 5), {"z": 1}, {"static_argnums": (-1,)}),
        (named, (), {}, {}),
        (functools.partial(named, z=1), (TREE,), {}, {}),
        (abs, (1.0,), {}, {}),
        (max, (1.0, 2.0), {"key": 1}, {}),
        (np.sin, (1.0,), {}, {}),
    ],
)
def test_debug_info_names_arguments_as_jax_does(f, args, kwargs, static):
    agree(lambda lib: tuple(lib.api_util.debug_info("jit", f, args, kwargs, **static))[:3])


def test_flatten_fun():
    def program(lib, keywords):
        def f(x, y, **rest):
            return {"sum": x["a"] + y, "rest": rest}

        args = (TREE, 4.0)
        leaves, structure = lib.tree.flatten((args, {"k": 5.0}) if keywords else args)
        flatten = lib.api_util.flatten_fun if keywords else lib.api_util.flatten_fun_nokwargs
        flat, out_tree = flatten(wrapped(lib, f), structure)
        results = flat.call_wrapped(*leaves)
        return results, str(out_tree())

    agree(program, True)
    agree(program, False)


def test_a_store_is_written_once():
    def program(lib, times, equal):
        leaves, structure = lib.tree.flatten((1.0,))
        flat, out_tree = lib.api_util.flatten_fun_nokwargs(
            wrapped(lib, lambda x: (x, x)), structure, use_eq_store=equal
        )
        for _ in range(times):
            flat.call_wrapped(*leaves)
        return str(out_tree())

    for times, equal in [(0, False), (1, False), (2, False), (2, True)]:
        agree(program, times, equal)


def test_transformations_old_and_new():
    def program(lib):
        lu = lib.extend.linear_util

        @lu.transformation2
        def scaled(f, by, *args):
            return by * f(*args)

        @lu.transformation_with_aux2
        def noted(f, store, *args):
            store.store(len(args))
            return f(*args)

        @lu.transformation
        def shifted(by, *args):
            answer = yield tuple(a + by for a in args), {}
            yield answer

        @lu.transformation_with_aux
        def split(*args):
            answer = yield args, {}
            yield answer, ("aux", answer)

        apply: Any = lambda transformation, *args: transformation(*args)
        f, count = apply(noted, apply(scaled, wrapped(lib, lambda x, y, k: x * y + k, k=3), 10))
        f, aux = apply(split, apply(shifted, f, 1))
        return f.call_wrapped(2, 3), count(), aux(), f.__name__, f.params

    agree(program)


def test_equal_functions_are_equal():
    def program(lib):
        lu = lib.extend.linear_util

        @lu.transformation2
        def scaled(f, by, *args):
            return by * f(*args)

        base = lambda x: x
        first, second, third = (scaled(wrapped(lib, base), by) for by in (2, 2, 3))
        calls = []

        @lu.cache
        def derived(fun, extra):
            calls.append(extra)
            return fun.call_wrapped(5)

        found = [derived(first, 1), derived(second, 1), derived(third, 1), derived(first, 2)]
        return first == second, hash(first) == hash(second), first == third, found, calls

    agree(program)


def test_a_cached_answer_fills_the_stores():
    def program(lib):
        lu, base = lib.extend.linear_util, lambda x: [x, x]
        call = lu.cache(lambda fun, x: fun.call_wrapped(x))
        found = []
        for _ in range(2):
            leaves, structure = lib.tree.flatten((1.0,))
            flat, out_tree = lib.api_util.flatten_fun_nokwargs(wrapped(lib, base), structure)
            found.append((call(flat, leaves[0]), str(out_tree())))
        return found

    agree(program)


def test_merge_linear_aux():
    def program(lib, first, second):
        def read(value):
            if value is None:
                raise lib.extend.linear_util.StoreException("empty")
            return value

        return lib.extend.linear_util.merge_linear_aux(lambda: read(first), lambda: read(second))

    for pair in [(1, None), (None, 2), (1, 2), (None, None)]:
        agree(program, *pair)


def test_argnums_partial():
    def program(lib, numbers, args, **options):
        f, dynamic = lib.api_util.argnums_partial(wrapped(lib, lambda *a: a), numbers, args, **options)
        return dynamic, f.call_wrapped(*[x * 10 for x in dynamic])

    agree(program, (0, -1), (1, "s", 3))
    agree(program, 1, (1, 2, 3))
    agree(program, 3, (1, 2, 3))
    agree(program, 0, (1, [2]))
    agree(lambda lib: program(lib, 0, (1, [2]), require_static_args_hashable=False))


def test_donation():
    def program(lib, kws):
        structure = lib.tree.structure(((TREE, 1.0, [2.0]), {"w": TREE, "v": 1.0}) if kws else (TREE, 1.0, [2.0]))
        return lib.api_util.donation_vector((0, 2), ("w",), structure, kws)

    agree(program, True)
    agree(program, False)
    for donated, static in [((3, 4), (0, 1)), ((), ()), ((1,), (1,)), ((5, 0), (2, 3, 9))]:
        agree(lambda lib: lib.api_util.rebase_donate_argnums(donated, static))


def test_flatten_axes():
    def program(lib, axes, **options):
        return lib.api_util.flatten_axes("axes", lib.tree.structure((TREE, 1.0)), axes, **options)

    for axes in [0, None, (1, None), ({"a": 0, "b": None}, 2), (0,), ({"a": 0}, 1)]:
        agree(program, axes)
        agree(lambda lib: program(lib, axes, tupled_args=True))


def test_safe_map_and_types():
    agree(lambda lib: lib.api_util.safe_map(lambda x, y: x + y, [1, 2], (3, 4)))
    agree(lambda lib: lib.api_util.safe_map(lambda x, y: x + y, [1, 2], [3]))
    described = lambda aval: (aval.shape, aval.dtype, aval.weak_type)
    for value in (3.0, 1, np.ones((2, 3), np.int8), True, "text"):
        agree(lambda lib: described(lib.api_util.shaped_abstractify(value)))
    agree(lambda lib: described(lib.api_util.shaped_abstractify(lib.numpy.ones(3))))


@pytest.mark.parametrize("argnums", [None, 0, (1, 2), 5])
@pytest.mark.parametrize("argnames", [None, "b", ("a", "k"), ()])
def test_positions_and_names_of_the_same_arguments(argnums, argnames):
    from jax._src.api_util import infer_argnums_and_argnames

    def function(a, b, /, c, d=1, *rest, k=2):
        return a

    def program(infer):
        return [infer(inspect.signature(f), argnums, argnames) for f in (function, lambda a, b, k: a)]

    assert program(signature.infer_argnums_and_argnames) == program(infer_argnums_and_argnames)
