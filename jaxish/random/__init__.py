"""jax.random: random numbers as pure functions of keys, equal to JAX's."""

from .keys import PRNGKey as PRNGKey
from .keys import fold_in as fold_in
from .keys import key as key
from .keys import key_data as key_data
from .keys import key_impl as key_impl
from .keys import split as split
from .keys import wrap_key_data as wrap_key_data
from .uniforms import bits as bits
from .uniforms import normal as normal
from .uniforms import uniform as uniform
