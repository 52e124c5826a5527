"""linearize: the derivative at a point as a function of tangents, the transpose of torch's pullback."""

import copy
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch

from .._core import dtypes, pullbacks, symbolic_shapes, tree
from .._core.array import Array, as_array, device_of, from_kind, tensor_of, type_text
from .._core.avals import ShapedArray, aval_of, zeros_of
from .._core.errors import NoReverseMode
from .._core.torch_modes import backward_in_this_thread, in_own_dtypes
from .._jaxprs.ir import ClosedJaxpr, Jaxpr, eval_jaxpr
from .._jaxprs.raising import closed_jaxpr
from .autodiff import as_given, evaluated_with_pull, jvp, with_numbers, without_aux, without_tangent
from .flat import as_argument, check_callable, differentiable, name_of
from .linearization import Ends, Linearized, has_tangents, register
from .program import trace_program


def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return `fun(*primals)` and the linear function that maps tangents of the primals to tangents of the result.

    `fun` runs once. The linear function is the transpose of the pullback, which is linear in its cotangents; where there is
    none, `fun` is pushed forward at each of its calls.
    """
    check_callable(fun)
    leaves, spec = tree.flatten((primals, {}))
    fun = with_numbers(fun, leaves, primals)
    arrays = [as_argument(leaf, "linearize") for leaf in leaves]
    chosen = [i for i, a in enumerate(arrays) if differentiable(a)]
    is_reversible = True
    try:
        output, values, pull, aux = evaluated_with_pull(fun, as_given(arrays), spec, chosen, has_aux)
    except NoReverseMode:  # of a jitted function, whose way back is traced when it is called
        output, values, pull, aux = evaluated_with_pull(fun, as_given(arrays), spec, (), has_aux)
        is_reversible = False
    ends = Ends.of(name_of(fun), tree.flatten(primals)[1], arrays, output.spec, output.arrays)
    f_jvp = LinearMap(without_aux(fun) if has_aux else fun, arrays, ends, pull, is_reversible)
    f_jvp.transpose_at_once(device_of(*output.arrays) if output.arrays else None)
    result = output.rebuilt(values)
    return (result, f_jvp, aux) if has_aux else (result, f_jvp)


class LinearMap(Linearized):
    """The function that `linearize` returns: from tangents of the arguments to tangents of the results."""

    _push: Callable[..., Any] | None = None
    _is_pushed_anew = False

    def __init__(
        self, fun: Callable[..., Any], arrays: Sequence[Array], ends: Ends, pull: Any, is_reversible: bool
    ) -> None:
        super().__init__(fun, arrays, ends, pull)
        self._is_pushed_anew = not is_reversible

    @in_own_dtypes
    def transpose_at_once(self, device: torch.device | None) -> None:
        """Run the rules that the function stands for now, as JAX does, and not at each call."""
        if self._is_pushed_anew:
            return
        try:
            self._push = self._transposed(device)
        except NoReverseMode:  # of a while_loop, which forward mode knows
            self._is_pushed_anew = True

    def _transposed(self, device: torch.device | None) -> Callable[..., Any] | None:
        ends, pull = self.ends, self.pull
        results = zip(ends.out_kinds, ends.out_avals, strict=True)
        zeros = [zeros_of(aval, device)._tensor for kind, aval in results if has_tangents(kind, aval)]
        if not zeros or not any(map(has_tangents, ends.in_kinds, ends.in_avals)):
            return None
        with backward_in_this_thread(), symbolic_shapes.put_aside():
            _, push, _ = pullbacks.vjp(lambda *cts: (pull(cts), ()), zeros)
        return lambda directions: pullbacks.whole(push(directions), zeros)

    @in_own_dtypes
    def __call__(self, *tangents: Any) -> Any:
        ends = self.ends
        leaves, spec = tree.flatten(tangents)
        if spec != ends.in_spec:
            raise TypeError(f"expected {tree.PyTreeDef(ends.in_spec)}, got {tree.PyTreeDef(spec)}")
        arguments = list(zip(leaves, ends.in_kinds, ends.in_avals, strict=True))
        for tangent, kind, aval in arguments:
            _check_linear_argument(tangent, kind, aval)
        if self._is_pushed_anew and self._given is not None:
            fun, arrays, _ = self._given
            return jvp(fun(), ends.in_spec.unflatten(arrays), tangents)[1]
        directions = [tensor_of(as_array(t)) for t, kind, aval in arguments if has_tangents(kind, aval)]
        device = device_of(*(as_argument(leaf, "linearize") for leaf in leaves))
        transpose = self._push if self._is_closure and self._push is not None else self._transposed(device)
        results = list(zip(ends.out_kinds, ends.out_avals, strict=True))
        if transpose is None:
            zeros = [zeros_of(aval, device)._tensor for kind, aval in results if has_tangents(kind, aval)]
        else:
            # torch's vjp of J is the adjoint of J; the adjoint of that is J itself, for complex numbers too.
            with backward_in_this_thread(), symbolic_shapes.put_aside():
                zeros = transpose(tuple(directions))
        found = iter(zeros)
        return ends.out_spec.unflatten(
            from_kind(next(found), kind) if has_tangents(kind, aval) else without_tangent(kind, aval)
            for kind, aval in results
        )

    # -- as what JAX returns: a `Partial` of a program and the values that it reads ----------------------------------

    @cached_property
    def _program(self) -> ClosedJaxpr:
        """This as a jaxpr, with what `checkpoint` computes again, from tangents to tangents where there are any."""
        ends, anew = self.ends, copy.copy(self)
        anew._push = None
        avals = [a for kind, a in zip(ends.in_kinds, ends.in_avals, strict=True) if has_tangents(kind, a)]

        def push(*tangents: Array) -> list[Array]:
            leaves = tree.flatten(anew(*ends.in_spec.unflatten(self._with_float0(tangents))))[0]
            return [leaf for leaf in leaves if leaf.dtype != dtypes.float0]

        zeros = list(map(zeros_of, avals))
        program = trace_program(push, zeros, lambda leaves: (leaves, {}), (), "linearize").pure("linearize")
        return closed_jaxpr(program.closed, program.in_avals, program.out_avals, self.__name__)

    def _with_float0(self, tangents: Iterable[Any]) -> Iterator[Any]:
        given = iter(tangents)
        for kind, aval in zip(self.ends.in_kinds, self.ends.in_avals, strict=True):
            yield next(given) if has_tangents(kind, aval) else np.zeros(aval.shape, dtypes.float0)

    @property
    def func(self) -> functools.partial[Any]:
        """The function without what it reads; the first argument that is given to it already is its jaxpr."""
        return functools.partial(_evaluated, self._program.jaxpr, self.ends)

    @property
    def args(self) -> tuple[list[Any]]:
        """What `func` takes before the tangents: the values that the jaxpr reads."""
        return (list(self._program.consts),)

    @property
    def keywords(self) -> dict[str, Any]:
        """Keyword arguments of `func`: there are none."""
        return {}


register(LinearMap)


def _evaluated(jaxpr: Jaxpr, ends: Ends, consts: Sequence[Any], *tangents: Any) -> Any:
    given = zip(tree.flatten(tangents)[0], ends.in_kinds, ends.in_avals, strict=True)
    found = iter(eval_jaxpr(jaxpr, consts, *(t for t, kind, aval in given if has_tangents(kind, aval))))
    return ends.out_spec.unflatten(
        next(found) if has_tangents(kind, aval) else without_tangent(kind, aval)
        for kind, aval in zip(ends.out_kinds, ends.out_avals, strict=True)
    )


def _check_linear_argument(tangent: Any, kind: Any, primal: ShapedArray) -> None:
    if not has_tangents(kind, primal):
        if getattr(tangent, "dtype", None) == dtypes.float0:
            return
        expected: Any = "float0"
    else:
        array = as_array(tangent)
        if array.dtype == primal.dtype and array.shape == primal.shape:
            return
        expected = type_text(primal)
    raise ValueError(
        "linearized function called on tangent values inconsistent with the original primal values: "
        f"got tangent {aval_of(tangent)} for primal {type_text(primal)}, but expected {expected}."
    )
