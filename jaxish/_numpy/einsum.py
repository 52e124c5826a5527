"""einsum: sums of products in index notation. opt_einsum chooses the order, torch contracts pairs."""

from collections.abc import Callable, Sequence
from functools import partial
from string import ascii_letters
from typing import Any

import opt_einsum
import torch
from opt_einsum.parser import parse_einsum_input
from opt_einsum.paths import PathOptimizer
from torch import Tensor
from torch.nn.functional import pad

from .._core import dtypes, graph, unsigned
from .._core.array import Array, as_array, check_arraylike, tensor_of
from .._core.operations import keeps_calls
from .._core.promotion import convert
from .._core.torch_modes import in_own_dtypes
from .._core.typing import DTypeLike
from .._devices.sharding_rules import choosing
from .._lax.contraction import dot_general
from .._lax.out_sharding import laid_over
from .arguments import no_out
from .contractions import PrecisionLike
from .contractions import operands as product_operands
from .einsum_products import Operand, contract_by, stretched


class _LeftToRight(PathOptimizer):
    """Contract all operands in the order in which they are given."""

    def __call__(self, inputs: Sequence[Any], *args: Any, **kwargs: Any) -> list[tuple[int, int]]:
        return [(0, 1)] * (len(inputs) - 1)


def _optimizer(optimize: Any) -> Any:
    return "optimal" if optimize is True else _LeftToRight() if optimize is False else optimize


def einsum(
    subscripts: Any, /, *operands: Any, out: None = None, optimize: Any = "auto", precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None, _dot_general: Callable[..., Any] = dot_general,
    out_sharding: Any = None,
) -> Array:  # fmt: skip
    """Return the sum of products that `subscripts` describes, as in "ij,jk->ik", or in NumPy's form of axis lists.

    `optimize` is True, False, a strategy of opt_einsum or a path. Raises `ValueError` for subscripts that do not fit.
    `precision` concerns accelerators only. Another `_dot_general` is called for each product of two operands.
    """
    no_out("einsum", out)
    if out_sharding is not None:
        with choosing():
            found = einsum(
                subscripts, *operands, optimize=optimize, precision=precision,
                preferred_element_type=preferred_element_type, _dot_general=_dot_general,
            )  # fmt: skip
        return laid_over(out_sharding, "einsum", found)
    equation, given = _equation(subscripts, operands)
    found, result, weak = product_operands("einsum", preferred_element_type, *given)
    inputs, output = _spelled_out(equation, found)
    _check_sizes(inputs, found, equation)
    if _dot_general is not dot_general or (graph.tracing and keeps_calls()):
        by_caller = partial(contract_by, _dot_general, precision, dtypes.TO_NUMPY[result], _contract)
        value = tensor_of(_by_path(inputs, output, [as_array(x) for x in given], optimize, by_caller))
    elif len(found) == 1 or (len(found) == 2 and not _have_diagonals(inputs)):
        value = _contract(inputs, output, found)
    else:
        value = _by_path(inputs, output, found, optimize, _contract)
    return Array(convert(value, result), weak)


def _equation(subscripts: Any, given: Sequence[Any]) -> tuple[str, list[Any]]:
    if isinstance(subscripts, str):
        arrays = list(given)
        equation = subscripts.replace(" ", "")
    else:
        shapes = [as_array(x) if hasattr(x, "__jax_array__") else x for x in (subscripts, *given)]
        inputs, output, arrays = parse_einsum_input(shapes)
        equation = f"{inputs}->{output}"
        arrays = list((subscripts, *given)[::2])[: len(inputs.split(","))]
    check_arraylike("einsum", *arrays)
    return equation, arrays


def _spelled_out(equation: str, found: Sequence[Tensor]) -> tuple[list[str], str]:
    """Return the names of the inputs' and the output's axes, the ellipsis replaced by names of their own.

    They are letters, where those suffice: torch knows no others.
    """
    shapes = [tuple(t.shape) for t in found]
    inputs, output, _ = parse_einsum_input((equation, *shapes), shapes=True)
    names = dict.fromkeys(inputs.replace(",", ""))
    unused = (letter for letter in ascii_letters if letter not in names)
    letters = {ord(name): next(unused, name) for name in names if name not in ascii_letters}
    return inputs.translate(letters).split(","), output.translate(letters)


def _check_sizes(inputs: Sequence[str], found: Sequence[Tensor], equation: str) -> None:
    sizes: dict[str, int] = {}
    for names, t in zip(inputs, found, strict=True):
        if len(names) != t.dim():
            raise ValueError(
                f"einsum: operand of shape {tuple(t.shape)} has not {len(names)} axes, as in {equation!r}."
            )
        for name, n in zip(names, t.shape, strict=True):
            if sizes.setdefault(name, n) not in (n, 1) and n != 1:
                raise ValueError(
                    f"Size of label '{name}' does not match previous terms: {sizes[name]} and {n} in {equation!r}."
                )
            sizes[name] = max(sizes[name], n) if n != 0 else 0


def _by_path(
    inputs: list[str], output: str, found: Sequence[Operand], optimize: Any,
    contract: Callable[[Sequence[str], str, Sequence[Operand]], Operand],
) -> Operand:  # fmt: skip
    """Return what contracting two at a time in opt_einsum's order gives."""
    equation = f"{','.join(inputs)}->{output}"
    shapes = [tuple(t.shape) for t in found]
    steps: Any = opt_einsum.contract_path(
        equation, *shapes, shapes=True, einsum_call=True, use_blas=True, optimize=_optimizer(optimize)
    )[1]
    rest = list(found)
    for places, _, step, *_ in steps:
        if len(places) > 2:
            raise NotImplementedError(
                "jax.numpy.einsum does not support simultaneous contraction of 3 or more operands, as the path "
                f"{optimize} has it. Give a path of pairs."
            )
        taken = [rest.pop(i) for i in places]
        terms, made = step.split("->")
        rest.append(contract(terms.split(","), made, taken))
    return rest[0]


@in_own_dtypes
def _contract(inputs: Sequence[str], output: str, taken: Sequence[Tensor]) -> Tensor:
    dtype = taken[0].dtype
    if _have_diagonals(inputs):
        inputs, taken = _with_diagonals(inputs, taken)
    equation = f"{','.join(inputs)}->{output}"
    if len(taken) == 1 and inputs[0] == output:
        return taken[0]
    if dtype is torch.bool:
        return torch.einsum(equation, *(t.to(torch.float32) for t in taken)) > 0
    if dtype.itemsize == 1 and dtype.is_floating_point:
        return torch.einsum(equation, *(t.to(torch.float32) for t in taken)).to(dtype)
    if len(taken) == 2 and (wide := unsigned.product_dtype(taken[0], taken[1])) is not dtype:
        return torch.einsum(equation, *(t.to(wide) for t in taken)).to(dtype)
    # torch sums small integers as int64.
    summed = lambda *ts: torch.einsum(equation, *ts).to(ts[0].dtype)  # noqa: E731
    return unsigned.bilinear(summed, *taken) if len(taken) == 2 else unsigned.via_bits(summed, *taken)


def _have_diagonals(inputs: Sequence[str]) -> bool:
    return any(len({*names}) < len(names) for names in inputs)


def _with_diagonals(inputs: Sequence[str], taken: Sequence[Tensor]) -> tuple[list[str], list[Tensor]]:
    """Return the operands with axes of one name of one size, as JAX makes them.

    An axis of size one that the other operand has with another size is none. Of the rest JAX keeps the last, and what
    lies off the diagonal is zero: so is what a shorter axis has none of.
    """
    names, found = list(inputs), list(taken)
    for here, there in ((0, 1), (1, 0)) if len(found) == 2 else ():
        found[here], names[here] = stretched(found[here], names[here], found[there], names[there])
    for i, t in enumerate(found):
        sizes = dict(zip(names[i], t.shape, strict=True))
        missing = [sizes[name] - n for name, n in zip(names[i], t.shape, strict=True)]
        if any(missing):
            found[i] = pad(t, [n for count in reversed(missing) for n in (0, count)])
    return names, found


def _einsum(
    operands: Sequence[Any], contractions: Sequence[tuple[Sequence[int], Any, str]], precision: PrecisionLike,
    preferred_element_type: DTypeLike | None, _dot_general: Callable[..., Any] = dot_general,
) -> Array:  # fmt: skip
    """Return what the contractions of a path come to, each of which says which operands it takes, and its equation.

    Libraries call JAX's function of this name with paths of their own.
    """
    rest = list(operands)
    for places, _, equation in contractions:
        taken = [rest.pop(i) for i in places]
        options: Any = {"precision": precision, "preferred_element_type": preferred_element_type}
        rest.append(einsum(equation, *taken, **options, _dot_general=_dot_general))
    return rest[0]


def einsum_path(subscripts: Any, /, *operands: Any, optimize: Any = "auto") -> tuple[list[tuple[int, ...]], Any]:
    """Return the order of pairwise contractions that `optimize` gives, and opt_einsum's account of its cost."""
    found: Any = opt_einsum.contract_path(subscripts, *operands, optimize=_optimizer(optimize))
    return found
