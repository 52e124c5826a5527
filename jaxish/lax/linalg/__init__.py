"""jax.lax.linalg: factorizations and solvers of matrices, batched over leading dimensions."""

from .factorizations import EighImplementation as EighImplementation
from .factorizations import EigImplementation as EigImplementation
from .factorizations import SvdAlgorithm as SvdAlgorithm
from .factorizations import cholesky as cholesky
from .factorizations import eig as eig
from .factorizations import eigh as eigh
from .factorizations import lu as lu
from .factorizations import lu_pivots_to_permutation as lu_pivots_to_permutation
from .factorizations import qr as qr
from .factorizations import schur as schur
from .factorizations import svd as svd
from .reflections import hessenberg as hessenberg
from .reflections import householder_product as householder_product
from .reflections import ormqr as ormqr
from .reflections import tridiagonal as tridiagonal
from .solvers import cholesky_update as cholesky_update
from .solvers import qdwh as qdwh
from .solvers import symmetric_product as symmetric_product
from .solvers import triangular_solve as triangular_solve
from .solvers import tridiagonal_solve as tridiagonal_solve
