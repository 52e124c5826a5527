"""Structured control flow: loops and branches that are traced once, whatever their values."""

from .associative_scan import associative_scan as associative_scan
from .cond import cond as cond
from .cond import switch as switch
from .map import map as map
from .platforms import platform_dependent as platform_dependent
from .scan import scan as scan
from .sequential_vmap import sequential_vmap as sequential_vmap
from .solves import custom_linear_solve as custom_linear_solve
from .solves import custom_root as custom_root
from .while_loop import fori_loop as fori_loop
from .while_loop import while_loop as while_loop
