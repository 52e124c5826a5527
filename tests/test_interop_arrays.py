"""Tensors of torch as arrays and back: memory, dtypes, and who is told the way."""

import operator

import jax
import numpy as np
import pytest
import torch
from oracle import agree

import jaxish
import jaxish.numpy as jnp

WAYS_IN = {
    "from_torch": jaxish.from_torch,
    "asarray": jnp.asarray,
    "device_put": jaxish.device_put,
    "from_dlpack": jnp.from_dlpack,
    "jax.dlpack": jaxish.dlpack.from_dlpack,
}


@pytest.mark.parametrize("way", WAYS_IN)
def test_a_write_in_place_is_seen(way):
    tensor = torch.arange(4.0)
    array = WAYS_IN[way](tensor)
    tensor.add_(10)
    np.testing.assert_array_equal(array, [10, 11, 12, 13])
    np.testing.assert_array_equal(jaxish.jit(lambda x: x * 2)(array), [20, 22, 24, 26])


@pytest.mark.parametrize("copied", [lambda t: jaxish.from_torch(t, copy=True), jnp.array])
def test_a_write_in_place_is_not_seen_by_a_copy(copied):
    tensor = torch.arange(4.0)
    array = copied(tensor)
    tensor.add_(10)
    np.testing.assert_array_equal(array, [0, 1, 2, 3])


def test_a_tensor_that_changes_its_shape_does_not_change_the_array():
    tensor = torch.arange(6.0).reshape(2, 3)
    array = jaxish.from_torch(tensor)
    tensor.t_()
    tensor.requires_grad_()
    assert array.shape == (2, 3)
    assert not (array + 1).to_torch().requires_grad


@pytest.mark.parametrize("of", ["asarray", "array", "device_put", "from_dlpack"])
@pytest.mark.parametrize(
    "dtype",
    ["bool", "uint8", "uint16", "uint32", "int8", "int32", "int64", "float16", "float32", "float64", "complex64"],
)
def test_dtypes_are_those_that_jax_gives(of, dtype):
    tensor = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype))

    def program(lib):
        place = lib if of == "device_put" else lib.numpy
        return getattr(place, of)(tensor if of != "device_put" or lib is jaxish else tensor.numpy())

    agree(program)


def test_wide_dtypes_stay_where_they_are_enabled():
    for lib in (jax, jaxish):
        with lib.enable_x64(True):
            assert lib.numpy.asarray(torch.arange(3)).dtype == np.int64
    with jaxish.enable_x64(True):
        tensor = torch.arange(3.0, dtype=torch.float64)
        assert jaxish.from_torch(tensor).unsafe_buffer_pointer() == tensor.data_ptr()


def test_bfloat16():
    # JAX goes by NumPy, which has none; by DLPack it takes it.
    tensor = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    agree(lambda lib: lib.dlpack.from_dlpack(tensor))
    assert jaxish.from_torch(tensor).dtype == jnp.bfloat16


LAYOUTS = {
    "transposed": lambda t: t.T,
    "every second": lambda t: t[:, ::2],
    "expanded": lambda t: t[:1].expand(4, 3),
    "conjugated": lambda t: (t + 2j * t).conj(),
    "imaginary part of a conjugate": lambda t: (t + 2j * t).conj().imag,
    "a parameter": torch.nn.Parameter,
    "no elements": lambda t: t[:0],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout):
    tensor = LAYOUTS[layout](torch.arange(6.0).reshape(2, 3))
    wanted = np.array(
        tensor.detach().resolve_conj().resolve_neg().tolist(), np.float32 if not tensor.is_complex() else np.complex64
    )
    array = jaxish.from_torch(tensor)
    np.testing.assert_array_equal(array, wanted.reshape(tensor.shape))
    np.testing.assert_allclose(jaxish.jit(jnp.exp)(array), np.exp(wanted.reshape(tensor.shape)), rtol=1e-6)


def test_sequences_of_tensors():
    rows = [torch.ones(2), torch.arange(2)]
    agree(lambda lib: lib.numpy.asarray([r.numpy() if lib is jax else r for r in rows]))
    agree(lambda lib: lib.numpy.array([torch.tensor(1.0), 2]))


def test_a_dtype_is_converted_to():
    agree(
        lambda lib: lib.numpy.array(
            torch.tensor([1.5, -2.5]).numpy() if lib is jax else torch.tensor([1.5, -2.5]), dtype="int32"
        )
    )


NESTED = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
WITHOUT_SHAPE = torch.nn.LazyLinear(2).weight


@pytest.mark.parametrize("tensor", [torch.eye(2).to_sparse(), torch.ones(2).to_mkldnn(), NESTED, WITHOUT_SHAPE, [1.0]])
def test_what_is_no_dense_tensor_is_refused(tensor):
    with pytest.raises(TypeError, match="from_torch takes"):
        jaxish.from_torch(tensor)


def test_gradient_history_is_cut():
    weight = torch.ones(2, requires_grad=True)
    array = jaxish.from_torch(weight * 3)
    assert not array.to_torch().requires_grad
    assert not (array * 2).to_torch().requires_grad
    np.testing.assert_array_equal(jaxish.grad(lambda x: (x * x).sum())(array), [6, 6])


def test_within_a_trace():
    tensor = torch.arange(3.0)
    np.testing.assert_array_equal(jaxish.jit(lambda x: x + jnp.asarray(tensor))(jnp.ones(3)), [1, 2, 3])
    np.testing.assert_array_equal(jaxish.grad(lambda x: (x * jaxish.from_torch(tensor)).sum())(jnp.ones(3)), [0, 1, 2])
    escaped = []
    jaxish.jit(lambda x: escaped.append(x.to_torch()) or x)(jnp.ones(3))
    with pytest.raises(jaxish.errors.UnexpectedTracerError):
        jaxish.from_torch(escaped[0])


def test_from_arrays_to_tensors():
    array = jnp.arange(3.0)
    for way in (jaxish.Array.to_torch, torch.from_dlpack, torch.asarray):
        tensor = way(array)
        assert type(tensor) is torch.Tensor
        assert tensor.data_ptr() == array.unsafe_buffer_pointer()
    assert torch.as_tensor(array).tolist() == torch.tensor(array).tolist() == [0, 1, 2]
    array.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        array.to_torch()


# ----------------------------------------------------------------------------------------- JAX's errors, and the way

TENSOR = torch.ones(2)
IN_THE_PLACE_OF_AN_ARRAY = {
    "sin": lambda lib: lib.numpy.sin(TENSOR),
    "dot": lambda lib: lib.numpy.dot(TENSOR, TENSOR),
    "where": lambda lib: lib.numpy.where(TENSOR, 1, 2),
    "concatenate": lambda lib: lib.numpy.concatenate([TENSOR, TENSOR]),
    "lax.sin": lambda lib: lib.lax.sin(TENSOR),
    "lax.add": lambda lib: lib.lax.add(lib.numpy.ones(2), TENSOR),
    "jit": lambda lib: lib.jit(lambda x: x)(TENSOR),
    "result of jit": lambda lib: lib.jit(lambda x: TENSOR)(1.0),
    "grad": lambda lib: lib.grad(lambda x: x.sum())(TENSOR),
    "vmap": lambda lib: lib.vmap(lambda x: x)(TENSOR),
    "jvp": lambda lib: lib.jvp(lib.numpy.sin, (TENSOR,), (TENSOR,)),
    "scan": lambda lib: lib.lax.scan(lambda c, x: (c, x), TENSOR, TENSOR),
    "random.normal": lambda lib: lib.random.normal(TENSOR),
    "array + tensor": lambda lib: lib.numpy.ones(2) + TENSOR,
    "tensor + array": lambda lib: TENSOR + lib.numpy.ones(2),
    "array @ tensor": lambda lib: lib.numpy.ones(2) @ TENSOR,
    "tensor @ array": lambda lib: TENSOR @ lib.numpy.ones(2),
    "tensor ** array": lambda lib: TENSOR ** lib.numpy.ones(2),
    "array ** tensor": lambda lib: lib.numpy.ones(2) ** TENSOR,
    "array < tensor": lambda lib: lib.numpy.ones(2) < TENSOR,
}


@pytest.mark.parametrize("case", IN_THE_PLACE_OF_AN_ARRAY)
def test_a_tensor_in_the_place_of_an_array(case):
    agree(IN_THE_PLACE_OF_AN_ARRAY[case])
    with pytest.raises(TypeError, match=r"jaxish\.from_torch\(tensor\)"):
        IN_THE_PLACE_OF_AN_ARRAY[case](jaxish)


def test_equality_is_left_to_python_as_in_jax():
    agree(
        lambda lib: (lib.numpy.ones(2) == TENSOR, lib.numpy.ones(2) != TENSOR, operator.eq(TENSOR, lib.numpy.ones(2)))
    )


IN_THE_PLACE_OF_A_TENSOR = {
    "sin": lambda x: torch.sin(x),
    "relu": lambda x: torch.nn.functional.relu(x),
    "linear": lambda x: torch.nn.functional.linear(x, torch.eye(2)),
    "module": lambda x: torch.nn.Linear(2, 2)(x),
    "stack": lambda x: torch.stack([x]),
    "method": lambda x: torch.ones(2).add(x),
    "index": lambda x: torch.arange(2)[x],
}


@pytest.mark.parametrize("case", IN_THE_PLACE_OF_A_TENSOR)
def test_an_array_in_the_place_of_a_tensor(case):
    with pytest.raises(TypeError, match=r"was given a JAX array; array\.to_torch\(\) is its tensor"):
        IN_THE_PLACE_OF_A_TENSOR[case](jnp.ones(2))


def test_what_is_ours_alone_is_reached_by_name_and_not_shown():
    from jaxish._core import additions

    assert not additions.NAMES & set(dir(jaxish))
    assert not any(hasattr(jax, name) for name in additions.NAMES)
    assert jaxish.from_torch(TENSOR).shape == (2,)
