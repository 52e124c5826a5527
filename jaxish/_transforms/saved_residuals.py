"""print_saved_residuals and saved_residuals: what the forward pass of a function keeps for going back, and where in the source it is made."""

import operator
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, fx

from .._core import dtypes, residuals, tree
from .._core.avals import ShapedArray
from .._core.graph import Graph, TensorType, type_of
from .._core.primitive import Primitive
from .._core.user_frames import Line
from .api_util import debug_info
from .flat import as_argument, differentiable
from .kept_values import kept, origin, viewed
from .program import trace_program
from .remat import Checkpoint, halves_as


def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print a line for each value that differentiating `f` at these arguments keeps: its type and where it comes from.

    Which values these are is torch's derivatives' affair; they may be others than JAX keeps.
    """
    for aval, text in saved_residuals(f, *args, **kwargs):
        print(f"{aval.str_short(short_dtypes=True)} {text}")


def saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> list[tuple[ShapedArray, str]]:
    """Return the type of each value that differentiating `f` keeps, and where it comes from."""
    leaves, spec = tree.flatten((args, kwargs))
    arrays = [as_argument(leaf, "saved_residuals") for leaf in leaves]
    names = debug_info("saved_residuals", f, args, kwargs).arg_names or ()
    program = trace_program(f, arrays, spec.unflatten, (), "saved_residuals")
    captured = len(program.closed.captured)
    wanted = [i >= captured and differentiable(arrays[i - captured]) for i in range(captured + len(arrays))]
    sources = [*["from a constant"] * captured, *(f"from the argument {name}" for name in names)]
    body, save, places = _checkpointed(program.closed.graph)
    with halves_as(_Half):
        forward, backward = residuals.split(body, [wanted[i] for i in places], save)
    inputs, made = kept(forward, backward, len(body.out_types))
    lines = _Lines(body)
    found = sorted(((*lines.made(node), type_of(node)) for node in made), key=lambda entry: entry[0])
    given = [(_aval(body.in_types[i]), sources[places[i]]) for i in inputs]
    return given + [(_aval(type), text) for _, text, type in found]


def _aval(type: TensorType | None) -> ShapedArray:
    assert type is not None
    return ShapedArray(type.shape, dtypes.TO_NUMPY[type.dtype])


def _checkpointed(body: Graph) -> tuple[Graph, Callable[[fx.Node], bool] | None, list[int]]:
    """Return a graph, what it saves and which inputs it takes: those of its only call, if that is a checkpoint."""
    inputs = body.module.graph.find_nodes(op="placeholder")
    calls = [n for n in body.module.graph.nodes if n.op == "call_function" and n.target is not operator.getitem]
    if len(calls) == 1 and isinstance(calls[0].target, Checkpoint) and all(a in inputs for a in calls[0].args):
        return calls[0].target.body, calls[0].target.save, [inputs.index(a) for a in calls[0].args]
    return body, None, list(range(len(inputs)))


class _Half(Primitive):
    """A half of a checkpointed function within another one, as one node, which takes what it reads."""

    __name__ = "checkpoint"

    def __init__(self, body: Graph) -> None:
        self.body = body
        inputs = body.module.graph.find_nodes(op="placeholder")
        self.read = [i for i, node in enumerate(inputs) if node.users]

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return self.body.out_types

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        replayed = len(inputs) == len(self.read)  # as the node that it was recorded as, in a loop
        return super().__call__(*(inputs if replayed else (inputs[i] for i in self.read)))


class _Lines:
    """The lines of the source that made the values of a graph, by which values of its forward half are found."""

    def __init__(self, body: Graph) -> None:
        self._keys: dict[fx.Node, int] = {}
        self._nodes: dict[int, tuple[int, fx.Node]] = {}
        self._readers: dict[int, tuple[int, fx.Node]] = {}  # the first operator that reads a value
        for position, node in enumerate(body.module.graph.nodes):
            if node.op != "call_function":
                continue
            self._nodes.setdefault(self._key(node), (position, node))
            for source in node.all_input_nodes:
                if viewed(node) is node:
                    self._readers.setdefault(self._key(source), (position, node))

    def made(self, node: fx.Node) -> tuple[tuple[int, ...], str]:
        """Return where in the order of the program a value is made, and in words what made it."""
        if node.target is operator.getitem and isinstance(half := node.args[0].target, _Half):  # pyright: ignore
            return self._made_within(node, half)
        position, own, is_late = self._found(node)
        line = None if own is None else _line_of(own)
        return (position, is_late), origin(node) if line is None else f"{origin(node)} from {line}"

    def _found(self, node: fx.Node) -> tuple[int, fx.Node | None, int]:
        known = self._nodes.get(self._key(node))
        if known is not None:
            return *known, 0
        # What a derivative makes of an operand is told of the operator that is differentiated.
        readers = [r for source in node.all_input_nodes if (r := self._readers.get(self._key(source))) is not None]
        return (*min(readers, key=lambda reader: reader[0]), 1) if readers else (len(self._nodes), None, 1)

    def _made_within(self, node: fx.Node, half: _Half) -> tuple[tuple[int, ...], str]:
        known = self._nodes.get(self._key(node.args[0]))  # pyright: ignore
        outputs: Any = half.body.module.graph.output_node().args[0]
        inner = viewed(outputs[node.args[1]])
        if known is None or not isinstance(known[1].target, Checkpoint) or inner.op == "placeholder":
            return (len(self._nodes), 1), origin(inner)
        where, text = _Lines(known[1].target.body).made(inner)
        return (known[0], *where), text

    def _key(self, node: fx.Node) -> int:
        """Return a number that is equal for equal computations from a graph's inputs."""
        found = self._keys.get(node)
        if found is None:
            found = self._keys[node] = hash(self._computation(node))
        return found

    def _computation(self, node: fx.Node) -> Any:
        if node.op == "placeholder":
            return node.graph.find_nodes(op="placeholder").index(node)
        if viewed(node) is not node and "detach" in str(node.target):
            return self._computation(node.all_input_nodes[0])
        name = "checkpoint" if isinstance(node.target, Checkpoint | _Half) else str(node.target)
        args, kwargs = fx.map_arg((node.args, node.kwargs), self._key)  # pyright: ignore
        return name, str(args), str(kwargs)


def _line_of(node: fx.Node) -> Line | None:
    if node.target is operator.getitem:
        node = node.args[0]  # pyright: ignore[reportAssignmentType]
    return node.meta.get("created") or getattr(node.meta.get("val"), "created", None)
