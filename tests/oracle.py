"""The comparison that most tests are made of: one program, run on real JAX and on jaxish, must do the same.

`agree(program, *args)` calls `program(jax, *args)` with either library as its first argument. What comes back must
have the same pytree structure, and its leaves the same values, dtype, weak type and shape; where JAX raises, jaxish
must raise an error of the same class name. With `at_once`, JAX compiles the whole program as one function of the args,
which takes a part of the time where it would compile an operation at a time.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import jaxish

TOLERANCES = {2: 1e-2, 4: 1e-5, 8: 1e-12}  # relative, by bytes of a real element


def agree(
    program: Callable[..., Any], *args: Any, rtol: float | None = None, atol: float | None = None, weak: bool = True,
    at_once: bool = False,
) -> None:  # fmt: skip
    """Assert that `program` gives the same result, or the same class of error, under JAX and under jaxish."""
    try:
        wanted = jax.jit(functools.partial(program, jax))(*args) if at_once else program(jax, *args)
    except Exception as error:
        wanted = error
    if isinstance(wanted, Exception):
        _raises_like(wanted, program, args)
        return
    found = program(jaxish, *args)
    wanted_leaves, wanted_tree = jax.tree_util.tree_flatten(wanted)
    found_leaves, found_tree = jaxish.tree_util.tree_flatten(found)
    assert str(found_tree) == str(wanted_tree)
    for f, w in zip(found_leaves, wanted_leaves, strict=True):
        assert_same(f, w, rtol, atol, weak)


def _raises_like(wanted: Exception, program: Callable[..., Any], args: tuple[Any, ...]) -> None:
    try:
        found = program(jaxish, *args)
    except Exception as error:
        classes = {c.__name__ for c in type(error).__mro__} - {"object", "BaseException", "Exception"}
        assert type(wanted).__name__ in classes or isinstance(error, type(wanted)), (
            f"JAX raises {type(wanted).__name__}: {wanted}\njaxish raises {type(error).__name__}: {error}"
        )
        return
    raise AssertionError(f"JAX raises {type(wanted).__name__}: {wanted}\njaxish returns {found!r}")


def assert_same(
    found: Any, wanted: Any, rtol: float | None = None, atol: float | None = None, weak: bool = True
) -> None:
    """Assert that two leaves have the same kind, dtype, weak type, shape and (to a tolerance) values."""
    if isinstance(wanted, bool | int | float | complex) and not isinstance(wanted, np.generic):
        # JAX passes Python scalars through its transformations as they are; here they become weakly typed arrays.
        assert np.shape(found) == ()
        compare_values(np.asarray(found), np.asarray(wanted), rtol, atol)
        return
    if isinstance(wanted, jax.Array):
        assert isinstance(found, jaxish.Array), f"JAX gives an array, jaxish {type(found)}"
        if weak:
            assert found.weak_type == wanted.weak_type, f"weak_type {found.weak_type}, JAX {wanted.weak_type}"
        if jax.numpy.issubdtype(wanted.dtype, jax.dtypes.prng_key):
            assert str(found.dtype) == str(wanted.dtype)
            found, wanted = jaxish.random.key_data(found), jax.random.key_data(wanted)
    elif not hasattr(wanted, "dtype"):
        assert type(found) is type(wanted) or isinstance(found, type(wanted)), f"{type(found)}, JAX {type(wanted)}"
        assert found == wanted or (found != found and wanted != wanted), f"{found!r}, JAX {wanted!r}"
        return
    assert found.dtype == wanted.dtype, f"dtype {found.dtype}, JAX {wanted.dtype}"
    assert found.shape == wanted.shape, f"shape {found.shape}, JAX {wanted.shape}"
    if wanted.dtype == jax.dtypes.float0:
        return
    compare_values(np.asarray(found), np.asarray(wanted), rtol, atol)


def compare_values(found: np.ndarray, wanted: np.ndarray, rtol: float | None, atol: float | None) -> None:
    """Assert equal values: exactly for integers, to a tolerance that fits the dtype for inexact ones."""
    if wanted.dtype.kind in "biu" and found.dtype.kind in "biu":
        np.testing.assert_array_equal(found, wanted)
        return
    real_bytes = wanted.dtype.itemsize // (2 if wanted.dtype.kind == "c" else 1)
    tolerance = 1e-5 if wanted.dtype != found.dtype else TOLERANCES.get(real_bytes, 1e-1)
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(
        found.astype(wide), wanted.astype(wide), rtol if rtol is not None else tolerance,
        atol if atol is not None else tolerance,
    )  # fmt: skip
