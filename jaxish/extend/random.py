"""jax.extend.random: generators of one's own, and the ones there are."""

from .._random.extend import define_prng_impl as define_prng_impl
from .._random.extend import random_seed as random_seed
from .._random.extend import seed_with_impl as seed_with_impl
from .._random.extend import threefry2x32_p as threefry2x32_p
from .._random.extend import threefry_2x32 as threefry_2x32
from .._random.generators import rbg_prng_impl as rbg_prng_impl
from .._random.generators import threefry_prng_impl as threefry_prng_impl
from .._random.generators import unsafe_rbg_prng_impl as unsafe_rbg_prng_impl
