"""Optimizers: those of torch as pairs of pure functions, those of optax as torch.optim.Optimizer."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._core import tree
from .._core.array import Array
from .._core.torch_tensors import from_torch
from .._core.tree_util import tree_leaves, tree_map
from .._lax.control_flow.cond import cond
from .._numpy.creation import asarray, zeros
from .._transforms.jit import jit
from .._transforms.make_jaxpr import eval_shape
from .from_torch import from_torch_function


class GradientTransformation(NamedTuple):
    """An optimizer by optax's convention: two pure functions.

    `init(params)` gives the state, `update(gradients, state, params)` what is to be added to the parameters, and the state.
    """

    init: Callable[..., Any]
    update: Callable[..., Any]


def from_torch_optimizer(make: Callable[..., torch.optim.Optimizer], **options: Any) -> GradientTransformation:
    """Return an optimizer of torch, `from_torch_optimizer(torch.optim.AdamW, lr=1e-3)`, as pure functions of pytrees.

    Its step is traced, as by `from_torch_function`. The parameters are one group; `options` are those of the class. A
    derivative of a step stops where torch's code detaches: at the first value of SGD's momentum, for one.
    `update` raises `ValueError` without `params`, `ConcretizationTypeError` for optimizers whose step looks at values (Adagrad,
    Adafactor: those that have no `capturable`, but for such as SGD), and `TypeError` for LBFGS, whose step wants a closure.
    """
    first = from_torch_function(lambda params, slopes: _stepped(make, options, params, slopes, None))
    later = from_torch_function(lambda params, slopes, state: _stepped(make, options, params, slopes, state))

    def init(params: Any) -> Any:
        leaves = tree_leaves(params)
        _, state = eval_shape(first, leaves, leaves)
        return {"count": zeros((), "int32"), "state": tree_map(lambda s: zeros(s.shape, s.dtype), state)}

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        if params is None:
            raise ValueError("An optimizer of torch needs the parameters: call update(gradients, state, params).")
        slopes, spec = tree.flatten(updates)
        before = [asarray(p) for p in spec.flatten_up_to(params)]
        after, inner = cond(
            state["count"] == 0,
            lambda p, g, s: first(p, g),
            later,
            before, [asarray(g) for g in slopes], state["state"],
        )  # fmt: skip
        steps = [a - b for a, b in zip(after, before, strict=True)]
        return spec.unflatten(steps), {"count": state["count"] + 1, "state": inner}

    return GradientTransformation(init, update)


def _stepped(
    make: Callable[..., torch.optim.Optimizer], options: dict[str, Any], params: Sequence[Tensor],
    slopes: Sequence[Tensor], state: Sequence[dict[str, Any]] | None,
) -> tuple[list[Tensor], list[dict[str, Any]]]:  # fmt: skip
    """Make one step of a new optimizer with this state, and return parameters and state after it."""
    own = [p.clone() for p in params]
    optimizer = make(own, **options)
    for group in optimizer.param_groups:
        if "capturable" in group:
            group["capturable"] = True  # it counts steps by tensors, and asks for no values
    for position, (parameter, slope) in enumerate(zip(own, slopes, strict=True)):
        parameter.grad = slope
        if state is not None:
            optimizer.state[parameter] = dict(state[position])
    optimizer.step()
    return own, [dict(optimizer.state[p]) for p in own]


class Optimizer(torch.optim.Optimizer):
    """A transformation by optax's convention (`init` and `update`) as an optimizer of torch's parameters.

    `Optimizer(model.parameters(), optax.adamw(1e-3))`. The transformation sees a list of groups, each a list of arrays that
    share the parameters' memory; its update is compiled. Its state is in `state_dict`. A parameter without a gradient is
    given one of zeros.
    """

    def __init__(self, params: Iterable[Any], transformation: Any) -> None:
        super().__init__(params, {})
        self._update = jit(transformation.update)
        leaves, self._spec = tree.flatten(transformation.init(self._arrays()))
        self._keep(map(asarray, leaves))

    def _keep(self, leaves: Iterable[Array]) -> None:
        kept: Any = self.state  # torch saves what is no parameter's as it is
        kept["transformation"] = {i: leaf.to_torch() for i, leaf in enumerate(leaves)}

    def _kept(self) -> Any:
        kept: Any = self.state
        tensors = kept["transformation"]
        return self._spec.unflatten(Array(tensors[i]) for i in range(len(tensors)))

    def _arrays(self) -> list[list[Array]]:
        return [[from_torch(p) for p in group["params"]] for group in self.param_groups]

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Make one step; `closure` computes the loss and its gradients anew, and its result is returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        slopes = [
            [from_torch(torch.zeros_like(p) if p.grad is None else p.grad) for p in group["params"]]
            for group in self.param_groups
        ]
        updates, after = self._update(slopes, self._kept(), self._arrays())
        self._keep(tree_leaves(after))
        for group, added in zip(self.param_groups, updates, strict=True):
            for parameter, update in zip(group["params"], added, strict=True):
                parameter.add_(update.to_torch())
        return loss
