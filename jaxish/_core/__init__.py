"""Floor 1: what everything else stands on. See docs/architecture.md for the order of these modules."""

from . import garbage

with garbage.no_collection():
    from . import waiting as waiting  # isort: skip  # before torch is there
    from . import forks as forks  # for what it does
