"""A sample of the programs of all dtypes that `make fuzz` draws."""

import arrays
import mixtures
import pytest
import tiers

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("seed", range(4))
def test_drawn_programs_of_all_dtypes(seed):
    drawn = mixtures.draw(seed)
    with tiers.tier("compiled"):
        assert not list(arrays.differences(drawn, mixtures.ways)), drawn.text
