"""Tests run on the direct tier, unless they are about compilation: values are the same, and nothing compiles."""

import ctypes
import functools
import os

os.environ.setdefault("JAXISH_JIT_TIER", "direct")
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")  # of jaxish and of JAX, for the tests of shardings
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # torch's threads do not spin: workers have all cores
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_parallel_codegen_split_count=1"
)  # JAX compiles in three quarters of the time

import jax
import pytest

# Whose private parts are known: another JAX, as a GPU's machine may have, is left alone.
IS_REFERENCE = jax.__version__ == "0.10.2"

jax.config.update("jax_platforms", "cpu")  # of JAX alone: jaxish is tested where its devices are

# Files that take longest. They start first: a worker that got one of them last would work alone.
LONGEST = [
    "examples", "background", "native_loop", "cache", "differential", "dynamo", "scipy_stats", "factored", "random_sharding",
    "export", "compositions", "interop_export", "random_bits", "control_flow", "dropin", "dp_sgd", "programs", "notebooks", "docs",
]  # fmt: skip


def pytest_collection_modifyitems(items):
    """Put the longest files first; the order within each stays as it is."""
    rank = {f"test_{name}": number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))


@pytest.fixture(autouse=True, scope="module")
def freed_memory():
    """Give back what a file's tests have freed.

    JAX compiles in threads, each with a heap of its own, and jaxish tells malloc to keep the top of every heap: a worker
    grew to 8 GB, three quarters of them free.
    """
    yield
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
    if trim is not None:
        trim(0)


@pytest.fixture(autouse=True, scope="module")
def one_context():
    """Have JAX write all of a file's programs in one MLIR context: a context of its own is most of what a small program's takes.

    Contexts differ in nothing. They keep the constants of their programs, hence one for each file. A program that is
    written while another one is (a constant that lowering computes) gets its own.
    """
    if not IS_REFERENCE:
        yield
        return
    from jax._src.interpreters import mlir  # nothing public gives lowering a context
    from jaxlib.mlir import ir

    make = mlir.make_ir_context
    kept = functools.cache(make)

    def context():
        try:
            ir.Context.current
        except ValueError:  # none is being used
            return kept()
        return make()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mlir, "make_ir_context", context)
        yield


@pytest.fixture(scope="module")
def older_emitters():
    """Have JAX compile in a fifth of the time, without the emitters that fuse operations. The older ones differ in narrow types."""
    if not IS_REFERENCE:
        yield
        return
    from jax._src import compiler  # nothing public sets the compiler's options for all functions

    given = compiler.get_compile_options

    def quick(*args, env_options_overrides=None, **kwargs):
        chosen = {"xla_cpu_use_fusion_emitters": False, **(env_options_overrides or {})}
        return given(*args, env_options_overrides=chosen, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "get_compile_options", quick)
        yield


@pytest.fixture(scope="module")
def unoptimized_jax(older_emitters):
    """Have JAX compile quickly: where a file's tests compile much and compute little, that is most of their time.

    It does not round products and sums once then, so that this is not for tests that compare all bits (test_random_bits).
    """
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def compiled():
    """Run a test on the compiled tier."""
    yield from _on_tier("compiled")


@pytest.fixture
def automatic():
    """Run a test on the default tier."""
    yield from _on_tier("auto")


def _on_tier(name):
    from jaxish._core import config

    before = config.jit_tier.value
    config.jit_tier.set(name)
    yield
    config.jit_tier.set(before)
