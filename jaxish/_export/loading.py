"""Bytes as exported functions: `deserialize`. What a file says is looked up by name, and checked, before it is used."""

from typing import Any

from .._core import dtypes
from .._core.avals import ShapedArray
from .._random.keys import key_dtype
from . import container, layouts, structures
from .checks import DisabledSafetyCheck
from .exported import Exported
from .functions import Case, StoredFunction
from .parsing import Parser
from .records import Tensors, operators_in
from .replay import operator_named
from .scopes import SymbolicScope


def deserialize(blob: bytearray | bytes | memoryview) -> Exported:
    """Return the exported function that `Exported.serialize` made these bytes of; no code in them is run.

    Raises `ValueError` for other bytes, for damaged ones, for those of a later version of jaxish or of another torch whose
    operators this one has not, and for classes in pytrees that are not registered.
    """
    head, tensors = container.unpacked(blob)
    numbered = Tensors()
    for tensor in tensors:
        numbered.number(tensor)
    try:
        return _exported(head["function"], numbered, SymbolicScope(head["constraints"]))
    except (KeyError, TypeError, IndexError, AttributeError, StopIteration) as error:
        raise ValueError(f"These bytes say no exported function: {type(error).__name__}: {error}") from error


def _exported(said: dict[str, Any], tensors: Tensors, scope: SymbolicScope) -> Exported:
    cases = [Case(c["guards"], c["record"], c["captured"]) for c in said["cases"]]
    for name in operators_in([c.record for c in cases]):
        operator_named(name)
    in_avals, out_avals = (tuple(_aval(a, scope) for a in said[name]) for name in ("in_avals", "out_avals"))
    vjp = None if said["vjp"] is None else _exported(said["vjp"], tensors, scope)
    return Exported(
        fun_name=said["fun_name"],
        in_tree=structures.loaded(said["in_tree"], in_avals),
        in_avals=in_avals,
        out_tree=structures.loaded(said["out_tree"], out_avals),
        out_avals=out_avals,
        platforms=tuple(said["platforms"]),
        disabled_safety_checks=tuple(map(DisabledSafetyCheck, said["disabled_safety_checks"])),
        calling_convention_version=said["calling_convention_version"],
        module_kept_var_idx=tuple(said["module_kept_var_idx"]),
        uses_global_constants=said["uses_global_constants"],
        _function=StoredFunction(cases, tensors),
        _get_vjp=None if vjp is None else lambda _: vjp,
        _layouts=_layouts(said),
    )


def _layouts(said: dict[str, Any]) -> layouts.Layouts:
    if "nr_devices" not in said:  # written before functions over several devices were exported
        return layouts.Layouts((None,) * len(said["in_avals"]), (None,) * len(said["out_avals"]))
    given, wanted = (tuple(map(layouts.read, said[name])) for name in ("in_layouts", "out_layouts"))
    return layouts.Layouts(given, wanted, said["nr_devices"])


def _aval(said: dict[str, Any], scope: SymbolicScope) -> ShapedArray:
    kind, _, generator = said["dtype"].partition(":")
    named = {"float0": lambda: dtypes.float0, "key": lambda: key_dtype(generator)}
    shape = [n if isinstance(n, int) else Parser(n, repr(n), scope).shape()[0] for n in said["shape"]]
    return ShapedArray(shape, named.get(kind, lambda: dtypes.dtype_of(kind))())
