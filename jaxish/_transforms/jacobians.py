"""Jacobians and Hessians: one basis vector per row or column, mapped over by vmap."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from .._core import dtypes, tree
from .._core.array import Array, as_array, tensor_of
from .autodiff import check_output, chosen_args, grad_input, jvp, parse_argnums, vjp
from .flat import as_argument, check_callable, differentiable, wraps
from .vmap import vmap


def jacfwd(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """Return the Jacobian of `fun`, column by column in forward mode: best for more outputs than inputs.

    Each leaf of the result has the output's dimensions, then the input's. `argnums`, `has_aux`: as in `grad`.
    """
    check_callable(fun)
    positions = parse_argnums(argnums)

    @wraps(fun)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        wanted = chosen_args(args, positions, argnums)
        given = args[wanted[0]] if isinstance(positions, int) else tuple(args[p] for p in wanted)
        leaves, spec = tree.flatten(given)
        arrays = [_jacfwd_input(leaf, holomorphic) for leaf in leaves]

        def of_given(*values: Any) -> Any:
            rebuilt = spec.unflatten(values)
            replaced = dict(zip(wanted, [rebuilt] if isinstance(positions, int) else rebuilt, strict=True))
            return fun(*(replaced.get(p, a) for p, a in enumerate(args)), **kwargs)

        def push(*tangents: Any) -> Any:
            out = jvp(of_given, tuple(arrays), tangents, has_aux)
            return (out[0], out[1], out[2]) if has_aux else (out[0], out[1], None)

        value, columns, aux = vmap(push, out_axes=(None, -1, None))(*_standard_basis(arrays))
        for leaf in tree.flatten(value)[0]:
            if holomorphic:
                check_output(as_array(leaf), "jacfwd", holomorphic)
        split = _split_last(columns, arrays, spec)
        return (split, aux) if has_aux else split

    return jacobian


def _jacfwd_input(leaf: Any, holomorphic: bool) -> Array:
    array = as_argument(leaf, "jacfwd")
    if holomorphic and array.dtype.kind != "c":
        raise TypeError(f"jacfwd with holomorphic=True requires inputs with complex dtype, but got {array.dtype.name}.")
    if not holomorphic and (not differentiable(array) or array.dtype.kind == "c"):
        raise TypeError(
            "jacfwd requires real-valued inputs (input dtype that is a sub-dtype of np.floating), but got "
            f"{array.dtype.name}. For holomorphic differentiation, pass holomorphic=True. For differentiation of "
            "non-holomorphic functions involving complex inputs or integer inputs, use jax.jvp directly."
        )
    return array


def jacrev(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """Return the Jacobian of `fun`, row by row in reverse mode: best for more inputs than outputs.

    Each leaf of the result has the output's dimensions, then the input's. The arguments are those of `grad`.
    """
    check_callable(fun)
    positions = parse_argnums(argnums)

    @wraps(fun)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        wanted = chosen_args(args, positions, argnums)
        given = args[wanted[0]] if isinstance(positions, int) else tuple(args[p] for p in wanted)
        leaves, spec = tree.flatten(given)
        for leaf in leaves:
            grad_input(leaf, "jacrev", holomorphic, allow_int)

        def of_given(value: Any) -> Any:
            replaced = dict(zip(wanted, [value] if isinstance(positions, int) else value, strict=True))
            return fun(*(replaced.get(p, a) for p, a in enumerate(args)), **kwargs)

        value, pullback, *aux = vjp(of_given, given, has_aux=has_aux)
        outs, out_spec = tree.flatten(value)
        for leaf in outs:
            check_output(leaf, "jacrev", holomorphic)
        basis = _standard_basis(outs)
        rows = vmap(lambda *cts: pullback(out_spec.unflatten(cts))[0])(*basis)
        split = [_split_first(leaf, outs) for leaf in tree.flatten(rows)[0]]
        result = out_spec.unflatten(spec.unflatten(parts[i] for parts in split) for i in range(len(outs)))
        return (result, aux[0]) if has_aux else result

    return jacobian


def _split_first(rows: Any, outs: Sequence[Array]) -> list[Any]:
    """Split the leading dimension of `rows`, one row per output element, by outputs."""
    if not isinstance(rows, Array):
        starts = np.cumsum([0, *(o.size for o in outs)])
        return [
            rows[a:b].reshape((*o.shape, *rows.shape[1:])) for a, b, o in zip(starts, starts[1:], outs, strict=False)
        ]
    parts = tensor_of(rows).split([o.size for o in outs])
    return [Array(p.reshape((*o.shape, *p.shape[1:])), rows._weak) for p, o in zip(parts, outs, strict=True)]


def _split_last(columns: Any, inputs: Sequence[Array], spec: Any) -> Any:
    """Split the trailing dimension of each leaf, one column per input element, into the tree of inputs."""

    def split(leaf: Any) -> Any:
        if not isinstance(leaf, Array):
            return spec.unflatten(np.zeros((*leaf.shape[:-1], *a.shape), dtypes.float0) for a in inputs)
        parts = tensor_of(leaf).split([a.size for a in inputs], dim=-1)
        shapes = ((*leaf.shape[:-1], *a.shape) for a in inputs)
        return spec.unflatten(Array(p.reshape(s), leaf._weak) for p, s in zip(parts, shapes, strict=True))

    leaves, out_spec = tree.flatten(columns)
    return out_spec.unflatten(map(split, leaves))


def _standard_basis(arrays: Sequence[Array]) -> list[Array]:
    """Return for each array a batch of as many unit vectors as all arrays have elements together."""
    total, start, basis = sum(a.size for a in arrays), 0, []
    for array in arrays:
        tensor = tensor_of(array)
        rows = torch.arange(total, dtype=torch.int32, device=tensor.device).unsqueeze(1)
        columns = torch.arange(start, start + array.size, dtype=torch.int32, device=tensor.device)
        basis.append(Array((rows == columns).to(tensor.dtype).reshape((total, *array.shape)), array._weak))
        start += array.size
    return basis


jacobian = jacrev


def hessian(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """Return the Hessian of `fun`, forward over reverse: leaves have the output's and twice the input's dimensions."""
    return jacfwd(
        jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic),
        argnums,
        has_aux=has_aux,
        holomorphic=holomorphic,
    )
