"""jax.ffi and jax.experimental.topologies: what works does what JAX's does, what is refused says what to do."""

import ctypes
import importlib
import inspect

import jax
import jax.ffi
import numpy as np
import pytest
from oracle import agree

import jaxish
import jaxish.ffi

NAMES = [name for name in dir(jax.ffi) if not name.startswith("_")]


@pytest.mark.parametrize("name", NAMES)
def test_signatures_are_jaxs(name):
    theirs, ours = (inspect.signature(getattr(lib.ffi, name)).parameters.values() for lib in (jax, jaxish))
    plain = lambda parameters: [(p.name, p.kind, p.default) for p in parameters]
    assert plain(ours) == plain(theirs)


def test_capsules_hold_the_function():
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    function = ctypes.CDLL(None).abs
    found, wanted = (pointer(lib.ffi.pycapsule(function), None) for lib in (jaxish, jax))
    assert found == wanted
    assert type(jaxish.ffi.pycapsule(function)).__name__ == "PyCapsule"


CALLS = ["ffi_call('f', np.float32)", "register_ffi_type('t', {})", "include_dir()",
         "register_ffi_target_as_batch_partitionable('f')", "ffi_lowering('f')", "build_ffi_lowering_function('f')"]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_what_xla_would_call_is_refused(call):
    with pytest.raises(NotImplementedError, match="custom_op"):
        eval(f"ffi.{call}", {"ffi": jaxish.ffi, "np": np})


def test_a_target_may_be_registered_and_not_called():
    capsule = jaxish.ffi.pycapsule(ctypes.CDLL(None).abs)
    assert jaxish.ffi.register_ffi_target("a target", capsule, platform="cpu") is None
    with pytest.raises(NotImplementedError, match=r"ffi_call\('a target'\), a target registered for cpu,.*custom_op"):
        jaxish.ffi.ffi_call("a target", jax.ShapeDtypeStruct((), np.float32))


def test_what_jax_refuses_is_refused():
    agree(lambda lib: lib.ffi.register_ffi_type_id("t", None))


def test_meshes_of_the_devices_that_are_there():
    def program(lib):
        topologies = importlib.import_module(f"{lib.__name__}.experimental.topologies")
        topology = topologies.get_attached_topology("cpu")
        mesh = topologies.make_mesh(topology, (4, 2), ("a", "b"))
        ids = [d.id for d in mesh.devices.flat]
        return ids, mesh.devices.shape, mesh.axis_names, [d.id for d in topology.devices]

    agree(program)
    with pytest.raises(NotImplementedError, match="jax_num_cpu_devices"):
        importlib.import_module("jaxish.experimental.topologies").get_topology_desc("v5e:2x2", "tpu")


@pytest.mark.parametrize("library", ["jax", "jaxish"])
def test_a_module_without_names_warns(library):
    with pytest.warns(DeprecationWarning, match="deprecated in JAX v0.8.1"):
        importlib.reload(importlib.import_module(f"{library}.cloud_tpu_init"))
