"""fwd_and_bwd: the forward and the backward pass of a function as two functions, each compiled once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .._core import dtypes, residuals, tree
from .._core.array import Array, as_array, from_kind, tensor_of, type_text
from .._core.avals import ShapedArray, aval_of
from .._core.graph import Graph, TensorType
from .._core.primitive import conjugate
from .._core.primitive import differentiable as is_differentiable
from .._core.tree import register_pytree_node
from .api_util import positions_within
from .autodiff import float0_zeros, parse_argnums
from .flat import as_argument, check_callable, differentiable
from .jit import jit
from .program import Call, trace_program


@dataclass(frozen=True, eq=False)
class _Backward:
    """A backward pass: its graph, and how its results become the arguments' cotangents."""

    graph: Graph
    out_spec: tree.Spec
    out_avals: tuple[ShapedArray, ...]  # of what it is given cotangents of
    others: tuple[TensorType, ...]  # auxiliary results, whose cotangents are zero
    specs: tuple[tree.Spec, ...]  # of the arguments that it gives cotangents of
    places: tuple[int | None, ...]  # which result is the cotangent of each of their leaves; None: it has none

    def seeds(self, out_ct: Any) -> list[Tensor]:
        """Return the cotangents as the graph takes them. Raises `ValueError` where they are not those of the results."""
        given, spec = tree.flatten(out_ct)
        if spec != self.out_spec:
            raise ValueError(
                "unexpected tree structure. The argument to a VJP function must match the pytree structure of the "
                f"results, {tree.PyTreeDef(self.out_spec)}, but got {tree.PyTreeDef(spec)}."
            )
        arrays = [(as_array(value), aval) for value, aval in zip(given, self.out_avals, strict=True) if _moves(aval)]
        for array, aval in arrays:
            if (array.shape, array.dtype) != (aval.shape, aval.dtype):
                raise ValueError(
                    "unexpected JAX type (e.g. shape/dtype) for argument to VJP function: got "
                    f"{type_text(array)}, but expected {type_text(aval)}."
                )
        zeros = (torch.zeros(t.shape, dtype=t.dtype, device=t.device) for t in self.others)
        return [*(conjugate(tensor_of(array)) for array, _ in arrays), *zeros]


def _moves(aval: ShapedArray) -> bool:
    return dtypes.is_inexact(aval.dtype)


class Residuals:
    """What a forward pass leaves to the backward pass: a pytree of arrays. Called with cotangents of the results it goes back."""

    def __init__(self, saved: Sequence[Any], leaves: Sequence[Any], backward: _Backward) -> None:
        self.saved, self.leaves, self.backward = list(saved), list(leaves), backward

    def __call__(self, out_ct: Any, /) -> tuple[Any, ...]:
        backward = self.backward
        found = Call(backward.graph)(*map(tensor_of, self.saved), *backward.seeds(out_ct))
        cotangents = iter(
            float0_zeros(leaf) if place is None else from_kind(conjugate(found[place]), leaf.kind)
            for leaf, place in zip(self.leaves, backward.places, strict=True)
        )
        return tuple(spec.unflatten([next(cotangents) for _ in range(spec.num_leaves)]) for spec in backward.specs)


def _parts(residuals: Residuals) -> tuple[tuple[Any, Any], _Backward]:
    return (residuals.saved, residuals.leaves), residuals.backward


register_pytree_node(Residuals, _parts, lambda backward, parts: Residuals(parts[0], parts[1], backward))


def fwd_and_bwd(
    fun: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool = False, jitted: bool = True
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the forward and the backward pass of `fun` for cotangents of the arguments at `argnums`.

    `fwd(*args)` gives `(fun(*args), residuals)`, with `has_aux` the auxiliary result third. `bwd(residuals, cotangents)`
    gives the arguments' cotangents. Both are jitted unless `jitted` is False: the backward pass is compiled once, where
    the function that `vjp` returns is another one at each call.
    """
    check_callable(fun)
    positions = parse_argnums(argnums)

    def fwd(*args: Any, **kwargs: Any) -> Any:
        answer, left = _forward(fun, args, kwargs, positions_within(positions, len(args)), has_aux)
        return (answer[0], left, answer[1]) if has_aux else (answer, left)

    def bwd(residuals: Residuals, outgrad: Any) -> Any:
        found = residuals(outgrad)
        return found[0] if isinstance(positions, int) else found

    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)


def _forward(
    fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], chosen: Sequence[int], has_aux: bool
) -> tuple[Any, Residuals]:
    leaves, spec = tree.flatten((args, kwargs))
    arrays = [as_argument(leaf, "fwd_and_bwd") for leaf in leaves]
    specs = [tree.flatten(a)[1] for a in args]
    starts = [sum(s.num_leaves for s in specs[:i]) for i in range(len(specs))]
    order = [i for p in chosen for i in range(starts[p], starts[p] + specs[p].num_leaves)]
    active = sorted(i for i in order if differentiable(arrays[i]))
    program = trace_program(fun, arrays, spec.unflatten, (), "fwd_and_bwd")
    tensors = [*program.closed.closure(), *map(tensor_of, arrays)]
    captured = len(tensors) - len(arrays)
    wanted = [i - captured in active for i in range(len(tensors))]
    forward, backward = residuals.split(program.closed.graph, wanted)
    results = Call(forward)(*tensors)
    count = len(program.out_kinds)
    out_spec = program.out_spec.children()[0] if has_aux else program.out_spec
    avals = tuple(map(aval_of, program.out_avals))
    others = tuple(t for t in program.closed.graph.out_types[out_spec.num_leaves :] if is_differentiable(t.dtype))
    places = tuple(active.index(i) if i in active else None for i in order)
    pull = _Backward(backward, out_spec, avals[: out_spec.num_leaves], others, tuple(specs[p] for p in chosen), places)
    saved = [Array(t) for t in (*tensors, *results[count:])]
    answer = program.out_spec.unflatten(map(from_kind, results[:count], program.out_kinds))
    return answer, Residuals(saved, [arrays[i] for i in order], pull)
