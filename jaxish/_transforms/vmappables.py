"""Classes of users that vmap takes as a whole: how their instances become one example's, and batches again.

A handler takes an instance and its entry of `in_axes`, of the class that was registered for it, and maps the arrays within by
a function that it is given; another puts a batch together of what the mapped function returns.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from .._core import axes, functorch, tree
from .._core.array import Array, as_array, default_torch_device, from_kind, tensor_of
from .._core.dimensions import canonical_axis
from .._core.primitive import batch_front
from .._core.tree_differences import broadcast_prefix


class _Handlers(NamedTuple):
    to_elt: Callable[..., Any]
    from_elt: Callable[..., Any]
    make_iota: Callable[[int], Any] | None


registered: dict[type, _Handlers] = {}
spec_types: set[type] = {int}  # what entries of `in_axes` and `out_axes` may be


def register_vmappable(
    data_type: type, spec_type: type, axis_size_type: type,
    to_elt: Callable[..., Any], from_elt: Callable[..., Any], make_iota: Callable[..., Any] | None,
) -> None:  # fmt: skip
    """Let vmap take instances of `data_type` as leaves, with instances of `spec_type` for their axes.

    `to_elt(cont, get_index, x, spec)` returns what the mapped function gets: `cont(array, axis)` maps an array, and
    `get_index()` is the index of the example. `from_elt(cont, axis_size, x, spec)` returns the batch of what it returned, with
    `cont(axis_size, array, axis)`. `make_iota(axis_size)` gives the indices where they are not 0, 1, 2, ...

    Raises `NotImplementedError` for sizes that are no integers.
    """
    if axis_size_type is not int:
        raise NotImplementedError(
            f"register_vmappable(axis_size_type={axis_size_type}) is not supported: batches have integer sizes. "
            "Pad the examples to one size, and register int."
        )
    spec_types.add(spec_type)
    registered[data_type] = _Handlers(to_elt, from_elt, make_iota)


def unregister_vmappable(data_type: type) -> None:
    """Do nothing, as in JAX: what is registered stays."""


def is_vmappable(x: Any) -> bool:
    """Tell whether vmap takes `x` by handlers of its class."""
    return type(x) in registered


class Elements:
    """A function whose arguments and results may be vmappable, as one of a list of the other leaves, for one call.

    `out_axes` has the axes of its results once it was called.
    """

    def __init__(
        self, fun: Callable[..., Any], leaves: Sequence[Any], spec: tree.Spec, dims: Sequence[Any], size: int,
        out_axes: Any,
    ) -> None:  # fmt: skip
        self._fun, self._leaves, self._spec, self._dims, self._size = fun, leaves, spec, dims, size
        self._given_out_axes, self.out_axes = out_axes, []
        self.others = [i for i, x in enumerate(leaves) if not is_vmappable(x)]

    def __call__(self, *others: Any) -> list[Any]:
        """Return the results that are no batches of handlers, for one example."""
        leaves = list(self._leaves)
        for index, value in zip(self.others, others, strict=True):
            leaves[index] = value
        args, kwargs = self._spec.unflatten(map(self._element, leaves, self._dims))
        self._results, self._out_spec = tree.flatten(self._fun(*args, **kwargs), is_vmappable)
        wanted = broadcast_prefix(self._given_out_axes, self._out_spec, "vmap out_axes", lambda x: x is None)
        self._results = [
            self._batch(x, spec) if is_vmappable(x) else x for x, spec in zip(self._results, wanted, strict=True)
        ]
        self._places = [i for i, x in enumerate(self._results) if not is_vmappable(x)]
        self.out_axes[:] = [wanted[i] for i in self._places]
        return [self._results[i] for i in self._places]

    def rebuilt(self, others: Sequence[Any]) -> Any:
        """Return what the function returned, with batches of its other results."""
        for place, value in zip(self._places, others, strict=True):
            self._results[place] = value
        return self._out_spec.unflatten(self._results)

    def _element(self, x: Any, spec: Any) -> Any:
        return self._mapped(x, spec) if is_vmappable(x) else x

    def _mapped(self, x: Any, spec: Any) -> Any:
        handlers = registered.get(type(x))
        if handlers is not None:
            return handlers.to_elt(self._mapped, lambda: self._index(handlers), x, spec)
        if spec is None:
            return x
        array = as_array(x)
        axis = canonical_axis(spec, array.ndim)
        return from_kind(functorch.add_batch_dim(tensor_of(array), axis, axes.current_level()), array.kind)

    def _index(self, handlers: _Handlers) -> Any:
        if handlers.make_iota is not None:
            return self._mapped(handlers.make_iota(self._size), 0)
        return self._mapped(Array(torch.arange(self._size, dtype=torch.int32, device=default_torch_device())), 0)

    def _batch(self, x: Any, spec: Any) -> Any:
        handlers = registered.get(type(x))
        if handlers is not None:
            return handlers.from_elt(lambda _, element, axis: self._batch(element, axis), self._size, x, spec)
        array = as_array(x)
        tensor, dim = functorch.unwrap_batched(tensor_of(array), axes.current_level())
        if spec is None:
            if dim is not None:
                raise ValueError(f"vmap has out axis None, but got a result that was batched on axis {dim}.")
            return from_kind(tensor, array.kind)
        return from_kind(
            batch_front(tensor, dim, self._size).movedim(0, canonical_axis(spec, array.ndim + 1)), array.kind
        )
