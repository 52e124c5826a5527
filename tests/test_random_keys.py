"""Typed keys: arrays that are moved like any others, compared, and computed with by nothing."""

import operator
import pickle
from contextlib import ExitStack

import jax
import numpy as np
import pytest
from oracle import agree

import jaxish

MOVES = [
    lambda j, k: k[0],
    lambda j, k: k[1, 2],
    lambda j, k: k[:, None],
    lambda j, k: k[::-1, 1:3],
    lambda j, k: k[np.array([0, 2])],
    lambda j, k: k[np.array([True, False, True])],
    lambda j, k: list(k),
    lambda j, k: k.reshape(-1),
    lambda j, k: j.numpy.reshape(k, (2, 6)),
    lambda j, k: k.ravel(),
    lambda j, k: k.flatten(),
    lambda j, k: k.T,
    lambda j, k: j.numpy.transpose(k),
    lambda j, k: j.numpy.stack([k, k]),
    lambda j, k: j.numpy.concatenate([k, k[:1]]),
    lambda j, k: j.numpy.expand_dims(k, 1),
    lambda j, k: j.numpy.squeeze(k[:1]),
    lambda j, k: j.numpy.broadcast_to(k[0], (2, 4)),
    lambda j, k: j.numpy.where(np.arange(4) > 1, k, k[0, 0]),
    lambda j, k: j.numpy.take(k, np.array([1, 0]), axis=1),
    lambda j, k: k.at[0].set(k[1]),
    lambda j, k: k.at[0, 1].get(),
    lambda j, k: j.numpy.asarray(k),
    lambda j, k: j.numpy.array([k[0, 0], k[1, 1]]),
    lambda j, k: j.numpy.swapaxes(k, 0, 1),
    lambda j, k: j.numpy.moveaxis(k, 0, 1),
    lambda j, k: j.numpy.flip(k, 0),
    lambda j, k: j.numpy.tile(k, (2, 1)),
    lambda j, k: j.numpy.split(k, 3),
    lambda j, k: j.numpy.zeros_like(k),
    lambda j, k: j.numpy.full_like(k, k[0, 0]),
    lambda j, k: j.lax.select(j.numpy.array(True), k, k),
    lambda j, k: j.lax.dynamic_index_in_dim(k, 1, 0),
    lambda j, k: j.lax.dynamic_update_slice(k, k[:1], (1, 0)),
    lambda j, k: j.lax.concatenate([k, k], 0),
    lambda j, k: j.vmap(lambda a: a[0])(k),
    lambda j, k: j.vmap(lambda a: a, out_axes=1)(k),
    lambda j, k: j.vmap(j.vmap(lambda a: j.random.fold_in(a, 3)))(k),
    lambda j, k: j.vmap(lambda i: k[i])(np.array([0, 2])),
    lambda j, k: j.jit(lambda i: k[i])(1),
    lambda j, k: j.jit(lambda a: {"x": j.numpy.stack([a, a])})(k),
    lambda j, k: j.lax.scan(lambda c, x: (j.random.split(c)[0], x), k[0, 0], k),
    lambda j, k: j.lax.cond(True, lambda a: a[0], lambda a: a[1], k),
    lambda j, k: j.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, j.random.split(c[1])[0]), (0, k[0, 0]))[1],
    lambda j, k: j.lax.fori_loop(0, 3, lambda i, c: j.random.fold_in(c, i), k[0, 0]),
    lambda j, k: j.tree_util.tree_map(lambda a: a, {"k": k}),
    lambda j, k: j.numpy.stack(arrays=[k, k], dtype=k.dtype),
    lambda j, k: j.numpy.asarray(k, dtype=k.dtype),
    lambda j, k: j.numpy.astype(k, k.dtype),
    lambda j, k: j.numpy.full((2, 3), k[0, :3]),
    lambda j, k: j.numpy.full((2,), 3.7, k.dtype),
    lambda j, k: j.numpy.full_like(k, 7, shape=(2,)),
    lambda j, k: [f((2,), k.dtype) for f in (j.numpy.zeros, j.numpy.ones, j.numpy.empty)],
    lambda j, k: j.lax.full((2,), k[0, 0]),
    lambda j, k: j.lax.full_like(k, 0),
    lambda j, k: j.lax.convert_element_type(k, k.dtype),
    lambda j, k: j.lax.select_n(j.numpy.array([2, 0, 1]), k[:, 0], k[:, 1], k[:, 2]),
    lambda j, k: j.lax.index_take(k, (np.array([2, 0]),), (0,)),
    lambda j, k: j.lax.broadcast_to_rank(k, 3),
    lambda j, k: j.lax.scatter(k[0], np.array([[1]]), k[1, :1], j.lax.ScatterDimensionNumbers((0,), (), (0,))),
    lambda j, k: j.lax.gather(k[0], np.array([[1], [3]]), j.lax.GatherDimensionNumbers((), (0,), (0,)), (1,)),
    lambda j, k: (j.numpy.atleast_1d(k[0, 0]), j.numpy.atleast_2d(k[0], k[0, 0]), j.numpy.atleast_3d(k)),
    lambda j, k: j.numpy.insert(k, 1, k[2], 0),
    lambda j, k: (j.numpy.diag(k, 1), j.numpy.diagflat(k[0]), j.numpy.tril(k), j.numpy.triu(k, 1)),
    lambda j, k: j.numpy.fill_diagonal(k, k[2, 2], inplace=False),
    lambda j, k: j.numpy.choose(np.array([2, 0, 1, 1]), list(k)),
    lambda j, k: j.numpy.select([np.arange(4) > 1], [k], k[0, 0]),
    lambda j, k: j.numpy.compress(np.array([True, False, True]), k, 0),
    lambda j, k: j.numpy.extract(np.arange(12) > 8, k),
    lambda j, k: j.numpy.put_along_axis(k, np.array([[1], [2], [0]]), k[0, 0], 1, inplace=False),
    lambda j, k: j.numpy.place(k, np.arange(12).reshape(3, 4) > 8, k[0], inplace=False),
    lambda j, k: j.numpy.pad(k, ((1, 0), (0, 2)), mode="wrap"),
    lambda j, k: (j.numpy.block([[k, k], [k, k]]), j.numpy.c_[k[0], k[1]], j.numpy.column_stack([k, k])),
    lambda j, k: j.numpy.meshgrid(k[0], k[:, 0]),
    lambda j, k: j.numpy.meshgrid(k[0], np.arange(2.0), indexing="ij")[0],
    lambda j, k: j.numpy.broadcast_arrays(k[0], k, np.ones((2, 1, 1)))[:2],
    lambda j, k: j.numpy.ix_(k[0], k[1]),
    lambda j, k: (j.numpy.fft.fftshift(k), j.numpy.fft.fftshift(k[0, 0])),
    lambda j, k: j.random.choice(k[0, 0], k, (2,), axis=1),
    lambda j, k: j.random.choice(k[0, 0], k[0], (2,), False, p=np.array([0.1, 0.2, 0.3, 0.4])),
    lambda j, k: j.random.choice(k[0, 0], k, (0,)),
    lambda j, k: j.random.clone(k),
    lambda j, k: j.random.wrap_key_data(j.random.key_data(k)),
]


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
@pytest.mark.parametrize("move", MOVES)
def test_keys_are_moved_like_any_elements(move, impl):
    def program(j):
        keys = j.random.split(j.random.key(3, impl=impl), (3, 4))
        return j.tree_util.tree_map(j.random.key_data, move(j, keys))

    agree(program)


COMPARISONS = [
    lambda j, k: k == k[0],
    lambda j, k: k != k[:, :1],
    lambda j, k: (j.lax.eq(k, k[::-1]), j.lax.ne(k, k[::-1])),
    lambda j, k: (j.numpy.array_equal(k, k), j.numpy.array_equal(k, k[0]), j.numpy.array_equal(k, k[::-1])),
    lambda j, k: j.numpy.array_equiv(k, k[0]),
    lambda j, k: (j.numpy.isnan(k), j.numpy.isfinite(k), j.numpy.isinf(k)),
    lambda j, k: j.jit(lambda a: j.numpy.isnan(a) | (a == a[0]))(k),
    lambda j, k: j.numpy.zeros_like(k, dtype="float32"),
]


@pytest.mark.parametrize("compare", COMPARISONS)
def test_keys_are_equal_where_all_their_words_are(compare):
    agree(lambda j: compare(j, j.random.split(j.random.key(3), (3, 4))))


REFUSED = [
    lambda j, k: k + 1,
    lambda j, k: k * 2.0,
    lambda j, k: k == 0,
    lambda j, k: -k,
    lambda j, k: abs(k),
    lambda j, k: k < k,
    lambda j, k: j.numpy.sin(k),
    lambda j, k: j.numpy.sum(k),
    lambda j, k: j.numpy.cumsum(k),
    lambda j, k: j.numpy.where(True, k, 0),
    lambda j, k: j.numpy.concatenate([k, np.zeros((1, 4))]),
    lambda j, k: k.at[0].set(0),
    lambda j, k: j.numpy.sort(k),
    lambda j, k: j.lax.add(k, k),
    lambda j, k: np.asarray(k),
    lambda j, k: hash(k),
    lambda j, k: bool(k),
    lambda j, k: float(k[0, 0]),
    lambda j, k: len(k[0, 0]),
    lambda j, k: list(k[0, 0]),
    lambda j, k: j.random.split(k),
    lambda j, k: j.random.key(k[0, 0]),
    lambda j, k: j.random.key(np.arange(2)),
    lambda j, k: j.random.key(1.5),
    lambda j, k: j.random.key(0, impl="none"),
    lambda j, k: j.random.key(0, impl=3),
    lambda j, k: j.random.key(0, impl="rbg", dtype="rbg"),
    lambda j, k: j.random.key(2**64),
    lambda j, k: j.random.fold_in(k[0, 0], -1),
    lambda j, k: j.random.fold_in(k[0, 0], np.arange(2)),
    lambda j, k: j.random.wrap_key_data(np.zeros(3, "uint32")),
    lambda j, k: j.random.wrap_key_data(np.zeros(2, "int32")),
    lambda j, k: j.random.wrap_key_data([0, 1]),
    lambda j, k: j.grad(lambda a: 1.0)(k[0, 0]),
    lambda j, k: j.numpy.asarray(k, dtype="uint32"),
    lambda j, k: j.numpy.array([k, k], dtype="float32"),
    lambda j, k: j.numpy.stack([k, k], dtype="uint32"),
    lambda j, k: j.numpy.full((2,), k[0, 0], "uint32"),
    lambda j, k: j.numpy.full_like(k, k[0, 0], dtype="float32"),
    lambda j, k: j.numpy.astype(np.ones(3), k.dtype),
    lambda j, k: j.lax.convert_element_type(k, "uint32"),
    lambda j, k: j.numpy.pad(k, 1),
    lambda j, k: j.numpy.pad(k, 1, mode="reflect", reflect_type="odd"),
    lambda j, k: j.numpy.diff(k),
    lambda j, k: j.numpy.diff(np.ones(3), prepend=k[0, 0]),
    lambda j, k: j.numpy.ediff1d(k),
    lambda j, k: j.numpy.from_dlpack(k),
    lambda j, k: j.numpy.insert(k, 1, 0),
    lambda j, k: j.numpy.select([np.arange(4) > 1], [k]),
    lambda j, k: j.numpy.all(k),
    lambda j, k: j.numpy.zeros(k),
    lambda j, k: j.numpy.argmax(k),
    lambda j, k: j.random.choice(k[0, 0], k[0, 0]),
    lambda j, k: j.random.randint(k[0, 0], (2,), k[0, 1], 3),
    lambda j, k: k.sum(),
    lambda j, k: k.astype("uint32"),
    lambda j, k: k.view("uint32"),
    lambda j, k: k.real,
    lambda j, k: k.__dlpack__(),
]


@pytest.mark.parametrize("compute", REFUSED)
def test_keys_take_part_in_no_arithmetic(compute):
    agree(lambda j: compute(j, j.random.split(j.random.key(3), (3, 4))))


def test_the_error_names_both_dtypes():
    with pytest.raises(TypeError, match=r"add does not accept dtypes key<fry>, int32\."):
        jaxish.random.key(0) + 1
    with pytest.raises(TypeError, match=r"add does not accept dtype key<fry>\."):  # as JAX says it
        jaxish.random.key(0) + jaxish.random.key(0)
    for unary, name in ((operator.neg, "neg"), (abs, "abs")):
        with pytest.raises(TypeError, match=rf"{name} does not accept dtype key<fry>\."):  # as JAX says it
            unary(jaxish.random.key(0))


def test_the_identity_takes_keys():
    agree(lambda j: j.random.key_data(j.nn.identity(j.random.key(1))))


def test_what_a_key_array_says_of_itself():
    for seed in (0, 5):
        for impl in ("threefry2x32", "rbg", "unsafe_rbg"):
            found, wanted = (j.random.split(j.random.key(seed, impl=impl)) for j in (jaxish, jax))
            for name in ("shape", "ndim", "size", "nbytes", "itemsize"):
                assert getattr(found, name) == getattr(wanted, name)
            assert (str(found), repr(found), str(found.dtype)) == (str(wanted), repr(wanted), str(wanted.dtype))
            assert jaxish.random.key_impl(found) == jax.random.key_impl(wanted)
            assert jaxish.dtypes.issubdtype(found.dtype, jaxish.dtypes.prng_key)
            assert found.dtype == jaxish.random.key_dtype(impl)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_programs_are_traced_for_key_types(impl):
    def program(j):
        one, several = (j.ShapeDtypeStruct(shape, j.random.key_dtype(impl)) for shape in ((), (2, 3)))
        found = [
            j.eval_shape(j.random.normal, one),
            j.eval_shape(lambda k: j.random.split(k, 3), one),
            j.eval_shape(lambda k: k.T, several),
            j.jit(lambda k: k[0]).lower(several).out_info,
        ]
        return [(x.shape, str(x.dtype)) for x in found]

    agree(program)


def test_jaxprs_show_key_types():
    for function in (lambda k: k, lambda k: (k, k)):
        texts = [str(j.make_jaxpr(function)(j.random.key(0))) for j in (jaxish, jax)]
        assert texts[0] == texts[1]
    jaxpr = jaxish.make_jaxpr(jaxish.random.split)(jaxish.random.key(0)).jaxpr
    assert [str(v.aval) for v in (*jaxpr.invars, *jaxpr.outvars)] == ["key<fry>[]", "key<fry>[2]"]


def test_a_permutation_moves_keys():
    key, keys = jaxish.random.key(0), jaxish.random.split(jaxish.random.key(1), (4, 3))
    order = jaxish.random.permutation(key, 3)
    assert jaxish.numpy.array_equal(jaxish.random.permutation(key, keys, 1), keys[:, order])


def test_keys_are_pickled():
    keys = jaxish.random.split(jaxish.random.key(1))
    assert (pickle.loads(pickle.dumps(keys)) == keys).all()


FLAGS = [
    ("enable_custom_prng", True, lambda j: j.random.key_data(j.random.PRNGKey(1))),
    ("default_prng_impl", "rbg", lambda j: (j.random.PRNGKey(3), j.random.key_data(j.random.key(3)))),
    ("legacy_prng_key", "error", lambda j: j.random.normal(j.random.PRNGKey(3))),
    ("threefry_partitionable", False, lambda j: j.random.split(j.random.PRNGKey(3), 5)),
]


@pytest.mark.parametrize("flag, value, program", FLAGS)
def test_flags(flag, value, program):
    with ExitStack() as stack:
        for library in (jax, jaxish):
            stack.enter_context(getattr(library, flag)(value))
        agree(program)


def test_a_key_that_was_consumed_is_refused_while_reuse_is_debugged():
    def outcomes(j):
        seen = []
        with j.debug_key_reuse(True):
            key = j.random.key(0)
            j.random.normal(key)
            for use in (
                j.random.normal,
                j.random.split,
                j.random.bits,
                lambda k: j.random.fold_in(k, 1),
                j.random.clone,
            ):
                try:
                    use(key)
                    seen.append("fine")
                except j.errors.KeyReuseError:
                    seen.append("refused")
        return seen

    assert outcomes(jaxish) == outcomes(jax)


def test_a_generator_of_ones_own():
    def program(j):
        def words(key, count):
            return j.numpy.arange(count, dtype="uint32") * j.numpy.uint32(2654435761) + key[0]

        impl = j.extend.random.define_prng_impl(
            key_shape=(1,),
            seed=lambda seed: j.numpy.reshape(seed, (1,)).astype("uint32"),
            split=lambda key, shape: words(key, int(np.prod(shape))).reshape((*shape, 1)),
            random_bits=lambda key, width, shape: words(key, int(np.prod(shape))).reshape(shape).astype(f"uint{width}"),
            fold_in=lambda key, data: key + data,
        )
        key = j.random.key(5, impl=impl)
        return j.random.normal(key, (4,)), j.random.randint(j.random.split(key)[1], (5,), 0, 9), str(key.dtype)

    import jax.extend.random  # noqa: F401

    import jaxish.extend  # noqa: F401

    agree(program)
