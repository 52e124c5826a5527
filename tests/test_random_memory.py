"""Samplers that go through large arrays block by block: the same samples, in little more memory than they take."""

import numpy as np
import pytest
import torch
from oracle import agree

import jaxish
from jaxish._random import draws, lanes, uniforms

MEANS = np.random.default_rng(0).uniform(0, 40, 1001).astype("float32")
LATE = np.where(np.arange(1001) == 800, 30, 3).astype("float32")  # one sample by rejection, near the end
TRIALS = np.random.default_rng(1).integers(-1, 200, 1001).astype("float32")
ODDS = np.random.default_rng(2).uniform(0, 1, 1001).astype("float32")


@pytest.mark.parametrize(
    "program",
    [
        lambda j, k: j.random.poisson(k, 3.0, (1001,)),
        lambda j, k: j.random.poisson(k, 20.0, (7, 143)),
        lambda j, k: j.random.poisson(k, MEANS),
        lambda j, k: j.random.poisson(k, LATE),
        lambda j, k: j.random.poisson(k, MEANS[:7, None], (7, 143), "int8"),
        lambda j, k: j.jit(lambda k: j.random.poisson(k, MEANS))(k),
        lambda j, k: j.vmap(lambda k: j.random.poisson(k, 20.0, (100,)))(j.random.split(k, 9)),
        lambda j, k: j.vmap(lambda k: j.random.poisson(k, 20.0, (3,)))(j.random.split(k, 99)),
        lambda j, k: j.vmap(lambda lam: j.random.poisson(k, lam, (100,)))(MEANS[:9]),
        lambda j, k: j.random.binomial(k, 10.0, 0.3, (1001,)),
        lambda j, k: j.random.binomial(k, 1000.0, ODDS),
        lambda j, k: j.random.binomial(k, TRIALS, 0.7),
        lambda j, k: j.random.binomial(k, TRIALS, ODDS),
        lambda j, k: j.vmap(lambda n: j.random.binomial(k, n, ODDS[:100]))(TRIALS[:9]),
        lambda j, k: j.random.binomial(j.random.key(2, impl="rbg"), TRIALS, ODDS),
    ],
)
def test_counts_of_several_blocks_are_jaxs(program, monkeypatch):
    monkeypatch.setattr(lanes, "_LANES", 64)
    agree(lambda j: program(j, j.random.key(3)), rtol=0, atol=0)


@pytest.mark.parametrize(
    "program",
    [
        lambda k: jaxish.random.poisson(k, 3.0, (1001,)),
        lambda k: jaxish.random.poisson(k, 30.0, (1001,)),
        lambda k: jaxish.random.binomial(k, TRIALS, 0.3),
        lambda k: jaxish.vmap(lambda k: jaxish.random.poisson(k, 30.0, (100,)))(jaxish.random.split(k, 10)),
    ],
)
def test_rounds_hold_a_block_of_samples_at_one_time(program, monkeypatch):
    sizes, run = [], draws.Draw.run

    def spy(self, *inputs):
        results = run(self, *inputs)
        sizes.append(max(r.numel() for r in results))
        return results

    key = jaxish.random.key(0)
    monkeypatch.setattr(lanes, "_LANES", 64)
    monkeypatch.setattr(draws.Draw, "run", spy)
    program(key)
    assert len(sizes) > 10 and max(sizes) <= 64


@pytest.mark.parametrize("make", [draws.bits_of, uniforms.unit_sampler])
def test_draws_have_the_same_identity_in_every_process(make):
    argument = 32 if make is draws.bits_of else torch.float32
    first, second = (draws.Draw(make.__wrapped__(argument), 4) for _ in range(2))
    assert first.sampler.function is not second.sampler.function
    assert first.identity() == second.identity() != draws.Draw(draws.PAIRS, 4).identity()
