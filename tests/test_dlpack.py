"""jax.dlpack: arrays of other libraries share memory, or are copied where JAX copies them."""

import jax
import numpy as np
import pytest
import torch
from oracle import agree

import jaxish


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64", "complex64"]
)
@pytest.mark.parametrize("copy", [None, True])
def test_values_and_dtypes(dtype, copy):
    values = np.arange(6).reshape(2, 3).astype(dtype)
    agree(lambda lib: lib.dlpack.from_dlpack(values, copy=copy))


def test_memory_is_shared_unless_a_copy_is_asked_for():
    values = torch.arange(4.0)
    shared, own = (jaxish.dlpack.from_dlpack(values, copy=copy) for copy in (None, True))
    assert shared.unsafe_buffer_pointer() == values.data_ptr() != own.unsafe_buffer_pointer()


def test_devices():
    values = torch.arange(3.0)  # aligned as XLA wants it

    def moved(lib, index, copy, sharding=False):
        device = lib.devices("cpu")[index]
        place = lib.sharding.SingleDeviceSharding(device) if sharding else device
        return lib.dlpack.from_dlpack(values, device=place, copy=copy)

    for index, copy, sharding in [(0, False, False), (1, False, False), (1, None, True), (1, True, False)]:
        agree(moved, index, copy, sharding)
    assert moved(jaxish, 1, None).devices() == {jaxish.devices("cpu")[1]}


def test_refusals():
    agree(lambda lib: lib.dlpack.from_dlpack([1, 2]))
    agree(lambda lib: lib.numpy.from_dlpack("text"))

    def over_two(lib):
        mesh = lib.sharding.Mesh(np.array(lib.devices("cpu")[:2]), "x")
        return lib.dlpack.from_dlpack(np.ones(2, np.float32), lib.NamedSharding(mesh, lib.P("x")))

    agree(over_two)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint4", "S1", np.object_, None, "float8_e4m3fn"])
def test_supported_dtypes(dtype):
    agree(lambda lib: lib.dlpack.is_supported_dtype(dtype if dtype is None else jax.numpy.dtype(dtype)))
