"""Exported functions as bytes: what the head of a file (`container.py`) says of a function. `loading.py` reads it."""

from typing import Any

import torch

from .._core import dtypes
from .._core.avals import ShapedArray
from .._random.generators import GENERATORS
from .._random.key_dtype import KeyDType
from . import container, layouts, structures
from .functions import StoredFunction
from .records import Tensors

_PLAIN = ("fun_name", "platforms", "calling_convention_version", "module_kept_var_idx", "uses_global_constants")


def serialized(exported: Any, vjp_order: int) -> bytearray:
    """Return an `Exported` as bytes, with so many levels of its derivative.

    Raises `ValueError` where these are not known, and for pytrees of classes that are not registered.
    """
    tensors = Tensors()
    head = _said(exported, vjp_order, tensors)
    scope = exported.equations.scope
    constraints = [] if scope is None else [c.text for c in scope.constraints]
    return container.packed({"torch": torch.__version__, "constraints": constraints, "function": head}, tensors.values)


def _said(exported: Any, vjp_order: int, tensors: Tensors) -> dict[str, Any]:
    if vjp_order > 0 and not exported.has_vjp():
        raise ValueError("serialization of an Exported that does not have vjps of high-enough order")
    own = exported._function
    cases = [
        {"guards": c.guards, "record": _renumbered(c.record, own, tensors),
         "captured": [tensors.number(own.tensors.values[n]) for n in c.captured]}
        for c in own.cases
    ]  # fmt: skip
    return {
        **{name: getattr(exported, name) for name in _PLAIN},
        "in_tree": structures.stored(exported.in_tree),
        "in_avals": [*map(_said_aval, exported.in_avals)],
        "out_tree": structures.stored(exported.out_tree),
        "out_avals": [*map(_said_aval, exported.out_avals)],
        "disabled_safety_checks": [*map(str, exported.disabled_safety_checks)],
        "cases": cases,
        "nr_devices": exported.nr_devices,
        "in_layouts": [*map(layouts.said, exported._layouts.inputs)],
        "out_layouts": [*map(layouts.said, exported._layouts.outputs)],
        "vjp": _said(exported.vjp(), vjp_order - 1, tensors) if vjp_order > 0 else None,
    }


def _renumbered(record: dict[str, Any], own: StoredFunction, tensors: Tensors) -> dict[str, Any]:
    """Return a record whose constants have the numbers of the file's tensors."""

    def node(name: str, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
        if name == "constant":
            return [name, [tensors.number(own.tensors.values[args[0]])], kwargs]
        if name in ("scan", "while", "cond"):
            args = [_renumbered(a, own, tensors) if isinstance(a, dict) and "nodes" in a else a for a in args]
        return [name, args, kwargs]

    return {**record, "nodes": [node(*n) for n in record["nodes"]]}


def _said_aval(aval: ShapedArray) -> dict[str, Any]:
    return {"shape": [n if isinstance(n, int) else str(n) for n in aval.shape], "dtype": _dtype_name(aval.dtype)}


def _dtype_name(dtype: Any) -> str:
    if not isinstance(dtype, KeyDType):
        return "float0" if dtype == dtypes.float0 else dtype.name
    if GENERATORS.get(dtype.impl.name) is not dtype.impl:
        raise ValueError(
            f"keys of the generator {dtype.impl.name!r}, which is not one of jax.random's, cannot be stored."
        )
    return f"key:{dtype.impl.name}"
