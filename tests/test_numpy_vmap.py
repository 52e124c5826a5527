"""No function of jax.numpy falls back to torch's loop over examples under vmap."""

import warnings

import numpy as np
import pytest

import jaxish
import jaxish.numpy as jnp

RNG = np.random.RandomState(0)
FLOATS = RNG.rand(2, 3).astype(np.float32)
SQUARE = (RNG.rand(2, 3, 3) + 3 * np.eye(3)).astype(np.float32)
CUBE = RNG.rand(2, 3, 2, 4).astype(np.float32)
INTS = RNG.randint(0, 3, (2, 3)).astype(np.int32)
BOOLS = RNG.rand(2, 3) > 0.5
# Arguments of many shapes and dtypes, each with a leading batch of two; a function takes those that suit it.
CANDIDATES = [
    (FLOATS,), (FLOATS, FLOATS), (SQUARE,), (SQUARE, SQUARE), (SQUARE, FLOATS), (INTS,), (INTS, INTS), (BOOLS,),
    (BOOLS, BOOLS), (CUBE,), (FLOATS, FLOATS, FLOATS), (BOOLS, FLOATS, FLOATS), (FLOATS, INTS), (SQUARE[..., :2], INTS),
    (FLOATS + 1j * FLOATS,), (SQUARE + 1j * SQUARE,),
]  # fmt: skip
MODULES = {"": jnp, "linalg.": jnp.linalg, "fft.": jnp.fft}
FUNCTIONS = {
    prefix + name: getattr(module, name)
    for prefix, module in MODULES.items()
    for name in dir(module)
    if not name.startswith("_") and callable(getattr(module, name)) and not isinstance(getattr(module, name), type)
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_batches_natively(name):
    tried = 0
    for args in CANDIDATES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.filterwarnings("error", message=".*performance drop.*")
            try:
                jaxish.vmap(FUNCTIONS[name])(*args)
            except UserWarning as warning:
                pytest.fail(f"{name} of {[a.shape for a in args]}: {warning}")
            except Exception:
                continue  # not arguments of this function
            tried += 1
    if not tried:
        pytest.skip("takes none of the candidate arguments")
