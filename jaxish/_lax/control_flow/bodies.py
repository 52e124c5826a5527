"""What loops and branches share: their functions traced to graphs, carries checked, values read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ..._core import dtypes, graph, levels, tree
from ..._core.array import Array, tensor_of, type_text
from ..._core.promotion import convert
from ..._core.refs import check_aliases, references
from ..._core.tree_differences import differences, listed
from ..._transforms.flat import argument_names, as_argument, described, name_of
from ..._transforms.program import Program, programs_of, trace_program, types_key


@dataclass
class Operands:
    """A pytree of arrays taken apart."""

    arrays: list[Array]
    spec: tree.Spec

    @staticmethod
    def of(values: Any, function: str) -> "Operands":
        """Flatten `values`. Raises `TypeError` for a leaf that is no array or scalar."""
        leaves, spec = tree.flatten(values)
        return Operands([as_argument(leaf, function) for leaf in leaves], spec)

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors, as the active trace sees them."""
        return [tensor_of(a) for a in self.arrays]


def trace_body(fun: Callable[..., Any], arrays: Sequence[Array], spec: tree.Spec, what: str) -> Program:
    """Trace `fun`, whose positional arguments are the tree of `arrays`; once per types, unless it captures a tracer."""
    names: Sequence[str] = ()
    if references(arrays):
        names = argument_names(fun, spec.unflatten(arrays), {})
        check_aliases(arrays, lambda: names, lambda: described(fun), what)
    programs, key = programs_of(fun, what), types_key(arrays, spec)
    found = programs.get(key)
    if found is None:
        found = trace_program(fun, arrays, lambda values: (spec.unflatten(values), {}), names, what)
        if not found.is_for_this_call_only:
            programs[key] = found
    return found


def carry_program(
    trace: Callable[[Sequence[Array]], Program],
    init: Operands,
    carry_spec: Callable[[Program], Any],
    what: str,
    body: Callable[..., Any],
) -> tuple[Program, Operands]:
    """Trace a loop body whose result carries on what it was given, and check that it does.

    Weakly typed initial values are promoted to the types that the body gives back, as in JAX.
    """
    program = trace(init.arrays)
    avals, spec = carry_spec(program)
    check_structure(init.spec, spec, what)
    promoted = [_promoted(a, out) for a, out in zip(init.arrays, avals, strict=True)]
    if any(p is not a for p, a in zip(promoted, init.arrays, strict=True)):
        init = Operands(promoted, init.spec)
        program = trace(init.arrays)
        avals, _ = carry_spec(program)
    check_types(init, avals, what, body)
    return program, init


def _promoted(value: Array, out: Any) -> Array:
    if not value.weak_type or value.dtype == out.dtype or isinstance(out.dtype, dtypes.ExtendedDType):
        return value
    dtype, _ = dtypes.promote((value.dtype, True), (out.dtype, out.weak_type))
    return value if dtype == value.dtype else Array(convert(tensor_of(value), dtypes.to_torch(dtype)))


def check_structure(given: tree.Spec, returned: tree.Spec, what: str) -> None:
    """Raise `TypeError` when a loop's carry comes back as another pytree."""
    if given == returned:
        return
    found = [
        f"the input carry {'component ' * bool(d.path)}c{d.path} is a {d.first} but the corresponding component of the "
        f"carry output is a {d.second}, so {d.reason}"
        for d in differences(given, returned)
    ]
    raise TypeError(
        f"{what} body function carry input and carry output must have the same pytree structure, but they differ:\n\n"
        f"{listed(found)}\n\nRevise the function so that the carry output has the same pytree structure as the carry input."
    )


def check_types(init: Operands, avals: Sequence[Any], what: str, body: Callable[..., Any]) -> None:
    """Raise `TypeError`, naming the leaf by its key path, when a loop's carry comes back with another type."""
    pairs = list(zip(init.arrays, avals, strict=True))
    if all(value.shape == out.shape and value.dtype == out.dtype for value, out in pairs):
        return
    # classes of users may look at what they are made of: they get the arrays, and only where there is something to say
    paths = [path for path, _ in tree.leaves_with_path(init.spec.unflatten(init.arrays))]
    for path, (value, out) in zip(paths, pairs, strict=True):
        if value.shape == out.shape and value.dtype == out.dtype:
            continue
        reason = "shapes" if value.shape != out.shape else "dtypes"
        raise TypeError(
            f"{what} body function carry input and carry output must have equal types, but they differ: the input carry "
            f"component c{tree.keystr(path)} of {name_of(body)} has type {type_text(value)} but the corresponding output "
            f"carry component has type {type_text(out)}, so the {reason} do not match. Revise the function so that all "
            "output types match the corresponding input types."
        )


def concrete(tensor: Tensor) -> Tensor | None:
    """Return the plain tensor with the value of `tensor` where there is one value: no trace, no vmap over it."""
    if graph.is_tracing() or levels.is_batched(tensor) or levels.is_fake(tensor):
        return None
    return levels.base_of(tensor)
