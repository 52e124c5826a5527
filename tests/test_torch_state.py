"""What the user has told torch has no say in what a JAX program computes, on any tier."""

import contextlib

import numpy as np
import pytest
import torch

import jaxish as jax
import jaxish.numpy as jnp
from jaxish._core import config

X = np.linspace(0.1, 1, 6, dtype=np.float32)
M = np.outer(X, X) + np.eye(6, dtype=np.float32)

HALF = M.astype(jnp.bfloat16)


@contextlib.contextmanager
def setting(read, write, value):
    before = read()
    write(value)
    try:
        yield
    finally:
        write(before)


def default_dtype(dtype):
    return setting(torch.get_default_dtype, torch.set_default_dtype, dtype)


STATES = {
    "double by default": lambda: default_dtype(torch.float64),
    "half by default": lambda: default_dtype(torch.float16),
    "another device by default": lambda: torch.device("meta"),
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "autocast to float16": lambda: torch.autocast("cpu", dtype=torch.float16),
    "inference mode": torch.inference_mode,
    "no gradients": torch.no_grad,
    "deterministic": lambda: setting(
        torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms, True
    ),
    "low matmul precision": lambda: setting(
        torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "medium"
    ),
    "anomalies": lambda: setting(torch.is_anomaly_enabled, torch.set_anomaly_enabled, True),
}

# Fresh functions at each call, so that they are traced and compiled in the state.
PROGRAMS = {
    "conversion": lambda: (jnp.asarray(2.5), jnp.array([1.5, 2, 3]), jnp.arange(5.0), jnp.linspace(0, 1, 5), jnp.eye(3)),
    "integers become floats": lambda: (jnp.arange(4) / 2, jnp.arange(4).mean(), jnp.sqrt(jnp.arange(3))),
    "elementwise": lambda: jnp.where(jnp.asarray(X) > 0.5, 1.5, jnp.sin(X)) + jnp.log1p(X),
    "products": lambda: (jnp.asarray(M) @ M, jnp.convolve(X, X), jnp.einsum("ij,j", M, X), jnp.dot(X, X)),
    "indexing": lambda: (jnp.asarray(X)[jnp.array([1, 2])], jnp.asarray(X).at[jnp.array([1, 1, 2])].add(2.0)),
    "linear algebra": lambda: (jnp.linalg.solve(M, X), jnp.linalg.cholesky(M), jnp.fft.fft(jnp.asarray(X))),
    "products of lax": lambda: (
        jax.lax.dot(M, M), jax.lax.batch_matmul(M[None], M[None]), jax.lax.ragged_dot(M, M[None], jnp.array([6])),
        jax.lax.conv_general_dilated_local(M[None], M[None], (1,), "VALID", (1,)), jax.lax.linalg.symmetric_product(M, M),
        jax.nn.dot_product_attention(M[:, None], M[:, None], M[:, None]),
        jax.nn.scaled_matmul(M[None], M[None], M[None, :, :2], M[None, :, :2]),
    ),
    "products within": lambda: (
        jnp.linalg.pinv(M), jax.jit(jnp.linalg.pinv)(M), jnp.linalg.lstsq(M, X)[0], jnp.cov(M), jnp.polyfit(X, X * X, 2),
        jnp.roots(X, strip_zeros=False), jax.random.multivariate_normal(jax.random.key(0), X, M), *jax.lax.linalg.qdwh(M)[:2],
        *jax.lax.linalg.hessenberg(M), *jax.lax.linalg.tridiagonal(M), *jax.lax.linalg.qr(M, pivoting=True),
        *jax.lax.linalg.eig(M), jax.lax.linalg.ormqr(M, X, M),
    ),
    "products of halves": lambda: (
        jnp.matmul(HALF, HALF), jnp.dot(HALF, HALF), jnp.einsum("ij,kj", HALF, HALF), jnp.convolve(HALF[0], HALF[1]), jax.lax.dot(HALF, HALF),
        jax.nn.softmax(HALF), jnp.prod(HALF, 1), jnp.trace(HALF), jax.grad(lambda h: (h @ h).sum())(HALF),
    ),
    "derivatives of products": lambda: [
        derivative
        for f in (jnp.linalg.inv, jnp.linalg.cholesky, lambda m: jnp.linalg.eigh(m)[0], lambda m: m @ m, jnp.linalg.svdvals, jnp.linalg.pinv)
        for derivative in (
            jax.jvp(f, (M,), (M,))[1], jax.linearize(f, M)[1](M), jax.vjp(f, M)[1](f(M))[0], jax.grad(lambda m, f=f: f(m).sum())(M),
            jax.vmap(lambda m, f=f: jax.jvp(f, (m,), (m,))[1])(M[None]),
        )
    ],
    "order": lambda: (jnp.sort(-jnp.asarray(X)), jnp.cumsum(jnp.asarray(X))),
    "jit": lambda: jax.jit(lambda x: jnp.sin(x) * 2 + jnp.arange(6.0) * 0.5)(X),
    "jit of products": lambda: jax.jit(lambda m: jnp.tanh(m @ m) + 1)(M),
    "grad": lambda: jax.grad(lambda m: jnp.tanh(m @ m).sum())(M),
    "grad of jit": lambda: jax.grad(jax.jit(lambda m: jnp.tanh(m @ m).sum()))(M),
    "jit of grad": lambda: jax.jit(jax.grad(lambda x: jnp.sin(x) @ jnp.cos(x)))(X),
    "vmap of grad": lambda: jax.vmap(jax.grad(lambda a: a**3))(X),
    "forward mode": lambda: jax.jit(lambda x: jax.jvp(lambda x: jnp.sin(x) * x, (x,), (x,))[1])(X),
    "hessian": lambda: jax.hessian(lambda x: (x**3).sum())(X),
    "draws": lambda: [
        jax.random.key_data(jax.random.key(1)), jax.random.normal(jax.random.key(3), (7,)),
        jax.random.permutation(jax.random.key(4), 7),
    ],
    "scan": lambda: jax.lax.scan(lambda c, a: (c * 0.5 + a, c * a), 0.0, X),
    "grad of scan": lambda: jax.grad(lambda x: jax.lax.scan(lambda c, a: (c * 0.5 + a, c * a), 0.0, x)[1].sum())(X),
    "loops": lambda: (jax.lax.fori_loop(0, 5, lambda i, c: c * 1.5 + i, 1.0), jax.lax.while_loop(lambda c: c < 9, lambda c: c * 2, 1.0)),
    "branches": lambda: jax.lax.cond(True, lambda x: x * 2, lambda x: x, X),
    "checkpoint": lambda: jax.grad(lambda x: jax.checkpoint(jnp.sin)(x).sum())(X),
}  # fmt: skip


def leaves(program):
    found = jax.tree.leaves(program())
    return [(np.asarray(a), a.dtype, a.weak_type) for a in found], found


def same(first, second):
    for (a, *kind), (b, *expected) in zip(first, second, strict=True):
        assert kind == expected
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("state", STATES)
def test_values_are_what_they_are_without(state, name):
    expected, _ = leaves(PROGRAMS[name])
    with STATES[state]():
        found, arrays = leaves(PROGRAMS[name])
    same(found, expected)
    for array in arrays:
        if array.dtype == np.float32:  # what was made there can be used elsewhere
            np.testing.assert_allclose(jax.grad(lambda s: (s * array).sum())(1.0), np.asarray(array).sum(), rtol=1e-4)


@pytest.mark.parametrize("state", STATES)
def test_compiled_values_are_what_they_are_without(state, compiled):
    names = ("jit", "jit of products", "grad of scan", "draws")
    expected = [leaves(PROGRAMS[name])[0] for name in names]
    jax.clear_caches()
    with STATES[state]():
        found = [leaves(PROGRAMS[name])[0] for name in names]
    for one, other in zip(found, expected, strict=True):
        same(one, other)


def test_a_program_traced_in_a_state_is_good_outside():
    product = jax.jit(lambda m: m @ m)
    with torch.autocast("cpu", dtype=torch.bfloat16), default_dtype(torch.float64):
        within = product(M)
    np.testing.assert_array_equal(within, product(M))
    assert torch.get_default_dtype() is torch.float32
    assert config.jit_tier.value == "direct"


def test_torchs_own_state_is_left_alone():
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.autograd.set_detect_anomaly(True), torch.no_grad():
        jax.jit(jax.grad(lambda m: (m @ m).sum()))(M)
        assert torch.is_autocast_enabled("cpu") and torch.is_anomaly_enabled() and not torch.is_grad_enabled()
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.bfloat16


def test_what_a_compiler_switches_on_meanwhile_does_not_stay_on():
    with pytest.warns(UserWarning, match="Anomaly Detection"):
        compiling = torch.autograd.detect_anomaly(check_nan=False)  # as torch's compilers do, in another thread

    def f(x):
        compiling.__exit__()
        return jax.grad(lambda x: jnp.where(x > 0, x, 0) ** 2)(x)

    compiling.__enter__()
    found = jax.jit(f)(2.0)
    assert not torch.is_anomaly_enabled()
    assert found == 4.0


# The user's own torch.func around jaxish: each function is given an Array of the level's tensor.
T = torch.from_numpy(X)
FUNCTIONS = {
    "eager": lambda x: jnp.sin(x) * x,
    "jit": jax.jit(lambda x: jnp.sin(x) * x),
    "scan": lambda x: jax.lax.scan(lambda c, a: (c, jnp.sin(a) * a), 0.0, x)[1],
    "jit of scan": jax.jit(lambda x: jax.lax.scan(lambda c, a: (c, jnp.sin(a) * a), 0.0, x)[1]),
    "vmap": jax.vmap(lambda a: jnp.sin(a) * a),
    "vmap of jit": jax.vmap(jax.jit(lambda a: jnp.sin(a) * a)),
    "grad": jax.grad(lambda x: (jnp.sin(x) - x * jnp.cos(x)).sum()),
    "grad of jit": jax.grad(jax.jit(lambda x: (jnp.sin(x) - x * jnp.cos(x)).sum())),
    "forward mode": lambda x: jax.jvp(lambda x: jnp.sin(x) - x * jnp.cos(x), (x,), (jnp.ones_like(x),))[1],
}


@pytest.mark.parametrize("tier", ["direct", "compiled"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_within_the_users_own_torch_func(name, tier, request):
    if tier == "compiled":
        request.getfixturevalue("compiled")
        jax.clear_caches()
    function = FUNCTIONS[name]
    of_tensor = lambda t: function(jnp.asarray(t)).to_torch()
    slope, curve = np.sin(X) + X * np.cos(X), 2 * np.cos(X) - X * np.sin(X)
    close = lambda found, expected: np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    close(torch.func.grad(lambda t: of_tensor(t).sum())(T), slope)
    close(torch.func.vjp(of_tensor, T)[1](T)[0], slope * X)
    close(torch.func.jvp(of_tensor, (T,), (T,))[1], slope * X)
    close(torch.func.vmap(of_tensor)(torch.stack([T, T * 2])), [np.sin(X) * X, np.sin(2 * X) * 2 * X])
    close(torch.func.vmap(torch.func.grad(lambda t: of_tensor(t).sum()))(T[:, None])[:, 0], slope)
    close(torch.func.grad(lambda t: torch.func.grad(lambda t: of_tensor(t).sum())(t).sum())(T), curve)


@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.vmap])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_constants_within_the_users_own_torch_func(name, transform):
    made = []

    def function(t):
        made.append(FUNCTIONS[name](jnp.asarray(X)))
        np.testing.assert_allclose(made[0], np.sin(X) * X, rtol=1e-5)  # the values are there
        return (made[0].to_torch() * t).sum()

    expected = np.sin(X) * X if transform is torch.func.grad else (np.sin(X) * X).sum() * X
    np.testing.assert_allclose(transform(function)(T), expected, rtol=1e-5)
    np.testing.assert_allclose(jax.jit(lambda a: a * 2)(made[0]), np.sin(X) * X * 2, rtol=1e-5)  # and good outside


@pytest.mark.parametrize("function", [jnp.sin, jax.lax.sin, jax.jit(jnp.sin), jax.grad(jnp.sum), jax.vmap(jnp.sin)])
def test_tensors_themselves_are_refused(function):
    for transform in (torch.func.grad, torch.func.vmap, lambda f: f):
        with pytest.raises(TypeError, match="Tensor"):
            transform(lambda t: function(t).to_torch().sum())(T)
