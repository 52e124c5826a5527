"""Elements of one array or of another by a condition: `where` of three arguments, which other functions call as well."""

from typing import Any

import torch
from torch import Tensor

from .._core import graph
from .._core.array import Array, check_arraylike, tensor_of
from .._core.operations import keeps_calls
from .._core.promotion import convert, promote, tensor
from .._transforms.shown_calls import shown_as_jit
from .arguments import selected, with_number


@shown_as_jit(name="_where")
def chosen(condition: Any, x: Any, y: Any) -> Array:
    """Return the elements of `x` where the condition holds and those of `y` elsewhere, in their common dtype."""
    fast = with_number(x, y)
    if fast is not None:
        (a, b), weak = fast, False
    else:
        check_arraylike("where", condition, x, y)
        (a, b), weak = promote("where", x, y)
    mask = convert(tensor("where", condition), torch.bool)
    return Array(selected(mask, a, b), weak)


def chosen_tensors(mask: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return what `chosen` does of tensors of one dtype, past promotion."""
    if graph.tracing and keeps_calls():
        return tensor_of(chosen(Array(mask), Array(a), Array(b)))
    return selected(mask, a, b)
