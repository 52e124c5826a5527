"""One call of a jitted function: its arguments taken apart, and what becomes of those that are donated.

An argument that the program reads is taken over where a result needs as many bytes, as XLA would reuse its memory for
it; others are left alone.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from .._core import graph, levels, tree
from .._core.array import Array, type_text
from .._core.avals import ShapeDtypeStruct
from .._core.errors import JaxRuntimeError
from .._core.tree_differences import differences
from .._devices.laid import plain
from .cost import bytes_of
from .program import Program

_ROOTS = {"[0]": "args", "[1]": "kwargs"}


@dataclass(eq=False)
class PreparedCall:
    """The arguments of one call of a jitted function, static ones set aside: what to look up and what to trace with.

    `given` are the traced arguments, by position and by name, `types` the positions of those that are types of arrays.
    """

    arrays: list[Array]
    rebuild: Callable[[Sequence[Array]], tuple[tuple[Any, ...], dict[str, Any]]]
    key: tuple[Any, ...]
    donated: tuple[int, ...]
    given: tuple[tuple[Any, ...], dict[str, Any]]
    names: Callable[[], Sequence[str]]
    types: tuple[int, ...] = ()

    def taken_by(self, program: Program) -> tuple[int, ...]:
        """Return which donated arguments `program` can take over, and warn of others."""
        body = program.closed.graph
        free = Counter(bytes_of([t]) for t in body.out_types[: len(program.out_kinds)])
        inputs = program.arguments
        taken, left = [], []
        for index in (i for i in self.donated if inputs[i].users):
            size = self.arrays[index].nbytes
            usable = free[size] > 0
            free[size] -= usable
            (taken if usable else left).append(index)
        if left:
            types = ", ".join(type_text(self.arrays[i]) for i in left)
            warnings.warn(
                f"Some donated buffers were not usable: {types}.\nSee an explanation at "
                "https://docs.jax.dev/en/latest/faq.html#buffer-donation.",
                stacklevel=5,
            )
        return tuple(taken)

    def check_like(self, other: "PreparedCall") -> None:
        """Raise `TypeError` where the arguments are another pytree, or of other types, than those of `other`."""
        if self.key[0] != other.key[0]:
            seen, given = (tree.flatten(call.given)[1] for call in (other, self))
            found = [
                f"\n    * at {_ROOTS[d.path[:3]]}{d.path[3:]}, seen {d.first} but now given {d.second}, so {d.reason}"
                for d in differences(seen, given)
            ]
            raise TypeError(
                "Function compiled with input pytree does not match the input pytree it was called with. There are "
                f"{len(found)} mismatches, including:{''.join(found)}"
            )
        pairs = zip(self.arrays, other.arrays, strict=True)
        if wrong := [i for i, (a, b) in enumerate(pairs) if (a.shape, a.dtype) != (b.shape, b.dtype)]:
            names = other.names() or [str(i) for i in range(len(self.arrays))]
            mismatches = "\n".join(
                f"Argument '{names[i]}' compiled with {type_text(other.arrays[i])} and called with "
                f"{type_text(self.arrays[i])}"
                for i in wrong
            )
            raise TypeError(
                "Argument types differ from the types for which this computation was compiled. Perhaps you are calling "
                f"the compiled executable with a different enable_x64 mode than when it was AOT compiled? The mismatches "
                f"are:\n{mismatches}"
            )

    def run(self, program: Program) -> Any:
        """Return what the program gives for the arguments, and delete those that it takes over.

        Raises `TypeError` where it reads one that is the type of an array.
        """
        for index in self.types:
            if program.arguments[index].users:
                names = self.names() or [f"args[{i}]" for i in range(len(self.arrays))]
                raise TypeError(
                    f"Argument '{names[index]}' of shape {type_text(self.arrays[index])} of type {ShapeDtypeStruct} is not a "
                    "valid JAX type: it has no values. jax.eval_shape and jit(f).lower take it."
                )
        if not program.taken or graph.is_tracing():
            return program.on(self.arrays)
        tensors = [a._tensor for a in self.arrays]
        _check_given_once(program.taken, self.arrays)
        result = _ran(program, lambda: program.on(self.arrays), self.arrays, tensors)
        for handles in (self.arrays, tree.flatten(self.given)[0]):  # others where a sharding was asked for
            _delete(program.taken, handles, tensors)
        return result


def run_taking_over(program: Program, leaves: Sequence[Any], tensors: Sequence[Tensor]) -> Any:
    """Do what `PreparedCall.run` does, with arguments that need no preparation."""
    _check_given_once(program.taken, leaves)
    result = _ran(program, lambda: program(tensors), leaves, tensors)
    _delete(program.taken, leaves, tensors)
    return result


def _ran(program: Program, run: Callable[[], Any], leaves: Sequence[Any], tensors: Sequence[Tensor]) -> Any:
    """Return what a call gives that may write into arguments; those that it may have begun to write into are deleted if it fails."""
    try:
        with program.writable(tensors):
            return run()
    except BaseException:
        _delete(program.written, leaves, tensors)
        raise


def _check_given_once(taken: Sequence[int], leaves: Sequence[Any]) -> None:
    for index in taken:
        for other, leaf in enumerate(leaves):
            if leaf is leaves[index] and other != index and isinstance(leaf, Array):
                raise JaxRuntimeError(
                    "INVALID_ARGUMENT: Attempt to use a buffer that was previously donated in the same call to "
                    f"Execute() (flattened argument {other}, first use: {index}). Toy example for this bug: "
                    "`f(donate(a), a)`."
                )


def _delete(taken: Sequence[int], leaves: Sequence[Any], tensors: Sequence[Tensor]) -> None:
    for index in taken:
        leaf, tensor = leaves[index], tensors[index]
        if (
            isinstance(leaf, Array)
            and not leaf.is_deleted()
            and plain(leaf._tensor) is plain(tensor)
            and not levels.is_tracer(tensor)
        ):
            leaf.delete()
