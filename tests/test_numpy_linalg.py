"""Products, einsum, linear algebra and Fourier transforms against JAX."""

import jax
import numpy as np
import pytest
from oracle import agree

import jaxish

RNG = np.random.default_rng(0)
A = RNG.normal(size=(2, 3, 3)).astype(np.float32)
S = (A @ A.transpose(0, 2, 1) + 2 * np.eye(3)).astype(np.float32)
W = RNG.normal(size=(4, 3)).astype(np.float32)
C = (A + 1j * RNG.normal(size=(2, 3, 3))).astype(np.complex64)


def check(*programs, rtol=2e-4, atol=2e-4):
    wrong = []
    for position, program in enumerate(programs):
        try:
            agree(lambda jax, p=program: p(jax, jax.numpy), rtol=rtol, atol=atol)
        except Exception as error:
            wrong.append(f"program {position}: {type(error).__name__}: {str(error)[:400]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "name",
    [
        "matmul",
        "dot",
        "inner",
        "vdot",
        "tensordot",
        "outer",
        "kron",
        "vecdot",
        "matvec",
        "vecmat",
        "cross",
        "linalg.matmul",
    ],
)
def test_products_agree_for_every_dtype_and_rank(name):
    shapes = [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((2, 3), (3, 4)),
        ((5, 2, 3), (3, 4)),
        ((2, 3), (5, 3, 4)),
        ((), (3,)),
        ((3,), (5, 3, 4)),
        ((2, 3), (2, 3)),
        ((2,), (3,)),
    ]

    def program(jax, left, right, dtype, other):
        f = jax.numpy
        for part in name.split("."):
            f = getattr(f, part)
        a = jax.numpy.arange(np.prod(left)).reshape(left).astype(dtype)
        b = (jax.numpy.arange(np.prod(right)).reshape(right) + 1).astype(other)
        return f(a, b)

    for left, right in shapes:
        agree(lambda jax, x=left, y=right: program(jax, x, y, "float32", "float32"))
    for dtype in ("bool", "int8", "uint32", "float16", "bfloat16", "complex64"):
        agree(
            lambda jax, d=dtype: program(
                jax, (2, 3), (2, 3) if name in ("inner", "vecdot", "cross", "vdot", "outer", "kron") else (3, 2), d, d
            ),
            rtol=1e-2,
        )
        agree(lambda jax, d=dtype: program(jax, (3,), (3,), d, "int32"), rtol=1e-2)


def test_options_of_products():
    x = np.arange(6).reshape(2, 3)
    check(
        lambda jax, jnp: jnp.matmul(x.astype(np.int8), x.T.astype(np.int8), preferred_element_type="int32"),
        lambda jax, jnp: jnp.matmul(x.astype("float16"), x.T.astype("float16"), preferred_element_type="float32"),
        lambda jax, jnp: jnp.tensordot(A, A, 2),
        lambda jax, jnp: jnp.tensordot(A, A, ((0, 1), (0, 2))),
        lambda jax, jnp: jnp.tensordot(A, W, (2, 1)),
        lambda jax, jnp: jnp.tensordot(A, W, 0),
        lambda jax, jnp: jnp.tensordot(A, W, 5),
        lambda jax, jnp: jnp.tensordot(A, W, ((0,), (0, 1))),
        lambda jax, jnp: jnp.cross(A, A[::-1], axis=1),
        lambda jax, jnp: jnp.cross(x[:, :2], x[:, :2]),
        lambda jax, jnp: jnp.cross(A[..., :2], A[::-1]),
        lambda jax, jnp: jnp.matmul(1, x),
        lambda jax, jnp: jnp.vecdot(C, C),
        lambda jax, jnp: jnp.vdot(C, C),
        lambda jax, jnp: jnp.vecmat(C[0, 0], C[0]),
    )


# Axes of one name and two sizes.
OF_ONE_NAME = [
    ("aab->ab", (1, 3, 2)),
    ("aab->ab", (3, 1, 2)),
    ("aaaa->a", (3, 1, 3, 3)),
    ("abab->", (1, 3, 3, 1)),
    ("aa,aa->a", (1, 3), (3, 3)),
    ("abb,bb->a", (2, 3, 1), (1, 3)),
    ("bab,cbb->ac", (3, 1, 1), (2, 1, 3)),
    ("aab,cb->ac", (1, 3, 1), (2, 3)),
    ("aa,aa,a->a", (1, 3), (3, 3), (1,)),
]
EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("ij->ji", (2, 3)),
    ("ij->", (2, 3)),
    ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)),
    ("...ij,...jk->...ik", (5, 2, 3), (3, 4)),
    ("i,j->ij", (2,), (3,)),
    ("i,i", (3,), (3,)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("ij,j,i", (2, 3), (3,), (2,)),
    ("ij,ij->i", (2, 3), (2, 3)),
    ("iij->j", (3, 3, 2)),
    ("ijk,ilm,njm,nlk,abc->", (2, 2, 2), (2, 2, 2), (2, 2, 2), (2, 2, 2), (1, 1, 1)),
    ("ij, jk -> ki", (2, 3), (3, 4)),
    ("...->...", (2, 3)),
    ("ij,jk->ik", (2, 3), (2, 4)),
    ("ij->ik", (2, 3)),
    ("ijk->ij", (2, 3)),
    ("ij,kj->", (2, 1), (4, 3)),
    ("...qhgd,...kh1d->...hgqk", (2, 3, 2, 2, 3), (2, 4, 2, 1, 3)),
    *OF_ONE_NAME,
]


@pytest.mark.parametrize("case", EINSUMS, ids=lambda c: c[0])
def test_einsum(case):
    equation, *shapes = case

    def program(jax, dtype):
        arrays = [jax.numpy.arange(np.prod(s)).reshape(s).astype(dtype) for s in shapes]
        return jax.numpy.einsum(equation, *arrays)

    agree(lambda jax: program(jax, "float32"), rtol=1e-4)
    agree(lambda jax: program(jax, "int8"))


def test_other_forms_of_einsum():
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    check(
        lambda jax, jnp: jnp.einsum(x, [0, 1], x, [2, 1], [0, 2]),
        lambda jax, jnp: jnp.einsum(x, [0, 1], x, [2, 1]),
        lambda jax, jnp: jnp.einsum("ij,kj,kl->il", x, x, x, optimize=False),
        lambda jax, jnp: jnp.einsum("ij,kj,kl->il", x, x, x, optimize="greedy"),
        lambda jax, jnp: jnp.einsum(
            "ij,kj->ik", x.astype("float16"), x.astype("float16"), preferred_element_type="float32"
        ),
        lambda jax, jnp: jnp.einsum_path("ij,kj,kl->il", x, x, x)[0],
        lambda jax, jnp: jnp.einsum("ij,jk", x, 2),
        lambda jax, jnp: jnp.einsum("i", x, out=x),
        lambda jax, jnp: jnp.einsum("ij,kj,kl->il", x, x, x, optimize=["einsum_path", (0, 1, 2)]),
        lambda jax, jnp: jax.jit(lambda a: jnp.einsum("ij,kj,kl->il", a, a, a, optimize=[(0, 1, 2)]))(x),
        lambda jax, jnp: jax.grad(lambda a: jnp.einsum("ij,kj,kl->il", a, a, a).sum())(x),
    )


PRODUCTS = [
    ("...qhd,...khd->...hqk", (2, 3, 4, 5), (2, 6, 4, 5)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ij,jk->ki", (2, 3), (3, 4)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("ii,ij->j", (3, 3), (3, 4)),
    ("iij,jk->ik", (2, 2, 3), (3, 2)),
    ("iji,jk->ik", (2, 3, 2), (3, 2)),
    ("ij->i", (2, 3)),
    ("ij,ij->i", (1, 3), (4, 3)),
    ("ijk,jl->l", (2, 3, 4), (3, 5)),
    ("i,j->ij", (2,), (3,)),
    ("...qhgd,...kh1d->...hgqk", (2, 3, 2, 2, 3), (2, 4, 2, 1, 3)),
    *OF_ONE_NAME,
]


def test_einsum_refuses_three_operands_at_once_in_jaxs_words():
    for library in (jax, jaxish):
        with pytest.raises(
            NotImplementedError, match="does not support simultaneous contraction of 3 or more operands"
        ):
            library.numpy.einsum("ij,jk,kl->il", *[np.ones((2, 2))] * 3, optimize=[(0, 1, 2)])


@pytest.mark.parametrize("case", PRODUCTS, ids=lambda c: c[0])
def test_einsum_by_the_callers_products(case):
    equation, *shapes = case

    def program(jax, dtypes):
        calls = []

        def twice(a, b, numbers, precision=None, preferred_element_type=None):
            calls.append(
                (a.shape, b.shape, str(a.dtype), str(b.dtype), numbers, precision, str(preferred_element_type))
            )
            return 2 * jax.lax.dot_general(a, b, numbers, precision, preferred_element_type=preferred_element_type)

        arrays = [jax.numpy.arange(np.prod(s)).reshape(s).astype(d) for s, d in zip(shapes, dtypes, strict=False)]
        return jax.numpy.einsum(equation, *arrays, precision="highest", _dot_general=twice), calls

    agree(lambda jax: program(jax, ["float32"] * 3), rtol=1e-4)
    agree(lambda jax: program(jax, ["int32", "float32", "float16"]), rtol=1e-4)


def test_decompositions():
    check(
        lambda jax, jnp: jnp.linalg.cholesky(S),
        lambda jax, jnp: jnp.linalg.cholesky(S, upper=True),
        lambda jax, jnp: jnp.linalg.cholesky(-S),
        lambda jax, jnp: [abs(f) for f in jnp.linalg.qr(W)],
        lambda jax, jnp: abs(jnp.linalg.qr(W, "r")),
        lambda jax, jnp: jnp.linalg.qr(W, "complete").Q.shape,
        lambda jax, jnp: jnp.linalg.qr(W, "no"),
        lambda jax, jnp: jnp.linalg.svd(A, compute_uv=False),
        lambda jax, jnp: [abs(f) for f in jnp.linalg.svd(W, full_matrices=False)],
        lambda jax, jnp: jnp.linalg.svd(S, hermitian=True).S,
        lambda jax, jnp: jnp.linalg.svdvals(C),
        lambda jax, jnp: jnp.linalg.eigh(S).eigenvalues,
        lambda jax, jnp: [abs(f) for f in jnp.linalg.eigh(S)],
        lambda jax, jnp: jnp.linalg.eigvalsh(C),
        lambda jax, jnp: jnp.sort(jnp.abs(jnp.linalg.eigvals(A[0]))),
        lambda jax, jnp: type(jnp.linalg.eig(A[0])).__name__,
        lambda jax, jnp: jnp.linalg.det(A),
        lambda jax, jnp: jnp.linalg.det(A[0, :2, :2]),
        lambda jax, jnp: jnp.linalg.det(np.eye(4) * 2),
        lambda jax, jnp: tuple(jnp.linalg.slogdet(A)),
        lambda jax, jnp: tuple(jnp.linalg.slogdet(C)),
        lambda jax, jnp: tuple(jnp.linalg.slogdet(np.zeros((3, 3)))),
        lambda jax, jnp: tuple(jnp.linalg.slogdet(S, method="qr")),
        lambda jax, jnp: jnp.linalg.det(W),
        lambda jax, jnp: jnp.linalg.eigh(S, UPLO="X"),
        lambda jax, jnp: jnp.linalg.eigh(A, UPLO="U", symmetrize_input=False).eigenvalues,
        lambda jax, jnp: jnp.linalg.svd(np.full((2, 2), np.nan), compute_uv=False),
        lambda jax, jnp: jnp.linalg.cholesky(np.array([[2, 1], [1, 2]])),
    )


def test_solving():
    check(
        lambda jax, jnp: jnp.linalg.solve(A, W.T),
        lambda jax, jnp: jnp.linalg.solve(A[0], W[0]),
        lambda jax, jnp: jnp.linalg.inv(A),
        lambda jax, jnp: jnp.linalg.inv(W),
        lambda jax, jnp: jnp.linalg.pinv(W),
        lambda jax, jnp: jnp.linalg.pinv(np.ones((3, 2))),
        lambda jax, jnp: jnp.linalg.pinv(S, hermitian=True),
        lambda jax, jnp: jnp.linalg.pinv(C),
        lambda jax, jnp: jnp.linalg.lstsq(W, W[:, 0]),
        lambda jax, jnp: jnp.linalg.lstsq(W, W),
        lambda jax, jnp: jnp.linalg.matrix_power(A, 3),
        lambda jax, jnp: jnp.linalg.matrix_power(A, -2),
        lambda jax, jnp: jnp.linalg.matrix_power(A, 0),
        lambda jax, jnp: jnp.linalg.matrix_power(np.array([[1, 1], [1, 0]]), 10),
        lambda jax, jnp: jnp.linalg.matrix_rank(np.ones((3, 3))),
        lambda jax, jnp: jnp.linalg.matrix_rank(A),
        lambda jax, jnp: jnp.linalg.cond(A),
        lambda jax, jnp: jnp.linalg.cond(A, 1),
        lambda jax, jnp: jnp.linalg.cond(A, -2),
        lambda jax, jnp: jnp.linalg.tensorinv(np.eye(6, dtype=np.float32).reshape(2, 3, 6)[..., ::-1], 2),
        lambda jax, jnp: jnp.linalg.tensorsolve(
            np.eye(6, dtype=np.float32).reshape(2, 3, 6), np.ones((2, 3), np.float32)
        ),
        lambda jax, jnp: jnp.linalg.multi_dot([W, A[0], W.T]),
        lambda jax, jnp: jnp.linalg.multi_dot([W[0], A[0], W[1]]),
        lambda jax, jnp: jnp.linalg.solve(A, np.ones((2, 2))),
        lambda jax, jnp: jnp.linalg.solve(W[0], W),
        lambda jax, jnp: jnp.linalg.multi_dot([W]),
        lambda jax, jnp: jnp.linalg.matrix_power(W, 2),
    )


def test_norms():
    v = W[0]
    programs = [lambda jax, jnp, o=o: jnp.linalg.norm(v, o) for o in (None, 1, 2, 3, np.inf, -np.inf, 0, "inf")]
    programs += [
        lambda jax, jnp, o=o, k=k: jnp.linalg.norm(A, o, axis=(0, 2), keepdims=k)
        for o in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf, 3)
        for k in (False, True)
    ]
    programs += [
        lambda jax, jnp: jnp.linalg.norm(A),
        lambda jax, jnp: jnp.linalg.norm(C, axis=1),
        lambda jax, jnp: jnp.linalg.norm(A, 2),
        lambda jax, jnp: jnp.linalg.norm(A, axis=(0, 1, 2)),
    ]
    programs += [
        lambda jax, jnp: jnp.linalg.vector_norm(A, axis=(0, 1)),
        lambda jax, jnp: jnp.linalg.matrix_norm(A, ord=2),
        lambda jax, jnp: jnp.linalg.vector_norm(A, ord=1, keepdims=True),
    ]
    check(*programs)


def test_the_array_api_spellings():
    check(
        lambda jax, jnp: jnp.linalg.outer(W[0], W[1]),
        lambda jax, jnp: jnp.linalg.outer(W, W),
        lambda jax, jnp: jnp.linalg.cross(A, A[::-1]),
        lambda jax, jnp: jnp.linalg.cross(A[..., :2], A[..., :2]),
        lambda jax, jnp: jnp.linalg.diagonal(A, offset=1),
        lambda jax, jnp: jnp.linalg.trace(A),
        lambda jax, jnp: jnp.linalg.matrix_transpose(A),
        lambda jax, jnp: jnp.linalg.vecdot(A, A),
        lambda jax, jnp: jnp.linalg.tensordot(A, A, axes=1),
    )


GRADIENTS = {
    "cholesky": lambda jnp, a, s: jnp.linalg.cholesky(s),
    "inv": lambda jnp, a, s: jnp.linalg.inv(s),
    "solve": lambda jnp, a, s: jnp.linalg.solve(s, a),
    "det": lambda jnp, a, s: jnp.linalg.det(a),
    "slogdet": lambda jnp, a, s: jnp.linalg.slogdet(s)[1],
    "eigh": lambda jnp, a, s: jnp.linalg.eigh(s)[0],
    "svd": lambda jnp, a, s: jnp.linalg.svd(a, compute_uv=False),
    "qr": lambda jnp, a, s: abs(jnp.linalg.qr(a)[1]),
    "pinv": lambda jnp, a, s: jnp.linalg.pinv(a[:, :, :2]),
    "norm": lambda jnp, a, s: jnp.linalg.norm(a, axis=1),
    "nuclear": lambda jnp, a, s: jnp.linalg.norm(a, "nuc", (1, 2)),
    "lstsq": lambda jnp, a, s: jnp.linalg.lstsq(a[0], s[0])[0],
    "fft": lambda jnp, a, s: abs(jnp.fft.fft(a)),
    "irfft": lambda jnp, a, s: jnp.fft.irfft(jnp.fft.rfft(a)),
    "matrix_power": lambda jnp, a, s: jnp.linalg.matrix_power(a, 3),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_derivatives(name):
    def program(jax):
        def loss(a, s):
            return (GRADIENTS[name](jax.numpy, a, s) ** 2).sum()

        return jax.grad(loss, (0, 1))(A, S), jax.jvp(
            lambda a: GRADIENTS[name](jax.numpy, a, S), (jax.numpy.asarray(A),), (jax.numpy.asarray(A[::-1].copy()),)
        )[1]

    agree(program, rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize("name", ["rfft", "ihfft", "rfftn", "irfft"])
def test_jitted_transforms_have_derivatives(name):
    """torch goes back through those of real numbers by writing cotangents into a part of what they are padded to."""

    def program(jax):
        f = jax.jit(lambda x: abs(getattr(jax.numpy.fft, name)(x)) ** 2)
        loss = lambda x: (f(x) ** 2).sum()
        _, back = jax.vjp(f, A)
        cotangent = jax.numpy.ones_like(f(A))
        rows = lambda x: jax.lax.scan(lambda total, row: (total + loss(row[None]), None), 0.0, x)[0]
        return (
            back(cotangent), back(2 * cotangent), jax.vmap(jax.grad(loss))(A), jax.jit(jax.grad(loss))(A),
            jax.jvp(jax.grad(loss), (A,), (A[::-1].copy(),))[1], jax.grad(rows)(A),
        )  # fmt: skip

    agree(program, rtol=1e-3, atol=1e-2)


def test_least_squares_of_complex_numbers_have_derivatives_where_values_are_traced():
    def program(jax):
        loss = lambda a: abs(jax.numpy.linalg.lstsq(a, np.array([1, 2j, 3], "complex64"))[0]).sum()
        a = np.array([[[1, 2], [3j, 4], [5, 7]], [[2, 2j], [3, 1], [5, 6]]], "complex64")
        return jax.grad(jax.jit(loss))(a[0]), jax.vmap(jax.grad(loss))(a)

    agree(program, rtol=1e-3, atol=1e-3)


FOURIER = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]


@pytest.mark.parametrize("name", FOURIER)
@pytest.mark.parametrize("norm", [None, "ortho", "forward", "no"])
def test_fourier_transforms_of_one_axis(name, norm):
    x = A if name in ("rfft", "ihfft") else C
    for options in ({}, {"n": 5}, {"n": 2}, {"axis": 0}, *([{"axis": 5}, {"n": -1}] if norm != "no" else [])):
        agree(lambda jax, o=options: getattr(jax.numpy.fft, name)(x, norm=norm, **o), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2"])
def test_fourier_transforms_of_several_axes(name):
    x = A if "rfft" in name and "irfft" not in name else C
    for options in (
        {},
        {"s": (4, 2)},
        {"axes": (0, 2)},
        {"s": (4, 2), "axes": (2, 0)},
        {"axes": (1,)},
        {"axes": (0, 0)},
        {"s": (2,), "axes": (0, 1)},
        {"norm": "ortho"},
    ):
        agree(lambda jax, o=options: getattr(jax.numpy.fft, name)(x, **o), rtol=1e-4, atol=1e-4)


def test_frequencies_and_shifts():
    check(
        lambda jax, jnp: [
            jnp.fft.fftfreq(5),
            jnp.fft.fftfreq(4, 0.5),
            jnp.fft.rfftfreq(5),
            jnp.fft.rfftfreq(4, d=2),
            jnp.fft.fftshift(A),
            jnp.fft.ifftshift(A, 1),
            jnp.fft.fftshift(np.arange(5), 0),
        ],
        lambda jax, jnp: jnp.fft.fftfreq([1]),
        lambda jax, jnp: jnp.fft.rfft(C),
        lambda jax, jnp: jnp.fft.fft(np.arange(4)),
        lambda jax, jnp: jnp.fft.fft(A, axis=(0, 1)),
    )


DERIVED = {
    "solve": lambda jnp, a: jnp.linalg.solve(a, a[0] ** 2).sum(),
    "solve of several": lambda jnp, a: jnp.sin(jnp.linalg.solve(a, a[:, :2])).sum(),
    "inv": lambda jnp, a: jnp.sin(jnp.linalg.inv(a)).sum(),
    "det": lambda jnp, a: jnp.linalg.det(a),
    "slogdet": lambda jnp, a: jnp.linalg.slogdet(a)[1],
    "pinv": lambda jnp, a: jnp.sin(jnp.linalg.pinv(a[:3])).sum(),
    "pinv, hermitian": lambda jnp, a: jnp.sin(jnp.linalg.pinv(a + a.T, hermitian=True)).sum(),
    "complex solve": lambda jnp, a: jnp.abs(jnp.linalg.solve(a + 1j * a.T, a[0])).sum(),
    "complex slogdet": lambda jnp, a: jnp.real(jnp.linalg.slogdet(a + 1j * a.T)[0] * (1 + 2j)),
    "complex det": lambda jnp, a: jnp.abs(jnp.linalg.det(a + 1j * a.T)),
}


@pytest.mark.parametrize("name", DERIVED)
def test_second_derivatives_in_every_mixture_of_modes(name):
    a = np.random.RandomState(0).randn(4, 4) + 3 * np.eye(4)

    def program(jax):
        with jax.enable_x64(True):
            x = jax.numpy.asarray(a)

            def f(v):
                return DERIVED[name](jax.numpy, v)

            return [
                jax.grad(f)(x),
                jax.jacfwd(jax.grad(f))(x),
                jax.jacfwd(jax.jacfwd(f))(x),
                jax.jacrev(jax.grad(f))(x),
                jax.jacrev(jax.jacfwd(f))(x),
                jax.vmap(jax.hessian(f))(jax.numpy.stack([x, x.T])),
                jax.jit(jax.hessian(f))(x),
            ]

    agree(program, rtol=1e-7, atol=1e-8)


def test_solutions_for_many_right_sides_and_many_matrices():
    a = np.random.RandomState(0).randn(2, 4, 4) + 3 * np.eye(4)
    b = np.random.RandomState(1).randn(3, 4)

    def program(jax):
        solve = jax.numpy.linalg.solve
        with jax.enable_x64(True):
            return [
                jax.vmap(lambda m: jax.vmap(lambda v: solve(m, v))(b))(a),
                jax.vmap(lambda m: jax.vmap(jax.grad(lambda v: solve(m, v).sum()))(b))(a),
                jax.vmap(lambda m, v: jax.jacfwd(solve)(m, v), (0, None))(a, b[0]),
                jax.jit(jax.vmap(jax.grad(lambda m: solve(m, b[0]).sum())))(a),
            ]

    agree(program, rtol=1e-9, atol=1e-10)


def test_determinants_of_singular_matrices_have_gradients():
    a = np.random.RandomState(0).randn(4, 4)
    a[3] = a[0]

    def program(jax):
        with jax.enable_x64(True):
            det = jax.numpy.linalg.det
            return jax.grad(det)(a), jax.jit(jax.grad(det))(a), jax.vmap(jax.grad(det))(np.stack([a, a.T]))

    agree(program, rtol=1e-7, atol=1e-9)


def test_products_of_scalars():
    x = np.float32(2)
    agree(
        lambda j: [
            j.numpy.tensordot(x, x, 0),
            j.numpy.tensordot(x, np.arange(3.0), 0),
            j.numpy.tensordot(np.ones((2, 2)), x, 0),
        ]
    )
    agree(lambda j: j.vmap(lambda a: j.numpy.tensordot(a, a, 0))(np.ones(3)))


FFT_OPERANDS = [
    np.ones((4, 4), np.complex64),
    np.ones((4, 4), np.float16),
    np.ones((4, 4), np.int32),
    np.ones(4, np.float32),
    np.ones((), np.float32),
]
ONE_AXIS = [{}, {"norm": "none"}, {"axis": 3}, {"axis": (0, 1)}, {"n": 0}, {"n": (0, 1)}]
MORE_AXES = [
    {},
    {"norm": "none"},
    {"axes": (3,)},
    {"axes": (0, 0)},
    {"s": (0,)},
    {"s": (0,), "axes": (0,)},
    {"axes": ()},
]


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft", "hfft", "ihfft", "fftn", "rfftn", "irfftn", "fft2", "rfft2"])
def test_fourier_transforms_refuse_what_jax_refuses(name):
    several = name[-1] in "n2"
    for operand in FFT_OPERANDS:
        longer = [{"s": (2,) * (operand.ndim + 1)}] if several and operand.ndim else []
        for options in [*(MORE_AXES if several else ONE_AXIS), *longer]:
            agree(lambda j: getattr(j.numpy.fft, name)(operand, **options))
