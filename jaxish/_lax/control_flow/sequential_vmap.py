"""sequential_vmap: batches computed one example after the other."""

from collections.abc import Callable
from typing import Any

from ..._core import tree
from ..._transforms.custom_batching import custom_vmap
from .map import map


def sequential_vmap(f: Callable[..., Any]) -> custom_vmap:
    """Return `f` with a batching rule that loops over the batch (`lax.map`): it takes the memory of one example."""
    call = custom_vmap(f)

    def rule(axis_size: int, in_batched: Any, *args: Any) -> tuple[Any, Any]:
        leaves, spec = tree.flatten(list(args))
        flags = tree.flatten(in_batched)[0]
        batched = [leaf for leaf, flag in zip(leaves, flags, strict=True) if flag]

        def of_example(examples: Any) -> Any:
            given = iter(examples)
            return f(*spec.unflatten([next(given) if flag else leaf for leaf, flag in zip(leaves, flags, strict=True)]))

        result = map(of_example, batched)
        results, out_spec = tree.flatten(result)
        return result, out_spec.unflatten([True] * len(results))

    call.def_vmap(rule)
    return call
