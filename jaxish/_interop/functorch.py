"""functorch's names over torch.func, for functions of tensors and of arrays.

Code written for functorch runs with one changed import, without its warnings. Who gives arrays has a function of arrays:
it sees arrays, and the results are arrays. Who gives tensors has functorch as it was; the function may use jaxish within.
"""

import copy
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from .._core.array import Array, from_kind, tensor_of
from .._transforms.flat import wraps

# ----------------------------------------------------------------------------------------------- arrays and tensors


def _tensors(pytree: Any) -> Any:
    return tree_map(lambda x: tensor_of(x) if isinstance(x, Array) else x, pytree)


def _arrays(pytree: Any) -> Any:
    return tree_map(lambda x: Array(x) if isinstance(x, Tensor) else x, pytree)


def _kinds_in(pytree: Any) -> list[Any]:
    """Return what each leaf of arguments is to be for a function: the kind of an array, None for all else."""
    return [x.kind if isinstance(x, Array) else None for x in tree_flatten(pytree)[0]]


def _of_tensors(func: Callable[..., Any], kinds: Sequence[Any], takes_keywords: bool = True) -> Callable[..., Any]:
    """Return `func` as torch.func calls it: with tensors in the place of arrays of these kinds, and in its results."""

    @wraps(func)
    def inner(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree_flatten((args, kwargs) if takes_keywords else args)
        seen = [x if kind is None else from_kind(x, kind) for x, kind in zip(leaves, kinds, strict=True)]
        given = tree_unflatten(seen, spec)
        return _tensors(func(*given[0], **given[1]) if takes_keywords else func(*given))

    return inner


def _called(transform: Callable[[Callable[..., Any]], Any], func: Callable[..., Any]) -> Callable[..., Any]:
    """Return what a transformation makes of `func`, for arrays too."""

    @wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        kinds = _kinds_in((args, kwargs))
        result = transform(_of_tensors(func, kinds))(*_tensors(args), **_tensors(kwargs))
        return result if all(k is None for k in kinds) else _arrays(result)

    return call


# -------------------------------------------------------------------------------------------------- transformations


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """Return `func` mapped over a dimension of its arguments; see `torch.func.vmap`."""
    return _called(lambda f: torch.func.vmap(f, in_dims, out_dims, randomness, chunk_size=chunk_size), func)


def grad(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return the gradient of `func`; see `torch.func.grad`."""
    return _called(lambda f: torch.func.grad(f, argnums, has_aux), func)


def grad_and_value(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Return the gradient and the value of `func`, in this order; see `torch.func.grad_and_value`."""
    return _called(lambda f: torch.func.grad_and_value(f, argnums, has_aux), func)


def jacrev(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, *, has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """Return the Jacobian of `func`, in reverse mode; see `torch.func.jacrev`."""
    return _called(lambda f: torch.func.jacrev(f, argnums, has_aux=has_aux, chunk_size=chunk_size), func)


def jacfwd(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """Return the Jacobian of `func`, in forward mode; see `torch.func.jacfwd`."""
    return _called(lambda f: torch.func.jacfwd(f, argnums, has_aux, randomness=randomness), func)  # pyright: ignore


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """Return the Hessian of `func`; see `torch.func.hessian`."""
    return _called(lambda f: torch.func.hessian(f, argnums), func)  # pyright: ignore


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """Return `func` without writes in place; see `torch.func.functionalize`."""
    return _called(lambda f: torch.func.functionalize(f, remove=remove), func)


def make_fx(func: Callable[..., Any], *args: Any, **options: Any) -> Callable[..., Any]:
    """Return a function that traces `func` into a `torch.fx.GraphModule`; see torch.fx.experimental.proxy_tensor."""
    from torch.fx.experimental import proxy_tensor

    return _called(lambda f: proxy_tensor.make_fx(f, *args, **options), func)


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Return the result of `func` and its pullback (and what it returns besides); see `torch.func.vjp`."""
    kinds = _kinds_in(primals)
    result, pullback, *aux = torch.func.vjp(_of_tensors(func, kinds, False), *_tensors(primals), has_aux=has_aux)
    if all(k is None for k in kinds):
        return result, _called(lambda f: f, pullback), *aux
    return _arrays(result), lambda *given, **options: _arrays(pullback(*_tensors(given), **options)), *_arrays(aux)


def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> tuple[Any, ...]:
    """Return the result of `func` and its derivative along the tangents; see `torch.func.jvp`."""
    kinds = _kinds_in(primals)
    inner = _of_tensors(func, kinds, False)
    result = torch.func.jvp(inner, _tensors(primals), _tensors(tangents), strict=strict, has_aux=has_aux)
    return result if all(k is None for k in kinds) else _arrays(result)


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Return the result of `func` and its derivative at `primals` as a function; see `torch.func.linearize`."""
    kinds = _kinds_in(primals)
    result, pushed = torch.func.linearize(_of_tensors(func, kinds, False), *_tensors(primals))
    if all(k is None for k in kinds):
        return result, pushed
    return _arrays(result), lambda *tangents: _arrays(pushed(*_tensors(tangents)))


def functional_call(module: nn.Module, parameters: Any, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
    """Call a module with these parameters and buffers; see `torch.func.functional_call`. Arrays anywhere give arrays."""
    result = torch.func.functional_call(module, _tensors(parameters), _tensors(args), _tensors(kwargs), **options)
    return result if all(k is None for k in _kinds_in((parameters, args, kwargs))) else _arrays(result)


# ---------------------------------------------------------------------------------------------- modules as functions


def make_functional(
    model: nn.Module, disable_autograd_tracking: bool = False
) -> tuple[Callable[..., Any], tuple[Tensor, ...]]:
    """Return a module as `f(params, *args, **kwargs)`, with its parameters. Raises `RuntimeError` if it has buffers."""
    if any(True for _ in model.buffers()):
        raise RuntimeError("make_functional takes modules without buffers: use make_functional_with_buffers.")
    call, params, _ = make_functional_with_buffers(model, disable_autograd_tracking)
    return lambda params, *args, **kwargs: call(params, (), *args, **kwargs), params


def make_functional_with_buffers(
    model: nn.Module, disable_autograd_tracking: bool = False
) -> tuple[Callable[..., Any], tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return a module as `f(params, buffers, *args, **kwargs)`, with its parameters and buffers as tuples.

    The module's own are copied. With `disable_autograd_tracking` the parameters do not require gradients. What the
    module writes into its buffers is written into those that are given.
    """
    own = copy.deepcopy(model)
    names, tensors = zip(*own.named_parameters(), strict=True) if list(own.parameters()) else ((), ())
    buffer_names, buffers = zip(*own.named_buffers(), strict=True) if list(own.buffers()) else ((), ())
    if disable_autograd_tracking:
        for tensor in tensors:
            tensor.requires_grad_(False)

    def call(params: Sequence[Any], buffers: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        state = dict(zip((*names, *buffer_names), (*params, *buffers), strict=True))
        return functional_call(own, state, args, kwargs)

    return call, tensors, buffers


def combine_state_for_ensemble(
    models: Sequence[nn.Module],
) -> tuple[Callable[..., Any], tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return modules of one kind as one function of stacked parameters and buffers, to be mapped over dimension 0.

    Raises `RuntimeError` without models, or for models of different kinds or modes.
    """
    if not models:
        raise RuntimeError("combine_state_for_ensemble needs at least one model.")
    if len({(type(m), m.training) for m in models}) > 1:
        raise RuntimeError("combine_state_for_ensemble needs models of one class, all in the same mode.")
    call = make_functional_with_buffers(models[0])[0]
    params, buffers = torch.func.stack_module_state(list(models))
    return call, tuple(params.values()), tuple(buffers.values())


# ---------------------------------------------------------------------------------------- what is found by its name

_DROPPED = {
    "FunctionalModule": "make_functional",
    "FunctionalModuleWithBuffers": "make_functional_with_buffers",
    "experimental": "torch.func.replace_all_batch_norm_modules_ and vmap(chunk_size=)",
    "einops": "torch.func.rearrange",
    "dim": "einops, or torch.func.rearrange",
}


def lookup(name: str) -> Any:
    """Return functorch's tools for compilers, the module `compile`, which load when they are named.

    Raises `AttributeError` for what is gone, saying what replaces it.
    """
    if name == "compile":
        return importlib.import_module("functorch.compile")
    hint = f"; use {_DROPPED[name]}" if name in _DROPPED else ""
    raise AttributeError(f"module 'jaxish.functorch' has no attribute {name!r}{hint}")
