"""A sample of the loops that `make fuzz` draws."""

import arrays
import carries
import pytest
import tiers

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("seed", (0, 1, 2, 109))
def test_drawn_loops_that_set_elements(seed):
    drawn = carries.draw(seed)
    with tiers.tier("compiled"):
        assert not list(arrays.differences(drawn, carries.ways)), drawn.text
