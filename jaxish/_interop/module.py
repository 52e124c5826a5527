"""Models of JAX as modules of torch."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .._core import dynamo, tree
from .._core.array import Array, as_array, from_kind
from .._core.torch_tensors import from_torch
from .._transforms.flat import check_callable, differentiable
from .arguments import Fixed
from .to_torch import to_torch

_ARRAYS = (Array, np.ndarray, Tensor)


class Module(nn.Module):
    """A JAX model as a module of torch, whose parameters are the floating and complex leaves of `params`.

    `apply(params, *args, **kwargs)` is the model; with a `state` (BatchNorm's statistics, a random key) it is
    `apply(params, state, *args, **kwargs)` and returns its result and the next state, which the module keeps while it is
    in training mode. Parameters are named by their paths in the pytree, `encoder.layers.0.kernel`; leaves of `state`, and
    of `params` that cannot be differentiated, are buffers. Both are copies: training changes no array. Leaves that are no
    arrays stay as they are. Forward and backward run compiled, as those of `to_torch`; arguments that are no arrays or
    tensors (`train=True`) are fixed, and the model is traced for their values.
    Raises `ValueError` where two leaves have one name.
    """

    def __init__(self, apply: Callable[..., Any], params: Any, state: Any = None) -> None:
        super().__init__()
        check_callable(apply)
        self._apply_fun = apply
        self._params = _Leaves(self, params, "params", trained=True)
        self._state = None if state is None else _Leaves(self, state, "state", trained=False)
        self._set_up()

    def _set_up(self) -> None:
        self._functions: dict[Fixed, Callable[..., Any]] = {}
        dynamo.import_all()
        self._call = torch._dynamo.nonstrict_trace(self._called)  # torch.compile looks at what it computes, not how

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the model's result for tensors (and pytrees of them), as tensors."""
        if self._state is None:
            return self._call(self._params.current(), (), args, kwargs)
        # The backward pass may need what the state was, which is written over before.
        before = self._state.of([t.clone() for t in self._state.tensors()])
        result, leaves = self._call(self._params.current(), before, args, kwargs)
        if self.training:
            self._state.become(leaves)
        return result

    def _called(self, params: Sequence[Any], state: Sequence[Any], args: Any, kwargs: Any) -> Any:
        fixed, given = Fixed.of(args, kwargs)
        function = self._functions.get(fixed)
        if function is None:
            function = self._functions[fixed] = to_torch(partial(self._run, fixed))
        return function(params, given) if self._state is None else function(params, given, state)

    def _run(self, fixed: Fixed, params: Sequence[Array], given: Sequence[Array], state: Sequence[Array] = ()) -> Any:
        args, kwargs = fixed.rebuilt(given)
        if self._state is None:
            return self._apply_fun(self._params.rebuilt(params), *args, **kwargs)
        result, after = self._apply_fun(self._params.rebuilt(params), self._state.rebuilt(state), *args, **kwargs)
        return result, self._state.arrays_of(after)

    def to_jax(self) -> Any:
        """Return the parameters as they are now, in the pytree that they came in; with a state, the pair of both.

        The arrays share the parameters' memory (`jaxish.from_torch`).
        """
        params = self._params.rebuilt(self._params.as_arrays())
        return params if self._state is None else (params, self._state.rebuilt(self._state.as_arrays()))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_functions", "_call")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._set_up()


class _Leaves:
    """The array leaves of a pytree as parameters and buffers of a module: where they are, and how they came."""

    def __init__(self, root: nn.Module, pytree: Any, what: str, trained: bool) -> None:
        pairs = tree.leaves_with_path(pytree)
        self.spec = tree.flatten(pytree)[1]
        self.fixed = [None if isinstance(leaf, _ARRAYS) else leaf for _, leaf in pairs]
        self.kinds: list[Any] = []
        self.places: list[tuple[nn.Module, str]] = []
        for path, leaf in pairs:
            if isinstance(leaf, _ARRAYS):
                array = from_torch(leaf) if isinstance(leaf, Tensor) else as_array(leaf)
                self.kinds.append(array.kind)
                name = tree.keystr(path, simple=True, separator=".") or what
                self.places.append(_registered(root, name, array, trained and differentiable(array)))

    def tensors(self) -> list[Tensor]:
        """Return the parameters and buffers as they are now: torch may have put others in their place."""
        return [getattr(owner, name) for owner, name in self.places]

    def current(self) -> list[Any]:
        """Return them as a function of arrays takes them."""
        return self.of(self.tensors())

    def of(self, tensors: Sequence[Tensor]) -> list[Any]:
        """Return values for them as a function of arrays takes them: tensors, but for random keys."""
        pairs = zip(tensors, self.kinds, strict=True)
        return [t if isinstance(kind, bool) else from_kind(t, kind) for t, kind in pairs]

    def as_arrays(self) -> list[Any]:
        """Return them as arrays that share their memory."""
        pairs = zip(self.tensors(), self.kinds, strict=True)
        return [from_torch(t) if isinstance(kind, bool) else from_kind(t, kind) for t, kind in pairs]

    def rebuilt(self, arrays: Sequence[Any]) -> Any:
        """Return the pytree with these arrays."""
        given = iter(arrays)
        return self.spec.unflatten(next(given) if leaf is None else leaf for leaf in self.fixed)

    def arrays_of(self, pytree: Any) -> list[Array]:
        """Return the array leaves of a pytree. Raises `ValueError` where it has another structure."""
        leaves, spec = tree.flatten(pytree)
        if spec != self.spec:
            raise ValueError(f"The model's next state has the structure {spec}, its state has {self.spec}.")
        return [leaf for leaf, before in zip(leaves, self.fixed, strict=True) if before is None]

    def become(self, tensors: Sequence[Tensor]) -> None:
        """Write new values into the buffers."""
        with torch.no_grad():
            for buffer, tensor in zip(self.tensors(), tensors, strict=True):
                buffer.copy_(tensor)


def _registered(root: nn.Module, name: str, leaf: Array, trained: bool) -> tuple[nn.Module, str]:
    """Make a leaf a parameter or a buffer of this name, and return the module within that has it, and its name there."""
    *within, own = map(_free, name.split("."))
    owner = root
    for part in within:
        if part not in owner._modules:
            owner.add_module(part, nn.Module())
        inner = owner._modules[part]
        assert inner is not None
        owner = inner
    tensor = leaf.to_torch().detach().clone()
    if own in (*owner._parameters, *owner._buffers, *owner._modules):
        raise ValueError(f"Two leaves of the model's pytrees have the name {name!r}.")
    if trained:
        owner.register_parameter(own, nn.Parameter(tensor))
    else:
        owner.register_buffer(own, tensor)
    return owner, own


def _free(part: str) -> str:
    """Return a part of a name that nn.Module has no attribute for."""
    return f"{part}_" if not part or part in _TAKEN else part


_TAKEN = {*dir(Module), *dir(nn.Module())}
