"""Arguments of exported functions, held against the types that they were exported for."""

from collections.abc import Mapping, Sequence
from typing import Any

from .._core import tree
from .._core.array import Array
from .._core.tree import PyTreeDef
from .._core.tree_differences import differences
from .solutions import Equations

_ROOTS = {"[0]": "args", "[1]": "kwargs"}


def place(path: str) -> str:
    """Return a path into the pair of arguments as users write it: `args[0]['w']`."""
    return f"{_ROOTS[path[:3]]}{path[3:]}" if path else "args and kwargs"


def places(in_tree: PyTreeDef) -> list[str]:
    """Return where each leaf of the arguments is."""
    paths = tree.leaves_with_path(tree.skeleton(in_tree._spec))
    return [place(tree.keystr(path)) for path, _ in paths]


def check_structure(name: str, in_tree: PyTreeDef, given: PyTreeDef) -> None:
    """Raise `ValueError` where the arguments of a call are another pytree than those of the export."""
    if given == in_tree:
        return
    found = [
        f"   - {place(d.path)} is a {d.first} in the invocation and a {d.second} when exported, so {d.reason}.\n"
        for d in differences(given._spec, in_tree._spec)
    ]
    raise ValueError(
        "The invocation args and kwargs must have the same pytree structure as when the function "
        f"'{name}' was exported, but they have the following structural differences:\n{''.join(found)}"
    )


def check_types(equations: Equations, arrays: Sequence[Array]) -> Mapping[str, Any]:
    """Return the sizes that the variables in the types of an export have for these arguments.

    Raises `ValueError` for an argument of another rank, dtype or size.
    """
    for name, aval, array in zip(equations.places, equations.avals, arrays, strict=True):
        expected = f"expected {aval.shape} and called with {array.shape}"
        if aval.ndim != array.ndim:
            raise ValueError(f"Rank mismatch for {name}: {expected}")
        if aval.dtype != array.dtype:
            raise ValueError(f"Dtype mismatch for {name}: expected {aval.dtype} and called with {array.dtype}")
        for position, (wanted, size) in enumerate(zip(aval.shape, array.shape, strict=True)):
            if isinstance(wanted, int) and wanted != size:
                raise ValueError(f"Shape mismatch for {name}.shape[{position}] (expected same constant): {expected}")
    return equations.solved([array.shape for array in arrays])
