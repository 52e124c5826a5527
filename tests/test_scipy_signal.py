"""jax.scipy.signal against JAX's: convolutions, trends, spectra, and their transformations."""

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
from combinations import covering
from oracle import agree

import jaxish

pytestmark = pytest.mark.usefixtures("unoptimized_jax")

MODES = ["full", "same", "valid"]
LOOSE: dict[str, Any] = {"rtol": 1e-3, "atol": 1e-4}


def draw(shape, dtype="float32"):
    rng = np.random.default_rng(sum(shape))
    x = 3 * rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape)).astype(dtype) if dtype.startswith("complex") else x.astype(dtype)


DTYPES = ["float32", "int32", "complex64", "bool"]
SHAPES = [
    ((5,), (3,)), ((3,), (6,)), ((4,), (4,)), ((3,), (1,)), ((5, 4), (2, 3)), ((2, 2), (3, 4)), ((2, 3, 2), (3, 4, 2)),
    ((5, 4), (1, 3)), ((2, 4), (3, 1)),
]  # fmt: skip
CONVOLUTIONS = covering(["convolve", "correlate"], SHAPES, DTYPES, MODES, ["auto", "fft", "direct"])
FLAT = covering(["convolve2d", "correlate2d"], [s for s in SHAPES if len(s[0]) == 2], DTYPES, MODES)


@pytest.mark.parametrize("name, shapes, dtype, options", [
    *((name, shapes, dtype, options) for name, shapes, dtype, *options in [*CONVOLUTIONS, *FLAT]),
    *((name, shapes, "float32", ["full"])
      for name in ["convolve", "correlate", "fftconvolve"] for shapes in [((0,), (2,)), ((3,), (3, 2))]),
    *((name, shapes, "float32", ["full"])
      for name in ["convolve2d", "correlate2d"] for shapes in [((5,), (3,)), ((2, 3, 2), (3, 4, 2)), ((3,), (3, 2))]),
    *((name, SHAPES[4], "float32", ["full", "slow"]) for name in ["convolve", "correlate"]),
    *((name, SHAPES[4], "float32", ["some"])
      for name in ["convolve", "correlate", "convolve2d", "correlate2d", "fftconvolve"]),
])  # fmt: skip
def test_convolutions(name, shapes, dtype, options):
    x, y = draw(shapes[0], dtype), draw(shapes[1], dtype)
    agree(lambda j: getattr(j.scipy.signal, name)(x, y, *options), **LOOSE)


@pytest.mark.parametrize("shapes, axes, dtype, mode", covering(SHAPES, [0, -1, (0, 1), (1,), ()], DTYPES, MODES))
def test_convolutions_along_axes(shapes, axes, dtype, mode):
    x, y = draw(shapes[0], dtype), draw(shapes[1], dtype)
    agree(lambda j: j.scipy.signal.fftconvolve(x, y, mode, axes), **LOOSE)


LARGE = [((17,), (1,)), ((40,), (11,)), ((100,), (14,)), ((19, 40), (5, 8)), ((2, 40, 3), (1, 22, 17)), ((0,), (60,))]


@pytest.mark.parametrize("shapes, dtype, mode", covering(LARGE, DTYPES, MODES))
def test_convolutions_of_sizes_with_large_factors(shapes, dtype, mode):
    x, y = draw(shapes[0], dtype), draw(shapes[1], dtype)
    agree(lambda j: j.scipy.signal.fftconvolve(x, y, mode), **LOOSE)


def test_transforms_for_convolutions_have_sizes_with_small_factors():
    function = jaxish.jit(jaxish.scipy.signal.fftconvolve)
    made = function.trace(draw((700, 31)), draw((10, 7)))._program.closed.graph.module.graph.nodes
    sizes = {n for node in made if "fft_r2c" in node.name for n in node.meta["val"].shape}
    assert sizes == {720, 40 // 2 + 1}


def test_convolutions_refuse_other_boundaries():
    x = draw((3, 3))
    agree(lambda j: j.scipy.signal.convolve2d(x, x, boundary="wrap"))
    agree(lambda j: j.scipy.signal.correlate2d(x, x, fillvalue=1))


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "complex64"])
@pytest.mark.parametrize("shape", [(5,), (4, 5), (3, 4, 5)])
def test_detrend(shape, dtype):
    x = draw(shape, dtype)
    for axis, kind, breaks in itertools.product(
        [0, -1, 3], ["constant", "linear", "some"], [0, [0, 2], [1, 2, 3], 9, -1]
    ):
        agree(lambda j: j.scipy.signal.detrend(x, axis, kind, breaks), **LOOSE)
    agree(lambda j: j.scipy.signal.detrend(x, overwrite_data=True))


CUTS = [
    {}, {"nperseg": 7}, {"nperseg": 8, "noverlap": 3}, {"nperseg": 8, "nfft": 12}, {"nperseg": 8, "window": "triang"},
    {"window": np.ones(6, "float32")}, {"window": ("kaiser", 2.0), "nperseg": 9, "noverlap": 8},
    {"fs": 100.0, "nperseg": 8}, {"axis": 0}, {"axis": 0, "nperseg": 1}, {"nperseg": 8, "return_onesided": False},
]  # fmt: skip
WRONG = [
    {"nperseg": 8, "nfft": 4}, {"nperseg": 8, "noverlap": 8}, {"nperseg": 0}, {"window": np.ones(6, "float32"), "nperseg": 7},
    {"window": np.ones((6, 2), "float32")}, {"window": np.ones(600, "float32")}, {"axis": 3}, {"detrend": "some"},
]  # fmt: skip
REAL = ["float32", "int32"]
DETRENDING = [False, None, "constant", "linear", True]
BOUNDARIES = ["even", "odd", "constant", "zeros", None]
SCALING, AVERAGE = ["density", "spectrum"], ["mean", "median"]


def spectrum(name, dtype, options):
    x, y = draw((2, 40), dtype), draw((2, 33), dtype)
    agree(lambda j: getattr(j.scipy.signal, name)(x, *[y] * (name == "csd"), **options), **LOOSE)


@pytest.mark.filterwarnings("ignore:nperseg", "ignore:Input data is complex")
@pytest.mark.parametrize("cut, dtype, detrend, boundary, padded", [
    *covering(CUTS, REAL, DETRENDING, BOUNDARIES, [True, False]),
    *covering(CUTS, ["complex64"], [False], BOUNDARIES, [True, False]),
])  # fmt: skip
def test_short_time_spectra(cut, dtype, detrend, boundary, padded):
    spectrum("stft", dtype, {"detrend": detrend, "boundary": boundary, "padded": padded, **cut})


@pytest.mark.filterwarnings("ignore:nperseg", "ignore:Input data is complex")
@pytest.mark.parametrize("name, cut, dtype, detrend, scaling, average", [
    *covering(["welch", "csd"], CUTS, REAL, DETRENDING, SCALING, AVERAGE),
    *covering(["welch", "csd"], CUTS, ["complex64"], [False], SCALING, AVERAGE),
])  # fmt: skip
def test_densities(name, cut, dtype, detrend, scaling, average):
    spectrum(name, dtype, {"detrend": detrend, "scaling": scaling, "average": average, **cut})


@pytest.mark.filterwarnings("ignore:nperseg", "ignore:Input data is complex")
@pytest.mark.parametrize("name, dtype, options", [
    *itertools.product(["stft", "welch", "csd"], [*REAL, "complex64"], WRONG),
    *itertools.product(["welch", "csd"], [*REAL, "complex64"], [{"scaling": "some"}, {"average": "some"}]),
    *itertools.product(["stft"], [*REAL, "complex64"], [{"boundary": "some"}]),
])  # fmt: skip
def test_spectra_that_are_refused(name, dtype, options):
    spectrum(name, dtype, {"detrend": False, **options})


def test_spectra_of_other_signals():
    x, y = draw((2, 40)), draw((50,))
    agree(lambda j: j.scipy.signal.csd(x, y, nperseg=8))
    agree(lambda j: j.scipy.signal.csd(x, draw((3, 4)), nperseg=8))
    agree(lambda j: j.scipy.signal.csd(x, None, nperseg=8), **LOOSE)
    agree(lambda j: j.scipy.signal.stft(y, nperseg=8, boundary="odd"), **LOOSE)
    agree(lambda j: j.scipy.signal.stft(y[:3], window=np.ones(3, "float32"), boundary="odd"), **LOOSE)
    agree(lambda j: j.scipy.signal.welch(y, nperseg=8, detrend=lambda d: d - d.mean(0, keepdims=True)), **LOOSE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        agree(lambda j: j.scipy.signal.stft(x[:, :0]))
        agree(lambda j: j.scipy.signal.welch(x[:, :0]))


INVERSE = [
    {}, {"boundary": False}, {"nperseg": 9}, {"nperseg": 8, "noverlap": 3}, {"nperseg": 6}, {"nfft": 10}, {"nfft": 4},
    {"nperseg": 0}, {"noverlap": 0}, {"noverlap": 9}, {"freq_axis": 1, "time_axis": 0}, {"freq_axis": 0, "time_axis": 1},
    {"freq_axis": 2, "time_axis": 2}, {"time_axis": 5}, {"window": "triang"}, {"window": np.ones(8, "float32")},
    {"window": np.ones(7, "float32")}, {"window": np.ones((8, 1), "float32")}, {"fs": 16.0},
]  # fmt: skip


@pytest.mark.parametrize("options, dtype, onesided, shape", [
    *covering(INVERSE, ["float32", "int32", "complex64"], [True, False], [(3, 5, 9), (5, 9)]),
    *itertools.product([{}], ["float32", "int32", "complex64"], [True, False], [(3, 5, 9)]),
])  # fmt: skip
def test_istft(options, dtype, onesided, shape):
    z = draw(shape, dtype)
    agree(lambda j: j.scipy.signal.istft(z, input_onesided=onesided, **options), **LOOSE)


def test_warnings_of_signals_that_are_short_or_complex():
    import jaxish

    with pytest.warns(UserWarning, match="nperseg=256 is greater than input_length=40"):
        jaxish.scipy.signal.stft(draw((40,)))
    with pytest.warns(UserWarning, match="Input data is complex"):
        jaxish.scipy.signal.welch(draw((40,), "complex64"), detrend=False)


TRANSFORMED = {
    "stft": lambda j, x: j.scipy.signal.stft(x, nperseg=8)[2],
    "welch": lambda j, x: j.scipy.signal.welch(x, nperseg=8)[1],
    "welch by median": lambda j, x: j.scipy.signal.welch(x, nperseg=8, average="median")[1],
    "csd": lambda j, x: j.scipy.signal.csd(x, x[:, ::-1], nperseg=8)[1],
    "istft": lambda j, x: j.scipy.signal.istft(x.reshape(5, 16) * (1 + 2j))[1],
    "detrend": lambda j, x: j.scipy.signal.detrend(x, bp=[3]),
    "fftconvolve": lambda j, x: j.scipy.signal.fftconvolve(x, x),
    "correlate": lambda j, x: j.scipy.signal.correlate(x, x[:, :5]),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformations(name):
    x = draw((2, 40))
    pair = np.stack([x, 2 * x])
    loose: dict[str, Any] = {"rtol": 1e-3, "atol": 1e-2}

    def f(j):
        return lambda x: TRANSFORMED[name](j, x)

    def loss(j):
        return lambda x: (j.numpy.abs(f(j)(x)) ** 2).sum()

    agree(lambda j: j.jvp(f(j), (x,), (x,)), **loose)
    agree(lambda j: j.jit(j.vmap(f(j)))(pair), **loose)
    agree(lambda j: j.jit(j.vmap(j.grad(loss(j))))(pair), **loose)
    agree(lambda j: j.jvp(j.grad(loss(j)), (x,), (x,)), **loose)
