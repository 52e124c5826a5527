"""Creation, shapes, joining, padding and the methods of arrays, against JAX."""

import array
import collections
import decimal
import enum
import fractions
import operator

import jax
import numpy as np
import pytest
from expressions import agree_on
from oracle import agree

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def check(*programs):
    wrong = []
    for position, program in enumerate(programs):
        try:
            agree(lambda jax, p=program: p(jax, jax.numpy, jax.numpy.asarray(X)), rtol=1e-5, atol=1e-6)
        except Exception as error:
            wrong.append(f"program {position}: {type(error).__name__}: {str(error)[:400]}")
    assert not wrong, "\n".join(wrong)


PRINTED = {
    **{f"float32 of {n}": f"jnp.full((1, {n}), -1.4583895)" for n in range(1, 13)},
    **{f"float16 of {n}": f"jnp.full({n}, -1.4583895, jnp.float16)" for n in range(5, 10)},
    "weak row": "jnp.asarray(2.5) * jnp.ones(())",
    "empty": "jnp.zeros(0)",
    "no rows": "jnp.zeros((0, 3), int)",
    "many": "jnp.arange(2000, dtype=jnp.uint16)",
    "key": "jax.random.key(0)",
    "scalar": "jnp.float32(2.5)",
}


@pytest.mark.parametrize("made", PRINTED.values(), ids=PRINTED)
@pytest.mark.parametrize("text", ["repr(x)", "str([x])", "f'{x}'", "f'{x:>12}'", "f'{x:.1f}'"])
def test_arrays_are_written_as_jax_writes_them(made, text):
    agree(lambda jax: eval(text, {"x": eval(made, {"jax": jax, "jnp": jax.numpy})}))


@pytest.mark.parametrize("stop", [[1.0, 2.5, -0.3], 25.0, 1.0])
@pytest.mark.parametrize("num", [6, 11, 26, 51])
def test_linspace_rounds_as_jax_rounds(stop, num):
    """Where equal steps lie decides in which bin of a histogram a number falls, and whether whole numbers are met."""
    start = 0.0 if isinstance(stop, float) else np.array([0.1, 0.7, -2.2], np.float32)
    agree(lambda jax: jax.numpy.linspace(start, np.float32(stop), num), rtol=0, atol=0)


JOINED = {
    "vectors": "[1, 2, 3], [4.0, 5, 6]",
    "numbers": "1, 2.5",
    "matrices": "[[1, 2], [3, 4]], [[5, 6], [7, 8]]",
    "slices": "slice(0, 3), slice(0, 1, 4j)",
    "ranks": "[[1, 2, 3]], [4, 5, 6]",
    "late directive": "[1], 'r'",
}


@pytest.mark.parametrize("directive", ["r", "c", "0,2", "1,2", "-1,3,1", "0,2,-2", "r,2", "x"])
@pytest.mark.parametrize("items", JOINED.values(), ids=JOINED)
def test_directives_of_r_and_c(directive, items):
    for name in ("r_", "c_"):
        agree(
            lambda jax, name=name: getattr(jax.numpy, name)[
                (directive, *(jax.numpy.asarray(i) if isinstance(i, list) else i for i in eval(items)))
            ]
        )


POLYNOMIALS = {
    "rows": ([[2, 3, 1]], [[5, 7, 3], [8, 2, 6]]),
    "a vector longer than the rows": ([1, 3, 5], [[5, 7, 9], [8, 6, 4]]),
    "a short vector": ([[5, 7, 9], [8, 6, 4]], [2]),
    "a vector as long as a row": ([1, 2, 3], [[1, 2, 3], [4, 5, 6], [7, 8, 9], [1, 1, 1]]),
    "other columns": ([[1, 2]], [[5, 7, 9], [8, 6, 4]]),
    "vectors": ([1.5, 2], [3, 4, 5]),
    "none": ([1, 2], []),
    "number": (1, [2, 3]),
}


@pytest.mark.parametrize("name", ["polyadd", "polysub"])
@pytest.mark.parametrize("operands", POLYNOMIALS.values(), ids=POLYNOMIALS)
def test_sums_of_polynomials_broadcast_over_the_low_coefficients(name, operands):
    for a, b in (operands, operands[::-1]):
        agree(lambda jax, a=a, b=b: getattr(jax.numpy, name)(jax.numpy.asarray(a), jax.numpy.asarray(b)))


def test_traced_values_have_no_format():
    def written(jax):
        jax.jit(lambda x: f"{x:.2f}")(1.0)

    agree(written)


def test_arrays_from_python():
    check(
        lambda jax, jnp, x: jnp.array(1),
        lambda jax, jnp, x: jnp.array(2.5),
        lambda jax, jnp, x: jnp.array(True),
        lambda jax, jnp, x: jnp.array(1j),
        lambda jax, jnp, x: jnp.array([1, 2]),
        lambda jax, jnp, x: jnp.array([1, 2.5]),
        lambda jax, jnp, x: jnp.array([]),
        lambda jax, jnp, x: jnp.array([[1, 2], [3, 4.0]]),
        lambda jax, jnp, x: jnp.array([x[0], x[1]]),
        lambda jax, jnp, x: jnp.array([x[0, 0, 0], 1]),
        lambda jax, jnp, x: jnp.array([np.float64(1), 2]),
        lambda jax, jnp, x: jnp.array(x, "int8"),
        lambda jax, jnp, x: jnp.array([1, 2], "float16"),
        lambda jax, jnp, x: jnp.array(3, ndmin=2),
        lambda jax, jnp, x: jnp.array(None),
        lambda jax, jnp, x: jnp.array([[1], [1, 2]]),
        lambda jax, jnp, x: jnp.array(np.arange(3, dtype=np.int64)),
        lambda jax, jnp, x: jnp.asarray(np.float64(1.5)),
        lambda jax, jnp, x: jnp.array([1, None]),
        lambda jax, jnp, x: jnp.array(300, "int8"),
        lambda jax, jnp, x: jnp.array(1, order="F"),
        lambda jax, jnp, x: jnp.array(b"ab"),
        lambda jax, jnp, x: jnp.array([[[]]]),
        lambda jax, jnp, x: jnp.asarray(2**40),
        lambda jax, jnp, x: jnp.array((1, (2, 3))),
        lambda jax, jnp, x: jnp.float32(3),
        lambda jax, jnp, x: jnp.int8([1, 2]),
        lambda jax, jnp, x: jnp.bool_(1),
        lambda jax, jnp, x: jnp.array(object()),
        lambda jax, jnp, x: jnp.array({1: 2}),
        lambda jax, jnp, x: jnp.array(range(3)),
        lambda jax, jnp, x: jnp.complex64(1),
    )


class Direction(enum.IntEnum):
    UP = 0
    DOWN = 1


class Metres(float):
    pass


class Exposed:
    """What has an array of NumPy's by its interface only, as pictures of PIL have."""

    def __init__(self, *values):
        self.values = np.array(values)

    @property
    def __array_interface__(self):
        return self.values.__array_interface__


class Counted:
    """A sequence, by its methods only."""

    def __len__(self):
        return 3

    def __getitem__(self, i):
        return [1.5, 2, True][i]


def test_arrays_of_all_that_numpy_makes_arrays_of():
    deque, fraction = collections.deque, fractions.Fraction(1, 2)
    makers = [
        lambda jax, jnp, x: (jnp.array(deque([1, 2])), jnp.asarray(deque([1.5, 2])), jnp.array(deque())),
        lambda jax, jnp, x: (jnp.array(deque([x[0], x[1]])), jnp.array(deque([1.7, 2]), dtype=int)),
        lambda jax, jnp, x: jnp.array(deque([1.0])) + jnp.float16(1),
        lambda jax, jnp, x: (jnp.asarray(Counted()), jnp.array(collections.UserList([1, 2]))),
        lambda jax, jnp, x: (jnp.array(Exposed(1, 2)), jnp.asarray(Exposed(1.5), np.float16), jnp.array([Exposed(1), Exposed(2)])),
        lambda jax, jnp, x: (jnp.array([memoryview(b"ab")]), jnp.array(bytearray(b"ab")), jnp.array(array.array("f", [1, 2]))),
        lambda jax, jnp, x: (jnp.array([range(2), x[0, 0, :2]]), jnp.array([deque([1, 2]), x[0, 0, :2]])),
        lambda jax, jnp, x: (jnp.array(fraction, dtype=float), jnp.array([decimal.Decimal(2)], dtype="int32")),
        lambda jax, jnp, x: (jnp.array("1.5", dtype=float), jnp.array(["1.5"], dtype=float)),
        lambda jax, jnp, x: jnp.array(np.array([1, 2], object), dtype=float),
        lambda jax, jnp, x: jnp.array(np.array([1, 2], object)),
        lambda jax, jnp, x: jnp.array(fraction),
        lambda jax, jnp, x: jnp.array([fraction]),
        lambda jax, jnp, x: jnp.array("1.5"),
        lambda jax, jnp, x: jnp.array({1: 2}),
        lambda jax, jnp, x: jnp.array({1, 2}),
        lambda jax, jnp, x: jnp.array(iter([1, 2])),
        lambda jax, jnp, x: jnp.array(deque([[1], [1, 2]])),
        lambda jax, jnp, x: jnp.array(deque([None])),
        lambda jax, jnp, x: jax.jit(lambda x: jnp.array(deque([x[0], x[1]])))(x),
    ]  # fmt: skip
    check(*makers)


def test_arrays_without_values():
    zeros = np.zeros((2, 3), jax.dtypes.float0)
    agree(lambda j: [j.numpy.array(zeros), j.numpy.asarray(zeros), j.numpy.array([zeros, zeros])])
    agree(lambda j: [j.numpy.array([list(zeros)]), j.numpy.array(zeros, dtype=bool)])
    agree(lambda j: j.tree.map(j.numpy.asarray, j.grad(lambda i: i * 2.0, allow_int=True)(3)))
    agree(lambda j: j.numpy.array([zeros[0, 0], 1.0]))


def test_numbers_of_classes_of_their_own():
    up, down, two = Direction.UP, Direction.DOWN, Metres(2)
    check(
        lambda jax, jnp, x: [
            jnp.array([up, down]),
            jnp.array([[up, 1], [2, down]]),
            jnp.array([True, up]),
            jnp.array([two, 1]),
        ],
        lambda jax, jnp, x: [
            jnp.array([np.int8(1), down]),
            jnp.array([x[0, 0, 0], two]),
            jnp.array([up, down], jnp.int8),
        ],
        lambda jax, jnp, x: [
            jnp.full((2,), down),
            jnp.full((2,), two),
            jax.lax.full((2,), down),
            jax.lax.full((2,), two),
        ],
        lambda jax, jnp, x: [
            jnp.stack([up, down]),
            jnp.hstack([down, 2]),
            jnp.arange(down, 3),
            jnp.linspace(Metres(0), two, 3),
        ],
        lambda jax, jnp, x: [
            jnp.result_type(up),
            jnp.result_type(jnp.int8, up),
            jnp.result_type(two),
            jnp.isin(x, jnp.array([down])),
        ],
        lambda jax, jnp, x: [
            x.astype("int8") + down,
            x.astype("float16") * two,
            jnp.where(x > 3, up, down),
            jnp.array([2**40, up]),
        ],
    )


def test_arrays_of_one_value():
    check(
        lambda jax, jnp, x: [
            jnp.zeros(3),
            jnp.ones((2, 3), int),
            jnp.empty((0, 2)),
            jnp.full((2,), 7),
            jnp.full((2,), 7.0, int),
        ],
        lambda jax, jnp, x: [
            jnp.full((2, 3), jnp.arange(3)),
            jnp.full_like(x, 1),
            jnp.zeros_like(1),
            jnp.ones_like(2.0),
            jnp.zeros_like(x, int),
        ],
        lambda jax, jnp, x: [
            jnp.full_like(x[0, 0], [1, 2, 3, 4]) if False else jnp.ones_like(x, shape=(2,)),
            jnp.empty_like(x, "int8"),
        ],
        lambda jax, jnp, x: [
            jnp.eye(3),
            jnp.eye(2, 3, 1),
            jnp.eye(3, k=-1, dtype=int),
            jnp.identity(2),
            jnp.tri(3, 4, 1),
            jnp.tri(2, dtype=bool),
        ],
        lambda jax, jnp, x: jnp.zeros(-1),
        lambda jax, jnp, x: jnp.zeros((2, 1.5)),
        lambda jax, jnp, x: jnp.zeros(3, 4),
        lambda jax, jnp, x: jnp.zeros(x),
        lambda jax, jnp, x: jnp.ones((2,), "float128"),
        lambda jax, jnp, x: jnp.full((2,), [1, 2, 3]),
        lambda jax, jnp, x: jax.jit(lambda n: jnp.zeros(n))(3),
        lambda jax, jnp, x: jnp.zeros("a"),
        lambda jax, jnp, x: jnp.zeros(np.int32(2)),
        lambda jax, jnp, x: jnp.zeros((np.int64(2), jnp.array(3))),
    )


def test_ranges():
    check(
        lambda jax, jnp, x: [
            jnp.arange(5),
            jnp.arange(5.0),
            jnp.arange(1, 7, 2),
            jnp.arange(0, 1, 0.25),
            jnp.arange(5, 0, -2),
        ],
        lambda jax, jnp, x: [
            jnp.arange(3, dtype=float),
            jnp.arange(0),
            jnp.arange(np.int8(3)),
            jnp.arange(0.5, 3),
            jnp.arange(5, dtype="uint32"),
        ],
        lambda jax, jnp, x: [
            jnp.linspace(0, 1, 5),
            jnp.linspace(0, 10, 4, endpoint=False),
            jnp.linspace(0, 5, 6, dtype=int),
        ],
        lambda jax, jnp, x: [
            jnp.linspace(x[0, 0], x[1, 0], 3, axis=1),
            jnp.linspace(1, 2, 1),
            jnp.linspace(1, 2, 0),
            jnp.linspace(0, 1, 3, retstep=True),
        ],
        lambda jax, jnp, x: [
            jnp.logspace(0, 2, 3),
            jnp.logspace(0, 3, 4, base=2),
            jnp.geomspace(1, 1000, 4),
            jnp.geomspace(-1, -8, 4),
        ],
        lambda jax, jnp, x: [
            jnp.meshgrid(jnp.arange(2), jnp.arange(3)),
            jnp.meshgrid(jnp.arange(1), jnp.arange(3), indexing="ij"),
            jnp.meshgrid(x[0, 0], sparse=True),
        ],
        lambda jax, jnp, x: [
            jnp.mgrid[0:2, 0:3],
            jnp.mgrid[0:1:3j],
            jnp.ogrid[0:2, 0:3.0],
            jnp.r_[1, 2:4, x[0, 0]],
            jnp.c_[x[0, 0], x[0, 1]],
        ],
        lambda jax, jnp, x: [
            jnp.r_["0,2", x[0, 0], x[0, 1]],
            jnp.r_["-1", x[0], x[0]],
            jnp.c_[1:3, 2:4],
            jnp.r_["0,2,0", x[0, 0]],
        ],
        lambda jax, jnp, x: [
            jnp.indices((2, 3)),
            jnp.indices((2, 3), sparse=True),
            jnp.ix_(jnp.arange(2), jnp.arange(3)),
            jnp.diag_indices(3),
        ],
        lambda jax, jnp, x: [
            jnp.tril_indices(3),
            jnp.triu_indices(3, 1, 4),
            jnp.tril_indices_from(x[0]),
            jnp.diag_indices_from(x[0, :, :3]),
            jnp.mask_indices(3, jnp.triu),
        ],
        lambda jax, jnp, x: jnp.arange(3, 1),
        lambda jax, jnp, x: jnp.arange(0, 5, 0),
        lambda jax, jnp, x: jnp.linspace(0, 1, -1),
        lambda jax, jnp, x: jax.jit(jnp.arange)(3),
        lambda jax, jnp, x: jnp.arange(x[0, 0]),
        lambda jax, jnp, x: str(jnp.s_[1:2, ...]),
        lambda jax, jnp, x: jnp.fromfunction(lambda i, j: i + j, (2, 3)),
        lambda jax, jnp, x: jnp.frombuffer(b"abcd", "int8"),
        lambda jax, jnp, x: jnp.fromstring("1 2", sep=" "),
        lambda jax, jnp, x: jnp.fromfile("a"),
        lambda jax, jnp, x: jnp.fromiter([1], int),
        lambda jax, jnp, x: [
            jnp.blackman(5),
            jnp.hamming(4),
            jnp.hanning(5),
            jnp.bartlett(6),
            jnp.kaiser(5, 8.0),
            jnp.hanning(1),
            jnp.hamming(0),
        ],
    )


def test_shapes():
    check(
        lambda jax, jnp, x: [
            jnp.reshape(x, (4, 6)),
            x.reshape(-1),
            x.reshape(3, -1),
            x.reshape((2, 12), order="F"),
            jnp.ravel(x, "F"),
            x.ravel(),
        ],
        lambda jax, jnp, x: x.reshape(5),
        lambda jax, jnp, x: x.reshape(-1, -1),
        lambda jax, jnp, x: x.reshape(7, -1),
        lambda jax, jnp, x: x.reshape(2.0, 12),
        lambda jax, jnp, x: [
            x.T,
            jnp.transpose(x, (1, 2, 0)),
            x.transpose(2, 0, 1),
            x.mT,
            jnp.swapaxes(x, 0, -1),
            jnp.moveaxis(x, 0, -1),
            jnp.moveaxis(x, (0, 1), (1, 2)),
        ],
        lambda jax, jnp, x: jnp.transpose(x, (0, 1)),
        lambda jax, jnp, x: jnp.transpose(x, (0, 0, 1)),
        lambda jax, jnp, x: jnp.swapaxes(x, 0, 5),
        lambda jax, jnp, x: jnp.moveaxis(x, (0, 1), 2),
        lambda jax, jnp, x: [
            jnp.squeeze(x[:1]),
            jnp.squeeze(x[:1, :1], 0),
            jnp.expand_dims(x, (0, -1)),
            x[:1].squeeze(axis=(0,)),
            jnp.expand_dims(x, -2),
        ],
        lambda jax, jnp, x: jnp.squeeze(x, 0),
        lambda jax, jnp, x: jnp.expand_dims(x, (0, 0)),
        lambda jax, jnp, x: jnp.squeeze(x[:1], 4),
        lambda jax, jnp, x: [
            jnp.atleast_1d(1),
            jnp.atleast_2d(x[0, 0]),
            jnp.atleast_3d(x[0], x[0, 0]),
            jnp.broadcast_to(x[0], (5, 3, 4)),
            jnp.broadcast_arrays(x, 1),
        ],
        lambda jax, jnp, x: jnp.broadcast_to(x, (3, 4)),
        lambda jax, jnp, x: jnp.broadcast_to(x, (2, 3, 5)),
        lambda jax, jnp, x: jnp.broadcast_arrays(x, x[:, :2]),
        lambda jax, jnp, x: jnp.broadcast_shapes((2, 1), 3),
        lambda jax, jnp, x: [
            jnp.flip(x),
            jnp.flip(x, (0, 2)),
            jnp.fliplr(x),
            jnp.flipud(x),
            jnp.rot90(x[0]),
            jnp.rot90(x, 2),
            jnp.rot90(x, -1, (1, 2)),
            jnp.rollaxis(x, 2),
            jnp.rollaxis(x, 0, 3),
        ],
        lambda jax, jnp, x: [
            jnp.roll(x, 1),
            jnp.roll(x, -2, 1),
            jnp.roll(x, (1, 2), (0, 2)),
            jnp.roll(x, 1, (0, 1)),
            jnp.roll(x, jnp.array(2), 2),
            jnp.roll(x, jnp.array([1, 2]), (0, 2)),
        ],
        lambda jax, jnp, x: [
            jnp.tile(x[0], 2),
            jnp.tile(x[0], (2, 1, 2)),
            jnp.repeat(x, 2),
            jnp.repeat(x, 2, axis=1),
            jnp.repeat(x[0, 0], 2, axis=1),
            jnp.repeat(x, jnp.array([1, 2, 0]), axis=1),
            jnp.repeat(x[0], jnp.array([1, 2, 0]), axis=0, total_repeat_length=5),
        ],
        lambda jax, jnp, x: [
            jnp.diag(x[0, 0]),
            jnp.diag(x[0], 1),
            jnp.diagflat(x[0, :, 0], -1),
            jnp.diagonal(x, 1, 1, 2),
            jnp.trace(x, axis1=1, axis2=2),
            x.trace(),
            jnp.tril(x),
            jnp.triu(x, -1),
            jnp.triu(x.astype("uint32"), 1),
        ],
        lambda jax, jnp, x: jnp.tril(x[0, 0]),
        lambda jax, jnp, x: jnp.diag(x),
        lambda jax, jnp, x: jnp.diagonal(x[0, 0]),
        lambda jax, jnp, x: [jnp.resize(x, (2, 3)), jnp.resize(x[0, 0], (3, 3))],
        lambda jax, jnp, x: [
            jnp.ndim(x),
            jnp.shape(1),
            jnp.size(x, 1),
            jnp.iscomplexobj(x),
            jnp.isscalar(1.0),
            jnp.isscalar(x),
            jnp.iterable(x),
        ],
    )


def test_joining_and_splitting():
    check(
        lambda jax, jnp, x: [
            jnp.concatenate([x, x], 1),
            jnp.concatenate([x, x], None),
            jnp.concatenate([x, x.astype(int)]),
            jnp.concat([x, x], axis=-1),
            jnp.concatenate(x),
            jnp.concatenate([x, x], dtype=int),
        ],
        lambda jax, jnp, x: [
            jnp.stack([x, x], -1),
            jnp.vstack([x[0, 0], x[0, 1]]),
            jnp.hstack([x[0, 0], x[0, 1]]),
            jnp.dstack([x[0], x[0]]),
            jnp.column_stack([x[0, 0], x[0, 1]]),
            jnp.hstack([x, x]),
        ],
        lambda jax, jnp, x: jnp.concatenate([]),
        lambda jax, jnp, x: jnp.concatenate([x, x[0]]),
        lambda jax, jnp, x: jnp.stack([x, x[:1]]),
        lambda jax, jnp, x: jnp.concatenate([1, 2]),
        lambda jax, jnp, x: jnp.concatenate([x, x], 3),
        lambda jax, jnp, x: jnp.concatenate(1),
        lambda jax, jnp, x: [
            jnp.split(x, 2),
            jnp.split(x, [1, 3], 2),
            jnp.array_split(x, 3, 2),
            jnp.vsplit(x, 2),
            jnp.hsplit(x, 3),
            jnp.dsplit(x, 2),
            jnp.unstack(x, axis=1),
            jnp.split(x, [1, 3, -1], 2),
        ],
        lambda jax, jnp, x: jnp.split(x, 5, 2),
        lambda jax, jnp, x: jnp.split(x, [3, 1], 2),
        lambda jax, jnp, x: jnp.unstack(1),
        lambda jax, jnp, x: [
            jnp.append(x, 1),
            jnp.append(x, x, 0),
            jnp.block([[x[0], x[0]], [x[1], x[1]]]),
            jnp.block(1),
            jnp.block([x[0, 0], 1]),
        ],
        lambda jax, jnp, x: [
            jnp.delete(x, 1, 1),
            jnp.delete(x, slice(0, 2), 2),
            jnp.delete(x, jnp.array([0, 2]), 2),
            jnp.delete(x, jnp.array([True, False, True]), 1),
            jnp.delete(x, 5),
            jnp.delete(x, -1, 0),
            jnp.delete(x, jnp.array([0, 2]), 2, assume_unique_indices=True),
        ],
        lambda jax, jnp, x: [
            jnp.insert(x[0], 1, 9, 0),
            jnp.insert(x[0, 0], jnp.array([1, 1, 3]), jnp.array([7, 8, 9])),
            jnp.insert(x[0], slice(0, 2), 1, 1),
            jnp.insert(x[0], 1, x[0, :, 0], 1),
            jnp.insert(x, 2, -1),
        ],
        lambda jax, jnp, x: [jnp.trim_zeros(jnp.array([0, 0, 1, 0, 2, 0])), jnp.trim_zeros(jnp.array([0, 1, 0]), "f")],
        lambda jax, jnp, x: [
            jnp.packbits(x[0] > 4),
            jnp.packbits(x > 4, axis=1, bitorder="little"),
            jnp.unpackbits(jnp.array([7, 129], "uint8")),
            jnp.unpackbits(jnp.array([[7], [129]], "uint8"), axis=1, count=5, bitorder="little"),
        ],
    )


@pytest.mark.parametrize(
    "mode",
    [
        "constant",
        "edge",
        "linear_ramp",
        "maximum",
        "mean",
        "median",
        "minimum",
        "reflect",
        "symmetric",
        "wrap",
        "empty",
    ],
)
def test_padding(mode):
    def program(jax, dtype, width, **options):
        return jax.numpy.pad(jax.numpy.asarray(X[0].astype(dtype)), width, mode, **options)

    for dtype in (np.float32, np.int32):
        for width in (1, (2, 3), ((1, 0), (0, 7))):
            agree(lambda jax, d=dtype, w=width: program(jax, d, w))
    if mode == "constant":
        agree(lambda jax: program(jax, np.float32, 1, constant_values=((1, 2), (3, 4))))
        agree(lambda jax: program(jax, np.float32, -1))
    if mode == "reflect":
        agree(lambda jax: program(jax, np.float32, (4, 5), reflect_type="odd"))
    if mode == "mean":
        agree(lambda jax: program(jax, np.float32, (4, 5), stat_length=2))
    agree(lambda jax: program(jax, np.float32, 1, wrong=2))
    agree(lambda jax: program(jax, np.float32, {0: (1, 2)}))


def test_calculus():
    check(
        lambda jax, jnp, x: [
            jnp.diff(x),
            jnp.diff(x, 2, 1),
            jnp.diff(x, prepend=0),
            jnp.diff(x, append=x[..., :1]),
            jnp.diff(x > 3),
            jnp.ediff1d(x),
            jnp.ediff1d(x[0, 0], 1, 2),
            jnp.diff(x, prepend=1, append=2),
        ],
        lambda jax, jnp, x: [
            jnp.gradient(x[0]),
            jnp.gradient(x[0] ** 2, 0.5, axis=1),
            jnp.gradient(x[0] ** 2, jnp.array([0.0, 1, 3, 4]), axis=1),
        ],
        lambda jax, jnp, x: [
            jnp.trapezoid(x),
            jnp.trapezoid(x, dx=0.5, axis=0),
            jnp.trapezoid(x, jnp.array([0.0, 1, 3, 4])),
            jnp.unwrap(x * 2),
            jnp.unwrap(jnp.array([0, 3, 6, 1]), period=4),
        ],
        lambda jax, jnp, x: [
            jnp.interp(jnp.array([-1.0, 0.5, 2, 9]), jnp.array([0.0, 1, 3]), jnp.array([1.0, 2, 0])),
            jnp.interp(1.5, jnp.arange(3), jnp.arange(3) ** 2, left="extrapolate"),
            jnp.interp(jnp.array([5.0, 9.0]), jnp.array([0.0, 1, 3]), jnp.array([1.0, 2, 0]), period=4),
            jnp.interp(9.0, jnp.arange(3.0), jnp.arange(3.0), right=7),
        ],
        lambda jax, jnp, x: [jnp.convolve(x[0, 0], x[0, 1, :3], m) for m in ("full", "same", "valid")],
        lambda jax, jnp, x: [jnp.correlate(x[0, 1, :3], x[0, 0], m) for m in ("full", "same", "valid")],
        lambda jax, jnp, x: [jnp.convolve(jnp.arange(3), jnp.arange(2)), jnp.correlate(x[0, 0] * 1j, x[0, 1] * 1j)],
        lambda jax, jnp, x: jnp.diff(1),
        lambda jax, jnp, x: jnp.diff(x, -1),
        lambda jax, jnp, x: jnp.convolve(x, x),
        lambda jax, jnp, x: jnp.gradient(x[:1]),
        lambda jax, jnp, x: [
            jnp.polyval(jnp.array([1.0, 2, 3]), x[0, 0]),
            jnp.polyadd(x[0, 0], x[0, 0, :2]),
            jnp.polysub(x[0, 0, :2], x[0, 0]),
            jnp.polymul(x[0, 0], x[0, 1]),
            jnp.polydiv(x[0, 1], x[1, 0, :2]),
        ],
        lambda jax, jnp, x: [
            jnp.polyder(x[0, 1]),
            jnp.polyder(x[0, 1], 2),
            jnp.polyint(x[0, 1]),
            jnp.polyint(x[0, 1], 2, jnp.array([1.0, 2])),
            jnp.poly(jnp.array([1.0, 2, 3])),
            jnp.vander(x[0, 0]),
            jnp.vander(x[0, 0], 2, increasing=True),
        ],
        lambda jax, jnp, x: jnp.sort(jnp.roots(jnp.array([0.0, 1.0, -6.0, 11.0, -6.0])).real),
        lambda jax, jnp, x: jnp.round(jnp.polyfit(jnp.arange(5.0), jnp.arange(5.0) ** 2, 2), 3),
    )


def test_methods_and_conversions():
    check(
        lambda jax, jnp, x: [
            x.sum(0),
            x.mean(),
            x.max(-1),
            x.argmax(1),
            x.cumsum(),
            x.round(1),
            x.clip(2, 5),
            x.astype(int),
            x.take(jnp.array([1])),
            x.repeat(2),
            x.std(),
            x.prod(),
            x.any(),
            x.all(),
            x.ptp() if hasattr(x, "ptp") else 0,
        ],
        lambda jax, jnp, x: [
            x.real,
            x.imag,
            x.conj(),
            x.dot(x[0, 0]),
            x.flatten(),
            x.copy(),
            x.nonzero(),
            x.searchsorted(3.0) if x.ndim == 1 else x[0, 0].searchsorted(2.0),
            x.sort(0),
            x.argsort(0),
            x.swapaxes(0, 1),
            x.diagonal(),
            x.min(),
            x.var(0),
        ],
        lambda jax, jnp, x: [
            x.item(3),
            x[0, 0, 1].item(),
            x.tolist(),
            x.size,
            x.shape,
            x.ndim,
            len(x),
            x.nbytes,
            x.itemsize,
            str(x.dtype),
        ],
        lambda jax, jnp, x: [
            x.view("int32"),
            x.astype("int8").view("uint8"),
            x[0, 0].view("uint16"),
            x.astype("uint16").byteswap(),
            x.astype("uint16").view("uint32"),
        ],
        lambda jax, jnp, x: x.item(),
        lambda jax, jnp, x: x.flat,
        lambda jax, jnp, x: bool(x),
        lambda jax, jnp, x: int(x[0, 0]),
        lambda jax, jnp, x: x.view("float64") if False else x[0, 0, :3].view("complex64"),
        lambda jax, jnp, x: [
            float(x[0, 0, 1]),
            int(x[0, 0, 2]),
            bool(x[0, 0, 3]),
            round(x[0, 0, 3] / 2).shape,
            abs(-x),
            +x,
            divmod(x, 2),
            complex(x[0, 0, 1]),
        ],
        lambda jax, jnp, x: hash(x),
        lambda jax, jnp, x: range(x[0, 0, 1]),
        lambda jax, jnp, x: [10, 20][jnp.array(1)],
        lambda jax, jnp, x: [
            repr(x[0]),
            str(x[0, 0]),
            repr(x[0, 0, 0]),
            repr(jnp.array(1)),
            repr(jnp.zeros((0, 3))),
            f"{x[0, 0, 1]:.2f}",
        ],
        lambda jax, jnp, x: [
            str(jnp.result_type(x, 1)),
            str(jnp.result_type(1, 2.0)),
            str(jnp.promote_types("int8", "uint8")),
            jnp.can_cast("int8", "int32"),
            jnp.issubdtype(x.dtype, jnp.floating),
            jnp.isdtype(x.dtype, "real floating"),
            str(jnp.finfo(x.dtype).eps),
            jnp.iinfo("int8").max,
        ],
        lambda jax, jnp, x: [
            x.dtype == jnp.float32,
            jnp.float32 == x.dtype,
            np.dtype(jnp.int8) == np.int8,
            isinstance(np.float32(1), jnp.float32),
            jnp.float32 == np.float32,
            hash(jnp.int8) == hash(np.int8),
        ],
        lambda jax, jnp, x: [
            jnp.allclose(x, x + 1e-9),
            jnp.array_equal(x, x),
            jnp.array_equal(x, x[0]),
            jnp.array_equiv(x, x[:1]),
            jnp.array_equal(jnp.array([np.nan]), jnp.array([np.nan]), equal_nan=True),
        ],
        lambda jax, jnp, x: list(x.__array_namespace__().__array_namespace_info__().dtypes(kind="real floating")),
    )


def test_functions_of_functions():
    check(
        lambda jax, jnp, x: jnp.vectorize(lambda a, b: a + b, signature=None)(x, x[0, 0]),
        lambda jax, jnp, x: jnp.vectorize(lambda a, b: a @ b, signature="(n,m),(m)->(n)")(x, x[0, 0]),
        lambda jax, jnp, x: jnp.vectorize(lambda a, n: a**n, excluded={1})(x, 2),
        lambda jax, jnp, x: jnp.vectorize(lambda a: (a, a + 1), signature="()->(),()")(x),
        lambda jax, jnp, x: jnp.vectorize(lambda a: a, signature="(n)->")(x),
        lambda jax, jnp, x: jnp.vectorize(lambda a, b: a @ b, signature="(n),(n)->()")(x, x[0, 0, :2]),
        lambda jax, jnp, x: jnp.apply_along_axis(lambda v: v.sum(), 1, x),
        lambda jax, jnp, x: jnp.apply_along_axis(jnp.cumsum, 2, x),
        lambda jax, jnp, x: jnp.apply_over_axes(jnp.sum, x, [0, 2]),
        lambda jax, jnp, x: jnp.frompyfunc(lambda a, b: a * b + 1, 2, 1)(x, 2),
        lambda jax, jnp, x: jnp.frompyfunc(lambda a, b: a * b, 2, 1, identity=1).reduce(x, 1),
        lambda jax, jnp, x: jnp.frompyfunc(lambda a, b: a + b, 2, 1, identity=0).accumulate(x[0, 0]),
    )


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32", "int8", "uint16", "complex64", "bool"])
def test_where_of_a_large_array(dtype):
    rng = np.random.RandomState(0)
    mask, x, y = rng.rand(200, 100) < 0.5, rng.randint(0, 2, (200, 100)), rng.randint(0, 2, (200, 100))

    def program(j):
        a, b = (j.numpy.asarray(v).astype(dtype) for v in (x, y))
        w = j.numpy.where
        return (
            w(mask, a, b),
            w(mask, a, 1),
            w(mask, 0, b),
            w(mask, a[0], b),
            w(mask, a, b[:, :1]),
            w(mask[0], a, b),
            w(mask, 1, 0),
        )

    agree(program)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool", "float32", "complex64"])
def test_python_values_that_a_dtype_cannot_hold(dtype):
    values = [1j, np.nan, np.inf, 300.0, -1.5, 1e10, 300, True]
    for value in (float(v) if isinstance(v, float) else v for v in values):
        check(
            lambda jax, jnp, x, v=value: jnp.array(v, dtype=dtype),
            lambda jax, jnp, x, v=value: jnp.array([v], dtype=dtype),
            lambda jax, jnp, x, v=value: jnp.full((2,), v, dtype=dtype),
            lambda jax, jnp, x, v=value: jnp.full_like(jnp.zeros(2, dtype), v),
            lambda jax, jnp, x, v=value: jnp.full((2,), np.float32(1)),
        )


def test_arguments_of_unusual_kinds():
    check(
        lambda jax, jnp, x: jnp.reshape(x, jnp.array([4, 6])),
        lambda jax, jnp, x: jnp.reshape(x, 24, copy=False),
        lambda jax, jnp, x: jnp.roll(x, (1, 2)),
        lambda jax, jnp, x: jnp.roll(x, x),
        lambda jax, jnp, x: jnp.repeat(x, [1, 2], 0),
        lambda jax, jnp, x: jnp.repeat(x, -1),
        lambda jax, jnp, x: jnp.nonzero(x, size=-1),
        lambda jax, jnp, x: jnp.where(x > 1, x),
        lambda jax, jnp, x: jnp.select([x], [x], 7),
        lambda jax, jnp, x: jnp.choose(x > 1, [x, x]),
        lambda jax, jnp, x: x.__array_module__((type(x),)) is jnp,
        lambda jax, jnp, x: x.__array_module__((int,)) is NotImplemented,
        lambda jax, jnp, x: x.__cuda_array_interface__,
        lambda jax, jnp, x: x.device_buffer,
        lambda jax, jnp, x: x.device_buffers,
    )


@pytest.mark.parametrize("side", ["left", "right"])
def test_searching_among_nans(side):
    edges = np.array([-np.inf, -1, 0, 1, np.inf, np.nan, np.nan], np.float32)
    check(lambda jax, jnp, x: jnp.searchsorted(edges, edges, side=side))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "case",
    [
        "jnp.ravel_multi_index((i, i), (3, 4), mode='ignore')", "jnp.ravel_multi_index((u, u), (3, 3), mode='clip')",
        "jnp.ravel_multi_index((np.int8(1), np.int16(2)), (3, 4), dtype='uint8')", "jnp.ravel_multi_index((), ())",
        "jax.jit(lambda k: jnp.tri(3, 4, k))(1)", "jnp.tri(3, k=2**33)", "jnp.eye(2, k=-2**40)", "jnp.mgrid[()]",
        "jnp.ogrid[()]", "jax.jit(lambda a: jnp.mgrid[a:3])(1)", "jnp.mgrid[0:3:3j, :2]", "jnp.ndim([1, 2])", "jnp.size([[1, 2]])",
        "jnp.shape([1])", "jnp.array_equal([1, 2], [1, 2])", "jnp.array(f, None, False)", "jnp.polyder(f[0], 5)",
        "jnp.subtract.outer(f, i)", "jnp.frompyfunc(lambda a, b: a + b, 2, 1, identity=0).reduce(f, axis=None, keepdims=True)",
        "jnp.frompyfunc(lambda a, b: a * b, 2, 1).reduce(f, axis=None, where=f > 2, initial=1)", "jnp.isclose(6, 10, rtol=0.5)",
        "jnp.isclose(jax.random.key(0), jax.random.key(0))", "jnp.convolve(u, u)", "jnp.expand_dims(f, (1, 1))",
        "lax.squeeze(f[:1], (0, 0))", "jnp.rot90(i)", "jnp.hypot(c, c)", "jnp.ones(2, 3)", "jax.jit(lambda x: x.tobytes())(f)",
        "jnp.sum(np.ma.array([1, 2], mask=[True, False]))", "jnp.array(np.ma.array([1, 2], mask=[True, False]))",
        "jnp.broadcast_to(c[:1], (1, 1)).view('float32')", "b[:1].view('uint8')", "arr([0, 1, 256, 0], 'uint16').view('uint8').view(bool)",
        "jnp.array([True, False, True, True]).view('uint16')", "jnp.broadcast_to(u[:1], (1,)).byteswap()",
    ],
)  # fmt: skip
def test_corners(case):
    agree_on(case)


def test_outer_pairs_ranks_of_its_own():
    def program(j):
        with j.numpy_rank_promotion("raise"):
            return j.numpy.minimum.outer(j.numpy.ones((2, 3)), j.numpy.arange(4.0))

    agree(program)


def test_ufuncs_are_constant():
    def program(j):
        j.numpy.add.nin = 3

    agree(program)


def test_lists_of_traced_numbers_have_dtypes():
    agree(lambda jax: jax.jit(lambda x: jax.numpy.iscomplexobj([x]) + x.real)(1j))


class Scaled:
    """Answers operators itself, and says that it is no array."""

    def __init__(self, by):
        self.by = by

    def __jax_array__(self):
        return NotImplemented

    def __rmul__(self, other):
        return other * self.by

    __radd__ = __rmatmul__ = __rpow__ = __rtruediv__ = __gt__ = __eq__ = __rmul__


@pytest.mark.parametrize("operation", ["mul", "add", "matmul", "pow", "truediv", "lt", "eq"])
def test_operands_that_are_no_arrays_are_asked(operation):
    apply = getattr(operator, operation)
    agree(lambda j: apply(j.numpy.arange(3.0), Scaled(2.0)))
    agree(lambda j: j.jit(lambda x: apply(x, Scaled(2.0)))(j.numpy.arange(3.0)))
