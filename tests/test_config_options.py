"""The options of jax.config and their context managers: those that JAX has are there, and do what they do in JAX."""

import gc
import os
import subprocess
import sys
import types

import jax
import numpy as np
import pytest
from oracle import agree

import jaxish

# ------------------------------------------------------------------------------------------------------------- options


def test_every_option_of_jax_is_there_with_its_default():
    # Those that the test process itself sets are left out.
    own = {"jax_platforms", "jax_num_cpu_devices"}
    # JAX's own test helpers, which a library may have imported here, add options of their tests.
    code = "import jax; print(*jax.config.values)"
    theirs = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    wanted = {name: jax.config.values[name] for name in theirs if name not in own}
    found = jaxish.config.values
    assert sorted(wanted.keys() - found.keys()) == []
    plain = lambda value: value.name.lower() if hasattr(value, "name") else value
    assert {n: found[n] for n in wanted} == {n: plain(v) for n, v in wanted.items()}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("jax_compilation_cache_max_size", "many"), ("jax_transfer_guard", "sometimes"),
        ("jax_logging_level", "LOUD"), ("jax_no_such_option", 1), ("jax_pprint_use_color", False),
        ("jax_memory_fitting_effort", 0.5), ("jax_compilation_cache_dir", "/tmp/somewhere"),
    ],
)  # fmt: skip
def test_values_are_taken_or_refused_as_in_jax(name, value):
    def program(lib):
        before = lib.config.values.get(name)
        lib.config.update(name, value)
        try:
            return lib.config.values[name] == value
        finally:
            lib.config.update(name, before)

    agree(program)


def test_what_would_change_programs_keeps_its_default():
    with pytest.raises(NotImplementedError, match="jax_enable_x64"):
        jaxish.config.update("jax_explicit_x64_dtypes", "allow")
    jaxish.config.update("jax_explicit_x64_dtypes", "warn")


def test_flags_are_no_booleans_and_want_their_value():
    agree(lambda lib: bool(lib.enable_x64))
    agree(lambda lib: lib.transfer_guard_host_to_device().__enter__())
    agree(lambda lib: lib.numpy_rank_promotion().__enter__())


def program_with_flags(call):
    return f"""
import sys
import jaxish as jax
def main(argv=None):
    print(jax.config.jax_enable_x64, jax.config.jax_numpy_rank_promotion, jax.config.jax_random_seed_offset)
{call}
"""


@pytest.mark.parametrize(
    "call",
    [
        "jax.config.parse_flags_with_absl(); jax.config.parse_flags_with_absl(); main()",
        "from absl import app; jax.config.config_with_absl(); app.run(main)",
    ],
    ids=["parse_flags_with_absl", "config_with_absl"],
)
def test_absl_flags_set_options(call):
    arguments = ["--jax_enable_x64", "--jax_numpy_rank_promotion=raise", "--jax_random_seed_offset=7"]
    program = [sys.executable, "-c", program_with_flags(call), *arguments]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.stdout.split() == ["True", "raise", "7"], done.stderr


def test_without_absl_the_error_says_so():
    program = program_with_flags("sys.modules['absl'] = None; jax.config.config_with_absl()")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "ModuleNotFoundError: Options on the command line need absl: pip install absl-py" in done.stderr


def test_platforms_say_where_arrays_are():
    program = """
import jaxish as jax
jax.config.update("jax_platforms", "cpu")
assert jax.devices()[0].platform == "cpu"
jax.config.update("jax_platforms", "cuda")
for ask in (jax.devices, lambda: jax.devices("cpu"), lambda: jax.numpy.ones(1)):
    try:
        ask()
    except RuntimeError as error:
        print(type(error).__name__)
"""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.stdout.split() == ["RuntimeError"] * 3, done.stderr


# ----------------------------------------------------------------------------------------------------- transfer guards

VALUES = np.ones((3, 2), np.float32)


def host_to_device(lib):
    jnp, given = lib.numpy, lib.numpy.asarray(VALUES)
    add = lib.jit(lambda x: x + 1)
    add(given)
    return {
        "asarray": lambda: jnp.asarray(VALUES), "array of a list": lambda: jnp.array([1.0, 2.0]),
        "a number": lambda: jnp.asarray(1.5), "ones": lambda: jnp.ones(3), "zeros": lambda: jnp.zeros(3),
        "full": lambda: jnp.full(3, 7.0), "sin": lambda: jnp.sin(VALUES), "with an array": lambda: given + VALUES,
        "jit": lambda: add(VALUES), "jit of a number": lambda: add(1.0), "jit of an array": lambda: add(given),
        "device_put": lambda: lib.device_put(VALUES), "put of a number": lambda: lib.device_put(1.0),
        "put of an array": lambda: lib.device_put(given), "captured": lambda: lib.jit(lambda x: x + VALUES)(given),
        "device_get": lambda: lib.device_get(given), "copy": lambda: given.copy(), "to NumPy": lambda: np.asarray(given),
        "key": lambda: lib.random.key(1),
    }  # fmt: skip


def between_devices(lib):
    given, other = lib.numpy.asarray(VALUES), lib.devices()[1]
    return {
        "device_put": lambda: lib.device_put(given, other), "from the host": lambda: lib.device_put(VALUES, other),
        "to its own": lambda: lib.device_put(given, lib.devices()[0]), "nowhere": lambda: lib.device_put(given),
    }  # fmt: skip


def refused(lib, guard, level, programs):
    found = {}
    for name, run in programs(lib).items():
        with getattr(lib, guard)(level):
            try:
                run()
                found[name] = False
            except lib.errors.JaxRuntimeError as error:
                assert "Disallowed" in str(error)
                found[name] = True
    return found


GUARDS = [
    "transfer_guard_host_to_device",
    "transfer_guard_device_to_device",
    "transfer_guard_device_to_host",
    "transfer_guard",
]


@pytest.mark.parametrize("programs", [host_to_device, between_devices])
@pytest.mark.parametrize("level", ["allow", "log", "disallow", "log_explicit", "disallow_explicit"])
@pytest.mark.parametrize("guard", GUARDS)
def test_transfers_are_refused_where_jax_refuses_them(guard, level, programs):
    assert refused(jaxish, guard, level, programs) == refused(jax, guard, level, programs)


def test_guards_nest_and_are_set_for_all_directions_at_once():
    def program(lib):
        found = []
        with lib.transfer_guard("disallow"), lib.transfer_guard_host_to_device("allow"):
            found.append(lib.numpy.ones(1))
        lib.config.update("jax_transfer_guard", "disallow")
        found += [lib.config.values[f"jax_{guard}"] for guard in GUARDS]
        lib.config.update("jax_transfer_guard", None)
        return [*found, lib.numpy.ones(1), lib.config.values["jax_transfer_guard_host_to_device"]]

    agree(program)


def test_transfers_are_logged(caplog):
    with jaxish.transfer_guard("log"):
        jaxish.device_put(VALUES)
    assert "transfer" not in caplog.text
    with jaxish.transfer_guard("log"):
        jaxish.numpy.asarray(VALUES)
    assert "host-to-device transfer" in caplog.text


# ------------------------------------------------------------------------------------------------- checks of programs


def leaking(lib, transformation):
    kept = []

    def program(x):
        y = x * 2
        kept.append(y)
        return y.sum()

    with lib.checking_leaks():
        getattr(lib, transformation)(program)(np.ones(3, np.float32))


@pytest.mark.parametrize("transformation", ["jit", "vmap", "make_jaxpr", "checkpoint"])
def test_leaks_are_found(transformation):
    for lib in (jax, jaxish):
        with pytest.raises(Exception, match=r"Leaked trace (DynamicJaxpr|Batch)Trace"):
            leaking(lib, transformation)


def test_what_does_not_leak_is_no_leak():
    def program(lib):
        def f(x):
            kept = [x, x * 2]
            return lib.lax.scan(lambda c, v: (c + v, c), kept[1].sum(), kept[0])[0]

        x = lib.numpy.ones(3)
        with lib.checking_leaks():
            value, pull = lib.vjp(f, x)
            inner = lib.checkpoint(lambda v: lib.nn.relu(1.0 * v))
            within = lib.jit(lambda v: lib.vjp(inner, v)[0])(1.0)
            return value, pull(value), within, lib.jit(lib.grad(f))(x), lib.vmap(f)(lib.numpy.ones((2, 3)))

    agree(program)


def test_rubbish_that_holds_tracers_is_no_leak():
    """Also where it is older than the check."""

    def program(lib):
        holders = [types.SimpleNamespace() for _ in range(2)]
        for holder in holders:
            holder.itself = holder

        def f(x):
            inner = lib.jit(lambda x: store(holders.pop(), 2 * x))
            return store(holders.pop(), inner(x) + inner(x))

        def store(holder, x):
            holder.kept = x
            return x

        with lib.checking_leaks():
            return lib.jit(f)(1.0)

    agree(program)


def test_looking_for_leaks_passes_over_what_is_older_than_the_check():
    old, seen = [], []
    with jaxish.checking_leaks():
        jaxish.jit(lambda x: seen.append(any(o is old for o in gc.get_objects())) or x)(1.0)
    assert seen == [False]
    assert any(o is old for o in gc.get_objects())


def test_checks_of_graphs_pass_for_graphs_of_ours():
    def program(lib):
        with lib.enable_checks(True):
            return lib.jit(lambda x: x @ x.T)(VALUES)

    agree(program)


def test_no_tracing_refuses_new_programs_only():
    def program(lib, x):
        double = lib.jit(lambda v: v * 2)
        double(lib.numpy.ones(2))
        with lib.no_tracing(True):
            return double(x(lib))

    agree(program, lambda lib: lib.numpy.zeros(2))
    agree(program, lambda lib: lib.numpy.zeros(3))


def test_no_execution_lets_programs_be_traced():
    def program(lib, run):
        x = lib.numpy.ones(2)
        double = lib.jit(lambda v: v * 2)
        double(x)
        with lib.no_execution(True):
            return run(double, x)

    agree(program, lambda double, x: double(x))
    agree(program, lambda double, x: x + x)
    agree(program, lambda double, x: [double.lower(x).out_info.shape, double.eval_shape(x).shape])
    agree(program, lambda double, x: (double.lower(x), double(x)))
    assert jaxish.numpy.ones(1) + 1 == 2


def test_a_user_context_makes_jit_trace_again():
    def program(lib):
        context, seen = lib.make_user_context(0), []

        @lib.jit
        def f(x):
            seen.append(context.value)
            return x * context.value

        results = [f(2.0)]
        for value in (1, "two", 1, None):
            with context(value):
                results.append(f(2.0) if isinstance(value, int) else context.value)
        context.set_global(5)
        return results, seen, f(2.0), context.get_global(), context.value

    agree(program)


def test_reductions_of_short_floats_can_be_refused():
    def program(lib, dtype, shape):
        with lib.allow_f16_reductions(False):
            return lib.lax.reduce_sum(lib.numpy.ones(shape, dtype), (0,))

    for dtype, shape in [("float16", (3,)), ("bfloat16", (3, 2)), ("float16", (1, 3)), ("float32", (3,))]:
        agree(program, dtype, shape)


def test_the_mode_of_gumbel_noise():
    def program(lib):
        key = lib.random.key(0)
        lib.config.update("jax_high_dynamic_range_gumbel", True)
        try:
            return lib.random.gumbel(key, (5,)), lib.random.categorical(key, lib.numpy.arange(5.0))
        finally:
            lib.config.update("jax_high_dynamic_range_gumbel", False)

    agree(program)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_mesh_context_manager_can_be_refused():
    def program(lib, refuse):
        lib.config.update("jax_disallow_mesh_context_manager", refuse)
        try:
            with lib.sharding.Mesh(np.array(lib.devices()[:1]), "x"):
                return 1
        finally:
            lib.config.update("jax_disallow_mesh_context_manager", False)

    agree(program, False)
    agree(program, True)


def test_arrays_that_the_garbage_collector_frees_are_told(caplog):
    class Node:
        self: "Node"
        array: jaxish.Array

    def cycle():
        node = Node()
        node.self, node.array = node, jaxish.numpy.ones((2, 5))

    message = "`jax.Array` was deleted by the Python garbage collector"
    cycle()
    gc.collect()
    assert message not in caplog.text
    with jaxish.array_garbage_collection_guard("log"):
        array = jaxish.numpy.ones(3)
        del array
        assert message not in caplog.text
        cycle()
        gc.collect()
    assert message in caplog.text and "float32[2,5]" in caplog.text


def test_old_names_of_processes():
    for lib in (jax, jaxish):
        with pytest.warns(UserWarning, match="renamed"):
            assert (lib.host_count(), lib.host_id(), lib.host_ids()) == (1, 0, [0])
