"""jax.experimental.random: generators that keep count of their draws. This module only hands names on."""

from .._experimental.stateful_rng import StatefulPRNG as StatefulPRNG
from .._experimental.stateful_rng import stateful_rng as stateful_rng
