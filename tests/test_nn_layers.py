"""jax.nn's initializers and attention against JAX's."""

import numpy as np
import pytest
from oracle import agree

pytestmark = pytest.mark.usefixtures("unoptimized_jax")

NAMES = [
    "glorot_normal", "glorot_uniform", "he_normal", "he_uniform", "kaiming_normal", "kaiming_uniform", "lecun_normal",
    "lecun_uniform", "xavier_normal", "xavier_uniform", "normal", "uniform", "truncated_normal", "orthogonal",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_initializers(name, dtype):
    if dtype == "complex64" and name in ("uniform", "truncated_normal"):
        pytest.skip("real only")
    agree(lambda j: getattr(j.nn.initializers, name)()(j.random.key(1), (6, 5), dtype), atol=2e-6)


def test_other_initializers():
    agree(lambda j: j.nn.initializers.zeros(j.random.key(1), (2, 3)))
    agree(lambda j: j.nn.initializers.ones(j.random.key(1), (2, 3), "int32"))
    agree(lambda j: j.nn.initializers.constant(7)(j.random.key(1), (2, 3)))
    agree(lambda j: j.nn.initializers.delta_orthogonal()(j.random.key(1), (3, 3, 4, 5)))
    agree(lambda j: j.nn.initializers.orthogonal(2.0, 0)(j.random.key(1), (4, 3, 2)))
    for mode in ("fan_in", "fan_out", "fan_avg", "fan_geo_avg", "none"):
        make = {"scale": 2.0, "mode": mode, "distribution": "normal", "in_axis": (0, 1), "out_axis": 2, "batch_axis": 3}
        agree(lambda j: j.nn.initializers.variance_scaling(**make)(j.random.key(1), (3, 4, 5, 6)))
    agree(lambda j: j.nn.initializers.he_normal()(j.random.key(1), (3,)))
    agree(lambda j: j.nn.initializers.variance_scaling(1.0, "fan_in", "none")(j.random.key(1), (3, 3)))
    agree(lambda j: j.nn.initializers.delta_orthogonal()(j.random.key(1), (3, 3)))
    agree(lambda j: isinstance(j.nn.initializers.zeros, j.nn.initializers.Initializer))


random = np.random.default_rng(0)
Q, K, V = (random.normal(size=s).astype("float32") for s in ((2, 5, 4, 3), (2, 6, 2, 3), (2, 6, 2, 3)))
BIAS = random.normal(size=(2, 4, 5, 6)).astype("float32")
LENGTHS = np.array([3, 5], "int32")
OPTIONS = [
    {}, {"is_causal": True}, {"scale": 0.3}, {"bias": BIAS}, {"mask": BIAS[:, :1] > 0}, {"query_seq_lengths": LENGTHS},
    {"key_value_seq_lengths": LENGTHS}, {"local_window_size": 2}, {"local_window_size": (1, 0)}, {"return_residual": True},
    {"implementation": "xla"}, {"implementation": "none"}, {"mask": BIAS}, {"query_seq_lengths": LENGTHS[:1]},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS)
def test_attention(options):
    agree(lambda j: j.nn.dot_product_attention(Q, K, V, **options))
    agree(lambda j: j.jit(lambda q: j.nn.dot_product_attention(q, K, V, **options))(Q))


def test_attention_of_other_shapes_dtypes_and_transforms():
    agree(lambda j: j.nn.dot_product_attention(Q[0], K[0], V[0]))
    agree(lambda j: j.nn.dot_product_attention(Q, K[:, :, :, :2], V))
    agree(lambda j: j.nn.dot_product_attention(Q[:, :, :3], K, V))
    agree(
        lambda j: j.nn.dot_product_attention(*(j.numpy.asarray(x, "bfloat16") for x in (Q, K, V))), rtol=2e-2, atol=2e-2
    )
    agree(lambda j: j.grad(lambda q: (j.nn.dot_product_attention(q, K, V, is_causal=True) ** 2).sum())(Q), atol=1e-4)
    agree(lambda j: j.vmap(lambda q: j.nn.dot_product_attention(q, K[0], V[0]))(Q))


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
def test_rows_without_elements_and_large_masked_ones(name):
    x = np.array([[0.3, 200.0, 1.2, -0.6], [-1, -2, -3, -0.9]], np.float32)
    mask = np.array([[True, False, True, True], [False] * 4])

    def program(jax):
        f = lambda x: getattr(jax.nn, name)(x, axis=-1, where=mask)
        finite = lambda x: jax.numpy.where(jax.numpy.isfinite(f(x)), f(x), 0.0)
        loss = lambda x: (finite(x) * np.arange(1, finite(x).shape[-1] + 1)).sum()
        return f(x), jax.grad(loss)(x), jax.jvp(f, (x,), (x,))[1], jax.hessian(loss)(x)

    agree(program)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("axis", [-1, 0, (0, 1)])
def test_complex_rows(name, axis):
    x = np.array([[1 + 2j, 3 - 1j, 0.5], [1j, 2, 2 - 4j]], np.complex64)
    agree(lambda j: getattr(j.nn, name)(x, axis=axis))
    agree(lambda j: j.grad(lambda x: (abs(getattr(j.nn, name)(x, axis=axis)) ** 2).sum())(x), atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_activations_at_their_edges():
    x = np.array([-12, -9, -3, 0, 6, 6.5, -0.0, np.inf, -np.inf], "float32")

    def program(j):
        exact = lambda t: j.nn.gelu(t, approximate=False)
        found = [j.vmap(j.value_and_grad(f))(x) for f in (j.nn.relu6, j.nn.hard_sigmoid, j.nn.hard_silu)]
        return found, j.vmap(j.grad(j.grad(j.nn.soft_sign)))(x[:4]), exact(x), j.vmap(j.grad(exact))(x[:3])

    agree(program, atol=1e-37)


@pytest.mark.filterwarnings("ignore")
def test_one_hot_of_lists_and_floats():
    agree(lambda j: (j.nn.one_hot([0, 2], 3), j.nn.one_hot(j.numpy.array([1.0]), 2)))


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", ["softplus", "log_sigmoid", "sigmoid", "silu", "gelu", "mish", "elu", "celu", "selu"])
def test_derivatives_of_large_arguments(name, order):
    x = np.array([0, 1, -1, 30, -30, 90, -90, 100, -100, 1e4, -1e4], np.float32)

    def program(j, wrap):
        f = wrap(j, getattr(j.nn, name))
        for _ in range(order):
            f = j.grad(f)
        return j.vmap(f)(x)

    for wrap in (lambda j, f: f, lambda j, f: j.jit(f)):
        agree(lambda j, wrap=wrap: program(j, wrap), rtol=1e-4, atol=1e-6)


def test_derivatives_of_logaddexp():
    x, y = np.array([100, -100, 0, 1, 5], np.float32), np.array([0, 0, 0, 1, -90], np.float32)

    def program(j, name):
        f = getattr(j.numpy, name)
        first = [j.vmap(j.grad(f, i))(x, y) for i in (0, 1)]
        second = [j.vmap(j.grad(j.grad(f, i), k))(x, y) for i in (0, 1) for k in (0, 1)]
        return first, second, j.vmap(lambda a, b: j.jvp(f, (a, b), (b, a))[1])(x, y)

    agree(lambda j: program(j, "logaddexp"), rtol=1e-5, atol=1e-6)
    agree(lambda j: program(j, "logaddexp2"), rtol=1e-5, atol=1e-6)


COMPLEX = np.array([1 - 1j, -1 + 0.5j, 0.5j, -2j, 3 + 4j, 7 + 1j], np.complex64)
OF_OTHER_DTYPES = [
    "relu", "relu6", "sparse_plus", "leaky_relu", "elu", "selu", "celu", "gelu", "hard_tanh", "hard_sigmoid", "hard_silu", "soft_sign",
]  # fmt: skip


@pytest.mark.parametrize("name", OF_OTHER_DTYPES)
def test_activations_of_complex_numbers(name):
    agree(lambda j: getattr(j.nn, name)(COMPLEX), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["int8", "bool", "float16"])
@pytest.mark.parametrize("name", OF_OTHER_DTYPES[:-1])
def test_activations_have_jaxs_dtypes(name, dtype):
    agree(lambda j: getattr(j.nn, name)(np.array([0, 1, 1, 0]).astype(dtype)), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("slope", [3, True, 0.5, "the same"])
@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "uint16", "uint32", "bool", "float16", "complex64"])
def test_leaky_relu_has_the_dtype_of_a_product(dtype, slope):
    x = np.arange(-2, 3).astype(dtype)
    agree(lambda j: j.nn.leaky_relu(x, x if slope == "the same" else slope), rtol=1e-3)
