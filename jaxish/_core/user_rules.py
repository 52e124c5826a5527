"""Primitives that a user's rule differentiates: the rule for forward mode gives results, too, as JAX's rules do.

Where such a primitive is differentiated, its rule takes its place: what it computes besides is not run, and the results
are the rule's. Reverse mode runs the rule at once, and goes back through its transpose.
"""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from . import duals, functorch, graph
from .graph import TensorType
from .levels import is_batched_at, is_perturbed, is_tracked
from .primitive import Dims, Primitive
from .transposition import is_linear, linearized


class Pushed(Primitive):
    """Base class of primitives whose rule for forward mode gives results, too, that may be others than those of `run`."""

    def pushed(
        self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]
    ) -> tuple[Sequence[Tensor], Sequence[Tensor | None]]:
        """Return results and their tangents; a tangent of None is zero."""
        raise NotImplementedError

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        return list(self.pushed(primals, tangents)[1])

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        interpreter = functorch.peek_interpreter_stack()
        if interpreter is not None and interpreter.key() == functorch.TransformType.Jvp and not graph.folds(inputs):
            found = duals.pushed_through(self.pushed, inputs)
            if found is not None:
                return found
        return super().__call__(*inputs)


class Linearized(Pushed):
    """Base class of those whose rule serves reverse mode, too."""

    def of_tangents(self, *inputs: Tensor) -> list[Tensor]:
        """Call the primitive where it is applied to tangents, in which it is linear."""
        return Primitive.__call__(self, *inputs)

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        interpreter = functorch.peek_interpreter_stack()
        if interpreter is None or graph.folds(inputs):
            return super().__call__(*inputs)
        level, kind = interpreter.level(), interpreter.key()
        concerns = is_batched_at if kind == functorch.TransformType.Vmap else is_perturbed
        if not any(concerns(t, level) for t in inputs):
            # torch would ask the levels further out by itself, for the rules of functions whose results are their own.
            given = [functorch.unwrap_for_grad(t, level) for t in inputs]
            with functorch.current_interpreter().lower():
                return self(*given)
        if kind != functorch.TransformType.Grad:
            return super().__call__(*inputs)
        return self.of_tangents(*inputs) if is_linear(level) else self._pulled_through(level, inputs)

    def _pulled_through(self, level: int, inputs: Sequence[Tensor]) -> list[Tensor]:
        active = [i for i, t in enumerate(inputs) if is_tracked(t, level)]
        primals = [functorch.unwrap_for_grad(t, level) for t in inputs]
        with functorch.forward_mode_enabled(True), functorch.current_interpreter().lower(), duals.typed_numbers():
            results, smooth, transpose = linearized(lambda tangents: self.pushed(primals, tangents), active, primals)
        depends = [r for r, s in zip(results, smooth, strict=True) if s]
        found = iter(_GivenTranspose(len(inputs), level, transpose, smooth)(*inputs, *depends))
        return [next(found) if s else r for r, s in zip(results, smooth, strict=True)]


class Given(Primitive):
    """Results that were computed one level out than their arguments: to levels further out they are what they are.

    Inputs are `count` arguments, then the results. Subclasses say how level `level` differentiates them.
    """

    __name__ = "given"

    def __init__(self, count: int, level: int) -> None:
        self.count, self.level = count, level

    def at_level(self, level: int) -> Primitive:
        return self if level == self.level else Given(self.count, level)

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(t) for t in inputs[self.count :]]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return list(inputs[self.count :])

    def _base(self, *inputs: Tensor) -> list[Tensor]:
        return self.run(*inputs)  # traces have nothing to record

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        return list(inputs[self.count :]), list(dims[self.count :])

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        return list(tangents[self.count :])

    def vjp(self, primals: Any, results: Any, cotangents: Any) -> Sequence[Tensor | None]:
        return [*[None] * self.count, *cotangents]


class _GivenTranspose(Given):
    """Results of a rule that are `smooth`; `transpose` takes cotangents of all of them back to the arguments."""

    def __init__(self, count: int, level: int, transpose: Callable[..., Any], smooth: Sequence[bool]) -> None:
        super().__init__(count, level)
        self.transpose, self.smooth = transpose, smooth

    def vjp(self, primals: Any, results: Any, cotangents: Any) -> Sequence[Tensor | None]:
        found = iter(cotangents)
        return [*self.transpose([next(found) if s else None for s in self.smooth]), *[None] * len(results)]
