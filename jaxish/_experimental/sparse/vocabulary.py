"""JAX's primitives of matrices as lists of elements: those of `jax.experimental.sparse.COO` and `CSR`.

`bind` takes the arrays that a matrix consists of, and says of what shape it is.
"""

from collections.abc import Sequence
from typing import Any

from ..._core.array import Array
from ..._jaxprs.primitive import Primitive
from .matrices import COO, CSR


def _coo_todense(data: Any, row: Any, col: Any, *, spinfo: Any) -> Array:
    return COO((data, row, col), shape=spinfo.shape).todense()


def _coo_product(data: Any, row: Any, col: Any, dense: Any, *, spinfo: Any, transpose: bool) -> Array:
    matrix = COO((data, row, col), shape=spinfo.shape)
    return (matrix.transpose() if transpose else matrix) @ dense


def _csr_todense(data: Any, indices: Any, indptr: Any, *, shape: Sequence[int]) -> Array:
    return CSR((data, indices, indptr), shape=tuple(shape)).todense()


def _csr_product(data: Any, indices: Any, indptr: Any, dense: Any, *, shape: Sequence[int], transpose: bool) -> Array:
    matrix = CSR((data, indices, indptr), shape=tuple(shape))
    return (matrix.transpose() if transpose else matrix) @ dense


def _fromdense(cls: Any) -> Any:
    def run(mat: Any, *, nse: int, index_dtype: Any) -> list[Array]:
        return list(cls.fromdense(mat, nse=nse, index_dtype=index_dtype).tree_flatten()[0])

    return run


def _primitive(name: str, function: Any, multiple_results: bool = False) -> Primitive:
    primitive = Primitive(name)
    primitive.function, primitive.multiple_results = function, multiple_results
    return primitive


coo_todense_p = _primitive("coo_todense", _coo_todense)
coo_fromdense_p = _primitive("coo_fromdense", _fromdense(COO), multiple_results=True)
coo_matvec_p = _primitive("coo_matvec", _coo_product)
coo_matmat_p = _primitive("coo_matmat", _coo_product)
csr_todense_p = _primitive("csr_todense", _csr_todense)
csr_fromdense_p = _primitive("csr_fromdense", _fromdense(CSR), multiple_results=True)
csr_matvec_p = _primitive("csr_matvec", _csr_product)
csr_matmat_p = _primitive("csr_matmat", _csr_product)
