"""torch's operators as equations: for each operator that JAX has words for, what writes them.

A rule is called as `rule(raising, out, *args, **kwargs)` with the operator's arguments, atoms in the place of arrays, and
the type of the result (a list of several); it returns the atom of the result, or None where JAX has no word for this use.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from .._core.avals import ShapedArray
from .ir import Atom, Literal, Var
from .operands import aligned, broadcast, common_dtype, converted, elementwise, expanded, is_floating, literal, ranged

aten = torch.ops.aten
Rule = Callable[..., Any]  # Atom | list[Atom] | None


def rule_for(target: Any) -> Rule | None:
    """Return the rule of an operator, None where it keeps torch's name."""
    return RULES.get(target) or RULES.get(target.overloadpacket)


# --------------------------------------------------------------------------------------------------------- elementwise


def _unary(name: str, **params: Any) -> Rule:
    def rule(r: Any, out: ShapedArray, x: Atom, **_: Any) -> Atom:
        return r.emit(name, [converted(r, x, out.dtype) if is_floating(out.dtype) else x], params, out)

    return rule


def _of_parts(name: str, **params: Any) -> Rule:
    """The rule of a function whose result has another dtype than its operand."""
    return lambda r, out, x, **_: r.emit(name, [x], params, out)


def _binary(name: str, **params: Any) -> Rule:
    def rule(r: Any, out: ShapedArray, x: Any, y: Any, alpha: Any = 1, rounding_mode: Any = None) -> Atom | None:
        if rounding_mode is not None:
            return None
        if out.dtype == np.bool_:
            return _logical(_OF_BOOLEANS[name])(r, out, x, y) if name in _OF_BOOLEANS else None
        if alpha != 1:
            y = elementwise(r, out, "mul", [y, alpha], out.dtype, out_dtype=None)
        return elementwise(r, out, name, [x, y], out.dtype, **params)

    return rule


_OF_BOOLEANS = {"add": "or", "mul": "and", "max": "or", "min": "and"}


def _comparison(name: str) -> Rule:
    def rule(r: Any, out: ShapedArray, x: Any, y: Any) -> Atom:
        dtype = common_dtype(x, y)
        if name == "ne" and dtype == np.bool_ and not isinstance(y, Var | Literal) and not y:
            return x
        return elementwise(r, out, name, [x, y], dtype)

    return rule


def _logical(name: str) -> Rule:
    def rule(r: Any, out: ShapedArray, *operands: Any) -> Atom | None:
        kinds = {x.aval.dtype == np.bool_ for x in operands if isinstance(x, Var | Literal)}
        if kinds != {out.dtype == np.bool_}:
            return None
        return elementwise(r, out, name, operands, out.dtype)

    return rule


def _power(r: Any, out: ShapedArray, x: Any, y: Any) -> Atom | None:
    if not isinstance(y, Var | Literal) and float(y).is_integer() and not isinstance(y, bool):
        x = converted(r, x, out.dtype)
        return x if y == 1 else r.emit("integer_pow", [x], {"y": int(y)}, out)
    return elementwise(r, out, "pow", [x, y], out.dtype) if is_floating(out.dtype) else None


def _clamp(r: Any, out: ShapedArray, x: Atom, low: Any = None, high: Any = None) -> Atom:
    scalar = all(not isinstance(b, Var | Literal) or not b.aval.shape for b in (low, high))
    dtype = out.dtype
    if low is not None and high is not None and scalar:
        return r.emit("clamp", [converted(r, low, dtype), converted(r, x, dtype), converted(r, high, dtype)], {}, out)
    for name, bound in (("max", low), ("min", high)):
        if bound is not None:
            x = elementwise(r, out, name, [x, bound], dtype)
    return x


def _log2(r: Any, out: ShapedArray, x: Atom) -> Atom | None:
    if not is_floating(out.dtype):
        return None
    natural = _unary("log", accuracy=None)(r, out, x)
    base = r.emit("log", [literal(2, out.dtype)], {"accuracy": None}, ShapedArray((), out.dtype))
    return elementwise(r, out, "div", [natural, base], out.dtype)


def _log10(r: Any, out: ShapedArray, x: Atom) -> Atom | None:
    if not is_floating(out.dtype):
        return None
    natural = _unary("log", accuracy=None)(r, out, x)
    return elementwise(r, out, "mul", [natural, 1 / math.log(10)], out.dtype, out_dtype=None)


def _relu(r: Any, out: ShapedArray, x: Atom) -> Atom:
    # Not the maximum: half of that has a derivative at zero.
    return _where(r, out, elementwise(r, ShapedArray(out.shape, bool), "le", [x, 0], out.dtype), 0, x)


def _where(r: Any, out: ShapedArray, condition: Atom, x: Any, y: Any) -> Atom:
    shape, dtype = tuple(out.shape), out.dtype
    if condition.aval.dtype != bool:
        condition = r.emit(
            "ne", [condition, literal(0, condition.aval.dtype)], {}, ShapedArray(condition.aval.shape, bool)
        )
    if condition.aval.shape:
        condition = expanded(r, condition, shape)
    x, y = (expanded(r, converted(r, case, dtype), shape) for case in (x, y))
    return r.emit("select_n", [condition, y, x], {}, out)


def _is_infinite(r: Any, out: ShapedArray, x: Atom) -> Atom | None:
    if not is_floating(x.aval.dtype):
        return None
    size = r.emit("abs", [x], {}, x.aval)
    return elementwise(r, out, "eq", [size, math.inf], x.aval.dtype)


def _rounded(r: Any, out: ShapedArray, x: Atom, decimals: int = 0) -> Atom | None:
    return None if decimals else r.emit("round", [x], {"rounding_method": 1}, out)


# ------------------------------------------------------------------------------------------- dtypes, copies, constants


def _same(r: Any, out: ShapedArray, x: Atom, **_: Any) -> Atom:
    return x


def _detached(r: Any, out: ShapedArray, x: Atom) -> Atom:
    made = r.writer_of(x) if isinstance(x, Var) else None
    is_constant = isinstance(x, Literal) or (made is not None and not any(isinstance(a, Var) for a in made.invars))
    return x if is_constant else r.emit("stop_gradient", [x], {}, x.aval)


def _filled(value: Any) -> Rule:
    """The rule of what makes an array of one number, whatever its arguments, which are numbers and types."""
    return lambda r, out, *_, **__: expanded(r, literal(value, out.dtype), tuple(out.shape))


def _full(r: Any, out: ShapedArray, _: Any, value: Any, **__: Any) -> Atom | None:
    if isinstance(value, Var | Literal):
        return None
    return expanded(r, literal(value, out.dtype, not out.shape), tuple(out.shape))  # a number is as in `_scalar`


def _scalar(r: Any, out: ShapedArray, value: Any, **_: Any) -> Atom:
    return literal(value, out.dtype, True)  # what is promoted otherwise shows it by `convert_element_type`


def _bits(r: Any, out: ShapedArray, x: Atom, dtype: torch.dtype) -> Atom | None:
    if np.dtype(x.aval.dtype).itemsize != out.dtype.itemsize:
        return None
    return r.emit("bitcast_convert_type", [x], {"new_dtype": out.dtype}, out)


def _iota(r: Any, out: ShapedArray, *bounds: Any, **_: Any) -> Atom | None:
    start, step = (bounds[0] if len(bounds) > 1 else 0), (bounds[2] if len(bounds) > 2 else 1)
    if (start, step) != (0, 1) and is_floating(out.dtype):
        return None
    return ranged(r, out, start, step)


# ----------------------------------------------------------------------------------------------------------- shapes


def reshaped(r: Any, out: ShapedArray, x: Atom, *_: Any) -> Atom:
    """Return `x` in the shape of `out`."""
    shape = tuple(out.shape)
    if x.aval.shape == shape:
        return x
    return r.emit("reshape", [x], {"new_sizes": shape, "dimensions": None, "sharding": None}, out)


def _unsqueeze(r: Any, out: ShapedArray, x: Atom, dim: int) -> Atom:
    dim %= out.ndim
    return broadcast(r, x, out.shape, [i for i in range(out.ndim) if i != dim])


def _squeeze(r: Any, out: ShapedArray, x: Atom, dims: Any = None) -> Atom:
    shape = x.aval.shape
    if dims is None:
        dims = range(len(shape))
    dims = tuple(d % len(shape) for d in ((dims,) if isinstance(dims, int) else dims)) if shape else ()
    dims = tuple(d for d in dims if shape[d] == 1)
    return r.emit("squeeze", [x], {"dimensions": dims}, out) if dims else x


def _expand(r: Any, out: ShapedArray, x: Atom, *_: Any, **__: Any) -> Atom:
    shape = tuple(out.shape)
    dims = range(len(shape) - len(x.aval.shape), len(shape))
    return broadcast(r, x, shape, dims)


def _permute(r: Any, out: ShapedArray, x: Atom, dims: Sequence[int]) -> Atom:
    order = tuple(d % out.ndim for d in dims)
    if order == tuple(range(out.ndim)):
        return x
    return r.emit("transpose", [x], {"permutation": order}, out)


def _transpose(r: Any, out: ShapedArray, x: Atom, a: int = 0, b: int = 1) -> Atom:
    order = list(range(out.ndim))
    if out.ndim > 1:
        order[a], order[b] = order[b], order[a]
    return _permute(r, out, x, order)


def _slice(r: Any, out: ShapedArray, x: Atom, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Atom:
    shape = x.aval.shape
    size = shape[dim]
    begin, stop, _ = slice(start, end).indices(size)
    if (begin, stop, step) == (0, size, 1):
        return x
    starts, limits = [0] * len(shape), list(shape)
    starts[dim], limits[dim] = begin, max(stop, begin)
    strides = None
    if step != 1:
        strides = [1] * len(shape)
        strides[dim] = step
        strides = tuple(strides)
    params = {"start_indices": tuple(starts), "limit_indices": tuple(limits), "strides": strides}
    return r.emit("slice", [x], params, out)


def _row(r: Any, x: Atom, dim: int, index: int) -> Atom:
    shape = list(x.aval.shape)
    dim %= len(shape)
    starts, limits = [0] * len(shape), list(shape)
    starts[dim] = index % shape[dim]
    limits[dim] = starts[dim] + 1
    params = {"start_indices": tuple(starts), "limit_indices": tuple(limits), "strides": None}
    part = r.emit("slice", [x], params, ShapedArray([*shape[:dim], 1, *shape[dim + 1 :]], x.aval.dtype))
    rest = ShapedArray([*shape[:dim], *shape[dim + 1 :]], x.aval.dtype)
    return r.emit("squeeze", [part], {"dimensions": (dim,)}, rest)


def _select(r: Any, out: ShapedArray, x: Atom, dim: int, index: int) -> Atom:
    made = r.writer_of(x)
    if made is not None and made.primitive.name == "view_as_real" and dim % len(x.aval.shape) == out.ndim:
        return r.emit(("real", "imag")[index], made.invars, {}, out)
    return _row(r, x, dim, index)


def _unbind(r: Any, out: Sequence[ShapedArray], x: Atom, dim: int = 0) -> list[Atom]:
    return [_row(r, x, dim, i) for i in range(x.aval.shape[dim])]


def _split(r: Any, out: Sequence[ShapedArray], x: Atom, _: Any, dim: int = 0) -> list[Atom]:
    ends = np.cumsum([0, *(t.shape[dim] for t in out)]).tolist()
    return [_slice(r, t, x, dim, start, end) for t, start, end in zip(out, ends, ends[1:], strict=False)]


def _reversed(r: Any, out: ShapedArray, x: Atom, dims: Sequence[int]) -> Atom:
    return r.emit("rev", [x], {"dimensions": tuple(d % out.ndim for d in dims)}, out)


def _concatenate(r: Any, out: ShapedArray, parts: Sequence[Atom], dim: int = 0) -> Atom:
    parts = [converted(r, p, out.dtype) for p in parts if len(p.aval.shape) == out.ndim]
    return parts[0] if len(parts) == 1 else r.emit("concatenate", parts, {"dimension": dim % out.ndim}, out)


def _stacked(r: Any, out: ShapedArray, parts: Sequence[Atom], dim: int = 0) -> Atom:
    dim %= out.ndim
    shape = (*out.shape[:dim], 1, *out.shape[dim + 1 :])
    rows = [converted(r, p, out.dtype) for p in parts]
    if len(rows) == 1:
        return broadcast(r, rows[0], shape, [d for d in range(out.ndim) if d != dim])
    return r.emit("stack", rows, {"axis": dim}, out)


def _tiled(r: Any, out: ShapedArray, x: Atom, reps: Sequence[int]) -> Atom:
    x = broadcast(r, x, (1,) * (out.ndim - len(x.aval.shape)) + x.aval.shape, _last(x, out.ndim))
    return r.emit("tile", [x], {"reps": tuple(reps)}, out)


def _last(x: Atom, rank: int) -> range:
    """Return the last dimensions of a result of this rank, as many as `x` has."""
    return range(rank - len(x.aval.shape), rank)


def _padded(r: Any, out: ShapedArray, x: Atom, pads: Sequence[int], value: Any = 0) -> Atom | None:
    sides = [(low, high, 0) for low, high in zip(pads[::2], pads[1::2], strict=True)][::-1]
    config = ((0, 0, 0),) * (out.ndim - len(sides)) + tuple(sides)
    return r.emit("pad", [x, converted(r, value, out.dtype)], {"padding_config": config}, out)


# --------------------------------------------------------------------------------------------- reductions and products


def _axes(rank: int, dims: Any) -> tuple[int, ...]:
    if dims is None or (isinstance(dims, list | tuple) and not dims):
        return tuple(range(rank))
    return tuple(sorted(d % rank for d in ((dims,) if isinstance(dims, int) else dims))) if rank else ()


def _reduction(name: str, **params: Any) -> Rule:
    def rule(r: Any, out: ShapedArray, x: Atom, dims: Any = None, keepdim: bool = False, **_: Any) -> Atom:
        x = converted(r, x, out.dtype)
        axes = _axes(len(x.aval.shape), dims)
        rest = [n for i, n in enumerate(x.aval.shape) if i not in axes]
        if axes:
            x = r.emit(name, [x], {"axes": axes, **params}, ShapedArray(rest, out.dtype))
        return broadcast(r, x, out.shape, [i for i in range(out.ndim) if i not in axes]) if keepdim else x

    return rule


_sum = _reduction("reduce_sum", out_sharding=None)


def _mean(r: Any, out: ShapedArray, x: Atom, dims: Any = None, keepdim: bool = False, **_: Any) -> Atom:
    total = _sum(r, out, x, dims, keepdim)
    count = math.prod(x.aval.shape[i] for i in _axes(len(x.aval.shape), dims))
    return elementwise(r, out, "div", [total, count], out.dtype)


def _sorted(
    r: Any, out: Sequence[ShapedArray], x: Atom, *_: Any, stable: bool = True, dim: int = -1, descending: bool = False
) -> list[Atom] | None:
    if descending or not x.aval.shape:
        return None
    dim %= len(x.aval.shape)
    params = {"dimension": dim, "is_stable": True, "num_keys": 1}
    places = {"dtype": out[1].dtype, "shape": x.aval.shape, "dimension": dim, "sharding": None}
    places = r.emit("iota", [], places, out[1])
    # One for values, one for positions: what nothing reads is left out.
    (values,) = r.emit_several("sort", [x], params, [x.aval])
    return [values, r.emit_several("sort", [x, places], params, [x.aval, places.aval])[1]]


def _softmax(r: Any, out: ShapedArray, x: Atom, dim: int, *_: Any) -> Atom:
    powers, total = _shifted(r, out, x, dim)[1:]
    return elementwise(r, out, "div", [powers, total], out.dtype)


def _log_softmax(r: Any, out: ShapedArray, x: Atom, dim: int, *_: Any) -> Atom:
    shifted, total = _shifted(r, out, x, dim)[::2]
    return elementwise(
        r, out, "sub", [shifted, elementwise(r, out, "log", [total], out.dtype, accuracy=None)], out.dtype
    )


def _softmax_backward(r: Any, out: ShapedArray, cotangent: Atom, y: Atom, dim: int, *_: Any) -> Atom | None:
    if cotangent.aval.dtype != out.dtype:
        return None
    product = elementwise(r, out, "mul", [cotangent, y], out.dtype, out_dtype=None)
    share = elementwise(r, out, "mul", [y, _sum(r, _kept(out, dim), product, dim, True)], out.dtype, out_dtype=None)
    return elementwise(r, out, "sub", [product, share], out.dtype)


def _log_softmax_backward(r: Any, out: ShapedArray, cotangent: Atom, y: Atom, dim: int, *_: Any) -> Atom | None:
    if cotangent.aval.dtype != out.dtype:
        return None
    total = _sum(r, _kept(out, dim), cotangent, dim, True)
    powers = elementwise(r, out, "exp", [y], out.dtype, accuracy=None)
    return elementwise(
        r, out, "sub", [cotangent, elementwise(r, out, "mul", [powers, total], out.dtype, out_dtype=None)], out.dtype
    )


def _kept(type: ShapedArray, dim: int) -> ShapedArray:
    """Return the type of a reduction along a dimension that keeps it."""
    return ShapedArray([1 if d == dim % type.ndim else n for d, n in enumerate(type.shape)], type.dtype)


def _shifted(r: Any, out: ShapedArray, x: Atom, dim: int) -> tuple[Atom, Atom, Atom]:
    """Return `x` less its maximum, the exponentials of that, and their sum."""
    rest, like = [d for d in range(out.ndim) if d != dim % out.ndim], _kept(out, dim)
    greatest = _reduction("reduce_max")(r, ShapedArray([out.shape[d] for d in rest], out.dtype), x, dim)
    greatest = broadcast(r, elementwise(r, out, "max", [-math.inf, greatest], out.dtype), like.shape, rest)
    greatest = r.emit("stop_gradient", [greatest], {}, greatest.aval)
    shifted = elementwise(r, out, "sub", [x, greatest], out.dtype)
    powers = elementwise(r, out, "exp", [shifted], out.dtype, accuracy=None)
    return shifted, powers, _sum(r, like, powers, dim, True)


def _triangle(is_lower: bool) -> Rule:
    def rule(r: Any, out: ShapedArray, x: Atom, diagonal: int = 0) -> Atom:
        below = _on_or_below(r, out, diagonal if is_lower else diagonal - 1)
        return _where(r, out, below, x, 0) if is_lower else _where(r, out, below, 0, x)

    return rule


def _on_or_below(r: Any, out: ShapedArray, diagonal: int) -> Atom:
    """Return where the last two dimensions' positions are on a diagonal or below it."""
    positions = ShapedArray(out.shape[-2:], np.int32)
    params = {"dtype": positions.dtype, "shape": tuple(positions.shape), "sharding": None}
    row = r.emit("iota", [], {**params, "dimension": 0}, positions)
    row = elementwise(r, positions, "add", [row, diagonal], positions.dtype)
    column = r.emit("iota", [], {**params, "dimension": 1}, positions)
    return elementwise(r, ShapedArray(positions.shape, bool), "ge", [row, column], positions.dtype)


def _gelu(r: Any, out: ShapedArray, x: Atom, approximate: str = "none") -> Atom:
    def made(name: str, *operands: Any, **params: Any) -> Atom:
        return elementwise(r, out, name, operands, out.dtype, **params)

    def product(a: Any, b: Any) -> Atom:
        return made("mul", a, b, out_dtype=None)

    if approximate == "none":
        tail = made("erfc", product(made("neg", x), math.sqrt(0.5)))
        return product(product(0.5, x), tail)
    inner = made("add", x, product(0.044715, made("integer_pow", x, y=3)))
    bent = made("tanh", product(math.sqrt(2 / math.pi), inner), accuracy=None)
    return product(x, product(0.5, made("add", 1.0, bent)))


def _remainder(r: Any, out: ShapedArray, x: Any, y: Any) -> Atom | None:
    if not is_floating(out.dtype):
        return None

    def compared(name: str, *operands: Any, dtype: Any = out.dtype) -> Atom:
        shape = np.broadcast_shapes(*(a.aval.shape for a in operands if isinstance(a, Var | Literal)))
        return elementwise(r, ShapedArray(shape, bool), name, operands, dtype)

    rest = elementwise(r, out, "rem", [x, y], out.dtype)
    is_some = compared("ne", rest, 0)
    y = converted(r, y, out.dtype)
    differs = compared("ne", compared("lt", rest, 0), compared("lt", y, 0), dtype=np.dtype(bool))
    is_off = compared("and", differs, is_some, dtype=np.dtype(bool))
    return _where(r, out, is_off, elementwise(r, out, "add", [rest, y], out.dtype), rest)


def _slice_written(
    r: Any, out: ShapedArray, x: Atom, part: Atom, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Atom | None:
    if step != 1:
        return None
    begin, _, _ = slice(start, end).indices(out.shape[dim])
    starts = [literal(begin if d == dim % out.ndim else 0, np.dtype("int32")) for d in range(out.ndim)]
    return r.emit("dynamic_update_slice", [x, part, *starts], {}, out)


def _row_written(r: Any, out: ShapedArray, x: Atom, row: Atom, dim: int, index: int) -> Atom | None:
    dim %= out.ndim
    index %= out.shape[dim]
    shape = (*row.aval.shape[:dim], 1, *row.aval.shape[dim:])
    part = broadcast(r, row, shape, [d for d in range(out.ndim) if d != dim])
    return _slice_written(r, out, x, part, dim, index, index + 1)


def _slice_backward(r: Any, out: ShapedArray, x: Atom, _: Any, dim: int, start: int, end: int, step: int) -> Atom:
    begin = slice(start, end).indices(out.shape[dim])[0]
    count = x.aval.shape[dim]
    covered = begin + (count - 1) * step + 1 if count else begin
    config = [(0, 0, 0)] * out.ndim
    config[dim] = (begin, out.shape[dim] - covered, step - 1)
    return r.emit("pad", [x, literal(0, out.dtype)], {"padding_config": tuple(config)}, out)


def _select_backward(r: Any, out: ShapedArray, x: Atom, sizes: Any, dim: int, index: int) -> Atom:
    dim %= out.ndim
    index %= out.shape[dim]
    row = broadcast(r, x, [*x.aval.shape[:dim], 1, *x.aval.shape[dim:]], [d for d in range(out.ndim) if d != dim])
    return _slice_backward(r, out, row, sizes, dim, index, index + 1, 1)


def _shifted_right(r: Any, out: ShapedArray, x: Any, y: Any) -> Atom:
    name = "shift_right_arithmetic" if out.dtype.kind == "i" else "shift_right_logical"
    return elementwise(r, out, name, [x, y], out.dtype)


def _extreme_index(name: str) -> Rule:
    def rule(r: Any, out: ShapedArray, x: Atom, dim: int | None = None, keepdim: bool = False) -> Atom | None:
        if dim is None or keepdim or not x.aval.shape:
            return None
        axes = (dim % len(x.aval.shape),)
        # Positions have no derivative anyway; torch 2.9 detaches twice.
        while (made := r.writer_of(x)) is not None and made.primitive.name == "stop_gradient":
            x = made.invars[0]
        return r.emit(name, [x], {"axes": axes, "index_dtype": out.dtype}, out)

    return rule


def _cumulative(name: str) -> Rule:
    def rule(r: Any, out: ShapedArray, x: Atom, dim: int, dtype: Any = None) -> Atom | None:
        if not x.aval.shape:
            return None
        params = {"axis": dim % out.ndim, "reverse": False}
        return r.emit(name, [converted(r, x, out.dtype)], params, out)

    return rule


def _product(contracted: tuple[int, int], batch: tuple[int, ...] = ()) -> Rule:
    def rule(r: Any, out: ShapedArray, a: Atom, b: Atom) -> Atom:
        params = {
            "dimension_numbers": (((contracted[0],), (contracted[1],)), (batch, batch)),
            "precision": None,
            "preferred_element_type": out.dtype,
            "out_sharding": None,
        }
        return r.emit("dot_general", [a, b], params, out)

    return rule


_matrices, _batches = _product((1, 0)), _product((2, 1), (0,))
_matrix_by_vector, _vectors = _product((1, 0)), _product((0, 0))


def _added_product(product: Rule) -> Rule:
    def rule(r: Any, out: ShapedArray, bias: Atom, a: Atom, b: Atom, beta: Any = 1, alpha: Any = 1) -> Atom | None:
        if (alpha, beta) != (1, 1):
            return None
        return elementwise(r, out, "add", [product(r, out, a, b), bias], out.dtype)

    return rule


def _tanh_backward(r: Any, out: ShapedArray, cotangent: Atom, y: Atom) -> Atom:
    square = elementwise(r, out, "mul", [y, y], out.dtype, out_dtype=None)
    slope = elementwise(r, out, "sub", [1.0, square], out.dtype)
    return elementwise(r, out, "mul", [cotangent, slope], out.dtype, out_dtype=None)


def _sigmoid_backward(r: Any, out: ShapedArray, cotangent: Atom, y: Atom) -> Atom:
    rest = elementwise(r, out, "sub", [1.0, y], out.dtype)
    slope = elementwise(r, out, "mul", [y, rest], out.dtype, out_dtype=None)
    return elementwise(r, out, "mul", [cotangent, slope], out.dtype, out_dtype=None)


# ------------------------------------------------------------------------------------------------------------ the table

_WITH_ACCURACY = "exp exp2 log expm1 log1p tanh sin cos tan sqrt rsqrt sigmoid:logistic"
_PLAIN = (
    "neg sign floor ceil asin acos atan sinh cosh asinh acosh atanh erf erfc erfinv:erf_inv lgamma digamma "
    "conj_physical:conj square"
)
_TO_ANOTHER = "abs real imag isfinite:is_finite"
_BINARY = "add sub div maximum:max minimum:min atan2 nextafter fmod:rem"
_COMPARISONS = "eq ne lt le gt ge"
_BITWISE = (
    "logical_and:and logical_or:or logical_xor:xor bitwise_and:and bitwise_or:or bitwise_xor:xor "
    "bitwise_left_shift:shift_left __lshift__:shift_left"
)
_REDUCTIONS = "prod:reduce_prod amax:reduce_max amin:reduce_min any:reduce_or all:reduce_and"


def _rows(names: str, rule: Callable[..., Rule], **params: Any) -> dict[Any, Rule]:
    pairs = (entry.partition(":") for entry in names.split())
    return {getattr(aten, name): rule(jax_name or name, **params) for name, _, jax_name in pairs}


RULES: dict[Any, Rule] = {
    **_rows(_WITH_ACCURACY, _unary, accuracy=None),
    **_rows(_PLAIN, _unary),
    **_rows(_TO_ANOTHER, _of_parts),
    **_rows(_BINARY, _binary),
    **_rows(_COMPARISONS, _comparison),
    **_rows(_BITWISE, _logical),
    **_rows("logical_not:not bitwise_not:not", _logical),
    **_rows(_REDUCTIONS, _reduction),
    **_rows("argmax argmin", _extreme_index),
    **_rows("cumsum cumprod logcumsumexp:cumlogsumexp", _cumulative),
    aten.complex: lambda r, out, x, y: r.emit("complex", aligned(r, [x, y]), {}, out),
    aten.mul: _binary("mul", out_dtype=None),
    aten.rsub: lambda r, out, x, y, alpha=1: _binary("sub")(r, out, y, x) if alpha == 1 else None,
    aten.reciprocal: lambda r, out, x: _power(r, out, x, -1),
    aten.pow: _power,
    aten.log2: _log2,
    aten.log10: _log10,
    aten.clamp: _clamp,
    aten.clamp_min: lambda r, out, x, low: _clamp(r, out, x, low),
    aten.clamp_max: lambda r, out, x, high: _clamp(r, out, x, None, high),
    aten.relu: _relu,
    aten.round: _rounded,
    aten.where: _where,
    aten.masked_fill: lambda r, out, x, mask, value: _where(r, out, mask, value, x),
    aten.tanh_backward: _tanh_backward,
    aten.sigmoid_backward: _sigmoid_backward,
    aten._to_copy: lambda r, out, x, **_: converted(r, x, out.dtype),
    aten.clone: _same,
    aten.alias: _same,
    aten.lift_fresh: _same,
    aten.lift_fresh_copy: _same,
    aten.detach: _detached,
    aten.full: _full,
    aten.full_like: _full,
    aten.zeros: _filled(0),
    aten.zeros_like: _filled(0),
    aten.new_zeros: _filled(0),
    aten._efficientzerotensor: _filled(0),
    aten.ones: _filled(1),
    aten.ones_like: _filled(1),
    aten.scalar_tensor: _scalar,
    aten.view.dtype: _bits,
    aten.arange: _iota,
    aten.reshape: reshaped,
    aten.unsqueeze: _unsqueeze,
    aten.squeeze: _squeeze,
    aten.expand: _expand,
    aten.permute: _permute,
    aten.transpose: _transpose,
    aten.t: _transpose,
    aten.slice: _slice,
    aten.select: _select,
    aten.unbind: _unbind,
    aten.split: _split,
    aten.split_with_sizes: _split,
    aten.flip: _reversed,
    aten.repeat: _tiled,
    aten.cat: _concatenate,
    aten.stack: _stacked,
    aten.tril: _triangle(True),
    aten.triu: _triangle(False),
    aten.gelu: _gelu,
    aten.remainder: _remainder,
    aten.constant_pad_nd: _padded,
    aten.sort: _sorted,
    aten._softmax: _softmax,
    aten._softmax_backward_data: _softmax_backward,
    aten._log_softmax_backward_data: _log_softmax_backward,
    aten._log_softmax: _log_softmax,
    aten.slice_backward: _slice_backward,
    aten.select_backward: _select_backward,
    aten.bitwise_right_shift: _shifted_right,
    aten.__rshift__: _shifted_right,
    aten.slice_scatter: _slice_written,
    aten.select_scatter: _row_written,
    aten.isinf: _is_infinite,
    aten.isnan: lambda r, out, x: elementwise(r, out, "ne", [x, x], x.aval.dtype),
    aten.sum: _sum,
    aten.mean: _mean,
    aten.mm: _matrices,
    aten.bmm: _batches,
    aten.mv: _matrix_by_vector,
    aten.dot: _vectors,
    aten.addmm: _added_product(_matrices),
    aten.baddbmm: _added_product(_batches),
    aten.addmv: _added_product(_matrix_by_vector),
}  # fmt: skip
