"""Configuration: JAX's flags, their environment variables, and context managers that set them for a block.

A `Flag` has one global value and an optional override per thread (set by `with flag(value):`), as in JAX. Flags
of JAX's that mean nothing here stand in `foreign_options.py`.
`state()` is a small number that stands for all values in force: traced graphs are kept by it.
"""

import itertools
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from .foreign_options import FIXED, INERT

_log = logging.getLogger("jaxish")


class _Thread(threading.local):
    def __init__(self) -> None:
        self.overrides: dict[str, Any] = {}
        self.state_epoch = -1
        self.state = 0


_thread = _Thread()
_epoch = 0  # counts changes of global values
_states: dict[tuple[Any, ...], int] = {}


def state() -> int:
    """Return a number that is the same whenever the same values are in force."""
    if _thread.state_epoch != _epoch:
        values = tuple(flag.value for flag in _traced)
        _thread.state = _states.setdefault(values, len(_states))
        _thread.state_epoch = _epoch
    return _thread.state


_BY_DEFAULT: Any = object()


class Flag:
    """One configuration value; calling it gives a context manager that sets it for a block in this thread.

    `traced` says whether what is traced depends on it; `instead` of a value that has to be the default, what to do.
    """

    def __init__(
        self,
        name: str,
        default: Any,
        doc: str,
        choices: tuple[Any, ...] | None = None,
        traced: bool = True,
        instead: str = "",
    ) -> None:
        self.name, self.default, self.__doc__, self.choices, self.traced = name, default, doc, choices, traced
        self.instead = instead
        self.on_change: list[Callable[[], None]] = []  # called in the thread that changed it
        text = os.environ.get(name.upper())
        self._global = default if text is None else self._parse(text)

    def _parse(self, text: str) -> Any:
        if isinstance(self.default, bool):
            if text.lower() in ("1", "true", "yes", "on", "t", "y"):
                return True
            if text.lower() in ("0", "false", "no", "off", "f", "n", ""):
                return False
            raise ValueError(f"environment variable {self.name.upper()}={text!r} is not a boolean; use 0 or 1")
        if isinstance(self.default, int | float):
            return type(self.default)(text)
        return self._checked(text)

    def _checked(self, value: Any) -> Any:
        if self.instead and value != self.default:
            raise NotImplementedError(f"{self.name}={value!r} is not supported. {self.instead}")
        if isinstance(self.default, bool) and not isinstance(value, bool | int | None):
            raise ValueError(f"new value for {self.name} must be a bool, got {value!r}")
        if isinstance(self.default, int) and not isinstance(value, int | None):
            raise ValueError(f"new value for {self.name} must be an int, got {value!r}")
        if isinstance(self.default, str) and not isinstance(value, str | None):
            raise ValueError(f"new value for {self.name} must be a string, got {value!r}")
        if self.choices is not None and value not in self.choices:
            raise ValueError(f"new value for {self.name} must be one of {self.choices}, got {value!r}")
        return bool(value) if isinstance(self.default, bool) else value

    @property
    def value(self) -> Any:
        """The value in force in this thread."""
        return _thread.overrides.get(self.name, self._global)

    def get_global(self) -> Any:
        """Return the value for threads that have set none of their own."""
        return self._global

    def set(self, value: Any) -> None:
        """Set the global value."""
        global _epoch
        before, self._global = self._global, self._checked(value)
        _epoch += 1
        try:
            self._notify()
        except Exception:
            self._global = before
            raise

    def swap(self, value: Any) -> Any:
        """Set the value in this thread for good, and return the one that was in force."""
        before = self.value
        _thread.overrides = {**_thread.overrides, self.name: value}
        _thread.state_epoch = -1
        return before

    def _notify(self) -> None:
        for hook in self.on_change:
            hook()

    def __bool__(self) -> NoReturn:
        raise TypeError(f"bool() not supported for instances of type 'Flag' (did you mean to use '{self.name}.value'?)")

    @contextmanager
    def __call__(self, new_val: Any = _BY_DEFAULT) -> Iterator[None]:
        if new_val is _BY_DEFAULT:
            if not isinstance(self.default, bool):
                raise TypeError(
                    f"Context manager for {self.name.removeprefix('jax_')} config option requires an argument "
                    "representing the new value for the config option."
                )
            new_val = True
        previous = _thread.overrides
        _thread.overrides = {**previous, self.name: self._checked(new_val)}
        _thread.state_epoch = -1
        self._notify()
        try:
            yield
        finally:
            rest = {k: v for k, v in _thread.overrides.items() if k != self.name}
            _thread.overrides = {**rest, self.name: previous[self.name]} if self.name in previous else rest
            _thread.state_epoch = -1
            self._notify()


_PRECISIONS = (
    None, "default", "high", "highest", "bfloat16", "tensorfloat32", "float32", "bfloat16_3x",
    "BF16_BF16_F32", "TF32_TF32_F32", "F32_F32_F32",
)  # fmt: skip

enable_x64 = Flag("jax_enable_x64", False, "Let arrays have 64-bit dtypes.")
disable_jit = Flag("jax_disable_jit", False, "Make jit, scan, cond and the loops run their Python functions directly.")
debug_nans = Flag("jax_debug_nans", False, "Raise FloatingPointError where a computation makes a NaN.")
debug_infs = Flag("jax_debug_infs", False, "Raise FloatingPointError where a computation makes an infinity.")
debug_key_reuse = Flag("jax_debug_key_reuse", False, "Raise KeyReuseError where a random key is used twice.")
log_compiles = Flag("jax_log_compiles", False, "Log every trace and compilation as a warning.")
log_checkpoint_residuals = Flag(
    "jax_log_checkpoint_residuals", False, "Log as a warning what a checkpointed function keeps for going back."
)
explain_cache_misses = Flag("jax_explain_cache_misses", False, "Log why a jitted function is traced again.")
numpy_rank_promotion = Flag(
    "jax_numpy_rank_promotion", "allow", "What to do on implicit rank promotion.", ("allow", "warn", "raise")
)
numpy_dtype_promotion = Flag(
    "jax_numpy_dtype_promotion", "standard", "Which dtype promotions are made.", ("standard", "strict")
)
default_matmul_precision = Flag(
    "jax_default_matmul_precision", None, "Precision of matrix products and convolutions.", _PRECISIONS
)
num_cpu_devices = Flag(
    "jax_num_cpu_devices",
    -1,
    "How many devices the CPU counts as; to be set before devices are asked for.",
    traced=False,
)
default_device = Flag("jax_default_device", None, "The device on which new arrays are made.")
default_prng_impl = Flag(
    "jax_default_prng_impl",
    "threefry2x32",
    "The random bit generator of new keys.",
    ("threefry2x32", "rbg", "unsafe_rbg"),
)
threefry_partitionable = Flag("jax_threefry_partitionable", True, "Use the partitionable layout of threefry bits.")
random_seed_offset = Flag("jax_random_seed_offset", 0, "A number added to every seed.")
enable_custom_prng = Flag("jax_enable_custom_prng", False, "Make PRNGKey return typed keys.")
legacy_prng_key = Flag("jax_legacy_prng_key", "allow", "What to do on raw uint32 keys.", ("allow", "warn", "error"))
high_dynamic_range_gumbel = Flag(
    "jax_high_dynamic_range_gumbel", False, "Make the default mode of random.gumbel 'high', of random.categorical too."
)
allow_f16_reductions = Flag("jax_allow_f16_reductions", True, "Let lax.reduce_sum add up numbers of 16 bits.")
check_tracer_leaks = Flag("jax_check_tracer_leaks", False, "Raise an error where a trace ends and its values live on.")
enable_checks = Flag("jax_enable_checks", False, "Check each graph that is traced.")
no_tracing = Flag("jax_no_tracing", False, "Raise an error where jit has to trace.", traced=False)
no_execution = Flag("jax_no_execution", False, "Raise an error where something is computed.")
disallow_mesh_context_manager = Flag(
    "jax_disallow_mesh_context_manager", False, "Raise an error for `with mesh:`; jax.set_mesh is for it.", traced=False
)
platforms = Flag("jax_platforms", None, "The platforms in use, separated by commas: cpu, cuda, tpu.", traced=False)
platform_name = Flag("jax_platform_name", "", "The platform in use: an older name of jax_platforms.", traced=False)
logging_level = Flag(
    "jax_logging_level",
    "NOTSET",
    "What the library logs: the level of the logger `jaxish`.",
    (None, "NOTSET", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
    traced=False,
)
logging_level.on_change.append(lambda: _log.setLevel(logging_level.value or "NOTSET"))
_GUARD_LEVELS = (None, "allow", "log", "disallow", "log_explicit", "disallow_explicit")
transfer_guard_host_to_device = Flag(
    "jax_transfer_guard_host_to_device", None, "What to do when values go to a device.", _GUARD_LEVELS, traced=False
)
transfer_guard_device_to_device = Flag(
    "jax_transfer_guard_device_to_device",
    None,
    "What to do when values go between devices.",
    _GUARD_LEVELS,
    traced=False,
)
transfer_guard_device_to_host = Flag(
    "jax_transfer_guard_device_to_host", None, "What to do when values leave a device.", _GUARD_LEVELS, traced=False
)


class _TransferGuards(Flag):
    """The option that stands for the three guards of transfers."""

    def set(self, value: Any) -> None:
        super().set(value)
        for guard in (transfer_guard_host_to_device, transfer_guard_device_to_device, transfer_guard_device_to_host):
            guard.set(value)


transfer_guards = _TransferGuards("jax_transfer_guard", None, "Sets all three guards.", _GUARD_LEVELS, traced=False)
if transfer_guards.value is not None:  # by environment variable
    transfer_guards.set(transfer_guards.value)
array_garbage_collection_guard = Flag(
    "jax_array_garbage_collection_guard",
    None,
    "What to do when the garbage collector finds an array in a cycle: 'log', or 'fatal' to end the process.",
    (None, "allow", "log", "fatal"),
    traced=False,
)
thread_guard = Flag(
    "jax_thread_guard",
    False,
    "Raise an error where another thread than this one runs something on several processes.",
    traced=False,
)
jit_tier = Flag(
    "jaxish_jit_tier",
    "auto",
    "How jit runs a graph: 'direct' runs its operators one by one, 'compiled' compiles at the first call, "
    "'auto' starts directly and switches over once a compiled kernel is ready.",
    ("auto", "compiled", "direct"),
)
cache_dir = Flag(
    "jaxish_cache_dir", None, "Where compiled code is kept; by default in the user's cache folder.", traced=False
)
compilation_cache_dir = Flag(
    "jax_compilation_cache_dir", None, "Where compiled code is kept unless `jaxish_cache_dir` says it.", traced=False
)
cache_max_size = Flag(
    "jaxish_cache_max_size",
    2 << 30,
    "How many bytes of compiled code are kept; what was not used for longest goes first.",
    traced=False,
)
show_compiles = Flag(
    "jaxish_show_compiles",
    False,
    "Tell on standard error which functions are being compiled, how many wait, and when calls run compiled code.",
    traced=False,
)
explain_per_example = Flag(
    "jaxish_explain_per_example", False, "Log each product, such as a gradient per example, that is kept in factors."
)
per_example_memory = Flag(
    "jaxish_per_example_memory",
    0,
    "How many megabytes a product that has to be made for a norm may take; larger ones are made in blocks. "
    "0 means a sixteenth of the memory that is free.",
)
backend = Flag("jaxish_backend", "inductor", "The torch.compile backend that compiles graphs, by name.")

jax2tf_associative_scan_reductions, softmax_custom_jvp, auto_pcast, remove_size_one_mesh_axis_from_type = (
    Flag(name, INERT[name], "No effect here.", traced=False)
    for name in (
        "jax2tf_associative_scan_reductions", "jax_softmax_custom_jvp", "jax_auto_pcast",
        "jax_remove_size_one_mesh_axis_from_type",
    )
)  # fmt: skip

FLAGS = {flag.name: flag for flag in list(globals().values()) if isinstance(flag, Flag)}
for _name, _default in INERT.items():
    if _name not in FLAGS:
        FLAGS[_name] = Flag(_name, _default, "No effect here.", traced=False)
for _name, (_default, _instead) in FIXED.items():
    FLAGS[_name] = Flag(_name, _default, "Keeps its default.", traced=False, instead=_instead)

# The meshes in force (`_devices/meshes.py`): no option of the user's, but traced programs depend on them.
mesh = Flag("jaxish_mesh_in_force", None, "The mesh of set_mesh, that of use_abstract_mesh, and that of `with mesh:`.")

# Whether calls of jitted functions stay calls in what is traced, so that jaxprs show them (`make_jaxpr`).
keeps_calls = Flag("jaxish_keeps_calls", False, "Calls of jitted functions stay calls in traced graphs.")

# What traced programs depend on; contexts of the user's are added.
_traced = [flag for flag in FLAGS.values() if flag.traced] + [mesh, keeps_calls]


class UserContext(Flag):
    """A value of the user's that traced programs depend on; calling it gives a context manager that sets it for a block."""

    def _checked(self, value: Any) -> Any:
        return value

    def get_global(self) -> Any:
        """Return the value outside of blocks."""
        return self._global

    def set_global(self, new_value: Any) -> None:
        """Set the value outside of blocks."""
        self.set(new_value)


_numbers = itertools.count()


def make_user_context(default_value: Any = None) -> UserContext:
    """Return a context whose value jitted functions depend on: where it differs they are traced again.

    `with context(value):` sets it for a block in this thread, `context.value` reads it. Values have to be hashable.
    """
    context = UserContext(f"user context {next(_numbers)}", default_value, "A context of the user's.")
    _traced.append(context)
    _thread.state_epoch = -1
    return context


@contextmanager
def transfer_guard(new_val: str) -> Iterator[None]:
    """Set what to do about transfers in every direction for a block: allow, log, disallow, log_explicit, disallow_explicit.

    `device_put` and `device_get` are explicit; the first three levels let them pass.
    """
    with (
        transfer_guard_host_to_device(new_val),
        transfer_guard_device_to_device(new_val),
        transfer_guard_device_to_host(new_val),
        transfer_guards(new_val),
    ):
        yield


def checking_leaks() -> Any:
    """Return a context manager under which a trace that ends while its values live on is an error."""
    return check_tracer_leaks(True)


class Config:
    """`jax.config`: every flag as an attribute, and `update`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return FLAGS[name].value
        except KeyError:
            raise AttributeError(f"Unrecognized config option: {name}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"config.{name} cannot be assigned; use jax.config.update({name!r}, {value!r})")

    def update(self, name: str, val: Any) -> None:
        """Set flag `name` globally. Raises `AttributeError` for an unknown name, `ValueError` for a bad value."""
        if name not in FLAGS:
            raise AttributeError(f"Unrecognized config option: {name}; the options are {', '.join(sorted(FLAGS))}")
        FLAGS[name].set(val)

    def read(self, name: str) -> Any:
        """Return the value of flag `name` that is in force."""
        if name not in FLAGS:
            raise AttributeError(f"Unrecognized config option: {name}")
        return FLAGS[name].value

    _read = read

    def config_with_absl(self) -> None:
        """Define a flag of absl for each option, set when `absl.app.run` has parsed the command line."""
        from . import absl_flags

        absl_flags.define(FLAGS)

    def parse_flags_with_absl(self) -> None:
        """Set the options that the command line gives (`--jax_enable_x64`), by absl, at once."""
        from . import absl_flags

        absl_flags.parse(FLAGS)

    @property
    def x64_enabled(self) -> bool:
        """Whether 64-bit dtypes are in use: the value of `jax_enable_x64`."""
        return enable_x64.value

    @property
    def values(self) -> dict[str, Any]:
        """All flags and the values in force."""
        return {name: flag.value for name, flag in FLAGS.items()}


config = Config()
