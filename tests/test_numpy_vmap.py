"""No function of jax.numpy falls back to torch's loop over examples under vmap."""

import warnings

import jax
import numpy as np
import pytest

import jaxish
import jaxish.numpy as jnp

RNG = np.random.RandomState(0)
FLOATS = RNG.rand(2, 3).astype(np.float32)
SQUARE = (RNG.rand(2, 3, 3) + 3 * np.eye(3)).astype(np.float32)
CUBE = RNG.rand(2, 3, 2, 4).astype(np.float32)
INTS = RNG.randint(0, 3, (2, 3)).astype(np.int32)
BOOLS = RNG.rand(2, 3) > 0.5
# Arguments of many shapes and dtypes, each with a leading batch of two; a function takes those that suit it.
CANDIDATES = [
    (FLOATS,), (FLOATS, FLOATS), (SQUARE,), (SQUARE, SQUARE), (SQUARE, FLOATS), (INTS,), (INTS, INTS), (BOOLS,),
    (BOOLS, BOOLS), (CUBE,), (FLOATS, FLOATS, FLOATS), (BOOLS, FLOATS, FLOATS), (FLOATS, INTS), (SQUARE[..., :2], INTS),
    (FLOATS + 1j * FLOATS,), (SQUARE + 1j * SQUARE,),
]  # fmt: skip
# Functions that need more than arrays: calls with an integer matrix `i` (3, 3), a vector `v` (3) and a mask `m` (3).
CALLS = {
    "apply_along_axis": lambda i, v, m: jnp.apply_along_axis(jnp.cumsum, 0, i),
    "apply_over_axes": lambda i, v, m: jnp.apply_over_axes(jnp.sum, i, [0]),
    "argpartition": lambda i, v, m: jnp.argpartition(v, 1),
    "argwhere": lambda i, v, m: jnp.argwhere(m, size=2),
    "array_split": lambda i, v, m: jnp.array_split(v, 2),
    "bincount": lambda i, v, m: jnp.bincount(i[0], length=3),
    "broadcast_to": lambda i, v, m: jnp.broadcast_to(v, (2, 3)),
    "choose": lambda i, v, m: jnp.choose(i[0], [v, v, v], mode="clip"),
    "compress": lambda i, v, m: jnp.compress(m, v, size=2),
    "delete": lambda i, v, m: jnp.delete(v, 1),
    "dsplit": lambda i, v, m: jnp.dsplit(v.reshape(1, 1, 3), 3),
    "einsum": lambda i, v, m: jnp.einsum("ij,j->i", i, v),
    "expand_dims": lambda i, v, m: jnp.expand_dims(v, 0),
    "extract": lambda i, v, m: jnp.extract(m, v, size=2),
    "fill_diagonal": lambda i, v, m: jnp.fill_diagonal(i, 7, inplace=False),
    "flatnonzero": lambda i, v, m: jnp.flatnonzero(m, size=2),
    "frompyfunc": lambda i, v, m: jnp.frompyfunc(lambda a, b: a + b, 2, 1)(i, v),
    "full": lambda i, v, m: jnp.full((2, 3), v),
    "hsplit": lambda i, v, m: jnp.hsplit(v, 3),
    "insert": lambda i, v, m: jnp.insert(v, 1, v[0]),
    "intersect1d": lambda i, v, m: jnp.intersect1d(i[0], i[1], size=3),
    "kaiser": lambda i, v, m: jnp.kaiser(4, v[0]),
    "moveaxis": lambda i, v, m: jnp.moveaxis(i, 0, 1),
    "nonzero": lambda i, v, m: jnp.nonzero(m, size=2),
    "pad": lambda i, v, m: [jnp.pad(v, 1, mode) for mode in ("constant", "edge", "wrap", "reflect", "mean", "median")],
    "partition": lambda i, v, m: jnp.partition(v, 1),
    "permute_dims": lambda i, v, m: jnp.permute_dims(i, (1, 0)),
    "place": lambda i, v, m: jnp.place(v, m, v[:2], inplace=False),
    "polyfit": lambda i, v, m: jnp.polyfit(v, v + 1, 1),
    "put": lambda i, v, m: jnp.put(v, i[0, :2], v[:2], inplace=False),
    "put_along_axis": lambda i, v, m: jnp.put_along_axis(v, i[0], v, 0, inplace=False),
    "ravel_multi_index": lambda i, v, m: jnp.ravel_multi_index((i[0], i[1]), (3, 3), mode="clip"),
    "repeat": lambda i, v, m: [jnp.repeat(v, 2), jnp.repeat(v, i[0], total_repeat_length=4)],
    "reshape": lambda i, v, m: jnp.reshape(i, -1),
    "resize": lambda i, v, m: jnp.resize(v, 5),
    "roll": lambda i, v, m: [jnp.roll(v, 1), jnp.roll(v, i[0, 0])],
    "rollaxis": lambda i, v, m: jnp.rollaxis(i, 1),
    "roots": lambda i, v, m: jnp.roots(v, strip_zeros=False),
    "setdiff1d": lambda i, v, m: jnp.setdiff1d(i[0], i[1], size=3),
    "setxor1d": lambda i, v, m: jnp.setxor1d(i[0], i[1], size=3),
    "split": lambda i, v, m: jnp.split(v, 3),
    "swapaxes": lambda i, v, m: jnp.swapaxes(i, 0, 1),
    "tile": lambda i, v, m: jnp.tile(v, 2),
    "union1d": lambda i, v, m: jnp.union1d(i[0], i[1], size=3),
    "unique": lambda i, v, m: jnp.unique(i, size=3, return_index=True, return_inverse=True, return_counts=True),
    "unique_all": lambda i, v, m: tuple(jnp.unique_all(i, size=3)),
    "unique_counts": lambda i, v, m: tuple(jnp.unique_counts(i, size=3)),
    "unique_inverse": lambda i, v, m: tuple(jnp.unique_inverse(i, size=3)),
    "unique_values": lambda i, v, m: jnp.unique_values(i, size=3),
    "astype": lambda i, v, m: jnp.astype(v, "int32"),
    "unpackbits": lambda i, v, m: jnp.unpackbits(i.astype("uint8")),
    "unravel_index": lambda i, v, m: jnp.unravel_index(i, (3, 3)),
    "vectorize": lambda i, v, m: jnp.vectorize(jnp.dot, signature="(n),(n)->()")(i, v),
    "vsplit": lambda i, v, m: jnp.vsplit(i, 3),
    "linalg.matrix_power": lambda i, v, m: jnp.linalg.matrix_power(v * jnp.eye(3), -2),
    "linalg.multi_dot": lambda i, v, m: jnp.linalg.multi_dot([i, i, v]),
    "linalg.tensorinv": lambda i, v, m: jnp.linalg.tensorinv(v * jnp.eye(3), 1),
}
# These take sizes, dtypes, texts, files or settings, and no array that could be batched.
NO_ARRAYS = {
    "arange", "array_repr", "array_str", "bartlett", "blackman", "broadcast_shapes", "diag_indices", "einsum_path",
    "empty", "eye", "from_dlpack", "frombuffer", "fromfile", "fromfunction", "fromiter", "fromstring", "get_printoptions", "hamming",
    "hanning", "identity", "indices", "load", "mask_indices", "ones", "printoptions", "promote_types", "result_type",
    "save", "savez", "set_printoptions", "tri", "tril_indices", "trim_zeros", "triu_indices", "zeros", "fft.fftfreq",
    "fft.rfftfreq",
}  # fmt: skip
MODULES = {"": (jnp, jax.numpy), "linalg.": (jnp.linalg, jax.numpy.linalg), "fft.": (jnp.fft, jax.numpy.fft)}
FUNCTIONS = {
    prefix + name: getattr(module, name)
    for prefix, (module, theirs) in MODULES.items()
    for name in dir(theirs)
    if not name.startswith("_") and callable(getattr(theirs, name)) and not isinstance(getattr(theirs, name), type)
}


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - NO_ARRAYS))
def test_batches_natively(name):
    tried = 0
    for args in [(INTS[:, None] * np.ones((3, 1), np.int32), FLOATS, BOOLS)] if name in CALLS else CANDIDATES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.filterwarnings("error", message=".*performance drop.*")
            try:
                jaxish.vmap(CALLS.get(name, FUNCTIONS[name]))(*args)
            except UserWarning as warning:
                pytest.fail(f"{name} of {[a.shape for a in args]}: {warning}")
            except Exception:
                if name in CALLS:
                    raise
                continue  # not arguments of this function
            tried += 1
    assert tried, f"{name} takes none of the candidate arguments"
