"""The main job gives the same numbers under real JAX and under jaxish, and learns under a privacy budget."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

EXAMPLE = pathlib.Path(__file__).parent.parent / "examples" / "dp_sgd_digits.py"
TRAIN = """
import importlib.util, json, sys, types
options = types.SimpleNamespace(**json.loads(sys.argv[2]))
spec = importlib.util.spec_from_file_location("dp_sgd_digits", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(json.dumps(module.train(options, report=lambda text: None)))
"""


def train(tmp_path, launcher, **changes):
    options = {
        "model": "mlp",
        "epochs": 2,
        "batch_size": 256,
        "rate": 0.5,
        "clip": 1.0,
        "noise": 2.0,
        "seed": 0,
        "quiet": True,
    }
    (tmp_path / "train.py").write_text(TRAIN)
    command = [sys.executable, *launcher, "train.py", str(EXAMPLE), json.dumps({**options, **changes})]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return np.array(json.loads(result.stdout))


@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_the_same_numbers_under_jax_and_under_jaxish(tmp_path, model):
    wanted = train(tmp_path, [], model=model)
    found = train(tmp_path, ["-m", "jaxish", "run"], model=model)
    assert abs(found[0, 1] - wanted[0, 1]) < 1e-5
    np.testing.assert_allclose(found, wanted, atol=1e-3)


def test_over_90_percent_at_epsilon_below_8(tmp_path):
    rows = train(tmp_path, ["-m", "jaxish", "run"], epochs=15)
    _, _, accuracy, epsilon = rows[-1]
    assert accuracy > 0.9
    assert epsilon <= 8


def test_the_example_is_written_against_jax_alone():
    assert "jaxish" not in [
        line.split()[1] for line in EXAMPLE.read_text().splitlines() if line.startswith(("import ", "from "))
    ]
    assert importlib.util.find_spec("sklearn") is not None
