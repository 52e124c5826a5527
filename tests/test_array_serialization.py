"""jax.experimental.array_serialization and colocated_python, against JAX's."""

import importlib

import jax
import numpy as np
import pytest
from oracle import agree

PATHS = ["/tmp/x/y", "/tmp/x/y/", "gs://bucket/a/b", "s3://bucket/a/b", "rel/x", "/x", "//tmp//a", "gs://b/x"]


def serialization(j):
    pytest.importorskip("tensorstore")
    return importlib.import_module(f"{j.__name__}.experimental.array_serialization.serialization")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("options", [{}, {"ocdbt": True}, {"process_idx": 3, "driver": "zarr3"}], ids=str)
def test_specifications(path, options):
    agree(lambda j: repr(serialization(j).get_tensorstore_spec(path, **options)))


@pytest.mark.parametrize("ocdbt", [False, True])
def test_buckets_without_a_path(ocdbt):
    agree(lambda j: serialization(j).get_tensorstore_spec("gs://b", ocdbt=ocdbt))


@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
def test_specifications_of_arrays(driver):
    agree(
        lambda j: repr(
            serialization(j).get_tensorstore_spec("/a/b", arr=j.numpy.ones((4, 2), "bfloat16"), driver=driver)
        )
    )


@pytest.mark.parametrize(
    "spec",
    ["gs://a", "s3://b", "/x", {"kvstore": {"driver": "gcs"}}, {"kvstore": {"driver": "file"}}, {"base": "gs://x"}],
    ids=str,
)
def test_what_is_remote(spec):
    agree(lambda j: serialization(j).is_remote_storage(spec))


def colocated(j):
    pytest.importorskip("cloudpickle")
    return importlib.import_module(f"{j.__name__}.experimental.colocated_python")


class Counter:
    """Counts calls."""

    def __init__(self, start):
        self.count = start

    def add(self, x):
        self.count += 1
        return x + self.count


def counted(j):
    counter = colocated(j).colocated_python_class(Counter)(3)
    return counter.add(j.numpy.ones(2)), counter.add(j.numpy.ones(2)), hasattr(counter, "count")


def typed(j, shape):
    place = j.sharding.SingleDeviceSharding(j.devices("cpu")[0])
    return j.ShapeDtypeStruct(shape, j.numpy.float32, sharding=place)


CALLS = {
    "a pytree": lambda j, c: c.colocated_python(lambda x: {"a": x["b"] * 2, "n": None})({"b": j.numpy.ones(2)}),
    "an error": lambda j, c: c.colocated_python(lambda x: 1 / 0)(j.numpy.ones(2)),
    "a NumPy array": lambda j, c: c.colocated_python(lambda x: np.asarray(x) + 1)(j.numpy.ones(2)),
    "no arguments": lambda j, c: c.colocated_python(lambda: j.numpy.ones(2))(),
    "devices": lambda j, c: c.colocated_python(lambda: j.numpy.ones(2)).specialize(devices=j.devices("cpu"))(),
    "specified": lambda j, c: c.colocated_python(lambda x: x + 1).specialize(
        in_specs=((typed(j, (2,)),), {}), out_specs_fn=lambda x: typed(j, (2,))
    )(j.numpy.ones(2)),
    "an object": lambda j, c: counted(j),
    "cpu devices": lambda j, c: len(c.colocated_cpu_devices(j.devices("cpu"))),
    "a mesh": lambda j, c: c.colocated_cpu_devices(j.sharding.Mesh(np.array(j.devices("cpu")[:1]), ("x",))).shape,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_colocated_functions(call):
    agree(lambda j: call(j, colocated(j)))


def test_memories_of_devices():
    agree(
        lambda j: [
            (m.kind, m.platform, m.process_index, m == d.default_memory(), m.addressable_by_devices() == [d])
            for d in j.devices("cpu")[:1]
            for m in d.addressable_memories()[:1]
        ]
    )
    agree(lambda j: j.devices("cpu")[0].memory("tape"))
    agree(lambda j: (j.devices("cpu")[0].client.platform, repr(j.devices("cpu")[0].default_memory())))


def test_device_put_takes_formats():
    def program(j):
        layout = importlib.import_module(f"{j.__name__}.experimental.layout")
        place = j.sharding.SingleDeviceSharding(j.devices("cpu")[0])
        return [
            j.device_put(np.arange(6.0).reshape(2, 3), layout.Format(order, place))
            for order in (None, layout.Layout((0, 1)))
        ]

    agree(program)


def test_formats_say_where_results_lie():
    def program(j):
        layout = importlib.import_module(f"{j.__name__}.experimental.layout")
        mesh = j.make_mesh((1,), ("x",), axis_types=(j.sharding.AxisType.Auto,))
        wanted = layout.Format(layout.Layout((0, 1)), j.sharding.NamedSharding(mesh, j.P("x")))
        x = j.numpy.ones((2, 3))
        put = lambda x: j.lax.with_sharding_constraint(x, wanted)
        results = (
            put(x),
            j.jit(put)(x),
            j.jit(put, in_shardings=wanted)(x),
            j.jit(lambda x: x + 1, out_shardings=wanted)(x),
        )
        return results, [r.sharding.is_equivalent_to(wanted.sharding, 2) for r in results]

    agree(program)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_formats_of_arrays(shape):
    agree(lambda j: repr(j.numpy.ones(shape).format.layout))
    agree(lambda j: j.device_put(j.numpy.ones(shape), j.numpy.ones(shape).T.format))


def test_private_state_of_processes():
    from jaxish._devices import cluster

    state = importlib.import_module("jax._src.distributed").global_state
    assert (cluster.global_state.process_id, cluster.global_state.num_processes) == (
        state.process_id, state.num_processes
    )  # fmt: skip
    assert cluster.global_state.client is state.client is None
    assert jax.process_count() == cluster.global_state.num_processes
