"""What jaxprs are made of: variables, literals, equations. JAX's classes, by their names and attributes."""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import torch

from .._core import dtypes
from .._core.array import Array, default_torch_device, is_weak
from .._core.avals import AbstractValue, ShapedArray, aval_of
from .._core.errors import JaxprTypeError as JaxprTypeError
from .._core.graph import Graph
from .primitive import Primitive
from .printing import equation_text, jaxpr_text
from .source_info import SourceInfo

Effects = set[Any]
no_effects: Effects = set()


class Var:
    """A value of a jaxpr that an equation, or the caller, gives."""

    __slots__ = ("aval",)

    def __init__(self, aval: AbstractValue) -> None:
        self.aval: Any = aval

    def __repr__(self) -> str:
        return f"Var(id={id(self)}):{self.aval.str_short()}"


class DropVar(Var):
    """A result of an equation that nothing reads."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "_"


class Literal:
    """A scalar that is written into an equation."""

    __slots__ = ("aval", "val")

    def __init__(self, val: Any, aval: AbstractValue | None = None) -> None:
        self.val, self.aval = val, cast(Any, aval_of(val) if aval is None else aval)

    @property
    def hash(self) -> int | None:
        """The hash of the value, None where it has none."""
        try:
            return hash((self.val.item(), self.val.dtype)) if hasattr(self.val, "item") else hash(self.val)
        except TypeError:
            return None

    @property
    def text(self) -> str:
        """How an equation shows it: the value and its type."""
        return f"{self._shown}:{self.aval.str_short(short_dtypes=True)}"

    @property
    def _shown(self) -> Any:
        return self.val.item() if hasattr(self.val, "item") else self.val

    def __repr__(self) -> str:
        return f"Literal({self._shown})"


Atom = Var | Literal


class JaxprEqnContext:
    """The configuration that an equation was traced under: its parameters hold all of that here."""

    @property
    def manager(self) -> contextlib.AbstractContextManager[None]:
        """The context manager to evaluate the equation in."""
        return contextlib.nullcontext()


@dataclass(eq=False, slots=True)
class JaxprEqn:
    """One operation: `outvars = primitive[params] invars`."""

    invars: list[Atom]
    outvars: list[Var]
    primitive: Primitive
    params: dict[str, Any]
    effects: Effects = field(default_factory=set)
    source_info: SourceInfo = field(default_factory=SourceInfo)
    ctx: JaxprEqnContext = field(default_factory=JaxprEqnContext)

    def replace(self, **changes: Any) -> "JaxprEqn":
        """Return a copy with some fields changed."""
        return JaxprEqn(**{**{name: getattr(self, name) for name in self.__slots__}, **changes})

    def __repr__(self) -> str:
        return equation_text(self)


def new_jaxpr_eqn(
    invars: Sequence[Atom], outvars: Sequence[Var], primitive: Primitive, params: Mapping[str, Any], effects: Effects,
    source_info: SourceInfo | None = None, ctx: JaxprEqnContext | None = None,
) -> JaxprEqn:  # fmt: skip
    """Return an equation."""
    where, context = source_info or SourceInfo(), ctx or JaxprEqnContext()
    return JaxprEqn(list(invars), list(outvars), primitive, dict(params), effects, where, context)


class DebugInfo(NamedTuple):
    """What messages say of a function: what it is traced for, its name and place, and the paths of arguments and results."""

    traced_for: str = "unknown"
    func_src_info: str = "<unknown>"
    arg_names: tuple[str, ...] | None = None
    result_paths: Any = None

    @property
    def func_name(self) -> str:
        """The function's name."""
        return self.func_src_info.partition(" ")[0]

    def with_unknown_names(self) -> "DebugInfo":
        """Return the same without paths."""
        return self._replace(arg_names=None, result_paths=None)


@dataclass(eq=False)
class Jaxpr:
    """A function as equations: of `constvars` and `invars` it makes `outvars`."""

    constvars: list[Var]
    invars: list[Var]
    outvars: list[Atom]
    eqns: list[JaxprEqn]
    effects: Effects = field(default_factory=set)
    debug_info: DebugInfo = field(default_factory=DebugInfo)

    def __post_init__(self) -> None:
        for name in ("constvars", "invars", "outvars", "eqns"):
            setattr(self, name, list(getattr(self, name)))

    @property
    def in_avals(self) -> list[Any]:
        """The types of the arguments."""
        return [v.aval for v in self.invars]

    @property
    def out_avals(self) -> list[Any]:
        """The types of the results."""
        return [v.aval for v in self.outvars]

    def replace(self, **changes: Any) -> "Jaxpr":
        """Return a copy with some fields changed. `ValueError` for a name that is none."""
        names = ("constvars", "invars", "outvars", "eqns", "effects", "debug_info")
        if unknown := changes.keys() - set(names):
            raise ValueError(f"Unknown keyword arguments: {sorted(unknown)}; a Jaxpr has {', '.join(names)}.")
        return Jaxpr(**{**{name: getattr(self, name) for name in names}, **changes})

    def pretty_print(
        self, *, source_info: bool = False, print_shapes: bool = True, custom_pp_eqn_rules: bool = True,
        name_stack: bool = False, print_effects: bool = False, width: int = 80,
    ) -> str:  # fmt: skip
        """Return the text, lines at most `width` wide where that can be.

        With `custom_pp_eqn_rules` parameters that say nothing are left out. Graphs keep no source lines and scopes:
        `NotImplementedError` when they are asked for.
        """
        if source_info or name_stack:
            raise NotImplementedError("Jaxprs here do not know source lines or name stacks; print them without.")
        return jaxpr_text(self, print_shapes, custom_pp_eqn_rules, print_effects, width)

    def __repr__(self) -> str:
        return self.pretty_print()

    __str__ = __repr__


class ClosedJaxpr:
    """A jaxpr and the values of its `constvars`; `graph` is what computes it, once that is known."""

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any], graph: Graph | None = None) -> None:
        if len(consts) != len(jaxpr.constvars):
            raise ValueError(f"{len(jaxpr.constvars)} constvars need as many consts, got {len(consts)}.")
        self.jaxpr, self.consts, self.graph = jaxpr, list(consts), graph

    constvars = property(lambda self: self.jaxpr.constvars)
    invars = property(lambda self: self.jaxpr.invars)
    outvars = property(lambda self: self.jaxpr.outvars)
    eqns = property(lambda self: self.jaxpr.eqns)
    effects = property(lambda self: self.jaxpr.effects)
    debug_info = property(lambda self: self.jaxpr.debug_info)
    in_avals = property(lambda self: self.jaxpr.in_avals)
    out_avals = property(lambda self: self.jaxpr.out_avals)
    literals = property(lambda self: self.consts)

    def map_jaxpr(self, f: Callable[[Jaxpr], Jaxpr]) -> "ClosedJaxpr":
        """Return the closed jaxpr of `f` of this one's jaxpr."""
        return ClosedJaxpr(f(self.jaxpr), self.consts)

    def replace(self, *, jaxpr: Jaxpr | None = None, consts: Sequence[Any] | None = None) -> "ClosedJaxpr":
        """Return a copy with another jaxpr or other constants."""
        return ClosedJaxpr(self.jaxpr if jaxpr is None else jaxpr, self.consts if consts is None else consts)

    def pretty_print(self, **options: Any) -> str:
        """Return the text: see `Jaxpr.pretty_print`."""
        return self.jaxpr.pretty_print(**options)

    def __repr__(self) -> str:
        return repr(self.jaxpr)

    __str__ = __repr__


def gensym() -> Callable[[AbstractValue], Var]:
    """Return a function that makes new variables of a type."""
    return Var


def jaxprs_in_params(params: Mapping[str, Any]) -> Iterator[Jaxpr]:
    """Yield the jaxprs among the parameters of an equation, those in tuples included."""
    for value in params.values():
        for v in value if isinstance(value, tuple) else (value,):
            if isinstance(v, Jaxpr | ClosedJaxpr):
                yield v.jaxpr if isinstance(v, ClosedJaxpr) else v


def subjaxprs(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """Yield the jaxprs within the equations of `jaxpr`, not those within these."""
    return itertools.chain.from_iterable(jaxprs_in_params(e.params) for e in jaxpr.eqns)


def check_jaxpr(jaxpr: Jaxpr) -> None:
    """Raise `JaxprTypeError` where a variable is read before it is given, or given twice; in inner jaxprs, too."""
    known: set[Var] = set()

    def bind(variables: Sequence[Var], where: str) -> None:
        for v in variables:
            if v in known and not isinstance(v, DropVar):
                raise JaxprTypeError(f"Variable '{v!r}' is bound twice, the second time {where}.")
            known.add(v)

    def read(atoms: Sequence[Atom], where: str) -> None:
        for atom in atoms:
            if isinstance(atom, Var) and atom not in known:
                raise JaxprTypeError(f"Variable '{atom!r}' is not defined, read {where}.")

    bind(jaxpr.constvars, "as a constant")
    bind(jaxpr.invars, "as an argument")
    for eqn in jaxpr.eqns:
        read(eqn.invars, f"by the equation {eqn}")
        bind(eqn.outvars, f"by the equation {eqn}")
    read(jaxpr.outvars, "as a result")
    for inner in subjaxprs(jaxpr):
        check_jaxpr(inner)


def eval_jaxpr(jaxpr: Jaxpr, consts: Sequence[Any], *args: Any, propagate_source_info: bool = True) -> list[Any]:
    """Return the results of `jaxpr` for `args`, equation by equation, by each primitive's `bind`.

    `consts` are the values of its `constvars`. `propagate_source_info` says whether errors name the equations' source
    lines, which jaxprs here do not know.
    """
    if len(args) != len(jaxpr.invars) or len(consts) != len(jaxpr.constvars):
        raise ValueError(
            f"The jaxpr takes {len(jaxpr.constvars)} constants and {len(jaxpr.invars)} arguments, "
            f"got {len(consts)} and {len(args)}."
        )
    values: dict[Var, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))

    def read(atom: Atom) -> Any:
        return literal_value(atom) if isinstance(atom, Literal) else values[atom]

    for eqn in jaxpr.eqns:
        found = eqn.primitive.bind(*map(read, eqn.invars), **eqn.primitive.get_bind_params(eqn.params))
        results = found if eqn.primitive.multiple_results else [found]
        values.update(zip(eqn.outvars, results, strict=True))
    results = [read(v) for v in jaxpr.outvars]
    if any(is_weak(v.aval) is not is_weak(x) for v, x in zip(jaxpr.invars, args, strict=True)):
        return results
    # The jaxpr knows which of its results are weak; jaxprs within its equations do not.
    return [_retyped(x, v) for v, x in zip(jaxpr.outvars, results, strict=True)]


def _retyped(x: Any, like: Atom) -> Any:
    if type(x) is not Array or x.weak_type is is_weak(like.aval):
        return x
    return Array(x._tensor, not x.weak_type)


def literal_value(literal: Literal) -> Any:
    """Return the value of a literal as an array."""
    if not isinstance(literal.aval, ShapedArray) or isinstance(literal.val, Array):
        return literal.val
    # In exactly this dtype: torch's own indices are 64 bits wide whatever jax_enable_x64 says.
    value = literal.val.item() if hasattr(literal.val, "item") else literal.val
    dtype = dtypes.to_torch(literal.aval.dtype)
    return Array(torch.full((), value, dtype=dtype, device=default_torch_device()), literal.aval.weak_type)


def jaxpr_as_fun(closed_jaxpr: ClosedJaxpr, *args: Any) -> Any:
    """Return the results of a closed jaxpr for `args`; without any, the function that does."""
    if args:
        return eval_jaxpr(closed_jaxpr.jaxpr, closed_jaxpr.consts, *args)
    return lambda *args: eval_jaxpr(closed_jaxpr.jaxpr, closed_jaxpr.consts, *args)
