"""JAX functions as torch's `ExportedProgram`, in which there is nothing of jaxish."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .._compile import registry
from .._compile.lowering import lowered
from .._core import tree
from .._core.array import Array, as_array
from .._core.target import PORTABLE
from .._core.torch_tensors import from_torch
from .._export.exported import Exported
from .._export.exporting import export as export_for_sizes
from .._export.replay import Replay
from .._export.specifications import symbolic_args_specs
from .._transforms.flat import check_callable
from .._transforms.jit import PjitFunction, jit


def export(fun: Callable[..., Any], *args: Any, dynamic_shapes: Sequence[Any] | None = None) -> Any:
    """Return a function of arrays, traced for arguments like these, as a `torch.export.ExportedProgram`.

    There are operators of torch alone in it: `torch.export.save` stores it as a `.pt2` file, which `torch.export.load` reads
    in a process without jaxish, and AOTInductor compiles it. Its arguments and results are tensors, in the pytrees of
    `args` (arrays, tensors, numbers) and of the result; 64-bit ones are narrowed while `jax_enable_x64` is off, as by
    `jnp.asarray`. Random draws, scans, loops and branches are written out.

    `dynamic_shapes` says, for each argument, which sizes may change, as torch.export has it: None, `{0: Dim("batch")}`, or
    for a pytree one with these in the place of its arrays. The function is then traced for all sizes, as by
    `jax.export` with symbolic shapes, and may hold no loop.
    Raises `NotImplementedError` for what calls the host, and for loops between dynamic shapes; `ValueError` for `dynamic_shapes`
    that do not fit the arguments.
    """
    check_callable(fun)
    jitted = fun if isinstance(fun, PjitFunction) else jit(fun)
    leaves, spec = tree.flatten(args)
    arrays = [from_torch(x) if isinstance(x, Tensor) else as_array(x) for x in leaves]
    given = spec.unflatten(arrays)
    tensors = spec.unflatten(a.to_torch() for a in arrays)
    if dynamic_shapes is None:
        return _exported(_OfSizes(jitted, given), tensors)
    if len(dynamic_shapes) != len(args):
        raise ValueError(
            f"dynamic_shapes has {len(dynamic_shapes)} entries for {len(args)} arguments; None says that none of its sizes changes."
        )
    whole = tuple(_filled(a, s) for a, s in zip(given, dynamic_shapes, strict=True))
    specs = symbolic_args_specs(given, _texts(given, whole), _constraints(whole))
    model = _OfAllSizes(export_for_sizes(jitted)(*specs))
    return _exported(model, tensors, dynamic_shapes={"args": whole})


def _exported(model: nn.Module, args: Any, **options: Any) -> Any:
    # What torch knows of the node that it traces (fx.traceback.current_meta) is the process's, not the thread's (2.13):
    # a graph that is compiled in the background meanwhile would take it away.
    with registry.one_at_a_time:
        program = torch.export.export(model, args, strict=False, **options)
    return _with_wide_indices(program)


def _with_wide_indices(program: Any) -> Any:
    """Make indices of elements 64 bits wide. torch takes 32 bits, too, but converts them to ONNX as they are, which does not."""
    for module in program.graph_module.modules():
        for node in module.graph.find_nodes(op="call_function", target=torch.ops.aten.index.Tensor):
            for index in filter(_is_narrow, node.args[1]):
                with module.graph.inserting_before(node):
                    wide = module.graph.call_function(torch.ops.aten._to_copy.default, (index,), {"dtype": torch.int64})
                wide.meta = {**index.meta, "val": index.meta["val"].long()}
                node.replace_input_with(index, wide)
        module.recompile()
    program.validate()
    return program


def _is_narrow(index: Any) -> bool:
    return index is not None and index.meta["val"].dtype is torch.int32


class _OfSizes(nn.Module):
    """A function for arguments of fixed types: its graph, written out in operators of torch."""

    def __init__(self, jitted: PjitFunction, args: Any) -> None:
        super().__init__()
        call = jitted.prepared(args, {})
        program = jitted._program(call).pure("export")
        self._out_spec = program.out_spec
        self._graph = lowered(program.closed.graph, PORTABLE)
        self._captured = nn.ParameterList(nn.Parameter(t, False) for t in program.closed.captured)

    def forward(self, *args: Any) -> Any:
        return self._out_spec.unflatten(self._graph(*self._captured, *tree.flatten(args)[0]))


class _OfAllSizes(nn.Module):
    """A function for arguments with symbolic sizes: the record that jax.export has made, run operator by operator."""

    def __init__(self, exported: Exported) -> None:
        super().__init__()
        self._exported = exported
        self._tensors = nn.ParameterList(nn.Parameter(t, False) for t in exported._function.tensors.values)

    def forward(self, *args: Any) -> Any:
        inputs = tree.flatten(args)[0]
        values = self._exported.equations.solved([t.shape for t in inputs])
        case = next(case for case in self._exported._function.cases if case.covers(values))
        if loops := {name for name, *_ in case.record["nodes"] if name in ("scan", "while", "cond")}:
            raise NotImplementedError(
                f"export with dynamic_shapes of a function that holds a {', '.join(sorted(loops))}."
            )
        captured = [self._tensors[number] for number in case.captured]
        results = Replay(list(self._tensors), values, inputs[0].device).run(case.record, [*captured, *inputs])
        return self._exported.out_tree.unflatten(results)


def _filled(arg: Any, shapes: Any) -> Any:
    """Return what is said of an argument's shapes with a None for each array of which nothing is said."""
    if isinstance(arg, Array):
        return dict(enumerate(shapes)) if isinstance(shapes, list | tuple) else shapes
    return _mapped(_filled, arg, shapes)


def _texts(arg: Any, shapes: Any) -> Any:
    """Return the shapes of the arrays as `jax.export.symbolic_shape` reads them."""
    if not isinstance(arg, Array):
        return _mapped(_texts, arg, shapes)
    named = shapes or {}
    if outside := [axis for axis in named if axis not in range(arg.ndim)]:
        raise ValueError(f"dynamic_shapes names axis {outside[0]} of an array with the shape {arg.shape}.")
    return ",".join(str(size) if (d := named.get(axis)) is None else _name(d) for axis, size in enumerate(arg.shape))


def _mapped(function: Callable[[Any, Any], Any], arg: Any, shapes: Any) -> Any:
    """Return a container with `function` of its parts and those of `shapes`, which may be None for all of them."""
    if isinstance(arg, dict):
        return {key: function(value, None if shapes is None else shapes[key]) for key, value in arg.items()}
    if not isinstance(arg, list | tuple):
        raise TypeError(f"dynamic_shapes are for arrays in lists, tuples and dicts, got {type(arg)}.")
    parts = [None] * len(arg) if shapes is None else shapes
    return type(arg)([function(value, part) for value, part in zip(arg, parts, strict=True)])


def _name(dimension: Any) -> str:
    if isinstance(dimension, int):
        return str(dimension)
    name = getattr(dimension, "__name__", None)
    if not isinstance(name, str):
        raise ValueError(f"dynamic_shapes takes dimensions with names, torch.export.Dim('batch'), got {dimension}.")
    return name


def _constraints(shapes: Any) -> list[str]:
    """Return the bounds of the dimensions, as `jax.export.symbolic_shape` reads them."""
    found: list[str] = []
    pending = [shapes]
    while pending:
        part = pending.pop()
        if isinstance(part, Mapping):
            pending.extend(part.values())
        elif isinstance(part, list | tuple):
            pending.extend(part)
        elif hasattr(part, "min") and hasattr(part, "max") and not hasattr(part, "root"):
            bounds = [f"{_name(part)} >= {part.min}"] if part.min > 1 else []
            found += [*bounds, *([f"{_name(part)} <= {part.max}"] if part.max < 1 << 31 else [])]
    return list(dict.fromkeys(found))
