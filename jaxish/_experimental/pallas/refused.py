"""Names of JAX's pallas that are about compiled kernels: they raise, and say what to do instead."""

from collections.abc import Callable
from typing import Any, NoReturn

NO_SEMAPHORES = "pallas: semaphores are not supported, kernels are interpreted here, one program at a time."


def _refused(name: str, module: str = "pl") -> Callable[..., NoReturn]:
    def refuse(*args: Any, **options: Any) -> NoReturn:
        raise NotImplementedError(
            f"{module}.{name} is not supported: kernels are interpreted here, one program at a time. Use "
            "pallas_call(interpret=True), or jax.jit."
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Refused: kernels are interpreted, one program at a time."
    return refuse


core_map = _refused("core_map")
delay = _refused("delay")
estimate_cost = _refused("estimate_cost")
get_global = _refused("get_global")
kernel = _refused("kernel")
lower_as_mlir = _refused("lower_as_mlir")
pallas_export_experimental = _refused("pallas_export_experimental")
semaphore_read = _refused("semaphore_read")
semaphore_signal = _refused("semaphore_signal")
semaphore_wait = _refused("semaphore_wait")

BufferedRef = _refused("BufferedRef", "pltpu")
BufferedRefBase = _refused("BufferedRefBase", "pltpu")
InterpretParams = _refused("InterpretParams", "pltpu")
TpuInfo = _refused("TpuInfo", "pltpu")
async_copy = _refused("async_copy", "pltpu")
async_remote_copy = _refused("async_remote_copy", "pltpu")
core_barrier = _refused("core_barrier", "pltpu")
create_tensorcore_mesh = _refused("create_tensorcore_mesh", "pltpu")
einshape = _refused("einshape", "pltpu")
emit_pipeline = _refused("emit_pipeline", "pltpu")
emit_pipeline_with_allocations = _refused("emit_pipeline_with_allocations", "pltpu")
force_tpu_interpret_mode = _refused("force_tpu_interpret_mode", "pltpu")
get_barrier_semaphore = _refused("get_barrier_semaphore", "pltpu")
get_tpu_info = _refused("get_tpu_info", "pltpu")
get_tpu_info_for_chip = _refused("get_tpu_info_for_chip", "pltpu")
make_async_copy = _refused("make_async_copy", "pltpu")
make_async_remote_copy = _refused("make_async_remote_copy", "pltpu")
matmul_acc_lhs = _refused("matmul_acc_lhs", "pltpu")
matmul_pop = _refused("matmul_pop", "pltpu")
matmul_push_rhs = _refused("matmul_push_rhs", "pltpu")
pack_elementwise = _refused("pack_elementwise", "pltpu")
prng_random_bits = _refused("prng_random_bits", "pltpu")
prng_seed = _refused("prng_seed", "pltpu")
run_on_first_core = _refused("run_on_first_core", "pltpu")
sample_block = _refused("sample_block", "pltpu")
set_tpu_interpret_mode = _refused("set_tpu_interpret_mode", "pltpu")
stateful_bernoulli = _refused("stateful_bernoulli", "pltpu")
stateful_bits = _refused("stateful_bits", "pltpu")
stateful_normal = _refused("stateful_normal", "pltpu")
stateful_uniform = _refused("stateful_uniform", "pltpu")
stochastic_round = _refused("stochastic_round", "pltpu")
sync_copy = _refused("sync_copy", "pltpu")
to_pallas_key = _refused("to_pallas_key", "pltpu")
touch = _refused("touch", "pltpu")
trace_value = _refused("trace_value", "pltpu")
unpack_elementwise = _refused("unpack_elementwise", "pltpu")
with_memory_space_constraint = _refused("with_memory_space_constraint", "pltpu")
