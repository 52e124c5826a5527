"""Tests run on the direct tier, unless they are about compilation: values are the same, and nothing compiles."""

import os

os.environ.setdefault("JAXISH_JIT_TIER", "direct")
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")  # of jaxish and of JAX, for the tests of shardings

import jax
import pytest

jax.config.update("jax_platforms", "cpu")  # of JAX alone: jaxish is tested where its devices are


@pytest.fixture
def compiled():
    """Run a test on the compiled tier."""
    from jaxish._core import config

    before = config.jit_tier.value
    config.jit_tier.set("compiled")
    yield
    config.jit_tier.set(before)
