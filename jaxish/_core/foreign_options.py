"""Options of JAX's configuration, and of its compiler, that have no counterpart here, as tables and nothing else.

`docs/differences.md` lists them. Programs may set those that only steer XLA, its cache, its dumps and its devices, and
read back what they set. Those that would change what a program computes, or which errors it raises, keep their default.
"""

from typing import Any

# Without effect. What a program computes does not depend on them in JAX either.
INERT: dict[str, Any] = {
    # how XLA compiles
    "jax_compiler_enable_remat_pass": True, "jax_disable_most_optimizations": False, "jax_exec_time_optimization_effort": 0.0,
    "jax_memory_fitting_effort": 0.0, "jax_memory_fitting_level": "O2", "jax_optimization_level": "UNKNOWN",
    "jax_enable_pgle": False, "jax_pgle_aggregation_percentile": 90, "jax_pgle_profiling_runs": 3,
    "jax_xla_profile_version": 0, "jax_use_magma": "auto", "jax_bcoo_cusparse_lowering": False,
    "jax_threefry_gpu_kernel_lowering": False, "jax_ragged_dot_use_gpu_pallas_triton_lowering": False,
    "jax_ragged_dot_use_ragged_dot_instruction": True, "jax_use_shardy_partitioner": True,
    "jax_embedded_constants_max_bytes": 32, "jax_captured_constants_warn_bytes": 2_000_000_000,
    "jax_captured_constants_report_frames": 0, "jax_use_simplified_jaxpr_constants": False, "eager_constant_folding": False,
    "jax_compiler_detailed_logging_min_ops": 10,
    # how JAX differentiates and lowers
    "jax2tf_associative_scan_reductions": False, "jax2tf_default_native_serialization": True, "jax_softmax_custom_jvp": False,
    "jax_use_direct_linearize": True, "jax_custom_vjp3": False, "jax_remat3": False, "jax_scan3": False,
    "jax_refs_to_pins": False, "jax_mutable_array_checks": True, "jax_disable_bwd_checks": False,
    "jax_export_calling_convention_version": 10,
    "jax_export_ignore_forward_compatibility": False, "jax_serialization_version": 0,
    # types that tell of shardings and of variation over mesh axes, which types here do not
    "check_vma": False, "jax_auto_pcast": True, "jax_remove_size_one_mesh_axis_from_type": False,
    "jax_disable_vmap_shmap_error": False,
    # how its cache on disk is kept: here `jaxish_cache_max_size`
    "jax_compilation_cache_max_size": -1, "jax_enable_compilation_cache": True,
    "jax_compilation_cache_check_contents": False, "jax_compilation_cache_expect_pgle": False,
    "jax_compilation_cache_include_metadata_in_key": False, "jax_persistent_cache_min_compile_time_secs": 1.0,
    "jax_persistent_cache_min_entry_size_bytes": 0, "jax_raise_persistent_cache_errors": False,
    "jax_persistent_cache_enable_xla_caches": "xla_gpu_per_fusion_autotune_cache_dir",
    "jax_remove_custom_partitioning_ptr_from_cache_key": False, "jax_share_binary_between_hosts": False,
    "jax_share_binary_between_hosts_timeout_ms": 1_200_000,
    # what is dumped, logged and shown
    "jax_dump_ir_modes": "stablehlo", "jax_dump_ir_to": "", "jax_include_debug_info_in_dumps": True,
    "jax_include_full_tracebacks_in_locations": True, "jax_traceback_in_locations_limit": 100,
    "jax_hlo_source_file_canonicalization_regex": None, "jax_source_url_schema": None, "jax_pprint_use_color": True,
    "jax_traceback_filtering": "auto", "jax_tracer_error_num_traceback_frames": 5, "jax_send_traceback_to_runtime": "off",
    "jax_debug_leaked_clients_on_clear_backends": False, "jax_distributed_debug": False, "jax_debug_log_modules": "",
    # its runtime
    "jax_cpu_enable_async_dispatch": True, "jax_cpu_collectives_implementation": "gloo", "jax_check_proxy_envs": True,
    "jax_cpu_get_global_topology_timeout_minutes": 5, "jax_cpu_get_local_topology_timeout_minutes": 2,
    "jax_cross_host_transfer_socket_address": "", "jax_cross_host_transfer_timeout_seconds": None,
    "jax_cross_host_transfer_transfer_size": None, "jax_cross_host_transport_addresses": "",
    "jax_force_dcn_cross_host_transfers": False, "jax_enable_preemption_service": True, "jax_enable_recoverability": False,
    "jax_pjrt_client_create_options": None, "jax_experimental_unsafe_xla_runtime_errors": False,
    "jax_sort_devices_by_process_index": True,
    # Pallas
    "jax_mosaic_allow_hlo": False, "jax_pallas_enable_debug_checks": False, "jax_pallas_poison_buffers": False,
    "jax_pallas_use_mosaic_gpu": True, "jax_pallas_verbose_errors": False, "jax_use_emit_pipeline_primitive": False,
}  # fmt: skip

# The default and nothing else: what to do in place of setting them.
FIXED: dict[str, tuple[Any, str]] = {
    "jax_backend_target": ("", "There are no backends in other processes."),
    "jax_xla_backend": ("", "Set jaxish_backend for another compiler."),
    "jax_mock_gpu_topology": ("", "Set jax_num_cpu_devices to write programs for many devices on one."),
    "mock_num_gpu_processes": (0, "Set jax_num_cpu_devices to write programs for many devices on one."),
    "jax_cuda_visible_devices": ("all", "Set the environment variable CUDA_VISIBLE_DEVICES."),
    "jax_rocm_visible_devices": ("all", "Set the environment variable HIP_VISIBLE_DEVICES."),
    "jax_oneapi_visible_devices": ("all", "torch's devices are CPUs, GPUs and TPUs."),
    "jax_check_static_indices": (False, "Check indices by jnp.take(mode='fill')."),
    "jax_error_checking_behavior_nan": ("ignore", "Set jax_debug_nans."),
    "jax_error_checking_behavior_divide": ("ignore", "Set jax_debug_nans and jax_debug_infs."),
    "jax_error_checking_behavior_oob": ("ignore", "Check indices by jnp.take(mode='fill')."),
    "jax_explicit_x64_dtypes": ("warn", "Set jax_enable_x64."),
}

# XLA's compile options: those outside its flags, and the commoner of its flags (`xla_*`), with the kinds of their values.
COMPILER_OPTIONS: dict[str, type] = {
    "exec_time_optimization_effort": float, "memory_fitting_effort": float, "optimization_level": int,
    "memory_fitting_level": int, "num_partitions": int, "num_replicas": int, "device_ordinal": int,
    "xla_backend_optimization_level": int, "xla_cpu_enable_fast_math": bool, "xla_cpu_enable_fast_min_max": bool,
    "xla_cpu_fast_math_honor_division": bool, "xla_cpu_fast_math_honor_functions": bool,
    "xla_cpu_fast_math_honor_infs": bool, "xla_cpu_fast_math_honor_nans": bool, "xla_cpu_multi_thread_eigen": bool,
    "xla_dump_hlo_as_html": bool, "xla_dump_hlo_as_proto": bool, "xla_dump_hlo_as_text": bool,
    "xla_dump_hlo_pass_re": str, "xla_dump_max_hlo_modules": int, "xla_dump_to": str, "xla_embed_ir_in_executable": bool,
    "xla_enable_fast_math": bool, "xla_force_host_platform_device_count": int, "xla_gpu_autotune_level": int,
    "xla_gpu_auto_spmd_partitioning_memory_budget_ratio": float, "xla_gpu_deterministic_ops": bool,
    "xla_gpu_enable_latency_hiding_scheduler": bool, "xla_gpu_enable_triton_gemm": bool,
    "xla_step_marker_location": int, "xla_test_all_input_layouts": bool, "xla_test_all_output_layouts": bool,
}  # fmt: skip
