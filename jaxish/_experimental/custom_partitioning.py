"""jax.experimental.custom_partitioning: functions that say how they are split over devices.

Here they are computed whole, wherever their arguments lie: what is said is checked and shown in jaxprs, and otherwise left alone.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .._core import errors, tree, tree_util
from .._core.array import is_tracer
from .._transforms.flat import dressed, positional_arguments, signature_of
from .._transforms.program import Program
from .annotated import AnnotatedCall, annotated, evaluable

BATCHING = "…"  # stands for any number of leading dimensions


def _is_batching(factor: str) -> bool:
    return re.fullmatch(rf"{BATCHING}\d*", factor) is not None


def _check_factor(factor: str) -> None:
    if (wrong := next((c for c in factor if not (c.isalnum() or c == "_")), None)) is not None:
        raise ValueError(f"Unknown character '{wrong}'")
    if not factor[:1].isalpha():
        raise ValueError(f"Factor names have to start with a letter, but got '{factor[:1]}'")


class CompoundFactor(tuple[str, ...]):
    """Names of two or more factors that one dimension is the product of.

    Raises `ValueError` for what are no such names.
    """

    def __new__(cls, *factors: str) -> "CompoundFactor":
        if len(factors) < 2:
            raise ValueError("A compound factor should contain at least two factors")
        for factor in factors:
            if not isinstance(factor, str):
                raise ValueError(f"Each element of CompoundFactor must be a str, but got {type(factor)}")
            if _is_batching(factor):
                raise ValueError("Ellipsis can't be used in a compound factor")
            _check_factor(factor)
        return super().__new__(cls, factors)


class ArrayMapping(tuple[Any, ...]):
    """The factors of an array's dimensions: a name or a `CompoundFactor` each; the first may be `BATCHING`.

    Raises `ValueError` for anything else.
    """

    def __new__(cls, *dim_mappings: str | CompoundFactor) -> "ArrayMapping":
        for i, factor in enumerate(dim_mappings):
            if not isinstance(factor, str | CompoundFactor):
                raise ValueError(
                    f"Each element of ArrayMapping must be a str or CompoundFactor, but got {type(factor)}"
                )
            if isinstance(factor, str) and _is_batching(factor):
                _check_begins(i == 0)
            elif isinstance(factor, str):
                _check_factor(factor)
        return super().__new__(cls, dim_mappings)


def _check_begins(at_the_beginning: bool) -> None:
    if not at_the_beginning:
        raise ValueError("Ellipsis can only be used at the beginning of a dimension")


class SdyShardingRule:
    """Which dimensions of operands and results go together: those with a factor in common.

    Sizes are given of the factors that only compound factors have. Raises `ValueError` for factors that contradict each other.
    """

    def __init__(
        self,
        operand_mappings: tuple[ArrayMapping, ...],
        result_mappings: tuple[ArrayMapping, ...],
        *,
        reduction_factors: tuple[str, ...] = (),
        need_replication_factors: tuple[str, ...] = (),
        permutation_factors: tuple[str, ...] = (),
        **factor_sizes: int,
    ) -> None:
        self.operand_mappings, self.result_mappings = operand_mappings, result_mappings
        self.factor_sizes = factor_sizes
        self.reduction_factors = reduction_factors
        self.need_replication_factors = need_replication_factors
        self.permutation_factors = permutation_factors
        dimensions = [d for mapping in (*operand_mappings, *result_mappings) for d in mapping]
        whole = {d for d in dimensions if isinstance(d, str)}
        names = dict.fromkeys(f for d in dimensions for f in ((d,) if isinstance(d, str) else d))
        self._check_sizes(names, whole)
        self._check_kinds(names)

    @property
    def _kinds(self) -> dict[str, tuple[str, ...]]:
        kinds = ("reduction_factors", "need_replication_factors", "permutation_factors")
        return {kind: getattr(self, kind) for kind in kinds}

    def _check_sizes(self, names: Sequence[str] | dict[str, None], whole: set[str]) -> None:
        for factor in self.factor_sizes:
            if factor not in names:
                raise ValueError(f"Factor {factor} is not used in the rule, but size is provided")
        for factor in names:
            if factor not in self.factor_sizes and factor not in whole:
                raise ValueError(f"Factor {factor} is only used in compound factors; must specify its size")
            if factor in self.factor_sizes and factor in whole:
                raise ValueError(f"Factor {factor} represents a whole dimension; do not specify its size")

    def _check_kinds(self, names: Sequence[str] | dict[str, None]) -> None:
        seen: set[str] = set()
        for kind, factors in self._kinds.items():
            if not isinstance(factors, tuple):
                raise ValueError(f"{kind} must be a tuple of factors")
            if len(factors) != len(set(factors)):
                raise ValueError(f"{kind} contains duplicated factors")
            for factor in factors:
                if factor not in names:
                    raise ValueError(f"Factor {factor} in {kind} is not used in the rule")
                if factor in seen:
                    raise ValueError(
                        f"Factor {factor} can only be in one of the reduction, need replication, or permutation factor sets."
                    )
                seen.add(factor)

    def __str__(self) -> str:
        kinds = "".join(f" {kind}={factors}" for kind, factors in self._kinds.items() if factors)
        return f"SdyShardingRule({self.operand_mappings}, {self.result_mappings}, {self.factor_sizes}{kinds})"


def _parsed(rule: Any, kinds: dict[str, Any], sizes: dict[str, Any]) -> SdyShardingRule:
    """Return the rule that a text such as "... i j, j -> ... i" says."""
    if not isinstance(rule, str):
        raise TypeError(f"rule must be a str, but got {type(rule)}")
    if not all(isinstance(size, int) for size in sizes.values()):
        raise TypeError(f"factor_sizes must be a dict of str to int, but got {sizes}")
    if BATCHING in rule:
        raise ValueError(f"Unknown character '{BATCHING}'")
    text = rule.replace("...", BATCHING)
    if "." in text:
        raise ValueError("Character '.' must be used inside ellipsis '...'")
    sides = text.split("->")
    if len(sides) != 2:
        raise ValueError(f"There is no -> in rule: '{rule}'")
    operands, results = (tuple(map(_parsed_mapping, side.split(","))) for side in sides)
    return SdyShardingRule(operands, results, **kinds, **sizes)


def _parsed_mapping(text: str) -> ArrayMapping:
    found: list[str | CompoundFactor] = []
    compound: list[str] | None = None
    for token in _tokens(text):
        if token == "(":
            if compound is not None:
                raise ValueError("Compound factors should be one level, nested brackets are not allowed")
            compound = []
        elif token == ")":
            if compound is None:
                raise ValueError("Brackets are not balanced")
            if len(compound) < 2:
                raise ValueError("Brackets should contain at least two factors")
            found.append(CompoundFactor(*compound))
            compound = None
        elif _is_batching(token):
            _check_begins(not found and compound is None)
            found.append(f"{BATCHING}{int(token[1:] or 0)}")
        else:
            _check_factor(token)
            (found if compound is None else compound).append(token)
    if compound is not None:
        raise ValueError(f"Brackets are not balanced in rule: '{text.strip()}'")
    return ArrayMapping(*found)


def _tokens(text: str) -> Iterator[str]:
    return (m[0] for m in re.finditer(rf"{BATCHING}\d*|\w+|\S", text))


class _Partitioned(AnnotatedCall):
    def _of(self, body: Any) -> "_Partitioned":
        return _Partitioned(body, self.name, self.parameters)

    def equation(self) -> tuple[str, dict[str, Any]]:
        return self.name, {**self.parameters, "call": self.body}


evaluable("custom_partitioning", _Partitioned, "call")


class custom_partitioning:
    """A function of which `def_partition` says how it is split over devices. It is computed whole here.

    Arguments in the positions `static_argnums` are no arrays.
    """

    def __init__(self, fun: Callable[..., Any], static_argnums: Sequence[int] = ()) -> None:
        dressed(self, fun)
        self.fun, self.static_argnums = fun, static_argnums
        self.partition: Callable[..., Any] | None = None
        self.propagate_user_sharding: Callable[..., Any] | None = None
        self.infer_sharding_from_operands: Callable[..., Any] | None = None
        self.decode_shardings = True
        self.sharding_rule: Any = None

    def def_partition(
        self,
        partition: Callable[..., Any],
        infer_sharding_from_operands: Callable[..., Any] | None = None,
        propagate_user_sharding: Callable[..., Any] | None = None,
        decode_shardings: bool = True,
        sharding_rule: Any = None,
        *,
        reduction_factors: tuple[str, ...] = (),
        need_replication_factors: tuple[str, ...] = (),
        permutation_factors: tuple[str, ...] = (),
        **factor_sizes: int,
    ) -> Callable[..., Any]:
        """Say how the function is split; return `partition`, which is not called.

        `sharding_rule` is an `SdyShardingRule`, a text such as "... i j, j -> ... i", or a function that returns one. The
        other arguments by name are of a text. Raises `ValueError` for a rule that contradicts itself.
        """
        self.partition, self.decode_shardings = partition, decode_shardings
        self.propagate_user_sharding = propagate_user_sharding
        self.infer_sharding_from_operands = infer_sharding_from_operands
        kinds = {
            "reduction_factors": reduction_factors,
            "need_replication_factors": need_replication_factors,
            "permutation_factors": permutation_factors,
        }
        if sharding_rule is None or callable(sharding_rule) or isinstance(sharding_rule, SdyShardingRule):
            unknown = {**factor_sizes, **{kind: factors for kind, factors in kinds.items() if factors}}
            if unknown:
                raise ValueError(f"Unknown keyword arguments: {unknown}")
            self.sharding_rule = sharding_rule
        else:
            self.sharding_rule = _parsed(sharding_rule, kinds, factor_sizes)
        return partition

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the function's results.

        Raises `NotImplementedError` where callbacks are given and no rule, `UnexpectedTracerError` for a traced static argument.
        """
        if self.sharding_rule is None and (self.propagate_user_sharding or self.infer_sharding_from_operands):
            raise NotImplementedError(
                "sharding propagation callbacks instead of sharding_rule are provided. Need to provide sharding_rule."
            )
        args = positional_arguments(self.fun, signature_of(self.fun), args, kwargs, "custom_partitioning")
        fixed = {i: args[i] for i in self.static_argnums}
        if any(is_tracer(leaf) for leaf in tree.flatten(fixed)[0]):
            raise errors.UnexpectedTracerError(
                "Found a JAX Tracer object passed as an argument to a custom_partitioning function in a position "
                "indicated as static by static_argnums."
            )
        others = [x for i, x in enumerate(args) if i not in fixed]

        def of_others(*values: Any) -> Any:
            given = iter(values)
            return self.fun(*(fixed[i] if i in fixed else next(given) for i in range(len(args))))

        def parameters(program: Program) -> dict[str, Any]:
            return {
                "decode_shardings": self.decode_shardings,
                "in_tree": tree_util.tree_structure(tuple(others)),
                "infer_sharding_from_operands": None,
                "out_tree": tree.PyTreeDef(program.out_spec),
                "partition": self.partition,
                "propagate_user_sharding": None,
                "sharding_rule": self.sharding_rule,
                "static_args": tuple(fixed.values()),
            }

        return annotated(of_others, "custom_partitioning", parameters, _Partitioned)(*others)
