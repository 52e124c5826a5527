"""closure_convert: what a function closes over, made arguments."""

from collections.abc import Callable
from typing import Any

from .._core import tree
from .._core.array import Array, as_array, tensor_of
from .._core.levels import has_derivative, is_fake
from .._core.primitive import differentiable
from .flat import arrays_from, as_argument, check_callable
from .program import trace_program


def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Return a function like `fun` that takes what it closes over and may be differentiated as further arguments, and these.

    That is floating arrays of transformations that are going on. `fun` is traced at the types of `example_args`; the returned function takes arguments of those types.
    """
    check_callable(fun)
    leaves, spec = tree.flatten(example_args)
    arrays = [as_argument(leaf, "closure_convert") for leaf in leaves]
    program = trace_program(fun, arrays, lambda values: (spec.unflatten(values), {}), (), "closure_convert")
    program.pure("closure_convert")
    captured = program.closed.captured
    hoisted = [i for i, t in enumerate(captured) if differentiable(t.dtype) and (is_fake(t) or has_derivative(t))]

    def converted(*args_then_consts: Any) -> Any:
        count = len(args_then_consts) - len(hoisted)
        args, consts = args_then_consts[:count], args_then_consts[count:]
        given_leaves, given_spec = tree.flatten(args)
        if count < 0 or given_spec != spec:
            raise TypeError(
                "The inputs to the closure produced by closure_convert must have the same Pytree structure as the example "
                f"arguments passed when closure_convert was called. Expected {tree.PyTreeDef(spec)}, but got "
                f"{tree.PyTreeDef(given_spec)}"
            )
        given = dict(zip(hoisted, consts, strict=True))
        # What is given in their place is all that is left of the hoisted ones.
        tensors = [tensor_of(as_array(given.get(i, Array(t)))) for i, t in enumerate(captured)]
        results = program.closed.graph(*tensors, *(tensor_of(as_array(leaf)) for leaf in given_leaves))
        return program.out_spec.unflatten(arrays_from(results, program.out_kinds))

    return converted, [Array(tensor_of(Array(captured[i]))) for i in hoisted]
