"""What kernels for Triton call, as the interpreter has it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from ..._core import refs
from ..._core.array import Array, as_array
from ..._lax.shapes import pad
from ..._numpy.contractions import matmul
from ..._numpy.dynamic_index import Slice, dims_of
from ..._numpy.selection import where
from ..._numpy.ufuncs import maximum, minimum
from .specifications import uninitialized


@dataclass(frozen=True)
class CompilerParams:
    """How Triton is to compile: of no effect in an interpreter."""

    num_warps: int | None = None
    num_stages: int | None = None


def load(
    ref: Any, *, mask: Any = None, other: Any = None, cache_modifier: str | None = None,
    eviction_policy: str | None = None, volatile: bool = False,
) -> Array:  # fmt: skip
    """Return what a reference holds; `other` where a mask is false. The rest is for Triton."""
    if mask is None:
        return ref[...]
    part = _Part.of(ref)
    found = ref[...] if part is None else part.padded()[part.index]
    if other is None:
        return found
    return where(mask, found, as_array(other).astype(found.dtype))


def store(ref: Any, val: Any, *, mask: Any = None, eviction_policy: str | None = None) -> None:
    """Write into a reference, where a mask is true. The rest is for Triton."""
    part = None if mask is None else _Part.of(ref)
    if mask is None:
        ref[...] = val
    elif part is None:
        ref[...] = where(mask, val, ref[...])
    else:
        padded = part.padded()
        written = padded.at[part.index].set(where(mask, val, padded[part.index]))
        part.whole[...] = written[tuple(map(slice, part.whole.shape))]


@dataclass(frozen=True)
class _Part:
    """A part of a reference which is read and written under a mask: a window may go beyond its end, and is not moved."""

    whole: Any
    index: tuple[Any, ...]

    @staticmethod
    def of(ref: Any) -> "_Part | None":
        indexed = ref.indexed if isinstance(ref, refs.TransformedRef) else None
        if indexed is None or not any(isinstance(entry, Slice) for entry in indexed[1]):
            return None
        return _Part(*indexed)

    def padded(self) -> Array:
        """Return what the whole reference holds, and as much after it as windows may go beyond it."""
        whole = self.whole[...]
        amounts = [(0, 0, 0)] * whole.ndim
        for entry, dim in zip(self.index, dims_of(self.index, whole.ndim), strict=True):
            if isinstance(entry, Slice):
                amounts[dim] = (0, entry.size * entry.stride, 0)
        return pad(whole, uninitialized((), whole.dtype), amounts)


def _atomic(function: Callable[[Array, Any], Any], what: str) -> Callable[..., Array]:
    def atomic(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Array:
        ref = x_ref_or_view.at[idx]
        before = load(ref, mask=mask)
        store(ref, as_array(function(before, val)).astype(before.dtype), mask=mask)
        return before

    atomic.__name__, atomic.__doc__ = f"atomic_{what}", f"Write `{what}` of an element and a value; return the element."
    return atomic


atomic_add = _atomic(lambda x, value: x + value, "add")
atomic_and = _atomic(lambda x, value: x & value, "and")
atomic_max = _atomic(maximum, "max")
atomic_min = _atomic(minimum, "min")
atomic_or = _atomic(lambda x, value: x | value, "or")
atomic_xchg = _atomic(lambda x, value: value, "xchg")
atomic_xor = _atomic(lambda x, value: x ^ value, "xor")


def atomic_cas(ref: Any, cmp: Any, val: Any) -> Array:
    """Write a value where the element is equal to `cmp`; return the element."""
    before = ref[...]
    ref[...] = where(before == cmp, val, before)
    return before


def debug_barrier() -> None:
    """Do nothing: programs run one after the other."""


def dot(
    a: Any, b: Any, trans_a: bool = False, trans_b: bool = False, allow_tf32: bool | None = None, precision: Any = None
) -> Array:
    """Return the product of two matrices, in float32 where they are shorter floats."""
    return matmul(a.T if trans_a else a, b.T if trans_b else b, precision=precision, preferred_element_type="float32")


def max_contiguous(x: Any, values: Any) -> Any:
    """Return `x`, of which `values` say to compilers how many numbers follow each other."""
    return x


def approx_tanh(x: Any) -> NoReturn:
    """Refused: an instruction of GPUs."""
    raise NotImplementedError("approx_tanh is an instruction of GPUs. Use jax.numpy.tanh.")


def elementwise_inline_asm(asm: str, **options: Any) -> NoReturn:
    """Refused: code for GPUs."""
    raise NotImplementedError("elementwise_inline_asm is code for GPUs. Write what it computes by jax.numpy.")
