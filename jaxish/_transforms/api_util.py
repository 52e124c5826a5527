"""Functions on pytrees as functions on lists of leaves, and which arguments are static or donated: `jax.api_util`."""

import functools
import inspect
import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .._core import tree
from .._core.avals import ShapedArray, aval_of
from .._core.tree import PyTreeDef
from .._core.tree_differences import broadcast_prefix
from .._core.tree_util import tree_flatten, tree_unflatten
from .flat import signature_of
from .linear_util import DebugInfo, Store, WrappedFun, transformation2, transformation_with_aux2


class InitialResultPaths:
    """Stands for the paths of results that are not known yet."""


_NOT_YET = InitialResultPaths()


def shaped_abstractify(x: Any) -> ShapedArray:
    """Return the type of an array, a scalar or whatever says that it is one. Raises `TypeError` for others."""
    return aval_of(x)


def safe_map(function: Callable[..., Any], /, *sequences: Iterable[Any]) -> list[Any]:
    """Return the list of `function`'s values. Raises `ValueError` for sequences of different lengths."""
    lists = [list(s) for s in sequences]
    for other in lists[1:]:
        if len(other) != len(lists[0]):
            raise ValueError(f"safe_map() argument lengths differ: {[len(s) for s in lists]}")
    return list(map(function, *lists))


def safe_zip(*sequences: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return the list of tuples. Raises `ValueError` for sequences of different lengths."""
    return safe_map(lambda *values: values, *sequences)


def split_list(values: Sequence[Any], sizes: Sequence[int]) -> list[list[Any]]:
    """Return the list as consecutive lists of these sizes, and what is left."""
    ends = list(itertools.accumulate(sizes))
    return [list(values[start:end]) for start, end in zip([0, *ends], [*ends, len(values)], strict=True)]


def unzip2(pairs: Iterable[tuple[Any, Any]]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the first and the second elements of the pairs."""
    found = list(pairs)
    return tuple(first for first, _ in found), tuple(second for _, second in found)


def flatten_fun_body(f: Callable[..., Any], store: Store, in_tree: PyTreeDef, *leaves: Any) -> list[Any]:
    """Call `f` with the pytree (args, kwargs) of these leaves; return the result's leaves and store its structure."""
    args, kwargs = tree_unflatten(in_tree, leaves)
    answer, out_tree = tree_flatten(f(*args, **kwargs))
    store.store(out_tree)
    return answer


def flatten_fun_nokwargs_body(f: Callable[..., Any], store: Store, in_tree: PyTreeDef, *leaves: Any) -> list[Any]:
    """Call `f` with the tuple of arguments of these leaves; return the result's leaves and store its structure."""
    answer, out_tree = tree_flatten(f(*tree_unflatten(in_tree, leaves)))
    store.store(out_tree)
    return answer


# Of a WrappedFun and the structure of its arguments, a WrappedFun of leaves and what returns the results' structure.
flatten_fun = transformation_with_aux2(flatten_fun_body)
flatten_fun_nokwargs = transformation_with_aux2(flatten_fun_nokwargs_body)


class _Fixed:
    """A static argument: equal to others of its very type that are equal."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Fixed) and type(self.value) is type(other.value) and self.value == other.value


class _Unhashable(_Fixed):
    """A static argument that can be equal to nothing but itself."""

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


@transformation2
def _with_fixed(
    f: Callable[..., Any], dynamic: tuple[int, ...], fixed: tuple[_Fixed, ...], *args: Any, **kw: Any
) -> Any:
    given, others = dict(zip(dynamic, args, strict=True)), iter(fixed)
    merged = [given[i] if i in given else next(others).value for i in range(len(args) + len(fixed))]
    return f(*merged, **kw)


def argnums_partial(
    f: WrappedFun, dyn_argnums: int | Sequence[int], args: Sequence[Any], require_static_args_hashable: bool = True
) -> tuple[WrappedFun, tuple[Any, ...]]:
    """Return `f` with all arguments but those at `dyn_argnums` fixed, and these arguments.

    Raises `ValueError` for positions beyond the arguments, and for fixed ones that cannot be hashed if they have to be.
    """
    numbers = positions_within(dyn_argnums, len(args))
    fixed = [(i, a) for i, a in enumerate(args) if i not in numbers]
    if require_static_args_hashable:
        for i, a in fixed:
            if not _is_hashable(a):
                raise ValueError(
                    "Non-hashable static arguments are not supported, as this can lead to unexpected cache-misses. Static "
                    f"argument (index {i}) of type {type(a)} for function {f.__name__} is non-hashable."
                )
    box = _Fixed if require_static_args_hashable else _Unhashable
    return _with_fixed(f, numbers, tuple(box(a) for _, a in fixed)), tuple(args[i] for i in numbers)


def positions_within(argnums: int | Sequence[int], count: int) -> tuple[int, ...]:
    """Return positions of arguments, counted from the front. Raises `ValueError` for those that are beyond `count`."""
    numbers = map(operator.index, argnums) if isinstance(argnums, Sequence) else [operator.index(argnums)]
    found = []
    for number in numbers:
        if not -count <= number < count:
            raise ValueError(
                "Positional argument indices, e.g. for `static_argnums`, must have value greater than or equal to "
                f"-len(args) and less than len(args), but got value {number} for len(args) == {count}."
            )
        found.append(number % count)
    return tuple(found)


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def donation_vector(
    donate_argnums: Sequence[int], donate_argnames: Sequence[str], in_tree: PyTreeDef, kws: bool = True
) -> tuple[bool, ...]:
    """Return for each leaf of the arguments whether it is donated, by its argument's position or name.

    `in_tree` is the structure of (args, kwargs), without `kws` that of args.
    """
    args, kwargs = in_tree.children() if kws else (in_tree, None)
    donated = [i in donate_argnums for i, arg in enumerate(args.children()) for _ in range(arg.num_leaves)]
    if kwargs is not None:
        names = (kwargs.node_data() or (dict, ()))[1]
        for name, value in zip(names, kwargs.children(), strict=True):
            donated += [name in donate_argnames] * value.num_leaves
    return tuple(donated)


def rebase_donate_argnums(donate_argnums: Iterable[int], static_argnums: Iterable[int]) -> tuple[int, ...]:
    """Return the positions of donated arguments among those that are not static. Raises `ValueError` where one is both."""
    donated, static = sorted(set(donate_argnums)), sorted(set(static_argnums))
    if set(donated) & set(static):
        raise ValueError(f"`static_argnums` {static} and `donate_argnums` {donated} cannot intersect.")
    return tuple(number - sum(s < number for s in static) for number in donated)


def flatten_axes(
    name: str, treedef: PyTreeDef, axis_tree: Any, *, kws: bool = False, tupled_args: bool = False
) -> list[Any]:
    """Return an axis for each leaf of `treedef`: `axis_tree` is a prefix of it, in which None is an axis, too.

    `kws` says that both have keyword arguments as their second part, `tupled_args` that they are of arguments. Raises
    `ValueError` naming `name` for what is no prefix.
    """
    hint = f" Note that {name} that are non-trivial pytrees should always be wrapped in a tuple representing the argument list."
    return broadcast_prefix(axis_tree, treedef._spec, name, lambda axis: axis is None, hint if tupled_args else "")


def debug_info(
    traced_for: str,
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    static_argnums: Sequence[int] = (),
    static_argnames: Sequence[str] = (),
    result_paths_thunk: Any = _NOT_YET,
    sourceinfo: str | None = None,
    signature: inspect.Signature | None = None,
) -> DebugInfo:
    """Return what messages say of `fun` called with these arguments, static ones left out."""
    place = _place(fun) if sourceinfo is None else sourceinfo
    names = _argument_names(signature or signature_of(fun), args, kwargs, static_argnums, static_argnames)
    return DebugInfo(traced_for, place, names, result_paths_thunk)


def _place(fun: Callable[..., Any]) -> str:
    while isinstance(fun, functools.partial):
        fun = fun.func
    fun = inspect.unwrap(fun)
    code = getattr(fun, "__code__", None)
    if code is None:
        return fun.__name__ if inspect.isbuiltin(fun) else "<unknown>"
    return f"{fun.__name__} at {code.co_filename}:{code.co_firstlineno}"


def _argument_names(
    signature: inspect.Signature | None, args: Sequence[Any], kwargs: dict[str, Any], static: Sequence[int],
    static_names: Sequence[str],
) -> tuple[str, ...]:  # fmt: skip
    fixed = {n % len(args) for n in static if -len(args) <= n < len(args)}
    args = [None if i in fixed else x for i, x in enumerate(args)]  # None has no leaves
    kwargs = {k: None if k in static_names else x for k, x in sorted(kwargs.items())}
    labelled = _by_parameter(signature, args, kwargs)
    if labelled is None:
        labelled = [("args", args), *((f"kwargs[{k!r}]", x) for k, x in kwargs.items())]
    return tuple(f"{label}{tree.keystr(path)}" for label, x in labelled for path, _ in tree.leaves_with_path(x))


def _by_parameter(
    signature: inspect.Signature | None, args: Sequence[Any], kwargs: dict[str, Any]
) -> list[tuple[str, Any]] | None:
    """Return arguments by the names of the parameters, keywords last; None where the signature does not take them."""
    if signature is None:
        return None
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return None
    rest = next((name for name, p in signature.parameters.items() if p.kind is p.VAR_KEYWORD), None)
    positional = [(name, x) for name, x in bound.items() if name not in kwargs and name != rest]
    return positional + [(name if name in bound else f"{rest}[{name!r}]", x) for name, x in kwargs.items()]
