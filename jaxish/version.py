"""The version: that of the JAX release whose behaviour is implemented, then our own release number."""

__version__ = "0.10.2.1"
__version_info__ = tuple(map(int, __version__.split(".")[:3]))
