"""Ahead of time: the stages that a jitted function passes through, `jit(f).trace(x).lower().compile()(x)`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from .._compile import executable
from .._core import tree
from .._core.graph import ClosedGraph
from .._jaxprs.ir import ClosedJaxpr
from .._jaxprs.raising import closed_jaxpr
from .compiler_options import check_compiler_options
from .cost import bytes_of, cost_of
from .prepared_call import PreparedCall
from .program import Program


@dataclass(frozen=True)
class ArgInfo:
    """The type of one argument leaf, and whether it is donated."""

    shape: tuple[int, ...]
    dtype: Any
    donated: bool


CompilerOptions = dict[str, str | bool]


class Traced:
    """A function traced for given argument types."""

    def __init__(
        self, prepare: Callable[[tuple[Any, ...], dict[str, Any]], PreparedCall], program: Program, call: PreparedCall
    ) -> None:
        self._prepare, self._program, self._call = prepare, program, call

    fun_name = property(lambda self: self._program.name, doc="The function's name.")
    in_avals = property(lambda self: list(self._program.in_avals), doc="The types of the argument leaves.")

    @cached_property
    def jaxpr(self) -> ClosedJaxpr:
        """The graph, in JAX's notation."""
        program = self._program
        closed = program.closed
        if program.uses:  # what references hold is among the inputs
            closed = ClosedGraph(closed.graph, tuple(program.closure()))
        return closed_jaxpr(closed, program.in_avals, program.out_avals, program.name)

    @property
    def out_info(self) -> Any:
        """The types of the result, as a pytree of `ShapeDtypeStruct`s."""
        return self._program.out_spec.unflatten(self._program.out_avals)

    @property
    def args_info(self) -> Any:
        """The types of the arguments, as a pytree of `ArgInfo`s."""
        donated = set(self._call.donated)
        infos = [ArgInfo(a.shape, a.dtype, i in donated) for i, a in enumerate(self._program.in_avals)]
        return tree.flatten(self._call.given)[1].unflatten(infos)

    def lower(self, *, lowering_platforms: Sequence[str] | None = None) -> "Lowered":
        """Return the graph in the backend's operators."""
        if lowering_platforms is not None:
            raise NotImplementedError(
                "lower(lowering_platforms=...) is not supported: a graph belongs to its arrays' device."
            )
        return Lowered(self)


class Lowered:
    """A traced function in the operators of the backend that will compile it."""

    def __init__(self, traced: Traced) -> None:
        self._traced = traced
        self._body = traced._program.closed.graph

    args_info = property(lambda self: self._traced.args_info, doc="The types of the arguments.")
    out_info = property(lambda self: self._traced.out_info, doc="The types of the result.")
    in_tree = property(
        lambda self: tree.PyTreeDef(tree.flatten(self._traced._call.given)[1]), doc="The arguments' structure."
    )
    out_tree = property(lambda self: tree.PyTreeDef(self._traced._program.out_spec), doc="The result's structure.")

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """Return the graph as Python code of torch operators."""
        if dialect not in (None, "torch", "fx"):
            raise ValueError(f"Unknown dialect {dialect!r}: jaxish graphs have one text form, 'torch'.")
        return self.compiler_ir().print_readable(print_output=False)

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """Return the `torch.fx.GraphModule` that the backend compiles."""
        return executable.of(self._body).request().module

    def cost_analysis(self) -> dict[str, float]:
        """Return estimates of the work: `flops`, `transcendentals` (where there are any) and `bytes accessed`."""
        return cost_of(self._body)

    def compile(self, compiler_options: dict[str, Any] | None = None) -> "Compiled":
        """Compile now and return the executable.

        Options of XLA have no effect. Raises `JaxRuntimeError` for what is no option of it.
        """
        check_compiler_options((compiler_options or {}).items())
        executable.of(self._body).compile()
        return Compiled(self)


class Compiled:
    """A compiled computation: call it with arguments of the types that it was compiled for."""

    def __init__(self, lowered: Lowered) -> None:
        self._lowered = lowered
        self._program = lowered._traced._program

    args_info = property(lambda self: self._lowered.args_info, doc="The types of the arguments.")
    out_info = property(lambda self: self._lowered.out_info, doc="The types of the result.")
    in_tree = property(lambda self: self._lowered.in_tree, doc="The arguments' structure.")
    out_tree = property(lambda self: self._lowered.out_tree, doc="The result's structure.")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run. Raises `TypeError` when the arguments' types are not those that were compiled for."""
        traced = self._lowered._traced
        call = traced._prepare(args, kwargs)
        call.check_like(traced._call)
        return call.run(self._program)

    def as_text(self) -> str:
        """Return the compiled graph as Python code of torch operators."""
        return self._lowered.as_text()

    def cost_analysis(self) -> dict[str, float]:
        """Return an estimate of the work: see `Lowered.cost_analysis`."""
        return self._lowered.cost_analysis()

    def memory_analysis(self) -> "MemoryStats":
        """Return the bytes of arguments and results."""
        body = self._program.closed.graph
        sizes = [bytes_of(types) for types in (body.in_types, body.out_types)]
        return MemoryStats(argument_size_in_bytes=sizes[0], output_size_in_bytes=sizes[1])

    def runtime_executable(self) -> Any:
        """Return the callable that runs on torch tensors: captured tensors first, then the arguments."""
        return executable.of(self._program.closed.graph).run


@dataclass(frozen=True)
class MemoryStats:
    """Bytes that a compiled computation takes and gives."""

    argument_size_in_bytes: int
    output_size_in_bytes: int


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
