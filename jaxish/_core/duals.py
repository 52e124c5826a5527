"""Forward-mode differentiation: torch.func.jvp's levels, made safe for several threads and for Python numbers.

torch keeps tangents at one *dual level*, which belongs to the whole process: torch.func.jvp enters it when no other
call is under way, and leaving it throws away the tangents of all threads. Here it is entered with the first call
of any thread and left with the last one, so that threads neither wait for each other nor lose tangents.

Private torch API (tried on 2.13): `_jvp_increment_nesting` and `JVP_NESTING`, torch's own count of calls.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch._functorch import eager_transforms
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode

from . import dynamo, functorch, symbolic_shapes, symbolic_zeros  # noqa: F401  # kernels for zero tangents

_lock = threading.Lock()  # held for no longer than it takes to count
_calls = 0  # under way in all threads
_entered = False  # whether the dual level is ours, and not one that the user's own torch code has entered


def _after_fork() -> None:
    global _lock, _calls
    _lock, _calls = threading.Lock(), _depth.calls  # other threads and their calls are not inherited


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)


def jvp(
    function: Callable[..., tuple[Sequence[Tensor], Sequence[Tensor]]],
    primals: Sequence[Tensor],
    tangents: Sequence[Tensor],
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """Return the results of `function` at `primals`, their derivatives along `tangents`, and its other results.

    `function` returns two sequences: results to be differentiated, floating or complex, and others.
    """
    results, derivatives, others = pushed(function, primals, tangents)
    pairs = zip(results, derivatives, strict=True)
    return results, [torch.zeros_like(r) if d is None else d for r, d in pairs], others


def pushed(
    function: Callable[..., tuple[Sequence[Tensor], Sequence[Tensor]]],
    primals: Sequence[Tensor],
    tangents: Sequence[Tensor],
) -> tuple[list[Tensor], list[Tensor | None], list[Tensor]]:
    """Return what `jvp` does, with None for derivatives that are zero whatever the values."""
    with (
        _dual_level(), _level() as level, functorch.forward_mode_enabled(True),
        symbolic_shapes.put_aside(), dynamo.put_off(),
    ):  # fmt: skip
        duals = [forward_ad.make_dual(_whole(p), t, level=0) for p, t in zip(primals, tangents, strict=True)]
        _depth.calls += 1
        try:
            with _TYPED_NUMBERS:
                active, others = function(*duals)
        finally:
            _depth.calls -= 1
        unpacked = [forward_ad.unpack_dual(result, level=0) for result in active]
        results = [primal for primal, _ in unpacked]
        derivatives = [None if t is None or t._is_zerotensor() else typed(t, p) for p, t in unpacked]

        def outside(tensors: Sequence[Any]) -> list[Any]:
            return [None if t is None else functorch.unwrap_for_grad(t, level) for t in tensors]

        return outside(results), outside(derivatives), outside(others)


def _whole(primal: Tensor) -> Tensor:
    """Return `primal`, copied if it is a part of an array or repeats elements.

    torch copies tangents into the memory that their primals have, which it refuses to do for repeated elements, and gets wrong
    for parts of fake tensors.
    """
    base = functorch.base_of(primal)
    if base.device.type == "xla" or base.untyped_storage().nbytes() == base.numel() * base.element_size():
        return primal
    return primal.clone(memory_format=torch.contiguous_format)


def tangent_of(tensor: Tensor) -> Tensor | None:
    """Return the tangent of a tensor at its level; None where it has none, or no level pushes forward."""
    return forward_ad.unpack_dual(tensor, level=0).tangent if is_active() else None


def pushed_through(
    rule: Callable[..., tuple[Sequence[Tensor], Sequence[Tensor | None]]], inputs: Sequence[Tensor]
) -> list[Tensor]:
    """Return results with tangents by `rule(primals, tangents)`, at the innermost level, which pushes forward.

    The rule runs one level out. A result whose tangent is None is a constant to the level.
    """
    level = functorch.current_interpreter().level()
    pairs = [forward_ad.unpack_dual(t, level=0) for t in inputs]
    primals = [functorch.unwrap_for_grad(p, level) for p, _ in pairs]
    given = [None if t is None else functorch.unwrap_for_grad(t, level) for _, t in pairs]
    with functorch.forward_mode_enabled(True), functorch.current_interpreter().lower():
        tangents = [
            None if t is None or t._is_zerotensor() else typed(t, p) for t, p in zip(given, primals, strict=True)
        ]
        results, found = rule(primals, tangents)
        results = [r if t is None else _unexpanded(r) for r, t in zip(results, found, strict=True)]
    return [r if t is None else _dual(r, t, level) for r, t in zip(results, found, strict=True)]


def _unexpanded(result: Tensor) -> Tensor:
    """Return a result with memory for each element: torch writes tangents into memory laid out like that of results."""
    return result.contiguous() if 0 in result.stride() and result.numel() > 1 else result


def _dual(result: Tensor, tangent: Tensor, level: int) -> Tensor:
    return forward_ad.make_dual(*(functorch.wrap_for_grad(t, level) for t in (result, tangent)), level=0)


def typed(tangent: Tensor, primal: Tensor) -> Tensor:
    """Return a tangent in the dtype of its primal: a symbolic zero times a number inside torch's own formulas is float64."""
    return tangent if tangent.dtype is primal.dtype else tangent.to(primal.dtype)


class _Depth(threading.local):
    calls = 0  # of `jvp` that are under way in this thread


_depth = _Depth()


def is_active() -> bool:
    """Tell whether a function is being pushed forward in this thread."""
    return bool(_depth.calls)


def is_possible() -> bool:
    """Tell whether a function may be pushed forward, by the user's own torch code too: in this thread or in another."""
    return forward_ad._current_level >= 0


def typed_numbers() -> AbstractContextManager[Any]:
    """Return the context manager for rules of primitives, which torch calls with all function modes put aside."""
    return _TYPED_NUMBERS if _depth.calls else nullcontext()


def _level() -> AbstractContextManager[int]:
    return functorch.entered(functorch.jvp_increment_nesting, functorch.jvp_decrement_nesting)


@contextmanager
def _dual_level() -> Iterator[None]:
    global _calls, _entered
    with _lock:
        if not _calls and forward_ad._current_level < 0:
            forward_ad.enter_dual_level()
            eager_transforms.JVP_NESTING += 1  # so that a torch.func.jvp in the meantime does not enter it again
            _entered = True
        _calls += 1
    try:
        yield
    finally:
        with _lock:
            _calls -= 1
            if not _calls and _entered:
                forward_ad.exit_dual_level(level=0)
                eager_transforms.JVP_NESTING -= 1
                _entered = False


class _TypedNumbers(TorchFunctionMode):
    """Within this mode arithmetic of a 0-d tensor and a Python number takes the number as a tensor of the same dtype.

    torch wraps a number as a float64 tensor whose dtype gives way; a functorch level wraps that again and forgets that
    it does, so that the derivative of `2.0 * x` for a float32 scalar x came out as float64 (2.9 to 2.13). Operators that
    take numbers as they are, such as `**`, `remainder` and `where`, are not affected.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _ARITHMETIC and len(args) > 1:
            args = _typed(*args)
        return func(*args, **(kwargs or {}))


_ARITHMETIC = {
    torch.add, torch.sub, torch.subtract, torch.mul, torch.multiply, torch.div, torch.divide, torch.true_divide,
    Tensor.add, Tensor.sub, Tensor.subtract, Tensor.mul, Tensor.multiply, Tensor.div, Tensor.divide,
    Tensor.true_divide, Tensor.__rsub__, Tensor.__rdiv__, torch.ops.aten.add.Tensor, torch.ops.aten.sub.Tensor,
    torch.ops.aten.mul.Tensor, torch.ops.aten.div.Tensor,
}  # fmt: skip


def _typed(left: Any, right: Any, *others: Any) -> tuple[Any, ...]:
    if isinstance(left, Tensor):
        return (left, _number_like(left, right), *others)
    return (_number_like(right, left), right, *others)


def _number_like(tensor: Tensor, value: Any) -> Any:
    if tensor.dim() or type(value) not in _NUMBERS or not (tensor.is_floating_point() or tensor.is_complex()):
        return value
    if type(value) is complex and not tensor.is_complex():
        return value
    return torch.full((), value, dtype=tensor.dtype, device=tensor.device)


_NUMBERS = (int, float, complex)
_TYPED_NUMBERS = _TypedNumbers()
