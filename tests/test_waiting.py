"""Threads that share an operator sleep while they wait for each other, unless the user wants it otherwise."""

import os
import re
import subprocess
import sys

import pytest
import torch

pytestmark = pytest.mark.skipif(
    not (torch.backends.openmp.is_available() and sys.platform == "linux"), reason="libgomp is what is told"
)


@pytest.mark.parametrize(
    "given, modules, tries",
    [
        ({}, "jaxish", "3000"),
        ({}, "torch, jaxish", "300000"),
        ({"GOMP_SPINCOUNT": "77"}, "jaxish", "77"),
        ({"OMP_WAIT_POLICY": "passive"}, "jaxish", "0"),
    ],
)
def test_how_often_threads_try_before_they_sleep(given, modules, tries):
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    environment = {k: v for k, v in os.environ.items() if k not in names} | {"OMP_DISPLAY_ENV": "verbose"} | given
    program = f"import os, {modules}; print({{k: os.environ[k] for k in {names} if k in os.environ}})"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{given}\n"  # what else the program starts is told nothing
    assert re.findall(r"GOMP_SPINCOUNT = '(\d+)'", done.stderr) == [tries]
