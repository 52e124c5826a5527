"""platform_dependent: code for one kind of device."""

from collections.abc import Callable
from typing import Any

from ..._core import graph
from ..._devices import devices
from .cond import switch


def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:
    """Return `per_platform[platform](*args)` for the platform of the default device (`cpu`, `cuda`), else `default`'s.

    Within a trace all functions are traced and must give equal types, so that a program is right on every platform.
    Raises `NotImplementedError` when the platform has no function and there is no default.
    """
    for name, branch in per_platform.items():
        if not callable(branch):
            raise TypeError(f"lax.platform_dependent: the {name!r} branch must be a callable.")
        if name == "gpu":
            raise ValueError("Use 'cuda' or 'rocm' for lax.platform_dependent.")
    if default is not None and not callable(default):
        raise TypeError("lax.platform_dependent: the 'default' branch must be a callable.")
    platform = "cuda" if devices.default_backend() == "gpu" else devices.default_backend()
    chosen = per_platform.get(platform, default)
    if chosen is None:
        raise NotImplementedError(
            f"platform_dependent has no function for the platform {platform!r}, and no default; "
            f"it was given {', '.join(per_platform) or 'none'}."
        )
    if not graph.is_tracing():
        return chosen(*args)
    branches = [chosen, *(b for b in (*per_platform.values(), default) if b is not None and b is not chosen)]
    return switch(0, branches, *args)
