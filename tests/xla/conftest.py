"""Tests on XLA's devices, which the CPU plays: `make test-xla` runs them, where torch_xla is installed."""

import importlib.util
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
REASON = "needs torch_xla, and PJRT_DEVICE set before jaxish asks for devices: run `make test-xla`"


def pytest_collection_modifyitems(items):
    if not os.environ.get("PJRT_DEVICE") or importlib.util.find_spec("torch_xla") is None:
        for item in items:
            if "tests/xla/" in item.path.as_posix():
                item.add_marker(pytest.mark.skip(reason=REASON))
