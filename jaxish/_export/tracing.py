"""PjitFunction functions traced for export: for the types given, or for all sizes that these allow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from .._compile.lowering import lowered
from .._core import errors, tree
from .._core.array import Array, default_torch_device, from_kind
from .._core.avals import ShapedArray, ShapeDtypeStruct
from .._core.symbolic_sizes import blank
from .._core.target import STORED
from .._transforms.flat import kind_of_type
from .._transforms.jit import PjitFunction
from .._transforms.prepared_call import PreparedCall
from .._transforms.program import Program
from . import sizes
from .dimensions import SymbolicDimension, extremum, is_symbolic_dim, variable
from .functions import Case, StoredFunction
from .records import Tensors, Writer
from .solutions import Equations
from .symbols import Symbols, cases_of


@dataclass(frozen=True)
class TracedFunction:
    """A function as data, the first program that was traced, its results' types, and which arguments it reads."""

    function: StoredFunction
    first: Program
    out_avals: tuple[ShapedArray, ...]
    read: tuple[int, ...]


@dataclass(frozen=True)
class _Example:
    """What was traced for one example of the sizes: shapes of results are formulas."""

    program: Program
    case: Case
    out_shapes: Sequence[Sequence[Any]]
    read: tuple[int, ...]


def without_symbols(args: Any, kwargs: Any) -> Any:
    """Return arguments with types of some numbers in the place of those with symbolic sizes."""

    def plain(leaf: Any) -> Any:
        if not any(map(is_symbolic_dim, getattr(leaf, "shape", ()))):
            return leaf
        shape = [1 if is_symbolic_dim(n) else n for n in leaf.shape]
        return ShapeDtypeStruct(shape, leaf.dtype, weak_type=getattr(leaf, "weak_type", False))

    leaves, spec = tree.flatten((args, kwargs))
    return spec.unflatten(map(plain, leaves))


def traced_cases(jitted: PjitFunction, call: PreparedCall, equations: Equations) -> TracedFunction:
    """Return a jitted function traced for the types that `equations` have, as data.

    Raises `ValueError` where sizes cannot be found from arguments, `InconclusiveDimensionOperation` where the function cannot
    be traced for all sizes.
    """
    tensors, scope = Tensors(), equations.scope
    names = sorted({name for _, name in equations.steps if name})
    if scope is None:
        found = _traced(jitted, call, tensors, _no_symbols)
        examples, values = [found], {}
    else:
        traced = cases_of(names, scope, lambda symbols: _traced_symbolic(jitted, call, equations, tensors, symbols))
        examples = [replace(t.made, case=replace(t.made.case, guards=t.guards, example=t.example)) for t in traced]
        values = {name: variable(name, scope) for name in names}
    first = examples[0]
    out_avals = tuple(
        ShapedArray([_dimension(n, values, scope) for n in shape], aval.dtype, aval.weak_type)
        for shape, aval in zip(first.out_shapes, first.program.out_avals, strict=True)
    )
    for example in examples[1:]:
        _check_shapes(example, out_avals)
    read = tuple(sorted({i for example in examples for i in example.read}))
    return TracedFunction(StoredFunction([e.case for e in examples], tensors), first.program, out_avals, read)


def stored_program(program: Program) -> TracedFunction:
    """Return what was traced for given types as data. Raises `NotImplementedError` for what calls the host."""
    tensors = Tensors()
    stored = _stored(program, tensors, _no_symbols)
    out_avals = tuple(ShapedArray(a.shape, a.dtype, a.weak_type) for a in program.out_avals)
    return TracedFunction(StoredFunction([stored.case], tensors), program, out_avals, stored.read)


def _no_symbols(size: Any) -> Any:
    raise AssertionError(f"{size} in a graph for given sizes")


def _traced_symbolic(
    jitted: PjitFunction, call: PreparedCall, equations: Equations, tensors: Tensors, symbols: Symbols
) -> _Example:
    def array(aval: ShapedArray, given: Array) -> Array:
        if not any(map(is_symbolic_dim, aval.shape)):
            return given
        words = given._tensor.shape[given.ndim :]  # of keys
        shape = [n.evaluate(symbols.values) if isinstance(n, SymbolicDimension) else n for n in aval.shape]
        tensor = blank([*shape, *words], given._tensor.dtype, given._tensor.device)
        return from_kind(tensor, given.kind) if given.kind is not kind_of_type(aval) else Array(tensor, given._weak)

    arrays = [array(aval, given) for aval, given in zip(equations.avals, call.arrays, strict=True)]
    return _traced(jitted, replace(call, arrays=arrays), tensors, symbols.formula)


def _traced(jitted: PjitFunction, call: PreparedCall, tensors: Tensors, formula: Any) -> _Example:
    return _stored(jitted.traced_anew(call).pure("jax.export"), tensors, formula)


def _stored(program: Program, tensors: Tensors, formula: Any) -> _Example:
    closed = program.closed
    if closed.captures_tracers:
        raise errors.UnexpectedTracerError(
            f"The function {program.name} closes over a value that a transformation around its export traces; make that value "
            "an argument of the function."
        )
    module = lowered(closed.graph, STORED)
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"][len(closed.captured) :]
    record = Writer(tensors, _device(program), formula).record(module)
    captured = [tensors.number(t) for t in closed.captured]
    shapes = [[n if type(n) is int else formula(n) for n in aval.shape] for aval in program.out_avals]
    return _Example(program, Case((), record, captured), shapes, tuple(i for i, n in enumerate(inputs) if n.users))


def _device(program: Program) -> torch.device:
    own = program.closed.graph.in_types[len(program.closed.captured) :]
    return own[0].device if own else default_torch_device()


def _dimension(formula: Any, values: Mapping[str, Any], scope: Any) -> Any:
    larger, smaller = (lambda x, y, name=name: extremum(name, x, y, scope) for name in ("max", "min"))
    return sizes.evaluate(formula, values, larger, smaller)


def _check_shapes(example: _Example, out_avals: Sequence[ShapedArray]) -> None:
    """Raise `InconclusiveDimensionOperation` where the results of a case have other shapes than those of the first."""
    known = example.case.example
    for shape, aval in zip(example.out_shapes, out_avals, strict=True):
        for formula, dimension in zip(shape, aval.shape, strict=True):
            expected = dimension.evaluate(known) if isinstance(dimension, SymbolicDimension) else dimension
            found = sizes.evaluate(formula, known)
            if found != expected:
                sizes_said = ", ".join(f"{name} = {value}" for name, value in known.items())
                raise errors.InconclusiveDimensionOperation(
                    f"a result of {example.program.name} has the size {dimension} at some sizes of its arguments, and {found} for "
                    f"{sizes_said}. Give symbolic_shape constraints that tell them apart, or use jax.core.max_dim and min_dim."
                )
