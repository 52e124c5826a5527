"""platform_dependent: code for one kind of device."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..._core import graph
from ..._devices import devices
from .cond import switch

# The platforms that the program being traced is for; None: the default device's.
_platforms: ContextVar[tuple[str, ...] | None] = ContextVar("platforms", default=None)


@contextmanager
def for_platforms(names: Sequence[str]) -> Iterator[None]:
    """Within this context manager programs are traced for these platforms."""
    token = _platforms.set(tuple(names))
    try:
        yield
    finally:
        _platforms.reset(token)


def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:
    """Return `per_platform[platform](*args)` for the platform of the default device (`cpu`, `cuda`), else `default`'s.

    Within a trace all functions are traced and must give equal types, so that a program is right on every platform.
    Raises `NotImplementedError` when the platform has no function and there is no default, and in programs that are
    exported for platforms with different functions.
    """
    for name, branch in per_platform.items():
        if not callable(branch):
            raise TypeError(f"lax.platform_dependent: the {name!r} branch must be a callable.")
        if name == "gpu":
            raise ValueError("Use 'cuda' or 'rocm' for lax.platform_dependent.")
    if default is not None and not callable(default):
        raise TypeError("lax.platform_dependent: the 'default' branch must be a callable.")
    own = "cuda" if devices.default_backend() == "gpu" else devices.default_backend()
    platform, *others = _platforms.get() or (own,)
    chosen = per_platform.get(platform, default)
    if any(per_platform.get(other, default) is not chosen for other in others):
        raise NotImplementedError(
            f"platform_dependent has different functions for the platforms {platform}, {', '.join(others)} that the program "
            "is exported for; export it for each."
        )
    if chosen is None:
        raise NotImplementedError(
            f"platform_dependent has no function for the platform {platform!r}, and no default; "
            f"it was given {', '.join(per_platform) or 'none'}."
        )
    if not graph.is_tracing():
        return chosen(*args)
    branches = [chosen, *(b for b in (*per_platform.values(), default) if b is not None and b is not chosen)]
    return switch(0, branches, *args)
