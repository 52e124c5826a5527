"""Primitives that a user's rule differentiates: the rule for forward mode, which gives results, too, as JAX's rules do.

Where such a primitive is differentiated, its rule takes its place: what it computes besides is not run, and the results
are the rule's. Reverse mode runs the rule at once, and goes back through its transpose.
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from . import axes, level_rules
from .levels import is_tracked
from .primitive import Primitive
from .transposition import linearized


class ByRule(Primitive):
    """Base class of primitives whose rule for forward mode, `pushed`, serves reverse mode, too."""

    def linked(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        active = [i for i, t in enumerate(inputs) if is_tracked(t, axes.current_level())]

        def run(*primals: Tensor) -> list[Tensor]:
            nonlocal smooth, transpose
            results, smooth, transpose = linearized(lambda tangents: self.pushed(primals, tangents), active, primals)
            return results

        smooth: list[bool] = []
        transpose: Any = None
        results = level_rules.one_level_out(run, inputs)
        return level_rules.linked(inputs, results, smooth, lambda needed, primals, results, cts: transpose(cts))
