"""Names of JAX that are about XLA's compiler alone: they raise, and say what to do instead."""

import itertools
from collections.abc import Sequence
from typing import Any, NoReturn


def fused(*, out_spaces: Any) -> NoReturn:
    """Refused: which operations make one kernel, torch's compiler decides."""
    raise NotImplementedError(
        f"fused(out_spaces={out_spaces!r}) is not supported: torch's compiler decides which operations make one kernel. "
        "Use jax.jit; what should be one kernel on a GPU can be written in Triton and called by jaxish.interop."
    )


def control_dep(src: Any, dst: Any) -> NoReturn:
    """Refused: there is no place for an order of `src` and `dst` but that one is made of the other."""
    raise NotImplementedError(
        "control_dep is not supported: operations are ordered by what they are made of. Make one of the results depend on the "
        "other by jax.lax.optimization_barrier."
    )


def schedule(ops: Sequence[Any]) -> None:
    """Refused, as `control_dep` is, where there is anything to order."""
    for src, dst in itertools.pairwise(ops):
        control_dep(src, dst)
