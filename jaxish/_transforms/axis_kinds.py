"""auto_axes and explicit_axes: functions under a mesh whose axes are of another kind."""

import functools
from collections.abc import Callable
from typing import Any

from .._devices.meshes import AxisType, Mesh, mesh_in_force, within
from .flat import wraps
from .placement import reshard


def auto_axes(f: Callable[..., Any] | None = None, /, *, axes: Any = None, out_sharding: Any = None) -> Any:
    """Return `f` such that the mesh axes named (all by default) are automatic within it, and explicit again for its result.

    The result lies over them as `out_sharding` says, which may also be given at the call. Without `f`, return a decorator.
    Raises `TypeError` where it is not given.
    """
    if f is None:
        return functools.partial(auto_axes, axes=axes, out_sharding=out_sharding)

    @wraps(f)
    def called(*args: Any, **kwargs: Any) -> Any:
        wanted = _given("out_sharding", out_sharding, kwargs)
        mesh = mesh_in_force()
        if mesh is None or set(_names(axes, mesh)) <= set(mesh.auto_axes):
            return f(*args, **kwargs)
        with within(_with_kind(mesh, axes, AxisType.Auto)):
            result = f(*args, **kwargs)
        return reshard(result, wanted)

    return called


def explicit_axes(f: Callable[..., Any] | None = None, /, *, axes: Any = None, in_sharding: Any = None) -> Any:
    """Return `f` such that the mesh axes named (all by default) are explicit within it.

    Its arguments lie over them as `in_sharding` says, which may also be given at the call. Without `f`, return a decorator.
    Raises `TypeError` where it is not given, `ValueError` without a mesh in force.
    """
    if f is None:
        return functools.partial(explicit_axes, axes=axes, in_sharding=in_sharding)

    @wraps(f)
    def called(*args: Any, **kwargs: Any) -> Any:
        wanted = _given("in_sharding", in_sharding, kwargs)
        mesh = mesh_in_force()
        if mesh is None:
            raise ValueError(
                "Context mesh cannot be empty. Please use `jax.set_mesh` API to enter into a mesh context when using "
                "`explicit_axes` API."
            )
        with within(_with_kind(mesh, axes, AxisType.Explicit)):
            return f(*reshard(args, wanted), **kwargs)

    return called


def _given(name: str, value: Any, kwargs: dict[str, Any]) -> Any:
    if value is not None:
        return value
    if name not in kwargs:
        raise TypeError(f"Missing required keyword argument: '{name}'")
    return kwargs.pop(name)


def _names(axes: Any, mesh: Mesh) -> tuple[Any, ...]:
    return tuple(mesh.axis_names) if axes is None else (axes,) if isinstance(axes, str) else tuple(axes)


def _with_kind(mesh: Mesh, axes: Any, kind: AxisType) -> Mesh:
    chosen = _names(axes, mesh)
    pairs = zip(mesh.axis_names, mesh.axis_types, strict=True)
    return mesh.update(axis_types=tuple(kind if name in chosen else old for name, old in pairs))
