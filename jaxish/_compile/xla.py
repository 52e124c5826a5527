"""XLA: graphs for TPUs, through torch_xla (2.9). Nothing else of this library knows it, but for the list of devices.

A portable graph is run once on lazy tensors, which record what is called, and torch_xla's bridge compiles the record.
What torch_xla has not got, or not right, is recorded here as operations of XLA: branches, loops, bits seen as another
dtype, shifts. A graph with an operator that is computed on the host (most factorizations)
runs operator by operator.

What XLA gives back as unsigned, torch_xla hands out as signed; `_typed` mends that.
Private API of torch_xla: the bridge, LoweringContext, placeholder tensors, user computations.
"""

# pyright: reportMissingImports=false
import importlib
import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx import GraphModule

from .._core.graph import TensorType, type_of

Compiled = Callable[..., Sequence[Tensor]]


_numbers = itertools.count()


class _OnHost(Exception):
    """The body of a loop or a branch has an operator that XLA cannot compute."""


def compile_graph(module: GraphModule, examples: Sequence[Tensor]) -> Compiled:
    """Return a function that compiles the graph on its first call, since torch_xla wants the device at hand; see registry.py."""
    compiled: Compiled | None = None
    device = _device_of(module, examples)
    types = [type_of(node) for node in module.graph.output_node().args[0]]  # pyright: ignore

    def run(*tensors: Tensor) -> Sequence[Tensor]:
        nonlocal compiled
        given = [t if t.device.type == "xla" else t.to(device) for t in tensors]  # numbers may lie on the host
        with _on(device):
            if compiled is None:
                compiled = _extracted(module, given, device)
            results: Any = compiled(*given)
        results = [results] if isinstance(results, Tensor) else results  # the bridge unpacks a single one
        return [r if t is None else _typed(r, t.dtype) for r, t in zip(results, types, strict=True)]

    return run


def _typed(result: Tensor, dtype: torch.dtype) -> Tensor:
    return result if result.dtype is dtype else result.to(dtype)


def _device_of(module: GraphModule, examples: Sequence[Tensor]) -> torch.device:
    values = [*examples, *(n.meta.get("val") for n in module.graph.nodes)]
    return next(v.device for v in values if isinstance(v, Tensor | TensorType) and v.device.type == "xla")


def _extracted(module: GraphModule, inputs: Sequence[Tensor], device: torch.device) -> Compiled:
    """Have the bridge compile the graph as one operator, since it cuts graphs at what names a subgraph.

    It takes inputs that share memory for one and the same for ever, and scalars for constants, so that it is given others,
    each a part of memory of its own. torch_xla knows a record by a hash that does not tell its inputs apart: (a - b, a) ran
    as (a - b, b). So the results are parts of an operation with a name that no other graph has.
    """
    from torch_xla._dynamo.dynamo_bridge import extract_compiled_graph

    name = f"results{next(_numbers)}"

    def whole(*tensors: Tensor) -> list[Tensor]:
        return _built(name, _Recorder(module).run(*tensors), list)

    graph = fx.Graph()
    placeholders = [graph.placeholder(f"input{i}") for i in range(len(inputs))]
    graph.output(graph.call_function(whole, tuple(placeholders)))
    own = tuple(torch.zeros((1, *t.shape), dtype=t.dtype, device="cpu").to(device)[0] for t in inputs)
    try:
        with torch.no_grad():
            return extract_compiled_graph(GraphModule(torch.nn.Module(), graph), own)
    except _OnHost:
        return fx.Interpreter(module).run


@contextmanager
def _on(device: torch.device) -> Iterator[None]:
    """Within this context manager, `device` is torch_xla's own default, where it runs what it has compiled."""
    import torch_xla

    before, wanted = torch_xla._XLAC._xla_get_default_device(), str(device)
    if before == wanted:
        yield
        return
    torch_xla._XLAC._xla_set_default_device(wanted)
    try:
        yield
    finally:
        torch_xla._XLAC._xla_set_default_device(before)


class _Recorder(fx.Interpreter):
    """Runs a graph on lazy tensors, its loops and branches as operations of XLA."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if isinstance(target, torch._ops.HigherOrderOperator):
            target = _CONTROL_FLOW[target.__name__]
        return super().call_function(target, args, kwargs)


class _Computation:
    """A graph as a computation of XLA, for inputs like `inputs`. Values that it holds become inputs: `hoisted`.

    Unsigned integers go in and out as signed ones: torch_xla is not of one mind what they are.
    """

    def __init__(self, module: GraphModule, inputs: Sequence[Tensor]) -> None:
        from torch_xla.experimental import eager_mode_context

        with eager_mode_context(False):
            self._record(module, inputs)

    def _record(self, module: GraphModule, inputs: Sequence[Tensor]) -> None:
        import torch_xla
        from torch_xla.core import xla_builder

        _check_recorded(module, inputs)
        holes = [xla_builder.create_placeholder_tensor(t.shape, _SIGNED.get(t.dtype, t.dtype)) for t in inputs]
        found = _Recorder(module).run(*(_typed(h, t.dtype) for h, t in zip(holes, inputs, strict=True)))
        results = [found] if isinstance(found, Tensor) else list(found)
        context = torch_xla._XLAC.lowering.LoweringContext("body")
        context.build(_signed(results))
        self._places = {context.tensor_parameter_id(hole): i for i, hole in enumerate(holes)}
        self._places.pop(-1, None)  # of inputs that are not read
        held = context.device_parameter_id_tensor_mapping()
        self._hoisted = {number: tensor for number, tensor in held.items() if number not in self._places}
        self._computation = xla_builder.computation_from_module_proto("body", context.hlo())
        self.dtypes = [r.dtype for r in results]

    @property
    def hoisted(self) -> list[Tensor]:
        return list(self._hoisted.values())

    def __call__(self, inputs: Sequence[Any], hoisted: Sequence[Any]) -> list[Any]:
        """Append a call to what is being built, and return its results."""
        from torch_xla.core.xla_builder import Op

        given = {number: inputs[i] for number, i in self._places.items()} | dict(
            zip(self._hoisted, hoisted, strict=True)
        )
        results = Op.call(self._computation, [given[number] for number in sorted(given)])
        return [results.get_tuple_element(i) for i in range(len(self.dtypes))]


def _check_recorded(module: GraphModule, inputs: Sequence[Tensor]) -> None:
    """Raise `_OnHost` where a graph has an operator that needs values, which placeholders have not: torch_xla aborts."""
    from torch_xla.debug import metrics

    def calls_of_host() -> dict[str, int]:
        return {name: metrics.counter_value(name) for name in metrics.executed_fallback_ops()}

    before = calls_of_host()  # they are not cleared: the bridge counts, too
    _Recorder(module).run(*map(torch.zeros_like, inputs))
    if calls_of_host() != before:
        raise _OnHost


def _bits_as(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the bits of a tensor seen as another dtype: torch_xla sends the tensor to the host for that."""
    if tensor.is_complex():
        *shape, _ = tensor.shape or (1,)
        parts = [
            _built(name, [tensor], lambda ops, name=name: [getattr(ops[0], name)()])[0] for name in ("real", "imag")
        ]
        tensor = torch.stack(parts, -1).reshape(*shape, -1)
    if dtype.is_complex:
        pairs = _bits_as(tensor, dtype.to_real())
        pairs = pairs.reshape(*pairs.shape[:-1], -1, 2)
        return torch.complex(pairs.select(-1, 0).clone(), pairs.select(-1, 1).clone())
    signed, target = tensor.to(_SIGNED.get(tensor.dtype, tensor.dtype)), _SIGNED.get(dtype, dtype)
    *shape, last = tensor.shape or (1,)
    if signed.dtype.itemsize < target.itemsize:
        parts = target.itemsize // signed.dtype.itemsize
        signed = signed.reshape(*shape, last // parts, parts)
    if signed.dtype is not target:
        (signed,) = _built("bits", [signed], lambda ops: [ops[0].bitcast(ops[0].from_torch_type(target))])
    sizes = (*shape, last * tensor.dtype.itemsize // dtype.itemsize) if tensor.dim() else ()
    return signed.reshape(sizes).to(dtype)


def _signed(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [_typed(t, _SIGNED.get(t.dtype, t.dtype)) for t in tensors]


# Conversions between integers of one width keep the bits, and torch_xla knows what they give to be unsigned.
_SIGNED = {torch.uint8: torch.int8, torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


def _shifted_right(tensor: Tensor, by: Tensor | int) -> Tensor:
    """Return the bits of integers moved to the right, the sign filling up: torch_xla divides, and rounds to zero.

    Of a number that is not negative the quotient is right; XLA has shifts for those by a constant. Two to the highest
    power is the least integer, and the quotient zero all the same.
    """
    negative = torch.where(tensor < 0, -1, 0).to(tensor.dtype)
    operands = [tensor ^ negative]
    if isinstance(by, Tensor):
        operands += [torch.ones_like(tensor) << by]
        operands = list(torch.broadcast_tensors(*operands))
        (found,) = _built("shift", operands, lambda ops: [ops[0] / ops[1]])
    else:
        info = torch.iinfo(tensor.dtype)
        divisor = 1 << by if 1 << by <= info.max else info.min
        (found,) = _built("shift", operands, lambda ops: [ops[0] / ops[0].scalar_like(divisor)])
    return _typed(found, tensor.dtype) ^ negative


# Operator by operator outside graphs: records of several run as others do that have the same hash (see `_extracted`).
importlib.import_module("torch_xla.experimental").eager_mode(True)
_library = torch.library.Library("aten", "IMPL")
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # that a kernel is overridden, which is the point
    _library.impl("view_copy.dtype", _bits_as, "XLA")
    for _name in ("__rshift__.Scalar", "__rshift__.Tensor", "bitwise_right_shift.Tensor"):
        _library.impl(_name, _shifted_right, "XLA")


def _built(name: str, inputs: Sequence[Tensor], build: Callable[[list[Any]], Any]) -> list[Tensor]:
    """Return lazy tensors that are the parts of what `build` makes of operations for the inputs."""
    import torch_xla
    from torch_xla.core import xla_builder

    builder = xla_builder.create_builder(name)
    given = [xla_builder.mkparam(builder, i, xla_builder.tensor_shape(t)) for i, t in enumerate(inputs)]
    made = build(given)
    computation = (xla_builder.Op.tuple(made) if isinstance(made, list) else made).build(name)
    return torch_xla._XLAC._xla_user_computation(f"xla::jaxish_{name}", list(inputs), computation)


def _while_loop(test: GraphModule, body: GraphModule, carried: Sequence[Tensor], constants: Sequence[Tensor]) -> Any:
    from torch_xla.core.xla_builder import Op

    state = [*carried, *constants]
    going, step = _Computation(test, state), _Computation(body, state)
    split, given = len(state) + len(going.hoisted), [*_signed(state), *going.hoisted, *step.hoisted]

    def goes_on(*ops: Any) -> Any:
        return going(ops[: len(state)], ops[len(state) : split])[0]

    def stepped(*ops: Any) -> list[Any]:
        return [*step(ops[: len(state)], ops[split:]), *ops[len(carried) :]]

    found = _built("while", given, lambda ops: Op.mkwhile(ops, goes_on, stepped))
    return tuple(_typed(f, c.dtype) for f, c in zip(found, carried, strict=False))


def _cond(predicate: Tensor, first: GraphModule, second: GraphModule, operands: Sequence[Tensor]) -> Any:
    branches = [_Computation(branch, operands) for branch in (first, second)]
    split = len(operands) + len(branches[0].hoisted)

    def build(ops: list[Any]) -> Any:
        return ops[0].mkconditional(
            ops[1:],
            lambda *ops: branches[0](ops[: len(operands)], ops[len(operands) : split]),
            lambda *ops: branches[1](ops[: len(operands)], ops[split:]),
        )

    given = [predicate, *_signed(operands), *branches[0].hoisted, *branches[1].hoisted]
    found = _built("cond", given, build)
    return tuple(_typed(f, dtype) for f, dtype in zip(found, branches[0].dtypes, strict=True))


_CONTROL_FLOW: dict[str, Callable[..., Any]] = {"while_loop": _while_loop, "cond": _cond}
