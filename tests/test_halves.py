"""16-bit floats in functions and loops that are written out in C++: NumPy's numbers, which rounds after each operation, too."""

import ml_dtypes
import numpy as np
import pytest
import torch
from oracle import agree

import jaxish
from jaxish import numpy as jnp
from jaxish._compile import executable, loop_sources
from jaxish._compile.loop_values import Unsupported
from jaxish._core import config

pytestmark = pytest.mark.usefixtures("compiled")
HALVES = [np.float16, ml_dtypes.bfloat16]
HARD = [0.0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519.99, 65520, 3.4e38, 6.1e-5, 5.96e-8, 2.98e-8, 2.99e-8, 1e-40, 1 + 2**-11, 1 + 3 * 2**-11]  # fmt: skip


def is_written_out(jitted):
    """Tell whether the graph of the one program of a function is one of C++."""
    ((_, program),) = jitted._programs.items()
    try:
        return bool(loop_sources.graph_source(executable.of(program.closed.graph).body).text)
    except Unsupported:
        return False


def same(found, wanted):
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found.astype(np.float64), wanted.astype(np.float64))
    np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(wanted[wanted == 0]))


@pytest.mark.parametrize("dtype", HALVES)
def test_every_number_is_read(dtype):
    numbers = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    read = jaxish.jit(lambda x: x.astype(jnp.float32) + 0)
    for part in np.split(numbers, 2):
        with np.errstate(invalid="ignore"):  # NaNs that signal
            same(read(part), part.astype(np.float32) + 0)
    assert is_written_out(read)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("count", [1, 3, 17, 4096])
def test_numbers_are_rounded(dtype, count):
    generator = np.random.default_rng(count)
    bits = generator.integers(0, 1 << 32, count, dtype=np.uint32).view(np.float32)
    normal = generator.normal(size=(2, count)).astype(np.float32) * np.array([[1], [1e-6]], np.float32)
    with np.errstate(all="ignore"):  # whatever is rounded to infinity or zero
        numbers = np.concatenate([np.array(HARD).astype(np.float32), bits, *normal])
    rounded = jaxish.jit(lambda x: (x.astype(dtype), (-x).astype(dtype)))
    with np.errstate(all="ignore"):  # whatever is rounded to infinity
        for found, wanted in zip(rounded(numbers), (numbers.astype(dtype), (-numbers).astype(dtype)), strict=True):
            same(found, wanted)
    assert is_written_out(rounded)


ELEMENTWISE = {
    "sums and products": lambda np, x, y: (x + y, x - y, x * y, x * y + x, (x + y) * (x - y) - y),
    "quotients": lambda np, x, y: (x / y, 1 / x, x / y / y),
    "numbers": lambda np, x, y: (x * 3 + 1, x - 2, 7 / y),
    "roots": lambda np, x, y: (np.sqrt(abs(x)), np.sqrt(abs(x) + abs(y)) * y),
    "choices": lambda np, x, y: (np.where(x > y, x, y), np.where(x > 0, x * y, y), np.maximum(x, y), np.minimum(x, -y), abs(x)),
    "tests": lambda np, x, y: (x > y, x == y, (x < 1) & (y > 0), np.isnan(x), np.isinf(x / y)),
    "views": lambda np, x, y: (x[::-1, 1:] + y[:, 1:], x.T + 1, np.concatenate([x, y + y], 1), x.reshape(-1)),
    "conversions": lambda np, x, y: (x.astype("float32") * y.astype("float32"), x.astype("int32"), (x > 0).astype(x.dtype) + y),
    "extrema": lambda np, x, y: (x.max(0), y.min(), (x + y).max(1), x.argmax(1)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("rows", [1, 5, 40])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_operations_round_once(name, rows, dtype):
    generator = np.random.default_rng(rows)
    x, y = (generator.normal(size=(rows, 33)).astype(dtype) for _ in range(2))
    function = jaxish.jit(lambda x, y: ELEMENTWISE[name](jnp, x, y))
    with np.errstate(over="ignore"):
        expected = ELEMENTWISE[name](np, x, y)
    for found, wanted in zip(function(x, y), expected, strict=True):
        np.testing.assert_array_equal(np.asarray(found), wanted, strict=np.asarray(wanted).dtype.kind in "fV")
    assert is_written_out(function)


PROGRAMS = {
    "scan": lambda j, x: j.lax.scan(lambda c, r: (c * 0.5 + r, (c * r).sum()), x[0], x),
    "while_loop": lambda j, x: j.lax.while_loop(lambda c: c[1].max() < 100, lambda c: (c[0] + 1, c[1] * 2), (0, abs(x))),
    "fori_loop in two precisions": lambda j, x: j.lax.fori_loop(
        0, 50, lambda i, c: (c[0] * 0.9 + c[1].astype("float32"), c[1] * 0.99), (x.astype("float32"), x[0, 0])
    ),
    "cond": lambda j, x: j.lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, x),
    "elements that are set": lambda j, x: j.lax.fori_loop(0, 5, lambda i, c: c.at[i, i + 1].set(c[i, 0] + 1).at[:, i].mul(2), x),
    "numbers that are chosen": lambda j, x: (j.numpy.where(x > 0, x, 0.1), x.at[0].set(0.3), j.numpy.clip(x, -0.7, 0.7), j.numpy.full(3, 0.1, x.dtype)),
    "draws": lambda j, x: (j.random.uniform(j.random.key(0), (9,), x.dtype), j.random.bits(j.random.key(1), (5,), "uint16")),
    "bits": lambda j, x: j.lax.bitcast_convert_type(j.lax.bitcast_convert_type(x, "int16") ^ 1, x.dtype),
    "sorted": lambda j, x: (j.numpy.sort(x), j.numpy.argsort(x[0]), j.lax.top_k(x[1], 3)),
    "products": lambda j, x: (x @ x.T, j.numpy.einsum("ij,kj->ik", x, x + 1)),
    "a gradient": lambda j, x: j.grad(lambda x: (j.numpy.tanh(x @ x.T) * 0.1).sum())(x),
    "layer norm": lambda j, x: (x - x.mean(-1, keepdims=True)) * j.lax.rsqrt(x.var(-1, keepdims=True) + 1e-3),
    "the gradient of softmax": lambda j, x: j.grad(lambda x: (j.nn.softmax(x) ** 2).sum().astype("float32"))(x),
    "the gradient of softmax in two precisions": lambda j, x: j.grad(
        lambda x: (j.nn.softmax(x.astype("float32")).astype(x.dtype) * x[0]).sum().astype("float32")
    )(x),
    "softmax": lambda j, x: (j.nn.softmax(x), j.nn.logsumexp(x, 1), j.nn.gelu(x)),
    "mapped": lambda j, x: j.vmap(lambda r: j.lax.scan(lambda c, v: (c + v, c > v), r[0], r))(x),
    "sums by index": lambda j, x: j.numpy.zeros(4, x.dtype).at[j.numpy.array([1, 1, 3, 1, 1, 0])].add(x[:, 0]),
    "sums along": lambda j, x: (x.cumsum(0), x.prod(0), x.sum(1, dtype="float32")),
    "nothing": lambda j, x: (x[:0] + 1, x[:, :0].sum(1)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, dtype):
    """JAX keeps more digits between operations than their type has, so that its results differ by some of the last bits."""
    x = np.random.default_rng(0).normal(size=(6, 8)).astype(dtype)
    last_bit = 2.0**-10 if dtype == "float16" else 2.0**-7
    for tier in ("direct", "compiled"):
        with config.jit_tier(tier):
            agree(lambda j: j.jit(lambda x: PROGRAMS[name](j, x))(x), rtol=4 * last_bit, atol=4 * last_bit)
    function = jaxish.jit(lambda x: PROGRAMS[name](jaxish, x))
    function(x)
    assert is_written_out(function)


TORCHS = {
    "signs": torch.copysign,
    "signs of one": lambda a, b: torch.signbit(a + 0 * b),
    "numbers for NaN": lambda a, b: torch.nan_to_num(a / (b - b)),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", TORCHS)
def test_what_float32_does_otherwise_is_left_to_torch(name, dtype):
    x = torch.tensor([1.5, 2.25, -3.0, 0.0], dtype=dtype)
    function = jaxish.jit(jaxish.interop.from_torch_function(TORCHS[name]))
    same(function(*map(jaxish.from_torch, (x, -x.flip(0)))), jaxish.from_torch(TORCHS[name](x, -x.flip(0))))
    assert not is_written_out(function)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("other", [torch.tensor(1.0004), torch.tensor(1.0038), torch.tensor([2049, 257, 3])])
def test_torch_code_of_two_types_rounds_the_other_first(dtype, other):
    x = (torch.tensor([1.5, 2.25, -3.0]) - torch.finfo(dtype).eps).to(dtype)
    function = jaxish.jit(
        jaxish.interop.from_torch_function(lambda a, b: (a * b, torch.where(a > 2, a, b.to(dtype) + a)))
    )
    for found, wanted in zip(
        function(*map(jaxish.from_torch, (x, other))),
        (x * other, torch.where(x > 2, x, other.to(dtype) + x)),
        strict=True,
    ):
        same(found, jaxish.from_torch(wanted))
    assert is_written_out(function)
