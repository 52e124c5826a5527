"""Derivatives held against finite differences: `jax.test_util`.

Each check takes one random direction, so that it costs two evaluations of the function however many elements its
arguments and results have.
"""

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._core import dtypes, tree
from .._core.tree_util import tree_map
from .autodiff import jvp, vjp
from .linear_map import linearize

_STEP = 1e-4

# How far values may be from each other, and derivatives from finite differences, relative and absolute, by dtype. Integers
# have to be equal.
_OF_VALUES = {
    "bfloat16": 1e-2, "float16": 1e-3, "float32": 1e-6, "float64": 1e-15, "complex64": 1e-6, "complex128": 1e-15,
}  # fmt: skip
_OF_DERIVATIVES = {
    "bfloat16": 1e-1, "float16": 1e-2, "float32": 2e-3, "float64": 1e-5, "complex64": 1e-3, "complex128": 1e-5,
}  # fmt: skip

Tolerance = float | Mapping[Any, float] | None


def _tolerance(dtype: np.dtype, given: Tolerance, defaults: dict[str, float]) -> float:
    if given is not None and not isinstance(given, Mapping):
        return given
    chosen = {np.dtype(k): v for k, v in (given or {}).items()}
    if dtype == dtypes.float0:
        return chosen.get(dtype, 0)
    dtype = dtypes.canonicalize_dtype(dtype)
    return chosen.get(dtype, defaults.get(dtype.name, 1e-1 if "float" in dtype.name else 0))


def _dtype_of(leaf: Any) -> np.dtype:
    return leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype


def _is_python_scalar(leaf: Any) -> bool:
    return isinstance(leaf, bool | int | float | complex) and not isinstance(leaf, np.generic)


def _combined(function: Callable[..., Any], *trees: Any) -> Any:
    """Return a tree of the values of `function` at the trees' leaves, in the first tree's dtypes."""

    def of_leaves(first: Any, *rest: Any) -> Any:
        with np.errstate(invalid="ignore"):
            value = np.asarray(function(np.asarray(first), *map(np.asarray, rest)), _dtype_of(first))
        return value.item() if all(map(_is_python_scalar, (first, *rest))) else value

    return tree_map(of_leaves, *trees)


def _random_like(values: Any) -> Any:
    generator = np.random.RandomState(0)

    def drawn(leaf: Any) -> Any:
        dtype = _dtype_of(leaf)
        value = np.asarray(generator.randn(*np.shape(leaf)), dtype)
        if dtype.kind == "c":
            value = value + dtype.type(1j) * np.asarray(generator.randn(*np.shape(leaf)), dtype)
        return value.item() if _is_python_scalar(leaf) else value

    return tree_map(drawn, values)


def _difference(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    return np.where(above == below, 0, above - below)  # also at infinities, where a function is flat


def _finite_difference(fun: Callable[..., Any], primals: Any, tangents: Any, eps: float) -> Any:
    step = _combined(lambda t: t * t.dtype.type(eps), tangents)
    above, below = fun(*_combined(operator.add, primals, step)), fun(*_combined(operator.sub, primals, step))
    return _combined(lambda d: d * np.asarray(0.5 / eps, d.dtype), _combined(_difference, above, below))


def _inner_product(left: Any, right: Any) -> Any:
    pairs = zip(tree.flatten(left)[0], tree.flatten(right)[0], strict=True)
    return sum(np.real(np.vdot(np.asarray(x), np.asarray(y))) for x, y in pairs)


def check_close(xs: Any, ys: Any, atol: Tolerance = None, rtol: Tolerance = None, err_msg: str = "") -> None:
    """Check that two pytrees have the same values up to rounding, which is taken for as much as there are elements.

    Tolerances are numbers, or go by dtype. Raises `AssertionError` where they differ.
    """
    _check_close(xs, ys, atol, rtol, err_msg, _OF_VALUES)


def _check_close(
    found: Any,
    wanted: Any,
    atol: Tolerance,
    rtol: Tolerance,
    message: str,
    defaults: dict[str, float] = _OF_DERIVATIVES,
) -> None:
    def check(x: Any, y: Any) -> None:
        x, y = np.asarray(x), np.asarray(y)
        assert x.shape == y.shape, f"{message}: shapes {x.shape} and {y.shape}"
        if x.dtype == y.dtype == dtypes.float0:
            return
        bounds = [max(_tolerance(d, t, defaults) for d in (x.dtype, y.dtype)) * x.size for t in (atol, rtol)]
        wide = [v.astype(np.float32) if v.dtype.kind == "V" else v for v in (x, y)]
        np.testing.assert_allclose(*wide, atol=bounds[0], rtol=bounds[1], err_msg=message)

    tree_map(check, found, wanted)


def _check_same_dtypes(left: Any, right: Any) -> None:
    def check(x: Any, y: Any) -> None:
        found = [d if d == dtypes.float0 else dtypes.canonicalize_dtype(d) for d in (_dtype_of(x), _dtype_of(y))]
        assert found[0] == found[1], f"dtypes {found[0]} and {found[1]}"

    tree_map(check, left, right)


def check_jvp(
    f: Callable[..., Any], f_jvp: Callable[..., Any], args: Any, atol: Tolerance = None, rtol: Tolerance = None,
    eps: float = _STEP, err_msg: str = "",
) -> None:  # fmt: skip
    """Check `f_jvp(primals, tangents)`, which is to be `jvp` of `f`, in one random direction at `args`.

    Tolerances are numbers, or go by dtype; `eps` is the step of the finite difference.
    Raises `AssertionError` where values or tangents are not those of `f`.
    """
    tangents = _random_like(args)
    value, tangent = f_jvp(args, tangents)
    _check_same_dtypes(value, tangent)
    expected = f(*args)
    _check_same_dtypes(value, expected)
    _check_close(value, expected, atol, rtol, f"{err_msg} primal".strip())
    difference = _finite_difference(f, args, tangents, eps)
    _check_close(tangent, difference, atol, rtol, f"{err_msg} tangent".strip())


def check_vjp(
    f: Callable[..., Any], f_vjp: Callable[..., Any], args: Any, atol: Tolerance = None, rtol: Tolerance = None,
    eps: float = _STEP, err_msg: str = "",
) -> None:  # fmt: skip
    """Check `f_vjp(*primals)`, which is to be `vjp` of `f`, with one random cotangent and direction at `args`.

    Tolerances are numbers, or go by dtype; `eps` is the step of the finite difference.
    Raises `AssertionError` where values or cotangents are not those of `f`.
    """
    value, pullback = f_vjp(*args)
    _check_close(value, f(*args), atol, rtol, f"{err_msg} primal".strip())
    tangents, cotangents = _random_like((args, value))
    difference = _finite_difference(f, args, tangents, eps)
    pulled = _combined(np.conj, pullback(_combined(np.conj, cotangents)))
    found, wanted = _inner_product(tangents, pulled), _inner_product(difference, cotangents)
    _check_close(found, wanted, atol, rtol, f"{err_msg} cotangent projection".strip())


def check_grads(
    f: Callable[..., Any], args: Sequence[Any], order: int, modes: Sequence[str] = ("fwd", "rev"),
    atol: Tolerance = None, rtol: Tolerance = None, eps: float | None = None,
) -> None:  # fmt: skip
    """Check the derivatives of `f` up to an order against finite differences, each in one random direction at `args`.

    `modes` says which: "fwd" (jvp), "rev" (vjp), "lin" (linearize). Raises `AssertionError` where they differ.
    """
    options = {"atol": atol, "rtol": rtol, "eps": eps or _STEP}

    def check(fun: Callable[..., Any], args: tuple[Any, ...], order: int, path: str) -> None:
        def label(mode: str) -> str:
            return f"{mode} of {path}" if path else mode

        for mode, name, pushed in (("fwd", "JVP", jvp), ("lin", "LIN", _linearized)):
            if mode in modes:
                derivative = functools.partial(pushed, fun)
                check_jvp(fun, derivative, args, err_msg=label(name), **options)
                if order > 1:
                    check(derivative, (args, args), order - 1, label(name))
        if "rev" in modes:
            check_vjp(fun, functools.partial(vjp, fun), args, err_msg=label("VJP"), **options)
            if order > 1:
                check(functools.partial(_pulled_back, fun), args, order - 1, label("VJP"))

    check(f, tuple(args), order, "")


def _linearized(fun: Callable[..., Any], primals: Any, tangents: Any) -> tuple[Any, Any]:
    value, linear = linearize(fun, *primals)
    return value, linear(*tangents)


def _pulled_back(fun: Callable[..., Any], *args: Any) -> Any:
    value, pullback = vjp(fun, *args)
    return pullback(value)
