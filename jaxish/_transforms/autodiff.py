"""Derivatives: grad, vjp, jvp, linearize, over torch.func's two modes. Jacobians: jacobians.py.

Conventions differ for complex numbers only: torch's vjp of a holomorphic f multiplies by the conjugate of f', JAX's
by f' itself. Cotangents are therefore conjugated on their way in and out (`_pull`), and nowhere else.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import axes, dtypes, duals, errors, narrow, pullbacks, symbolic_shapes, tree, varying
from .._core.array import Array, as_array, device_of, from_kind, is_arraylike, tensor_of, type_text
from .._core.avals import ShapedArray, aval_of, zeros_of
from .._core.dimensions import several
from .._core.primitive import conjugate
from .._core.refs import Ref, RefArgument, RefKind
from .._core.torch_modes import backward_in_this_thread, in_own_dtypes
from .._core.transposition import linear_at
from .._devices import constraint, laid
from .cotangent_places import settled
from .flat import (
    FlatFunction,
    Output,
    Rebuild,
    as_argument,
    check_callable,
    differentiable,
    float0_zeros,
    name_of,
    unflatten_subset,
    wraps,
)
from .linearization import Ends, Linearized, has_tangents, register

# ------------------------------------------------------------------------------------------------------- reverse mode


class VJP(Linearized):
    """The function that `vjp` returns: from cotangents of the results to cotangents of the arguments."""

    def __call__(self, *out_cts: Any) -> tuple[Any, ...]:
        if len(out_cts) != 1:
            raise TypeError(
                f"The function returned by `jax.vjp` applied to {self.__name__} was called with {len(out_cts)} arguments, "
                "but functions returned by `jax.vjp` must be called with a single argument: a pytree of cotangents like the "
                f"result of {self.__name__}; for a tuple of results, a tuple."
            )
        return self.ends.in_spec.unflatten(self._cotangents(out_cts[0]))

    def with_refs(self, *places: Any) -> Callable[[Any], tuple[Any, ...]]:
        """Return the pullback that does with each argument's cotangent what the leaf in the argument's place says.

        It adds the cotangent to a reference, and returns `GradRef()` there; leaves it out for `DontWant()`, and returns
        `DidntWant()`; and returns it as usual for anything else, such as `GradValue()`. Raises `ValueError` for places that
        are no tree like the arguments.
        """
        leaves, spec = tree.flatten(places)
        if spec != self.ends.in_spec:
            raise ValueError(
                "with_refs expects a tree like that of the arguments of the differentiated function, "
                f"{tree.PyTreeDef(self.ends.in_spec)}, but got {tree.PyTreeDef(spec)}. "
                "Put a reference, jax.ad.GradValue() or jax.ad.DontWant() where an array was."
            )

        def pull(out_ct: Any, /) -> tuple[Any, ...]:
            return spec.unflatten(map(settled, leaves, self._cotangents(out_ct)))

        return pull

    def _cotangents(self, out_ct: Any) -> list[Any]:
        """Return the arguments' cotangents, by leaf."""
        leaves, spec = tree.flatten(out_ct)
        ends = self.ends
        if spec != ends.out_spec:
            raise ValueError(
                "unexpected tree structure. The argument to a VJP function returned by jax.vjp must match the pytree "
                f"structure of the differentiated function {self.__name__}, which returned "
                f"{tree.PyTreeDef(ends.out_spec)}, but got {tree.PyTreeDef(spec)}."
            )
        results = zip(leaves, ends.out_kinds, ends.out_avals, strict=True)
        seeds = [_cotangent(c, aval) for c, kind, aval in results if has_tangents(kind, aval)]
        found = iter(_pull(self.pull, seeds))
        arguments = zip(ends.in_kinds, ends.in_avals, strict=True)
        return [
            from_kind(next(found), kind) if has_tangents(kind, aval) else without_tangent(kind, aval)
            for kind, aval in arguments
        ]


register(VJP)


def without_tangent(kind: Any, aval: ShapedArray) -> Any:
    """Return the cotangent of an argument that has none: None for a reference, which the function got as it is."""
    return None if isinstance(kind, RefKind) else float0_zeros(aval.shape)


def _cotangent(value: Any, primal: ShapedArray) -> Tensor:
    if not is_arraylike(value):
        raise TypeError(
            f"Argument {value!r} to a VJP function has type {type(value)}, which is not a valid JAX type."
            f"{errors.way_from_torch(value)}"
        )
    array = as_array(value)
    if array.dtype != primal.dtype or array.shape != primal.shape:
        raise ValueError(
            f"unexpected JAX type (e.g. shape/dtype) for argument to VJP function: got {type_text(array)}, but expected "
            f"{type_text(primal)} because the corresponding output of the differentiated function had that type."
        )
    return tensor_of(array)


@in_own_dtypes
def _pull(pull: Callable[..., Any], cotangents: Sequence[Tensor]) -> list[Tensor]:
    """Call torch's pullback under JAX's convention for complex numbers."""
    with backward_in_this_thread(), symbolic_shapes.put_aside():
        return [conjugate(c) for c in pull(tuple(conjugate(c) for c in cotangents))]


def evaluated_with_pull(
    fun: Callable[..., Any], leaves: Sequence[Any], spec: Any, chosen: Sequence[int], has_aux: bool
) -> tuple[Output, list[Tensor], Callable[..., Any], Any]:
    """Run `fun` (which takes the tree of `leaves` as its arguments) and return its output, the values of the
    output outside the differentiation, torch's pullback to the `chosen` leaves, and the auxiliary result."""
    arrays = [as_array(leaves[i]) for i in chosen]
    rebuild: Rebuild = lambda values: unflatten_subset(spec, leaves, chosen, values)  # noqa: E731
    flat = FlatFunction(fun, [a.kind for a in arrays], rebuild, has_aux)

    def of_chosen(*tensors: Tensor) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        results = flat(*tensors)
        return flat.output.among_differentiable(results), [*results, *(flat.aux.tensors if flat.aux else [])]

    primals = list(map(tensor_of, arrays))
    for primal in primals:
        narrow.check_differentiable(primal.dtype)
    _, pullback, others = pullbacks.vjp(of_chosen, primals)
    values, extras = others[: len(flat.output.arrays)], others[len(flat.output.arrays) :]
    pull = lambda cotangents: pullbacks.whole(pullback(cotangents), primals)  # noqa: E731
    if laid.in_use:
        pull = constraint.following(pull, primals)
    if axes.checked_axes():
        pull = _over_devices(pull, list(flat.output.among_differentiable(values)), primals)
    return flat.output, values, pull, flat.aux and flat.aux.rebuilt(extras)


def _over_devices(
    pull: Callable[..., Any], results: Sequence[Tensor], primals: Sequence[Tensor]
) -> Callable[..., list[Tensor]]:
    """Return a pullback of what varies over devices that takes and gives cotangents as JAX has them."""
    names = axes.checked_axes()
    ends, starts = list(map(varying.mark, results)), list(map(varying.mark, primals))
    return lambda cotangents: varying.gathered(
        pull(tuple(varying.spread(cotangents, ends, names) if ends else cotangents)), starts, names
    )


def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False, reduce_axes: Sequence[Any] = ()) -> Any:
    """Return `fun(*primals)` and the function that maps cotangents of the result to cotangents of the primals.

    With `has_aux`, `fun` returns (result, aux) and aux comes third. Integer primals get float0 cotangents.
    Raises `ValueError` from the returned function when a cotangent's structure, shape or dtype is not the result's.
    """
    check_callable(fun)
    _refuse_reduce_axes(reduce_axes)
    leaves, spec = tree.flatten((primals, {}))
    fun = with_numbers(fun, leaves, primals)
    arrays = [as_argument(leaf, "vjp") for leaf in leaves]
    chosen = [i for i, a in enumerate(arrays) if differentiable(a)]
    output, values, pull, aux = evaluated_with_pull(fun, as_given(arrays), spec, chosen, has_aux)
    result = output.rebuilt(values)
    ends = Ends.of(name_of(fun), tree.flatten(primals)[1], arrays, output.spec, output.arrays)
    pullback = VJP(without_aux(fun) if has_aux else fun, arrays, ends, pull)
    return (result, pullback, aux) if has_aux else (result, pullback)


def with_numbers(fun: Callable[..., Any], leaves: Sequence[Any], args: tuple[Any, ...]) -> Callable[..., Any]:
    """Return `fun` as a function that gets Python's integers and booleans among the leaves of `args` as they are.

    Nothing is differentiated for them, and the function may need them as Python has them: `range(n)`.
    """
    places = [i for i, leaf in enumerate(leaves) if type(leaf) in (int, bool)]
    if not places:
        return fun
    numbers, spec = [leaves[i] for i in places], tree.flatten(args)[1]

    @wraps(fun)
    def called(*given: Any) -> Any:
        return fun(*unflatten_subset(spec, tree.flatten(given)[0], places, numbers))

    return called


def without_aux(fun: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: fun(*args)[0]


def as_given(arrays: Sequence[Array]) -> list[Any]:
    """Return the arguments as the function gets them: it reads and writes the references that it is given."""
    return [a.ref if isinstance(a, RefArgument) else a for a in arrays]


def _refuse_reduce_axes(reduce_axes: Sequence[Any]) -> None:
    if reduce_axes:
        raise NotImplementedError("reduce_axes argument is deprecated in JAX and not supported; use lax.psum.")


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[..., tuple[Any, Any]]:
    """Return a function that gives both the value of the scalar function `fun` and its gradient.

    `argnums` says with respect to which positional arguments (an integer, or a sequence for a tuple of gradients).
    With `has_aux`, `fun` returns (value, aux) and the value becomes that pair. `holomorphic` allows complex results
    and needs complex inputs; `allow_int` gives integer inputs float0 gradients.
    Raises `TypeError` for inputs or outputs that have no gradient.
    """
    check_callable(fun)
    _refuse_reduce_axes(reduce_axes)
    positions = parse_argnums(argnums)

    @wraps(fun)
    def value_and_grad_f(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        leaves, spec = tree.flatten((args, kwargs))
        wanted = chosen_args(args, positions, argnums)
        starts = np.cumsum([0, *(len(tree.flatten(a)[0]) for a in args)]).tolist()
        selected = [i for p in wanted for i in range(starts[p], starts[p + 1])]
        for i in selected:
            leaves[i] = grad_input(leaves[i], "grad", holomorphic, allow_int)
        active = [i for i in selected if differentiable(leaves[i])]
        output, values, pull, aux = evaluated_with_pull(fun, leaves, spec, active, has_aux)
        result = _scalar_output(output, values, holomorphic)
        found = dict(zip(active, _pull(pull, [torch.ones_like(tensor_of(result))]), strict=True))
        gradients = {
            i: _gradient(found[i], leaves[i], holomorphic) if i in found else float0_zeros(leaves[i].shape)
            for i in selected
        }
        trees = [
            tree.flatten(args[p])[1].unflatten(gradients[i] for i in range(starts[p], starts[p + 1])) for p in wanted
        ]
        gradient = trees[0] if isinstance(positions, int) else tuple(trees)
        return ((result, aux) if has_aux else result), gradient

    return value_and_grad_f


def _gradient(tensor: Tensor, primal: Array, holomorphic: bool) -> Array:
    # What makes a real number of a complex one (real, imag, abs) has a gradient that is not weakly typed.
    is_of_real_value = primal.dtype.kind == "c" and not holomorphic
    return from_kind(tensor, False if is_of_real_value else primal.kind)


def parse_argnums(argnums: Any) -> int | tuple[int, ...]:
    """Return an `argnums` option as an integer or a tuple of integers. Raises `TypeError` for anything else."""
    if several(argnums):
        return tuple(map(operator.index, argnums))
    return operator.index(argnums)  # pyright: ignore


def chosen_args(args: tuple[Any, ...], positions: int | tuple[int, ...], argnums: Any) -> list[int]:
    """Return the positions that `argnums` means, counted from the front. Raises `TypeError` where there are too few arguments."""
    wanted = [positions] if isinstance(positions, int) else list(positions)
    highest = max((p + 1 if p >= 0 else -p for p in wanted), default=0)
    if highest > len(args):
        raise TypeError(
            f"differentiating with respect to {argnums=} requires at least {highest} positional arguments to be passed "
            f"by the caller, but got only {len(args)} positional arguments."
        )
    return [p % len(args) for p in wanted]


def grad_input(leaf: Any, name: str, holomorphic: bool, allow_int: bool) -> Array:
    """Return a leaf as an array that can be differentiated for. Raises `TypeError` where it cannot."""
    if not is_arraylike(leaf):
        raise TypeError(
            f"Argument {leaf!r} of type {type(leaf)} is not a valid JAX type: {name} needs arrays or scalars."
            f"{errors.way_from_torch(leaf)}"
        )
    array = as_argument(leaf, name)
    if isinstance(array.dtype, dtypes.ExtendedDType) and not allow_int:
        raise TypeError(f"{name} requires real- or complex-valued inputs, but got a random key ({array.dtype}).")
    if holomorphic and not dtypes.issubdtype(array.dtype, np.complexfloating):
        raise TypeError(f"{name} with holomorphic=True requires inputs with complex dtype, but got {array.dtype.name}.")
    if not differentiable(array) and not allow_int:
        raise TypeError(
            f"{name} requires real- or complex-valued inputs (input dtype that is a sub-dtype of np.inexact), but got "
            f"{array.dtype.name}. If you want to use Boolean- or integer-valued inputs, use vjp or set allow_int to True."
        )
    return array


def _scalar_output(output: Output, values: Sequence[Tensor], holomorphic: bool) -> Array:
    if len(values) != 1 or not output.spec.is_leaf():
        raise TypeError(f"Gradient only defined for scalar-output functions. Output was {output.rebuilt(values)}.")
    result = from_kind(values[0], output.kinds[0])
    if result.shape:
        raise TypeError(f"Gradient only defined for scalar-output functions. Output had shape: {result.shape}.")
    check_output(result, "grad", holomorphic)
    return result


def check_output(result: Array, name: str, holomorphic: bool) -> None:
    """Raise `TypeError` for a result that has no gradient."""
    kind = result.dtype.kind
    if holomorphic:
        if kind != "c":
            raise TypeError(
                f"{name} with holomorphic=True requires outputs with complex dtype, but got {result.dtype}."
            )
    elif kind == "c":
        raise TypeError(
            f"{name} requires real-valued outputs (output dtype that is a sub-dtype of np.floating), but got "
            f"{result.dtype.name}. For holomorphic differentiation, pass holomorphic=True. For differentiation of "
            "non-holomorphic functions involving complex outputs, use jax.vjp directly."
        )
    elif not differentiable(result):
        raise TypeError(
            f"{name} requires real-valued outputs (output dtype that is a sub-dtype of np.floating), but got "
            f"{result.dtype.name}. For differentiation of functions with integer outputs, use jax.vjp directly."
        )


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[..., Any]:
    """Return the gradient of the scalar function `fun`; the arguments are those of `value_and_grad`.

    With `has_aux` the returned function gives (gradient, aux).
    """
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)

    @wraps(fun)
    def grad_f(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return grad_f


# ------------------------------------------------------------------------------------------------------- forward mode


def jvp(fun: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool = False) -> Any:
    """Return `fun(*primals)` and its derivative along `tangents`; with `has_aux` also the auxiliary result.

    Raises `TypeError` or `ValueError` when a tangent's structure, dtype or shape is not its primal's.
    """
    check_callable(fun)
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise TypeError(
            "primal and tangent arguments to jax.jvp must be tuples or lists; found "
            f"{type(primals).__name__} and {type(tangents).__name__}."
        )
    leaves, spec = tree.flatten(primals)
    tangent_leaves, tangent_spec = tree.flatten(tangents)
    if spec != tangent_spec:
        raise TypeError(
            "primal and tangent arguments to jax.jvp must have the same tree structure; primals have tree structure "
            f"{tree.PyTreeDef(spec)} whereas tangents have tree structure {tree.PyTreeDef(tangent_spec)}."
        )
    if isinstance(primals, list):
        _, spec = tree.flatten(tuple(primals))
    fun = with_numbers(fun, leaves, tuple(primals))
    arrays = [as_argument(leaf, "jvp") for leaf in leaves]
    directions = [_tangent(t, a) for t, a in zip(tangent_leaves, arrays, strict=True)]
    result, out_tangents, aux = _push(fun, arrays, tangent_leaves, spec, directions, has_aux)
    return (result, out_tangents, aux) if has_aux else (result, out_tangents)


def _tangent(value: Any, primal: Array) -> Tensor | None:
    """Return the tensor of a tangent, None for the float0 tangent of an integer primal.

    The tangent of a reference is what another reference holds.
    """
    if isinstance(primal, RefArgument) and dtypes.is_inexact(primal.dtype):
        if not isinstance(value, Ref) or value.aval.str_short() != primal.ref.aval.str_short():
            raise TypeError(
                "primal and tangent arguments to jax.jvp do not match; the tangent of a mutable array reference is one of "
                f"the same type, but for {primal.ref.aval} got {value!r}."
            )
        return tensor_of(value._read())
    found = np.dtype(dtypes.float0) if getattr(value, "dtype", None) == dtypes.float0 else as_array(value).dtype
    narrow.check_differentiable(primal._tensor.dtype)
    expected = primal.dtype if differentiable(primal) else dtypes.float0
    if found != expected:
        raise TypeError(
            "primal and tangent arguments to jax.jvp do not match; dtypes must be equal, or in case of int/bool primal "
            f"dtype the tangent dtype must be float0. Got primal dtype {primal.dtype} and so expected tangent dtype "
            f"{expected}, but got tangent dtype {found} instead."
        )
    if tuple(value.shape if hasattr(value, "shape") else ()) != primal.shape:
        raise ValueError(
            "jvp called with different primal and tangent shapes; "
            f"Got primal shape {primal.shape} and tangent shape as {tuple(np.shape(value))}"
        )
    return None if expected == dtypes.float0 else tensor_of(as_array(value))


@in_own_dtypes
def _push(
    fun: Callable[..., Any], arrays: Sequence[Array], given_tangents: Sequence[Any], spec: Any,
    directions: Sequence[Tensor | None], has_aux: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    chosen = [i for i, d in enumerate(directions) if d is not None]
    leaves = as_given(arrays)
    rebuild: Rebuild = lambda values: (unflatten_subset(spec, leaves, chosen, values), {})  # noqa: E731
    flat = FlatFunction(fun, [arrays[i].kind for i in chosen], rebuild, has_aux)

    def of_chosen(*tensors: Tensor) -> tuple[tuple[Tensor, ...], list[Tensor]]:
        found = flat(*tensors)
        results, held = found[: len(flat.output.arrays)], found[len(flat.output.arrays) :]
        active = flat.output.among_differentiable(results)
        return (*active, *held), [*results, *(flat.aux.tensors if flat.aux else [])]

    primals = [tensor_of(arrays[i]) for i in chosen]
    pushed, tangents, others = duals.jvp(of_chosen, primals, [d for d in directions if d is not None])
    output = flat.output
    values, extras = others[: len(output.arrays)], others[len(output.arrays) :]
    first = len(tangents) - len(flat.written)
    for position, place in enumerate(flat.written, first):
        for ref, held in ((leaves[chosen[place]], pushed), (given_tangents[chosen[place]], tangents)):
            ref._write(from_kind(held[position], ref._array.kind))
    found = iter(tangents)
    out = [from_kind(next(found), a.kind) if differentiable(a) else float0_zeros(a.shape) for a in output.arrays]
    return output.rebuilt(values), output.spec.unflatten(out), flat.aux and flat.aux.rebuilt(extras)


# -------------------------------------------------------------------------------------------------- linear functions


def _zeros_like(aval: ShapedArray, leaf: Any) -> Array:
    if isinstance(leaf, Array) and axes.checked_axes():
        return Array(torch.zeros_like(tensor_of(leaf)), aval.weak_type)  # zeros that vary over devices where it does
    return zeros_of(aval, device_of(leaf))


def linear_transpose(fun: Callable[..., Any], *primals: Any, reduce_axes: Sequence[Any] = ()) -> Callable[..., Any]:
    """Return the transpose of the linear function `fun`: it maps cotangents of the result to those of `primals`.

    `primals` give types only: arrays or `ShapeDtypeStruct`s. `fun` is evaluated at zeros.
    Raises `TypeError` when the cotangent's type is not that of the result.
    """
    _refuse_reduce_axes(reduce_axes)
    leaves, spec = tree.flatten(primals)
    avals = [aval_of(leaf) for leaf in leaves]
    zeros = spec.unflatten(map(_zeros_like, avals, leaves))
    if not all(dtypes.is_inexact(a.dtype) for a in avals):
        raise NotImplementedError(
            "linear_transpose needs floating or complex primals: torch does not differentiate integers. "
            "Cast them to float first."
        )

    def linear(*args: Any) -> Any:
        with linear_at(axes.current_level()):
            return fun(*args)

    _, pullback = vjp(linear, *zeros)

    def transposed_fun(out_cotangent: Any) -> Any:
        try:
            return pullback(out_cotangent)
        except ValueError as error:
            raise TypeError(f"cotangent type does not match function output: {error}") from None

    return transposed_fun
