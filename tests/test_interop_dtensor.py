"""Arrays over processes as DTensors and back, held against torch's own distribution and JAX's parts."""

import itertools
from contextlib import contextmanager

import jax
import numpy as np
import pytest
import torch
from dtensor_layouts import LAYOUTS, VALUES, sharding
from launched import in_processes
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor._utils import _compute_local_shape_and_global_offset as part_of
from torch.distributed.tensor.placement_types import _StridedShard

import jaxish
from jaxish.interop import from_device_mesh, from_placements, to_device_mesh, to_placements

# ------------------------------------------------------------------------------------- placements, without processes

AXES = {"x": 2, "y": 3, "z": 2}


def specs():
    """Yield partition specs of two dimensions by up to three axes, in every order."""
    for count in range(4):
        for names in itertools.permutations(AXES, count):
            for cut in range(count + 1):
                yield names[:cut] or None, names[cut:] or None


def over(lib, spec):
    mesh = lib.sharding.AbstractMesh(tuple(AXES.values()), tuple(AXES))
    return lib.sharding.NamedSharding(mesh, lib.sharding.PartitionSpec(*spec))


@pytest.mark.parametrize("spec", list(specs()), ids=str)
def test_placements_say_what_the_spec_says(spec):
    placements = to_placements(over(jaxish, spec))
    shape = (12, 24)
    counts = [np.prod([AXES[n] for n in part or ()], dtype=int) for part in spec]
    for place in np.ndindex(*AXES.values()):
        sizes, offsets = part_of(shape, tuple(AXES.values()), list(place), placements)
        assert sizes == over(jax, spec).shard_shape(shape)
        at = dict(zip(AXES, place, strict=True))
        for dim, part in enumerate(spec):
            number = np.ravel_multi_index([at[n] for n in part or ()], [AXES[n] for n in part or ()]) if part else 0
            assert offsets[dim] == number * (shape[dim] // counts[dim])
    assert from_placements(over(jaxish, spec).mesh, placements, 2) == over(jaxish, spec)


def test_placements_that_are_no_sharding():
    mesh = over(jaxish, ()).mesh
    whole = [Replicate()] * 3
    assert from_placements(mesh, whole) == over(jaxish, ())
    assert from_placements(mesh, [Shard(-1), *whole[1:]], 2) == over(jaxish, (None, "x"))
    with pytest.raises(ValueError, match=r"still to be made.*redistribute"):
        from_placements(mesh, [Partial(), *whole[1:]])
    with pytest.raises(ValueError, match="no order of axes"):
        from_placements(mesh, [_StridedShard(0, split_factor=5), Shard(0), Replicate()])
    with pytest.raises(ValueError, match="needs 3 placements"):
        from_placements(mesh, whole[1:])
    for dim, ndim in ((-1, None), (2, 2), (-3, 2)):
        with pytest.raises(ValueError, match="give the tensor's ndim"):
            from_placements(mesh, [Shard(dim), *whole[1:]], ndim)
    with pytest.raises(TypeError, match="NamedSharding"):
        to_placements(jaxish.numpy.ones(2).sharding)


def test_a_program_of_one_process_has_no_device_mesh():
    with pytest.raises(RuntimeError, match=r"torchrun.*initialize"):
        to_device_mesh(jaxish.make_mesh((2,), ("x",)))
    with pytest.raises(TypeError, match="with devices"):
        to_device_mesh(over(jaxish, ()).mesh)


@contextmanager
def group_of_one(folder):
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/group", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def test_a_group_of_one_process(tmp_path):
    with group_of_one(tmp_path):
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,), mesh_dim_names=("x",))
        tensor = distribute_tensor(torch.ones(3), mesh, [Shard(0)])
        array = jaxish.from_torch(tensor)
        assert type(array.to_torch()) is torch.Tensor
        assert array.to_torch().data_ptr() == tensor.to_local().data_ptr()
        one = jaxish.sharding.Mesh(np.array(jaxish.devices()[:1]), "x")
        assert to_device_mesh(one) == mesh
        assert from_device_mesh(mesh) == one
        with pytest.raises(RuntimeError, match="several devices of one"):
            to_device_mesh(jaxish.make_mesh((2,), ("x",)))


# ------------------------------------------------------------------------------------------------------- processes


@pytest.fixture(scope="module", params=[2, 4])
def processes(request, tmp_path_factory):
    """What each of two and of four processes found."""
    return in_processes("dtensor_program.py", request.param, tmp_path_factory.mktemp("dtensors"))


@pytest.fixture
def layouts(processes):
    return LAYOUTS[len(processes)]


def test_parts_are_those_of_jax(processes, layouts):
    for name, layout in layouts.items():
        wanted = sharding(jax, layout)
        parts = [VALUES[index] for index in wanted.devices_indices_map(VALUES.shape).values()]
        for found, part in zip([p["laid"][name] for p in processes], parts, strict=True):
            np.testing.assert_array_equal(found["theirs"], part)
            is_distributed, own, everything = found["ours"]
            assert is_distributed
            np.testing.assert_array_equal(own, part)
            np.testing.assert_array_equal(everything, VALUES)
            np.testing.assert_array_equal(found["taken"][1], part)


def test_dtensors_are_taken_without_a_copy(processes, layouts):
    for found in processes:
        for name in layouts:
            laid = found["laid"][name]
            assert laid["is shared"] and laid["placements"] and laid["round trip"], name


def test_arrays_of_dtensors_are_computed_with(processes, layouts):
    for found in processes:
        for name in layouts:
            laid = found["laid"][name]
            np.testing.assert_allclose(laid["computed"], np.tanh(VALUES) @ VALUES.T, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(
                laid["differentiated"], np.cos(VALUES) * VALUES + np.sin(VALUES), rtol=1e-5, atol=1e-5
            )
            assert not any(laid["without sums"])


def test_parameters_that_torch_has_laid_out(processes):
    for found in processes:
        spec, doubled, wanted = found["fsdp"]
        assert spec == str(jax.P("fsdp", None))
        np.testing.assert_array_equal(doubled, wanted)
        if len(processes) == 4:
            spec, doubled, wanted, part, own = found["fsdp and tp"]
            assert spec == str(jax.P(("tp", "dp"), None))
            np.testing.assert_array_equal(doubled, wanted)
            np.testing.assert_array_equal(part, own)


REFUSED = {
    "early": ("RuntimeError", "initialize()"),
    "wrong number": ("ValueError", "leave it out"),
    "nameless": ("ValueError", "mesh_dim_names="),
    "partial": ("ValueError", "redistribute"),
    "uneven": ("ValueError", "pad it"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(processes, case):
    kind, text = REFUSED[case]
    for found in processes:
        assert found[case][0] == kind
        assert text in found[case][1]


def test_what_torch_is_still_sending_is_waited_for(processes):
    for found in processes:
        np.testing.assert_array_equal(found["asynchronous"], VALUES)
        assert found["narrowed"] == "int32"
        assert found["group outlives"]
