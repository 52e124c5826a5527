"""jax.experimental.custom_partitioning: values, rules and their errors."""

import importlib
from typing import Any

import numpy as np
import pytest
from oracle import agree

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def module(lib):
    return importlib.import_module(f"{lib.__name__}.experimental.custom_partitioning")


def scaled_sine(lib, rule: Any = "...i, -> ...i, ...", static_argnums=(), **options: Any):
    made = module(lib).custom_partitioning(lambda x, n=2: (lib.numpy.sin(x) * n, x.sum()), static_argnums)
    made.def_partition(lambda *_: None, sharding_rule=rule, **options)
    return made


PROGRAMS = {
    "call": lambda lib: scaled_sine(lib)(X),
    "keyword": lambda lib: scaled_sine(lib)(X, n=3),
    "static": lambda lib: scaled_sine(lib, static_argnums=(1,))(X, 4),
    "traced static": lambda lib: lib.jit(lambda x, n: scaled_sine(lib, static_argnums=(1,))(x, n))(X, 2),
    "jit": lambda lib: lib.jit(scaled_sine(lib))(X),
    "callbacks alone": lambda lib: scaled_sine(lib, None, infer_sharding_from_operands=lambda *_: None)(X),
    "rule as a function": lambda lib: scaled_sine(lib, lambda *_: "i -> i, ")(X),
    "equation": lambda lib: [
        (
            e.primitive is module(lib).custom_partitioning_p,
            e.primitive.name,
            sorted(e.params),
            str(e.params["sharding_rule"]),
        )
        for e in lib.make_jaxpr(scaled_sine(lib))(X, 2.0).eqns
    ],
    "evaluated": lambda lib: lib.core.eval_jaxpr(
        (j := lib.make_jaxpr(scaled_sine(lib))(X, 2.0)).jaxpr, j.consts, X, 3.0
    ),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_calls(program):
    agree(program)


RULES = [
    ("i j", {}), ("i -> j -> k", {}), ("i j, j k -> i k", {"reduction_factors": ("j",)}), ("(i j) -> i j", {}),
    ("(i j) -> i", {}), ("(i j) -> i", {"j": 3}), ("(i j) -> i", {"j": 3, "i": 2}), ("i -> i", {"k": 2}),
    ("i -> i", {"k": "2"}), ("i ... -> i", {}), ("((i)) -> i", {}), ("(i) -> i", {}), ("(i -> i", {}), ("i) -> i", {}),
    ("1i -> i", {}), ("i! -> i", {}), ("_i -> i", {}), ("i j-> i", {"reduction_factors": ("k",)}),
    ("i j-> i", {"reduction_factors": "j"}), ("i j-> i", {"reduction_factors": ("j", "j")}),
    ("i j-> i", {"reduction_factors": ("j",), "permutation_factors": ("j",)}), ("...2 i -> ...02 i", {}),
    (".. i -> i", {}), ("-> i", {}), (" -> ", {}), (3, {}), ("(... j) -> j", {}),
    ("i j->k", {"need_replication_factors": ("i", "k")}), (None, {"k": 3}),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "options"), RULES)
def test_rules(rule, options):
    def program(lib):
        try:
            return str(scaled_sine(lib, rule, **options).sharding_rule)
        except ValueError as error:
            return str(error)

    agree(program)


def test_parts_of_rules():
    def program(lib):
        cp, found = module(lib), []
        for make in (
            lambda: cp.SdyShardingRule((cp.ArrayMapping("i", "j"),), (cp.ArrayMapping("i"),), reduction_factors=("j",)),
            lambda: cp.ArrayMapping(cp.CompoundFactor("b", "c"), "d"),
            lambda: cp.ArrayMapping(cp.BATCHING, "b"),
            lambda: cp.CompoundFactor("b"),
            lambda: cp.CompoundFactor("b", 1),
            lambda: cp.CompoundFactor("b", cp.BATCHING),
            lambda: cp.ArrayMapping("b", cp.BATCHING),
            lambda: cp.ArrayMapping(("b",)),
            lambda: cp.ArrayMapping("b c"),
        ):
            try:
                found.append(str(make()))
            except ValueError as error:
                found.append(str(error))
        return found

    agree(program)
