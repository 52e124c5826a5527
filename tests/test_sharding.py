"""Arrays over the devices of one process: meshes, specs, placement, jit with shardings, shard_map and pmap, as in JAX."""

import jax
import numpy as np
import pytest
from oracle import agree

import jaxish


def _meshes(jax):
    sharding = jax.sharding
    auto = sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
    return auto, jax.make_mesh((4, 2), ("x", "y"))


def _layout(x):
    """Everything that can be seen of where an array is."""
    shards = [(str(s.device), str(s.index), s.replica_id, np.asarray(s.data)) for s in x.addressable_shards]
    return str(x.sharding), shards, x.committed, x.is_fully_replicated, x.is_fully_addressable, len(x.devices())


MESHES = {
    "shape": lambda s, m, e: [
        str(m),
        repr(m),
        str(e),
        dict(m.shape),
        m.size,
        m.empty,
        str(m.axis_types),
        m.shape_tuple,
    ],
    "devices": lambda s, m, e: [
        m.device_ids,
        m.devices.shape,
        m.is_multi_process,
        str(m.local_mesh),
        str(m.abstract_mesh),
    ],
    "one axis": lambda s, m, e: [repr(s.Mesh(m.devices.reshape(-1), "x")), repr(s.Mesh(m.devices[:1], ("x", "y")))],
    "equal": lambda s, m, e: [
        m == s.Mesh(m.devices, ("x", "y")),
        m == e,
        hash(m) == hash(s.Mesh(m.devices, ("x", "y"))),
    ],
    "too few names": lambda s, m, e: s.Mesh(m.devices, ("x",)),
    "axes by type": lambda s, m, e: [m.auto_axes, e.explicit_axes, e.manual_axes, m.are_all_axes_auto],
    "update": lambda s, m, e: [str(m.update(axis_names=("a", "b"))), str(e.update(axis_types=m.axis_types))],
    "abstract": lambda s, m, e: [repr(s.AbstractMesh((2, 3), ("a", "b"))), s.AbstractMesh((2,), ("a",)).size],
    "abstract devices": lambda s, m, e: s.AbstractMesh((2,), ("a",)).devices,
}


@pytest.mark.parametrize("name", MESHES)
def test_meshes(name):
    agree(lambda jax: MESHES[name](jax.sharding, *_meshes(jax)))


@pytest.mark.parametrize("shape", [(16,), (3, 3)])
def test_a_mesh_needs_devices(shape):
    agree(lambda jax: str(jax.make_mesh(shape, ("x", "y")[: len(shape)])))


SPECS = {
    "printed": lambda P: [repr(P(*a)) for a in ((), ("x",), ("x", None), (("x", "y"), None), (["x"],), ((),))],
    "sum": lambda P: [repr(P("x").__add__(("y",))), repr(P("x").__radd__(("y",))), repr(P("x") + P("y"))],
    "sequence": lambda P: [
        len(P("x", None)),
        list(P("x", ("x", "y"))),
        P("x", "y")[1],
        P("x", "y").index("y"),
        "x" in P("x"),
    ],
    "equal": lambda P: [P("x") == P("x"), P("x") == P("x", None), P(("x",)) == P("x"), P("x") == ("x",)],
    "unreduced": lambda P: [repr(P("x", unreduced={"y"})), sorted(P("x", unreduced={"y"}).unreduced)],
    "update": lambda P: repr(P("x").update(partitions=("y", "x"))),
}


@pytest.mark.parametrize("name", SPECS)
def test_partition_specs(name):
    agree(lambda jax: SPECS[name](jax.sharding.PartitionSpec))


SHARDINGS = {
    "indices": lambda s, m: str(s.NamedSharding(m, s.PartitionSpec("x", "y")).devices_indices_map((8, 4))),
    "minor first": lambda s, m: str(s.NamedSharding(m, s.PartitionSpec(("y", "x"))).devices_indices_map((8, 3))),
    "second dimension": lambda s, m: str(s.NamedSharding(m, s.PartitionSpec(None, "x")).devices_indices_map((3, 4))),
    "parts": lambda s, m: s.NamedSharding(m, s.PartitionSpec("x", "y")).shard_shape((8, 4)),
    "uneven": lambda s, m: s.NamedSharding(m, s.PartitionSpec("x", "y")).shard_shape((7, 4)),
    "twice": lambda s, m: s.NamedSharding(m, s.PartitionSpec("x", "x")),
    "unknown axis": lambda s, m: s.NamedSharding(m, s.PartitionSpec("z")),
    "unreduced": lambda s, m: s.NamedSharding(m, s.PartitionSpec("x", unreduced={"y"})),
    "properties": lambda s, m: [
        [x.is_fully_replicated, x.num_devices, x.memory_kind, x.is_fully_addressable, sorted(x.replicated_axes)]
        for x in (s.NamedSharding(m, s.PartitionSpec("x")), s.NamedSharding(m, s.PartitionSpec()))
    ],
    "equivalent": lambda s, m: [
        s.NamedSharding(m, s.PartitionSpec("x")).is_equivalent_to(s.NamedSharding(m, s.PartitionSpec("x", None)), 2),
        s.NamedSharding(m, s.PartitionSpec("x")) == s.NamedSharding(m, s.PartitionSpec("x", None)),
        s.NamedSharding(m, s.PartitionSpec(("x", "y"))).is_equivalent_to(
            s.NamedSharding(m, s.PartitionSpec(("y", "x"))), 1
        ),
    ],
    "single": lambda s, m: [
        repr(s.SingleDeviceSharding(m.devices[1, 1])),
        str(s.SingleDeviceSharding(m.devices[1, 1]).devices_indices_map((3, 4))),
    ],
    "abstract": lambda s, m: s.NamedSharding(m.abstract_mesh, s.PartitionSpec("x")).device_set,
}


def _memory_kinds(s, mesh):
    return [
        s.NamedSharding(mesh, s.PartitionSpec()).memory_kind,
        s.NamedSharding(mesh.abstract_mesh, s.PartitionSpec()).memory_kind,
        s.NamedSharding(mesh.abstract_mesh, s.PartitionSpec(), memory_kind="pinned_host").memory_kind,
        s.NamedSharding(mesh.abstract_mesh, s.PartitionSpec("x")).with_memory_kind("unpinned_host").memory_kind,
        s.NamedSharding(mesh.abstract_mesh, s.PartitionSpec(), memory_kind="device")
        == s.NamedSharding(mesh.abstract_mesh, s.PartitionSpec(), memory_kind="pinned_host"),
    ]


SHARDINGS |= {
    "memory kinds": _memory_kinds,
    "no memory kind": lambda s, m: s.NamedSharding(m, s.PartitionSpec(), memory_kind="attic"),
    "no memory kind, abstract": lambda s, m: s.NamedSharding(m.abstract_mesh, s.PartitionSpec(), memory_kind="attic"),
    "no memory kind, single": lambda s, m: s.SingleDeviceSharding(m.devices[0, 0], memory_kind="attic"),
}


@pytest.mark.parametrize("name", SHARDINGS)
def test_shardings(name):
    agree(lambda jax: SHARDINGS[name](jax.sharding, _meshes(jax)[0]))


X = np.arange(32.0, dtype=np.float32).reshape(8, 4)


def _with(jax, mesh, program):
    with jax.set_mesh(mesh):
        return program()


def in_mesh(jax, mesh, function, *args):
    with jax.set_mesh(mesh):
        return function(*args)


PLACED = {
    "split": lambda jax, N, P, m, e: jax.device_put(X, N(m, P("x", "y"))),
    "replicated": lambda jax, N, P, m, e: jax.device_put(X, N(m, P())),
    "one axis": lambda jax, N, P, m, e: jax.device_put(X, N(m, P(None, "y"))),
    "device": lambda jax, N, P, m, e: jax.device_put(X, jax.devices()[3]),
    "single": lambda jax, N, P, m, e: jax.device_put(X, jax.sharding.SingleDeviceSharding(jax.devices()[2])),
    "nowhere": lambda jax, N, P, m, e: jax.numpy.asarray(X),
    "stays": lambda jax, N, P, m, e: jax.device_put(jax.device_put(X, N(m, P("x")))),
    "spec": lambda jax, N, P, m, e: _with(jax, m, lambda: jax.device_put(X, P("x"))),
    "spec without mesh": lambda jax, N, P, m, e: jax.device_put(X, P("x")),
    "no sharding": lambda jax, N, P, m, e: jax.device_put(X, "x"),
    "uneven": lambda jax, N, P, m, e: jax.device_put(X[:7], N(m, P("x"))),
    "rank": lambda jax, N, P, m, e: jax.device_put(X[0], N(m, P("x", "y"))),
    "out": lambda jax, N, P, m, e: jax.jit(lambda x: x + 1, out_shardings=N(m, P("x")))(X),
    "out, spec": lambda jax, N, P, m, e: _with(jax, m, lambda: jax.jit(lambda x: x + 1, out_shardings=P("x"))(X)),
    "out, spec without mesh": lambda jax, N, P, m, e: jax.jit(lambda x: x + 1, out_shardings=P("x"))(X),
    "out, uneven": lambda jax, N, P, m, e: jax.jit(lambda x: x[:7], out_shardings=N(m, P("x")))(X),
    "out, rank": lambda jax, N, P, m, e: jax.jit(lambda x: x[0], out_shardings=N(m, P("x", "y")))(X),
    "out, no prefix": lambda jax, N, P, m, e: jax.jit(lambda x: x, out_shardings=(N(m, P("x")),) * 2)(X),
    "out, no sharding": lambda jax, N, P, m, e: jax.jit(lambda x: x, out_shardings="x")(X),
    "out, explicit": lambda jax, N, P, m, e: jax.jit(lambda x: x, out_shardings=N(e, P("x")))(X),
    "out, single": lambda jax, N, P, m, e: jax.jit(
        lambda x: x * 2, out_shardings=jax.sharding.SingleDeviceSharding(jax.devices()[2])
    )(X),
    "out of a tree": lambda jax, N, P, m, e: jax.jit(
        lambda x: {"a": x, "b": [x.T, x]}, out_shardings={"a": N(m, P("x")), "b": N(m, P("y", None))}
    )(X)["b"][0],
    "in": lambda jax, N, P, m, e: jax.jit(lambda x: x, in_shardings=N(m, P("x")), out_shardings=N(m, P("x")))(X),
    "in, other": lambda jax, N, P, m, e: jax.jit(lambda x: x, in_shardings=N(m, P("x")))(
        jax.device_put(X, N(m, P("y")))
    ),
    "in, too many": lambda jax, N, P, m, e: jax.jit(lambda x: x, in_shardings=(N(m, P("x")),) * 2)(X),
    "in, kwargs": lambda jax, N, P, m, e: jax.jit(lambda x: x, in_shardings=N(m, P("x")))(x=X),
    "constraint": lambda jax, N, P, m, e: jax.lax.with_sharding_constraint(X, N(m, P("x"))),
    "constraint in jit": lambda jax, N, P, m, e: jax.jit(
        lambda x: jax.lax.with_sharding_constraint(x * 2, N(m, P("x", "y")))
    )(X),
    "constraint within": lambda jax, N, P, m, e: jax.jit(
        lambda x: (jax.lax.with_sharding_constraint(x * 2, N(m, P("x", "y"))) + 1.0).T
    )(X),
    "constraint before several results": lambda jax, N, P, m, e: jax.jit(
        lambda x: jax.lax.erf_inv(jax.lax.with_sharding_constraint(x * 0.01, N(m, P("x", "y"))))
    )(X),
    "constraint that does not divide": lambda jax, N, P, m, e: jax.jit(
        lambda x: jax.lax.with_sharding_constraint(x[:, :1] * 2, N(m, P("x", "y")))
    )(X),
    "constraint of which one axis divides": lambda jax, N, P, m, e: jax.jit(
        lambda x: jax.lax.with_sharding_constraint(x[:6] * 2, N(m, P(("x", "y"), None)))
    )(X),
    "constraint that divides nothing": lambda jax, N, P, m, e: jax.jit(
        lambda x: jax.lax.with_sharding_constraint(x[:5, :3] * 2, N(m, P("x", "y")))
    )(X),
    "constraint that does not divide, eager": lambda jax, N, P, m, e: jax.lax.with_sharding_constraint(
        X[:5], N(m, P("x", "y"))
    ),
    "constraint of more dimensions": lambda jax, N, P, m, e: jax.jit(
        lambda x: jax.lax.with_sharding_constraint(x[0], N(m, P("x", "y")))
    )(X),
    "out, unconstrained": lambda jax, N, P, m, e: jax.jit(lambda x: x, out_shardings=N(m, P(P.UNCONSTRAINED)))(X),
    "in, unconstrained": lambda jax, N, P, m, e: jax.jit(lambda x: x, in_shardings=N(m, P(P.UNCONSTRAINED)))(X),
    "constraint, explicit": lambda jax, N, P, m, e: jax.lax.with_sharding_constraint(X, N(e, P("x"))),
    "constraint, device": lambda jax, N, P, m, e: jax.lax.with_sharding_constraint(X, jax.devices()[0]),
    "constraint under vmap": lambda jax, N, P, m, e: jax.jit(
        jax.vmap(lambda x: jax.lax.with_sharding_constraint(x * 2, N(m, P("y"))))
    )(X),
    "spmd axis": lambda jax, N, P, m, e: jax.jit(
        jax.vmap(lambda x: jax.lax.with_sharding_constraint(x * 2, N(m, P("y"))), spmd_axis_name="x")
    )(X),
    "reshard": lambda jax, N, P, m, e: jax.reshard(jax.device_put(X, N(e, P("x"))), N(e, P("y"))),
    "reshard, auto": lambda jax, N, P, m, e: jax.reshard(X, N(m, P("x"))),
    "reshard, None": lambda jax, N, P, m, e: jax.reshard(X, None),
    "reshard, spec without mesh": lambda jax, N, P, m, e: jax.reshard(X, P("x")),
    "callback": lambda jax, N, P, m, e: jax.make_array_from_callback((8, 4), N(m, P("x")), lambda i: X[i]),
    "callback, shape": lambda jax, N, P, m, e: jax.make_array_from_callback((8, 4), N(m, P("x")), lambda i: X[:3]),
    "from parts": lambda jax, N, P, m, e: jax.make_array_from_single_device_arrays(
        (8, 4), N(m, P("x")), [s.data for s in jax.device_put(X, N(m, P("x"))).addressable_shards]
    ),
    "too few parts": lambda jax, N, P, m, e: jax.make_array_from_single_device_arrays(
        (8, 4), N(m, P("x")), [jax.numpy.ones((2, 4))]
    ),
    "parts on one device": lambda jax, N, P, m, e: jax.make_array_from_single_device_arrays(
        (8, 4), N(m, P("x")), [jax.numpy.ones((2, 4))] * 8
    ),
    "of the process": lambda jax, N, P, m, e: jax.make_array_from_process_local_data(N(m, P("x")), X),
    "of the process, pytree": lambda jax, N, P, m, e: jax.make_array_from_process_local_data(
        N(m, P("x")), {"a": X, "b": (X[:, 0],)}, {"a": (8, 4), "b": ((8,),)}
    ),
    "of the process, a pytree of shardings": lambda jax, N, P, m, e: jax.make_array_from_process_local_data(
        {"a": N(m, P("x")), "b": N(m, P())}, {"a": X, "b": (X[:, 0], None)}
    ),
    "of the process, nothing": lambda jax, N, P, m, e: jax.make_array_from_process_local_data(None, None),
    "of the process, shardings of other keys": lambda jax, N, P, m, e: jax.make_array_from_process_local_data(
        {"a": N(m, P("x"))}, {"b": X}
    ),
    "of the process, no sharding": lambda jax, N, P, m, e: jax.make_array_from_process_local_data(None, X),
    "of the process, shapes of other keys": lambda jax, N, P, m, e: jax.make_array_from_process_local_data(
        jax.devices()[0], {"a": X}, {"a": (8, 4), "b": (3, 5)}
    ),
    "of the process, a device": lambda jax, N, P, m, e: jax.make_array_from_process_local_data(jax.devices()[1], X),
    "of the process, a spec": lambda jax, N, P, m, e: in_mesh(
        jax, m, jax.make_array_from_process_local_data, P("x"), X
    ),
    "callback in a trace": lambda jax, N, P, m, e: jax.jit(
        lambda x: jax.make_array_from_callback((8, 4), N(m, P("x")), lambda i: x[i])
    )(X),
    "of the process, shape": lambda jax, N, P, m, e: jax.make_array_from_process_local_data(N(m, P("x")), X, (4, 4)),
}


@pytest.mark.parametrize("name", PLACED)
def test_placement(name):
    def program(jax):
        sharding = jax.sharding
        found = PLACED[name](jax, sharding.NamedSharding, sharding.PartitionSpec, *_meshes(jax))
        return np.asarray(found), _layout(found)

    agree(program)


def test_keys_over_devices():
    def program(jax):
        (mesh, _), N, P = _meshes(jax), jax.sharding.NamedSharding, jax.sharding.PartitionSpec
        keys = jax.device_put(jax.random.split(jax.random.key(0), 8), N(mesh, P("x")))
        made = jax.jit(lambda k: jax.random.split(k, 8), out_shardings=N(mesh, P("x")))(jax.random.key(0))
        shards = [s.data for x in (keys, made) for s in x.addressable_shards]
        return [np.asarray(jax.random.key_data(s)) for s in shards], str(keys.sharding), str(made.sharding)

    agree(program)


def test_a_tree_of_shardings():
    def program(jax):
        (mesh, _), N, P = _meshes(jax), jax.sharding.NamedSharding, jax.sharding.PartitionSpec
        found = jax.device_put({"a": X, "b": (X, X)}, {"a": jax.devices()[1], "b": N(mesh, P("x"))})
        return [str(found[k].sharding) for k in "a"] + [str(b.sharding) for b in found["b"]]

    agree(program)
    agree(lambda jax: jax.device_put({"a": X}, [jax.devices()[1]]))


def test_types_of_results_tell_the_sharding():
    def program(jax):
        (mesh, _), N, P = _meshes(jax), jax.sharding.NamedSharding, jax.sharding.PartitionSpec
        return str(jax.eval_shape(jax.jit(lambda x: x, out_shardings=N(mesh, P("x"))), X))

    agree(program)


def test_derivatives_and_batches_go_through_placement():
    def program(jax):
        (mesh, _), N, P = _meshes(jax), jax.sharding.NamedSharding, jax.sharding.PartitionSpec
        placed = jax.jit(lambda x: x**2, out_shardings=N(mesh, P("x")))
        wished = jax.jit(lambda x: jax.lax.with_sharding_constraint(x**3, N(mesh, P("x"))))
        return (
            jax.grad(lambda x: placed(x).sum())(X),
            jax.jvp(wished, (X,), (X,)),
            jax.vmap(jax.grad(lambda x: wished(x).sum()))(np.stack([X, X])),
            jax.jit(jax.hessian(lambda x: wished(x).sum()))(X[:, 0]),
        )

    agree(program)


def test_the_mesh_in_force():
    def program(jax):
        mesh, explicit = _meshes(jax)
        seen = [str(jax.sharding.get_mesh()), str(jax.sharding.get_abstract_mesh())]
        with jax.set_mesh(mesh):
            seen += [str(jax.sharding.get_mesh()), str(jax.sharding.get_abstract_mesh())]
            with jax.set_mesh(explicit):
                seen.append(str(jax.sharding.get_mesh()))
            seen.append(str(jax.sharding.get_mesh()))
            with jax.set_mesh(None):
                seen.append(str(jax.sharding.get_mesh()))
        return [*seen, str(jax.sharding.get_mesh())]

    agree(program)
    agree(lambda jax: jax.set_mesh(3))
    for transform in ("jit", "vmap", "make_jaxpr"):
        agree(lambda jax: getattr(jax, transform)(lambda x: (jax.set_mesh(_meshes(jax)[0]), x)[1])(X))
        agree(lambda jax: getattr(jax, transform)(lambda x: (jax.sharding.get_mesh(), x)[1])(X))


ABSTRACT = {
    "of the array": lambda j, x, on, a: j.lax.with_sharding_constraint(on, j.NamedSharding(a, j.P(None, "y"))),
    "of another shape": lambda j, x, on, a: j.lax.with_sharding_constraint(
        on, j.NamedSharding(j.sharding.AbstractMesh((2,), ("x",)), j.P("x"))
    ),
    "of nobody": lambda j, x, on, a: j.lax.with_sharding_constraint(x, j.NamedSharding(a, j.P("x"))),
    "of nobody, traced": lambda j, x, on, a: j.jit(
        lambda x: j.lax.with_sharding_constraint(x, j.NamedSharding(a, j.P("x")))
    )(x),
    "put": lambda j, x, on, a: j.device_put(on, j.NamedSharding(a, j.P("x"))),
}


@pytest.mark.parametrize("name", ABSTRACT)
def test_constraints_over_an_abstract_mesh(name):
    def program(jax):
        mesh, _ = _meshes(jax)
        over = jax.device_put(jax.numpy.asarray(X), jax.NamedSharding(mesh, jax.P("x")))
        found = ABSTRACT[name](jax, jax.numpy.asarray(X), over, mesh.abstract_mesh)
        return found, str(found.sharding)

    agree(program)


def test_an_abstract_mesh_means_the_mesh_in_force():
    def program(jax):
        seen = []
        mesh, explicit = _meshes(jax)
        with jax.set_mesh(mesh):
            split = jax.NamedSharding(jax.sharding.get_abstract_mesh(), jax.P("x"))
            seen.append(jax.jit(lambda x: jax.lax.with_sharding_constraint(x + 1, split))(X))
            seen.append(jax.jit(lambda x: x + 1, out_shardings=split)(X))
        with jax.set_mesh(explicit):
            split = jax.NamedSharding(jax.sharding.get_abstract_mesh(), jax.P("x", None))
            seen.append(jax.sharding.reshard(jax.numpy.asarray(X), split))
            seen.append(jax.jit(lambda x: jax.sharding.reshard(x, split))(X))
        return seen, [str(x.sharding) for x in seen]

    agree(program)


SPLIT_TYPES = {
    "as of an array": lambda j, of, a: [
        of((4, 2), j.numpy.ones(3).sum().aval.sharding.update(spec=j.P(None, None))) == of((4, 2))
    ],
    "split": lambda j, of, a: [
        str(of((4, 2), j.NamedSharding(a, j.P("x")))),
        repr(of((4, 2), j.NamedSharding(a, j.P("x")))),
    ],
    "split twice": lambda j, of, a: [of((2, 8), j.NamedSharding(a, j.P(None, ("x", "y")))).str_short(True)],
    "equal": lambda j, of, a: [
        of((4, 2), j.NamedSharding(a, j.P("x"))) == of((4, 2), j.NamedSharding(a, spec))
        for spec in (j.P("x", None), j.P(("x",)), j.P(), j.P(None, "y"))
    ],
    "spec": lambda j, of, a: [
        str(of((4, 2), j.NamedSharding(a, spec)).sharding.spec) for spec in (j.P(), j.P("x"), j.P("y"))
    ],
    "other shape": lambda j, of, a: [str(of((4, 2), j.NamedSharding(a, j.P("x"))).update(shape=(8, 1)))],
    "over devices": lambda j, of, a: of((4, 2), j.NamedSharding(_meshes(j)[1], j.P("x"))),
    "not divided": lambda j, of, a: of((3, 2), j.NamedSharding(a, j.P("x"))),
    "weak": lambda j, of, a: [str(j.core.ShapedArray((2,), "float32", True)), repr(j.typeof(1.0)), f"{j.typeof(1)}"],
}


@pytest.mark.parametrize("name", SPLIT_TYPES)
def test_types_with_a_sharding(name):
    def program(jax):
        of = lambda shape, sharding=None: jax.core.ShapedArray(shape, "float32", sharding=sharding)
        return SPLIT_TYPES[name](
            jax, of, jax.sharding.AbstractMesh((4, 2), ("x", "y"), (jax.sharding.AxisType.Explicit,) * 2)
        )

    agree(program)


def test_joining_processes_needs_to_know_them(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="process_id should be defined"):
        jaxish.distributed.initialize()
    with pytest.raises(ValueError, match="coordinator_address should be defined"):
        jaxish.distributed.initialize(num_processes=1, process_id=0)
    with pytest.raises(NotImplementedError, match="slice_index"):
        jaxish.distributed.initialize(slice_index=0)
    with pytest.raises(NotImplementedError, match="one timeout"):
        jaxish.distributed.initialize(heartbeat_timeout_seconds=1)
    assert not jaxish.distributed.is_initialized()
    jaxish.distributed.shutdown()


def test_a_traced_function_depends_on_the_mesh_in_force():
    def program(jax):
        P = jax.sharding.PartitionSpec
        constrained = jax.jit(lambda x: jax.lax.with_sharding_constraint(x + 1, P("x")))
        found = []
        for shape in ((4, 2), (2, 4)):
            mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(shape), ("x", "y"))
            with jax.set_mesh(mesh):
                found.append(str(constrained(X).sharding))
        return found

    agree(program)


def test_devices():
    agree(
        lambda jax: (len(jax.devices()), jax.device_count(), jax.local_device_count(), [str(d) for d in jax.devices()])
    )
    agree(lambda jax: [str(d) for d in jax.local_devices(process_index=0)])
    agree(lambda jax: jax.config.update("jax_num_cpu_devices", 4))
    assert jaxish.config.jax_num_cpu_devices == 8


def test_an_array_over_devices_computes_like_any_other():
    def program(jax):
        (mesh, _), N, P = _meshes(jax), jax.sharding.NamedSharding, jax.sharding.PartitionSpec
        x = jax.device_put(X, N(mesh, P("x", "y")))
        return x + 1, x @ x.T, x.sum(0), x[1:3], jax.numpy.sort(x, 0), jax.jit(lambda x: x * 2)(x)

    agree(program)


# shard_map and pmap

ROWS = np.arange(8.0, dtype=np.float32)

MAPPED = {
    "doubled": lambda jax, sm, P, m: sm(lambda x: x * 2, mesh=m, in_specs=P("x", "y"), out_specs=P("x", "y"))(X),
    "sum": lambda jax, sm, P, m: sm(
        lambda x: jax.lax.psum(x, "x"), mesh=m, in_specs=P("x", "y"), out_specs=P(None, "y")
    )(X),
    "sum over both": lambda jax, sm, P, m: sm(
        lambda x: jax.lax.psum(x, ("x", "y")), mesh=m, in_specs=P(("x", "y")), out_specs=P()
    )(ROWS),
    "sum of the same": lambda jax, sm, P, m: sm(
        lambda x: jax.lax.psum(x, "y"), mesh=m, in_specs=P("x"), out_specs=P("x")
    )(ROWS),
    "differs": lambda jax, sm, P, m: sm(lambda x: x, mesh=m, in_specs=P("x", "y"), out_specs=P("x"))(X),
    "unchecked": lambda jax, sm, P, m: sm(lambda x: x, mesh=m, in_specs=P("x", "y"), out_specs=P("x"), check_vma=False)(
        X
    ),
    "uneven": lambda jax, sm, P, m: sm(lambda x: x, mesh=m, in_specs=P("x"), out_specs=P("x"))(ROWS[:7]),
    "in rank": lambda jax, sm, P, m: sm(lambda x: x, mesh=m, in_specs=P("x", "y"), out_specs=P("x"))(ROWS),
    "out rank": lambda jax, sm, P, m: sm(lambda x: x.sum(), mesh=m, in_specs=P("x"), out_specs=P("x"))(ROWS),
    "in tree": lambda jax, sm, P, m: sm(lambda x: x, mesh=m, in_specs=(P("x"),) * 2, out_specs=P("x"))(ROWS),
    "out tree": lambda jax, sm, P, m: sm(lambda x: x, mesh=m, in_specs=P("x"), out_specs=(P("x"),) * 2)(ROWS),
    "unknown axis": lambda jax, sm, P, m: sm(lambda x: x, mesh=m, in_specs=P("z"), out_specs=P("x"))(ROWS),
    "no mesh": lambda jax, sm, P, m: sm(lambda x: x, in_specs=P("x"), out_specs=P("x"))(ROWS),
    "wrong mesh": lambda jax, sm, P, m: sm(lambda x: x, mesh=3, in_specs=P("x"), out_specs=P("x"))(ROWS),
    "no spec": lambda jax, sm, P, m: sm(lambda x: x, mesh=m, in_specs="x", out_specs=P("x"))(ROWS),
    "whole": lambda jax, sm, P, m: sm(lambda x: x, mesh=m, in_specs=None, out_specs=P("x"))(ROWS),
    "scalar": lambda jax, sm, P, m: sm(lambda x, y: x + y, mesh=m, in_specs=(P("x"), P()), out_specs=P("x"))(
        ROWS, np.float32(1)
    ),
    "orders": lambda jax, sm, P, m: sm(lambda x: x, mesh=m, in_specs=P(("y", "x")), out_specs=P(("x", "y")))(ROWS),
    "stacked": lambda jax, sm, P, m: sm(lambda x: jax.numpy.ones(3), mesh=m, in_specs=P("x"), out_specs=P("x"))(ROWS),
    "one axis": lambda jax, sm, P, m: sm(lambda x: x, mesh=m, axis_names={"x"}, in_specs=P("x"), out_specs=P("x"))(
        ROWS
    ),
    "other axis": lambda jax, sm, P, m: sm(
        lambda x: jax.lax.axis_index("y"), mesh=m, axis_names={"x"}, in_specs=P("x"), out_specs=P()
    )(ROWS),
    "no axis": lambda jax, sm, P, m: sm(lambda x: x, mesh=m, axis_names={"z"}, in_specs=P("x"), out_specs=P("x"))(ROWS),
    "decorator": lambda jax, sm, P, m: sm(mesh=m, in_specs=P("x"), out_specs=P("x"))(lambda x: x + 1)(ROWS),
    "permuted": lambda jax, sm, P, m: sm(
        lambda x: jax.lax.ppermute(x, "x", [(i, (i + 1) % 4) for i in range(4)]),
        mesh=m,
        in_specs=P("x"),
        out_specs=P("x"),
    )(ROWS),
    "gathered": lambda jax, sm, P, m: sm(
        lambda x: jax.lax.all_gather(x, "y", tiled=True) * 1.0, mesh=m, in_specs=P(("x", "y")), out_specs=P(("x", "y"))
    )(ROWS),
    "vmap": lambda jax, sm, P, m: jax.vmap(sm(lambda x: x * 2, mesh=m, in_specs=P("x"), out_specs=P("x")))(
        np.stack([ROWS, ROWS])
    ),
    "grad": lambda jax, sm, P, m: jax.grad(
        lambda x: sm(lambda x: jax.lax.psum((x**2).sum(), ("x", "y")), mesh=m, in_specs=P("x", "y"), out_specs=P())(x)
    )(X),
    "jit": lambda jax, sm, P, m: jax.jit(sm(lambda x: x * 2, mesh=m, in_specs=P("x"), out_specs=P("x")))(X),
    "tree": lambda jax, sm, P, m: sm(
        lambda a, b: a + b["c"], mesh=m, in_specs=(P("x"), {"c": P("x")}), out_specs=P("x")
    )(ROWS, {"c": ROWS}),
    "keyword": lambda jax, sm, P, m: sm(lambda x, b=1: x, mesh=m, in_specs=P("x"), out_specs=P("x"))(ROWS, b=2),
    "arguments": lambda jax, sm, P, m: sm(lambda x: x, mesh=m, in_specs=P("x"), out_specs=P("x"))(ROWS, ROWS),
    "pcast": lambda jax, sm, P, m: sm(
        lambda x: jax.lax.pcast(x, "x", to="varying"), mesh=m, in_specs=P(), out_specs=P("x")
    )(ROWS),
    "pcast, jit": lambda jax, sm, P, m: jax.jit(
        sm(lambda x: jax.lax.pcast(x, ("x", "y"), to="varying"), mesh=m, in_specs=P(), out_specs=P(("x", "y")))
    )(ROWS),
    "pcast, other axis": lambda jax, sm, P, m: sm(
        lambda x: jax.lax.pcast(x, "y", to="varying"), mesh=m, axis_names={"x"}, in_specs=P(), out_specs=P("x")
    )(ROWS),
    "pcast, unreduced": lambda jax, sm, P, m: sm(
        lambda x: jax.lax.pcast(x, "x", to="unreduced"), mesh=m, in_specs=P(), out_specs=P("x")
    )(ROWS),
    "pcast, outside": lambda jax, sm, P, m: jax.lax.pcast(ROWS, "x", to="varying"),
    "pcast, outside and traced": lambda jax, sm, P, m: jax.jit(lambda x: jax.lax.pcast(x, "x", to="varying"))(ROWS),
    "pmap": lambda jax, sm, P, m: jax.pmap(lambda x: x + 1)(X[:4]),
    "pmap, named": lambda jax, sm, P, m: jax.pmap(lambda x: x / jax.lax.psum(x, "i"), "i")(X[1:5]),
    "pmap, broadcast": lambda jax, sm, P, m: jax.pmap(lambda x, y: x + y, in_axes=(0, None))(X[:4], 1.0),
    "pmap, out axis": lambda jax, sm, P, m: jax.pmap(lambda x: x, out_axes=1)(X[:4]),
    "pmap, one result": lambda jax, sm, P, m: jax.pmap(lambda x: jax.lax.psum(x, "i"), "i", out_axes=None)(X),
    "pmap, first result": lambda jax, sm, P, m: jax.pmap(lambda x: x, out_axes=None)(ROWS),
    "pmap, static": lambda jax, sm, P, m: jax.pmap(lambda x, n: x * n, static_broadcasted_argnums=1)(X, 3),
    "pmap, devices": lambda jax, sm, P, m: jax.pmap(lambda x: x, devices=jax.devices()[4:])(X[:4]),
    "pmap, too many": lambda jax, sm, P, m: jax.pmap(lambda x: x)(np.ones(9)),
    "pmap, size": lambda jax, sm, P, m: jax.pmap(lambda x: x, axis_size=3)(X),
    "pmap, not mapped": lambda jax, sm, P, m: jax.pmap(lambda x: x, in_axes=None)(X),
    "pmap, nothing": lambda jax, sm, P, m: jax.pmap(lambda x: x)(),
    "pmap, static by name": lambda jax, sm, P, m: jax.pmap(lambda x, n: x * n, static_broadcasted_argnums=1)(X, n=3),
    "pmap, no devices": lambda jax, sm, P, m: jax.pmap(lambda x: x, devices=[])(X),
    "pmap, no function": lambda jax, sm, P, m: jax.pmap(3),
    "pmap, grad": lambda jax, sm, P, m: jax.grad(lambda x: jax.pmap(lambda x: x**2)(x).sum())(ROWS),
}
# Derivatives and batched results have a sharding of the compiler's choice in JAX; in the last two, what is called one
# value is another on each device there.
_UNPLACED = {"vmap", "grad", "pmap, grad", "unchecked", "pmap, first result"}


@pytest.mark.parametrize("name", MAPPED)
def test_shard_map_and_pmap(name):
    def program(jax):
        found = MAPPED[name](jax, jax.shard_map, jax.sharding.PartitionSpec, _meshes(jax)[0])
        return found, None if name in _UNPLACED else _layout(found)

    agree(program)


def test_shard_map_infers_specs_of_explicit_axes():
    def program(jax):
        mesh, P = _meshes(jax)[1], jax.sharding.PartitionSpec
        with jax.set_mesh(mesh):
            found = jax.shard_map(lambda x: x + jax.lax.axis_index("x"), out_specs=P("x"))(jax.reshard(X, P("x")))
        return np.asarray(found), str(found.sharding)

    agree(program)


WRONG_SPECS = {
    "out_specs refers to 'z'": (("x",), ("z",), ROWS),
    "too long": (("x", None, "y"), ("x",), ROWS),
    "not evenly divisible": (("x",), ("x",), ROWS[:3]),
    "does not match the specs of the input": (("x",), ("x",), ROWS),
}


@pytest.mark.parametrize("message", WRONG_SPECS)
def test_wrong_specs_are_told_before_specs_that_types_do_not_have(message):
    in_spec, out_spec, x = WRONG_SPECS[message]
    for library in (jax, jaxish):
        P = library.sharding.PartitionSpec
        mapped = library.shard_map(lambda x: x, mesh=_meshes(library)[1], in_specs=P(*in_spec), out_specs=P(*out_spec))
        with pytest.raises(ValueError, match=message):
            mapped(library.numpy.asarray(x))


def test_nested_pmap():
    # JAX 0.10 refuses pmap within pmap; here it is what it says.
    found = jaxish.pmap(jaxish.pmap(lambda x: x + 1))(X.reshape(4, 2, 4))
    np.testing.assert_array_equal(np.asarray(found), X.reshape(4, 2, 4) + 1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_shard_map_by_its_first_name():
    def program(jax):
        import importlib

        module = importlib.import_module(f"{jax.__name__}.experimental.shard_map")
        (mesh, _), P = _meshes(jax), jax.sharding.PartitionSpec
        return np.asarray(module.shard_map(lambda x: x + 1, mesh, P("x"), P("x"))(X))

    agree(program)


@pytest.mark.parametrize("shape", [(4, 2), (8,), (3,), (2, 2)])
def test_device_meshes(shape):
    def program(jax):
        import importlib

        create = importlib.import_module(f"{jax.__name__}.experimental.mesh_utils").create_device_mesh
        return [str(d) for d in create(shape).flat], [str(d) for d in create((2, 2), jax.devices()[4:]).flat]

    agree(program)


FOLLOWING = {
    "zeros_like": lambda jax, x: jax.numpy.zeros_like(x),
    "ones_like, other dtype": lambda jax, x: jax.numpy.ones_like(x, dtype=np.int32),
    "full_like": lambda jax, x: jax.numpy.full_like(x, 3),
    "full_like, other shape": lambda jax, x: jax.numpy.full_like(x, 3, shape=(2, 2)),
    "zeros_like, other device": lambda jax, x: jax.numpy.zeros_like(x, device=jax.devices()[3]),
    "astype": lambda jax, x: x.astype(np.int32),
    "rows": lambda jax, x: next(iter(jax.device_put(x, jax.devices()[2]))),
    "in jit": lambda jax, x: jax.device_get(jax.jit(lambda: sum(y.sum() for y in x))()),
}


@pytest.mark.parametrize("name", FOLLOWING)
def test_what_lies_like_its_operand(name):
    def program(jax):
        mesh = _meshes(jax)[0]
        x = jax.device_put(X, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x", "y")))
        found = FOLLOWING[name](jax, x)
        return found if name == "in jit" else (found, *_layout(found)[1:])

    agree(program)


# -------------------------------------------------------------------------------------------- what a device's part is


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("jit", [False, True])
def test_types_tell_what_varies_over_devices(jit, check):
    def program(j):
        found, spec = [], j.sharding.PartitionSpec

        def body(w, x):
            cast = (j.lax.pcast(w, "x", to="varying"),) if check else ()
            own = (w, x, w * x, j.lax.psum(x, "x"), j.lax.all_gather(x, "x"), j.lax.axis_index("y"), *cast)
            slope = j.grad(lambda w: (j.numpy.sin(x) * w).sum())(w)
            mesh = j.sharding.get_abstract_mesh()
            found.append([sorted(j.typeof(v).mat.varying) for v in own])
            found.append([sorted(j.typeof(v).mat.invarying(mesh)) for v in own] if check else slope.shape)
            found.append([mesh.manual_axes, j.typeof(w).mat.empty, sorted(j.typeof(x).mat.to_ct_mat().varying)])
            return x * 2

        f = j.shard_map(body, mesh=_meshes(j)[0], in_specs=(spec(), spec("x")), out_specs=spec("x"), check_vma=check)
        result = (j.jit(f) if jit else f)(np.float32(3), np.arange(8, dtype=np.float32))
        return found[:3], result, j.typeof(result).mat.empty, str(j.sharding.get_abstract_mesh())

    agree(program, weak=False)


def test_arguments_without_a_spec_are_passed_as_they_are():
    def program(j):
        thing, spec = object(), j.sharding.PartitionSpec

        def body(options, x, shape):
            assert options["thing"] is thing
            return x + j.numpy.ones(shape) * options["scale"]

        f = j.shard_map(body, mesh=_meshes(j)[0], in_specs=(None, spec("x"), None), out_specs=spec("x"))
        return f({"thing": thing, "scale": 3}, np.arange(8, dtype=np.float32), (2,))

    agree(program, weak=False)


def test_shard_map_over_an_abstract_mesh_takes_the_arguments_devices():
    def program(j):
        auto, spec = _meshes(j)[0], j.sharding.PartitionSpec
        x = j.device_put(np.arange(8.0, dtype=np.float32), j.sharding.NamedSharding(auto, spec("x")))
        f = j.shard_map(lambda x: x * 2, mesh=auto.abstract_mesh, in_specs=spec("x"), out_specs=spec("x"))
        return f(x), str(f(x).sharding)

    agree(program, weak=False)
