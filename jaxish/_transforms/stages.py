"""Ahead of time: the stages that a jitted function passes through, `jit(f).trace(x).lower().compile()(x)`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from .._compile import executable
from .._core import functorch, levels, tree
from .._core.array import Array, type_text
from .._core.avals import aval_of
from .._core.graph import ClosedGraph
from .._devices import devices, laid
from .._devices.constraint import is_committed, sharding_of
from .._devices.layouts import Format
from .._devices.shardings import Sharding, SingleDeviceSharding
from .._jaxprs.ir import ClosedJaxpr
from .._jaxprs.raising import closed_jaxpr
from .compiler_options import check_compiler_options
from .cost import bytes_held, bytes_of, cost_of
from .prepared_call import PreparedCall
from .program import Program


@dataclass(frozen=True)
class ArgInfo:
    """The type of one argument leaf, and whether it is donated."""

    shape: tuple[int, ...]
    dtype: Any
    donated: bool


CompilerOptions = dict[str, str | bool]


class Stage:
    """What every stage tells of the function's arguments and result."""

    _program: Program
    _call: PreparedCall

    def _by_argument(self, leaves: Iterable[Any]) -> Any:
        """Return what is told of each leaf of the arguments, by position and by name."""
        return tree.flatten(self._call.given)[1].unflatten(leaves)

    @property
    def args_info(self) -> Any:
        """The types of the arguments, as a pytree of `ArgInfo`s."""
        donated = set(self._call.donated)
        return self._by_argument(ArgInfo(a.shape, a.dtype, i in donated) for i, a in enumerate(self._program.in_avals))

    @property
    def in_avals(self) -> Any:
        """The types of the arguments, by position and by name."""
        return self._by_argument(self._program.in_avals)

    @property
    def in_tree(self) -> tree.PyTreeDef:
        """The arguments' structure."""
        return tree.PyTreeDef(tree.flatten(self._call.given)[1])

    @property
    def out_tree(self) -> tree.PyTreeDef:
        """The result's structure."""
        return tree.PyTreeDef(self._program.out_spec)

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Which leaves of the arguments are donated."""
        return tuple(self._call.donated)

    @property
    def out_info(self) -> Any:
        """The types of the result, as a pytree of `ShapeDtypeStruct`s."""
        return self._program.out_spec.unflatten(self._program.out_avals)


class Traced(Stage):
    """A function traced for given argument types."""

    def __init__(
        self, prepare: Callable[[tuple[Any, ...], dict[str, Any]], PreparedCall], program: Program, call: PreparedCall
    ) -> None:
        self._prepare, self._program, self._call = prepare, program, call

    fun_name = property(lambda self: self._program.name, doc="The function's name.")

    @property
    def out_avals(self) -> Any:
        """The types of the result."""
        return self._program.out_spec.unflatten(aval_of(a) for a in self._program.out_avals)

    @cached_property
    def jaxpr(self) -> ClosedJaxpr:
        """The graph, in JAX's notation."""
        program = self._program
        closed = program.closed
        if program.uses:  # what references hold is among the inputs
            closed = ClosedGraph(closed.graph, tuple(program.closure()))
        return closed_jaxpr(closed, program.in_avals, program.out_avals, program.name)

    def lower(self, *, lowering_platforms: Sequence[str] | None = None) -> "Lowered":
        """Return the graph in the backend's operators."""
        if lowering_platforms is not None:
            raise NotImplementedError(
                "lower(lowering_platforms=...) is not supported: a graph belongs to its arrays' device."
            )
        return Lowered(self)


class Lowered(Stage):
    """A traced function in the operators of the backend that will compile it."""

    def __init__(self, traced: Traced) -> None:
        self._traced = traced
        self._program, self._call = traced._program, traced._call
        self._body = traced._program.closed.graph

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """Return the graph as Python code of torch operators."""
        return self.compiler_ir(dialect).print_readable(print_output=False)

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """Return the `torch.fx.GraphModule` that the backend compiles."""
        if dialect in ("stablehlo", "hlo"):
            raise NotImplementedError(f"There is no {dialect}: functions are lowered to graphs of torch operators.")
        if dialect not in (None, "torch", "fx"):
            raise ValueError(f"Unknown dialect {dialect!r}: lowered functions have one form, 'torch'.")
        return executable.of(self._body).request().module

    def cost_analysis(self) -> dict[str, float]:
        """Return estimates of the work: `flops`, `transcendentals` (where there are any) and `bytes accessed`."""
        return cost_of(self._body)

    def compile(self, compiler_options: dict[str, Any] | None = None) -> "Compiled":
        """Compile now and return the executable.

        Options of XLA have no effect. Raises `JaxRuntimeError` for what is no option of it.
        """
        check_compiler_options((compiler_options or {}).items())
        self._program.executable.compile()
        return Compiled(self)


class Compiled(Stage):
    """A compiled computation: call it with arguments of the types that it was compiled for."""

    def __init__(self, lowered: Lowered) -> None:
        self._lowered = lowered
        self._program, self._call = lowered._program, lowered._call

    @property
    def out_info(self) -> Any:
        """The types of the result, and how its arrays lie, as a pytree of `ShapeDtypeStruct`s."""
        pairs = zip(self._program.out_avals, self._shardings_of_results(), strict=True)
        return self._program.out_spec.unflatten(a.update(sharding=s) for a, s in pairs)

    @property
    def input_shardings(self) -> Any:
        """How the arguments lie over devices, by position and by name; None for those that are not used."""
        return self._by_argument(self._shardings_of_arguments)

    @property
    def output_shardings(self) -> Any:
        """How the results lie over devices, as a pytree of shardings."""
        return self._program.out_spec.unflatten(self._shardings_of_results())

    @property
    def input_formats(self) -> Any:
        """How the arguments lie in memory and over devices, as `input_shardings` has them."""
        pairs = zip(self._program.in_avals, self._shardings_of_arguments, strict=True)
        return self._by_argument(_format(a, s) for a, s in pairs)

    @property
    def output_formats(self) -> Any:
        """How the results lie in memory and over devices, as a pytree of formats."""
        pairs = zip(self._program.out_avals, self._shardings_of_results(), strict=True)
        return self._program.out_spec.unflatten(_format(a, s) for a, s in pairs)

    @cached_property
    def _shardings_of_arguments(self) -> list[Sharding | None]:
        arrays, closed = self._call.arrays, self._program.closed
        inputs = closed.graph.module.graph.find_nodes(op="placeholder")[len(closed.captured) :]
        return [sharding_of(a) if node.users else None for a, node in zip(arrays, inputs, strict=False)]

    def _shardings_of_results(self) -> list[Sharding]:
        nodes: Any = self._program.closed.graph.module.graph.output_node().args[0]
        return [
            getattr(kind, "sharding", None) or SingleDeviceSharding(devices.of(node.meta["val"]))
            for kind, node in zip(self._program.out_kinds, nodes, strict=False)  # after the results: what is written
        ]

    def _check_shardings(self, call: PreparedCall) -> None:
        """Raise `ValueError` where arguments lie in another way than those that were compiled for."""
        wrong = [
            (i, a, s)
            for i, (a, s) in enumerate(zip(call.arrays, self._shardings_of_arguments, strict=True))
            if s is not None and is_committed(a) and not sharding_of(a).is_equivalent_to(s, a.ndim)
        ]
        if wrong:
            names = call.names() or [str(i) for i in range(len(call.arrays))]
            mismatches = "\n".join(
                f"Argument {names[i]} with shape {type_text(a)}:\n  Passed sharding: {sharding_of(a)}\n  Required "
                f"sharding: {s}"
                for i, a, s in wrong
            )
            raise ValueError(
                "Computation was compiled for input shardings that disagree with the shardings of arguments passed to it. "
                f"Here are the {len(wrong)} mismatches:\n{mismatches}"
            )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run. Raises `TypeError` for arguments of other types than those that were compiled for.

        Raises `ValueError` for arguments that lie over devices in another way, `TypeError` within a transformation.
        """
        traced = self._lowered._traced
        call = traced._prepare(args, kwargs)
        if (tracer := next((a for a in call.arrays if levels.is_tracer(a._tensor)), None)) is not None:
            raise TypeError(
                "Cannot apply JAX transformations to a function lowered and compiled for a particular signature. "
                f"Detected argument of Tracer type {_tracer_type(tracer)}. Transform the jitted function instead."
            )
        call.check_like(traced._call)
        if laid.in_use:
            self._check_shardings(call)
        return call.run(self._program)

    def as_text(self) -> str:
        """Return the compiled graph as Python code of torch operators."""
        return self._lowered.as_text()

    def cost_analysis(self) -> dict[str, float]:
        """Return an estimate of the work: see `Lowered.cost_analysis`."""
        return self._lowered.cost_analysis()

    def memory_analysis(self) -> "MemoryStats":
        """Return the bytes of arguments, results and what is between them."""
        body = self._program.closed.graph
        inputs = zip(body.module.graph.find_nodes(op="placeholder"), body.in_types, strict=True)
        given = bytes_of([type for node, type in inputs if node.users])
        return MemoryStats(
            argument_size_in_bytes=given,
            output_size_in_bytes=bytes_of(body.out_types),
            temp_size_in_bytes=bytes_held(body, with_results=False),
            peak_memory_in_bytes=given + bytes_held(body, with_results=True),
        )

    def runtime_executable(self) -> Any:
        """Return the callable that runs on torch tensors: captured tensors first, then the arguments."""
        return self._program.executable.run


def _tracer_type(tracer: Array) -> str:
    """Return how JAX calls an array of the transformation that it belongs to."""
    if levels.is_batched(tracer._tensor):
        return "BatchTracer"
    return "LinearizeTracer" if functorch.is_functorch_wrapped_tensor(tracer._tensor) else "DynamicJaxprTracer"


def _format(aval: Any, sharding: Sharding | None) -> Format:
    return Format() if sharding is None else Format.in_order(len(aval.shape), sharding)


@dataclass(frozen=True)
class MemoryStats:
    """Bytes that a compiled computation takes, gives and needs on the way.

    What it needs on the way (`temp_size_in_bytes`, and the peak with arguments and results) is what the operators of its graph
    make and later ones read, run in their order; a compiler fuses operators, and needs less. Results never lie in the memory of
    arguments, donated ones neither: `alias_size_in_bytes` is 0. The code's size is not told, and the host's memory is not
    counted apart: they are 0.
    """

    argument_size_in_bytes: int
    output_size_in_bytes: int
    temp_size_in_bytes: int
    peak_memory_in_bytes: int
    alias_size_in_bytes: int = 0
    generated_code_size_in_bytes: int = 0
    host_argument_size_in_bytes: int = 0
    host_output_size_in_bytes: int = 0
    host_temp_size_in_bytes: int = 0
    host_alias_size_in_bytes: int = 0
    host_generated_code_size_in_bytes: int = 0


@runtime_checkable
class Wrapped(Protocol):
    """A function that can be traced and compiled ahead of time: what `jit` returns."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function."""

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Trace for these arguments."""
        ...

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace for these arguments and lower."""
        ...
