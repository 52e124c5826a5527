"""jax.experimental.random: a generator that keeps count of its draws, as NumPy's do."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core import graph
from .._core.array import Array
from .._core.refs import Ref, new_ref
from .._core.tree import register_dataclass
from .._core.typing import ArrayLike, DTypeLike
from .._numpy.creation import asarray, zeros
from .._random.integers import randint
from .._random.keys import fold_in, key, split
from .._random.uniforms import normal, uniform


def _shape(size: Any, *args: ArrayLike) -> tuple[int, ...]:
    if size is None:
        return np.broadcast_shapes(*map(np.shape, args))
    if isinstance(size, int | np.integer):
        return (operator.index(size),)
    return tuple(map(operator.index, size))


@register_dataclass
@dataclass(frozen=True, slots=True)
class StatefulPRNG:
    """A generator of random arrays: a key, and a reference to the number of draws so far. `stateful_rng` makes it.

    It is a pytree: jitted functions, loops and `vmap` (after `split`) take it, and their draws count.
    """

    _base_key: Array
    _counter: Ref

    def key(self, shape: int | Sequence[int] = ()) -> Array:
        """Return a key, or as many as `shape` says, and count it. Raises `ValueError` for a generator that was split."""
        if self._base_key.shape:
            raise ValueError("cannot operate on split stateful generator: map over it by jax.vmap, or use spawn.")
        drawn = fold_in(self._base_key, self._counter[...])
        self._counter.addupdate(1, ...)
        wanted = _shape(shape)
        return split(drawn, wanted) if wanted else drawn

    def random(self, size: int | Sequence[int] | None = None, dtype: DTypeLike = float) -> Array:
        """Return numbers in [0, 1), by default one."""
        return uniform(self.key(), _shape(size), dtype)

    def uniform(
        self, low: ArrayLike = 0, high: ArrayLike = 1, size: int | Sequence[int] | None = None, *, dtype: DTypeLike = float
    ) -> Array:  # fmt: skip
        """Return numbers in [low, high), by default in the shape of the two."""
        return uniform(self.key(), _shape(size, low, high), minval=low, maxval=high, dtype=dtype)

    def normal(
        self, loc: ArrayLike = 0, scale: ArrayLike = 1, size: int | Sequence[int] | None = None, *, dtype: DTypeLike = float
    ) -> Array:  # fmt: skip
        """Return normally distributed numbers, by default in the shape of the two."""
        drawn = normal(self.key(), _shape(size, loc, scale), dtype)
        return (asarray(loc) + asarray(scale) * drawn).astype(dtype)

    def integers(
        self, low: ArrayLike, high: ArrayLike | None = None, size: int | Sequence[int] | None = None, *,
        dtype: DTypeLike = int,
    ) -> Array:  # fmt: skip
        """Return integers in [low, high), or in [0, low)."""
        low, high = (0, low) if high is None else (low, high)
        return randint(self.key(), _shape(size, low, high), minval=low, maxval=high, dtype=dtype)

    def split(self, num: int | Sequence[int]) -> "StatefulPRNG":
        """Return as many generators as `num` says, as one that `jax.vmap` maps over."""
        return StatefulPRNG(self.key(num), new_ref(zeros(num, dtype=int)))

    def spawn(self, n_children: int) -> list["StatefulPRNG"]:
        """Return `n_children` generators."""
        return [StatefulPRNG(child, new_ref(0)) for child in self.key(n_children)]


def stateful_rng(seed: ArrayLike | None = None, *, impl: Any = None) -> StatefulPRNG:
    """Return a generator for a seed, or, outside of transformed code, for one that the system draws.

    `impl` is the kind of its key, as that of `jax.random.key`. Raises `TypeError` within transformed code without a seed.
    """
    if seed is None:
        if graph.is_tracing():
            raise TypeError(
                "When used within transformed code, jax.experimental.random.stateful_rng() requires an explicit seed to be set."
            )
        entropy: Any = np.random.SeedSequence().entropy
        seed = np.int64(entropy & np.iinfo(np.int64).max)
    return StatefulPRNG(key(seed, impl=impl), new_ref(0))
