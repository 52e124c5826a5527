"""Programs of several operations, drawn from the cases: text in, functions and their dtypes out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cases import CASES, COMPLEX, FLOATING, Case

Draw = Callable[[int], int]  # a number below the given one

# What programs of operands t see: x and y of type t, p and q booleans.
INPUTS = {"x": "t", "y": "t", "p": "b", "q": "b"}


@dataclass(frozen=True)
class Program:
    """An expression of x, y (of `dtype`), p, q (booleans), and the dtype of its result."""

    text: str
    dtype: str
    result: str
    is_single: bool = False  # one operation of inputs
    is_exact: bool = False  # rounded correctly by every tier

    def __call__(self, library: Any, x: Any, y: Any, p: Any, q: Any) -> Any:
        """Compute the expression with jax or jaxish."""
        names = {
            "j": library,
            "jnp": library.numpy,
            "lax": library.lax,
            "nn": library.nn,
            "x": x,
            "y": y,
            "p": p,
            "q": q,
        }
        return eval(self.text, names)


def single(case: Case, dtype: str) -> Program:
    """Return the program that is one operation of inputs."""
    free = {"t": iter("xyx"), "b": iter("pq")}
    text = case.text.format(*(next(free[o]) for o in case.operands))
    return Program(text, dtype, case.result_dtype(dtype), True, case.exact)


def every(dtype: str) -> list[Program]:
    """Return the programs of one operation, all of them."""
    return [single(case, dtype) for case in CASES if case.is_for(dtype)]


def draw_program(dtype: str, draw: Draw, depth: int, result: str = "t") -> Program:
    """Return a program of operations nested at most `depth` deep, whose result is t or b."""
    exact = dtype not in FLOATING + COMPLEX
    return Program(_draw_text(dtype, draw, depth, result), dtype, dtype if result == "t" else "bool", False, exact)


def _draw_text(dtype: str, draw: Draw, depth: int, result: str) -> str:
    leaves = [name for name, type in INPUTS.items() if type == result]
    if depth == 0 or (depth < 3 and draw(4) == 0):
        return leaves[draw(len(leaves))]
    target = dtype if result == "t" else "bool"
    fitting = [c for c in CASES if c.exact and c.is_for(dtype) and c.result_dtype(dtype) == target]
    case = fitting[draw(len(fitting))]
    return f"({case.text.format(*(_draw_text(dtype, draw, depth - 1, o) for o in case.operands))})"
