"""A sample of the programs on arrays that `make fuzz` draws."""

import arrays
import pytest
import tiers

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("seed", range(8))
def test_drawn_programs_on_arrays(seed):
    drawn = arrays.draw(seed)
    with tiers.tier("compiled"):
        assert not list(arrays.differences(drawn)), drawn.text
