"""Bits, uniforms, integers and orders: equal to JAX's, bit for bit, for every generator and layout."""

import re
import tracemalloc
from contextlib import ExitStack
from functools import partial

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import agree

import jaxish
import jaxish.numpy as jnp
from jaxish._random import shuffles

exactly = partial(agree, rtol=0, atol=0)
SHAPES = [(), (0,), (3, 5), (70,), (5001,), (40001,)]
GENERATORS = ["threefry2x32", "rbg", "unsafe_rbg"]


def both(stack, name, value):
    for library in (jax, jaxish):
        stack.enter_context(getattr(library, name)(value))


@pytest.mark.parametrize("impl", GENERATORS)
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32"])
def test_bits_are_the_generators(impl, dtype):
    for shape in SHAPES:
        exactly(lambda j: j.random.bits(j.random.key(7, impl=impl), shape, dtype))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_bits_in_the_layout_that_is_not_partitionable(dtype):
    with ExitStack() as stack:
        both(stack, "threefry_partitionable", False)
        both(stack, "enable_x64", True)
        for shape in SHAPES:
            exactly(lambda j: j.random.bits(j.random.key(7), shape, dtype))
        exactly(lambda j: j.random.key_data(j.random.split(j.random.key(7), (3, 1))))
        exactly(lambda j: j.random.gumbel(j.random.key(1), (51,), "float32", mode="high"))


@settings(max_examples=20, deadline=None)
@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**32 - 1), st.booleans())
def test_seeds_and_folded_data_of_any_size(seed, data, x64):
    with ExitStack() as stack:
        both(stack, "enable_x64", x64)
        exactly(lambda j: j.random.key_data(j.random.fold_in(j.random.key(seed), data)))


@pytest.mark.parametrize("impl", GENERATORS)
def test_split_and_fold_in(impl):
    exactly(lambda j: j.random.key_data(j.random.split(j.random.key(3, impl=impl), (3, 2))))
    exactly(lambda j: j.random.key_data(j.random.fold_in(j.random.key(3, impl=impl), 77)))
    exactly(lambda j: j.random.split(j.random.PRNGKey(3, impl=impl)) if impl == "threefry2x32" else 0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_uniforms(dtype):
    low, high = np.linspace(-3, 1, 40).astype(dtype if dtype != "bfloat16" else "float32"), 7.3
    with ExitStack() as stack:
        both(stack, "enable_x64", True)
        for shape in SHAPES:
            exactly(lambda j: j.random.uniform(j.random.key(7), shape, dtype))
        if dtype == "float16":  # XLA multiplies and adds at once where the processor can (AVX512-FP16)
            stack.enter_context(jax.disable_jit())
        exactly(lambda j: j.random.uniform(j.random.key(7), (5000,), dtype, -3.0, 7.3))
        exactly(lambda j: j.random.uniform(j.random.key(7), (50, 40), dtype, low, high))


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]),
    st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1),
)  # fmt: skip
def test_integers_of_any_range(dtype, low, high):
    info = np.iinfo(dtype)
    low, high = (min(max(x, int(info.min)), int(info.max)) for x in (low, high))
    with ExitStack() as stack:
        both(stack, "enable_x64", True)
        bounds = (np.array(low, dtype), np.array(high, dtype))
        exactly(lambda j: j.random.randint(j.random.key(5), (70,), *bounds, dtype))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32"])
@pytest.mark.parametrize("low, high", [(0, 2), (0, 128), (-3, 5), (5, 6), (0, 2**16), (-(2**15), 2**15), (0, 2**17)])
def test_integers_that_are_the_last_bits_of_words(dtype, low, high):
    exactly(lambda j: j.random.randint(j.random.key(5), (333,), low, high, dtype))
    exactly(lambda j: j.jit(lambda k: j.random.randint(k, (3, 40), low, high, dtype))(j.random.key(6)))
    exactly(lambda j: j.vmap(lambda k: j.random.randint(k, (9,), low, high, dtype))(j.random.split(j.random.key(7), 5)))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32"])
def test_integers_of_small_empty_and_full_ranges(dtype):
    info = np.iinfo(dtype)
    for low, high in (
        (0, 10),
        (-5, 100),
        (5, 5),
        (7, 3),
        (0, 1),
        (int(info.min), int(info.max)),
        (0, int(info.max) + 1),
    ):
        exactly(lambda j: j.random.randint(j.random.key(5), (500,), low, high, dtype))
    exactly(lambda j: j.random.randint(j.random.key(5), (50, 30), np.arange(30), np.arange(50)[:, None]))


@pytest.mark.parametrize("mode", ["low", "high"])
def test_booleans(mode):
    odds = np.linspace(0, 1, 300).astype("float32")
    exactly(lambda j: j.random.bernoulli(j.random.key(5), 0.3, (300,), mode))
    exactly(lambda j: j.random.bernoulli(j.random.key(5), odds, mode=mode))
    exactly(lambda j: j.random.bernoulli(j.random.key(5), odds.astype("float16"), mode=mode))
    exactly(lambda j: j.random.rademacher(j.random.key(5), (300,), "float32" if mode == "low" else None))


@pytest.mark.parametrize("x", [0, 1, 10, 5000, np.arange(60).reshape(5, 4, 3), np.arange(60).reshape(5, 12) > 3])
def test_permutations(x):
    for axis in range(max(1, np.ndim(x))):
        exactly(lambda j: j.random.permutation(j.random.key(5), x, axis))
        exactly(lambda j: j.random.permutation(j.random.key(5), x, axis, independent=True))


@pytest.mark.parametrize("x", [-3, 100, 2**16 - 1, 2**16, 2**16 + 1, 2**19 - 1, 3_000_000, np.arange(2**16 + 2) * 0.5])
def test_permutations_of_any_size(x):
    exactly(lambda j: j.random.permutation(j.random.key(5), x))


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize(
    "program",
    [
        lambda j, k: j.random.permutation(k, 2001),
        lambda j, k: j.random.permutation(k, np.arange(900.0).reshape(3, 300), 1),
        lambda j, k: j.random.choice(k, 2001, (7, 2), replace=False),
        lambda j, k: j.random.choice(k, np.arange(900.0).reshape(3, 300), (7, 2), replace=False, axis=1),
        lambda j, k: j.jit(lambda k: j.random.permutation(k, 2001))(k),
        lambda j, k: j.vmap(lambda k: j.random.permutation(k, 2001))(j.random.split(k, 3)),
        lambda j, k: j.jit(j.vmap(j.vmap(lambda k: j.random.permutation(k, 201))))(j.random.split(k, (2, 3))),
        lambda j, k: j.vmap(lambda x: j.random.permutation(k, x))(np.arange(600.0).reshape(3, 200)),
        lambda j, k: j.vmap(j.random.permutation)(j.random.split(k, 3), np.arange(600.0).reshape(3, 200)),
        lambda j, k: j.lax.scan(lambda k, _: (k, j.random.permutation(k, 201)), k, None, length=2)[1],
        lambda j, k: j.grad(lambda x: (j.random.permutation(k, x) ** 3)[:9].sum())(np.arange(200.0)),
        lambda j, k: j.jvp(lambda x: j.random.permutation(k, x), (np.arange(200.0),), (np.arange(200.0) ** 2,)),
    ],
)
def test_orders_sorted_in_place(program, x64, monkeypatch):
    monkeypatch.setattr(shuffles, "_LARGE", 100)
    with ExitStack() as stack:
        both(stack, "enable_x64", x64)
        exactly(lambda j: program(j, j.random.key(5)))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kinds", [1, 7, 300, 5000, 2**32])
@pytest.mark.parametrize("count", [1, 64, 1000, 1001])
def test_elements_with_equal_keys_keep_their_order(count, kinds, wide, monkeypatch):
    monkeypatch.setattr(shuffles, "_BLOCK", 64)
    random = np.random.default_rng(count + kinds)
    keys = random.integers(0, 2**32, kinds, dtype=np.uint32) if kinds < 2**32 else None
    rounds = [random.choice(keys, count) if keys is not None else random.integers(0, 2**32, count, np.uint32)
              for _ in range(3)]  # fmt: skip
    wanted = np.arange(count)
    for row in rounds:
        wanted = wanted[np.argsort(row, kind="stable")]
    found = shuffles.stably_sorted(count, [lambda a, b, row=row: row[a:b] for row in rounds], wide)
    assert found.dtype == (np.int64 if wide else np.int32)
    np.testing.assert_array_equal(found, wanted)


def test_an_order_takes_twice_its_memory():
    rounds = [np.random.default_rng(i).integers(0, 2**32, 2**21, dtype=np.uint32) for i in range(2)]
    tracemalloc.start()
    found = shuffles.stably_sorted(2**21, [lambda a, b, row=row: row[a:b] for row in rounds], False)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 1.05 * found.nbytes
    assert peak < 2.3 * found.nbytes


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,)])
def test_choices(replace, weighted, shape):
    p = (np.arange(10) / 45).astype("float32") if weighted else None
    for a, axis in ((10, 0), (np.arange(10.0), 0), (np.arange(30.0).reshape(3, 10), 1)):
        exactly(lambda j: j.random.choice(j.random.key(5), a, shape, replace, p, axis))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("mode", [None, "high", "highest"])
def test_categories(axis, mode):
    logits = np.log(np.random.default_rng(0).uniform(size=(5, 4, 3))).astype("float32")
    batch = tuple(np.delete(logits.shape, axis))
    exactly(lambda j: j.random.categorical(j.random.key(5), logits, axis, mode=mode))
    exactly(lambda j: j.random.categorical(j.random.key(5), logits, axis, (7, *batch), mode=mode))
    exactly(lambda j: j.random.categorical(j.random.key(5), logits, axis, (2, *batch), replace=False, mode=mode))


ALGORITHMS = [0, 1, 2]  # the default, Threefry, Philox


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rng_bit_generator_carries_its_counter_over(algorithm):
    for state in ([11, 22, 33, 44], [11, 22, 2**32 - 1, 2**32 - 1], [11, 22, 2**32 - 1, 1]):
        key = np.array(state, "uint32")
        for dtype in ("uint8", "uint16", "uint32"):
            exactly(lambda j: j.lax.rng_bit_generator(key, (3, 7), dtype, algorithm))


@pytest.mark.parametrize("shape", [(), (0,), (5,), (5, 3), (3, 4), (3, 5, 1), (2, 3)])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rng_bit_generator_of_wide_keys_and_batches(algorithm, shape):
    key = np.arange(8, dtype="uint32").reshape(2, 4)
    exactly(lambda j: j.vmap(lambda k: j.lax.rng_bit_generator(k, shape, "uint32", algorithm))(key))
    with ExitStack() as stack:
        both(stack, "enable_x64", True)
        exactly(
            lambda j: j.jit(lambda k: j.lax.rng_bit_generator(k, shape, "uint64", algorithm))(key.view("uint64")[1])
        )


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "uint32"])
def test_rng_uniform_draws_other_numbers_at_each_call(dtype):
    low, high = jnp.asarray(2, dtype), jnp.asarray(9, dtype)
    draw = jaxish.jit(lambda a, b: jnp.stack([jaxish.lax.rng_uniform(a, b, (4000,)) for _ in range(2)]))
    found = np.asarray(jnp.stack([*draw(low, high), *draw(low, high)])).astype("float64")
    steps = (found[:, None] == found[None]).mean(-1)[~np.eye(4, dtype=bool)]
    assert steps.max() < 0.25  # whole numbers are equal by chance one time in seven
    expected = 5.0 if "int" in dtype else 5.5
    np.testing.assert_allclose(found.mean(1), expected, atol=0.2)
    assert found.min() >= 2 and found.max() <= (8 if "int" in dtype else 9)
    assert draw(low, high).dtype == dtype


def test_rng_uniform_in_programs():
    draw = lambda j: j.lax.rng_uniform(3.0, 3.0, ())
    exactly(lambda j: j.lax.scan(lambda c, x: (c + x * draw(j), draw(j)), 0.0, np.arange(4, dtype="float32")))
    exactly(lambda j: j.jit(j.grad(lambda x: x * draw(j)))(2.0))
    exactly(lambda j: str(j.make_jaxpr(lambda a, b: j.lax.rng_uniform(a, b, (2, 3)))(0, 4)))


@pytest.mark.parametrize("dtype", ["bool", "complex64"])
def test_rng_uniform_of_what_has_no_order(dtype):
    with pytest.raises(TypeError, match="integers and floating-point numbers"):  # JAX aborts the process
        jaxish.lax.rng_uniform(jnp.zeros((), dtype), jnp.ones((), dtype), (3,))


@pytest.mark.parametrize("bad", [
    lambda j: j.lax.rng_uniform(0, 1.0, (3,)),
    lambda j: j.lax.rng_uniform(np.zeros(2), np.ones(2), (3,)),
    lambda j: j.lax.rng_uniform(0, 1, 3),
    lambda j: j.vmap(lambda a: j.lax.rng_uniform(a, 1.0, (3,)))(np.zeros(2, "float32")),
    lambda j: j.grad(lambda a: j.lax.rng_uniform(a, 1.0, ()))(0.0),
])  # fmt: skip
def test_rng_uniform_of_bad_arguments(bad):
    with pytest.raises((ValueError, TypeError, NotImplementedError)) as theirs:
        bad(jax)
    with pytest.raises(theirs.type, match=re.escape(str(theirs.value))):
        bad(jaxish)


BAD = [
    lambda j, k: j.random.normal(3, (3,)),
    lambda j, k: j.random.normal(j.random.split(k), (3,)),
    lambda j, k: j.random.normal(k, (3,), "int32"),
    lambda j, k: j.random.uniform(k, (3,), minval=np.zeros(2)),
    lambda j, k: j.random.bits(k, (3,), "int32"),
    lambda j, k: j.random.randint(k, (3,), 0, 10, "float32"),
    lambda j, k: j.random.randint(k, (3,), 0, 2**32),
    lambda j, k: j.random.randint(k, (3,), np.arange(2), 10),
    lambda j, k: j.random.permutation(k, 1.5),
    lambda j, k: j.random.choice(k, 3, (4,), False),
    lambda j, k: j.random.choice(k, 0, (4,)),
    lambda j, k: j.random.choice(k, 5, (4,), p=np.ones(4)),
    lambda j, k: j.random.choice(k, 5, 4),
    lambda j, k: j.random.bernoulli(k, 1),
    lambda j, k: j.random.bernoulli(k, 0.5, mode="x"),
    lambda j, k: j.random.gumbel(k, mode="x"),
    lambda j, k: j.random.gamma(k, np.ones(3), (2,)),
    lambda j, k: j.random.beta(k, np.ones(3), 1, dtype="int32"),
    lambda j, k: j.random.beta(k, 1 + 2j, 1),
    lambda j, k: j.random.dirichlet(k, 1.0),
    lambda j, k: j.random.multivariate_normal(k, np.ones(2), np.ones((3, 3))),
    lambda j, k: j.random.multivariate_normal(k, np.ones(2), np.eye(2), method="x"),
    lambda j, k: j.random.poisson(j.random.key(0, impl="rbg"), 1.0),
    lambda j, k: j.random.categorical(k, np.zeros(3, "float32"), shape=(5,), replace=False),
    lambda j, k: j.random.categorical(k, np.zeros((2, 3), "float32"), shape=(5,)),
    lambda j, k: j.random.orthogonal(k, 2.5),
    lambda j, k: j.jit(lambda n: j.random.permutation(k, n))(7),
]


@pytest.mark.parametrize("program", BAD)
def test_bad_arguments_raise_as_in_jax(program):
    agree(lambda j: program(j, j.random.key(1)))


@pytest.mark.parametrize("name", ["threefry4x32", "philox2x32", "philox4x32"])
def test_ciphers_of_counters(name):
    def program(j):
        key = j.random.key(3, impl=name)
        data, keys = j.random.key_data, j.random.split(key, (2, 3))
        bits = [j.random.bits(key, (7,), dtype) for dtype in ("uint8", "uint16", "uint32")]
        drawn = [j.random.normal(key, (4,)), j.random.permutation(key, 9), j.random.gamma(key, 2.0, (3,))]
        mapped = j.vmap(lambda k: j.random.uniform(k, (2,)))(keys[0]), j.jit(j.random.uniform)(key)
        return data(key), data(keys), data(j.random.fold_in(key, 7)), bits, drawn, mapped, str(j.random.key_impl(key))

    agree(program, rtol=0, atol=0)


def test_ciphers_of_counters_take_long_seeds():
    def program(j):
        with j.enable_x64(True):
            keys = [j.random.key(2**40 + 3, impl=n) for n in ("threefry4x32", "philox2x32", "philox4x32")]
            return [(j.random.key_data(k), j.random.bits(k, (3,), "uint64")) for k in keys]

    agree(program)
