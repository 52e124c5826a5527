"""Which devices torch has besides the CPU: GPUs, or those of XLA where torch_xla is installed and told of them.

torch_xla takes seconds to import. It is imported when a device is first asked for, and then only if `PJRT_DEVICE` is set,
as torch_xla itself wants it: to `TPU`, or to `CPU` to try it.
"""

import functools
import importlib
import importlib.util
import os
from collections.abc import Callable
from typing import Any

import torch

from . import config

# What is to be done when XLA's devices are first asked for.
on_start: list[Callable[[], object]] = []


@functools.cache
def torch_xla() -> Any:
    """Return torch_xla's runtime module, or None where its devices are not in use."""
    if not os.environ.get("PJRT_DEVICE") or importlib.util.find_spec("torch_xla") is None:
        return None
    runtime = importlib.import_module("torch_xla.runtime")
    for hook in on_start:
        hook()
    return runtime


def xla_platform() -> str:
    """Return what XLA's devices are: `tpu`, or `xla` where the CPU plays them."""
    return "tpu" if os.environ.get("PJRT_DEVICE", "").upper() == "TPU" else "xla"


def wait_for_xla() -> None:
    """Have XLA's devices compute all that was asked of them, and wait for it."""
    module = importlib.import_module("torch_xla.core.xla_model")
    module.mark_step()
    module.wait_device_ops()


def is_gpu(device: torch.device) -> bool:
    """Tell whether a device is one to which each kernel is sent by itself."""
    return device.type == "cuda"


_OTHER_NAMES = {"gpu": "cuda", "tpu": "xla"}


def allows(device_type: str) -> bool:
    """Tell whether `jax_platforms` lets torch's devices of this type be used."""
    names = [n.strip() for n in (config.platforms.value or config.platform_name.value or "").split(",") if n.strip()]
    return not names or device_type in (_OTHER_NAMES.get(name, name) for name in names)


@functools.cache
def first_device() -> torch.device:
    """Return the device on which arrays are made where nothing says another one.

    Raises `RuntimeError` where there is none of the platforms that `jax_platforms` names.
    """
    if allows("xla") and torch_xla() is not None:
        return torch.device("xla", 0)
    if allows("cuda") and torch.cuda.is_available():
        return torch.device("cuda", 0)
    if not allows("cpu"):
        raise RuntimeError(
            f"Unable to initialize backend '{config.platforms.value or config.platform_name.value}': torch has no such "
            "device here. (you may need to set jax_platforms to '' to choose one automatically)"
        )
    return torch.device("cpu")


for _flag in (config.platforms, config.platform_name):
    _flag.on_change.append(first_device.cache_clear)
