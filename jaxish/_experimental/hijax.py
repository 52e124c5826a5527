"""Primitives written as classes: what one computes, in functions of this library, and a method for each rule.

A primitive is called as it is outside of transformations, and is one structured primitive (`_HiCall`) under them. In
reverse mode it is a `custom_vjp` function with its forward and backward methods. Values of types that a user registers
are containers of arrays here: pytrees to all else.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from .._core import functorch, tree
from .._core.array import Array, as_array, tensor_of, type_text
from .._core.avals import AbstractValue, types_of_values
from .._core.graph import TensorType, folds
from .._core.levels import is_perturbed, is_tracked
from .._core.primitive import Dims, conjugate, popped_axis
from .._core.primitive import Primitive as Structured
from .._core.transposition import is_linear
from .._core.tree_util import register_pytree_node
from .._jaxprs.primitive import Primitive
from .._jaxprs.rules import AxisData, Zero, instantiate_zeros, primitive_jvps, primitive_transposes
from .._transforms.custom_function import SymbolicZero, concrete_level, is_transforming
from .._transforms.custom_jvp import custom_jvp
from .._transforms.custom_vjp import custom_vjp, custom_vjp_primal_tree_values
from .._transforms.flat import arrays_from, as_argument
from .._transforms.program import Program, trace_program
from .._transforms.vmap import vmap

# ------------------------------------------------------------------------------------------------- types of one's own


class HiType(AbstractValue):
    """The type of values that consist of arrays; a subclass is hashable and says which, in `lo_ty`.

    `lower_val(value)` gives the arrays, `raise_val(*arrays)` the value of them.
    """

    is_high = True
    has_qdd = False

    def lo_ty(self) -> list[Any]:
        """Return the types of the arrays that a value consists of."""
        raise NotImplementedError(f"{type(self).__name__} must define lo_ty")

    def lower_val(self, hi_val: Any) -> list[Any]:
        """Return the arrays that `hi_val` consists of."""
        raise NotImplementedError(f"{type(self).__name__} must define lower_val")

    def raise_val(self, *lo_vals: Any) -> Any:
        """Return the value that consists of these arrays."""
        raise NotImplementedError(f"{type(self).__name__} must define raise_val")


class MutableHiType(AbstractValue):
    """The type of values that change in place. Transformations do not take them; `jax.ref` has references."""

    is_high = True
    has_qdd = True


class HiPspec:
    """How values of a type of one's own lie over a mesh. `shard_map` does not take such values."""

    def to_lo(self) -> list[Any]:
        """Return the specifications of the arrays that a value consists of."""
        raise NotImplementedError(f"{type(self).__name__} must define to_lo")

    def to_tangent_spec(self) -> Any:
        """Return how tangents lie over the mesh."""
        raise NotImplementedError(f"{type(self).__name__} must define to_tangent_spec")

    def to_ct_spec(self) -> Any:
        """Return how cotangents lie over the mesh."""
        raise NotImplementedError(f"{type(self).__name__} must define to_ct_spec")


def register_hitype(val_cls: type, typeof_fn: Callable[[Any], Any]) -> None:
    """Make the values of a class those of the types that `typeof_fn` gives; `jax.typeof` knows them then."""

    def parts(value: Any) -> tuple[list[Any], Any]:
        type_of_value = typeof_fn(value)
        if not isinstance(type_of_value, HiType):
            raise NotImplementedError(
                f"{type_of_value} is the type of values that change in place: they are no arguments of transformations. "
                "Use jax.new_ref, or return what changed."
            )
        return type_of_value.lower_val(value), type_of_value

    register_pytree_node(val_cls, parts, lambda type_of_value, arrays: type_of_value.raise_val(*arrays))
    types_of_values[val_cls] = typeof_fn


@dataclass(frozen=True)
class aval_method:
    """A method of values of a type, declared in the class of the type."""

    fun: Callable[..., Any]


@dataclass(frozen=True)
class aval_property:
    """A property of values of a type, declared in the class of the type."""

    fget: Callable[[Any], Any]


@dataclass(frozen=True)
class AvalQDD(AbstractValue):
    """The type of a value that changes in place, with what its contents are now."""

    aval: AbstractValue
    qdd: Any


@dataclass(frozen=True)
class AvalMutableQDD(AbstractValue):
    """The same for a primitive that changes it: `mutable_qdd.update` says what the contents are then."""

    aval: AbstractValue
    mutable_qdd: Any


def cur_qdd(x: Any) -> Any:
    """Return what is in a value that changes in place now, as its method of this name tells it."""
    return x.cur_qdd()


class EffectTypes:
    """A set of classes of effects, those of a kind that some transformation allows."""

    def __init__(self) -> None:
        self._types: set[type] = set()

    def add_type(self, effect_type: type) -> None:
        """Add a class of effects, its subclasses with it."""
        self._types.add(effect_type)

    def contains(self, effect: Any) -> bool:
        """Tell whether an effect is of one of the classes."""
        return isinstance(effect, tuple(self._types))


control_flow_allowed_effects = EffectTypes()


# ---------------------------------------------------------------------------------------- primitives of the older form


class HiPrimitive(Primitive):
    """A primitive whose rules are methods: `abstract_eval`, `to_lojax` (what it computes), `jvp`, `transpose`.

    It is called outside of transformations. Under them its values would be types of one's own: see `VJPHiPrimitive`.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        if type(self).jvp is not HiPrimitive.jvp:
            primitive_jvps[self] = self.jvp
        if type(self).transpose is not HiPrimitive.transpose:
            primitive_transposes[self] = self.transpose

    def is_high(self, *avals: Any, **params: Any) -> bool:
        """Tell whether it has values of types of one's own among arguments and results."""
        return True

    def impl(self, *args: Any, **params: Any) -> Any:
        """Compute the results."""
        return self.to_lojax(*args, **params)

    def to_lojax(self, *args: Any, **params: Any) -> Any:
        """Compute the results by other primitives."""
        raise NotImplementedError(f"{type(self).__name__} must define to_lojax")

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """Return results and tangents."""
        raise NotImplementedError(f"{type(self).__name__} must define jvp")

    def transpose(self, *args: Any, **params: Any) -> Any:
        """Return the cotangents of the arguments in which it is linear."""
        raise NotImplementedError(f"{type(self).__name__} must define transpose")

    def bind(self, *args: Any, **params: Any) -> Any:
        """Compute the results outside of transformations; within them as a primitive of arrays, if it is not high."""
        if is_transforming() and self.is_high(*args, **params):
            raise NotImplementedError(
                f"The primitive {self.name} of values of types of one's own is not supported under transformations. "
                "Write it as a VJPHiPrimitive, or use pytrees of arrays or jax.ref."
            )
        return super().bind(*args, **params)


# ------------------------------------------------------------------------------------------------ primitives by classes


class GradAccum:
    """What a backward rule adds cotangents of an argument to, by `accum`; of none if that is not differentiated."""

    def __init__(self, aval: Any, is_wanted: bool) -> None:
        self.aval, self._is_wanted, self.total = aval, is_wanted, None

    def accum(self, ct: Any) -> None:
        """Add a cotangent; None and `Zero` are zero."""
        if self._is_wanted and ct is not None and not isinstance(ct, Zero):
            self.total = ct if self.total is None else self.total + ct


class VJPHiPrimitive:
    """A primitive; a subclass sets `in_avals`, `out_aval` (pytrees of types) and `params` and defines `expand`.

    `expand(*args)` computes the results. Each transformation needs its method: `vjp_fwd` and `vjp_bwd_retval` (or
    `vjp_bwd`), `jvp` (or `lin` and `linearized`), `batch_dim_rule` (or `batch`), `transpose`. Parameters are attributes.
    """

    in_avals: tuple[Any, ...]
    out_aval: Any
    params: dict[str, Hashable]
    effects: frozenset[Any] = frozenset()

    def __init__(self) -> None:
        for name in ("in_avals", "out_aval", "params"):
            if not hasattr(self, name):
                raise AttributeError(f"subclass __init__ should set `self.{name}`")
        if self._has("vjp_bwd") and self._has("vjp_bwd_retval"):
            raise AttributeError(f"subclass {type(self)} should not override both `vjp_bwd` and `vjp_bwd_retval`")
        self.in_avals_flat, self.in_tree = tree.flatten(self.in_avals)
        self.out_avals_flat, self.out_tree = tree.flatten(self.out_aval)
        self.__dict__.update(self.params)
        self.check(*self.in_avals)

    @classmethod
    def _has(cls, method: str) -> bool:
        return getattr(cls, method) is not getattr(VJPHiPrimitive, method)

    def check(self, *arg_tys: Any) -> None:
        """Raise if the types of the arguments are not to be."""

    def expand(self, *args: Any) -> Any:
        """Compute the results."""
        raise NotImplementedError(f"subclass {type(self)} must implement `expand`")

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        """Return results and residuals; `nzs_in` says which arguments are differentiated."""
        raise NotImplementedError(f"for grad support, subclass {type(self)} must implement `vjp_fwd`")

    def vjp_bwd(self, res: Any, outgrad: Any, /, *arg_accums: Any) -> None:
        """Add the arguments' cotangents to `arg_accums`."""
        cotangents = self.vjp_bwd_retval(res, outgrad)
        for accums, part in zip(arg_accums, cotangents, strict=True):
            leaves, spec = tree.flatten(accums)
            for accum, ct in zip(leaves, tree.broadcast_prefix(part, spec, is_leaf=_is_no_array), strict=True):
                accum.accum(ct)

    def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any:
        """Return the arguments' cotangents, None for zero."""
        raise NotImplementedError(
            f"for grad support, subclass {type(self)} must implement `vjp_bwd` or `vjp_bwd_retval`"
        )

    def jvp(self, primals: Any, tangents: Any) -> Any:
        """Return results and tangents; the tangents of arguments may be `Zero`."""
        raise NotImplementedError(f"for jvp support, subclass {type(self)} must implement `jvp`")

    def lin(self, nzs_in: Any, *primals: Any) -> Any:
        """Return results and what `linearized` is to be given."""
        raise NotImplementedError(f"for linearize support, subclass {type(self)} must implement `lin` and `linearized`")

    def linearized(self, residuals: Any, *tangents: Any) -> Any:
        """Return the results' tangents."""
        raise NotImplementedError(f"for linearize support, subclass {type(self)} must implement `lin` and `linearized`")

    def transpose(self, out_ct: Any, *maybe_accums: Any) -> None:
        """Add cotangents of the arguments in which the primitive is linear to the accumulators in their places."""
        raise NotImplementedError(f"for transpose support, subclass {type(self)} must implement `transpose`")

    def batch(self, axis_data: AxisData, args: Any, dims: Any) -> Any:
        """Return results and their batch dimensions, for arguments batched along `dims`."""
        out_dim = self.batch_dim_rule(axis_data, dims)
        return VmapOf(self, axis_data, dims, out_dim)(*args), out_dim

    def batch_dim_rule(self, axis_data: AxisData, dims: Any, /) -> Any:
        """Return the batch dimensions of the results."""
        raise NotImplementedError(f"for vmap support, subclass {type(self)} must implement `batch` or `batch_dim_rule`")

    def __call__(self, *args: Any) -> Any:
        """Return the results. Raises `TypeError` where arguments are not of the primitive's types."""
        leaves, spec = tree.flatten(args)
        arrays = [as_argument(leaf, type(self).__name__) for leaf in leaves]
        self._check_arguments(arrays, spec)
        if not is_transforming() or folds(a._tensor for a in arrays):
            return self.expand(*spec.unflatten(arrays))
        level = concrete_level()
        if level is not None and not self._is_transposed(level):
            if any(is_perturbed(tensor_of(a), level) for a in arrays):
                self._refuse_types("differentiation")
            return self._differentiated()(*spec.unflatten(arrays))
        program = trace_program(self.expand, arrays, lambda values: (spec.unflatten(values), {}), (), "expand")
        program = program.pure(type(self).__name__)
        call = _HiCall(self, program, [a.kind for a in arrays], spec)
        results = call(*program.closed.closure(), *map(tensor_of, arrays))
        return program.out_spec.unflatten(arrays_from(results, program.out_kinds))

    def _is_transposed(self, level: int) -> bool:
        return self._has("transpose") and (is_linear(level) or not self._has("vjp_fwd"))

    def _refuse_types(self, what: str) -> None:
        if any(isinstance(a, HiType) for a in (*self.in_avals_flat, *self.out_avals_flat)):
            raise NotImplementedError(
                f"{what} of {self}, which has values of a type of one's own, is not supported. Give the rules to a "
                "primitive of arrays around it."
            )

    def _differentiated(self) -> custom_vjp | custom_jvp:
        """Return the primitive as a function with the rules that the innermost level, which differentiates, asks for."""
        forward = functorch.current_interpreter().key() == functorch.TransformType.Jvp
        return _with_jvp(self) if forward or (self._has("lin") and not self._has("vjp_fwd")) else _with_vjp(self)

    def _pushed(self, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
        if self._has("jvp") or not self._has("lin"):
            return self.jvp(primals, tangents)
        leaves, spec = tree.flatten(tangents)
        found, residuals, *_ = self.lin(spec.unflatten(not isinstance(t, Zero) for t in leaves), *primals)
        return found, self.linearized(residuals, *tangents)

    def _check_arguments(self, arrays: Sequence[Array], spec: tree.Spec) -> None:
        wanted = [low for aval in self.in_avals_flat for low in (aval.lo_ty() if isinstance(aval, HiType) else [aval])]
        if len(wanted) == len(self.in_avals_flat) and spec != self.in_tree:
            raise ValueError(
                f"{self} takes arguments with the structure {tree.PyTreeDef(self.in_tree)}, and got "
                f"{tree.PyTreeDef(spec)}."
            )
        types = [(a.shape, a.dtype) for a in arrays]
        if types != [(a.shape, a.dtype) for a in wanted]:
            expected, found = ", ".join(map(type_text, wanted)), ", ".join(map(type_text, arrays))
            raise TypeError(f"input type mismatch for {self}: expected {expected}, got {found}.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self.params}]"

    def __hash__(self) -> int:
        return hash((type(self).__name__, tuple(self.params.items()), self.effects))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, VJPHiPrimitive)
            and type(self) is type(other)
            and self.params == other.params
            and self.effects == other.effects
        )


def _is_no_array(x: Any) -> bool:
    return x is None or isinstance(x, Zero)


call_hi_primitive_p = Primitive("call_hi_primitive")
call_hi_primitive_p.multiple_results = True
call_hi_primitive_p.function = lambda *args, _prim: tree.flatten(_prim(*_prim.in_tree.unflatten(args)))[0]


class _HiCall(Structured):
    """A call of a primitive; `body` computes it, and takes what `expand` closes over first."""

    __name__ = "call_hi_primitive"
    rules = ("prim", "kinds", "spec", "out_spec", "out_kinds")

    def __init__(self, prim: VJPHiPrimitive, program: Program, kinds: Sequence[Any], spec: tree.Spec) -> None:
        self.prim, self.kinds, self.spec = prim, list(kinds), spec
        self.body, self.captured = program.closed.graph, len(program.closed.captured)
        self.out_spec, self.out_kinds = program.out_spec, program.out_kinds

    def equation(self) -> tuple[Any, dict[str, Any]] | None:
        return None if self.captured else (call_hi_primitive_p, {"_prim": self.prim})

    @property
    def has_effect(self) -> bool:
        return bool(self.prim.effects) or super().has_effect

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return self.body.out_types

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return self.body(*inputs)

    def _arguments(self, tensors: Sequence[Tensor]) -> Any:
        return self.spec.unflatten(arrays_from(tensors[self.captured :], self.kinds))

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        level = functorch.peek_interpreter_stack()
        if level is None or level.key() != functorch.TransformType.Grad or self.prim._is_transposed(level.level()):
            return super().__call__(*inputs)
        if not any(is_tracked(t, level.level()) for t in inputs):
            return super().__call__(*inputs)
        self.prim._refuse_types("reverse-mode differentiation")
        found = tree.flatten(self.prim._differentiated()(*self._arguments(inputs)))[0]
        return [tensor_of(as_array(x)) for x in found]

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        self.prim._refuse_types("vmap")
        axis = AxisData(popped_axis(), size)
        given = self.spec.unflatten(dims[self.captured :])
        found, out_dims = self.prim.batch(axis, self._arguments(inputs), given)
        flat = tree.broadcast_prefix(out_dims, self.out_spec, is_leaf=lambda d: d is None)
        return [tensor_of(as_array(x)) for x in tree.flatten(found)[0]], flat

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        self.prim._refuse_types("forward-mode differentiation")
        arrays = arrays_from(primals[self.captured :], self.kinds)
        moving = tangents[self.captured :]
        given = [Zero.from_primal_value(a) if t is None else Array(t) for t, a in zip(moving, arrays, strict=True)]
        _, found = self.prim._pushed(self.spec.unflatten(arrays), self.spec.unflatten(given))
        leaves = tree.broadcast_prefix(found, self.out_spec, is_leaf=_is_no_array)
        return [None if _is_no_array(x) else tensor_of(as_array(x)) for x in leaves]

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        raise NotImplementedError(
            f"for grad support, {self.prim} must be differentiated as a function of all its inputs"
        )

    def vjp_of(
        self, needed: Sequence[bool], primals: Sequence[Tensor], results: Sequence[Tensor],
        cotangents: Sequence[Tensor | None],
    ) -> Sequence[Tensor | None]:  # fmt: skip
        arrays, wanted = arrays_from(primals[self.captured :], self.kinds), needed[self.captured :]
        accums = [GradAccum(a, True) if n else a for a, n in zip(arrays, wanted, strict=True)]
        zeros = (Zero(a.to_tangent_aval()) for a in self.prim.out_avals_flat)
        given = (z if c is None else Array(conjugate(c)) for c, z in zip(cotangents, zeros, strict=True))
        self.prim.transpose(self.out_spec.unflatten(given), *self.spec.unflatten(accums))
        totals = [a.total if isinstance(a, GradAccum) else None for a in accums]
        back = [None if t is None else conjugate(tensor_of(as_array(t))) for t in totals]
        return [*[None] * self.captured, *back]


def _with_vjp(prim: VJPHiPrimitive) -> custom_vjp:
    """Return the primitive as a function whose derivative is its backward method."""

    def fwd(*args: Any) -> Any:
        leaves, spec = tree.flatten(args)
        perturbed = [leaf.perturbed for leaf in leaves]
        found, residuals, *_ = prim.vjp_fwd(spec.unflatten(perturbed), *custom_vjp_primal_tree_values(args))
        return found, (residuals, [() if p else None for p in perturbed])  # a pytree without leaves says which

    def bwd(kept: Any, cotangents: Any) -> Any:
        residuals, perturbed = kept
        leaves, spec = tree.flatten(cotangents)
        given = spec.unflatten(Zero(x.aval.to_tangent_aval()) if isinstance(x, SymbolicZero) else x for x in leaves)
        accums = [GradAccum(a, p is not None) for a, p in zip(prim.in_avals_flat, perturbed, strict=True)]
        prim.vjp_bwd(residuals, given, *prim.in_tree.unflatten(accums))
        return prim.in_tree.unflatten(a.total for a in accums)

    called = custom_vjp(lambda *args: prim(*args))
    called.defvjp(fwd, bwd, symbolic_zeros=True)
    return called


def _with_jvp(prim: VJPHiPrimitive) -> custom_jvp:
    """Return the primitive as a function whose derivative is its forward method, in reverse mode the transpose of that."""

    def rule(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
        leaves, spec = tree.flatten(tangents)
        given = spec.unflatten(Zero(t.aval) if isinstance(t, SymbolicZero) else t for t in leaves)
        found, directions = prim._pushed(primals, given)
        return found, _without_zeros(directions)

    called = custom_jvp(lambda *args: prim(*args))
    called.defjvp(rule, symbolic_zeros=True)
    return called


class VmapOf(VJPHiPrimitive):
    """A primitive mapped over a batch, by `vmap` of what it computes and of its rules."""

    prim: VJPHiPrimitive
    axis_data: AxisData
    in_dims: Any
    out_dim: Any

    def __init__(self, prim: VJPHiPrimitive, axis_data: AxisData, in_dims: Any, out_dim: Any) -> None:
        self.in_avals = _batched(prim.in_avals_flat, prim.in_tree, in_dims, axis_data.size)
        self.out_aval = _batched(prim.out_avals_flat, prim.out_tree, out_dim, axis_data.size)
        self.params = {"prim": prim, "axis_data": axis_data, "in_dims": in_dims, "out_dim": out_dim}
        super().__init__()

    def __hash__(self) -> int:
        return hash((VmapOf, self.prim, self.axis_data.size))

    def _mapped(self, fun: Callable[..., Any], in_axes: Any, out_axes: Any) -> Callable[..., Any]:
        return vmap(fun, in_axes, out_axes, axis_name=self.axis_data.name, axis_size=self.axis_data.size)

    def expand(self, *args: Any) -> Any:
        return self._mapped(self.prim.expand, self.in_dims, self.out_dim)(*args)

    def jvp(self, primals: Any, tangents: Any) -> Any:
        in_dims, out_dims = (self.in_dims, self.in_dims), (self.out_dim, self.out_dim)
        return self._mapped(self.prim.jvp, in_dims, out_dims)(primals, _without_zeros(tangents))

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        fwd = self._mapped(lambda *xs: tuple(self.prim.vjp_fwd(nzs_in, *xs)[:2]), self.in_dims, (self.out_dim, 0))
        return fwd(*args)

    def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any:
        def back(res: Any, outgrad: Any) -> Any:
            avals = self.prim.in_tree.unflatten(GradAccum(a, True) for a in self.prim.in_avals_flat)
            self.prim.vjp_bwd(res, outgrad, *avals)
            found = tree.flatten(avals)[0]
            zeros = (instantiate_zeros(Zero(a.aval.to_tangent_aval())) for a in found)
            return [z if a.total is None else a.total for a, z in zip(found, zeros, strict=True)]

        dims = tree.broadcast_prefix(self.in_dims, self.in_tree, is_leaf=lambda d: d is None)
        mapped = self._mapped(back, (0, self.out_dim), [0 if d is None else d for d in dims])
        found = mapped(res, _without_zeros(outgrad))
        return self.in_tree.unflatten(x.sum(0) if d is None else x for x, d in zip(found, dims, strict=True))

    def batch_dim_rule(self, axis_data: AxisData, dims: Any, /) -> Any:
        inner = _dims_map(
            lambda new, old: new if None in (new, old) else new - (old < new), self.in_tree, dims, self.in_dims
        )
        out = self.prim.batch_dim_rule(axis_data, inner)
        return _dims_map(
            lambda new, old: new if None in (new, old) else new + (old <= new), self.out_tree, out, self.out_dim
        )


def _dims_map(change: Callable[[Any, Any], Any], spec: tree.Spec, new: Any, old: Any) -> Any:
    flat = (tree.broadcast_prefix(dims, spec, is_leaf=lambda d: d is None) for dims in (new, old))
    return spec.unflatten(map(change, *flat))


def _batched(avals: Sequence[Any], spec: tree.Spec, dims: Any, size: int) -> Any:
    flat = tree.broadcast_prefix(dims, spec, is_leaf=lambda d: d is None)
    shapes = (a.shape if d is None else (*a.shape[:d], size, *a.shape[d:]) for a, d in zip(avals, flat, strict=True))
    return spec.unflatten(a.update(shape=shape) for a, shape in zip(avals, shapes, strict=True))


def _without_zeros(directions: Any) -> Any:
    leaves, spec = tree.flatten(directions, is_leaf=lambda x: isinstance(x, Zero))
    return spec.unflatten(map(instantiate_zeros, leaves))
