"""Names of JAX's pallas that are about compiled kernels: they raise, and say what to do instead."""

from typing import Any, NoReturn

_INTERPRETED = "kernels are interpreted here, one program at a time"
NO_SEMAPHORES = f"pallas: semaphores are not supported, {_INTERPRETED}."


def refused(name: str, why: str = _INTERPRETED, instead: str = "pallas_call(interpret=True), or jax.jit") -> Any:
    """Return a class, which annotations can name and functions be called like, that raises instead of being made."""

    def refuse(cls: type, *args: Any, **options: Any) -> NoReturn:
        raise NotImplementedError(f"{name} is not supported: {why}. Use {instead}.")

    return type(name.rpartition(".")[2], (), {"__new__": refuse, "__doc__": f"Refused: use {instead}."})


core_map = refused("pl.core_map")
delay = refused("pl.delay")
estimate_cost = refused("pl.estimate_cost")
get_global = refused("pl.get_global")
kernel = refused("pl.kernel")
lower_as_mlir = refused("pl.lower_as_mlir")
pallas_export_experimental = refused("pl.pallas_export_experimental")
semaphore_read = refused("pl.semaphore_read")
semaphore_signal = refused("pl.semaphore_signal")
semaphore_wait = refused("pl.semaphore_wait")

BufferedRef = refused("pltpu.BufferedRef")
BufferedRefBase = refused("pltpu.BufferedRefBase")
InterpretParams = refused("pltpu.InterpretParams")
TpuInfo = refused("pltpu.TpuInfo")
async_copy = refused("pltpu.async_copy")
async_remote_copy = refused("pltpu.async_remote_copy")
core_barrier = refused("pltpu.core_barrier")
create_tensorcore_mesh = refused("pltpu.create_tensorcore_mesh")
einshape = refused("pltpu.einshape")
emit_pipeline = refused("pltpu.emit_pipeline")
emit_pipeline_with_allocations = refused("pltpu.emit_pipeline_with_allocations")
force_tpu_interpret_mode = refused("pltpu.force_tpu_interpret_mode")
get_barrier_semaphore = refused("pltpu.get_barrier_semaphore")
get_tpu_info = refused("pltpu.get_tpu_info")
get_tpu_info_for_chip = refused("pltpu.get_tpu_info_for_chip")
make_async_copy = refused("pltpu.make_async_copy")
make_async_remote_copy = refused("pltpu.make_async_remote_copy")
matmul_acc_lhs = refused("pltpu.matmul_acc_lhs")
matmul_pop = refused("pltpu.matmul_pop")
matmul_push_rhs = refused("pltpu.matmul_push_rhs")
pack_elementwise = refused("pltpu.pack_elementwise")
prng_random_bits = refused("pltpu.prng_random_bits")
prng_seed = refused("pltpu.prng_seed")
run_on_first_core = refused("pltpu.run_on_first_core")
sample_block = refused("pltpu.sample_block")
set_tpu_interpret_mode = refused("pltpu.set_tpu_interpret_mode")
stateful_bernoulli = refused("pltpu.stateful_bernoulli")
stateful_bits = refused("pltpu.stateful_bits")
stateful_normal = refused("pltpu.stateful_normal")
stateful_uniform = refused("pltpu.stateful_uniform")
stochastic_round = refused("pltpu.stochastic_round")
sync_copy = refused("pltpu.sync_copy")
to_pallas_key = refused("pltpu.to_pallas_key")
touch = refused("pltpu.touch")
trace_value = refused("pltpu.trace_value")
unpack_elementwise = refused("pltpu.unpack_elementwise")
with_memory_space_constraint = refused("pltpu.with_memory_space_constraint")
