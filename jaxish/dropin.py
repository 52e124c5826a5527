"""`import jax` served by jaxish: `jaxish.dropin.install()` before the first `import jax`."""

from ._dropin import install as install
from ._dropin import uninstall as uninstall
