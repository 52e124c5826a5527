"""Configuration: JAX's flags, their environment variables, and context managers that set them for a block.

A `Flag` has one global value and an optional override per thread (set by `with flag(value):`), as in JAX. Flags
that only steer XLA do not exist here: `config.update` raises for them as it does for any unknown name.
`state()` is a small number that stands for all values in force: traced graphs are kept by it.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


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
        values = (*(flag.value for flag in FLAGS.values() if flag.traced), mesh.value, keeps_calls.value)
        _thread.state = _states.setdefault(values, len(_states))
        _thread.state_epoch = _epoch
    return _thread.state


class Flag:
    """One configuration value; calling it gives a context manager that sets it for a block in this thread.

    `traced` says whether what is traced depends on it.
    """

    def __init__(
        self, name: str, default: Any, doc: str, choices: tuple[Any, ...] | None = None, traced: bool = True
    ) -> None:
        self.name, self.default, self.__doc__, self.choices, self.traced = name, default, doc, choices, traced
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
        if isinstance(self.default, int):
            return int(text)
        return self._checked(text)

    def _checked(self, value: Any) -> Any:
        if isinstance(self.default, bool) and not isinstance(value, bool | int):
            raise ValueError(f"new value for {self.name} must be a bool, got {value!r}")
        if self.choices is not None and value not in self.choices:
            raise ValueError(f"new value for {self.name} must be one of {self.choices}, got {value!r}")
        return bool(value) if isinstance(self.default, bool) else value

    @property
    def value(self) -> Any:
        """The value in force in this thread."""
        return _thread.overrides.get(self.name, self._global)

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

    @contextmanager
    def __call__(self, new_val: Any = True) -> Iterator[None]:
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
cache_max_size = Flag(
    "jaxish_cache_max_size",
    2 << 30,
    "How many bytes of compiled code are kept; what was not used for longest goes first.",
    traced=False,
)
backend = Flag("jaxish_backend", "inductor", "The torch.compile backend that compiles graphs, by name.")

FLAGS = {flag.name: flag for flag in list(globals().values()) if isinstance(flag, Flag)}

# The meshes in force (`_devices/meshes.py`): no option of the user's, but traced programs depend on them.
mesh = Flag("jaxish_mesh_in_force", None, "The mesh of set_mesh, that of use_abstract_mesh, and that of `with mesh:`.")

# Whether calls of jitted functions stay calls in what is traced, so that jaxprs show them (`make_jaxpr`).
keeps_calls = Flag("jaxish_keeps_calls", False, "Calls of jitted functions stay calls in traced graphs.")


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
        """Return the global value of flag `name`."""
        if name not in FLAGS:
            raise AttributeError(f"Unrecognized config option: {name}")
        return FLAGS[name]._global

    @property
    def x64_enabled(self) -> bool:
        """Whether 64-bit dtypes are in use: the value of `jax_enable_x64`."""
        return enable_x64.value

    @property
    def values(self) -> dict[str, Any]:
        """All flags and the values in force."""
        return {name: flag.value for name, flag in FLAGS.items()}


config = Config()
