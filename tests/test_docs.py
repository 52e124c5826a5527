"""The documentation is built without a warning, and its examples give what they say."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sphinx")

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("builder", ["html", "doctest"])
def test_the_documentation_is_built_without_a_warning(builder, tmp_path):
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("_build", "notebooks"))
    for linked in ("examples", "notebooks"):
        shutil.copytree(ROOT / linked, tmp_path / linked, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", builder, "docs", "built"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert list((tmp_path / "built").glob("index.html" if builder == "html" else "output.txt"))
