"""jax.lax.linalg: factorizations and solvers of matrices, batched over leading dimensions."""

from .._lax.linalg.factorizations import EighImplementation as EighImplementation
from .._lax.linalg.factorizations import EigImplementation as EigImplementation
from .._lax.linalg.factorizations import SvdAlgorithm as SvdAlgorithm
from .._lax.linalg.factorizations import cholesky as cholesky
from .._lax.linalg.factorizations import eig as eig
from .._lax.linalg.factorizations import eigh as eigh
from .._lax.linalg.factorizations import lu as lu
from .._lax.linalg.factorizations import lu_pivots_to_permutation as lu_pivots_to_permutation
from .._lax.linalg.factorizations import qr as qr
from .._lax.linalg.factorizations import schur as schur
from .._lax.linalg.factorizations import svd as svd
from .._lax.linalg.reflections import hessenberg as hessenberg
from .._lax.linalg.reflections import householder_product as householder_product
from .._lax.linalg.reflections import ormqr as ormqr
from .._lax.linalg.reflections import tridiagonal as tridiagonal
from .._lax.linalg.solvers import cholesky_update as cholesky_update
from .._lax.linalg.solvers import qdwh as qdwh
from .._lax.linalg.solvers import symmetric_product as symmetric_product
from .._lax.linalg.solvers import triangular_solve as triangular_solve
from .._lax.linalg.solvers import tridiagonal_solve as tridiagonal_solve
from .._lax.linalg.vocabulary import of_linalg as _primitives

globals().update(_primitives())
