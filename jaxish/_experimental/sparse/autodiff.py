"""Derivatives with respect to sparse arrays: those of their elements, as arrays with the same indices."""

from collections.abc import Callable, Sequence
from typing import Any

from ..._core import tree
from ..._transforms import autodiff, jacobians
from ..._transforms.autodiff import parse_argnums
from ..._transforms.flat import wraps
from ..._transforms.vmap import vmap
from .base import JAXSparse


def _is_sparse(x: Any) -> bool:
    return isinstance(x, JAXSparse)


class _Flat:
    """A function of pytrees of sparse and dense arrays as one of what is differentiated: a list of their elements."""

    def __init__(self, fun: Callable[..., Any], argnums: int | Sequence[int], args: tuple[Any, ...]) -> None:
        self.fun, self.args = fun, args
        chosen = parse_argnums(argnums)
        self.is_single = isinstance(chosen, int)
        places = [chosen] if isinstance(chosen, int) else list(chosen)
        self.places = [p + len(args) if p < 0 else p for p in places]
        self.leaves, self.spec = tree.flatten([args[p] for p in self.places], is_leaf=_is_sparse)

    @property
    def elements(self) -> list[Any]:
        """What is differentiated."""
        return [leaf.data if _is_sparse(leaf) else leaf for leaf in self.leaves]

    def __call__(self, elements: list[Any], **kwargs: Any) -> Any:
        given = list(self.args)
        for place, value in zip(self.places, self._tree(elements), strict=True):
            given[place] = value
        return self.fun(*given, **kwargs)

    def _tree(self, elements: Sequence[Any]) -> Any:
        made = [_with_data(leaf, x) for leaf, x in zip(self.leaves, elements, strict=True)]
        return self.spec.unflatten(made)

    def result(self, elements: Sequence[Any]) -> Any:
        """Return derivatives with respect to the elements in the structure of the arguments."""
        made = tuple(self._tree(elements))
        return made[0] if self.is_single or len(made) == 1 else made


def _with_data(leaf: Any, data: Any) -> Any:
    """Return a sparse array with other elements; further leading dimensions of these are a batch, or several."""
    if not _is_sparse(leaf):
        return data
    (own, *others), kept = leaf.tree_flatten()

    def made(x: Any) -> Any:
        return type(leaf).tree_unflatten(kept, (x, *others))

    for _ in range(data.ndim - own.ndim):
        made = vmap(made)
    return made(data)


def _wrapped(transform: Callable[..., Any], leads: int) -> Callable[..., Any]:
    """Return a transformation with JAX's arguments; derivatives are the part `leads` of what it gives with `has_aux`."""

    def transformed(
        fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
    ) -> Callable[..., Any]:
        @wraps(fun)
        def differentiated(*args: Any, **kwds: Any) -> Any:
            flat = _Flat(fun, argnums, args)
            found = transform(flat, has_aux=has_aux, **kwargs)(flat.elements, **kwds)
            if leads:
                return found[0], flat.result(found[1])
            return (flat.result(found[0]), found[1]) if has_aux else flat.result(found)

        return differentiated

    return transformed


_value_and_grad = _wrapped(autodiff.value_and_grad, 1)
_grad = _wrapped(autodiff.grad, 0)
_jacfwd = _wrapped(jacobians.jacfwd, 0)
_jacrev = _wrapped(jacobians.jacrev, 0)


def value_and_grad(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., tuple[Any, Any]]:
    """Return `jax.value_and_grad` of `fun`, whose arguments may be sparse: derivatives are sparse like them."""
    return _value_and_grad(fun, argnums, has_aux, **kwargs)


def grad(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """Return `jax.grad` of `fun`, whose arguments may be sparse: derivatives are sparse like them."""
    return _grad(fun, argnums, has_aux, **kwargs)


def jacfwd(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """Return `jax.jacfwd` of `fun`, whose arguments may be sparse: its result's dimensions become batch dimensions."""
    return _jacfwd(fun, argnums, has_aux, **kwargs)


def jacrev(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """Return `jax.jacrev` of `fun`, whose arguments may be sparse: its result's dimensions become batch dimensions."""
    return _jacrev(fun, argnums, has_aux, **kwargs)


jacobian = jacrev
