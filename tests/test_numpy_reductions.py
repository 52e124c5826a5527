"""Reductions, running sums, sorting and quantiles against JAX."""

import warnings

import jax
import numpy as np
import pytest
from combinations import covering
from oracle import agree
from test_numpy_elementwise import LOOSE, array

import jaxish

pytestmark = pytest.mark.usefixtures("unoptimized_jax")

DTYPES = ["bool", "int8", "uint8", "uint32", "int32", "float16", "bfloat16", "float32", "complex64"]
REDUCTIONS = [
    "sum",
    "prod",
    "max",
    "min",
    "mean",
    "var",
    "std",
    "any",
    "all",
    "ptp",
    "amax",
    "amin",
    "nansum",
    "nanprod",
    "nanmax",
    "nanmin",
    "nanmean",
    "nanvar",
    "nanstd",
    "count_nonzero",
    "average",
    "argmax",
    "argmin",
    "nanargmax",
    "nanargmin",
    "median",
    "nanmedian",
]
RUNNING = ["cumsum", "cumprod", "nancumsum", "nancumprod"]
NANS = [[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan], [-np.inf, 2.0, np.nan], [4.0, 5.0, np.inf]]


@pytest.mark.parametrize("name, dtype, axis", covering(REDUCTIONS, DTYPES, [None, 0, -1]))
def test_reductions_agree_for_every_dtype_and_axis(name, dtype, axis):
    agree(
        lambda jax: getattr(jax.numpy, name)(array(jax, dtype).reshape(2, 3), axis=axis),
        rtol=LOOSE.get(dtype),
        atol=LOOSE.get(dtype),
    )


@pytest.mark.parametrize("name", ["sum", "mean", "max", "std", "any", "nansum", "flip", "expand_dims", "squeeze"])
def test_axes_may_be_a_range(name):
    agree(lambda jax: getattr(jax.numpy, name)(jax.numpy.ones((2, 1, 1)), axis=range(1, 3)))


def test_axes_that_are_moved_may_be_ranges():
    agree(lambda jax: jax.numpy.moveaxis(jax.numpy.ones((2, 3, 4)), range(2), range(1, 3)))
    agree(lambda jax: jax.numpy.roll(jax.numpy.arange(24).reshape(2, 3, 4), 1, axis=range(1, 3)))


@pytest.mark.parametrize("name", [*REDUCTIONS, *RUNNING])
def test_reductions_of_nans_and_infinities(name):
    agree(lambda jax: getattr(jax.numpy, name)(jax.numpy.array(NANS)))
    agree(lambda jax: getattr(jax.numpy, name)(jax.numpy.array(NANS), axis=1))


@pytest.mark.parametrize(
    "name", ["sum", "max", "mean", "var", "any", "prod", "nanmin", "median", "argmax", "ptp", "average"]
)
def test_keepdims_and_tuples_of_axes(name):
    x = np.arange(24.0).reshape(2, 3, 4)
    agree(lambda jax: getattr(jax.numpy, name)(x, keepdims=True))
    agree(lambda jax: getattr(jax.numpy, name)(x, axis=1, keepdims=True))
    agree(lambda jax: getattr(jax.numpy, name)(x, axis=(0, -1), keepdims=True))
    agree(lambda jax: getattr(jax.numpy, name)(x, axis=(0, 0)))
    agree(lambda jax: getattr(jax.numpy, name)(x, axis=3))
    agree(lambda jax: getattr(jax.numpy, name)(jax.numpy.float32(3)))
    if name != "average":  # JAX fails in its own way there
        agree(lambda jax: getattr(jax.numpy, name)([1, 2]))
    agree(lambda jax: getattr(jax.numpy, name)(x[:0], axis=0))
    agree(lambda jax: getattr(jax.numpy, name)(x[:0]))


def test_where_and_initial():
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    mask = np.array([[True, False, True], [False, False, False]])
    for name in ("sum", "prod", "mean", "var", "std", "any", "all", "nansum", "nanmean", "nanvar"):
        agree(lambda jax, n=name: getattr(jax.numpy, n)(x, axis=1, where=mask))
    for name in ("max", "min", "sum", "prod", "nanmax"):
        agree(lambda jax, n=name: getattr(jax.numpy, n)(x, axis=1, where=mask, initial=2))
        agree(lambda jax, n=name: getattr(jax.numpy, n)(x.astype(np.int8), axis=1, where=mask, initial=2))
    agree(lambda jax: jax.numpy.max(x, where=mask))
    agree(lambda jax: jax.numpy.sum(x, where=x))
    agree(lambda jax: jax.numpy.max(x, initial=np.ones(2)))
    agree(lambda jax: jax.numpy.max(x[:0], axis=0, initial=1))


def test_dtypes_and_other_options():
    x = np.arange(6, dtype=np.int8).reshape(2, 3)
    agree(lambda jax: jax.numpy.sum(x, dtype="float16"))
    agree(lambda jax: jax.numpy.sum(x, promote_integers=False))
    agree(lambda jax: jax.numpy.mean(x, dtype=int))
    agree(lambda jax: jax.numpy.var(x, ddof=1, axis=1))
    agree(lambda jax: jax.numpy.var(x, correction=6))
    agree(lambda jax: jax.numpy.var(x, ddof=1, correction=1))
    agree(lambda jax: jax.numpy.var(x, mean=jax.numpy.mean(x, axis=0, keepdims=True), axis=0))
    agree(lambda jax: jax.numpy.sum(x, out=x))
    agree(lambda jax: jax.numpy.average(x, weights=x + 1, axis=0, returned=True))
    agree(lambda jax: jax.numpy.average(x, weights=x[0], axis=1))
    agree(lambda jax: jax.numpy.average(x, weights=x[0]))
    agree(lambda jax: jax.numpy.std(x * 1j))
    agree(lambda jax: jax.numpy.cumsum(x, axis=1, dtype=float))
    agree(lambda jax: jax.numpy.cumulative_sum(x, axis=1, include_initial=True))
    agree(lambda jax: jax.numpy.cumulative_prod(x[0] + 1, include_initial=True))
    agree(lambda jax: jax.numpy.cumulative_sum(x))


@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
def test_the_correction_of_a_variance_is_an_array(name):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for less in (1, 3.0, np.float32(0.5), np.array([0, 1, 2, 3])):
        agree(lambda jax, d=less: getattr(jax.numpy, name)(x, 0, ddof=jax.numpy.asarray(d)), rtol=1e-6)
        agree(lambda jax, d=less: jax.jit(lambda d: getattr(jax.numpy, name)(x, 0, ddof=d))(d), rtol=1e-6)
    agree(lambda jax: jax.numpy.var(x, correction=jax.numpy.asarray(12)))
    agree(lambda jax: jax.grad(lambda d: jax.numpy.std(x, ddof=d))(1.0), rtol=1e-6)


def test_a_variance_of_an_integer_dtype_is_floating():
    x = np.arange(6, dtype=np.float32)
    agree(lambda jax: (jax.numpy.var(x, dtype=int), jax.numpy.var(x, dtype=int, ddof=6)))


@pytest.mark.parametrize("name", RUNNING)
def test_running_sums_agree_for_every_dtype(name):
    for dtype in DTYPES:
        agree(
            lambda jax, d=dtype: getattr(jax.numpy, name)(array(jax, d)), rtol=LOOSE.get(dtype), atol=LOOSE.get(dtype)
        )
    agree(lambda jax: getattr(jax.numpy, name)(np.ones((2, 3)), axis=2))


@pytest.mark.parametrize("name", ["sort", "argsort", "lexsort", "unique", "partition", "argpartition", "sort_complex"])
def test_sorting_agrees_for_every_dtype(name):
    for dtype in DTYPES:
        if "partition" in name:
            agree(lambda jax, d=dtype: getattr(jax.numpy, name)(array(jax, d), 3))
        elif name == "lexsort":
            agree(lambda jax, d=dtype: jax.numpy.lexsort((array(jax, d), array(jax, d, 2))))
        else:
            agree(lambda jax, d=dtype: getattr(jax.numpy, name)(array(jax, d)))
    if name in ("sort", "argsort"):
        x = np.array([[3.0, np.nan, 1.0, 3.0], [-0.0, 0.0, np.inf, -np.inf]], np.float32)
        for options in (
            {},
            {"axis": 0},
            {"axis": None},
            {"descending": True},
            {"stable": False},
            {"kind": "quicksort"},
        ):
            agree(lambda jax, o=options: getattr(jax.numpy, name)(x, **o))


@pytest.mark.parametrize("name", ["partition", "argpartition"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int8", "uint8", "uint32"])
def test_the_parts_are_in_jaxs_order(name, dtype):
    rng = np.random.default_rng(0)
    few, many = (rng.integers(0, n, (5, 4, 7)).astype(dtype) for n in (3, 100))
    if np.issubdtype(dtype, np.floating):
        for place, value in enumerate([np.nan, -0.0, 0.0, np.inf, -np.inf, np.nan]):
            few[:, place % 4, place] = value
    else:
        many[0, 0, 0] = np.iinfo(dtype).max
    for x in (few, many):
        for kth, axis in ((3, -1), (-3, -1), (0, 1), (-1, 0), (2, 0)):
            agree(lambda jax, x=x, k=kth, a=axis: getattr(jax.numpy, name)(x, k, a), at_once=True)
    agree(lambda jax: getattr(jax.numpy, name)(few, 7))
    agree(lambda jax: getattr(jax.numpy, name)(jax.lax.full((3,), 2.0), 1))  # of a weak type


def test_partition_has_derivatives_and_batches():
    x = np.random.default_rng(0).permutation(27).reshape(3, 9).astype(np.float32)
    weights = np.arange(27, dtype=np.float32).reshape(3, 9)
    agree(lambda jax: jax.grad(lambda x: (jax.numpy.partition(x, 4) * weights).sum())(x))
    agree(lambda jax: jax.vmap(lambda x: jax.numpy.partition(x, 4))(x))


QUANTILES = ["quantile", "nanquantile", "percentile", "nanpercentile"]
METHODS = ["linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf"]
# Levels that fall between elements: on one, the last bit of the level decides.
LEVELS = [(0.33, False), (np.array([0.12, 0.45, 0.77]), False), (0.5, True)]


@pytest.mark.parametrize("name, method, level, axis", covering(QUANTILES, METHODS, LEVELS, [None, 0, 1, (0, 1)]))
def test_quantiles(name, method, level, axis):
    x = np.array([[3.0, 1.0, 4.0, 1.5], [9.0, np.nan, 6.0, 5.0], [2.0, 7.0, 1.0, 8.0]], np.float32)
    scale = 100 if "percentile" in name else 1
    q, keepdims = level
    if keepdims:
        axis = 1  # the middle of four elements; of three it is an element
    agree(lambda jax: getattr(jax.numpy, name)(x, q * scale, axis=axis, method=method, keepdims=keepdims))
    agree(lambda jax: getattr(jax.numpy, name)(x, 0.5 * scale, axis=1, method=method, weights=np.ones(4)))


def test_searching():
    edges = np.array([-1.0, 0.0, 0.0, 2.0, np.inf], np.float32)
    x = np.array([[-2.0, -1.0, 0.0], [1.0, np.inf, np.nan]], np.float32)
    for side in ("left", "right"):
        agree(lambda jax, s=side: jax.numpy.searchsorted(edges, x, side=s))
        agree(lambda jax, s=side: jax.numpy.searchsorted(edges[:4].astype(int), 0, side=s))
        agree(lambda jax, s=side: jax.numpy.digitize(x[0], edges[:4], right=s == "left"))
        agree(lambda jax, s=side: jax.numpy.digitize(x[0], edges[3::-1], right=s == "left"))
    agree(lambda jax: jax.numpy.searchsorted(edges[:3][::-1], x, sorter=np.array([2, 1, 0])))
    agree(lambda jax: jax.numpy.searchsorted(edges, x, side="middle"))


@pytest.mark.parametrize("method", ["scan", "sort", "compare_all"])
def test_places_are_of_32_bits_beside_numbers_of_64(method):
    edges, x = np.array([-1.0, 0.0, 2.0]), np.array([-2.0, 1.0, 3.0])
    with jax.enable_x64(True), jaxish.enable_x64(True):
        agree(lambda jax: jax.numpy.searchsorted(edges, x, method=method))
        agree(lambda jax: jax.numpy.digitize(x, edges, method=method))
        agree(lambda jax: jax.random.choice(jax.random.key(0), 3, (4,), p=np.array([0.2, 0.3, 0.5])))


def test_sets():
    a, b = np.array([3, 1, 2, 3, 7, 7]), np.array([[7, 3], [9, 9]])

    def program(jax):
        jnp = jax.numpy
        out = [
            jnp.unique(a, True, True, True),
            jnp.unique(np.array([[1, 2], [1, 2], [0, 5]]), axis=0, return_inverse=True),
            jnp.union1d(a, b),
            jnp.intersect1d(a, b),
            jnp.intersect1d(a, b, return_indices=True),
            jnp.setdiff1d(a, b),
            jnp.setxor1d(a, b),
            jnp.isin(a, b),
            jnp.isin(a, b, invert=True),
            jnp.unique(np.array([np.nan, 1.0, np.nan])),
            jnp.unique_all(a),
            jnp.unique_counts(np.array([np.nan, np.nan, 1.0])),
            jnp.unique_inverse(b),
            jnp.unique_values(a),
        ]
        for size in (2, 5):
            out += [
                jnp.unique(a, True, True, True, size=size),
                jnp.unique(a, size=size, fill_value=-1),
                jnp.union1d(a, b, size=size),
                jnp.intersect1d(a, b, size=size),
                jnp.setdiff1d(a, b, size=size),
                jnp.setxor1d(a, b, size=size),
                jnp.intersect1d(a, b, return_indices=True, size=size),
                jnp.setxor1d(a, b, size=size, fill_value=0),
            ]
        return [tuple(o) if isinstance(o, tuple) else o for o in out]

    agree(program)
    agree(lambda jax: jax.jit(jax.numpy.unique)(a))
    agree(lambda jax: jax.jit(lambda x: jax.numpy.setxor1d(x, b, size=4))(a))


NOTHING, NOTHING_WIDE = np.zeros(0, np.uint8), np.zeros((2, 0), np.int32)
SETS_AT_THE_EDGE = {
    "empty": lambda jnp: [*jnp.unique_all(NOTHING), *jnp.unique_inverse(NOTHING_WIDE)],
    "slices without elements": lambda jnp: [*jnp.unique(NOTHING_WIDE, True, True, True, 0)],
    "filled": lambda jnp: [
        jnp.setdiff1d(NOTHING, NOTHING, size=2, fill_value=9),
        jnp.setxor1d(NOTHING, NOTHING, size=2),
    ],
    "NaN fills": lambda jnp: jnp.setxor1d(np.array([1, np.nan, 2], np.float32), np.array([2], np.float32), size=5),
    "a number fills booleans": lambda jnp: jnp.setxor1d(np.array([True]), np.array([False]), size=4, fill_value=-1),
}


@pytest.mark.parametrize("name", SETS_AT_THE_EDGE)
def test_sets_at_the_edge(name):
    agree(lambda jax: SETS_AT_THE_EDGE[name](jax.numpy))


@pytest.mark.parametrize(
    "name", ["sum", "mean", "var", "std", "prod", "max", "min", "cumsum", "cumprod", "sort", "median", "ptp"]
)
def test_derivatives_of_reductions(name):
    def program(jax):
        x = jax.numpy.array([[1.0, 4.0, 2.0], [3.0, 0.5, 2.5]])
        f = getattr(jax.numpy, name)
        first = jax.grad(lambda v: (f(v, axis=1) ** 2).sum())
        return first(x), jax.jvp(lambda v: f(v, axis=0), (x,), (x * 2,))[1], jax.grad(lambda v: first(v).sum())(x)

    agree(program, rtol=1e-4, atol=1e-4)


def test_histograms_and_statistics():
    x = np.array([0.1, 0.5, 0.5, 0.9, 2.0, 3.0], np.float32)
    y = np.array([1.0, -1.0, 0.5, 2.0, 0.0, 1.5], np.float32)

    def program(jax):
        jnp = jax.numpy
        return [
            jnp.histogram(x, 4),
            jnp.histogram(x, np.array([0.0, 1.0, 3.0])),
            jnp.histogram(x, 3, (0, 2), weights=y),
            jnp.histogram(x, 4, density=True),
            jnp.histogram(np.array([1, 2, 3, 10, 11, 15, 19, 25]), range=(0, 25), bins=5)[0],
            jnp.histogram2d(x, y, 3),
            jnp.histogramdd(np.stack([x, y], 1), [2, 3]),
            jnp.histogramdd(np.stack([x, y], 1), 2, density=True),
            jnp.bincount(np.array([1, 1, 4, -2])),
            jnp.bincount(np.array([1, 1, 4]), weights=x[:3], length=3),
            jnp.bincount(np.array([2]), minlength=5),
            jnp.cov(np.stack([x, y])),
            jnp.cov(x, y, ddof=0),
            jnp.cov(x, fweights=np.arange(6)),
            jnp.cov(x, y, aweights=x),
            jnp.corrcoef(x, y),
            jnp.cov(x),
            jnp.corrcoef(np.stack([x, y], 1), rowvar=False),
            jnp.cov(x * 1j),
        ]

    agree(program, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "name", ["sum", "prod", "mean", "var", "std", "max", "all", "any", "nansum", "ptp", "count_nonzero"]
)
def test_keepdims_takes_any_truth_value(name):
    for keepdims in (1, 0, None):
        for axis in (None, 1):
            agree(
                lambda jax, k=keepdims, a=axis: getattr(jax.numpy, name)(
                    np.arange(6.0).reshape(2, 3), axis=a, keepdims=k
                )
            )


@pytest.mark.parametrize("dtype", ["bool", "int32", "int8", "float16"])
def test_dtypes_of_moments(dtype):
    for name in ("mean", "std", "var"):
        if (name, dtype) in (("var", "int32"), ("var", "int8")):
            continue  # JAX answers in a floating dtype
        agree(lambda jax, n=name: getattr(jax.numpy, n)(np.arange(6.0), dtype=dtype))


@pytest.mark.parametrize(
    "cast",
    [
        lambda jnp, x: jnp.sum(x, dtype="float32"),
        lambda jnp, x: jnp.mean(x, dtype="float32"),
        lambda jnp, x: jnp.cumsum(x, dtype="int32"),
        lambda jnp, x: jnp.asarray(x, "float32"),
        lambda jnp, x: jnp.float32(x),
        lambda jnp, x: jnp.concatenate([x, x], dtype="float32"),
        lambda jnp, x: jnp.full((2,), x[0], "float32"),
        lambda jnp, x: x.astype("float32"),
    ],
)
def test_dropping_imaginary_parts_warns(cast):
    def categories(jax):
        x = jax.numpy.array([1 + 2j, 3])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = cast(jax.numpy, x)
        return found, len(caught), caught[0].category is np.exceptions.ComplexWarning

    agree(categories)
