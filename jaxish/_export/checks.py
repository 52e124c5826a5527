"""Checks of exported functions that can be left out, and the versions of JAX's calling convention."""

from dataclasses import dataclass

from .._core import config

minimum_supported_calling_convention_version = 9
maximum_supported_calling_convention_version = 10


@dataclass(frozen=True, init=False, repr=False)
class DisabledSafetyCheck:
    """A check that is left out; made by `platform` and `custom_call`."""

    _impl: str

    def __init__(self, _impl: str) -> None:
        object.__setattr__(self, "_impl", _impl)

    @classmethod
    def platform(cls) -> "DisabledSafetyCheck":
        """Return the check that a function runs on a platform that it was exported for."""
        return cls("platform")

    @classmethod
    def custom_call(cls, target_name: str) -> "DisabledSafetyCheck":
        """Return the check that calls of foreign code are known to be stable. There are none here, to leave out."""
        return cls(f"custom_call:{target_name}")

    def is_custom_call(self) -> str | None:
        """Return the name that `custom_call` was given, None for another check."""
        kind, _, name = self._impl.partition(":")
        return name if kind == "custom_call" and name else None

    def __repr__(self) -> str:
        return self._impl

    __str__ = __repr__


def calling_convention_version() -> int:
    """Return the version that is asked for. Raises `ValueError` for one that JAX does not know."""
    version = config.config.read("jax_export_calling_convention_version")
    low, high = minimum_supported_calling_convention_version, maximum_supported_calling_convention_version
    if not low <= version <= high:
        raise ValueError(
            f"The requested export calling convention version {version} is outside the range of supported versions "
            f"[{low}..{high}]"
        )
    return version
