"""Loads compiled functions that tests/test_serialize_executable.py has serialized, and saves what they give.

Arguments: the folder, with `functions.pickle` (bytes, trees and arguments by name); results go to `results.pickle`.
"""

import pathlib
import pickle
import sys

import numpy as np

import jaxish
from jaxish.experimental.serialize_executable import deserialize_and_load

folder = pathlib.Path(sys.argv[1])
results = {}
for name, (blob, in_tree, out_tree, args, kwargs) in pickle.loads((folder / "functions.pickle").read_bytes()).items():
    loaded = deserialize_and_load(blob, in_tree, out_tree)
    results[name] = jaxish.tree.map(np.asarray, loaded(*args, **kwargs)), str(loaded.in_tree), str(loaded.out_tree)
(folder / "results.pickle").write_bytes(pickle.dumps(results))
