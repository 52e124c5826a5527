"""`export`: a jitted function, traced for given types, as an `Exported`."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._core import dtypes, tree
from .._core.array import Array
from .._core.avals import ShapeDtypeStruct
from .._core.tree import PyTreeDef
from .._devices.constraint import sharding_given
from .._lax.control_flow.platforms import for_platforms
from .._transforms.autodiff import vjp
from .._transforms.jit import PjitFunction, jit
from .._transforms.prepared_call import PreparedCall
from .checks import DisabledSafetyCheck, calling_convention_version
from .exported import Exported, default_export_platform
from .layouts import Layouts, layouts_of
from .tracing import equations_of, traced_cases, without_symbols

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
    `NotImplementedError` for those that call the host (callbacks, `debug.print`), and for `_override_lowering_rules`: there is
    no MLIR to override. A function of arrays over several devices is for as many, which a call's arguments tell.
    """
    if getattr(fun_jit, "__module__", None) and fun_jit.__module__.partition(".")[0] == _LIBRARY:
        fun_jit = jit(fun_jit)  # jnp.sin is a jitted function in JAX
    if not isinstance(fun_jit, PjitFunction):
        raise ValueError(f"Function to be exported must be the result of `jit` but is: {fun_jit}")
    if _override_lowering_rules is not None:
        raise NotImplementedError("_override_lowering_rules are rules for MLIR, which there is none of here.")

    def do_export(*args_specs: Any, **kwargs_specs: Any) -> Exported:
        names = (default_export_platform(),) if platforms is None else tuple(platforms)
        return _exported(fun_jit, names, tuple(disabled_checks), args_specs, kwargs_specs)

    return do_export


def _exported(
    jitted: PjitFunction, platforms: tuple[str, ...], disabled: tuple[DisabledSafetyCheck, ...], args: Any, kwargs: Any
) -> Exported:
    version = calling_convention_version()
    leaves, in_spec = tree.flatten(jitted._signature.split(args, kwargs).dynamic)
    call = jitted.prepared(*without_symbols(args, kwargs))
    equations = equations_of(leaves, PyTreeDef(in_spec), call)
    with for_platforms(platforms):
        traced = traced_cases(jitted, call, equations)
    first = traced.first
    given = [_sharding_of(leaf) or sharding_given(array) for leaf, array in zip(leaves, call.arrays, strict=True)]
    return Exported(
        fun_name=first.name,
        in_tree=PyTreeDef(in_spec),
        in_avals=tuple(equations.avals),
        out_tree=PyTreeDef(first.out_spec),
        out_avals=traced.out_avals,
        platforms=platforms,
        disabled_safety_checks=disabled,
        calling_convention_version=version,
        module_kept_var_idx=traced.read,
        uses_global_constants=len(platforms) > 1 or equations.scope is not None,
        _function=traced.function,
        _layouts=layouts_of(given, first),
        _get_vjp=lambda exported: _exported_vjp(jitted, call, exported),
    )


def _exported_vjp(jitted: PjitFunction, call: PreparedCall, exported: Exported) -> Exported:
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
    found = _exported(jit(fun_vjp_jax), exported.platforms, checks, (*specs, *cotangents), {})
    own = exported._layouts
    return replace(found, _layouts=Layouts((*own.inputs, *own.outputs), own.inputs, own.nr_devices))


def _tangent_dtype(dtype: Any) -> Any:
    return dtype if isinstance(dtype, np.dtype) and dtypes.is_inexact(dtype) else dtypes.float0


def _sharding_of(leaf: Any) -> Any:
    return sharding_given(leaf) if isinstance(leaf, Array) else getattr(leaf, "sharding", None)
