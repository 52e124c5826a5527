"""The stress script in its short form; the long one is `python -m tests.stress`."""

import pathlib
import subprocess
import sys


def test_the_short_form():
    sizes = "--threads 16 --seconds 4 --tiers direct auto --graphs 300 --compiled-graphs 0 --operators 300 --leaves 1000 --kills 2"
    root = pathlib.Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-m", "tests.stress", *sizes.split()], cwd=root, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "kills: 2 survived"
