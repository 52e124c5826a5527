"""Static and donated arguments: which arguments of a call are traced, and which the trace depends on."""

import inspect
import operator
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .._core import tree
from .._core.array import Array
from .._core.dimensions import each_of

UNSPECIFIED = object()


@dataclass(frozen=True)
class Signature:
    """Which arguments of a jitted function are static or donated, by position and by name."""

    static_argnums: tuple[int, ...]
    static_argnames: frozenset[str]
    donate_argnums: tuple[int, ...]
    donate_argnames: frozenset[str]

    @staticmethod
    def of(
        fun: Callable[..., Any], static_argnums: Any, static_argnames: Any, donate_argnums: Any, donate_argnames: Any
    ) -> "Signature":
        """Resolve the options of `jit`: positions and names of the same arguments imply each other.

        Raises `ValueError` for positions and names that the function does not have, and for arguments that are both.
        """
        try:
            parameters = list(inspect.signature(fun).parameters.values())
        except (TypeError, ValueError):
            parameters = None
        if parameters is None and donate_argnames is not None:
            raise ValueError(
                f"Getting the signature of function {fun} failed. Pass donate_argnums instead of donate_argnames."
            )
        statics = _resolved(parameters, static_argnums, static_argnames, "static")
        donated = _resolved(parameters, donate_argnums, donate_argnames, "donate")
        for which, static, given in zip(("argnames", "argnums"), reversed(statics), reversed(donated), strict=True):
            if both := set(static) & set(given):
                raise ValueError(
                    f"static_{which} and donate_{which} cannot intersect. Argument {which.removeprefix('arg')} {both} "
                    f"appear in both static_{which} and donate_{which}"
                )
        return Signature(*statics, *donated)

    @property
    def is_plain(self) -> bool:
        """Whether all arguments are traced, and none is donated."""
        return self == PLAIN

    def traced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any], Hashable]:
        """Return what is traced of a call, by position and by name, and what the trace depends on besides the types in it.

        Raises `ValueError` where a static argument cannot be hashed.
        """
        static, static_named = (), ()
        if self.static_argnums:
            static = tuple([(i, *_hashable(args[i])) for i in self.static_argnums if i < len(args)])
            args = self._positional(args)
        if kwargs and self.static_argnames:
            static_named = tuple([(k, *_hashable(v)) for k, v in sorted(kwargs.items()) if k in self.static_argnames])
            kwargs = self._named(kwargs)
        key = ((static, static_named), bool(kwargs)) if static or static_named or kwargs else None
        return args, kwargs, key

    def _positional(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([a for i, a in enumerate(args) if i not in self.static_argnums])

    def _named(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        return {k: v for k, v in kwargs.items() if k not in self.static_argnames}

    def _merged(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], positional: Iterable[Any], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return a call's arguments with these in the place of the traced ones."""
        given = iter(positional)
        merged = tuple(args[i] if i in self.static_argnums else next(given) for i in range(len(args)))
        return merged, {**named, **{k: v for k, v in kwargs.items() if k in self.static_argnames}}

    def with_traced(
        self, replace: Callable[[Any, Any], tuple[Any, Any]], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return a call's arguments with `replace`'s of the traced ones, by position and by name, in their place."""
        return self._merged(args, kwargs, *replace(self._positional(args), self._named(kwargs)))

    def split(self, args: tuple[Any, ...], kwargs: dict[str, Any], keyed: bool = True) -> "Arguments":
        """Set the static ones of a call's arguments aside. Raises `ValueError` where one cannot be hashed, if `keyed`."""
        key = self.traced(args, kwargs)[2] if keyed else None
        dynamic, dynamic_named = self._positional(args), self._named(kwargs)
        leaves, spec = tree.flatten((dynamic, dynamic_named) if dynamic_named else dynamic)

        def rebuild(values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            positional, named = spec.unflatten(values) if dynamic_named else (spec.unflatten(values), {})
            return self._merged(args, kwargs, positional, named)

        donated = ()
        if self.donate_argnums or self.donate_argnames:
            positions = [i for i in range(len(args)) if i not in self.static_argnums]
            donated = self._donated(spec, positions, bool(dynamic_named))
        return Arguments(leaves, spec, rebuild, key, (dynamic, dynamic_named), donated)

    def _donated(self, spec: tree.Spec, positions: Sequence[int], with_names: bool) -> tuple[int, ...]:
        positional, named = spec.children() if with_names else (spec, None)
        parts = [(i in self.donate_argnums, part) for i, part in zip(positions, positional.children(), strict=True)]
        if named is not None:
            parts += [(k in self.donate_argnames, v) for k, v in zip(named.entries(), named.children(), strict=True)]
        flags = [donated for donated, part in parts for _ in range(part.num_leaves)]
        return tuple(i for i, donated in enumerate(flags) if donated)


PLAIN = Signature((), frozenset(), (), frozenset())


@dataclass(frozen=True, eq=False)
class Arguments:
    """The arguments of one call, static ones set aside.

    `rebuild` makes (args, kwargs) of other values for the `leaves`; `key` is what a trace depends on besides their types;
    `dynamic` are the traced arguments as given, by position and by name; `donated` are indices of `leaves`.
    """

    leaves: list[Any]
    spec: tree.Spec
    rebuild: Callable[[Sequence[Any]], tuple[tuple[Any, ...], dict[str, Any]]]
    key: Hashable
    dynamic: tuple[tuple[Any, ...], dict[str, Any]]
    donated: tuple[int, ...]


def positions_of(argnums: Any) -> tuple[int, ...]:
    """Return None, a position or an iterable of positions as integers. Raises `TypeError` for anything else."""
    return () if argnums is None else tuple(map(operator.index, each_of(argnums)))


def _names_of(argnames: Any) -> tuple[Any, ...]:
    if argnames is None:
        return ()
    return (argnames,) if isinstance(argnames, str) else tuple(argnames)


def _resolved(
    parameters: list[inspect.Parameter] | None, argnums: Any, argnames: Any, what: str
) -> tuple[tuple[int, ...], frozenset[str]]:
    numbers, names = positions_of(argnums), _names_of(argnames)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"argument is not a string: {name}")
    if parameters is None or not (numbers or names):
        return numbers, frozenset(names)
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    takes_any_name = any(p.kind is p.VAR_KEYWORD for p in parameters)
    named = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    if not takes_any and any(not -len(positional) <= n < len(positional) for n in numbers):
        raise ValueError(
            f"Jitted function has {what}_argnums={numbers}, but only accepts {len(positional)} positional arguments."
        )
    without_names = {p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)}
    if invalid := set(names) & without_names:
        raise ValueError(
            f"Jitted function has invalid argnames {invalid} in {what}_argnames. These are positional-only"
        )
    unknown = set(names) - named
    if unknown and not takes_any_name:
        raise ValueError(
            f"Jitted function has invalid argnames {unknown} in {what}_argnames. Function does not take these args."
        )
    normal = tuple(n % len(positional) if n < 0 and positional else n for n in numbers)
    normal, names = _implied(parameters, None if argnums is None else normal, argnames)
    return normal, frozenset(names)


def infer_argnums_and_argnames(
    sig: inspect.Signature, argnums: int | Iterable[int] | None, argnames: str | Iterable[str] | None
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return positions and names of the same arguments of a function; those that are None follow from the others."""
    return _implied(sig.parameters.values(), argnums, argnames)


def _implied(
    parameters: Iterable[inspect.Parameter], argnums: Any, argnames: Any
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    numbers, names = positions_of(argnums), _names_of(argnames)
    either = {i: p.name for i, p in enumerate(parameters) if p.kind is p.POSITIONAL_OR_KEYWORD}
    if argnames is None:
        names = tuple(name for i, name in either.items() if i in numbers)
    elif argnums is None:
        numbers = tuple(i for i, name in either.items() if name in names)
    return numbers, names


def _hashable(value: Any) -> tuple[type, Any]:
    try:
        hash(value)
    except TypeError as error:
        raise ValueError(
            "Non-hashable static arguments are not supported. An error occurred while trying to hash an object of type "
            f"{type(value)}, {value}. The error was: TypeError: {error}. Pass a hashable value (a tuple for a list), "
            "or do not mark the argument as static."
        ) from None
    if isinstance(value, Array):
        raise ValueError("Non-hashable static arguments are not supported: an array cannot be static.")
    return type(value), value
