"""lax.linalg."""

from typing import Any

import numpy as np
import pytest
from expressions import agree_on
from oracle import agree

import jaxish
from jaxish._core import config

pytestmark = pytest.mark.usefixtures("unoptimized_jax")

LINALG = [
    "linalg.cholesky(m)",
    'linalg.cholesky(arr([[4, 1], [1, 3]], "int32"))',
    "linalg.cholesky(arr([[-4, -1], [-1, -3]]))",
    "linalg.cholesky(jnp.ones((2, 3)))",
    "linalg.cholesky(jnp.ones(2))",
    'linalg.cholesky(arr([[1, 1], [1, 1]], "float16"))',
    'linalg.eigh(arr([[4, 1], [1, 3]], "int32"))[1]',
    "linalg.eigh(jnp.ones((2, 3)))",
    "linalg.eigh(m,subset_by_index=(0,1))",
    "linalg.eigh(m,subset_by_index=(0,2))[1]",
    "linalg.eigh(jnp.full((2, 2), np.nan))",
    'linalg.eig(arr([[4, 1], [1, 3]], "int32"))',
    "linalg.eig(jnp.ones((2, 3)))",
    "linalg.eig(jnp.full((2, 2), np.nan))",
    "linalg.eig(m,compute_left_eigenvectors=False)[0]",
    'linalg.lu(arr([[4, 1], [1, 3]], "int32"))',
    "linalg.lu(jnp.ones((2, 3)))",
    "linalg.lu(jnp.ones(2))",
    'linalg.lu_pivots_to_permutation(arr([1,1], "int32"),2)',
    'linalg.lu_pivots_to_permutation(arr([[2,1],[0,2]], "int32"),3)',
    'linalg.lu_pivots_to_permutation(arr([1,1], "int32"),1)',
    "linalg.lu_pivots_to_permutation(arr([1.,1],'float32'),2)",
    "jax.vmap(jax.vmap(lambda x: linalg.lu_pivots_to_permutation(x,3)))(arr([[[2,1],[0,2]]], 'int32'))",
    "jax.vmap(jax.vmap(linalg.lu))(jnp.stack([m, 2-m])[None])",
    'linalg.qr(arr([[4, 1], [1, 3]], "int32"))',
    'linalg.svd(arr([[4, 1], [1, 3]], "int32"))',
    "linalg.svd(jnp.ones((2, 3)),subset_by_index=(0,1))",
    "linalg.svd(m,full_matrices=False,subset_by_index=(0,1))",
    "linalg.svd(m,compute_uv=False,subset_by_index=(0,1))",
    "linalg.svd(jnp.full((2, 2), np.nan),compute_uv=False)",
    'linalg.schur(arr([[4, 1], [1, 3]], "int32"))',
    "linalg.schur(m,sort_eig_vals=True)",
    "linalg.householder_product(jnp.ones((2, 3)),jnp.ones(2))",
    "linalg.triangular_solve(m,jnp.ones(2))",
    "linalg.triangular_solve(m,jnp.ones(2),left_side=True)",
    "linalg.triangular_solve(m,jnp.ones((2, 3)))",
    "linalg.triangular_solve(jnp.ones((2, 3)),jnp.ones((2, 3)))",
    'linalg.triangular_solve(arr([[4, 1], [1, 3]], "int32"),arr([[4, 1], [1, 3]], "int32"))',
    'linalg.triangular_solve(m,arr([[4, 1], [1, 3]], "int32"))',
    "linalg.tridiagonal_solve(jnp.ones(2),jnp.ones(2),jnp.ones(2),jnp.ones(2))",
    "linalg.tridiagonal_solve(jnp.ones(3),jnp.ones(2),jnp.ones(2),jnp.ones((2,1)))",
    "linalg.eig(m,implementation=linalg.EigImplementation.MAGMA)",
    "linalg.eig(m[:1],implementation=linalg.EigImplementation.CUSOLVER)",
    "linalg.eigh(m,implementation=linalg.EighImplementation.JACOBI)",
    "linalg.qr(m,use_magma=True)",
    "linalg.qr(jnp.ones((0,2)),pivoting=True)",
    "linalg.schur(m,select_callable=lambda *x: True)",
    "linalg.triangular_solve(m.astype('float16'),m.astype('float16'))",
]


@pytest.mark.parametrize("expression", LINALG)
def test_linalg_treats_operands_as_jax_does(expression: str) -> None:
    agree_on(expression, rtol=2e-3 if "float16" in expression else 1e-4)


def drawn(*shape: int, dtype: str) -> np.ndarray:
    numbers = np.random.default_rng(len(shape))
    real, imaginary = numbers.normal(size=shape), numbers.normal(size=shape)
    return (real + 1j * imaginary if dtype == "complex64" else real).astype(dtype)


def adjoint(x: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(x, -1, -2))


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_factorizations_of_square_tall_and_wide_matrices(dtype: str, batch: tuple[int, ...]) -> None:
    square, tall, wide = (drawn(*batch, *s, dtype=dtype) for s in ((4, 4), (5, 3), (3, 5)))
    hermitian = square + adjoint(square)
    definite = square @ adjoint(square) + 4 * np.eye(4, dtype=dtype)

    def program(jax: Any) -> Any:
        linalg = jax.lax.linalg
        a, t, w, h, p = map(jax.numpy.asarray, (square, tall, wide, hermitian, definite))
        return (
            [linalg.cholesky(p), linalg.cholesky(p, symmetrize_input=False), linalg.cholesky(h)],
            [linalg.lu(x) for x in (a, t, w)],
            [
                linalg.qr(x, full_matrices=f, pivoting=v)
                for x in (a, t, w)
                for f in (True, False)
                for v in (True, False)
            ],
            [linalg.svd(x, compute_uv=False) for x in (a, t, w)],
            [[jax.lax.abs(u) for u in linalg.svd(x, full_matrices=False)] for x in (a, t, w)],
            [jax.lax.abs(linalg.eigh(h)[0]), linalg.eigh(h)[1]],
            [linalg.hessenberg(a), linalg.tridiagonal(h), linalg.tridiagonal(h, lower=False)],
        )

    agree(program, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("unit_diagonal", [False, True])
def test_solvers(dtype: str, lower: bool, transpose_a: bool, unit_diagonal: bool) -> None:
    a, b = drawn(2, 4, 4, dtype=dtype) + 3 * np.eye(4, dtype=dtype), drawn(2, 4, 3, dtype=dtype)
    options = {"lower": lower, "transpose_a": transpose_a, "unit_diagonal": unit_diagonal}
    below, main, above = drawn(2, 4, dtype=dtype), drawn(2, 4, dtype=dtype) + 5, drawn(2, 4, dtype=dtype)[::-1].copy()
    below[..., 0] = above[..., -1] = 0

    def program(jax: Any) -> Any:
        linalg, x, y = jax.lax.linalg, jax.numpy.asarray(a), jax.numpy.asarray(b)
        diagonals = map(jax.numpy.asarray, (below, main, above))
        return (
            [linalg.triangular_solve(x, y, left_side=True, conjugate_a=c, **options) for c in (False, True)],
            linalg.triangular_solve(x, y.mT, **options),
            linalg.tridiagonal_solve(*diagonals, y),
        )

    agree(program, rtol=1e-2, atol=1e-3)


DEFECTIVE = np.array([[[2, 1, 0, 0], [0, 2, 1, 0], [0, 0, 2, 1], [0, 0, 0, 2]]], "float32")
LOWER = np.tril(np.arange(1, 17).reshape(1, 4, 4)).astype("float32")
SKEW = np.array([[[0, -0.3, 0.9], [0.3, 0, -1.7], [-0.9, 1.7, 0]]], "float32")


@pytest.mark.parametrize(
    "matrices", [drawn(3, 4, 4, dtype="float32"), DEFECTIVE, LOWER, SKEW, np.zeros((2, 3, 3), "f")]
)
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_eig_and_schur_take_the_matrix_apart(matrices: np.ndarray, dtype: str) -> None:
    a = matrices.astype(dtype)
    if matrices.shape[0] == 3 and dtype == "complex64":
        a = drawn(3, 4, 4, dtype=dtype)
    linalg = jaxish.lax.linalg
    values, left, right = map(np.asarray, linalg.eig(a))
    np.testing.assert_allclose(a @ right, right * values[..., None, :], atol=1e-4)
    np.testing.assert_allclose(adjoint(left) @ a, values[..., :, None] * adjoint(left), atol=1e-4)
    for results in (linalg.schur(a), jaxish.jit(linalg.schur)(a), jaxish.vmap(linalg.schur)(a)):
        form, vectors = map(np.asarray, results)
        np.testing.assert_allclose(vectors @ form @ adjoint(vectors), a, atol=1e-4)
        np.testing.assert_allclose(vectors @ adjoint(vectors), np.eye(a.shape[-1]) + 0 * a, atol=1e-5)
        np.testing.assert_array_equal(np.tril(form, -2 if dtype == "float32" else -1), 0)
        assert form.dtype == dtype


@pytest.mark.parametrize("size", [1, 2, 3, 8, 20])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_schur_forms_and_left_eigenvectors_are_lapacks(size: int, dtype: str) -> None:
    for a in (drawn(2, size, size, dtype=dtype), np.tri(size, dtype=dtype), np.zeros((0, size, size), dtype)):
        agree(lambda jax, a=a: jax.lax.linalg.schur(a), rtol=1e-2, atol=1e-3)
    agree(lambda jax: jax.lax.linalg.eig(drawn(size, size, dtype=dtype))[1], rtol=1e-2, atol=1e-3)


RULES = {
    "eig, real eigenvectors": lambda linalg, x: linalg.eig(
        x, compute_left_eigenvectors=False, enable_eigvec_derivs=True
    ),
    "eig, derivatives refused": lambda linalg, x: linalg.eig(x),
    "eig, values": lambda linalg, x: linalg.eig(
        x, compute_left_eigenvectors=False, compute_right_eigenvectors=False, enable_eigvec_derivs=True
    ),
    "cholesky of one triangle": lambda linalg, x: linalg.cholesky(x @ x.T, symmetrize_input=False),
    "eigh of one triangle": lambda linalg, x: linalg.eigh(x @ x.T, symmetrize_input=False)[1],
    "full qr": lambda linalg, x: linalg.qr(x[:, :2]),
    "full qr of a wide matrix": lambda linalg, x: linalg.qr(x[:2]),
    "pivoted qr": lambda linalg, x: linalg.qr(x, pivoting=True)[1],
    "full svd": lambda linalg, x: linalg.svd(x[:, :2])[1],
    "schur": lambda linalg, x: linalg.schur(x)[0],
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("order", [1, 2])
def test_rules_of_factorizations(rule: str, order: int) -> None:
    a = drawn(4, 4, dtype="float32") + np.diag(np.arange(4, dtype="float32"))

    def program(jax: Any, a: Any) -> Any:
        def total(x: Any) -> Any:
            leaves = jax.tree_util.tree_leaves(RULES[rule](jax.lax.linalg, x))
            weights = [jax.numpy.cos(jax.numpy.arange(1.0 * t.size)).reshape(t.shape) for t in leaves]
            return sum((w * (t.real + 0.5 * t.imag)).sum() for t, w in zip(leaves, weights, strict=True))

        slope = jax.grad(total)
        return (
            slope(jax.numpy.asarray(a))
            if order == 1
            else jax.grad(lambda x: (slope(x) ** 2).sum())(jax.numpy.asarray(a))
        )

    agree(program, a, rtol=2e-2, atol=2e-2, at_once=True)


def test_a_triangle_that_is_not_read_may_hold_anything() -> None:
    a = np.array([[1, 2], [np.nan, 3]], np.float32)
    agree(lambda jax: jax.lax.linalg.eigh(a, symmetrize_input=False, lower=False)[1])


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_tridiagonal_systems(dtype: str) -> None:
    below, main, above = (drawn(2, 6, dtype=dtype) * k for k in (1, 0.1, -1))  # pivots that elimination must look for
    below[:, 0] = above[:, -1] = 0
    b = drawn(2, 6, 3, dtype=dtype)

    def program(jax: Any) -> Any:
        solve = jax.lax.linalg.tridiagonal_solve
        operands = tuple(map(jax.numpy.asarray, (below, main, above, b)))

        def total(*args: Any) -> Any:
            return (abs(solve(*args)) ** 2).sum()

        slopes = jax.grad(total, (0, 1, 2, 3))
        return (
            solve(*operands),
            jax.vmap(lambda *args: solve(*args))(*operands),
            jax.vmap(lambda y: solve(*operands[:3], y), -1, -1)(operands[3]),
            jax.jit(slopes)(*operands),
            jax.jvp(solve, operands, operands)[1],
            jax.jvp(slopes, operands, operands)[1][3],
        )

    agree(program, rtol=1e-2, atol=2e-2)


def test_singular_tridiagonal_systems() -> None:
    zero, one = np.zeros(3, "float32"), np.ones((3, 1), "float32")
    main = np.array([1, 0, 2], "float32")
    agree(lambda jax: jax.lax.linalg.tridiagonal_solve(zero, main, zero, one))
    found = np.asarray(jaxish.lax.linalg.tridiagonal_solve(zero, main, zero, one, perturb_singular=True))
    assert np.isfinite(found).all() and abs(found[1, 0]) > 1e5


def test_memory_for_a_tridiagonal_system_is_linear_in_its_size() -> None:
    n = 20_000  # the dense matrix would take 1.6 GB, and minutes
    one = np.ones(n, "float32")
    x = np.asarray(jaxish.lax.linalg.tridiagonal_solve(one, 4 * one, one, one[:, None]))
    np.testing.assert_allclose(x[n // 2], 1 / 6, rtol=1e-5)


@pytest.mark.parametrize("name", ["cholesky", "eigh", "lu", "qr", "svd", "triangular_solve"])
def test_derivatives(name: str) -> None:
    a = drawn(4, 4, dtype="float32")
    a = a @ a.T + np.eye(4, dtype="float32")

    def program(jax: Any, a: Any) -> Any:
        linalg = jax.lax.linalg
        function = {
            "cholesky": linalg.cholesky,
            "eigh": lambda x: linalg.eigh(x)[1],
            "lu": lambda x: linalg.lu(x)[0],
            "qr": lambda x: linalg.qr(x, full_matrices=False)[1],
            "svd": lambda x: linalg.svd(x, full_matrices=False)[1],
            "triangular_solve": lambda x: linalg.triangular_solve(x, x, lower=True, transpose_a=True),
        }[name]
        x = jax.numpy.asarray(a)
        slope = jax.grad(lambda t: (function(t) ** 2).sum())
        return slope(x), jax.vmap(slope)(jax.numpy.stack([x, x + jax.numpy.eye(4)])), jax.jvp(function, (x,), (x,))[1]

    agree(program, a, rtol=1e-2, atol=1e-2, at_once=True)


def test_polar_decomposition_and_updates() -> None:
    def program(jax: Any) -> Any:
        linalg = jax.lax.linalg
        tall = jax.numpy.asarray(drawn(5, 3, dtype="float32"))
        r = jax.numpy.asarray(np.triu(drawn(4, 4, dtype="float32")) + 3 * np.eye(4, dtype="float32"))
        u, h, _, converged = linalg.qdwh(tall)
        c = jax.numpy.asarray(np.eye(5, dtype="float32"))
        return (
            u,
            h,
            converged,
            linalg.cholesky_update(r, r[:, 1]),
            linalg.symmetric_product(tall, c, alpha=2.0, beta=0.5),
        )

    agree(program, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("size", [3, 8, 40])
def test_vectors_have_the_same_signs_on_every_tier(size, dtype):
    """Programs that draw along eigenvectors come to other values with other signs: torch's LAPACK is not JAX's."""
    generator = np.random.RandomState(size)
    a = generator.randn(4, size, size).astype(dtype)
    if dtype.startswith("complex"):
        a = a + 1j * generator.randn(4, size, size).astype("float32")

    def program(jax):
        linalg = jax.numpy.linalg
        functions = [
            lambda x: linalg.eigh(x + x.mT.conj()).eigenvectors,
            lambda x: linalg.eig(x).eigenvectors,
            lambda x: linalg.svd(x, full_matrices=False).U,
            lambda x: linalg.svd(x[:, :2], full_matrices=False).U,
            lambda x: linalg.svd(x[:2], full_matrices=False).Vh,
        ]
        with jax.enable_x64(dtype == "float64"):
            return [f(jax.vmap(g))(a) for g in functions for f in (lambda f: f, jax.jit)]

    for tier in ("direct", "compiled"):
        with config.jit_tier(tier):
            agree(program, rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize("tier", ["auto", "compiled"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("shape", [(2, 2), (3, 3), (5, 2), (1, 4)])
def test_vectors_of_many_small_matrices(shape: tuple[int, int], dtype: str, tier: str) -> None:
    matrices = np.random.default_rng(5).normal(size=(10, 9, *shape)).astype(dtype)
    matrices[0, 0], matrices[1, 1], matrices[2, 2] = np.nan, 0, 1
    square = shape[0] == shape[1]

    def program(j: Any) -> Any:
        x, la = matrices, j.lax.linalg
        with j.enable_x64(True):
            found = [la.svd(x, full_matrices=full) for full in (True, False)]
            if square:
                found += [la.eigh(x, lower=lower, symmetrize_input=False) for lower in (True, False)]
                found.append(la.eig(x, compute_left_eigenvectors=False))
            return found

    tolerance = 1e-4 if dtype != "float64" else 1e-11
    with config.jit_tier(tier):
        for _ in range(3):
            agree(program, rtol=tolerance, atol=tolerance)


def test_many_small_matrices_are_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    matrices = np.random.default_rng(6).normal(size=(100, 3, 3)).astype(np.float32)

    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("LAPACK is called from Python.")

    for name in ("sgesdd", "ssyevd", "sgeev"):
        monkeypatch.setattr(f"scipy.linalg.lapack.{name}", refused)
    with config.jit_tier("compiled"):
        u, s, vh = jaxish.numpy.linalg.svd(matrices)
        np.testing.assert_allclose(s, np.linalg.svd(matrices)[1], rtol=1e-4)
        np.testing.assert_allclose((u * s[..., None, :]) @ vh, matrices, atol=1e-5)
        w, v = jaxish.numpy.linalg.eigh(matrices)
        np.testing.assert_allclose(
            (v * w[..., None, :]) @ v.mT, (matrices + np.moveaxis(matrices, 1, 2)) / 2, atol=1e-5
        )
        w, v = jaxish.numpy.linalg.eig(matrices)
        np.testing.assert_allclose(matrices @ v, v * w[..., None, :], atol=1e-5)
