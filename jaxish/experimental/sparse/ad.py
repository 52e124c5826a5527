"""jax.experimental.sparse.ad: derivatives with respect to sparse arrays. This module only hands names on."""

from ..._experimental.sparse.autodiff import grad as grad
from ..._experimental.sparse.autodiff import jacfwd as jacfwd
from ..._experimental.sparse.autodiff import jacobian as jacobian
from ..._experimental.sparse.autodiff import jacrev as jacrev
from ..._experimental.sparse.autodiff import value_and_grad as value_and_grad
from ..._experimental.sparse.base import JAXSparse as JAXSparse
