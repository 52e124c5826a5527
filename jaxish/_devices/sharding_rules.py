"""JAX's sharding rules, for torch's operators: how a result lies over a mesh, by how operands do.

Where two operands disagree about an axis that types tell of (an explicit one), that is an error; about others (the
compiler's), the first one has its way. What has no rule keeps what leading dimensions it has in common with its first
operand that lies over devices.
"""

import math
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .._core import dtypes, operators
from .._core.avals import ShapedArray
from .._core.errors import ShardingTypeError
from .._core.operators import Kind, aten
from . import partition, processes
from .meshes import get_abstract_mesh
from .shardings import NamedSharding, PartitionSpec, Sharding, names_in

Names = tuple[Hashable, ...]  # the mesh axes that split a dimension
Parts = list[Names]


class _Choosing(threading.local):
    depth = 0


_choosing = _Choosing()


def choosing_now() -> bool:
    """Tell whether the program says afterwards how results are to lie."""
    return _choosing.depth > 0


@contextmanager
def choosing() -> Iterator[None]:
    """Within this context manager no axis is an explicit one: the program says afterwards how results are to lie."""
    _choosing.depth += 1
    try:
        yield
    finally:
        _choosing.depth -= 1


@dataclass(frozen=True)
class Operand:
    """What stands for a tensor in a graph that is finished."""

    shape: Sequence[int]
    dtype: torch.dtype
    laid: Sharding | None


# ------------------------------------------------------------------------------------------------------------- one call


class Call:
    """An operator and its operands, of which at least one lies over a mesh."""

    def __init__(
        self, target: Any, args: Sequence[Any], kwargs: dict[str, Any], operands: Sequence[Any], first: NamedSharding
    ) -> None:
        self.target, self.args, self.kwargs, self.operands, self.like = target, args, kwargs, operands, first
        self.mesh = first.mesh
        in_force = get_abstract_mesh()  # which may say other types of the axes
        typed = in_force if in_force.shape_tuple == self.mesh.shape_tuple else self.mesh
        self.tells = bool(typed.explicit_axes)
        self.explicit = frozenset() if choosing_now() else frozenset(typed.explicit_axes)
        self.has_sums = any(_axes(o, "unreduced") or _axes(o, "reduced") for o in operands)
        row = operators.of(target)
        self.kind, self.jax_name, self.is_elementwise = row.kind, row.jax_name, row.is_elementwise

    def parts(self, operand: Any) -> Parts:
        """Return what splits each dimension of an operand."""
        sharding, rank = getattr(operand, "laid", None), len(operand.shape)
        if not isinstance(sharding, NamedSharding) or sharding.mesh.shape_tuple != self.mesh.shape_tuple:
            return [()] * rank
        return [*map(names_in, sharding.spec), *[()] * (rank - len(sharding.spec))][:rank]

    def placed(self, result: Any) -> Sharding | None:
        """Return how a result lies."""
        shape = tuple(result.shape)
        parts = self._found(result, shape)
        if parts is None or len(parts) != len(shape):  # a mask among indices, for one, is not what the rule is about
            if processes.are_several():  # by torch's rules for DTensors, which are its own
                return None
            parts = self._in_common(shape)
        used: set[Hashable] = set()
        for dim, names in enumerate(parts):
            if used & set(names) and self.explicit & set(names):
                raise ShardingTypeError(self._illegal(result, parts))
            if used & set(names) or shape[dim] % self.count(names):
                parts[dim] = ()
            used |= set(parts[dim])
        spec = _spec(parts, self.tells)
        if self.has_sums:
            unreduced, reduced = self._sums()
            taken = {name for names in parts for name in names}
            spec = spec.update(unreduced=unreduced - taken, reduced=reduced - taken)
        return self.like.update(spec=spec)

    def _sums(self) -> tuple[frozenset[Hashable], frozenset[Hashable]]:
        """Return the axes over which a result is a sum that is left unreduced, and those over which its cotangent is one.

        Raises `NotImplementedError` for what is not linear in such a sum, `ShardingTypeError` where operands disagree.
        """
        given = [o for o in self.operands if len(o.shape) or getattr(o, "laid", None) is not None]
        sums, same = ([_axes(o, kind) for o in given] for kind in ("unreduced", "reduced"))
        if self.jax_name in _OF_SHAPES:
            return frozenset(), frozenset()
        unreduced: frozenset[Hashable] = frozenset().union(*sums)
        is_linear = len(given) == 1 and (self.kind in _LINEAR or self.jax_name in _LINEAR_NAMES)
        reduced = same[0] if (self.is_elementwise or is_linear) and len(set(same)) == 1 else frozenset()
        if not unreduced or choosing_now():
            return unreduced, reduced
        if self.jax_name in ("add", "sub") and len(given) > 1:
            self._check_terms(sums)
        elif self.jax_name == "mul" and len(given) > 1:
            if any(s | r != unreduced or (s and r) for s, r in zip(sums, same, strict=True)):
                raise ShardingTypeError(
                    "one operand of mul should be reduced along the same axes the other is unreduced on. Got unreduced: "
                    f"{[*map(set, sums)]} and reduced: {[*map(set, same)]}"
                )
        elif not is_linear:
            raise NotImplementedError(
                f"unreduced rule for {self.jax_name} is not implemented. Reduce it by jax.reshard."
            )
        return unreduced, frozenset()

    def _check_terms(self, sums: Sequence[frozenset[Hashable]]) -> None:
        left, right = sums[:2]
        if left and right and left != right:
            raise ShardingTypeError(
                f"lhs and rhs to `{self.jax_name}` must be unreduced along the same mesh axes. Got lhs={left}, rhs={right}"
            )
        if bool(left) != bool(right):
            one, other = ("lhs", "rhs") if left else ("rhs", "lhs")
            raise ShardingTypeError(
                f"{one} is unreduced while {other} is not. `{self.jax_name}` operation does not allow this because there "
                f"will be implicit communication. Please reduce {one} via `reshard` before calling `{self.jax_name}`."
            )

    def _found(self, result: Any, shape: tuple[int, ...]) -> Parts | None:
        if self.is_elementwise or getattr(self.target, "is_laid_out_alike", False):
            return self.merged(self.operands, shape)
        names = (self.target, getattr(self.target, "overloadpacket", None), self.kind, self.jax_name)
        rule = next((_RULES[name] for name in names if name in _RULES), None)
        if rule is not None:
            return rule(self, shape)
        return _reduced(self, shape) if "keepdim" in _arguments(self.target) else None

    def _in_common(self, shape: tuple[int, ...]) -> Parts:
        laid = [o for o in self.operands if getattr(o, "laid", None) is not None]
        like = next((o for o in laid if tuple(o.shape) == shape), laid[0])
        parts: Parts = [()] * len(shape)
        for dim, (size, own, names) in enumerate(zip(like.shape, shape, self.parts(like), strict=False)):
            if size != own:
                break
            parts[dim] = names
        return parts

    def merged(self, operands: Sequence[Any], shape: tuple[int, ...]) -> Parts:
        """Return what splits a result made element by element: per dimension what splits the operands."""
        found: Parts = [()] * len(shape)
        for operand in operands:
            offset = len(shape) - len(operand.shape)
            for dim, names in enumerate(self.parts(operand)):
                if offset + dim < 0 or not names or operand.shape[dim] != shape[offset + dim]:
                    continue
                now = found[offset + dim]
                if now and now != names and self.explicit & {*now, *names}:
                    specs = ", ".join(str((*_spec(self.parts(o), True),)) for o in operands if len(o.shape))
                    raise ShardingTypeError(f"{self.jax_name} got incompatible shardings for broadcasting: {specs}.")
                if not now and (self.explicit & set(names) or not any(set(names) & set(f) for f in found)):
                    found[offset + dim] = names
        return found

    def count(self, names: Names) -> int:
        """Return into how many parts these axes split."""
        return math.prod(self.mesh.shape[name] for name in names)

    def argument(self, name: str, default: Any = None) -> Any:
        """Return an argument of torch's operator by its name."""
        position = _arguments(self.target).get(name)
        if position is not None and position < len(self.args):
            return self.args[position]
        return self.kwargs.get(name, default)

    def _illegal(self, result: Any, parts: Parts) -> str:
        inputs = ", ".join(_short(o, self.parts(o)) for o in self.operands)
        return f"{self.jax_name} operation with inputs: {inputs} produces an illegally sharded result: {_short(result, parts)}"


_LINEAR = {Kind.RESHAPE, Kind.PERMUTE, Kind.VIEW}
_LINEAR_NAMES = {"neg", "reduce_sum", "convert_element_type", "copy", "real", "imag", "name"}
_OF_SHAPES = {"zeros", "ones", "full", "empty"}  # what is made like an operand, whatever its values


def _axes(operand: Any, kind: str) -> frozenset[Hashable]:
    """Return the axes over which an operand is `unreduced`, or `reduced`."""
    sharding = getattr(operand, "laid", None)
    return getattr(sharding.spec, kind) if isinstance(sharding, NamedSharding) else frozenset()


def _spec(parts: Parts, whole: bool) -> PartitionSpec:
    found = [names[0] if len(names) == 1 else names or None for names in parts]
    return PartitionSpec(*found) if whole else PartitionSpec(*found).trimmed()


def _short(operand: Any, parts: Parts) -> str:
    sizes = (
        f"{n}@{names[0] if len(names) == 1 else names}" if names else f"{n}" for n, names in zip(operand.shape, parts)
    )
    text = ShapedArray((), dtypes.TO_NUMPY[operand.dtype]).str_short(short_dtypes=True)
    return f"{text[: text.index('[')]}[{','.join(sizes)}]"


_positions: dict[Any, dict[str, int]] = {}


def _arguments(target: Any) -> dict[str, int]:
    """Return the positions of the arguments of torch's operator by name; of a primitive none."""
    found = _positions.get(target)
    if found is None:
        schema = getattr(target, "_schema", None)
        found = {} if schema is None else {a.name: i for i, a in enumerate(schema.arguments)}
        _positions[target if schema is not None else type(target)] = found
    return found


# --------------------------------------------------------------------------------------------------------------- rules


def _permuted(call: Call, shape: tuple[int, ...]) -> Parts:
    parts = call.parts(call.args[0])
    return [parts[d] for d in partition.order_of(call.target, call.args, len(shape))]


def _reshaped(call: Call, shape: tuple[int, ...]) -> Parts:
    source = call.args[0]
    old = [(size, names) for size, names in zip(source.shape, call.parts(source), strict=True) if size != 1]
    if not any(names for _, names in old):
        return [()] * len(shape)
    found: Parts = [()] * len(shape)
    new = [dim for dim, size in enumerate(shape) if size != 1]
    while old and new:
        merged, split = [old.pop(0)], [new.pop(0)]
        while (before := math.prod(size for size, _ in merged)) != (after := math.prod(shape[d] for d in split)):
            rest = old if before < after else new
            if not rest:
                return found
            (merged if before < after else split).append(rest.pop(0))  # pyright: ignore
        if len(merged) == 1 or len(split) == 1:
            for dim, names in zip(split, _spread(call, merged, [shape[d] for d in split]), strict=True):
                found[dim] = names
    return found


def _spread(call: Call, merged: Sequence[tuple[int, Names]], sizes: Sequence[int]) -> Parts:
    """Return what splits each of these sizes, of which one dimension is made, or which are made of one."""
    names: list[Hashable] = []
    for _, own in merged:
        if not own:
            break
        names += own
    found: Parts = []
    for size in sizes:
        taken: list[Hashable] = []
        while names and size % call.mesh.shape[names[0]] == 0 and size > 1:
            size //= call.mesh.shape[names[0]]
            taken.append(names.pop(0))
        found.append(tuple(taken))
        if size > 1 and names:  # the rest does not begin within this dimension
            return [*found, *[()] * (len(sizes) - len(found))]
    return found


def _expanded(call: Call, shape: tuple[int, ...]) -> Parts:
    source = call.args[0]
    offset = len(shape) - len(source.shape)
    pairs = zip(call.parts(source), source.shape, shape[offset:], strict=True)
    return [*[()] * offset, *(names if old == new else () for names, old, new in pairs)]


def _sliced(call: Call, shape: tuple[int, ...]) -> Parts:
    source = call.args[0]
    pairs = zip(call.parts(source), source.shape, shape, strict=True)
    return [names if new == old or call.explicit & set(names) else () for names, old, new in pairs]


def _selected(call: Call, shape: tuple[int, ...]) -> Parts:
    parts = call.parts(call.args[0])
    del parts[call.argument("dim", 0) % len(parts)]
    return parts


def _reduced(call: Call, shape: tuple[int, ...]) -> Parts:
    source = call.args[0]
    rank, parts = len(source.shape), call.parts(source)
    given = call.argument("dim")
    if given is None or not rank:
        return [()] * len(shape)
    dims = {d % rank for d in (given if isinstance(given, list | tuple) else [given])} or set(range(rank))
    if len(shape) == rank:
        return [() if d in dims else names for d, names in enumerate(parts)]
    return [names for d, names in enumerate(parts) if d not in dims]


def _product(call: Call, shape: tuple[int, ...]) -> Parts:
    tensors = [a for a in call.args if isinstance(a, Tensor | Operand)]
    *added, left, right = tensors
    rows, columns = call.parts(left), call.parts(right)
    summed = rows.pop(), columns.pop(-2 if len(columns) > 1 else -1)
    if call.explicit & {*summed[0], *summed[1]} and all(summed):
        _refuse_contraction(*(_spec([names], True)[0] for names in summed))
    batch = [a or b for a, b in zip(rows[: len(shape) - 2], columns[: len(shape) - 2], strict=False)]
    found = [*batch, *rows[len(batch) :], *columns[len(batch) :]]
    used = {name for names in found for name in names}
    for operand in added:
        for dim, names in enumerate(call.parts(operand), len(shape) - len(operand.shape)):
            if names and not found[dim] and not used & set(names) and operand.shape[dim - len(shape)] == shape[dim]:
                found[dim] = names
    return found


def _refuse_contraction(left: Any, right: Any) -> None:
    if left != right:
        raise ShardingTypeError(
            f"dot_general requires contracting dimensions to have consistent sharding, got {(left,)} and {(right,)}."
        )
    raise ShardingTypeError(
        "Contracting dimensions are sharded and it is ambiguous how the output should be sharded. Please specify the "
        f"output sharding via the `out_sharding` parameter. Got lhs_contracting_spec={(left,)} and "
        f"rhs_contracting_spec={(right,)}"
    )


def _convolved(call: Call, shape: tuple[int, ...]) -> Parts:
    batch, features = call.parts(call.args[0])[0], call.parts(call.args[1])[0]
    return [batch, features, *[()] * (len(shape) - 2)]


def _joined(call: Call, shape: tuple[int, ...]) -> Parts:
    dim = call.argument("dim", 0) % len(shape)
    given = [o for o in call.operands if len(o.shape) == len(shape)]
    whole = [call.parts(o)[dim] for o in given]
    found: Parts = [()] * len(shape)
    for operand in given:
        for d, names in enumerate(call.parts(operand)):
            if d != dim and not found[d] and not any(set(names) & set(f) for f in found):
                found[d] = names
    if all(names == whole[0] for names in whole) and shape[dim] % call.count(whole[0]) == 0:
        found[dim] = whole[0]
    return found


def _stacked(call: Call, shape: tuple[int, ...]) -> Parts:
    dim = call.argument("dim", 0) % len(shape)
    found = call.merged(call.operands, shape[:dim] + shape[dim + 1 :])
    return [*found[:dim], (), *found[dim:]]


def _indexed(call: Call, shape: tuple[int, ...]) -> Parts | None:
    """The rule of `x[..., index, ...]` with tensors of indices side by side."""
    source, indices = call.args
    places = [d for d, index in enumerate(indices) if index is not None]
    if places != list(range(places[0], places[0] + len(places))):
        return None
    given = [indices[d] for d in places]
    rank = max(len(index.shape) for index in given)
    parts = call.parts(source)
    inner = call.merged(given, shape[places[0] : places[0] + rank])
    taken = {name for names in inner for name in names}
    rest = [() if taken & set(names) else names for names in parts]
    return [*rest[: places[0]], *inner, *rest[places[-1] + 1 :]]


def _gathered(call: Call, shape: tuple[int, ...]) -> Parts:
    source, dim, index = call.args[:3]
    parts = call.parts(index)
    if any(parts):
        return parts
    parts = call.parts(source)
    return [() if d == dim % len(shape) or source.shape[d] != size else parts[d] for d, size in enumerate(shape)]


_RULES: dict[Any, Callable[[Call, tuple[int, ...]], Parts | None]] = {
    Kind.PERMUTE: _permuted,
    Kind.RESHAPE: _reshaped,
    Kind.REDUCTION: _reduced,
    Kind.PRODUCT: _product,
    aten.view.dtype: lambda call, shape: call.merged(call.args[:1], shape),
    aten.expand: _expanded,
    aten.slice: _sliced,
    aten.index_select: _sliced,  # of what lies side by side: a slice that begins where the program computes
    "slices_at": _sliced,
    aten.split: _sliced,
    aten.split_with_sizes: _sliced,
    aten.stack: _stacked,
    aten.select: _selected,
    aten.unbind: _selected,
    aten.convolution: _convolved,
    aten.cat: _joined,
    aten.index: _indexed,
    aten.gather: _gathered,
}  # fmt: skip
