"""Functions and modules of torch as functions of arrays."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from .._core import config, dtypes, tree
from .._core.array import Array, as_array, tensor_of
from .._core.torch_tensors import from_torch
from .._transforms.flat import check_callable, wraps
from .._transforms.jit import jit
from . import torch_code
from .arguments import Fixed


def from_torch_function(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of tensors (and pytrees of them) as a function of arrays, which jaxish can transform.

    `fun` is traced, as by `jax.jit`, and runs compiled; its derivatives are torch's formulas, so `jax.grad`, `jax.vmap`,
    `jax.jvp` and loops take it as any function of jax.numpy. Writes in place are fine, into arguments too, whose arrays
    do not change. What it draws at random it draws from the key given as `rng=jax.random.key(0)`.

    Numbers, strings and other arguments that are no arrays are as they are in torch: `fun` is traced for their values.
    While `jax_enable_x64` is off, int32 arrays are int64 tensors within, which torch wants for indices.
    Raises `TypeError` for what cannot be called. A call raises `ConcretizationTypeError` for Python control flow, or a
    shape, that depends on values, `TypeError` for random draws without a key and writes into tensors that `fun` closes
    over, `NotImplementedError` for a `torch.autograd.Function`, whose rule would be lost.
    """
    check_callable(fun)

    @wraps(fun)
    def traced(fixed: Fixed, rng: Array | None, arrays: Sequence[Array]) -> Any:
        spec: list[tree.Spec] = []

        def flat(*tensors: Tensor) -> list[Tensor]:
            args, kwargs = fixed.rebuilt(tensors)
            leaves, found = tree.flatten(fun(*args, **kwargs))
            spec.append(found)
            return [tensor_of(as_array(x)) if not isinstance(x, Tensor) else x for x in leaves]

        results = torch_code.pure(flat, [_widened(tensor_of(a)) for a in arrays], rng)
        return spec[0].unflatten(Array(_narrowed(t)) for t in results)

    jitted = jit(traced, static_argnums=0)

    @wraps(fun)
    def call(*args: Any, rng: Array | None = None, **kwargs: Any) -> Any:
        fixed, given = Fixed.of(args, kwargs)
        return jitted(fixed, rng, [from_torch(x) if isinstance(x, Tensor) else as_array(x) for x in given])

    return call


def from_torch_module(module: nn.Module) -> tuple[Callable[..., Any], dict[str, Array], dict[str, Array]]:
    """Return a module as a pure function `apply`, with its parameters and its buffers by their names in `state_dict`.

    `apply(params, buffers, *args, rng=None, train=None, **kwargs)` gives what the module gives, and the buffers as the
    call leaves them (BatchNorm's statistics in training). `train` says for all modules within whether they are in
    training mode; None leaves each in the mode that it is in at the call. Dropout takes a key, `rng=`. See
    `from_torch_function` for what the module's code may do. The arrays share memory with the module until it is trained
    or copied (`jaxish.from_torch`). Raises `TypeError` for what is no module, `ValueError` for one whose parameters have no shapes
    yet; `apply` raises `ValueError` where parameters or buffers are missing.
    """
    if not isinstance(module, nn.Module):
        raise TypeError(f"from_torch_module takes a torch.nn.Module, got {type(module)}.")
    if lazy := [name for name, t in module.state_dict(keep_vars=True).items() if is_lazy(t)]:
        raise ValueError(f"{', '.join(lazy)} of the module have no shapes yet. Call the module once before.")
    within = _WithBuffers(module)

    def run(modes: tuple[bool, ...], params: Any, buffers: Any, args: Any, kwargs: Any) -> Any:
        before = [m.training for m in module.modules()]
        _set_modes(module, modes)
        try:
            state = {f"module.{name}": t for name, t in {**params, **buffers}.items()}
            return torch.func.functional_call(within, state, (args, kwargs))
        finally:
            _set_modes(module, before)

    traced = from_torch_function(wraps(type(module).forward)(run))

    def apply(
        params: dict[str, Any], buffers: dict[str, Any], *args: Any, rng: Array | None = None,
        train: bool | None = None, **kwargs: Any,
    ) -> Any:  # fmt: skip
        if missing := names - params.keys() - buffers.keys():
            raise ValueError(
                f"apply needs all parameters and buffers of the module, here without {', '.join(sorted(missing))}. Give those "
                "that from_torch_module returned, or what became of them."
            )
        modes = tuple(m.training if train is None else train for m in module.modules())
        return traced(modes, params, buffers, args, kwargs, rng=rng)

    params = {name: from_torch(t) for name, t in module.named_parameters()}
    buffers = {name: from_torch(t) for name, t in module.named_buffers()}
    names = params.keys() | buffers.keys()
    return apply, params, buffers


def _set_modes(module: nn.Module, modes: Sequence[bool]) -> None:
    for part, training in zip(module.modules(), modes, strict=True):
        part.training = training


class _WithBuffers(nn.Module):
    """Calls a module and returns its buffers too, those that it has replaced included."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, args: Any, kwargs: Any) -> Any:
        result = self.module(*args, **kwargs)
        return result, dict(self.module.named_buffers())


def _widened(tensor: Tensor) -> Tensor:
    return tensor.long() if tensor.dtype is torch.int32 and not config.enable_x64.value else tensor


def _narrowed(tensor: Tensor) -> Tensor:
    return tensor.to(dtypes.to_torch(dtypes.canonicalize_dtype(dtypes.TO_NUMPY[tensor.dtype])))
