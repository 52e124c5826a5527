"""What a primitive does at the innermost functorch level: its rule there is applied, one level out.

The rule calls primitives, and so each level further out is asked in its turn. torch would do the like for an
autograd.Function, but go down all levels by itself: it knows no primitive that is another one at another level, and runs
what gives results and what gives their tangents one by one.

A level that neither batches nor differentiates any of the inputs is passed by: to it the results are constants, unless the
primitive's graphs ask for the lane along the level's axis.
"""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from . import axes, duals, functorch, levels

# back(which inputs need a cotangent, inputs, results, cotangents of the results) -> cotangents of the inputs; None is zero
Back = Callable[[Sequence[bool], Sequence[Tensor], Sequence[Tensor], Sequence[Tensor | None]], Sequence[Tensor | None]]


def applied(primitive: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Return the results of a primitive at the innermost level."""
    interpreter: Any = functorch.current_interpreter()
    level, kind = interpreter.level(), interpreter.key()
    inputs = list(map(levels.unwrap_dead, inputs))
    if kind == functorch.TransformType.Vmap:
        return _mapped(primitive, interpreter, inputs)
    if kind == functorch.TransformType.Functionalize:  # a primitive writes into nothing
        with interpreter.lower():
            results = primitive(*map(functorch.functional_value, inputs))
        return [functorch.wrap_functional(r, level) for r in results]
    if not (primitive.is_smooth and any(levels.is_perturbed(t, level) for t in inputs)):
        return one_level_out(primitive, inputs)
    here = primitive.at_level(level)
    if here is not primitive:
        return here(*inputs)
    if kind == functorch.TransformType.Jvp:
        return duals.pushed_through(primitive.pushed, inputs)
    return primitive.linked(inputs)


def one_level_out(function: Callable[..., list[Tensor]], inputs: Sequence[Tensor]) -> list[Tensor]:
    """Call `function` of the inputs as they are to the levels but the innermost one."""
    interpreter = functorch.current_interpreter()
    level = interpreter.level()
    if interpreter.key() != functorch.TransformType.Vmap:
        inputs = [functorch.unwrap_for_grad(t, level) for t in inputs]
    with functorch.forward_mode_enabled(True), interpreter.lower():
        return function(*inputs)


def _mapped(primitive: Any, interpreter: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
    level, size = interpreter.level(), interpreter.batch_size()
    values, dims = zip(*(functorch.unwrap_batched(t, level) for t in inputs), strict=True) if inputs else ((), ())
    if all(d is None for d in dims):
        name = axes.name_at(level)
        if name is None or name not in primitive.lanes_told():
            return one_level_out(primitive, inputs)
    with interpreter.lower():
        results, out_dims = primitive.vmap(size, dims, *values)
    return [r if d is None else functorch.add_batch_dim(r, d, level) for r, d in zip(results, out_dims, strict=True)]


def linked(
    inputs: Sequence[Tensor], results: Sequence[Tensor], smooth: Sequence[bool], back: Back, from_zero: bool = False
) -> list[Tensor]:
    """Return results that were computed one level out as results of `inputs` at the innermost level, which goes in reverse.

    `back` is the rule by which it does, for those that are `smooth`: to the level the others are constants. Where all cotangents
    that come to it are zero it is asked only if it goes back `from_zero`, too, as a user's rule does, which may give anything.
    """
    if not any(smooth):
        return list(results)
    level = functorch.current_interpreter().level()
    with functorch.single_level_functions():
        apply: Any = _Link.apply  # pyright: ignore[reportAttributeAccessIssue]
        found = apply(back, level, results, smooth, from_zero, *(functorch.lifted(t, level) for t in inputs))
    return [f if s else r for f, r, s in zip(found, results, smooth, strict=True)]


class _Link(functorch.SingleLevelFunction):
    """A node of autograd's graph at one level."""

    @staticmethod
    def forward(
        back: Back, level: int, results: Sequence[Tensor], smooth: Sequence[bool], from_zero: bool, *inputs: Tensor
    ) -> Any:
        return tuple(functorch.wrap_for_grad(r, level) for r in results)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.back, _, _, smooth, ctx.from_zero, *tensors = inputs
        ctx.count = len(tensors)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(o for o, s in zip(output, smooth, strict=True) if not s))
        ctx.save_for_backward(*tensors, *output)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Any, ...]:
        # A pullback may be called after its level has ended. torch's own operators then see through the dead
        # wrappers of saved tensors; a primitive that is not one of them has to unwrap them itself.
        saved = tuple(map(levels.unwrap_dead, ctx.saved_tensors))
        own = (None,) * 5
        if not ctx.from_zero and all(c is None for c in cotangents):
            return (*own, *[None] * ctx.count)
        with duals.typed_numbers():
            found = ctx.back(ctx.needs_input_grad[len(own) :], saved[: ctx.count], saved[ctx.count :], cotangents)
        return (*own, *found)
