"""jax.image against JAX's."""

import jax
import numpy as np
import pytest
from expressions import agree_on
from oracle import agree

pytestmark = pytest.mark.usefixtures("unoptimized_jax")

METHODS = [method.name for method in jax.image.ResizeMethod]
KERNELS = [name for name in METHODS if name != "NEAREST"]
IMAGE = np.random.default_rng(0).normal(size=(2, 7, 5)).astype("float32")
SHAPES = [(2, 7, 5), (2, 3, 11), (3, 14, 2), (2, 1, 5), (2, 7, 0)]


def test_names_of_methods():
    names = [
        "nearest", "linear", "bilinear", "trilinear", "triangle", "cubic", "bicubic", "tricubic", "cubic-pytorch",
        "bicubic-pytorch", "lanczos3", "lanczos5", "area", "LINEAR", None,
    ]  # fmt: skip

    def found(j, name):
        method = j.image.ResizeMethod.from_string(name)
        return method.name, method.value, repr(method)

    for name in names:
        agree(found, name)
    agree(lambda j: [(m.name, m.value) for m in j.image.ResizeMethod])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("method", METHODS)
def test_resize(method, shape):
    def program(j):
        how = j.image.ResizeMethod[method]
        return [j.image.resize(IMAGE, shape, how, antialias=antialias) for antialias in (True, False)]

    agree(program)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "complex64", "int32", "uint8", "uint32", "bool"])
@pytest.mark.parametrize("method", ["nearest", "cubic", "area"])
def test_dtypes(method, dtype):
    def program(j):
        image = j.numpy.asarray(np.abs(IMAGE) * 3).astype(dtype)
        ones = j.numpy.ones(2)
        found = j.image.resize(image, (2, 3, 8), method), j.image.resize(image, image.shape, method)
        if method == "nearest":
            return found
        return *found, j.image.scale_and_translate(image, (2, 5, 4), (1, 2), ones / 2, ones, method)

    # Products of three roundings each: to the dtype's precision, at values up to 9.
    agree(program, rtol=2e-2 if dtype == "bfloat16" else None, atol=5e-2 if dtype == "bfloat16" else None)


@pytest.mark.parametrize("method", ["nearest", "linear", "lanczos5"])
def test_double_precision(method):
    def program(j):
        with j.enable_x64(True):
            image = j.numpy.asarray(IMAGE.astype("float64"))
            found = [j.image.resize(x, (2, 4, 9), method) for x in (image, image.astype("float32"))]
            if method != "nearest":
                scale = j.numpy.array([1.3], "float64")
                found.append(
                    j.image.scale_and_translate(image, (2, 4, 5), (1,), scale, scale.astype("float32"), method)
                )
            return found

    agree(program)


def test_weak_types():
    def program(j):
        x, none = j.numpy.broadcast_to(2.0, (3, 4)), j.numpy.zeros(0)
        shapes = [(3, 4), (2, 4)]
        resized = [j.image.resize(x, shape, method) for shape in shapes for method in ("nearest", "linear")]
        return resized, j.image.scale_and_translate(x, (3, 4), (), none, none, "linear"), j.image.resize(2, (), "area")

    agree(program)


SCALES = [(0.35, 0.8), (1.0, 1.0), (2.5, 0.2), (-1.0, 1.5)]
TRANSLATIONS = [(0.2, 0.0), (1.0, -2.0), (-1.3, 100.0), (7.0, 0.5)]


def scaled(j, method, antialias):
    def f(image, scale, translation):
        return j.image.scale_and_translate(image, (2, 6, 8), (1, -1), scale, translation, method, antialias)

    return f


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("method", KERNELS)
def test_scale_and_translate(method, antialias):
    def program(j, image, *several):
        f = scaled(j, j.image.ResizeMethod[method], antialias)
        one_by_one = [f(image, s, t) for s, t in zip(*several, strict=True)]
        return one_by_one, j.vmap(f, (None, 0, 0))(image, *several), j.jit(f)(image, several[0][0], several[1][0])

    agree(program, IMAGE, np.array(SCALES, "float32"), np.array(TRANSLATIONS, "float32"), at_once=True)


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("method", KERNELS)
@pytest.mark.parametrize("case", range(3))
def test_derivatives(method, antialias, case):
    weights = np.random.default_rng(1).normal(size=(2, 6, 8)).astype("float32")
    scale, translation = np.array(SCALES[case], "float32"), np.array(TRANSLATIONS[case], "float32")

    def program(j, image, scale, translation):
        f = scaled(j, j.image.ResizeMethod[method], antialias)
        gradients = j.grad(lambda *args: (f(*args) * weights).sum(), (0, 1, 2))(image, scale, translation)
        pushed = j.jvp(lambda s, t: f(image, s, t), (scale, translation), (translation, scale))
        return gradients, pushed

    agree(program, IMAGE, scale, translation, rtol=1e-4, atol=1e-3, at_once=True)


@pytest.mark.parametrize("method", METHODS)
def test_resize_under_transformations(method):
    def program(j):
        f = lambda x: j.image.resize(x, (3, 9), j.image.ResizeMethod[method])
        weights = np.arange(27, dtype="float32").reshape(3, 9)
        gradient = j.grad(lambda x: (f(x) * weights).sum())(IMAGE[0])
        return j.jit(f)(IMAGE[0]), j.vmap(f)(IMAGE), gradient, j.jit(j.vmap(f, 2, 1))(IMAGE)

    agree(program)


@pytest.mark.parametrize("old,new", [(200, 97), (77, 33), (49, 98), (33, 231), (1000, 999), (3, 700)])
def test_ties_of_nearest_pixels(old, new):
    agree(lambda j: j.image.resize(np.arange(old), (new,), "nearest"))


def test_larger_images():
    image = np.random.default_rng(2).uniform(size=(200, 150, 3)).astype("float32")

    def program(j):
        return [
            j.image.resize(image, shape, method)
            for shape in [(97, 151, 3), (333, 60, 3)]
            for method in ("nearest", "linear", "cubic", "lanczos3", "area")
        ]

    agree(program, atol=5e-5)


def test_keys_are_moved():
    def program(j):
        return j.random.key_data(j.image.resize(j.random.split(j.random.key(0), 3), (5,), "nearest"))

    agree(program)


@pytest.mark.parametrize(
    "case",
    [
        "resize(f, (2,), 'linear')", "resize(f, 2, 'linear')", "resize(f, (2.5, 3), 'linear')", "resize(f, None, 'area')",
        "resize(f, jnp.array([4, 2]), 'nearest')", "resize(f, [4, jnp.array(2)], 'linear')",
        "resize(f, (4, 3), 'bogus')", "resize(f, (4, 3), 3)", "resize(f, (4, 3), None)", "resize('a', (4,), 'linear')",
        "resize(f[:0], (4, 3), 'linear')", "resize(f[:0], (4, 3), 'nearest')", "resize(f[:0], (0, 4), 'linear')",
        "resize(f, (4, 3), 'linear', precision='bogus')", "resize(f, (4, 3), 'linear', precision='high')",
        "resize(f, (4, 3), 'linear', precision=lax.DotAlgorithmPreset.BF16_BF16_F32)",
        "resize(f, (4, 3), 'nearest', precision='bogus')",
        "resize(jax.random.split(jax.random.key(0)), (3,), 'linear')",
        "scale_and_translate(f, (2, 2), (0, 1), o, o, 'nearest')", "scale_and_translate(f, (2, 2), (0, 1), o, o, 'no')",
        "scale_and_translate(f, (2, 2), (0, 1), o, o, 1)", "scale_and_translate(f, (2,), (0,), o[:1], o[:1], 'area')",
        "scale_and_translate(f, (2, 2), (0, 2), o, o, 'linear')", "scale_and_translate(f, (2, 2), (0, .5), o, o, 'linear')",
        "scale_and_translate(f, (2, 2), (0, -3), o, o, 'linear')", "scale_and_translate(f, (2, 2), 0, o, o, 'linear')",
        "scale_and_translate(f, (2, 2), (0, 1), [1., 2.], o, 'linear')", "scale_and_translate(f, (2, 2), (0, 1), o, 1., 'area')",
        "scale_and_translate(f, (2, 2), (0, 1), o[:1], o, 'linear')", "scale_and_translate(f, (2, 2), (0, 1), o, f[0], 'area')",
        "scale_and_translate(f, (9, 4), (1,), o[:1], o[:1], 'linear')", "scale_and_translate(f, (2, 3), (0, 1), i[:2], i[1:], 'linear')",
        "scale_and_translate(f[:0], (2, 2), (0, 1), o, o, 'cubic')", "scale_and_translate(i, (3,), (), o[:0], o[:0], 'linear')",
        "scale_and_translate(f, (2, 2), np.array([0, 1]), np.ones(2), np.ones(2, int), 'linear')",
        "scale_and_translate(f, (2, 2), (0, 1), jnp.ones(2, 'bfloat16'), o, 'linear')",
        "scale_and_translate(f, (2, 2), (0, 1), h, h / 2, 'cubic-pytorch', False)",
    ],
)  # fmt: skip
def test_edges(case):
    agree_on(f"(lambda o: jax.image.{case})(jnp.ones(2))", rtol=1e-3 if "h," in case else None)
