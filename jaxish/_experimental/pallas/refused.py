"""Names of JAX's pallas that are about compiled kernels: they raise, and say what to do instead."""

from collections.abc import Callable
from typing import Any, NoReturn


def _refused(name: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **options: Any) -> NoReturn:
        raise NotImplementedError(
            f"pl.{name} is not supported: kernels are interpreted here, one program at a time. Use "
            "pallas_call(interpret=True), or jax.jit."
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Refused: kernels are interpreted, one program at a time."
    return refuse


core_map = _refused("core_map")
delay = _refused("delay")
estimate_cost = _refused("estimate_cost")
get_global = _refused("get_global")
kernel = _refused("kernel")
lower_as_mlir = _refused("lower_as_mlir")
pallas_export_experimental = _refused("pallas_export_experimental")
semaphore_read = _refused("semaphore_read")
semaphore_signal = _refused("semaphore_signal")
semaphore_wait = _refused("semaphore_wait")
