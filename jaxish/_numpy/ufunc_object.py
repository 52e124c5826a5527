"""`ufunc`: an elementwise function as an object with `at`, `reduce`, `accumulate`, `outer` and `reduceat`."""

from collections.abc import Callable
from typing import Any

from .._core.array import Array, as_array
from .._core.dimensions import canonical_axis
from . import ufunc_methods
from .arguments import no_out
from .vectorization import vectorize


class ufunc:
    """A function of arrays that works element by element and broadcasts its arguments.

    `func` maps scalars to scalars; `call` may give it on whole arrays at once. `reduce`, `accumulate` and `at` may
    give faster forms of the methods of the same names. Instances are hashable and compared by their functions.
    """

    def __init__(
        self, func: Callable[..., Any], /, nin: int, nout: int, *, name: str | None = None, nargs: int | None = None,
        identity: Any = None, call: Callable[..., Any] | None = None, reduce: Callable[..., Any] | None = None,
        accumulate: Callable[..., Any] | None = None, at: Callable[..., Any] | None = None,
        reduceat: Callable[..., Any] | None = None,
    ) -> None:  # fmt: skip
        self.__doc__ = func.__doc__
        self.__name__ = name or func.__name__
        self.__func, self._call = func, call
        self._nin, self._nout = int(nin), int(nout)
        self._nargs = self._nin if nargs is None else int(nargs)
        self._identity = identity
        self._reduce, self._accumulate, self._at, self._reduceat = reduce, accumulate, at, reduceat

    _func = property(lambda self: self.__func)
    nin = property(lambda self: self._nin, doc="The number of arguments.")
    nout = property(lambda self: self._nout, doc="The number of results.")
    nargs = property(lambda self: self._nargs, doc="The number of arguments that are arrays.")
    identity = property(lambda self: self._identity, doc="The value that changes nothing, or None.")

    def __hash__(self) -> int:
        return hash((self._func, self.__name__, self._identity, self._nin, self._nout))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ufunc) and (self._func, self.__name__) == (other._func, other.__name__)

    def __repr__(self) -> str:
        return f"<jnp.ufunc '{self.__name__}'>"

    def __call__(self, *args: Any, out: None = None, where: None = None) -> Any:
        """Apply the function element by element. `out` and `where` are refused: arrays are immutable."""
        if out is not None or where is not None:
            no_out(self.__name__, out)
            raise NotImplementedError(f"where argument of {self.__name__}: use jnp.where(condition, result, other).")
        if self._call is None:
            return self._map(*args)
        return self._call(*args)

    def _map(self, *args: Any) -> Any:
        return vectorize(self._func)(*args)

    def _check_binary(self, method: str) -> None:
        if self._nin != 2:
            raise ValueError(f"{method} only supported for ufuncs with nin=2; {self.__name__} has {self._nin}")
        if self._nout != 1:
            raise ValueError(f"{method} only supported for functions returning a single value")

    def reduce(
        self, a: Any, axis: int | None = 0, dtype: Any = None, out: None = None, keepdims: bool = False,
        initial: Any = None, where: Any = None,
    ) -> Array:  # fmt: skip
        """Combine the elements along `axis` (None: all of them) with this function, from the left.

        Needs `initial` for a function without identity when `where` is given. Raises `ValueError` otherwise.
        """
        self._check_binary("ufunc.reduce")
        no_out(f"{self.__name__}.reduce", out)
        if where is not None and self._identity is None and initial is None:
            raise ValueError(
                f"reduction operation {self.__name__!r} does not have an identity, so to use a where mask one has to "
                "specify 'initial'"
            )
        if self._reduce is not None:
            return self._reduce(a, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where)
        return ufunc_methods.reduce(self, a, axis, dtype, keepdims, initial, where)

    def accumulate(self, a: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Array:
        """Return all partial results of combining the elements along `axis` from the left."""
        self._check_binary("ufunc.accumulate")
        no_out(f"{self.__name__}.accumulate", out)
        a = as_array(a)
        if axis is None:
            if a.ndim > 1:
                raise ValueError("accumulate does not allow multiple axes")
            axis = 0
        axis = canonical_axis(axis, a.ndim)
        if self._accumulate is not None:
            return self._accumulate(a, axis=axis, dtype=dtype)
        return ufunc_methods.accumulate(self, a, axis, dtype)

    def at(self, a: Any, indices: Any, b: Any = None, /, *, inplace: bool = True) -> Array:
        """Return `a` with this function applied at `indices` (repeats applied again); needs `inplace=False`."""
        if inplace:
            raise NotImplementedError("ufunc.at: arrays are immutable. Use inplace=False and the returned array.")
        if self._at is not None and b is not None:
            return self._at(as_array(a), indices, b)
        return ufunc_methods.at(self, a, indices, b)

    def outer(self, A: Any, B: Any, /) -> Array:
        """Apply the function to all pairs of an element of `A` and one of `B`: shape `A.shape + B.shape`."""
        self._check_binary("ufunc.outer")
        a, b = as_array(A), as_array(B)
        return self(a.reshape(a.shape + (1,) * b.ndim), b.reshape((1,) * a.ndim + b.shape))  # pyright: ignore

    def reduceat(self, a: Any, indices: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Array:
        """Reduce over the slices that start at each of `indices` and end at the next one.

        Where the next index is not larger, the element itself is the result, as in NumPy.
        """
        self._check_binary("ufunc.reduceat")
        no_out(f"{self.__name__}.reduceat", out)
        if self._reduceat is not None:
            return self._reduceat(a, indices, axis=axis, dtype=dtype)
        return ufunc_methods.reduceat(self, a, indices, axis, dtype)


def unary_ufunc(function: Callable[..., Array]) -> ufunc:
    """Decorator: make a ufunc of a function of one array."""
    return ufunc(function, 1, 1, call=function)


def binary_ufunc(
    identity: Any = None, reduce: Any = None, accumulate: Any = None, at: Any = None
) -> Callable[[Callable[..., Array]], ufunc]:
    """Decorator: make a ufunc of a function of two arrays, with fast forms of its methods."""

    def decorate(function: Callable[..., Array]) -> ufunc:
        return ufunc(function, 2, 1, identity=identity, call=function, reduce=reduce, accumulate=accumulate, at=at)

    return decorate


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """Return a ufunc of a function of `nin` scalars with `nout` results; `identity` is its neutral element."""
    return ufunc(func, nin, nout, identity=identity, call=vectorize(func))
