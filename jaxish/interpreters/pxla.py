"""jax.interpreters.pxla: what JAX keeps here, deprecated, of its runtime for many devices."""

from .._core import lazy_modules as _lazy_modules

_PLACES = {
    "thread_resources": ("jaxish._devices.meshes", "thread_resources"),
    "ArrayMapping": ("jaxish._devices.shardings", "ArrayMapping"),
    "Index": ("jaxish._devices.shardings", "IndexOfPart"),
    "MeshAxisName": ("jaxish._devices.shardings", "MeshAxisName"),
    "array_mapping_to_axis_resources": ("jaxish._devices.shardings", "array_mapping_to_axis_resources"),
}
_ADVICE = {
    "MeshAxisName": " Use jax.sharding.Mesh axis names directly.",
    "thread_resources": (
        " Please switch to using `with jax.set_mesh(mesh)` instead of `with mesh:` and then use "
        "`jax.sharding.get_abstract_mesh()` to get the current mesh."
    ),
}
__getattr__ = _lazy_modules.deprecated(
    __name__,
    _PLACES,
    {name: f"jax.interpreters.pxla.{name} is deprecated as of JAX v0.8.2.{_ADVICE.get(name, '')}" for name in _PLACES},
)
