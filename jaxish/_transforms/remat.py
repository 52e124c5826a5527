"""checkpoint (remat): trade memory for time by computing values again on the way back.

A policy says which values of the forward pass are kept. It is called as JAX calls it, `policy(prim, *avals,
**params)`; `prim.name` is JAX's name of the operation where it has one (`dot_general`), else torch's.
"""

import functools
import logging
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, fx

from .._core import config, derived, dtypes, operators, residuals, tree
from .._core.array import as_array, from_kind, tensor_of
from .._core.avals import ShapedArray
from .._core.derived import Inline
from .._core.graph import Graph, TensorType, type_of
from .._core.primitive import Dims, Primitive, popped_axis
from .._core.refs import check_aliases, references
from .callbacks import calls_for_io
from .flat import argument_names, arrays_from, as_argument, check_callable, described, wraps
from .kept_values import Name, kept, origin
from .program import trace_program
from .signature import UNSPECIFIED, Signature

Policy = Callable[..., bool]
_log = logging.getLogger("jax._src.ad_checkpoint")  # JAX's name: programs filter what it logs by it


class Checkpoint(Primitive):
    """A call whose intermediate values are not kept for the way back, but for those that the policy names."""

    __name__ = "checkpoint"
    rules = ("policy",)

    def __init__(self, body: Graph, policy: "Policy | None", prevent_cse: bool | Sequence[bool] = True) -> None:
        self.body, self.policy, self.prevent_cse = body, policy, prevent_cse

    def equation(self) -> tuple[str, dict[str, Any]] | None:
        asked = {"prevent_cse": self.prevent_cse, "policy": self.policy}
        return "remat2", {"jaxpr": self.body, "differentiated": False, **asked}

    def _of(self, body: Graph) -> "Checkpoint":
        return Checkpoint(body, self.policy, self.prevent_cse)

    @property
    def save(self) -> Callable[[fx.Node], bool]:
        """What tells which nodes of the body are kept."""
        return _saver(self.policy)

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return self.body.out_types

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return self.body(*inputs)

    def reached(self, changed: set[int]) -> set[int]:
        return derived.reached(self.body, changed)

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        body, out_dims = derived.mapped(self.body, dims, size, popped_axis())
        return self._of(body)(*inputs), out_dims

    def pushed(
        self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]
    ) -> tuple[Sequence[Tensor], Sequence[Tensor | None]]:
        return derived.pushed_rule(self.body, self._of, primals, tangents)

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        shown, save = _shown_halves.get(), self.save
        if shown is not None:  # a rule of its own, so that these halves are not taken for those that run
            results = residuals.differentiated(self.body, inputs, shown, lambda node: save(node))
        else:
            there, back = functools.partial(_half, Inline), functools.partial(_half, residuals.Whole)
            results = residuals.differentiated(self.body, inputs, there, save, _logged, back)
        return super().__call__(*inputs) if results is None else results


_shown_halves: ContextVar[Callable[[Graph], Primitive] | None] = ContextVar("shown_halves", default=None)


@contextmanager
def halves_as(call: Callable[[Graph], Primitive]) -> Iterator[None]:
    """Within this context manager the halves of checkpointed functions that are differentiated become what `call` makes."""
    token = _shown_halves.set(call)
    try:
        yield
    finally:
        _shown_halves.reset(token)


def _logged(forward: Graph, backward: Graph, results: int) -> None:
    """Log what a checkpointed function keeps for going back."""
    level = logging.WARNING if config.log_checkpoint_residuals.value else logging.DEBUG
    if not _log.isEnabledFor(level):
        return
    inputs, nodes = kept(forward, backward, results)
    given = [f"  {_text(forward.in_types[i])}" for i in inputs]
    made = [f"  {_text(type_of(node))} from {origin(node)}" for node in nodes]
    parts = ("saving inputs with shapes:", given), ("saving these intermediates:", made)
    _log.log(
        level, "remat-decorated function %s", "\nand ".join("\n".join([head, *lines]) for head, lines in parts if lines)
    )


def _text(type: TensorType | None) -> str:
    assert type is not None
    return ShapedArray(type.shape, dtypes.TO_NUMPY[type.dtype]).str_short()


def _half(call: Callable[[Graph], Primitive], body: Graph) -> Primitive:
    if calls_for_io(body):
        raise NotImplementedError("Effects not supported in partial-eval of `checkpoint`/`remat`: io_callback")
    return call(body)


def checkpoint(
    fun: Callable[..., Any],
    *,
    prevent_cse: bool | Sequence[bool] = True,
    policy: Policy | None = None,
    static_argnums: int | tuple[int, ...] = (),
    static_argnames: str | Iterable[str] = (),
    concrete: Any = UNSPECIFIED,
) -> Callable[..., Any]:
    """Return `fun` such that differentiating it keeps its inputs only, and what `policy` says; the rest is recomputed.

    Policies stand in `jax.checkpoint_policies`. `prevent_cse` asks that a compiler does not undo the recomputation;
    Inductor merges equal operations within one jitted graph either way, so it has no effect on values and little on
    memory there. Static arguments are Python values, as for `jit`. Raises `NotImplementedError` for `concrete`, which JAX had.
    """
    check_callable(fun)
    if concrete is not UNSPECIFIED:
        raise NotImplementedError(
            "The `concrete` option to `jax.checkpoint` was removed in JAX v0.10.0; use `static_argnums`."
        )
    signature = Signature.of(fun, static_argnums or None, static_argnames or None, None, None)

    @wraps(fun)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        given = signature.split(args, kwargs, keyed=False)
        arrays = [as_argument(leaf, "checkpoint") for leaf in given.leaves]
        names = argument_names(fun, args, kwargs) if references(arrays) else ()
        check_aliases(arrays, lambda: names, lambda: described(fun), "checkpoint")
        program = trace_program(fun, arrays, given.rebuild, names, "checkpoint")
        inputs = [*program.closure(arrays), *map(tensor_of, arrays)]
        call = Checkpoint(program.closed.graph, policy, prevent_cse)
        results = program.settled(call(*inputs), arrays, inputs)
        return program.out_spec.unflatten(arrays_from(results, program.out_kinds))

    return checkpointed


def remat(
    fun: Callable[..., Any],
    *,
    prevent_cse: bool | Sequence[bool] = True,
    policy: Policy | None = None,
    static_argnums: int | tuple[int, ...] = (),
    concrete: Any = UNSPECIFIED,
) -> Callable[..., Any]:
    """Return `checkpoint(fun)`, as it was called first: without `static_argnames`."""
    return checkpoint(fun, prevent_cse=prevent_cse, policy=policy, static_argnums=static_argnums, concrete=concrete)


# ----------------------------------------------------------------------------------------------------------- policies


@dataclass(frozen=True)
class Operation:
    """What a policy is asked about: an operation by name."""

    name: str

    def __repr__(self) -> str:
        return self.name


class RecomputeType:
    """What a policy may return in place of False."""


class SaveableType:
    """What a policy may return in place of True."""


Recompute, Saveable = RecomputeType(), SaveableType()


class Offloadable(NamedTuple):
    """What a policy may return to have a value kept in another memory. Those of a CPU are one: there it is saved."""

    src: str
    dst: str


def _is_saved(case: Any, type: TensorType | None) -> bool:
    """Read a policy's answer. Raises `NotImplementedError` for one that offloads from a GPU, `TypeError` for what is none."""
    if isinstance(case, Offloadable):
        if type is not None and type.device.type != "cpu":
            raise NotImplementedError(
                "Checkpoint policies that offload are not supported on GPUs; save the value (save_only_these_names, "
                "dots_with_no_batch_dims_saveable), or recompute it."
            )
        return True
    if isinstance(case, bool | np.bool_):
        return bool(case)
    if not isinstance(case, RecomputeType | SaveableType):
        raise TypeError(
            f"Policy should return a boolean or an instance of one of `ad_checkpoint.Recompute`, `ad_checkpoint.Saveable` or "
            f"`ad_checkpoint.Offloadable(...)`, got {case!r}."
        )
    return case is Saveable


@functools.cache
def _saver(policy: Policy | None) -> Callable[[fx.Node], bool]:
    if policy is None:
        return lambda node: False

    def save(node: fx.Node) -> bool:
        target = node.args[0].target if node.target is operator.getitem else node.target  # pyright: ignore
        name = operators.of(target).jax_name
        params: dict[str, Any] = {"name": target.label} if isinstance(target, Name) else {}
        if name == "dot_general":
            params["dimension_numbers"] = _dimension_numbers(node)
        case = policy(Operation(name), *(n.meta.get("val") for n in node.all_input_nodes), **params)
        return _is_saved(case, type_of(node))

    return save


def _dimension_numbers(node: fx.Node) -> tuple[Any, Any]:
    # torch's einsum makes a batch of one of every product; what the policies of JAX save by is whether there are more.
    batched = node.target in (torch.ops.aten.bmm.default, torch.ops.aten.baddbmm.default) and _size(node) != 1
    return (((2,), (1,)), ((0,), (0,))) if batched else (((1,), (0,)), ((), ()))


def _size(product: fx.Node) -> int:
    """Return how many matrices a batched product makes."""
    type = type_of(product)
    return type.shape[0] if type is not None else 0


class CheckpointPolicies:
    """The policies of `jax.checkpoint_policies`: which values of the forward pass are kept."""

    @staticmethod
    def everything_saveable(*_: Any, **__: Any) -> bool:
        """Keep every value."""
        return True

    @staticmethod
    def nothing_saveable(*_: Any, **__: Any) -> bool:
        """Keep no value."""
        return False

    @staticmethod
    def dots_saveable(prim: Any, *_: Any, **__: Any) -> bool:
        """Keep the results of matrix products and convolutions."""
        return prim.name in ("dot_general", "conv_general_dilated")

    checkpoint_dots = dots_saveable

    @staticmethod
    def dots_with_no_batch_dims_saveable(prim: Any, *_: Any, **params: Any) -> bool:
        """Keep the results of matrix products without batch dimensions."""
        return prim.name == "dot_general" and not params["dimension_numbers"][1][0]

    checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable

    @staticmethod
    def save_only_these_names(*names_which_can_be_saved: str) -> Policy:
        """Keep values named by `checkpoint_name` with one of these names, no others."""
        return _NamePolicy(frozenset(names_which_can_be_saved), others=False)

    @staticmethod
    def save_any_names_but_these(*names_not_to_save: str) -> Policy:
        """Keep values named by `checkpoint_name`, but for these names."""
        return _NamePolicy(frozenset(names_not_to_save), others=False, invert=True)

    @staticmethod
    def save_anything_except_these_names(*names_not_to_save: str) -> Policy:
        """Keep every value but those named by `checkpoint_name` with one of these names."""
        return _NamePolicy(frozenset(names_not_to_save), others=True, invert=True)

    @staticmethod
    def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> Policy:
        """Keep what either policy keeps. The policy raises `ValueError` where one of them answers by anything but a boolean."""

        def policy(prim: Any, *args: Any, **params: Any) -> bool:
            cases = [given(prim, *args, **params) for given in (policy_1, policy_2)]
            if not all(isinstance(case, bool) for case in cases):
                raise ValueError(
                    f"save_from_both_policies needs policies that return booleans, got {cases[0]} and {cases[1]}."
                )
            return any(cases)

        return policy

    @staticmethod
    def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Policy:
        """Keep what `dots_with_no_batch_dims_saveable` keeps, in the memory `offload_dst`: on a CPU the device's own."""

        def policy(prim: Any, *args: Any, **params: Any) -> Any:
            is_kept = CheckpointPolicies.dots_with_no_batch_dims_saveable(prim, *args, **params)
            return Offloadable(offload_src, offload_dst) if is_kept else Recompute

        return policy

    @staticmethod
    def save_and_offload_only_these_names(
        *,
        names_which_can_be_saved: Sequence[str],
        names_which_can_be_offloaded: Sequence[str],
        offload_src: str,
        offload_dst: str,
    ) -> Policy:
        """Keep values of the first names, those of the second ones in the memory `offload_dst`: on a CPU the device's own.

        Raises `ValueError` for a name that is among both.
        """
        saved, offloaded = frozenset(names_which_can_be_saved), frozenset(names_which_can_be_offloaded)
        if both := saved & offloaded:
            raise ValueError(
                "The names should be exclusive and should not intersect in `names_which_can_be_saved` and "
                f"`names_which_can_be_offloaded`. Got {set(both)} in both."
            )

        def policy(prim: Any, *_: Any, **params: Any) -> Any:
            if prim.name != "name":
                return Recompute
            if params["name"] in offloaded:
                return Offloadable(offload_src, offload_dst)
            return Saveable if params["name"] in saved else Recompute

        return policy


@dataclass(frozen=True)
class _NamePolicy:
    names: frozenset[str]
    others: bool
    invert: bool = False

    def __call__(self, prim: Any, *_: Any, **params: Any) -> bool:
        if prim.name != "name":
            return self.others
        return (params["name"] in self.names) != self.invert


checkpoint_policies = CheckpointPolicies()


def checkpoint_name(x: Any, name: str) -> Any:
    """Return `x` (a pytree of arrays), its values labelled `name` for the policies of `checkpoint`."""
    leaves, spec = tree.flatten(x)
    label, arrays = Name(name), map(as_array, leaves)
    return spec.unflatten(from_kind(label(tensor_of(a))[0], a.kind) for a in arrays)
