"""The examples give the same numbers under real JAX and under jaxish, and do what they say."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"
CALL = """
import importlib.util, json, sys, types
spec = importlib.util.spec_from_file_location("example", sys.argv[1])
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)
options = types.SimpleNamespace(**json.loads(sys.argv[2]), seed=0, quiet=True)
silent = lambda text: None
"""
TRANSFORMER = """
params, losses, tested, characters = example.train(options, report=silent)
print(json.dumps([losses.tolist(), tested, example.sample(params, characters, options)]))
"""
REGRESSION = """
chains, names, rows = example.infer(options, report=silent)
print(json.dumps([chains.tolist(), names, rows.tolist()]))
"""


def call(tmp_path, name, code, launcher, **options):
    """Return what code prints as JSON after it has loaded an example, in a process of its own."""
    (tmp_path / "call.py").write_text(CALL + code)
    command = [sys.executable, *launcher, "call.py", str(EXAMPLES / name), json.dumps(options)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def both(tmp_path, name, code, **options):
    """Return what code prints under real JAX and under jaxish."""
    return [call(tmp_path, name, code, launcher, **options) for launcher in ([], ["-m", "jaxish", "run"])]


def test_the_transformer_learns_and_writes_the_same_as_under_jax(tmp_path):
    options = {"steps": 12, "every": 4, "batch_size": 4, "context": 24, "rate": 1e-2}
    wanted, found = both(tmp_path, "char_transformer.py", TRANSFORMER, **options)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-4)
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-4)
    assert found[0][-1] < found[0][0]
    assert found[2] == wanted[2] and {len(text) for text in found[2]} == {options["context"]}


def test_the_cache_gives_the_logits_of_the_whole_text(tmp_path):
    code = """
import jax, jax.numpy as jnp
params = example.init(jax.random.key(0), 50, 10)
tokens = jax.random.randint(jax.random.key(1), (10,), 0, 50)
cache = (jnp.zeros((example.LAYERS, 10, example.HEADS, example.WIDTH // example.HEADS)),) * 2
found = []
for place in range(10):
    logits, cache = example.next_logits(params, cache, tokens[place], place)
    found.append(logits)
print(json.dumps([jnp.stack(found).tolist(), example.logits(params, tokens).tolist()]))
"""
    found, wanted = call(tmp_path, "char_transformer.py", code, ["-m", "jaxish", "run"])
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


def test_the_sampler_draws_the_same_as_under_jax(tmp_path):
    options = {"chains": 2, "warm_up": 6, "draws": 4, "blocks": 2, "steps": 3}
    (wanted, names, rows), found = both(tmp_path, "hmc_regression.py", REGRESSION, **options)
    np.testing.assert_allclose(found[0], wanted, rtol=1e-3, atol=1e-4)
    assert found[1] == names
    np.testing.assert_allclose(np.array(found[2])[:, :4], np.array(rows)[:, :4], rtol=1e-2, atol=1e-3)


def test_the_sampler_agrees_with_the_closed_form(tmp_path):
    options = {"chains": 4, "warm_up": 150, "draws": 200, "blocks": 2, "steps": 8}
    rows = np.array(call(tmp_path, "hmc_regression.py", REGRESSION, ["-m", "jaxish", "run"], **options)[2])
    mean, deviation, wanted_mean, wanted_deviation, r_hat, size = rows.T
    # Four standard errors of a mean of that many independent draws.
    assert np.all(np.abs(mean - wanted_mean) < 4 * wanted_deviation / np.sqrt(size))
    np.testing.assert_allclose(deviation, wanted_deviation, rtol=0.3)
    assert r_hat.max() < 1.1


@pytest.mark.parametrize("name", [path.name for path in EXAMPLES.glob("*.py")])
def test_examples_are_written_against_jax_alone(name):
    lines = (EXAMPLES / name).read_text().splitlines()
    assert "jaxish" not in [line.split()[1] for line in lines if line.startswith(("import ", "from "))]


PRIVATE = """
rows, norms = example.train(options, report=silent)
print(json.dumps([rows, norms.tolist()]))
"""


@pytest.mark.parametrize("clipping", ["by hand", "optax"])
def test_the_private_transformer_learns_the_same_as_under_jax(tmp_path, clipping):
    if clipping == "optax":
        pytest.importorskip("optax")
    options = {
        "clipping": clipping, "steps": 6, "every": 3, "batch_size": 32, "microbatch": 22, "length": 16, "held_out": 50,
        "rate": 1e-2, "clip": 1.0, "noise": 0.5,
    }  # fmt: skip
    (wanted, norms), (found, found_norms) = both(tmp_path, "dp_sgd_transformer.py", PRIVATE, **options)
    np.testing.assert_allclose(found, wanted, rtol=1e-4)
    np.testing.assert_allclose(found_norms, norms, rtol=1e-3, atol=1e-5)
    assert found[-1][1] < found[0][1] and found[-1][2] > found[0][2]


FLAX = """
rows, read = example.train(options, report=silent)
print(json.dumps([rows, read.tolist()]))
"""


def test_the_flax_network_learns_the_same_as_under_jax(tmp_path):
    for library in ("flax", "optax"):
        pytest.importorskip(library)
    (wanted, digits), (found, found_digits) = both(
        tmp_path, "flax_digits.py", FLAX, epochs=2, batch_size=256, rate=2e-2
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=5e-3)
    assert np.mean(np.array(found_digits) == digits) > 0.99
    assert found[1][1] < found[0][1]


SERVED = """
import pathlib
print(json.dumps(example.run(options, pathlib.Path("."), report=silent)))
"""


def test_an_exported_model_is_served_without_jaxish(tmp_path):
    rows = call(tmp_path, "serve_exported.py", SERVED, [], epochs=8, batch_size=64, rate=0.05)
    assert [name for name, *_ in rows] == ["portable.pt2", "compiled.pt2"][: len(rows)]
    assert len({accuracy for _, accuracy, _ in rows}) == 1
    assert rows[0][1] > 0.9
