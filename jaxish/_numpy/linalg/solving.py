"""Linear equations, inverses, powers and ranks."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..._core.array import Array, check_arraylike, tensor_of
from ..._core.dimensions import canonical_axes, static_int
from ..._core.promotion import convert, promote_inexact, tensor
from ..._core.symbolic_sizes import index as index_of
from ..._core.torch_modes import in_own_dtypes
from ..._core.typing import ArrayLike
from ..._lax.linalg.primitives import Svd
from ..._transforms.repeated import compiled_when_repeated
from ..._transforms.shown_calls import shown_as_jit
from ..arguments import int_dtype
from ..contractions import PrecisionLike, matmul
from ..einsum import einsum
from ..reductions import sum as array_sum
from .decompositions import adjoint, matrices, svd, svdvals
from .linear_solve import solve_systems
from .norms import norm


@shown_as_jit()
@compiled_when_repeated
def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """Return x with a @ x = b, for a vector `b` or matrices of columns; leading dimensions are broadcast."""
    check_arraylike("jnp.linalg.solve", a, b)
    if tensor("solve", a).dim() < 2:
        raise ValueError(
            f"left hand array must be at least two dimensional; got a.shape={tuple(tensor('solve', a).shape)}"
        )
    t, c = matrices("solve", a, b)
    if c.dim() > 1 and t.dim() == c.dim() + 1 and t.shape[-1] == c.shape[-1] and t.shape[-1] != c.shape[-2]:
        raise ValueError(
            f"Invalid shapes for solve: {tuple(t.shape)}, {tuple(c.shape)}. For a batched 1-dimensional solve use "
            "solve(a, b[..., None])[..., 0]."
        )
    if t.shape[-1] != t.shape[-2] or (c.dim() and c.shape[-1 if c.dim() == 1 else -2] != t.shape[-1]) or not c.dim():
        raise ValueError(
            f"solve: shapes must be [..., m, m] and [..., m, n] or [m]; got {tuple(t.shape)} and {tuple(c.shape)}."
        )
    if c.dim() == 1:
        return Array(solve_systems(t, c.unsqueeze(-1).expand(*t.shape[:-1], 1)).squeeze(-1))
    return Array(solve_systems(t, c))


@shown_as_jit()
@compiled_when_repeated
def inv(a: ArrayLike) -> Array:
    """Return the inverses of square matrices; infinities and NaN for singular ones."""
    (t,) = matrices("inv", a, square=True)
    return Array(torch.linalg.inv_ex(t).inverse)


@compiled_when_repeated
@in_own_dtypes
def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: float | None = None, *, numpy_resid: bool = False
) -> tuple[Array, Array, Array, Array]:
    """Return the least-squares solution of a @ x = b, the squared residuals, the rank and the singular values of `a`.

    Singular values below `rcond` times the largest count as zero. With `numpy_resid` (values must be known) the
    residuals are empty where NumPy leaves them out.
    """
    check_arraylike("jnp.linalg.lstsq", a, b)
    (t, c), _ = promote_inexact("lstsq", a, b)
    if t.dim() and c.dim() and t.shape[0] != c.shape[0]:
        raise ValueError("Leading dimensions of input arrays must match")
    is_vector = c.dim() == 1
    c = c.unsqueeze(1) if is_vector else c
    if t.dim() != 2:
        raise TypeError(f"{t.dim()}-dimensional array given. Array must be two-dimensional")
    if c.dim() != 2:
        raise TypeError(f"{c.dim()}-dimensional array given. Array must be one or two-dimensional")
    m, n = t.shape
    if not t.numel():
        s = torch.zeros((0,), dtype=t.dtype, device=t.device)
        rank = torch.zeros((), dtype=torch.int64, device=t.device)
        x = torch.zeros((n, c.shape[1]), dtype=t.dtype, device=t.device)
    else:
        eps = torch.finfo(t.dtype).eps
        limit: Any = eps * max(n, m) if rcond is None else rcond
        if rcond is not None:
            given = convert(tensor("lstsq", rcond), t.real.dtype if t.is_complex() else t.dtype)
            limit = torch.where(given < 0, eps, given)
        s, u, vh = Svd(True, False)(t)  # torch's derivative asks for values where numbers are complex
        kept = (s > 0) & (s >= limit * s[0])
        rank = kept.sum()
        inverse = torch.where(kept, 1 / torch.where(kept, s, 1.0), 0.0).unsqueeze(1).to(t.dtype)
        x = adjoint(vh) @ (inverse * (adjoint(u) @ c))
    if numpy_resid and (m <= n or int(Array(rank)) < n):
        residuals = torch.zeros((0,), dtype=s.dtype, device=t.device)
    else:
        residuals = torch.square(torch.abs(c - t @ x)).sum(0)
    return Array(x.flatten() if is_vector else x), Array(residuals), Array(rank.to(int_dtype())), Array(s)


@shown_as_jit("n")
def matrix_power(a: ArrayLike, n: int) -> Array:
    """Return square matrices to an integer power; negative ones of the inverse. Raises `TypeError` for other shapes."""
    t = tensor("jnp.linalg.matrix_power", a)
    if t.dim() < 2:
        raise TypeError(f"{t.dim()}-dimensional array given. Array must be at least two-dimensional")
    if t.shape[-2] != t.shape[-1]:
        raise TypeError("Last 2 dimensions of the array must be square")
    try:
        n = index_of(n)
    except TypeError:
        raise TypeError(f"exponent must be an integer, got {n}") from None
    if not n:
        return Array(torch.eye(t.shape[-1], dtype=t.dtype, device=t.device).expand(t.shape))
    base = inv(a) if n < 0 else Array(t, getattr(a, "weak_type", False))
    n = abs(n)
    found = None
    while n:
        if n & 1:
            found = base if found is None else matmul(found, base)
        n >>= 1
        base = matmul(base, base) if n else base
    assert found is not None
    return found


@shown_as_jit("hermitian")
def matrix_rank(
    M: ArrayLike, rtol: ArrayLike | None = None, *, hermitian: bool = False, tol: ArrayLike | None = None
) -> Array:
    """Return the ranks of matrices: how many singular values are above `rtol` (`tol` is another name)."""
    if tol is not None:
        if rtol is not None:
            raise ValueError("matrix_rank: only one of tol or rtol may be specified.")
        rtol = tol
    (t,), _ = promote_inexact("jnp.linalg.matrix_rank", M)
    if t.dim() < 2:
        return Array((t != 0).any().to(torch.int32))
    s = tensor_of(svd(Array(t), full_matrices=False, compute_uv=False, hermitian=hermitian))  # pyright: ignore
    if rtol is None:
        limit = s.amax(-1) * max(t.shape[-2:]) * torch.finfo(s.dtype).eps
    else:
        limit = convert(tensor("matrix_rank", rtol), s.dtype)
    return array_sum(Array(s > limit.unsqueeze(-1)), -1)


@shown_as_jit("p")
def cond(x: ArrayLike, p: Any = None) -> Array:
    """Return the condition numbers of matrices in the norm `p` (None or 2: the ratio of the singular values)."""
    (t,), _ = promote_inexact("cond", x)
    if t.dim() < 2:
        raise ValueError(f"jnp.linalg.cond: input array must be at least 2D; got arr.shape={tuple(t.shape)}")
    if not t.shape[-1] or not t.shape[-2]:
        raise ValueError(f"jnp.linalg.cond: input array must not be empty; got arr.shape={tuple(t.shape)}")
    if p is None or p in (2, -2):
        s = tensor_of(svdvals(Array(t)))
        ratio = s[..., 0] / s[..., -1] if p != -2 else s[..., -1] / s[..., 0]
        if p != -2:
            return Array(ratio)
    else:
        if t.shape[-1] != t.shape[-2]:
            raise ValueError(f"jnp.linalg.cond: for p={p!r}, array must be square; got arr.shape={tuple(t.shape)}")
        ratio = tensor_of(norm(Array(t), p, (-2, -1))) * tensor_of(norm(inv(Array(t)), p, (-2, -1)))
    has_nan = torch.isnan(t).any(-1).any(-1)
    return Array(torch.where(torch.isnan(ratio) & ~has_nan, math.inf, ratio))


def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """Return the inverse of `a` as a map from its dimensions after `ind` to those before."""
    t = tensor("tensorinv", a)
    ind = static_int(ind, "ind")
    if ind <= 0:
        raise ValueError(f"ind must be a positive integer; got {ind=}")
    first, second = tuple(t.shape[:ind]), tuple(t.shape[ind:])
    if math.prod(first) != math.prod(second):
        raise ValueError(
            "tensorinv is only possible when the product of the first `ind` dimensions equals that of the remaining "
            f"dimensions. got a.shape={tuple(t.shape)} with {ind=}."
        )
    flat = inv(Array(t.reshape(math.prod(first), math.prod(second))))
    return Array(flat._tensor.reshape((*second, *first)))


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: tuple[int, ...] | None = None) -> Array:
    """Return x with tensordot(a, x, x.ndim) = b; `axes` of `a` are moved to the end first."""
    t, c = tensor("tensorsolve", a), tensor("tensorsolve", b)
    if axes is not None:
        moved = canonical_axes(tuple(axes), t.dim())
        t = t.permute([d for d in range(t.dim()) if d not in moved] + list(moved))
    shape = tuple(t.shape[c.dim() :])
    if tuple(t.shape[: c.dim()]) != tuple(c.shape):
        raise ValueError(
            "After moving axes to end, leading shape of a must match shape of b. got "
            f"a.shape={tuple(t.shape)}, b.shape={tuple(c.shape)}"
        )
    if c.numel() != math.prod(shape):
        raise ValueError(
            f"Input arrays must have prod(a.shape[:b.ndim]) == prod(a.shape[b.ndim:]); got a.shape={tuple(t.shape)}, "
            f"b.ndim={c.dim()}."
        )
    found = solve(Array(t.reshape(c.numel(), math.prod(shape))), Array(c.flatten()))
    return Array(found._tensor.reshape(shape))


def multi_dot(arrays: Sequence[ArrayLike], *, precision: PrecisionLike = None) -> Array:
    """Return the product of several matrices (the first and last may be vectors), in the cheapest order."""
    check_arraylike("jnp.linalg.multi_dot", *arrays)
    found = [tensor("multi_dot", a) for a in arrays]
    if len(found) < 2:
        raise ValueError(f"multi_dot requires at least two arrays; got len(arrays)={len(found)}")
    shapes = [tuple(t.shape) for t in found]
    if found[0].dim() not in (1, 2) or found[-1].dim() not in (1, 2) or any(t.dim() != 2 for t in found[1:-1]):
        raise ValueError(
            "multi_dot: input arrays must all be two-dimensional, except for the first and last array which may be 1 "
            f"or 2 dimensional. Got array shapes {shapes}"
        )
    if any(a[-1] != b[0] for a, b in itertools.pairwise(shapes)):
        raise ValueError(
            "multi_dot: last dimension of each array must match first dimension of following array. Got array shapes "
            f"{shapes}"
        )
    names = [chr(ord("a") + i) for i in np.arange(len(found) + 1)]
    terms = [names[i] + names[i + 1] for i in range(len(found))]
    terms[0] = terms[0] if found[0].dim() == 2 else names[1]
    terms[-1] = terms[-1] if found[-1].dim() == 2 else names[-2]
    output = (names[0] if found[0].dim() == 2 else "") + (names[-1] if found[-1].dim() == 2 else "")
    return einsum(",".join(terms) + "->" + output, *arrays, precision=precision)
