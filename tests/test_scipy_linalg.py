"""jax.scipy.linalg against JAX: values, dtypes and errors, derivatives, vmap and jit."""

from typing import Any

import jax
import numpy as np
import pytest
import scipy.linalg
from oracle import agree

import jaxish
from jaxish.scipy import linalg

pytestmark = pytest.mark.usefixtures("unoptimized_jax")

RNG = np.random.default_rng(0)
A = RNG.normal(size=(2, 4, 4)).astype(np.float32)
C = (A + 1j * RNG.normal(size=(2, 4, 4))).astype(np.complex64)
P = (A @ A.transpose(0, 2, 1) + 2 * np.eye(4)).astype(np.float32)
H = (C @ C.conj().transpose(0, 2, 1) + 2 * np.eye(4)).astype(np.complex64)
B = RNG.normal(size=(2, 4, 3)).astype(np.float32)
TALL, WIDE = RNG.normal(size=(5, 3)).astype(np.float32), RNG.normal(size=(3, 5)).astype(np.float32)
I = (10 * A).astype(np.int32)  # noqa: E741


def check(*expressions: str, rtol: float = 1e-3, atol: float = 1e-3) -> None:
    """Assert that expressions of `s` (scipy.linalg), `jax`, `jnp` and the arrays above agree with JAX."""
    wrong = []
    for expression in expressions:

        def program(library: Any, text: str = expression) -> Any:
            return eval(text, {**globals(), "jax": library, "jnp": library.numpy, "s": library.scipy.linalg})

        try:
            agree(program, rtol=rtol, atol=atol)
        except Exception as error:
            wrong.append(f"{expression}: {type(error).__name__}: {str(error)[:400]}")
    assert not wrong, "\n".join(wrong)


def test_factorizations() -> None:
    check(
        *(f"s.cholesky({x}, lower={low})" for x in ("P", "H", "A[0]", "I[0]", "A[0, 0]", "TALL") for low in (0, 1)),
        "s.cho_factor(P[0])[0]",
        "s.svd(TALL, compute_uv=False)",
        "[abs(x) for x in s.svd(A, full_matrices=False)]",
        "[abs(x) for x in s.svd(WIDE)[1:2]]",
        "s.svd(I[0], compute_uv=False)",
        "s.eigh(P, eigvals_only=True)",
        "s.eigh(H, lower=False)[0]",
        "s.eigh(P, P)",
        "s.eigh(P, type=2)",
        "s.eigh(P, eigvals=(0, 1))",
        *(f"s.lu({x}, permute_l={p})" for x in ("A[0]", "C[0]", "TALL", "WIDE", "I[0]") for p in (True, False)),
        "s.lu_factor(A)",
        "s.lu_factor(I[0])",
        *(
            f"s.qr({x}, mode='{m}', pivoting={p})"
            for x in ("A", "C[0]", "TALL", "WIDE", "I[0]")
            for m in ("full", "economic", "r")
            for p in (True, False)
        ),
        "s.qr(A, mode='raw')",
        "s.schur(A[0], output='complexx')",
        "s.schur(I[0])",
        "s.schur(np.eye(3, dtype='float32'), 'complex')",
        *(f"s.hessenberg({x}, calc_q={q})" for x in ("A", "C[0]", "A[0, :1, :1]", "A[:, :0, :0]") for q in (0, 1)),
        "s.rsf2csf(*s.schur(A[0]))[0].dtype",
        "s.rsf2csf(A[0], A[0, :3, :3])",
        "s.rsf2csf(TALL, A[0])",
        *(
            f"s.{f}(P[0].astype('float16'))"
            for f in ("cholesky", "svd", "eigh", "lu", "qr", "schur", "hessenberg", "expm")
        ),
    )


@pytest.mark.parametrize("mode", ["right", "left"])
@pytest.mark.parametrize("pivoting", [False, True])
def test_qr_multiply(mode: str, pivoting: bool) -> None:
    check(
        *(
            f"s.qr_multiply({a}, {c}, '{mode}', {pivoting}, {conjugate})"
            for a in ("A", "C", "TALL", "WIDE", "I[0]")
            for c in ("A", "C[0]", "TALL", "TALL.T", "WIDE", "A[0, 0]", "TALL[0]", "TALL[:, 0]", "B")
            for conjugate in (False, True)
        ),
        "s.qr_multiply(A, A, 'up')",
    )


def test_real_schur_forms_become_triangular_ones() -> None:
    for a in (*A, RNG.normal(size=(7, 7)).astype(np.float32)):
        real_form, real_vectors = linalg.schur(a)
        form, vectors = map(np.asarray, linalg.rsf2csf(real_form, real_vectors))
        np.testing.assert_array_equal(np.tril(form, -1), 0)
        np.testing.assert_allclose(vectors @ form @ vectors.conj().T, a, atol=1e-5)
        np.testing.assert_allclose(vectors @ vectors.conj().T, np.eye(len(a)), atol=1e-5)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_systems() -> None:
    check(
        "s.det(A)",
        "s.inv(C)",
        *(f"s.solve(P, {b}, lower={low}, assume_a='pos')" for b in ("B", "B[..., 0]", "B[:, 0]") for low in (0, 1)),
        "s.solve(H, C, assume_a='pos')",
        "s.solve(H[0], C[0, 0], assume_a='pos')",
        "s.solve(-P, B, assume_a='pos')",
        "s.solve(P[0], B, assume_a='pos')",
        "s.solve(P, B[0], assume_a='pos')",
        *(f"s.solve(A, B, assume_a='{kind}')" for kind in ("gen", "sym", "her", "diag")),
        *(
            f"s.solve_triangular({a}, {b}, {t!r}, {low}, {unit})"
            for a, b in (("A", "B"), ("C", "B"), ("A[0]", "B"), ("A", "B[0]"), ("A", "B[..., 0]"), ("A[0]", "B[0, :, 0]"))
            for t in (0, 1, 2, "N", "T", "C", 3)
            for low in (False, True)
            for unit in (False, True)
        ),
        "s.solve_triangular(A[0], B[0, :3])",
        "s.solve_triangular(I[0], I[0] + 1)",
        "s.solve_triangular(A[0].astype('float16') + 3, B[0].astype('float16'))",
        *(
            f"s.cho_solve(({a}, {low}), {b})"
            for a, b in (("P", "B"), ("H", "C"), ("P[0]", "B"), ("P", "B[0]"), ("P", "B[..., 0]"), ("P[0]", "B[0, :, 0]"))
            for low in (False, True)
        ),
        *(
            f"s.lu_solve(s.lu_factor({a}), {b}, {t})"
            for a, b in (("A", "B"), ("C", "B"), ("A[0]", "B"), ("A", "B[0]"), ("A", "B[..., 0]"), ("A[0]", "B[0, :, 0]"))
            for t in (0, 1, 2, 3)
        ),
        *(f"s.solve_sylvester({a}, P[0], B[0].T @ P[0], method='{m}')" for a in ("P[1, :3, :3]", "C[0, :3, :3]")
          for m in ("schur", "eigen", "direct")),
        "s.solve_sylvester(A, A, A)",
        "s.solve_sylvester(A[0], -A[0], A[0])",
        "s.solve_sylvester(A[0], A[0], B[0])",
        rtol=5e-3, atol=5e-3,
    )  # fmt: skip


def test_exponentials() -> None:
    nilpotent = np.triu(A[0], 1)
    scales = (1e-3, 0.3, 1.0, 3.0, 10.0)
    for a in (*(c * x for c in scales for x in (A[0], C[0])), nilpotent, np.zeros((3, 3), np.float32)):
        wanted = scipy.linalg.expm(a.astype(np.complex128))
        np.testing.assert_allclose(np.asarray(linalg.expm(a)), wanted, rtol=1e-4, atol=3e-6 * abs(wanted).max())
    check(
        "s.expm(A)",
        "s.expm(C)",
        "s.expm(I[0] // 8)",
        "s.expm(jnp.triu(A[0]), upper_triangular=True)",
        "s.expm(40 * A[0], max_squarings=2)",
        "s.expm(jnp.full((2, 2), np.nan))",
        "s.expm(TALL)",
        "s.expm(A[0, 0])",
        "s.expm_frechet(A[0], P[0])",
        "s.expm_frechet(C[0], C[1], compute_expm=False)",
        "s.expm_frechet(A[0], P[0], method='blockEnlarge')",
        "s.expm_frechet(A[0], P)",
        "s.expm_frechet(TALL, TALL)",
        "jax.grad(lambda a: s.expm(a)[0, 1])(A[0])",
        "jax.grad(lambda a: abs(s.expm(a)).sum())(C[0])",
        "jax.hessian(lambda a: s.expm(a).sum())(A[0, :2, :2])",
        "jax.jacfwd(jax.jacfwd(s.expm))(A[0, :2, :2])",
        "jax.jacrev(jax.jacrev(lambda a: (s.expm(a) * A[1, :3, :3]).sum()))(A[0, :3, :3])",
        "jax.jacrev(jax.jacfwd(lambda a: (s.expm(a) * A[1, :3, :3]).sum()))(A[0, :3, :3])",
        "jax.grad(lambda a: abs(jax.grad(lambda b: abs(s.expm(b)).sum())(a)).sum())(C[0, :2, :2])",
        "jax.grad(lambda a, e: (s.expm_frechet(a, e)[1] * A[1]).sum(), (0, 1))(A[0], P[0])",
        "jax.vmap(jax.grad(lambda a: s.expm(a).sum()))(A)",
        "jax.jit(s.expm)(A)",
    )


def test_exponentials_in_double_precision() -> None:
    with jaxish.enable_x64(True):
        for scale in (1e-2, 1.0, 4.0, 30.0):
            a = scale * RNG.normal(size=(6, 6))
            wanted = scipy.linalg.expm(a)
            np.testing.assert_allclose(np.asarray(linalg.expm(a)), wanted, rtol=1e-10, atol=1e-13 * abs(wanted).max())


def test_functions_of_matrices() -> None:
    check(
        "s.sqrtm(P[0])",
        "s.sqrtm(H[0])",
        "s.sqrtm(C[0])",
        "s.sqrtm(jnp.zeros((3, 3)))",
        "s.sqrtm(I[0].astype('float32'), blocksize=2)",
        "s.funm(P[0], jnp.exp)",
        "s.funm(A[0], jnp.sin)",
        "s.funm(A[0], jnp.sin, disp=False)",
        "s.funm(jnp.eye(3), jnp.exp)",
        "s.funm(TALL, jnp.exp)",
        *(f"s.polar({a}, '{side}', method='{m}')" for a in ("A", "C[0]", "TALL", "WIDE") for side in ("left", "right", "up")
          for m in ("qdwh", "svd", "newton")),
        "s.polar(A[0, 0])",
        "jax.vmap(s.polar)(A)",
        rtol=3e-3, atol=3e-3,
    )  # fmt: skip


def test_roots_where_eigenvalues_are_zero() -> None:
    for a in (np.diag([0.0, 0.0, 4.0]), np.array([[4.0, 2.0, 0], [0, 1, 0], [0, 0, 0]])):
        root = np.asarray(linalg.sqrtm(a.astype(np.float32)))
        np.testing.assert_allclose(root @ root, a, atol=1e-5)
    assert np.isnan(np.asarray(linalg.sqrtm(np.array([[0, 1], [0, 0]], np.float32)))).any()


def test_derivative_of_the_polar_decomposition() -> None:
    check(
        *(f"jax.grad(lambda a: abs(s.polar(a, method='svd')[{i}] * P[0, :3, :3]).sum())({a})"
          for i in (0, 1) for a in ("A[0, :3, :3]", "C[0, :3, :3]")),
        "jax.jvp(lambda a: s.polar(a, method='svd'), (TALL,), (TALL[::-1],))",
        "jax.jvp(lambda a: s.polar(a, 'left', method='svd'), (WIDE,), (WIDE[::-1],))",
        "jax.jvp(lambda a: s.polar(a, 'right', method='svd'), (WIDE,), (WIDE[::-1],))",
    )  # fmt: skip


def test_eigenvalues_of_tridiagonal_matrices() -> None:
    d, e = A[0, 0], A[0, 1, :3]
    assert len(d) == len(e) + 1
    check(
        "s.eigh_tridiagonal(A[0, 0], A[0, 1, :3], eigvals_only=True)",
        "s.eigh_tridiagonal(A[0, 0], A[0, 1, :3], eigvals_only=True, select='i', select_range=(1, 2))",
        "s.eigh_tridiagonal(A[0, 0], A[0, 1, :3])[0]",
        "abs(s.eigh_tridiagonal(A[0, 0], A[0, 1, :3])[1])",
        "abs(s.eigh_tridiagonal(A[0, 0], A[0, 1, :3], select='i', select_range=(2, 3))[1])",
        "s.eigh_tridiagonal(C[0, 0], C[0, 1, :3], eigvals_only=True)",
        "s.eigh_tridiagonal(A[0, 0, :1], A[0, 1, :0])",
        "s.eigh_tridiagonal(A[0, 0], C[0, 1, :3])",
        "s.eigh_tridiagonal(I[0, 0], I[0, 1, :3])",
        "s.eigh_tridiagonal(A[0, 0], A[0, 1, :3], select='i', eigvals_only=True)",
        "s.eigh_tridiagonal(A[0, 0], A[0, 1, :3], select='i', select_range=(2, 1), eigvals_only=True)",
        "s.eigh_tridiagonal(A[0, 0], A[0, 1, :3], select='v', select_range=(2, 1), eigvals_only=True)",
        "s.eigh_tridiagonal(A[0, 0], A[0, 1, :3], select='x', eigvals_only=True)",
        "jax.vmap(lambda d, e: s.eigh_tridiagonal(d, e, eigvals_only=True))(A[:, 0], A[:, 1, :3])",
    )
    main, off = C[0, 0], C[0, 1, :3]
    values, vectors = map(np.asarray, linalg.eigh_tridiagonal(main, off))
    full = np.diag(main.real) + np.diag(off, 1) + np.diag(off.conj(), -1)
    np.testing.assert_allclose(full @ vectors, vectors * values, atol=1e-5)


def test_derivatives_of_tridiagonal_eigenvalues_are_those_of_the_full_matrix() -> None:
    d, e = A[0, 0], A[0, 1, :3]

    def ours(d: Any, e: Any) -> Any:
        values, vectors = linalg.eigh_tridiagonal(d, e)
        return (values**2).sum() + (vectors[0] ** 4).sum()

    def theirs(d: Any, e: Any) -> Any:
        values, vectors = jax.numpy.linalg.eigh(jax.numpy.diag(d) + jax.numpy.diag(e, 1) + jax.numpy.diag(e, -1))
        return (values**2).sum() + (vectors[0] ** 4).sum()

    def alone(d: Any, e: Any) -> Any:
        values: Any = linalg.eigh_tridiagonal(d, e, eigvals_only=True, select="i", select_range=(1, 2))
        return (values**2).sum()

    def sliced(d: Any, e: Any) -> Any:
        return (linalg.eigh_tridiagonal(d, e)[0][1:3] ** 2).sum()

    for found, wanted in zip(jaxish.grad(alone, (0, 1))(d, e), jaxish.grad(sliced, (0, 1))(d, e), strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-4, atol=1e-5)
    for found, wanted in zip(jaxish.grad(ours, (0, 1))(d, e), jax.grad(theirs, (0, 1))(d, e), strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-3, atol=1e-4)


def test_derivatives_of_factorizations_and_systems() -> None:
    check(
        "jax.grad(lambda a: s.cholesky(a).sum())(P[0])",
        "jax.grad(lambda a: s.cho_solve(s.cho_factor(a), B[0]).sum())(P[0])",
        "jax.hessian(lambda b: (s.cho_solve(s.cho_factor(P[0]), b)**3).sum())(B[0, :, 0])",
        "jax.grad(lambda a: s.lu_solve(s.lu_factor(a), B[0]).sum())(A[0])",
        "jax.jvp(lambda a: s.lu_solve(s.lu_factor(a), B[0], 1), (A[0],), (A[1],))",
        "jax.hessian(lambda a: s.lu_solve(s.lu_factor(a), B[0]).sum())(A[0] + 3 * np.eye(4, dtype='float32'))",
        "jax.hessian(lambda a: s.solve_triangular(a, B[0]).sum())(A[0] + 3 * np.eye(4, dtype='float32'))",
        "jax.grad(lambda a: s.solve(a, B[0], assume_a='pos').sum())(P[0])",
        "jax.hessian(lambda a: s.solve(a, B[0], assume_a='pos').sum())(P[0])",
        "jax.grad(lambda a: s.qr(a, mode='economic')[1].sum())(A[0])",
        "jax.grad(lambda a: s.svd(a, compute_uv=False).sum())(A[0])",
        "jax.grad(lambda a: (s.eigh(a)[1]**4).sum())(P[0])",
        "jax.grad(lambda a: s.lu(a)[2].sum())(A[0])",
        "jax.jit(jax.vmap(lambda a, b: s.solve(a, b, assume_a='pos')))(P, B)",
        "jax.vmap(s.lu_factor)(A)",
        "jax.vmap(lambda a, b: s.lu_solve(s.lu_factor(a), b))(A, B[..., 0])",
        "jax.vmap(s.sqrtm)(P)",
        "jax.jit(lambda a: s.solve_sylvester(a, a, a))(P[0])",
        rtol=1e-2, atol=1e-2,
    )  # fmt: skip


def test_matrices_of_vectors() -> None:
    check(
        *(f"s.{f}({x})" for f in ("toeplitz", "hankel", "circulant", "companion", "fiedler", "fiedler_companion")
          for x in ("A[0, 0]", "C", "I[0]", "A[0, 0, :1]", "A[0, 0, :2]", "A[0, 0, :0]", "2.0", "[1, 2]",
                    "np.array([3, 1, 2], 'uint8')", "np.array([True, False])")),
        *(f"s.{f}({x}, {y})" for f in ("toeplitz", "hankel", "leslie")
          for x, y in (("A[0, 0]", "B[0, 0]"), ("C[0, 0]", "B"), ("I[0, 0]", "A[:, 0, :3]"), ("A[0, 0, :2]", "A[0, 0, :1]"),
                       ("A[0, 0, :0]", "B[0, 0]"), ("I[0, 0]", "I[0, 1, :3]"), ("A", "B.mT[0, 0, :3]"))),
        *(f"s.convolution_matrix({x}, {n}, '{m}')" for x in ("A[0, 0]", "C[0]", "I[0, 0, :2]", "2.0", "A[0, 0, :0]")
          for n in (0, 1, 3, 6) for m in ("full", "same", "valid", "none")),
        *(f"s.block_diag({x})" for x in ("", "A[0]", "A[0], B[0], 1.0", "I[0, 0], C[0]", "A[0], A", "A[:, 0], A[0, :0]")),
        "jax.grad(lambda c: (s.toeplitz(c) ** 2).sum())(A[0, 0])",
        "jax.jacfwd(s.fiedler_companion)(A[0, 0])",
    )  # fmt: skip


def test_matrices_of_a_size() -> None:
    check(
        *(f"s.hilbert({n})" for n in (0, 1, 5)),
        *(f"s.invhilbert({n})" for n in (1, 2, 6)),
        *(f"s.{f}({n}, {k!r})" for f in ("pascal", "invpascal") for n in (1, 5)
          for k in (None, "lower", "upper", "symmetric", "none")),
        *(f"s.helmert({n}, {full})" for n in (-1, 0, 1, 2, 5) for full in (False, True)),
        *(f"s.hadamard({n}, '{d}')" for n in (0, 1, 2, 3, 8) for d in ("int32", "float16", "bool", "complex64")),
        "s.hadamard(4)",
        *(f"s.dft({n}, {scale!r}, dtype={d!r})" for n in (0, 1, 5) for scale in (None, "n", "sqrtn", "m")
          for d in (None, "complex64", "float32")),
        atol=2e-3,
    )  # fmt: skip
