"""jax.extend.backend: the platforms as JAX's libraries ask for them, and forgetting what was compiled."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from .._core import array
from .._devices import devices
from .._devices.devices import Backend, Device
from .program import clear_caches

_cached: list[Any] = []


def backends() -> dict[str, Backend]:
    """Return the platforms that have devices, by name."""
    found = {}
    for platform in ("cpu", "gpu", "tpu"):
        try:
            devices.devices(platform)
        except RuntimeError:
            continue
        found[platform] = Backend(platform)
    return found


class InitializedBackends(Mapping[str, Backend]):
    """The platforms whose devices somebody has asked for: their number can no longer be chosen."""

    def _found(self) -> dict[str, Backend]:
        return backends() if devices.are_listed() else {}

    def __getitem__(self, platform: str) -> Backend:
        return self._found()[platform]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())


initialized_backends = InitializedBackends()


def get_backend(platform: str | Backend | None = None) -> Backend:
    """Return a platform by name, by default that of the first device. Raises `RuntimeError` for one without devices."""
    if isinstance(platform, Backend):
        return platform
    return Backend(devices.devices(platform)[0].platform)


def backend_xla_version(platform: str | None = None) -> None:
    """Return None: there is no XLA below."""


def get_default_device() -> Device:
    """Return the device on which arrays are made."""
    wanted = array.default_torch_device()
    platform = {"cuda": "gpu"}.get(wanted.type, wanted.type)
    return next(d for d in devices.local_devices(backend=platform) if d.torch_device == wanted)


def clear_in_memory_compilation_cache() -> None:
    """Forget all traced programs and their compiled code, and what was registered with `register_backend_cache`."""
    clear_caches()
    for cache in _cached:
        cache.cache_clear()


def clear_backends(_crash: bool = False) -> None:
    """Forget what was traced and compiled; torch's devices stay as they are."""
    clear_in_memory_compilation_cache()


def register_backend_cache(cache: Any, for_what: str) -> None:
    """Have `cache.cache_clear()` called where compiled code is forgotten."""
    _cached.append(cache)


def register_backend_factory(
    name: str, factory: Callable[..., Any], *, priority: int = 0, fail_quietly: bool = True, experimental: bool = False,
    make_topology: Any = None, c_api: Any = None,
) -> NoReturn:  # fmt: skip
    """Refused: devices are torch's."""
    raise NotImplementedError(
        "Devices are torch's; a compiler for them is registered with torch.compile (jaxish_backend)."
    )


def get_compile_options(
    num_replicas: int, num_partitions: int, device_assignment: Any = None, env_options_overrides: Any = None,
    fdo_profile: bytes | None = None, detailed_logging: bool = True, backend: Backend | None = None,
) -> NoReturn:  # fmt: skip
    """Refused: there is no XLA to compile by."""
    raise NotImplementedError("There are no options of XLA's here; set jaxish_backend and jaxish_jit_tier.")
