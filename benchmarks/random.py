"""Drawing a million numbers, eagerly and under jit."""

from collections.abc import Callable
from typing import Any

from .harness import Case

SIZE = (1_000_000,)


def _case(name: str, draw: Callable[[Any, Any], Any], target: float = 1.0) -> list[Case]:
    def eager(jax: Any) -> Any:
        key = jax.random.key(0)
        return lambda: draw(jax, key)

    def jitted(jax: Any) -> Any:
        key, f = jax.random.key(0), jax.jit(lambda key: draw(jax, key))
        return lambda: f(key)

    return [Case(f"{name}, eager", eager, target), Case(f"{name}, jit", jitted, target)]


CASES = [
    *_case("bits", lambda j, k: j.random.bits(k, SIZE)),
    *_case("uniform", lambda j, k: j.random.uniform(k, SIZE)),
    *_case("normal", lambda j, k: j.random.normal(k, SIZE)),
    *_case("randint", lambda j, k: j.random.randint(k, SIZE, 0, 100)),
    *_case("permutation", lambda j, k: j.random.permutation(k, SIZE[0])),
    *_case("categorical", lambda j, k: j.random.categorical(k, j.numpy.zeros(10), shape=SIZE)),
    *_case("gamma", lambda j, k: j.random.gamma(k, 2.0, (10_000,))),
    *_case("split into 1,000", lambda j, k: j.random.split(k, 1000)),
]
