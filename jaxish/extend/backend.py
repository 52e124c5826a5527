"""jax.extend.backend: platforms, and forgetting what was compiled."""

from .._transforms.backends import backend_xla_version as backend_xla_version
from .._transforms.backends import backends as backends
from .._transforms.backends import clear_backends as clear_backends
from .._transforms.backends import clear_in_memory_compilation_cache as clear_in_memory_compilation_cache
from .._transforms.backends import get_backend as get_backend
from .._transforms.backends import get_compile_options as get_compile_options
from .._transforms.backends import get_default_device as get_default_device
from .._transforms.backends import register_backend_cache as register_backend_cache
from .._transforms.backends import register_backend_factory as register_backend_factory
