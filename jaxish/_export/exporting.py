"""`export`: a jitted function, traced for given types, as an `Exported`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import fx

from .._compile.lowering import lowered
from .._core import dtypes, errors, tree
from .._core.array import Array, default_torch_device
from .._core.avals import ShapedArray, ShapeDtypeStruct
from .._core.primitive import Primitive, graphs_of
from .._core.target import STORED
from .._core.tree import PyTreeDef
from .._devices.constraint import Constrain, sharding_of
from .._lax.control_flow.platforms import for_platforms
from .._transforms.autodiff import vjp
from .._transforms.jit import Jitted, jit
from .._transforms.prepared_call import PreparedCall
from .._transforms.program import Program
from .checks import DisabledSafetyCheck, calling_convention_version
from .exported import Exported, default_export_platform
from .functions import Case, StoredFunction
from .records import Tensors, Writer

_LIBRARY = __name__.partition(".")[0]


def export(
    fun_jit: Any,
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[DisabledSafetyCheck] = (),
    _override_lowering_rules: Sequence[tuple[Any, Any]] | None = None,
) -> Callable[..., Exported]:
    """Return a function of arguments, arrays or `ShapeDtypeStruct`s, that gives `fun_jit` as an `Exported` for their types.

    `fun_jit` is what `jit` returns. `platforms` are those that the function may run on (`cpu`, `cuda`, `rocm`, `tpu`), by
    default the one that arrays are made on. Raises `ValueError` for functions that are not jitted; the function returned
    `NotImplementedError` for those that call the host (callbacks, `debug.print`), or lay arrays over several devices, and
    for `_override_lowering_rules`: there is no MLIR to override.
    """
    if getattr(fun_jit, "__module__", None) and fun_jit.__module__.partition(".")[0] == _LIBRARY:
        fun_jit = jit(fun_jit)  # jnp.sin is a jitted function in JAX
    if not isinstance(fun_jit, Jitted):
        raise ValueError(f"Function to be exported must be the result of `jit` but is: {fun_jit}")
    if _override_lowering_rules is not None:
        raise NotImplementedError("_override_lowering_rules are rules for MLIR, which there is none of here.")

    def do_export(*args_specs: Any, **kwargs_specs: Any) -> Exported:
        names = (default_export_platform(),) if platforms is None else tuple(platforms)
        return _exported(fun_jit, names, tuple(disabled_checks), args_specs, kwargs_specs)

    return do_export


def _exported(
    jitted: Jitted, platforms: tuple[str, ...], disabled: tuple[DisabledSafetyCheck, ...], args: Any, kwargs: Any
) -> Exported:
    version = calling_convention_version()
    dynamic = jitted._signature.split(args, kwargs).dynamic
    leaves, in_spec = tree.flatten(dynamic)
    for leaf in leaves:
        _refuse_several_devices(leaf.sharding if isinstance(leaf, ShapeDtypeStruct) else _sharding_of(leaf))
    call = jitted.prepared(args, kwargs)
    with for_platforms(platforms):
        program = jitted.traced_anew(call).pure("jax.export")
    if program.closed.captures_tracers:
        raise errors.UnexpectedTracerError(
            f"The function {program.name} closes over a value that a transformation around its export traces; make that value "
            "an argument of the function."
        )
    _refuse_devices_in(program.closed.graph.module)
    for kind in program.out_kinds:
        _refuse_several_devices(getattr(kind, "sharding", None))
    function, read = _stored(program)
    out_avals = tuple(ShapedArray(a.shape, a.dtype, a.weak_type) for a in program.out_avals)
    return Exported(
        fun_name=program.name,
        in_tree=PyTreeDef(in_spec),
        in_avals=program.in_avals,
        out_tree=PyTreeDef(program.out_spec),
        out_avals=out_avals,
        platforms=platforms,
        disabled_safety_checks=disabled,
        calling_convention_version=version,
        module_kept_var_idx=read,
        uses_global_constants=len(platforms) > 1,
        _function=function,
        _get_vjp=lambda exported: _exported_vjp(jitted, call, exported),
    )


def _stored(program: Program) -> tuple[StoredFunction, tuple[int, ...]]:
    """Return what a program computes as data, and the indices of the arguments that it reads."""
    closed = program.closed
    module = lowered(closed.graph, STORED)
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"][len(closed.captured) :]
    tensors, device = Tensors(), _device(program)
    record = Writer(tensors, device, _no_symbols).record(module)
    captured = [tensors.number(t) for t in closed.captured]
    read = tuple(i for i, node in enumerate(inputs) if node.users)
    return StoredFunction([Case((), record, captured)], tensors), read


def _no_symbols(size: torch.SymInt) -> Any:
    raise AssertionError(f"{size} in a graph for given sizes")


def _device(program: Program) -> torch.device:
    own = program.closed.graph.in_types[len(program.closed.captured) :]
    return own[0].device if own else default_torch_device()


def _exported_vjp(jitted: Jitted, call: PreparedCall, exported: Exported) -> Exported:
    """Return the exported function that pulls cotangents of the results back, traced with all rules of the original."""

    def primal(*leaves: Any) -> list[Any]:
        args, kwargs = call.rebuild(leaves)
        return tree.flatten(jitted(*args, **kwargs))[0]

    def fun_vjp_jax(*leaves_and_cotangents: Any) -> Any:
        count = len(exported.in_avals)
        _, pull = vjp(primal, *leaves_and_cotangents[:count])
        return pull(list(leaves_and_cotangents[count:]))

    specs = [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in exported.in_avals]
    cotangents = [ShapeDtypeStruct(a.shape, _tangent_dtype(a.dtype), weak_type=a.weak_type) for a in exported.out_avals]
    checks = tuple(exported.disabled_safety_checks)
    return _exported(jit(fun_vjp_jax), exported.platforms, checks, (*specs, *cotangents), {})


def _tangent_dtype(dtype: Any) -> Any:
    return dtype if isinstance(dtype, np.dtype) and dtypes.is_inexact(dtype) else dtypes.float0


# ----------------------------------------------------------------------------------------------------- several devices


def _sharding_of(leaf: Any) -> Any:
    return sharding_of(leaf) if isinstance(leaf, Array) else None


def _refuse_several_devices(sharding: Any) -> None:
    if sharding is not None and sharding.num_devices > 1:
        raise NotImplementedError(
            "export of a function over several devices is not supported. Export it without shardings, and call it under "
            "jax.jit(exported.call, in_shardings=..., out_shardings=...)."
        )


def _refuse_devices_in(module: fx.GraphModule) -> None:
    for node in module.graph.nodes:
        if isinstance(node.target, Constrain):
            _refuse_several_devices(node.target.sharding)
        if isinstance(node.target, Primitive):
            for inner in graphs_of(node.target):
                _refuse_devices_in(inner.module)
