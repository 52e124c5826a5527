"""jax.tree: the short names of jax.tree_util, and `static`."""

from ._core.tree_util import static
from ._core.tree_util import tree_all as all
from ._core.tree_util import tree_broadcast as broadcast
from ._core.tree_util import tree_flatten as flatten
from ._core.tree_util import tree_flatten_with_path as flatten_with_path
from ._core.tree_util import tree_leaves as leaves
from ._core.tree_util import tree_leaves_with_path as leaves_with_path
from ._core.tree_util import tree_map as map
from ._core.tree_util import tree_map_with_path as map_with_path
from ._core.tree_util import tree_reduce as reduce
from ._core.tree_util import tree_reduce_associative as reduce_associative
from ._core.tree_util import tree_structure as structure
from ._core.tree_util import tree_transpose as transpose
from ._core.tree_util import tree_unflatten as unflatten

__all__ = [
    "all", "broadcast", "flatten", "flatten_with_path", "leaves", "leaves_with_path", "map", "map_with_path", "reduce", "reduce_associative",
    "static", "structure", "transpose", "unflatten",
]  # fmt: skip
