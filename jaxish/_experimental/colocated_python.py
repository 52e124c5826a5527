"""jax.experimental.colocated_python: Python functions that run on the hosts of their arguments' devices.

JAX sends them there from a controller elsewhere. Here each host runs the program itself, so that they are called as they
are; what JAX asks of arguments and results holds all the same.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .._core import levels, tree, tree_util
from .._core.array import Array
from .._core.avals import ShapeDtypeStruct
from .._devices import devices
from .._devices.devices import Device
from .._devices.meshes import Mesh
from .._transforms.placement import device_put


class DeviceList(tuple[Device, ...]):
    """Devices in a row."""


class _Colocated:
    def __init__(
        self, fun: Callable[..., Any], in_specs: Any, out_specs_fn: Callable[..., Any] | None,
        places: Sequence[Device] | None,
    ) -> None:  # fmt: skip
        functools.update_wrapper(self, fun)
        self._fun, self._in_specs, self._out_specs_fn, self._places = fun, in_specs, out_specs_fn, places

    def specialize(
        self,
        in_specs: Any = None,
        out_specs_fn: Callable[..., Any] | None = None,
        devices: Sequence[Device] | None = None,
    ) -> "_Colocated":
        """Return the function for arguments of these types, with results placed as `out_specs_fn(*in_specs)` says.

        `in_specs` is a pair of positional and keyword arguments. A function without arguments needs `devices`.
        """
        return _Colocated(
            self._fun,
            self._in_specs if in_specs is None else in_specs,
            self._out_specs_fn if out_specs_fn is None else out_specs_fn,
            self._places if devices is None else devices,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function. Raises `ValueError` for arguments and results that are no arrays, or other than specified."""
        leaves, spec = tree.flatten((args, kwargs))
        _check_arrays(leaves)
        if not leaves and self._places is None:
            raise ValueError(
                "No devices found. colocated_python function without input arguments must be first specialized with devices."
            )
        if any(d.process_index != devices.process_index() for d in self._places or ()):
            raise NotImplementedError(
                "colocated_python runs on this process's devices; call it in the other process, too."
            )
        if self._in_specs is not None:
            _check_types((args, kwargs), self._in_specs)
        result = self._fun(*args, **kwargs)
        _check_arrays(tree.flatten(result)[0])
        if self._out_specs_fn is None:
            return result
        types = spec.unflatten([ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding) for x in leaves])
        wanted = self._out_specs_fn(*types[0], **types[1])
        return device_put(result, tree_util.tree_map(lambda s: s.sharding, wanted))


def _check_arrays(leaves: Sequence[Any]) -> None:
    for leaf in leaves:
        if not isinstance(leaf, Array) or levels.is_tracer(leaf._tensor):
            raise ValueError(
                f"colocated_python only supports jax.Array as input and output, but got {type(leaf)}. Call it outside jit, "
                "vmap and grad; jax.pure_callback calls Python within them."
            )


def _check_types(arguments: Any, specs: Any) -> None:
    leaves, spec = tree.flatten(arguments)
    wanted, wanted_spec = tree.flatten(specs)
    found, asked = ([(tuple(x.shape), x.dtype) for x in side] for side in (leaves, wanted))
    if spec != wanted_spec or found != asked:
        raise ValueError(f"The function is specialized for arguments {specs}, and got {arguments}.")


def colocated_python(fun: Callable[..., Any]) -> _Colocated:
    """Return `fun`, a function of pytrees of arrays, as one that runs on the hosts of its arguments' devices."""
    return _Colocated(fun, None, None, None)


def colocated_python_class(cls: type[object]) -> type[object]:
    """Return a class whose objects are on the hosts of the devices: their methods are `colocated_python`.

    An object is made at the first call of a method; attributes other than methods are not to be seen.
    """

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        self._object = functools.cache(lambda: cls(*args, **kwargs))

    def method(name: str, function: Callable[..., Any]) -> property:
        def call(self: Any) -> _Colocated:
            made = self._object
            return colocated_python(functools.wraps(function)(lambda *a, **k: getattr(made(), name)(*a, **k)))

        return property(call)

    functions = {name: getattr(cls, name) for name in dir(cls) if not name.startswith("__")}
    methods = {name: method(name, f) for name, f in functions.items() if callable(f)}
    return type(cls.__name__, (), {"__init__": __init__, "__doc__": cls.__doc__, **methods})


def colocated_cpu_devices(devices_or_mesh: Sequence[Device] | Mesh) -> Any:
    """Return the CPU devices on the hosts of devices, as many as these; of a mesh, a mesh of them.

    Raises `ValueError` where there are too few (`jax_num_cpu_devices` says how many there are).
    """
    if isinstance(devices_or_mesh, Mesh):
        mesh = devices_or_mesh
        found = colocated_cpu_devices(list(mesh.devices.flat))
        shaped = mesh.devices.copy()
        shaped.flat[:] = found
        return Mesh(shaped, mesh.axis_names, axis_types=mesh.axis_types)
    if all(d.platform == "cpu" for d in devices_or_mesh):
        return list(devices_or_mesh)
    there = devices.devices("cpu")
    if len(there) < len(devices_or_mesh):
        raise ValueError(
            f"There are {len(there)} CPU devices for {len(devices_or_mesh)} devices. Set jax_num_cpu_devices before the first "
            "use of devices."
        )
    return there[: len(devices_or_mesh)]
