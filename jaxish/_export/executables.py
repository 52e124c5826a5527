"""Compiled functions as bytes: jax.experimental.serialize_executable.

What is stored is the graph, as exported functions are; its code comes from the cache on disk, or is compiled when it is
loaded. Pytrees go beside the bytes, so that their classes need not be registered.
"""

import dataclasses
import json
import struct
from collections.abc import Sequence
from typing import Any

from .._core import tree
from .._core.avals import ShapedArray, ShapeDtypeStruct
from .._core.tree import PyTreeDef
from .._devices.devices import Device
from .._transforms.backends import Backend, get_backend
from .._transforms.jit import PjitFunction
from .._transforms.placement import Placement
from .._transforms.signature import Signature
from .._transforms.stages import Compiled
from .checks import maximum_supported_calling_convention_version
from .exported import Exported, platform_named
from .layouts import layouts_of
from .loading import deserialize
from .storing import serialized
from .tracing import stored_program

_HEAD = struct.Struct("<8sI")
_MAGIC = b"jaxish\xe2\x8c"  # an exported function behind a text of JSON


def serialize(compiled: Compiled) -> tuple[bytes, PyTreeDef, PyTreeDef]:
    """Return a compiled function as bytes, and the structures of its (args, kwargs) and of its result.

    Raises `ValueError` for functions that close over references, `NotImplementedError` for those that call the host or
    lay arrays over several devices.
    """
    program = compiled._program
    if program.uses is not None:
        raise ValueError("can't serialize with a closed-over mutable array ref")
    infos, in_tree = tree.flatten(compiled.args_info)
    layouts = layouts_of([None] * len(program.in_avals), program)
    if layouts.nr_devices > 1:
        raise NotImplementedError(
            "a compiled function over several devices cannot be serialized; jax.export stores it, for any devices."
        )
    stored = stored_program(program)
    exported = Exported(
        fun_name=program.name,
        in_tree=PyTreeDef(tree.flatten((infos, {}))[1]),
        in_avals=tuple(program.in_avals),
        out_tree=PyTreeDef(tree.flatten([0] * len(stored.out_avals))[1]),
        out_avals=stored.out_avals,
        platforms=(platform_named(get_backend().platform),),
        disabled_safety_checks=(),
        calling_convention_version=maximum_supported_calling_convention_version,
        module_kept_var_idx=stored.read,
        uses_global_constants=False,
        _function=stored.function,
        _get_vjp=None,
        _layouts=layouts,
    )
    said = {
        "donated": [info.donated for info in infos],
        "weak": [[aval.weak_type for aval in avals] for avals in (exported.in_avals, exported.out_avals)],
    }
    text = json.dumps(said).encode()
    blob = _HEAD.pack(_MAGIC, len(text)) + text + serialized(exported, 0)
    return blob, PyTreeDef(in_tree), compiled.out_tree


def deserialize_and_load(
    serialized: bytes,
    in_tree: PyTreeDef,
    out_tree: PyTreeDef,
    backend: str | Backend | None = None,
    execution_devices: Sequence[Device] | None = None,
) -> Compiled:
    """Return the compiled function that `serialize` made these bytes and structures of; no code in them is run.

    `execution_devices` says on which device it runs, by default where its arguments are. Raises `ValueError` for other
    bytes, for a platform that it was not compiled for, and for a device of another platform than `backend`.
    """
    platform = get_backend(backend)
    device = _device(platform, execution_devices)
    if serialized[: len(_MAGIC)] != _MAGIC:
        raise ValueError(
            "These bytes are no compiled function of jaxish: those of JAX hold XLA's code. Serialize it with jaxish."
        )
    length = _HEAD.unpack_from(serialized)[1]
    said = json.loads(serialized[_HEAD.size : _HEAD.size + length])
    exported = deserialize(serialized[_HEAD.size + length :])
    if platform_named(platform.platform) not in exported.platforms:
        raise ValueError(
            f"The function was compiled for {exported.platforms}, and is loaded for {platform.platform!r}."
        )
    in_avals, out_avals = (
        tuple(ShapedArray(a.shape, a.dtype, weak) for a, weak in zip(avals, flags, strict=True))
        for avals, flags in zip((exported.in_avals, exported.out_avals), said["weak"], strict=True)
    )
    return _compiled(
        dataclasses.replace(exported, out_avals=out_avals), in_avals, in_tree, out_tree, said["donated"], device
    )


def _compiled(
    exported: Exported,
    in_avals: Sequence[ShapedArray],
    in_tree: PyTreeDef,
    out_tree: PyTreeDef,
    donated: Sequence[bool],
    device: Device | None,
) -> Compiled:
    def computed(*args: Any, **kwargs: Any) -> Any:
        return out_tree.unflatten(exported._computed(*tree.flatten((args, kwargs))[0]))

    computed.__name__ = exported.fun_name
    args, kwargs = in_tree.unflatten([ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in in_avals])
    is_donated, named = in_tree.unflatten(donated)
    signature = Signature(
        static_argnums=(),
        static_argnames=frozenset(),
        donate_argnums=tuple(i for i, flags in enumerate(is_donated) if any(tree.flatten(flags)[0])),
        donate_argnames=frozenset(name for name, flags in named.items() if any(tree.flatten(flags)[0])),
    )
    jitted = PjitFunction(computed, signature, Placement(device=device))
    return jitted.lower(*args, **kwargs).compile()


def _device(backend: Backend, execution_devices: Sequence[Device] | None) -> Device | None:
    if execution_devices is None:
        return None
    if len(execution_devices) != 1:
        raise NotImplementedError(
            f"a stored function runs on one device, not on {len(execution_devices)}. Leave execution_devices out, and lay its "
            "results over devices under jax.jit(out_shardings=...)."
        )
    (device,) = execution_devices
    if device.platform != backend.platform:
        raise ValueError(
            "Execution devices belong to a client other than `backend`. Got backend client: "
            f"{backend.platform} and execution devices client: {device.platform}"
        )
    return device
