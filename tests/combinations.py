"""Few combinations of options for tests: not their product, but each value of each option with each of every other option."""

from collections.abc import Iterable
from typing import Any

from allpairspy import AllPairs


def covering(*options: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Combinations of one value per option in which any two values of different options meet at least once.

    They are the same on each run. A value that raises an error hides the values it meets: those have tests of their own.
    """
    return [tuple(chosen) for chosen in AllPairs([list(values) for values in options])]
