"""What jaxish has at its public paths and JAX has not.

It is reached by its name, and is nothing that `dir(jax)` shows or that `import jax.X` finds where jaxish runs as JAX.
"""

MODULES = frozenset({"dropin", "functorch", "interop"})
NAMES = MODULES | {"from_torch"}


def names_besides(namespace: dict[str, object], lazy: tuple[str, ...]) -> list[str]:
    """Return what `dir` shows of the package with this namespace and these modules that load when they are named."""
    return sorted((namespace.keys() | set(lazy)) - NAMES)
