"""Jitted functions traced for the types given, or for all sizes that these allow: for export, and for `eval_shape`."""

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
from .._core.tree import PyTreeDef
from .._transforms import jit
from .._transforms.flat import kind_of_type
from .._transforms.jit import PjitFunction
from .._transforms.prepared_call import PreparedCall
from .._transforms.program import Program
from . import sizes
from .arguments import places
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
    out_shapes: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class _StoredExample(_Example):
    """The same as data, and which arguments it reads."""

    case: Case
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


def equations_of(leaves: Sequence[Any], in_tree: PyTreeDef, call: PreparedCall) -> Equations:
    """Return what the shapes of arguments say of sizes, for a call that was prepared without symbols."""
    avals = tuple(
        ShapedArray(getattr(leaf, "shape", a.shape), a.dtype, a.weak_type)
        for leaf, a in zip(leaves, call.arrays, strict=True)
    )
    return Equations(avals, places(in_tree))


def types_for_all_sizes(jitted: PjitFunction, args: Any, kwargs: Any) -> Any:
    """Return the types of a jitted function's results, as `ShapeDtypeStruct`s, for arguments with symbolic sizes.

    Raises `InconclusiveDimensionOperation` where the function cannot be traced for all sizes.
    """
    leaves, in_spec = tree.flatten(jitted._signature.split(args, kwargs).dynamic)
    call = jitted.prepared(*without_symbols(args, kwargs))
    equations = equations_of(leaves, PyTreeDef(in_spec), call)
    assert equations.scope is not None
    traced = cases_of(
        equations.variables,
        equations.scope,
        lambda symbols: _example(_traced_symbolic(jitted, call, equations, symbols), symbols.formula),
    )
    first = traced[0].made
    out_avals = _out_avals(first, equations)
    for case in traced[1:]:
        _check_shapes(case.made, case.example, out_avals)
    types = [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in out_avals]
    return first.program.out_spec.unflatten(types)


jit.types_for_all_sizes = types_for_all_sizes


def traced_cases(jitted: PjitFunction, call: PreparedCall, equations: Equations) -> TracedFunction:
    """Return a jitted function traced for the types that `equations` have, as data.

    Raises `ValueError` where sizes cannot be found from arguments, `InconclusiveDimensionOperation` where the function cannot
    be traced for all sizes.
    """
    tensors, scope = Tensors(), equations.scope
    if scope is None:
        examples = [_stored(jitted.traced_anew(call), tensors, _no_symbols)]
    else:
        equations.check_solvable()
        traced = cases_of(
            equations.variables,
            scope,
            lambda symbols: _stored(_traced_symbolic(jitted, call, equations, symbols), tensors, symbols.formula),
        )
        examples = [replace(t.made, case=replace(t.made.case, guards=t.guards, example=t.example)) for t in traced]
    first = examples[0]
    out_avals = _out_avals(first, equations)
    for example in examples[1:]:
        _check_shapes(example, example.case.example, out_avals)
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


def _traced_symbolic(jitted: PjitFunction, call: PreparedCall, equations: Equations, symbols: Symbols) -> Program:
    def array(aval: ShapedArray, given: Array) -> Array:
        if not any(map(is_symbolic_dim, aval.shape)):
            return given
        words = given._tensor.shape[given.ndim :]  # of keys
        shape = [n.evaluate(symbols.values) if isinstance(n, SymbolicDimension) else n for n in aval.shape]
        tensor = blank([*shape, *words], given._tensor.dtype, given._tensor.device)
        return from_kind(tensor, given.kind) if given.kind is not kind_of_type(aval) else Array(tensor, given._weak)

    arrays = [array(aval, given) for aval, given in zip(equations.avals, call.arrays, strict=True)]
    return jitted.traced_anew(replace(call, arrays=arrays))


def _example(program: Program, formula: Any) -> _Example:
    return _Example(program, [[n if type(n) is int else formula(n) for n in aval.shape] for aval in program.out_avals])


def _stored(program: Program, tensors: Tensors, formula: Any) -> _StoredExample:
    program = program.pure("jax.export")
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
    read = tuple(i for i, n in enumerate(inputs) if n.users)
    return _StoredExample(program, _example(program, formula).out_shapes, Case((), record, captured), read)


def _device(program: Program) -> torch.device:
    own = program.closed.graph.in_types[len(program.closed.captured) :]
    return own[0].device if own else default_torch_device()


def _out_avals(example: _Example, equations: Equations) -> tuple[ShapedArray, ...]:
    """Return the types of results, whose sizes are formulas of the dimension variables."""
    scope = equations.scope
    values = {name: variable(name, scope) for name in equations.variables}
    return tuple(
        ShapedArray([_dimension(n, values, scope) for n in shape], aval.dtype, aval.weak_type)
        for shape, aval in zip(example.out_shapes, example.program.out_avals, strict=True)
    )


def _dimension(formula: Any, values: Mapping[str, Any], scope: Any) -> Any:
    larger, smaller = (lambda x, y, name=name: extremum(name, x, y, scope) for name in ("max", "min"))
    return sizes.evaluate(formula, values, larger, smaller)


def _check_shapes(example: _Example, known: Mapping[str, int], out_avals: Sequence[ShapedArray]) -> None:
    """Raise `InconclusiveDimensionOperation` where results for the `known` sizes have other shapes than those of the first."""
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
