"""jax.scipy.spatial.transform against JAX's: rotations and their interpolation."""

import itertools
from typing import Any

import jax.scipy.spatial.transform  # noqa: F401
import numpy as np
import pytest
import scipy.spatial.transform
from oracle import agree

RNG = np.random.default_rng(0)
ONE = RNG.normal(size=4).astype("float32")
THREE = RNG.normal(size=(3, 4)).astype("float32")
LOOSE: dict[str, Any] = {"rtol": 1e-3, "atol": 2e-4}
QUATERNIONS = {
    "one": ONE, "three": THREE, "integers": (9 * THREE).astype(int), "list": [0, 0, 0, 1],
    "lists": [[0.0, 0, 0, 1], [0, 1, 1, 1]],
}  # fmt: skip


def rotation(library):
    return library.scipy.spatial.transform.Rotation


def slerp(library):
    return library.scipy.spatial.transform.Slerp


@pytest.mark.parametrize("name", QUATERNIONS)
def test_representations(name):
    def r(j):
        return rotation(j).from_quat(QUATERNIONS[name])

    for method in ["as_matrix", "as_mrp", "as_rotvec", "inv", "magnitude", "mean", "__len__"]:
        agree(lambda j: getattr(r(j), method)(), **LOOSE)
    for flags in itertools.product([False, True], repeat=2):
        agree(lambda j: r(j).as_quat(*flags))
    agree(lambda j: r(j).as_rotvec(True), rtol=1e-3, atol=1e-2)
    for seq in ["xyz", "zyx", "XYZ", "ZYX", "xyx", "ZXZ", "yzy", "YXY", "xy", "xxy", "xYz", "abc", ""]:
        agree(lambda j: r(j).as_euler(seq), **LOOSE)
        agree(lambda j: r(j).as_euler(seq, True), rtol=1e-3, atol=1e-2)
    for index in (0, slice(1, None)):
        agree(lambda j: r(j)[index])
    for weights in ([1, 2, 3], [1, 2], [[1, 2, 3]]):
        agree(lambda j: r(j).mean(weights).as_rotvec(), **LOOSE)
    agree(lambda j: r(j).single)


@pytest.mark.parametrize("name", QUATERNIONS)
def test_products(name):
    def r(j):
        return rotation(j).from_quat(QUATERNIONS[name])

    for other in (ONE, THREE):
        agree(lambda j: r(j) * rotation(j).from_quat(other), **LOOSE)
    agree(lambda j: rotation(j).concatenate([r(j), rotation(j).from_quat(THREE)]))
    several = [[1, 2, 3], np.arange(3), np.ones((3, 3)) * [1, 2, 3], np.ones((2, 3)), np.ones((2, 1, 3))]
    for vectors, inverse in itertools.product(several, [False, True]):
        agree(lambda j: r(j).apply(vectors, inverse), **LOOSE)


@pytest.mark.parametrize(
    "seq, angles",
    [
        ("x", 90), ("x", [0.3]), ("x", np.array([0.3])), ("xy", np.array([0.3, 1])), ("xyz", np.array([1, 2, 3])),
        ("xyz", np.array([[0.3, 1, 2], [1, 2, 3]])), ("XYZ", np.array([[0.3, 1, 2], [1, 2, 3]])),
        ("zxz", np.array([0.3, 1, 2])), ("ZXZ", np.array([0.3, 1, 2])), ("xyzx", np.zeros(4)), ("", np.zeros(4)),
        ("xx", np.zeros(2)), ("xy", np.zeros(3)), ("xY", np.zeros(2)),
    ],
)  # fmt: skip
def test_from_euler(seq, angles):
    for degrees in (False, True):
        agree(lambda j: rotation(j).from_euler(seq, angles, degrees), **LOOSE)


@pytest.mark.parametrize("seq", ["xyz", "zyx", "XYZ", "ZYX", "xyx", "ZXZ"])
def test_as_euler_where_angles_are_not_unique(seq):
    for middle in (0, np.pi / 2, -np.pi / 2, np.pi):
        quat = scipy.spatial.transform.Rotation.from_euler(seq, [1, middle, 0.5]).as_quat().astype("float32")
        agree(lambda j: rotation(j).from_quat(quat).as_euler(seq), rtol=1e-3, atol=2e-3)


def test_other_constructors():
    turns = np.linalg.qr(RNG.normal(size=(5, 3, 3)))[0].astype("float32")
    for matrix in [np.eye(3), np.eye(3).tolist(), np.eye(3, dtype=int), np.diag([-1.0, -1, 1]), turns]:
        agree(lambda j: rotation(j).from_matrix(matrix), **LOOSE)
    for vectors in ([1.0, 2, 3], np.arange(3), np.zeros(3) + 1e-4, RNG.normal(size=(2, 3)).astype("float32")):
        agree(lambda j: rotation(j).from_mrp(vectors), **LOOSE)
        for degrees in (False, True):
            agree(lambda j: rotation(j).from_rotvec(vectors, degrees), **LOOSE)
    for dtype in (float, "float16", np.float32, int):
        agree(lambda j: rotation(j).identity(dtype=dtype))
    agree(lambda j: rotation(j).identity(3))
    agree(lambda j: rotation(j).random(j.random.key(0)))


def test_slerp():
    def make(j, times=(0, 1, 2.0), quats=THREE):
        return slerp(j).init(np.asarray(times), rotation(j).from_quat(quats))

    agree(make, **LOOSE)
    for times in [0.0, 0.5, 1, [0.0, 1.0, 0.3], np.array([0.2, 1.7, 2, 3]), np.zeros((2, 2))]:
        agree(lambda j: make(j)(times), **LOOSE)
    agree(lambda j: j.jit(lambda s, t: s(t))(make(j), 0.3), **LOOSE)
    agree(lambda j: make(j, (0, 1)))
    agree(lambda j: make(j, [[0, 1, 2]]))
    agree(lambda j: make(j, quats=ONE))
    agree(lambda j: slerp(j).init(np.arange(3), THREE))


TRANSFORMED = {
    "as_rotvec": lambda j, q: rotation(j).from_quat(q).as_rotvec(),
    "as_mrp": lambda j, q: rotation(j).from_quat(q).as_mrp(),
    "as_euler": lambda j, q: rotation(j).from_quat(q).as_euler("xyz"),
    "as_euler, of the body": lambda j, q: rotation(j).from_quat(q).as_euler("ZXZ"),
    "as_quat": lambda j, q: rotation(j).from_quat(q).as_quat(True),
    "magnitude": lambda j, q: rotation(j).from_quat(q).magnitude(),
    "from_rotvec": lambda j, q: rotation(j).from_rotvec(q[..., :3]).as_matrix(),
    "from_matrix": lambda j, q: rotation(j).from_matrix(rotation(j).from_quat(q).as_matrix()).quat,
    "from_euler": lambda j, q: rotation(j).from_euler("xyz", q[..., :3]).quat,
    "apply": lambda j, q: (rotation(j).from_quat(q) * rotation(j).from_rotvec(q[..., 1:])).apply(np.ones(3, "float32")),
    "slerp": lambda j, q: slerp(j).init(np.arange(3), rotation(j).from_quat(q))(np.array([0.3, 1.2])).quat,
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformations(name):
    def f(j):
        return lambda q: TRANSFORMED[name](j, q)

    agree(lambda j: j.jacfwd(f(j))(THREE), **LOOSE)
    agree(lambda j: j.hessian(lambda q: (f(j)(q) ** 3).sum())(THREE), rtol=1e-2, atol=1e-2)
    agree(lambda j: j.jit(j.vmap(f(j)))(np.stack([THREE, THREE[::-1]])), **LOOSE)


def test_rotations_are_pytrees():
    for quat in (ONE, THREE):
        agree(lambda j: j.jit(lambda r: r.inv())(rotation(j).from_quat(quat)), **LOOSE)
    agree(lambda j: j.vmap(lambda r, v: r.apply(v))(rotation(j).from_quat(THREE), np.ones((3, 3), "float32")), **LOOSE)
