"""custom_root and custom_linear_solve: solvers whose derivatives are those of the equation that they solve.

How a solution was found does not matter to its derivative. For a root u of F(m, u) = 0 the implicit function theorem
gives du = -(dF/du)^-1 dF/dm dm; for a linear system A x = b it gives dx = A^-1 (db - dA x), whose transpose is one
more solve, with the transpose of A. The functions are traced, so that what they close over (m, A) becomes inputs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from ..._core import derived, tree
from ..._core.graph import Graph, TensorType
from ..._core.primitive import Dims, Primitive, batch_front, differentiable, instantiate, popped_axis
from ..._transforms.autodiff import linear_transpose
from ..._transforms.custom_jvp import CustomJVPCall
from ..._transforms.flat import arrays_from, check_callable
from ..._transforms.linear_map import linearize
from ..._transforms.program import Program
from .bodies import Operands, trace_body


def _traced(fun: Callable[..., Any], operands: Operands, copies: int, what: str) -> Program:
    """Trace `fun`, which takes `copies` arguments of the type of `operands`."""
    arguments = (operands.spec.unflatten(operands.arrays),) * copies
    return trace_body(fun, operands.arrays * copies, tree.flatten(arguments)[1], what).pure(what)


def _check(program: Program, what: str, operands: Operands, expected: str, has_aux: bool = False) -> int:
    """Return the number of leaves of a function's result without auxiliary data, which must be the tree of `operands`.

    Raises `TypeError` for another structure, `ValueError` for other shapes or missing auxiliary data.
    """
    spec = program.out_spec
    if has_aux:
        if len(spec.children()) != 2:
            raise ValueError(
                f"{what}() produced a pytree with structure {tree.PyTreeDef(spec)}, but a pytree tuple with auxiliary "
                "output was expected because has_aux was set to True."
            )
        spec = spec.children()[0]
    if spec != operands.spec:
        raise TypeError(
            f"{what}() output pytree structure must match {expected}, got {tree.PyTreeDef(spec)} and "
            f"{tree.PyTreeDef(operands.spec)}."
        )
    return len(operands.arrays)


def _check_shapes(program: Program, what: str, operands: Operands, has_aux: bool) -> None:
    children = program.out_spec.children() if has_aux else []
    count = children[0].num_leaves if len(children) == 2 else program.out_spec.num_leaves
    found = [a.shape for a in program.out_avals[:count]]
    wanted = [a.shape for a in operands.arrays]
    if found != wanted:
        raise ValueError(f"{what}() output shapes must match b, got {found} and {wanted}")


# --------------------------------------------------------------------------------------------------------------- roots


def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    tangent_solve: Callable[[Callable[[Any], Any], Any], Any],
    has_aux: bool = False,
) -> Any:
    """Return `solve(f, initial_guess)`, a root of `f`, differentiable with respect to what `f` closes over.

    `tangent_solve(g, y)` solves g(x) = y for the linear function `g` that `f` is near its root. With `has_aux`,
    `solve` returns (root, auxiliary data); the data have no derivative.
    Raises `TypeError` when a function's result has not the structure of the guess.
    """
    for function in (f, solve, tangent_solve):
        check_callable(function)
    guess = Operands.of(initial_guess, "custom_root")
    residual = _traced(f, guess, 1, "custom_root")
    count = _check(residual, "f", guess, "initial_guess")
    solution = _traced(lambda x: solve(f, x), guess, 1, "custom_root")
    _check(solution, "solve", guess, "initial_guess", has_aux)
    tangent = _traced(lambda x, y: tangent_solve(linearize(f, x)[1], y), guess, 2, "custom_root")
    _check(tangent, "tangent_solve", guess, "x")

    parts = [residual.closed, tangent.closed]
    captured = [TensorType.of(t) for closed in parts for t in closed.captured]
    types = [*captured, *solution.closed.graph.in_types]
    body = derived.placed(solution.closed.graph, types, range(len(captured), len(types)))
    rule = _RootRule(body, residual.closed.graph, tangent.closed.graph, [len(c.captured) for c in parts], count)
    tensors = [t for closed in [*parts, solution.closed] for t in closed.closure()]
    results = rule.call(*tensors, *guess.tensors)
    return solution.out_spec.unflatten(arrays_from(results, solution.out_kinds))


@dataclass
class _RootRule:
    """The tangents of a root. Inputs: constants of `residual`, of `tangent` and of the solver, the guess."""

    body: Graph
    residual: Graph
    tangent: Graph
    captured: list[int]
    count: int

    def call(self, *inputs: Tensor) -> list[Tensor]:
        return CustomJVPCall(self.body, 0, self, "custom_root")(*inputs)

    def __call__(
        self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]
    ) -> tuple[list[Tensor], list[Tensor | None]]:
        results = self.call(*primals)
        root = results[: self.count]
        first, second = self.captured
        constants, directions = primals[:first], tangents[:first]
        active = [d is not None for d in directions]
        if not any(active):
            return results, [None] * len(results)
        pushed = derived.jvp_call(
            self.residual, active + [False] * self.count, [*constants, *root], [d for d in directions if d is not None]
        )
        moved = self.tangent(*primals[first : first + second], *root, *pushed[len(self.residual.out_types) :])
        return results, [*(-m for m in moved), *[None] * (len(results) - self.count)]


# ------------------------------------------------------------------------------------------------------ linear systems


def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    transpose_solve: Callable[[Callable[[Any], Any], Any], Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """Return `solve(matvec, b)`, the x with matvec(x) = b, differentiable in `b` and in what `matvec` closes over.

    Reverse mode needs `transpose_solve(vecmat, b)`, or `symmetric`: the matrix is its own transpose, and `solve`
    serves both ways. With `has_aux`, the solvers return (x, auxiliary data); the data have no derivative.
    Raises `TypeError` or `ValueError` when a function's result has not the structure or the shapes of `b`.
    """
    if transpose_solve is None and symmetric:
        transpose_solve = solve
    for function in (matvec, solve):
        check_callable(function)
    operands = Operands.of(b, "custom_linear_solve")

    def traced(function: Callable[..., Any], what: str, aux: bool) -> Program:
        program = _traced(function, operands, 1, "custom_linear_solve")
        _check_shapes(program, what, operands, aux)
        _check(program, what, operands, "b", aux)
        return program

    product = traced(matvec, "matvec", False)
    solution = traced(lambda x: solve(matvec, x), "solve", has_aux)
    programs: list[Program | None] = [product, None, solution, None]
    if transpose_solve is not None:
        check_callable(transpose_solve)
        given = transpose_solve
        vecmat = matvec if symmetric else _transposed(matvec, b)
        programs[1] = product if symmetric else traced(vecmat, "matvec", False)
        programs[3] = traced(lambda x: given(vecmat, x), "transpose_solve", has_aux)
    system = LinearSolve(
        [None if p is None else p.closed.graph for p in programs],
        [0 if p is None else len(p.closed.captured) for p in programs],
    )
    constants = [t for p in programs if p is not None for t in p.closed.closure()]
    results = system(*constants, *operands.tensors)
    return solution.out_spec.unflatten(arrays_from(results, solution.out_kinds))


def _transposed(matvec: Callable[[Any], Any], b: Any) -> Callable[[Any], Any]:
    def vecmat(x: Any) -> Any:
        return linear_transpose(matvec, b)(x)[0]

    return vecmat


class _LinearSolveTuple(NamedTuple):
    """What a linear system has of each of its four functions."""

    matvec: Any
    vecmat: Any
    solve: Any
    transpose_solve: Any


class LinearSolve(Primitive):
    """A linear system solved. Inputs: constants of matvec, vecmat, solve and transpose_solve, then b.

    The graphs come in this order; vecmat and transpose_solve may be None.
    """

    __name__ = "custom_linear_solve"

    def __init__(self, graphs: Sequence[Graph | None], captured: Sequence[int]) -> None:
        self.graphs, self.captured = _LinearSolveTuple(*graphs), _LinearSolveTuple(*captured)

    def equation(self) -> tuple[str, dict[str, Any]]:
        return self.__name__, {"const_lengths": self.captured, "jaxprs": self.graphs}

    def _parts(self, values: Sequence[Any]) -> list[list[Any]]:
        """Split a list like the inputs into the four groups of constants, and b."""
        parts, start = [], 0
        for count in self.captured:
            parts.append(list(values[start : start + count]))
            start += count
        return [*parts, list(values[start:])]

    def _solver(self) -> Graph:
        assert self.graphs[2] is not None
        return self.graphs[2]

    def _matrix(self) -> Graph:
        assert self.graphs[0] is not None
        return self.graphs[0]

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return self._solver().out_types

    def run(self, *inputs: Tensor) -> list[Tensor]:
        parts = self._parts(inputs)
        return self._solver()(*parts[2], *parts[4])

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        name, constant_dims, parts = popped_axis(), self._parts(dims), self._parts(inputs)
        vectors = [batch_front(t, d, size) for t, d in zip(parts[4], constant_dims[4], strict=True)]
        graphs = [
            None if g is None else derived.batched(g, [*c, *[0] * len(vectors)], size, name)
            for g, c in zip(self.graphs, constant_dims, strict=False)
        ]
        results = LinearSolve(graphs, self.captured)(*(t for part in parts[:4] for t in part), *vectors)
        return results, [0] * len(results)

    def pushed(
        self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]
    ) -> tuple[Sequence[Tensor], Sequence[Tensor | None]]:
        parts, directions = self._parts(primals), self._parts(tangents)
        constants, b = [t for part in parts[:4] for t in part], parts[4]
        results = self(*primals)
        x = results[: len(b)]
        right = [instantiate(t, p) for t, p in zip(directions[4], b, strict=True)]
        active = [t is not None for t in directions[0]]
        if any(active):
            moving = [t for t in directions[0] if t is not None]
            pushed = derived.jvp_call(self._matrix(), active + [False] * len(b), [*parts[0], *x], moving)
            right = [r - m for r, m in zip(right, pushed[len(b) :], strict=True)]
        return results, [*self(*constants, *right)[: len(b)], *[None] * (len(results) - len(b))]

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        if self.graphs[3] is None:
            raise TypeError(
                "transpose_solve required for backwards mode automatic differentiation of custom_linear_solve. "
                "Give it, or say symmetric=True where the matrix is its own transpose."
            )
        parts = self._parts(primals)
        x, count = results[: len(parts[4])], len(parts[4])
        # torch's cotangents are the conjugates of JAX's, for which the transposed matrix is the one to solve with.
        seeds = [instantiate(c, r).conj() for c, r in zip(cotangents, x, strict=False)]
        swapped = [parts[1], parts[0], parts[3], parts[2]]
        solved = self._transpose()(*(t for part in swapped for t in part), *seeds)[:count]
        of_b = [s.conj() for s in solved]
        wanted = [differentiable(t.dtype) for t in parts[0]] + [False] * count
        _, found = derived.vjp_call(self._matrix(), wanted, [*parts[0], *x], [-c for c in of_b])
        given = iter(found)
        of_matrix = [next(given) if w else None for w in wanted[: len(parts[0])]]
        return [*of_matrix, *[None] * sum(self.captured[1:]), *of_b]

    def _transpose(self) -> "LinearSolve":
        matvec, vecmat, solve, transpose_solve = self.graphs
        first, second, third, fourth = self.captured
        return LinearSolve((vecmat, matvec, transpose_solve, solve), (second, first, fourth, third))
