"""jax.extend.ifrt_programs: programs for JAX's runtime. This module only hands names on."""

from .._experimental.ifrt_programs import ifrt_programs as ifrt_programs
