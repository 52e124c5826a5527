"""A sample of what `make fuzz` compares: JAX, the direct tier, compiled code and native loops give the same values."""

import agreement
import emitted
import jax
import numpy as np
import pytest
import sanitizers
import tiers
import values
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from programs import draw_program, every

import jaxish
from jaxish._compile.loop_nodes import EXPRESSIONS, SEVERAL, STATEMENTS
from jaxish._compile.loop_operators import COMPUTED_WITH, OPERATORS, REDUCTIONS
from jaxish._compile.loop_views import VIEWS

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True, scope="module")
def wide_numbers():
    for library in (jax, jaxish):
        library.config.update("jax_enable_x64", True)
    yield
    for library in (jax, jaxish):
        library.config.update("jax_enable_x64", False)


def assert_agreement(way, programs, lanes, wanted=None):
    failures = agreement.compare(way, programs, lanes, wanted)[1]
    assert not failures, "\n".join(map(str, failures))


@pytest.mark.parametrize("dtype", COMPUTED_WITH, ids=str)
def test_every_operator_of_native_loops(dtype):
    failures = emitted.check(dtype, 4096, np.random.default_rng(0))[1]
    assert not failures, "\n".join(failures)


def test_the_harness_meets_all_that_native_loops_know():
    lanes = {
        dtype: values.lanes(dtype, 4, np.random.default_rng(0)) for dtype in ("bool", "int32", "float32", "complex64")
    }
    met = {name for dtype in lanes for p in every(dtype) for name in tiers.operators_of(p, lanes[dtype])}
    met |= {name for dtype in COMPUTED_WITH for name in emitted.check(dtype, 16, np.random.default_rng(0))[2]}
    known = {name.split()[0] for name in [*OPERATORS, *REDUCTIONS, *VIEWS, *EXPRESSIONS, *STATEMENTS, *SEVERAL]}
    assert known - met == NOT_TRACED


# What a scan puts into its own derivative, and torch into a second one; and of draws, determinants and derivatives of
# factorizations, which test_native_loop.py has. And of derivatives of running products, which test_pieces.py has: torch's formula
# divides by NaN, but not where it looks at values. And what sums in derivatives become within the emitter (`added_elements.py`).
NOT_TRACED = {"select_scatter", "zeros", "_efficientzerotensor", "empty", "eye", "linalg_cross", "new_full", "max"}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float32", "complex64"])
def test_native_loops_of_every_operation(dtype):
    lanes = values.lanes(dtype, 4096, np.random.default_rng(0))
    native = [p for p in every(dtype) if tiers.is_native(p, lanes)]
    for start in range(0, len(native), 32):
        assert_agreement(tiers.indexed, native[start : start + 32], lanes, wanted=tiers.whole)


@pytest.mark.parametrize("dtype", ["int16", "float32"])
def test_compiled_code_of_operations(dtype):
    lanes = values.lanes(dtype, 4096, np.random.default_rng(0))
    assert_agreement(tiers.whole, every(dtype)[::6], lanes)


@settings(
    max_examples=3,
    derandomize=True,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(data=st.data())
@pytest.mark.parametrize("way", [tiers.batched, tiers.carried, tiers.repeated, tiers.chosen, tiers.captured])
def test_drawn_programs(way, data):
    def draw(below):
        return data.draw(st.integers(0, below - 1))

    dtype = ["int32", "float32", "bool"][draw(3)]
    programs = [draw_program(dtype, draw, 2) for _ in range(5)]
    if way in (tiers.repeated, tiers.chosen):
        programs[0] = draw_program(dtype, draw, 2, "b")
    assert_agreement(way, programs, values.lanes(dtype, 128, np.random.default_rng(draw(1000))))


def test_nothing_is_found_by_sanitizers():
    done = sanitizers.in_a_process(512)
    assert done.returncode == 0, done.stdout + done.stderr
