"""Arrays over meshes, named for JAX, jaxish and torch alike: the mesh's shape, its axes, and the partition spec."""

from typing import Any

import numpy as np

VALUES = np.linspace(-2, 2, 64, dtype=np.float32).reshape(8, 8)
X, Y, XY, YX = "x", "y", ("x", "y"), ("y", "x")
LAYOUTS: dict[int, dict[str, Any]] = {
    2: {
        "rows": ((2,), X, (X,)),
        "columns": ((2,), X, (None, X)),
        "whole": ((2,), X, ()),
        "an axis of one": ((1, 2), XY, (YX,)),
    },
    4: {
        "rows": ((4,), X, (X,)),
        "rows and columns": ((2, 2), XY, (X, Y)),
        "columns and rows": ((2, 2), XY, (Y, X)),
        "rows twice": ((2, 2), XY, (XY,)),
        "rows twice, the last axis major": ((2, 2), XY, (YX,)),
        "columns twice, the last axis major": ((2, 2), XY, (None, YX)),
        "rows, replicated": ((2, 2), XY, (Y,)),
    },
}


def sharding(lib, layout):
    """Return a layout as a `NamedSharding` of JAX or jaxish, on the first devices."""
    shape, names, spec = layout
    devices = np.array(lib.devices()[: np.prod(shape)]).reshape(shape)
    return lib.sharding.NamedSharding(lib.sharding.Mesh(devices, names), lib.sharding.PartitionSpec(*spec))
