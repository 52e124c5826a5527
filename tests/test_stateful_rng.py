"""jax.experimental.random against JAX: the same draws in the same order, to the last bit where JAX's are."""

import importlib

import numpy as np
import pytest
from oracle import agree

import jaxish


def rng(lib, seed: int | None = 42, **options):
    return importlib.import_module(f"{lib.__name__}.experimental.random").stateful_rng(seed, **options)


DRAWS = [
    "key()", "key(3)", "key((2, 3))", "random()", "random((2, 3))", "random(4, 'float16')", "uniform()",
    "uniform(-1, np.arange(3.0))", "uniform(0, 5, (2, 2))", "normal()", "normal(np.arange(3.0), 2)",
    "normal(size=(2, 3), dtype='float16')", "integers(10)", "integers(5, 50, (4,))", "integers(5, 50, 4, dtype='int8')",
    "split(3)._base_key", "spawn(2)[1].normal()", "split(3).key()",
]  # fmt: skip


@pytest.mark.parametrize("draw", DRAWS)
def test_draws_and_those_after_them(draw):
    def program(lib):
        generator = rng(lib)
        drawn = eval(f"generator.{draw}", {"generator": generator, "np": np})
        return drawn, generator.random()

    agree(program, weak=False)  # keys have none in JAX


@pytest.mark.parametrize("impl", ["rbg", "threefry2x32"])
def test_kinds_of_keys(impl):
    agree(lambda lib: rng(lib, 3, impl=impl).key(), weak=False)


def test_draws_in_jitted_functions_count():
    def program(lib):
        generator = rng(lib)
        closed_over, given = lib.jit(generator.uniform), lib.jit(lambda g, x: x + g.normal())
        return [closed_over(), given(generator, 1.0), closed_over(), given(generator, 2.0), generator.integers(1000)]

    agree(program)


def test_loops_and_batches():
    def program(lib):
        generator = rng(lib)
        looped = lib.lax.fori_loop(0, 4, lambda i, total: total + generator.uniform(), 0.0)
        batched = lib.vmap(lambda g, x: x + g.uniform())(generator.split(3), lib.numpy.zeros(3))
        return looped, batched, generator.uniform()

    agree(program)


def test_generators_are_pytrees():
    def program(lib):
        leaves, structure = lib.tree.flatten(rng(lib))
        return lib.tree.unflatten(structure, leaves).uniform()

    agree(program)


def test_a_seed_of_the_systems_is_for_the_top_level_only():
    assert not np.array_equal(rng(jaxish, None).random(20), rng(jaxish, None).random(20))
    agree(lambda lib: lib.jit(lambda: rng(lib, None).uniform())())
