"""Every operator that native loops know, for every dtype that it has an expression for, against torch's or JAX's own.

The cases are made from the tables of `loop_operators.py`, so that one which is added there is tried here.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import torch
import values
from agreement import differences, is_ordinary

from jaxish._compile import loop_sources, native_loop
from jaxish._compile.loop_operators import COMPUTED_WITH, OPERATORS, kind_of
from jaxish._core import graph
from jaxish._core.graph import TensorType

_INTEGERS = {d for d in COMPUTED_WITH if kind_of(d) in "iuw"}
_CPU = torch.device("cpu")
# Where torch's kernel is undefined, JAX's function of the same meaning.
_BY_JAX = {"div trunc": jax.lax.div, "fmod": jax.lax.rem}
_NOT_BY_ZERO = ("div floor", "remainder")
_LIBRARY_PRECISION = {"float32": 2e-6, "float64": 1e-14, "complex64": 1e-5, "complex128": 1e-13}
_GROWING = ("pow", "exp", "exp2", "expm1", "sinh", "cosh", "sin", "cos", "tan", "tanh", "sigmoid")
_REMAINDERS = ("fmod", "remainder", "div floor")


def _function(name: str) -> Callable[..., torch.Tensor]:
    operator, _, rounding = name.partition(" ")
    function = getattr(torch.ops.aten, operator)
    return (lambda *v: function(*v, rounding_mode=rounding)) if rounding else function


def _arity(name: str) -> int:
    forms = " ".join(OPERATORS[name].forms.values())
    return 1 + max((int(n) for n in re.findall(r"\{(\d)\}", forms)), default=0)


def _operators(dtype: torch.dtype) -> Iterator[tuple[str, Callable[..., torch.Tensor], torch.dtype | None]]:
    """Return name, function and (of conversions) target of all operators of operands of this dtype."""
    for name, operator in OPERATORS.items():
        if name == "_to_copy":
            yield from (
                (name, lambda x, d=d: x.to(d), d) for d in COMPUTED_WITH if d is not dtype and _converts(dtype, d)
            )
        elif (operator.of_booleans and kind_of(dtype) != "w") or operator.form(dtype) is not None:
            yield name, _function(name), None


def _converts(dtype: torch.dtype, target: torch.dtype) -> bool:
    """Tell whether graphs convert these: numbers of the first are made real by taking a part."""
    return not dtype.is_complex or target.is_complex or target is torch.bool


def names_in(body: graph.Graph) -> set[str]:
    """Return the names of the operators of a graph."""
    return {getattr(n.target, "__name__", "").split(".")[0] for n in body.module.graph.nodes if n.op == "call_function"}


def check(dtype: torch.dtype, count: int, random: np.random.Generator) -> tuple[int, list[str], set[str]]:
    """Compare all operators of a dtype, in one C++ function; return the number of cases, failures, and the names met."""
    chosen = list(_operators(dtype))
    name_of_dtype = str(dtype).removeprefix("torch.")
    x, y = values.lanes(name_of_dtype, count, random)[:2]

    def run(position: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        return [f(*(a, b)[: _arity(n)]) for n, f, _ in chosen]

    row = TensorType((1,), dtype, _CPU)
    body = graph.trace(run, [TensorType((), torch.int64, _CPU), row, row]).graph
    loop = native_loop._compiled(lambda: loop_sources.map_source(body, 0))
    assert loop is not None
    given = [torch.from_numpy(v) for v in (x, y)]
    found = loop([torch.tensor(0), *given], [TensorType((count,), t.dtype, _CPU) for t in body.out_types], count)
    cases, failures = 0, []
    for (name, function, target), result in zip(chosen, found, strict=True):
        lanes = _defined(name, x, y)
        operands = [v[lanes] for v in (x, y)][: _arity(name)]
        wanted = _wanted(name, function, target, operands)
        wrong = differences(result.numpy()[lanes], wanted, _LIBRARY_PRECISION.get(str(wanted.dtype), 0), False)
        cases += len(wrong)
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            failures.append(
                f"{name} of {name_of_dtype} {[o[at].item() for o in operands]} is {result.numpy()[lanes][at]}, "
                f"not {wanted[at]} ({wrong.sum()} lanes)"
            )
    return cases, failures, names_in(body)


def _defined(name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the lanes on which there is somebody to ask."""
    if x.dtype.kind == "c":  # the harder ones are compared where torch and JAX agree, which agreement.py sees
        with np.errstate(all="ignore"):
            small = (np.abs(x) < 20) & (np.abs(y) < 20) if name in _GROWING else True
        return is_ordinary(x) & is_ordinary(y) & small
    if name in _NOT_BY_ZERO and x.dtype.kind in "iu":
        return (y != 0) & (y != -1 if x.dtype.kind == "i" else True)
    if name in _REMAINDERS and x.dtype.kind == "f":
        with np.errstate(all="ignore"):
            return ~(np.isinf(x / y) & np.isfinite(x) & (y != 0))
    if name in ("sinh", "cosh"):  # torch's overflow early
        return ~(np.abs(x) > 88)
    if name == "digamma":  # below zero torch's reflection cancels, and at the root between one and two its series
        return (x >= 0) & (np.abs(x - 1.46) > 0.4)
    if name == "lgamma":  # torch's overflows early
        return ~(x > 4e36)
    if name in ("logaddexp", "logaddexp2"):  # where the result is next to zero, it is what rounding leaves
        with np.errstate(all="ignore"):
            return ~(np.abs(getattr(np, name)(x, y)) < 0.1 * np.abs(np.maximum(x, y)))
    return np.abs(y) < 0.9 if name == "tanh_backward" else np.ones(x.shape, bool)


def _wanted(name: str, function: Any, target: torch.dtype | None, operands: list[np.ndarray]) -> np.ndarray:
    if target not in (None, torch.bool) and operands[0].dtype.kind == "f" and target in _INTEGERS:
        return np.asarray(jax.numpy.asarray(operands[0]).astype(str(target).removeprefix("torch.")))
    if name in _BY_JAX and operands[0].dtype.kind in "iu":
        return np.asarray(_BY_JAX[name](*operands))
    return function(*map(torch.from_numpy, operands)).resolve_conj().numpy()
