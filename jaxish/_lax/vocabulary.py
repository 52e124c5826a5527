"""JAX's primitives by name, as `jax.lax` lists them (`sin_p`, `dot_general_p`): what computes each.

A primitive of JAX is a function of `jax.lax` under its name in equations, or with other parameters than that function:
`reduce_sum_p.bind(x, axes=(0,), out_sharding=None)`. Control flow runs on the graphs of its jaxprs.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core import dtypes
from .._core.array import Array, as_array, tensor_of
from .._core.promotion import convert
from .._jaxprs.ir import ClosedJaxpr, Jaxpr, eval_jaxpr
from .._jaxprs.primitive import Primitive, define, named, names
from .._jaxprs.raising import graph_of
from .._transforms.autodiff import jvp, vjp
from .._transforms.placement import device_put, with_sharding_constraint
from .._transforms.program import Call
from .._transforms.remat import Checkpoint, checkpoint_name
from . import (
    autodiff_barriers,
    elementwise,
    fourier,
    gather_scatter,
    parallel,
    reductions,
    shapes,
    special,
    tokens,
    transcendental,
    windows,
)
from .contraction import dot_general
from .control_flow.cond import Cond
from .control_flow.scan import Scan
from .control_flow.solves import LinearSolve
from .control_flow.while_loop import While
from .convolution import conv_general_dilated
from .custom_calls import custom_jvp_call, custom_vjp_call, jvp_bind_params, vjp_bind_params
from .dynamic_slices import dynamic_slice, dynamic_update_slice
from .linalg.vocabulary import of_linalg
from .operands import arrays_of, in_types
from .random_bits import rng_bit_generator, rng_uniform
from .reductions import IDENTITIES
from .sorting import approx_max_k, approx_min_k, sort, top_k


def _exactly(x: Any, dtype: Any) -> Array:
    """Return `x` in a dtype, 64 bits wide ones too whatever jax_enable_x64 says: torch's own indices are."""
    return Array(convert(tensor_of(as_array(x)), dtypes.to_torch(dtype)))


def _convert_element_type(x: Any, *, new_dtype: Any, weak_type: bool = False, sharding: Any = None) -> Array:
    return Array(tensor_of(_exactly(x, new_dtype)), weak_type)


def _bitcast_convert_type(x: Any, *, new_dtype: Any) -> Array:
    if np.dtype(new_dtype).itemsize == as_array(x).itemsize:
        return Array(tensor_of(as_array(x)).view(dtypes.to_torch(np.dtype(new_dtype))))
    return elementwise.bitcast_convert_type(x, new_dtype)


def _iota(*, dtype: Any, shape: Sequence[int], dimension: int, sharding: Any = None) -> Array:
    return _exactly(shapes.broadcasted_iota("int32", shape, dimension), dtype)


def _broadcast_in_dim(x: Any, *, shape: Any, broadcast_dimensions: Sequence[int], sharding: Any = None) -> Array:
    return shapes.broadcast_in_dim(x, shape, broadcast_dimensions, out_sharding=sharding)


def _reshape(x: Any, *, new_sizes: Any, dimensions: Any = None, sharding: Any = None) -> Array:
    return shapes.reshape(x, new_sizes, dimensions, out_sharding=sharding)


def _extreme_index(function: Callable[..., Array]) -> Callable[..., Array]:
    def run(x: Any, *, axes: Sequence[int], index_dtype: Any) -> Array:
        return _exactly(function(x, axes[0], "int32"), index_dtype)

    return run


def _dynamic_slice(x: Any, *starts: Any, slice_sizes: Sequence[int]) -> Array:
    return dynamic_slice(x, starts, slice_sizes, allow_negative_indices=False)


def _dynamic_update_slice(x: Any, update: Any, *starts: Any) -> Array:
    return dynamic_update_slice(x, update, starts, allow_negative_indices=False)


def _scatter(function: Callable[..., Array]) -> Callable[..., Array]:
    def run(
        x: Any, indices: Any, updates: Any, *, update_jaxpr: Any = None, update_consts: Any = (), **params: Any
    ) -> Array:
        return function(x, indices, updates, **params)

    return run


def _sort(*operands: Any, dimension: int, is_stable: bool, num_keys: int) -> list[Array]:
    return list(sort(operands, dimension, is_stable, num_keys))


def _collective(function: Callable[..., Any]) -> Callable[..., list[Array]]:
    def run(*operands: Any, axes: Sequence[Any], axis_index_groups: Any = None) -> list[Array]:
        return [function(x, tuple(axes), axis_index_groups=axis_index_groups) for x in operands]

    return run


def _axis_index(*, axis_name: Any) -> Array:
    return parallel.axis_index(axis_name)


def _all_gather(x: Any, *, axis_name: Any, all_gather_dimension: int = 0, axis_index_groups: Any = None,
                axis_size: int | None = None, tiled: bool = False) -> Array:  # fmt: skip
    return parallel.all_gather(
        x, axis_name, axis_index_groups=axis_index_groups, axis=all_gather_dimension, tiled=tiled
    )


def _ppermute(x: Any, *, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Array:
    return parallel.ppermute(x, axis_name, perm)


def _reduce_scatter(x: Any, *, axis_name: Any, axis_size: int | None = None, **params: Any) -> Array:
    return parallel.psum_scatter(x, axis_name, **params)


def _ragged_all_to_all(*operands: Any, axis_name: Any, axis_index_groups: Any = None) -> Any:
    return parallel.ragged_all_to_all(*operands, axis_name=axis_name, axis_index_groups=axis_index_groups)


def _approx_top_k(x: Any, *, k: int, is_max_k: bool, **params: Any) -> list[Array]:
    return (approx_max_k if is_max_k else approx_min_k)(x, k, **params)


def _device_put(*xs: Any, devices: Sequence[Any], srcs: Any = None, copy_semantics: Any = None) -> list[Array]:
    return [device_put(x, device) for x, device in zip(xs, devices, strict=True)]


def _sharding_constraint(x: Any, *, sharding: Any, **_options: Any) -> Array:
    return with_sharding_constraint(x, sharding)


def _in_total_order(compare: Callable[[Any, Any], Array]) -> Callable[[Any, Any], Array]:
    """Return a comparison in which -0.0 comes before 0.0, NaN last, and -NaN first."""

    def run(x: Any, y: Any) -> Array:
        return compare(_place(as_array(x)), _place(as_array(y)))

    return run


def _place(x: Array) -> Array:
    if not dtypes.issubdtype(x.dtype, np.floating):
        return x
    bits = _bitcast_convert_type(x, new_dtype=np.dtype(f"int{8 * x.itemsize}"))
    return elementwise.select_n(elementwise.lt(bits, 0), bits, elementwise.bitwise_xor(bits, np.iinfo(bits.dtype).max))


# ------------------------------------------------------------------------------------------------------------ windows


def _from_identity(computation: Callable[[Any, Any], Array]) -> Callable[..., Array]:
    def run(x: Any, **moves: Any) -> Array:
        operand = as_array(x)
        first = IDENTITIES[computation](tensor_of(operand).dtype)
        return windows.reduce_window(operand, np.asarray(first, operand.dtype), computation, **moves)

    return run


_window_max, _window_min = _from_identity(elementwise.max), _from_identity(elementwise.min)


def _of_selection(select_prim: Primitive) -> Callable[..., Array]:
    return _window_max if select_prim.name == "ge" else _window_min


def _select_and_scatter_add(source: Any, operand: Any, *, select_prim: Primitive, **moves: Any) -> Array:
    """Return what `source` adds up to where the greatest (or least) elements of the windows of `operand` stand."""
    ones = (1,) * len(moves["window_dimensions"])
    run = _of_selection(select_prim)
    return vjp(lambda x: run(x, **moves, base_dilation=ones, window_dilation=ones), operand)[1](source)[0]


def _select_and_gather_add(tangents: Any, operand: Any, *, select_prim: Primitive, **moves: Any) -> Array:
    """Return the elements of `tangents` where the greatest (or least) elements of the windows of `operand` stand."""
    run = _of_selection(select_prim)
    return jvp(lambda x: run(x, **moves), (operand,), (tangents,))[1]


def _select_and_scatter(*operands: Any, **params: Any) -> Array:
    raise NotImplementedError("select_and_scatter is not supported; differentiate lax.reduce_window, which scatters.")


# -------------------------------------------------------------------------------------------------------- with jaxprs


def _computation(jaxpr: ClosedJaxpr) -> Callable[[Sequence[Any], Sequence[Any]], list[Any]]:
    return lambda a, b: list(eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *a, *b))


def _reduce(
    *args: Any, jaxpr: ClosedJaxpr, dimensions: Sequence[int], computation: Any = None, out_sharding: Any = None
) -> list[Array]:
    half = len(args) // 2
    return reductions.reduce(list(args[:half]), list(args[half:]), _computation(jaxpr), dimensions, out_sharding)


def _reduce_window(*args: Any, jaxpr: ClosedJaxpr, consts: Sequence[Any] = (), **moves: Any) -> list[Array]:
    half = len(args) // 2
    return windows.reduce_window(list(args[:half]), list(args[half:]), _computation(jaxpr), **moves)


def _custom_linear_solve(*args: Any, const_lengths: Sequence[int], jaxprs: Sequence[ClosedJaxpr | None]) -> list[Array]:
    graphs = [None if jaxpr is None else graph_of(jaxpr) for jaxpr in jaxprs]
    captured = [body.in_types[:n] for body, n in zip(graphs, const_lengths, strict=True) if body is not None]
    solver = graphs[2]
    assert solver is not None
    types = [type for group in captured for type in group] + list(solver.in_types[const_lengths[2] :])
    return arrays_of(LinearSolve(graphs, const_lengths)(*in_types(args, types)))


def _jit(*args: Any, jaxpr: ClosedJaxpr, name: str = "", **_options: Any) -> list[Array]:
    body = graph_of(jaxpr)
    return arrays_of(Call(body, name)(*in_types(args, body.in_types)))


def _call(*args: Any, subfuns: Sequence[Any] = (), call_jaxpr: Jaxpr | ClosedJaxpr | None = None) -> list[Array]:
    """Call the function that a program wrapped, or the jaxpr of an equation."""
    if call_jaxpr is None:
        (function,) = subfuns
        return list(function.call_wrapped(*args))
    body = graph_of(call_jaxpr if isinstance(call_jaxpr, ClosedJaxpr) else ClosedJaxpr(call_jaxpr, []))
    return arrays_of(Call(body, "call")(*in_types(args, body.in_types)))


def _scan(
    *args: Any, jaxpr: ClosedJaxpr, length: int, reverse: bool, num_consts: int, num_carry: int, unroll: int
) -> list[Array]:
    body = graph_of(jaxpr)
    fixed = num_consts + num_carry
    tensors = [*in_types(args[:fixed], body.in_types[:fixed]), *(tensor_of(as_array(x)) for x in args[fixed:])]
    return arrays_of(Scan(body, num_consts, num_carry, length, reverse, unroll)(*tensors))


def _while(
    *args: Any, cond_jaxpr: ClosedJaxpr, body_jaxpr: ClosedJaxpr, cond_nconsts: int, body_nconsts: int
) -> list[Array]:
    cond, body = graph_of(cond_jaxpr), graph_of(body_jaxpr)
    types = [*cond.in_types[:cond_nconsts], *body.in_types]
    return arrays_of(While(cond, body, cond_nconsts, body_nconsts)(*in_types(args, types)))


def _cond(index: Any, *args: Any, branches: Sequence[ClosedJaxpr], **_options: Any) -> list[Array]:
    bodies = [graph_of(b) for b in branches]
    place = elementwise.clamp(np.int32(0), _exactly(index, np.dtype("int32")), np.int32(len(bodies) - 1))
    return arrays_of(Cond(bodies)(tensor_of(place), *in_types(args, bodies[0].in_types)))


def _checkpoint(
    *args: Any, jaxpr: Jaxpr | ClosedJaxpr, policy: Any, prevent_cse: Any = True, **_options: Any
) -> list[Array]:
    body = graph_of(jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, []))
    return arrays_of(Checkpoint(body, policy, prevent_cse)(*in_types(args, body.in_types)))


# ---------------------------------------------------------------------------------------------------------- the table

# Where a function of lax has the primitive's name (or the one behind the colon), operands and parameters.
_SAME = {
    elementwise: (
        "abs add sub mul div rem max min neg sign floor ceil round is_finite square integer_pow pow nextafter mulhi complex "
        "real imag conj eq ne lt le gt ge and:bitwise_and or:bitwise_or xor:bitwise_xor not:bitwise_not clamp "
        "select_n shift_left shift_right_arithmetic shift_right_logical population_count clz reduce_precision stage"
    ),
    transcendental: (
        "exp exp2 expm1 log log1p sin cos tan tanh logistic sqrt rsqrt cbrt asin acos atan atan2 sinh cosh asinh acosh "
        "atanh"
    ),
    special: (
        "erf erfc erf_inv lgamma digamma igamma igammac igamma_grad_a bessel_i0e bessel_i1e zeta polygamma "
        "regularized_incomplete_beta:betainc"
    ),
    shapes: "transpose squeeze rev pad slice tile",
    reductions: (
        "reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or reduce_xor cumsum cumprod cummax cummin "
        "cumlogsumexp"
    ),
    autodiff_barriers: "stop_gradient",
}
for _module, _listed in _SAME.items():
    for _entry in _listed.split():
        _name, _, _function = _entry.partition(":")
        define(_name, getattr(_module, _function or _name))

for _name, _run in {
    "add_any": elementwise.add,
    "copy": lambda x: as_array(x),
    "convert_element_type": _convert_element_type,
    "bitcast_convert_type": _bitcast_convert_type,
    "iota": _iota,
    "broadcast_in_dim": _broadcast_in_dim,
    "reshape": _reshape,
    "concatenate": lambda *operands, dimension: shapes.concatenate(operands, dimension),
    "stack": lambda *operands, axis: shapes.stack(operands, axis),
    "argmax": _extreme_index(reductions.argmax),
    "argmin": _extreme_index(reductions.argmin),
    "dot_general": dot_general,
    "conv_general_dilated": conv_general_dilated,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": gather_scatter.gather,
    "fft": fourier.fft,
    "axis_index": _axis_index,
    "all_gather": _all_gather,
    "all_to_all": parallel.all_to_all,
    "ppermute": _ppermute,
    "reduce_scatter": _reduce_scatter,
    "ragged_all_to_all": _ragged_all_to_all,
    "reduce_window_sum": _from_identity(elementwise.add),
    "reduce_window_max": _window_max,
    "reduce_window_min": _window_min,
    "select_and_scatter": _select_and_scatter,
    "select_and_scatter_add": _select_and_scatter_add,
    "select_and_gather_add": _select_and_gather_add,
    "eq_to": _in_total_order(elementwise.eq),
    "le_to": _in_total_order(elementwise.le),
    "lt_to": _in_total_order(elementwise.lt),
    "rng_uniform": rng_uniform,
    "sharding_constraint": _sharding_constraint,
    "create_token": tokens.create_token,
    "after_all": tokens.after_all,
    "name": lambda x, *, name: checkpoint_name(x, name),
    **{
        name: _scatter(getattr(gather_scatter, name.replace("-", "_")))
        for name in ("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max")
    },
}.items():
    define(_name, _run)

for _name, _run in {
    "split": lambda x, *, sizes, axis: shapes.split(x, sizes, axis),
    "unstack": lambda x, *, axis: list(shapes.unstack(x, axis)),
    "sort": _sort,
    "top_k": lambda x, *, k, axis=-1: top_k(x, k, axis=axis),
    "optimization_barrier": lambda *operands: list(autodiff_barriers.optimization_barrier(operands)),
    "psum": _collective(parallel.psum),
    "pmax": _collective(parallel.pmax),
    "pmin": _collective(parallel.pmin),
    "approx_top_k": _approx_top_k,
    "rng_bit_generator": lambda key, *, shape, **params: list(rng_bit_generator(key, shape, **params)),
    "device_put": _device_put,
    "dce_sink": lambda *operands: tokens.dce_sink(operands) or [],
    "reduce": _reduce,
    "reduce_window": _reduce_window,
    "custom_linear_solve": _custom_linear_solve,
    "jit": _jit,
    "call": _call,
    "closed_call": _call,
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "custom_jvp_call": custom_jvp_call,
    "custom_vjp_call": custom_vjp_call,
    "remat2": _checkpoint,
}.items():
    define(_name, _run, multiple_results=True)


for _name in ("call", "closed_call"):
    named(_name).call_primitive = True


# Those that `jax.lax` does not list, under the names that `jax.extend.core.primitives` has for them.
_BESIDE_LAX = {
    "add_any": "add_jaxvals_p",
    "call": "call_p",
    "remat2": "remat_p",
    "closed_call": "closed_call_p",
    "custom_jvp_call": "custom_jvp_call_p",
    "custom_vjp_call": "custom_vjp_call_p",
    "jit": "jit_p",
    "name": "name_p",
}


# Those that `jax.lax` alone lists.
_IN_LAX_ONLY = {
    "dce_sink", "mulhi", "optimization_barrier", "scatter-sub", "split", "stack", "stage", "tile", "unstack"
}  # fmt: skip
# Those that neither lists: keys as their words, calls with notes.
_UNLISTED = {
    "random_wrap", "random_unwrap", "reduce_scatter", "compute_on", "xla_metadata_call", "custom_partitioning",
    "cholesky_update", "lu_pivots_to_permutation", "ormqr", "symmetric_product",
}  # fmt: skip


def of_lax() -> dict[str, Primitive]:
    """Return the primitives that `jax.lax` lists, by the names that they have there: `sin_p`, `scatter_add_p`."""
    others = {*_BESIDE_LAX, *_UNLISTED, *(p.name for p in of_linalg().values())}
    return {_attribute(name): named(name) for name in names() if name not in others and name[:7] != "random_"}


def of_extend() -> dict[str, Primitive]:
    """Return the primitives that `jax.extend.core.primitives` lists, by the names that they have there."""
    listed = (name for name in names() if name not in _IN_LAX_ONLY | _UNLISTED)
    return {_BESIDE_LAX.get(name) or _attribute(name): named(name) for name in listed}


def _attribute(name: str) -> str:
    return "linear_solve_p" if name == "custom_linear_solve" else f"{name.replace('-', '_')}_p"


custom_jvp_call_p, custom_vjp_call_p = named("custom_jvp_call"), named("custom_vjp_call")
custom_jvp_call_p.bind_params, custom_vjp_call_p.bind_params = jvp_bind_params, vjp_bind_params
