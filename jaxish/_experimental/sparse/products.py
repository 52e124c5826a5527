"""The two products that all others come down to: a sparse matrix times a dense one, and elements of a dense product.

A sparse matrix is given by the values, rows and columns of its elements, in any order, duplicates added. The two are
each other's derivatives. On a CPU with two cores, 1% of 4096 x 4096 times a dense matrix of 1024 columns takes torch's
kernel for compressed rows 15 ms, where adding scaled rows one by one takes 240 ms.
"""

import functools
import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

from ..._compile.structured import Opaque
from ..._core.graph import TensorType
from ..._core.primitive import Dims, batch_front, conjugate, differentiable, instantiate
from ..._core.target import Target
from ..._core.torch_modes import in_own_dtypes

_COMPRESSED = (torch.float32, torch.float64, torch.complex64, torch.complex128)
_LEAST_COLUMNS = 8  # below, sorting the elements by rows costs more than it saves
_MOST_ELEMENTS = 1 << 24  # of what is gathered at a time


def _one_batch(size: int, dims: Dims, inputs: Sequence[Tensor], offsets: Sequence[int]) -> list[Tensor]:
    """Return inputs with their batch as blocks along the diagonal: indices are offset by `offsets` a block."""
    made = []
    for t, d, offset in zip(inputs, dims, offsets, strict=True):
        t = batch_front(t, d, size)
        if offset:
            t = t + offset * torch.arange(size, dtype=t.dtype, device=t.device).unsqueeze(-1)
        made.append(t.flatten(0, 1))
    return made


@functools.cache
def _say_once_that_it_is_beta() -> None:
    """Take the warning that torch gives once in a process, with the first tensor of compressed rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.sparse_csr_tensor([0, 0], [], [], (1, 1), dtype=torch.float32, device="cpu", check_invariants=False)


class SparseProduct(Opaque):
    """The matrix with `rows` rows and elements (values, rows, columns) times a dense matrix."""

    __name__ = "sparse_product"

    def __init__(self, rows: int, is_sorted: bool = False) -> None:
        self.rows, self.is_sorted = rows, is_sorted

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        dense = inputs[3]
        return [TensorType((self.rows, dense.shape[1]), dense.dtype, dense.device)]

    @in_own_dtypes
    def run(self, *inputs: Tensor) -> list[Tensor]:
        values, rows, columns, dense = inputs
        worthwhile = self.is_sorted or dense.shape[1] >= _LEAST_COLUMNS
        if worthwhile and dense.dtype in _COMPRESSED and dense.numel() and values.numel() and self.rows:
            return [self._by_rows(values, rows, columns, dense)]
        return self.spelled_out(None, *inputs)

    def _by_rows(self, values: Tensor, rows: Tensor, columns: Tensor, dense: Tensor) -> Tensor:
        if not self.is_sorted:
            rows, order = torch.sort(rows.to(self._least_dtype()), stable=True)
            values, columns = values[order], columns[order]
        ends = torch.nn.functional.pad(torch.bincount(rows, minlength=self.rows).cumsum(0), (1, 0))
        shape = (self.rows, dense.shape[0])
        _say_once_that_it_is_beta()
        matrix = torch.sparse_csr_tensor(ends, columns, values, shape, device=values.device, check_invariants=False)
        return matrix @ dense

    def _least_dtype(self) -> torch.dtype:
        # torch sorts integers by their bytes: 160,000 of two bytes take it 0.7 ms, of eight 3 ms.
        return next(dtype for dtype in (torch.int16, torch.int32, torch.int64) if self.rows <= torch.iinfo(dtype).max)

    def spelled_out(self, target: Target | None, *inputs: Tensor) -> list[Tensor]:
        values, rows, columns, dense = inputs
        blank = torch.zeros((self.rows, dense.shape[1]), dtype=dense.dtype, device=dense.device)
        step = max(1, _MOST_ELEMENTS // max(dense.shape[1], 1))
        for start in range(0, values.shape[0], step):
            part = slice(start, start + step)
            blank = blank.index_add(0, rows[part], values[part].unsqueeze(-1) * dense.index_select(0, columns[part]))
        return [blank]

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        if dims[0] is dims[1] is dims[2] is None:  # one matrix for all: the batch becomes more columns
            dense = inputs[3].movedim(dims[3] or 0, -1)
            (result,) = self(*inputs[:3], dense.flatten(1))
            return [result.unflatten(1, dense.shape[1:])], [2]
        height = batch_front(inputs[3], dims[3], size).shape[1]
        given = _one_batch(size, dims, inputs, (0, self.rows, height, 0))
        (result,) = SparseProduct(size * self.rows, self.is_sorted)(*given)
        return [result.unflatten(0, (size, self.rows))], [0]

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        values, rows, columns, dense = primals
        moved, _, _, turned = tangents
        parts = [] if moved is None else self(moved, rows, columns, dense)
        parts += [] if turned is None else self(values, rows, columns, turned)
        return [sum(parts[1:], parts[0])] if parts else [None]

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        values, rows, columns, dense = primals
        back = instantiate(cotangents[0], results[0])
        (to_values,) = SAMPLED_PRODUCT(back, conjugate(dense), rows, columns)
        (to_dense,) = SparseProduct(dense.shape[0])(conjugate(values), columns, rows, back)
        return [to_values, None, None, to_dense]


class SampledProduct(Opaque):
    """The elements at (rows, columns) of the product of a matrix and a transposed one."""

    __name__ = "sampled_product"

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        left, _, rows, _ = inputs
        return [TensorType((rows.shape[0],), left.dtype, left.device)]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        left, right, rows, columns = inputs
        step = max(1, _MOST_ELEMENTS // max(left.shape[1], 1))
        parts = [
            (left.index_select(0, rows[i : i + step]) * right.index_select(0, columns[i : i + step])).sum(1)
            for i in range(0, rows.shape[0], step)
        ]
        found = torch.cat(parts) if parts else left.new_zeros((0,))
        return [found.to(left.dtype)]

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        heights = [batch_front(t, d, size).shape[1] for t, d in zip(inputs[:2], dims[:2], strict=True)]
        (result,) = self(*_one_batch(size, dims, inputs, (0, 0, *heights)))
        return [result.unflatten(0, (size, -1))], [0]

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        left, right, rows, columns = primals
        parts = [] if tangents[0] is None else self(tangents[0], right, rows, columns)
        parts += [] if tangents[1] is None else self(left, tangents[1], rows, columns)
        return [sum(parts[1:], parts[0])] if parts else [None]

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        left, right, rows, columns = primals
        back = instantiate(cotangents[0], results[0])
        (to_left,) = SparseProduct(left.shape[0])(back, rows, columns, conjugate(right))
        (to_right,) = SparseProduct(right.shape[0])(back, columns, rows, conjugate(left))
        return [to_left, to_right, None, None]


SAMPLED_PRODUCT = SampledProduct()


def sparse_product(
    values: Tensor, rows: Tensor, columns: Tensor, dense: Tensor, count: int, is_sorted: bool = False
) -> Tensor:
    """Return a sparse matrix with `count` rows times a dense one, for elements of any dtype."""
    dtype = values.dtype
    if differentiable(dtype):
        return SparseProduct(count, is_sorted)(values, rows, columns, dense)[0]
    wide = values.to(torch.int64), dense.to(torch.int64)
    product = SparseProduct(count)(wide[0], rows, columns, wide[1])[0]
    return product != 0 if dtype is torch.bool else product.to(dtype)
