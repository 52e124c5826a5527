"""Few combinations of options for tests: not their product, but each value of each option with each of every other option."""

from collections.abc import Callable, Iterable
from typing import Any

from allpairspy import AllPairs


def covering(*options: Iterable[Any], where: Callable[..., bool] = lambda *chosen: True) -> list[tuple[Any, ...]]:
    """Combinations of one value per option in which any two values of different options meet at least once.

    They are the same on each run, and `where` allows them. A value that raises an error hides the values that it meets:
    it has tests of its own.
    """
    rows = AllPairs(
        [list(values) for values in options], filter_func=lambda chosen: len(chosen) < len(options) or where(*chosen)
    )
    return [tuple(chosen) for chosen in rows]
