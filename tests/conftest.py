"""Tests run on the direct tier, unless they are about compilation: values are the same, and nothing compiles."""

import os

os.environ.setdefault("JAXISH_JIT_TIER", "direct")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
