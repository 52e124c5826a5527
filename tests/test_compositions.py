"""A sample of the compositions of compositions.py, and the cases that were wrong. `python tests/compositions.py` runs all."""

import re
import zlib

import composition_cases
import pytest
from compositions import failures

import jaxish

pytestmark = pytest.mark.usefixtures("unoptimized_jax")
CASES = composition_cases.cases()
_SAMPLE = [name for name in CASES if zlib.crc32(name.encode()) % 12 == 0]

# Names that have no derivative, or return nothing that has one.
WITHOUT_DERIVATIVES = {
    "jnp": """all allclose any argmin argpartition argwhere array_equal array_equiv array_repr array_str bartlett bitwise_and
        bitwise_count bitwise_invert bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor blackman
        broadcast_shapes can_cast count_nonzero diag_indices diag_indices_from einsum_path empty empty_like equal
        flatnonzero from_dlpack frombuffer fromfile fromiter fromstring gcd get_printoptions greater greater_equal hamming
        hanning histogram_bin_edges indices invert isclose iscomplex iscomplexobj isdtype isfinite isin isinf isnan
        isneginf isposinf isreal isrealobj isscalar issubdtype iterable kaiser lcm left_shift less less_equal lexsort load
        logical_and logical_not logical_or logical_xor mask_indices nanargmax nanargmin ndim nextafter not_equal packbits
        printoptions promote_types ravel_multi_index result_type right_shift save savez set_printoptions shape signbit
        sort_complex spacing tril_indices tril_indices_from triu_indices triu_indices_from unique_all unique_counts
        trim_zeros unique_inverse unique_values unpackbits unravel_index""",
    "lax": """after_all argmin axis_index axis_size bitcast_convert_type bitwise_and bitwise_not bitwise_or bitwise_xor
        broadcast_shapes broadcasted_iota clz composite conv_dimension_numbers conv_general_permutations
        conv_general_shape_tuple conv_shape_tuple conv_transpose_shape_tuple create_token dce_sink dtype empty eq full ge gt igamma
        iota is_finite le lt mulhi ne nextafter padtype_to_pads pcast pmax pmin population_count precv psend
        ragged_all_to_all reduce_and reduce_or reduce_window_shape_tuple reduce_xor rng_bit_generator rng_uniform scaled_dot scatter_apply
        shape_as_value shift_left shift_right_arithmetic shift_right_logical stage while_loop with_sharding_constraint zeta""",
    "nn": "get_scaled_dot_general_config scaled_dot_general",
    "random": """PRNGKey bernoulli binomial bits clone fold_in geometric key key_data key_dtype key_impl multinomial poisson
        rademacher randint split wrap_key_data""",
    "jnp.linalg": "matrix_rank",
    "jnp.fft": "fftfreq rfftfreq",
    "lax.linalg": "cholesky_update eig hessenberg lu_pivots_to_permutation ormqr qdwh schur tridiagonal",
}
_MODULES = {
    "jnp": jaxish.numpy, "lax": jaxish.lax, "nn": jaxish.nn, "random": jaxish.random, "jnp.linalg": jaxish.numpy.linalg,
    "jnp.fft": jaxish.numpy.fft, "lax.linalg": jaxish.lax.linalg,
}  # fmt: skip


@pytest.mark.parametrize("module", _MODULES)
def test_every_function_with_a_derivative_has_a_case(module):
    text = " ".join(CASES)
    public = [n for n, f in vars(_MODULES[module]).items() if callable(f) and not (n[0] in "_D" or isinstance(f, type))]
    of_jax = [n for n in public if not (module == "jnp.fft" and "fft" not in n)]
    missing = [n for n in of_jax if not re.search(rf"(?<![\w.]){re.escape(module)}\.{n}\b", text)]
    assert set(missing) <= set(WITHOUT_DERIVATIVES[module].split())


@pytest.mark.parametrize("name", _SAMPLE)
def test_derivatives_of_mapped_functions(name):
    found = dict(failures(name, CASES[name], lambda text: zlib.crc32(text.encode()) % 10 == 0))
    assert not any(found.values()), {k: v for k, v in found.items() if v}


# What was wrong: updates whose gradient was multiplied, tangents of another dtype, meta tensors, shared memory.
WRONG_BEFORE = [
    "x.at[0].set(y) [x:3,4 y:]", "x.at[1, 2].add(y) [x:3,4 y:]", "x.at[1, 2].max(y) [x:3,4 y:]", "x.at[0].multiply(y) [x:3,4 y:]",
    "x.at[0].set(x[0, 1] * 2) [x:3,4]", "x.at[jnp.argmax(x[:, 0])].set(x[0, 1] * 2) [x:3,4]", "jnp.hypot(x, y) [x:~ y:~]",
    "x.at[jnp.argmax(x[:, 0])].multiply(y) [x:3,4 y:]", "jax.jacfwd(lambda a: a ** 3 * y)(x) [x:3 y:]", "lax.clamp(0.5, x, 1.0) [x:+3]", "lax.optimization_barrier(x) [x:~3]",
]  # fmt: skip


def one_of_two(text):
    """Choose each composition, with each way of mapping the arguments, either eagerly or under jit."""
    before, _, label = text.rpartition(" ")
    composition = label.removeprefix("jit").strip("()")
    return label.startswith("jit") == zlib.crc32(f"{before} {composition}".encode()) % 2


@pytest.mark.parametrize("name", WRONG_BEFORE)
def test_what_was_wrong_before(name):
    found = dict(failures(name, CASES[name], one_of_two if " y:" in name else lambda text: True))
    assert not any(found.values()), {k: v for k, v in found.items() if v}
